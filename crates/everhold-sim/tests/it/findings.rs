//! Findings are not lost: whatever nodes do, and whatever fails while they are shown.

use std::fmt;
use std::fs;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Cause, Explorer, Report, System};
use everhold_trace::{EventKind, Execution};
use serde::{Serialize, Serializer};

use crate::place::{Place, text};
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

/// Says in a process of its own what is to fail there.
const FAILS: &str = "EVERHOLD_TEST_FAILS";

/// A message that cannot be shown if it is large: by `Debug` (10) or by `Serialize` (20).
#[derive(Clone, PartialEq)]
struct Shy(u32);

impl fmt::Debug for Shy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.0 != 10, "no debug");
        write!(f, "Shy({})", self.0)
    }
}

impl Serialize for Shy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(self.0 != 20, "no serialize");
        serializer.serialize_u32(self.0)
    }
}

/// Keeps the last message; its own state cannot be shown from 30 on.
#[derive(Clone)]
struct Host {
    last: u32,
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(self.last < 30, "no state");
        serializer.serialize_u32(self.last)
    }
}

impl Node for Host {
    type Msg = Shy;
    fn message(&mut self, _: &mut Cx<Shy>, _: NodeId, msg: Shy) {
        self.last = msg.0;
    }
}

#[derive(Clone, Serialize)]
struct Guest {
    host: NodeId,
    says: u32,
}

impl Node for Guest {
    type Msg = Shy;
    fn start(&mut self, cx: &mut Cx<Shy>) {
        cx.send(self.host, Shy(self.says));
    }
    fn message(&mut self, _: &mut Cx<Shy>, _: NodeId, _: Shy) {}
}

/// Fails on the fourth setup: after the first look, one on another thread and the only worker comes
/// the replay.
fn fails_at_replay() {
    static SETUPS: AtomicU32 = AtomicU32::new(0);
    if std::env::var(FAILS).is_ok_and(|what| what == "setup") {
        assert!(SETUPS.fetch_add(1, Ordering::Relaxed) != 3, "no fourth setup");
    }
}

/// The test that the next one runs in processes of their own.
#[test]
fn shown_badly() {
    let Ok(fails) = std::env::var(FAILS) else { return };
    let says = match fails.as_str() {
        "debug" => 10,
        "serialize" => 20,
        "state" => 30,
        _ => 1,
    };
    let explorer = Explorer::new().executions(10).workers(1);
    let report = explorer.run(move |system: &mut System<Shy>| {
        fails_at_replay();
        let host = system.node("host", Host { last: 0 });
        system.node("guest", Guest { host, says });
        system.always("the host hears nothing", move |s| {
            s.get::<Host>(host).is_none_or(|host| host.last == 0)
        });
    });
    report.assert_holds();
}

fn shown(place: &Place, fails: &str) -> (Output, String) {
    let output = place.run("findings::shown_badly", &[(FAILS, fails)]);
    let printed = text(&output);
    assert!(!output.status.success(), "{fails}: {printed}");
    (output, printed)
}

/// Where the first of these texts stands before all others.
fn position(printed: &str, what: &str) -> usize {
    printed.find(what).unwrap_or_else(|| panic!("{what} is missing in\n{printed}"))
}

/// A finding survives all failures while it is shown: the violation and the way back to it come
/// first, then a line that says what failed, then the rest.
#[test]
fn a_finding_survives_whatever_fails_while_it_is_shown() {
    const REPLAY: &str = "  Replay     EVERHOLD_REPLAY=eh1-";
    let cases: &[(&str, &str, &str)] = &[
        ("nothing", REPLAY, "  Report     "),
        ("debug", REPLAY, "a message cannot be shown: a panic at"),
        ("setup", "  Replay     EVERHOLD_SEED=", "replaying it failed: a panic at"),
        ("target", REPLAY, "  Not saved  "),
        ("regressions", REPLAY, "  Not kept   "),
        ("source", REPLAY, "is not found from the folder in which the test runs"),
    ];
    for (fails, replay, told) in cases {
        let place = Place::new(&format!("shown-{fails}"), file!());
        match *fails {
            "target" => fs::write(place.findings(), "a file").expect("a file"),
            "regressions" => {
                let folder = place.regressions();
                fs::write(folder.parent().expect("it has a folder"), "a file").expect("a file");
            }
            "source" => fs::remove_dir_all(place.root().join("crates")).expect("a folder"),
            _ => {}
        }
        let printed = match *fails {
            "source" => {
                let mut command =
                    place.command(&["--exact", "findings::shown_badly"], &[(FAILS, fails)]);
                text(&command.current_dir("/").output().expect("the test runs"))
            }
            _ => shown(&place, fails).1,
        };
        let violated = position(&printed, "VIOLATED  always \"the host hears nothing\"");
        assert!(violated < position(&printed, replay), "{fails}: {printed}");
        assert!(position(&printed, replay) < position(&printed, told), "{fails}: {printed}");
        assert!(printed.contains("always \"the host hears nothing\" violated"), "{printed}");
        let saved = !matches!(*fails, "target");
        assert_eq!(printed.contains("  Report     "), saved, "{fails}: {printed}");
        let kept = !matches!(*fails, "regressions" | "source" | "setup");
        assert_eq!(printed.contains("  Keep       "), kept, "{fails}: {printed}");
    }
}

