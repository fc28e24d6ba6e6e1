//! Statistics of a run.

use std::collections::BTreeMap;
use std::io::{self, Write};

use everhold_property::{Schema, Type};
use everhold_trace::trace::Fate;
use everhold_trace::{Execution, Order, Slice};

use crate::cmd::check::observe;
use crate::words::{number, short};

/// The number of cuts at which counting stops; there can be exponentially many.
const CUTS_MAX: u64 = 10_000_000;

pub(super) fn write(execution: &Execution, out: &mut impl Write) -> io::Result<()> {
    for (key, value) in execution.notes() {
        line(out, key, &short(&value.to_string(), 100))?;
    }
    nodes(execution, out)?;
    events(execution, out)?;
    let order = Order::of(execution);
    messages(execution, &order, out)?;
    cuts(execution, &order, out)?;
    schema(execution, out)
}

fn line(out: &mut impl Write, what: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{what:16}{text}")
}

/// `3 a, 2 b`, the most frequent first.
fn tally(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let part = |(name, count): (&String, &u64)| format!("{} {name}", number(*count));
    counts.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

fn nodes(execution: &Execution, out: &mut impl Write) -> io::Result<()> {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in execution.nodes() {
        kinds.entry(&node.kind).or_default().push(&node.name);
    }
    line(out, "nodes", &number(execution.nodes().len() as u64))?;
    for (kind, names) in kinds {
        let kind = if kind.is_empty() { "" } else { &format!("{kind}: ") };
        line(out, "", &short(&format!("{kind}{}", names.join(", ")), 100))?;
    }
    let restarts: u32 = execution.nodes().iter().map(|node| node.incarnations - 1).sum();
    if restarts > 0 {
        line(out, "restarts", &number(restarts))?;
    }
    Ok(())
}

fn events(execution: &Execution, out: &mut impl Write) -> io::Result<()> {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for event in execution.events() {
        *kinds.entry(event.kind.word().to_owned()).or_default() += 1;
    }
    let count = number(execution.events().len() as u64);
    line(out, "events", &format!("{count}: {}", tally(&kinds)))?;
    let states = execution.events().iter().filter(|event| event.observation.is_some()).count();
    line(out, "with a state", &number(states as u64))?;
    if !execution.marks().is_empty() {
        line(out, "marks", &number(execution.marks().len() as u64))?;
    }
    if !execution.is_complete() {
        line(out, "end", "missing: the recording stops in the middle")?;
    }
    Ok(())
}

fn messages(execution: &Execution, order: &Order, out: &mut impl Write) -> io::Result<()> {
    let (mut labels, mut fates) = (BTreeMap::new(), BTreeMap::new());
    for message in execution.messages() {
        let fate = match message.fate() {
            Fate::Delivered => "delivered",
            Fate::Lost => "lost",
            Fate::InFlight => "in flight at the end",
        };
        *fates.entry(fate.to_owned()).or_default() += 1;
        let label = execution.send_of(message).map_or("", |send| send.label.as_str());
        if !label.is_empty() {
            *labels.entry(label.to_owned()).or_default() += 1;
        }
    }
    let count = number(execution.messages().len() as u64);
    let fates = if fates.is_empty() { String::new() } else { format!(": {}", tally(&fates)) };
    line(out, "messages", &format!("{count}{fates}"))?;
    if !labels.is_empty() {
        line(out, "message kinds", &tally(&labels))?;
    }
    let twice = order.deliveries().iter().filter(|delivery| !delivery.first).count();
    if twice > 0 {
        line(out, "delivered twice", &number(twice as u64))?;
    }
    let own = order.deliveries().iter().filter(|delivery| delivery.from == delivery.to).count();
    if own > 0 {
        line(out, "to themselves", &number(own as u64))?;
    }
    Ok(())
}

fn cuts(execution: &Execution, order: &Order, out: &mut impl Write) -> io::Result<()> {
    let quiet = Slice::quiet(order);
    if let Some(components) = quiet.components() {
        let (count, largest) = (number(components.count as u64), number(components.largest as u64));
        line(out, "components", &format!("{count}, the largest of {largest} events"))?;
    }
    line(out, "quiet cuts", &counted(&quiet))?;
    let nodes = 0..execution.nodes().len();
    // The state before the first event belongs to no event and is not counted.
    let usable: usize = nodes.map(|place| quiet.states(place).len() - 1).sum();
    if let Some(tenths) = (usable * 1_000).checked_div(execution.events().len()) {
        let share = format!("{}.{} % of the states", tenths / 10, tenths % 10);
        line(out, "", &format!("{share} occur in one; few means a system that is never at rest"))?;
    }
    line(out, "consistent cuts", &counted(&Slice::consistent(order)))
}

fn counted(slice: &Slice<'_>) -> String {
    let mut cuts = slice.cuts();
    let mut count: u64 = 0;
    while cuts.next_cut().is_some() {
        if count == CUTS_MAX {
            return format!("more than {}", number(CUTS_MAX));
        }
        count += 1;
    }
    number(count)
}

fn schema(execution: &Execution, out: &mut impl Write) -> io::Result<()> {
    let mut schema = Schema::default();
    observe(&mut schema, execution);
    if schema.is_empty() {
        return line(out, "states", "none: there is no state for properties to refer to");
    }
    for kind in schema.kinds() {
        let Some(state) = schema.state(kind) else { continue };
        let whose = if kind.is_empty() { "states".to_owned() } else { format!("{kind} states") };
        let Type::Record(fields) = state else {
            line(out, &whose, &state.to_string())?;
            continue;
        };
        let mut whose = whose.as_str();
        for (name, field) in fields {
            line(out, whose, &format!("{name}: {field}"))?;
            whose = "";
        }
    }
    Ok(())
}
