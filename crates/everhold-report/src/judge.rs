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

/// Splits lines of the form `a.term = 3` into the parts of a property's text and their values, as
/// [`PropertyView::witness`] takes them.
#[must_use]
pub fn pairs(witness: &str) -> Vec<(String, String)> {
    let lines = witness.lines().filter_map(|line| line.split_once(" = "));
    lines.map(|(part, value)| (part.trim().to_owned(), format!("= {value}"))).collect()
}