/// A state or a message that cannot be serialized is a finding of its own: the panic is at its
/// place in the source, and the search does not take it for a difference between two runs.
#[test]
fn what_cannot_be_serialized_is_a_panic() {
    for fails in ["serialize", "state"] {
        let place = Place::new(&format!("shown-{fails}"), file!());
        let (_, printed) = shown(&place, fails);
        let says = "VIOLATED  no panic (at crates/everhold-sim/tests/it/findings.rs";
        assert!(printed.contains(says), "{fails}: {printed}");
        assert!(printed.contains("cannot be shown"), "{fails}: {printed}");
    }
}

/// Eight tests that fail alike, at the same time.
mod at_once {
    use super::{Explorer, FAILS, Log, Msg, System};
    use crate::toys::funnel;

    fn fail() {
        let Ok(_) = std::env::var(FAILS) else { return };
        let build = funnel(2);
        let report = Explorer::new().executions(100).run(move |system: &mut System<Msg>| {
            build(system);
            system.always("1 is not first", |s| {
                s.all::<Log>().all(|(_, log)| log.received.first() != Some(&1))
            });
        });
        report.assert_holds();
    }

    macro_rules! tests {
        ($($name:ident)*) => {
            pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
            $(#[test]
            fn $name() {
                fail();
            })*
        };
    }

    tests!(one two three four five six seven eight);
}

/// Every line that was promised is there, once, and every test has a page of its own.
#[track_caller]
fn check_kept(place: &Place, printed: &str) {
    let kept = fs::read_to_string(place.regressions()).expect("a file");
    for name in at_once::NAMES {
        let start = format!("findings::at_once::{name} eh1-");
        let lines = kept.lines().filter(|line| line.starts_with(&start)).count();
        assert_eq!(lines, 1, "{name} in\n{kept}\n{printed}");
    }
    assert_eq!(printed.matches("  Keep       ").count(), at_once::NAMES.len(), "{printed}");
    assert_eq!(kept.lines().filter(|line| !line.starts_with('#')).count(), at_once::NAMES.len());
    assert_eq!(kept.matches("Everhold runs them first").count(), 1, "one header: {kept}");
    let pages = place.pages();
    assert_eq!(pages.len(), at_once::NAMES.len(), "{pages:?}");
    assert!(pages.iter().all(|page| page.is_file()), "{pages:?}");
    let folder = place.regressions();
    let files = fs::read_dir(folder.parent().expect("a folder")).expect("a folder");
    assert_eq!(files.count(), 1, "nothing else is left there");
}

/// Four rounds each, since a race is lost by chance.
#[test]
fn tests_that_fail_at_once_keep_all_their_schedules() {
    for round in 0..4 {
        let threads = Place::new(&format!("threads-{round}"), file!());
        let arguments = ["findings::at_once::", "--test-threads=8"];
        let output = threads.command(&arguments, &[(FAILS, "yes")]).output().expect("they run");
        check_kept(&threads, &text(&output));

        let processes = Place::new(&format!("processes-{round}"), file!());
        let start =
            |name: &&str| processes.start(&format!("findings::at_once::{name}"), &[(FAILS, "yes")]);
        let running: Vec<_> = at_once::NAMES.iter().map(start).collect();
        let ended = running.into_iter().map(|child| child.wait_with_output().expect("it ends"));
        let printed: String = ended.map(|output| text(&output)).collect();
        check_kept(&processes, &printed);
    }
}
