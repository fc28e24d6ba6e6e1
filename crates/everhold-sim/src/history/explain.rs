//! The explanation that is given when no order explains a history.

use everhold_trace::Value;

use super::Model;
use super::search::Item;
use crate::report::text::count;

/// The number of operations to list before the one that does not fit; the state shows the effect of
/// the others.
const LISTED_MAX: usize = 8;

/// The number of possible answers to list.
const POSSIBLE_MAX: usize = 4;

/// Shows the operation that does not fit, its possible answers, and the shortest final part of an
/// order of everything before it.
pub(super) fn explain<M: Model>(
    model: &M,
    items: &[Item<'_, M>],
    order: Option<&[usize]>,
    misfit: usize,
    possible: &[M::Ret],
) -> String {
    let headline = format!("no order explains {}{}", call(&items[misfit]), could_be(possible));
    headline + &order.map(|order| before(model, items, order, misfit)).unwrap_or_default()
}

fn before<M: Model>(model: &M, items: &[Item<'_, M>], order: &[usize], misfit: usize) -> String {
    let (hidden, listed) = order.split_at(order.len().saturating_sub(LISTED_MAX));
    let mut state = model.clone();
    hidden.iter().for_each(|at| drop(state.apply(items[*at].op)));
    let mut text = format!("\n  everything before it fits, beginning with {}", Value::of(&state));
    if !hidden.is_empty() {
        text += &format!(" after {}", count(hidden.len() as u64, "operation"));
    }
    let rows: Vec<[String; 2]> = listed.iter().map(|at| row(items, *at, misfit)).collect();
    let unused = (0..items.len()).filter(|at| *at != misfit && !order.contains(at));
    let unused: Vec<[String; 2]> =
        unused.map(|at| [call(&items[at]), "no answer yet, no effect needed".into()]).collect();
    text + &table(rows.iter().chain(&unused))
}

fn call<M: Model>(item: &Item<'_, M>) -> String {
    match item.answer {
        Some((_, ret)) => format!("{} {:?} -> {ret:?}", item.client, item.op),
        None => format!("{} {:?}", item.client, item.op),
    }
}

fn could_be<Ret: std::fmt::Debug>(possible: &[Ret]) -> String {
    let listed: Vec<String> =
        possible.iter().take(POSSIBLE_MAX).map(|ret| format!("{ret:?}")).collect();
    match possible.len().saturating_sub(POSSIBLE_MAX) {
        _ if possible.is_empty() => String::new(),
        0 => format!(": it could only be {}", listed.join(" or ")),
        more => {
            let more = count(more as u64, "other");
            format!(": it could be {} or {more}", listed.join(", "))
        }
    }
}

/// An operation, and its position in time relative to the one that does not fit.
fn row<M: Model>(items: &[Item<'_, M>], at: usize, misfit: usize) -> [String; 2] {
    let place = match items[at].returned() {
        _ if at == misfit => "itself, with another answer",
        None => "no answer yet",
        Some(returned) if returned < items[misfit].invoked => "before it",
        Some(_) => "overlaps it",
    };
    [call(&items[at]), place.to_owned()]
}

fn table<'a>(rows: impl Iterator<Item = &'a [String; 2]> + Clone) -> String {
    let width = rows.clone().map(|[call, _]| call.chars().count()).max().unwrap_or(0);
    rows.map(|[call, place]| format!("\n    {call:width$}   {place}")).collect()
}
