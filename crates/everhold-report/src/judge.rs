//! A property's verdict at every event of an execution.

use everhold_property::{Changed, Checker, Rule, Snapshot, print};
use everhold_trace::{EventKind, Execution};

use crate::page::PropertyView;

/// Judges a property along the recorded order, event by event.
///
/// The result describes this one order of events: `everhold check` judges all cuts.
#[must_use]
pub fn judged(rule: &Rule, execution: &Execution) -> PropertyView {
    let property = rule.property();
    let mut checker = Checker::new(rule);
    let mut view = PropertyView {
        name: property.name.clone(),
        text: print(property),
        verdict: "holds".to_owned(),
        changes: vec![(0, "holds".to_owned())],
        ..PropertyView::default()
    };
    let mut now = Snapshot::default();
    let nodes: Vec<_> =
        execution.nodes().iter().map(|node| now.add(&node.name, &node.kind)).collect();
    let states = execution.local_states();
    for (at, event) in execution.events().iter().enumerate() {
        let place = execution.events_of(event.node).partition_point(|id| id.index() <= at);
        let node = nodes[event.node.index()];
        match states.at(event.node, place) {
            Some(state) => {
                now.set_up(node, true);
                now.set(node, state.clone());
            }
            None if event.kind == EventKind::Crash => now.set_up(node, false),
            None => continue,
        }
        let time = event.time.physical_ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        checker.step(&now, Changed::Node(node), time);
        if let Some(violation) = checker.violation() {
            view.witness = pairs(&violation.witness.to_string());
            view.verdict = "violated".to_owned();
            view.changes.push((at, "violated".to_owned()));
            break;
        }
    }
    view
}

/// The parts of a property's text with their values, from a text such as `a.term = 3, b.up = true`
/// or from one on several lines, as [`PropertyView::witness`] takes them.
#[must_use]
pub fn pairs(witness: &str) -> Vec<(String, String)> {
    let parts = witness.lines().flat_map(split);
    let pairs = parts.filter_map(|part| part.split_once(" = "));
    pairs.map(|(part, value)| (part.trim().to_owned(), format!("= {value}"))).collect()
}

/// Splits a text at its commas, except those within brackets or quotes.
fn split(line: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from) = (0usize, false, 0);
    let mut parts = Vec::new();
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                parts.push(&line[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn values_keep_their_commas() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let expected: Vec<(String, String)> = expected
                .iter()
                .map(|(part, value)| ((*part).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(pairs(text), expected, "{text}");
        };
        check(
            "a = n1, a.log = [1, 2], f(a, b) = 3",
            &[("a", "= n1"), ("a.log", "= [1, 2]"), ("f(a, b)", "= 3")],
        );
        check(
            "a.name = \"x, y\"\nb = {k: 1, l: 2}",
            &[("a.name", "= \"x, y\""), ("b", "= {k: 1, l: 2}")],
        );
        check("no values here", &[]);
    }
}
