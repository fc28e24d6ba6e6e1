//! Findings are not lost: whatever nodes do, and whatever fails while they are shown.

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Cause, Explorer, Report, System};
use everhold_trace::{EventKind, Execution};
use serde::Serialize;

use crate::toys::{Log, Msg, Sender};

/// Adds a node as it starts, `depth` times over; each sends its depth to the log.
#[derive(Clone, Serialize)]
struct Nested {
    log: NodeId,
    depth: Msg,
}

impl Node for Nested {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        let depth = self.depth;
        cx.note(|| format!("depth {depth}"));
        cx.send(self.log, self.depth);
        if self.depth > 0 {
            cx.spawn("nested", Nested { log: self.log, depth: self.depth - 1 });
        }
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
}

/// Adds nodes when a message arrives.
#[derive(Clone, Serialize)]
struct Parent {
    log: NodeId,
    seen: Msg,
}

impl Node for Parent {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, depth: Msg) {
        self.seen = depth;
        cx.spawn("nested", Nested { log: self.log, depth });
        cx.spawn("nested", Nested { log: self.log, depth: 0 });
    }
}

fn never_hears(system: &mut System<Msg>, what: Msg) {
    system.always("the log does not hear it", move |s| {
        s.all::<Log>().all(|(_, log)| !log.received.contains(&what))
    });
}

fn name(trace: &Execution, node: NodeId) -> &str {
    &trace.nodes()[node.index()].name
}

/// The events of a trace by node and kind, such as `parent-0 deliver`.
fn events(trace: &Execution) -> Vec<String> {
    let show = |kind: &EventKind| match kind {
        EventKind::Start => "start",
        EventKind::Deliver { .. } => "deliver",
        _ => "other",
    };
    let events = trace.events().iter();
    events.map(|event| format!("{} {}", name(trace, event.node), show(&event.kind))).collect()
}

fn found(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) -> Report {
    let report = Explorer::new().executions(2_000).run(setup);
    assert!(!report.findings.is_empty(), "{report}");
    report
}

/// A node that is added during a step starts at an event of its own, after that step's, and what
/// it sends there can be received.
#[test]
fn added_nodes_start_at_events_of_their_own() {
    let report = found(|system| {
        let log = system.node("log", Log::default());
        let parent = system.node("parent", Parent { log, seen: 9 });
        system.node("sender", Sender { to: vec![(parent, 2)] });
        never_hears(system, 0);
    });
    let finding = &report.findings[0];
    let expected = [
        "log start",
        "parent start",
        "sender start",
        "parent deliver",
        // The two children, then what they added, one after the other.
        "nested-0 start",
        "nested-1 start",
        "nested-2 start",
        "nested-3 start",
        "log deliver",
    ];
    let trace = finding.trace();
    assert_eq!(events(&trace), expected, "{report}");
    let child = &trace.events()[4];
    assert!(child.observation.is_some(), "its state is seen");
    assert_eq!(child.sends.len(), 1, "what it sent is its own");
    let picture = finding.picture();
    assert!(picture.contains("start") && picture.contains("depth 2"), "{picture}");
    assert!(picture.contains("sent at 1"), "{picture}");
    assert!(report.page().html().contains("nested-3"));
}

/// The same at the very beginning, in which all nodes start.
#[test]
fn nodes_added_at_the_start_are_recorded() {
    let report = found(|system| {
        let log = system.node("log", Log::default());
        system.node("nested", Nested { log, depth: 2 });
        never_hears(system, 0);
    });
    let trace = report.findings[0].trace();
    let starts = ["log start", "nested start", "nested-1 start", "nested-2 start"];
    assert_eq!(events(&trace)[..4], starts, "{report}");
}

/// Panics after it has added a node and written to it, or adds nodes the first of which panics.
#[derive(Clone, Serialize)]
struct Hasty {
    depth: u32,
}

impl Node for Hasty {
    type Msg = Msg;
    fn start(&mut self, _: &mut Cx<Msg>) {
        assert!(self.depth == 0, "a child that cannot start");
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let first = cx.spawn("hasty", Hasty { depth: 1 });
        let second = cx.spawn("hasty", Hasty { depth: 2 });
        cx.send(first, 1);
        cx.send(second, 2);
        assert!(msg != 1, "hasty");
    }
}

#[test]
fn nodes_that_never_started_are_in_the_trace_all_the_same() {
    for (msg, says) in [(1, "hasty: hasty"), (2, "hasty-1: a child that cannot start")] {
        let report = found(move |system| {
            let hasty = system.node("hasty", Hasty { depth: 0 });
            system.node("sender", Sender { to: vec![(hasty, msg)] });
        });
        let finding = &report.findings[0];
        assert!(matches!(finding.failure.cause, Cause::Panic(_)), "{report}");
        assert!(finding.failure.message.contains(says), "{report}");
        assert_eq!(finding.trace().nodes().len(), 4, "{report}");
    }
}
