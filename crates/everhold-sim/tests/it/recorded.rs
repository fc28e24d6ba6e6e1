//! Recordings of hosted nodes, replayed: as they were, shrunk, or with the place of the divergence.

use std::collections::BTreeMap;
use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Explorer, SimVerdict, System};
use everhold_trace::format::{ReadOptions, Writer, read_all};
use everhold_trace::{Event, EventKind, Execution, MessageId, Observation, Send, Time, Value};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
enum Msg {
    Add(u8),
}

/// Adds up what it is sent; sends one when its timer fires.
#[derive(Clone, Serialize)]
struct Adder {
    other: NodeId,
    sum: u8,
}

impl Node for Adder {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("tick", Duration::from_millis(10));
        cx.set_timer("late", Duration::from_millis(15));
    }

    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, Msg::Add(number): Msg) {
        self.sum += number;
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer.name == "tick" {
            cx.send(self.other, Msg::Add(1));
        }
    }
}

fn system(system: &mut System<Msg>) {
    for other in [1, 0] {
        system.node("adder", Adder { other: NodeId(other), sum: 0 });
    }
    system.property(r#"always "not three": forall n in nodes: n.sum != 3"#);
}

fn decode(bytes: &[u8]) -> Result<Msg, String> {
    bytes.first().copied().map(Msg::Add).ok_or_else(|| "it is empty".to_owned())
}

/// A recording, in the words of the tests.
struct Tape {
    nodes: Vec<(&'static str, &'static str)>,
    events: Vec<Event>,
    sent: u64,
}

impl Tape {
    /// Two nodes and a client.
    fn new(kind: &'static str) -> Tape {
        Tape::of(&[("n0", kind), ("n1", "adder"), ("n2147483650", "outside")])
    }

    fn of(nodes: &[(&'static str, &'static str)]) -> Tape {
        Tape { nodes: nodes.to_vec(), events: Vec::new(), sent: 0 }
    }

    fn started() -> Tape {
        Tape::new("adder").event(0, EventKind::Start).event(1, EventKind::Start)
    }

    /// Ten milliseconds after the one before.
    fn event(mut self, node: u32, kind: EventKind) -> Tape {
        let mut event = Event::new(NodeId(node), kind);
        event.time = Time::physical_ns((self.events.len() as i64 + 1) * 10_000_000);
        self.events.push(event);
        self
    }

    fn last(&mut self) -> &mut Event {
        self.events.last_mut().expect("there is one")
    }

    fn timer(self, node: u32, name: &str) -> Tape {
        self.event(node, EventKind::Timer { name: name.to_owned() })
    }

    /// The timer with which a node sends.
    fn tick(self, node: u32) -> Tape {
        let mut tape = self.timer(node, "tick");
        let (to, seq, label) = (Some(NodeId(1 - node)), tape.sent, "Add".to_owned());
        tape.last().sends.push(Send { to, seq, label, payload: None });
        tape.sent += 1;
        tape
    }

    fn hear(self, node: u32, from: u32, seq: u64) -> Tape {
        let message = MessageId { sender: NodeId(from), seq };
        self.event(node, EventKind::Deliver { message })
    }

    fn text(mut self, text: &str) -> Tape {
        self.last().text = Some(text.to_owned());
        self
    }

    fn shows(mut self, sum: i64) -> Tape {
        let fields = [("other".to_owned(), Value::Node(NodeId(0))), ("sum".to_owned(), sum.into())];
        self.last().observation = Some(Observation::State(Value::Record(fields.into())));
        self
    }

    /// As a file that is read again: what has no cause stays.
    fn finish(self) -> Execution {
        let mut writer = Writer::new(Vec::new());
        writer.begin_run("recording", &BTreeMap::new()).unwrap();
        for (name, kind) in self.nodes {
            writer.node(name, kind).unwrap();
        }
        self.events.iter().for_each(|event| writer.event(event).unwrap());
        let bytes = writer.finish().unwrap();
        read_all(&bytes[..], &ReadOptions::lenient()).unwrap().executions.remove(0)
    }
}

#[track_caller]
fn check(tape: Tape, verdict: SimVerdict, words: &str) {
    let explorer = Explorer::new().regressions(false);
    let report = explorer.replay_live(&tape.finish(), decode, system).unwrap();
    assert_eq!(report.verdict(), verdict, "{report}");
    assert!(report.to_string().contains(words), "{report}");
}

#[test]
fn a_recorded_violation_is_reproduced_and_shrunk() {
    let tape = || Tape::started().timer(1, "tick").timer(1, "late").tick(0);
    let tape = || tape().hear(1, 0, 0).shows(1).hear(1, 2, 0).text("message 02");
    check(tape(), SimVerdict::Violated, "not three");
    let report = Explorer::new().replay_live(&tape().finish(), decode, system).unwrap();
    let finding = report.finding().unwrap();
    assert_eq!((finding.original.steps(), finding.schedule.steps()), (5, 3), "{report}");
    assert!(finding.original.follows_clocks() && !finding.schedule.follows_clocks());
}

#[test]
fn a_recording_that_violates_nothing_is_unknown() {
    check(Tape::started().tick(0).hear(1, 0, 0).shows(1), SimVerdict::Unknown, "no violation");
    // Real timers are late: here one overtakes another whose time came before its own.
    check(Tape::started().timer(0, "late").tick(0).hear(1, 0, 0), SimVerdict::Unknown, "");
    let tape = Tape::started().tick(0).hear(1, 0, 0).event(1, EventKind::Crash);
    check(tape.event(1, EventKind::Restart).shows(0).timer(1, "tick"), SimVerdict::Unknown, "");
}

#[test]
fn a_replay_that_parts_names_the_place() {
    let diverged = |tape, words| check(tape, SimVerdict::Diverged, words);
    diverged(Tape::started().timer(0, "tock"), "event 2 of the recording (timer tock at n0");
    diverged(Tape::started().tick(0).hear(1, 0, 0).shows(7), "`sum` was 7 and is now 1");
    diverged(Tape::started().hear(1, 0, 9), "not in its recording");
    diverged(Tape::started().hear(1, 2, 0), "what the client sent is not recorded");
    diverged(Tape::started().hear(1, 2, 0).text("message "), "it is empty");
    diverged(Tape::started().timer(0, "late").timer(0, "late"), "timer late at n0 cannot happen");
}

#[test]
fn what_is_no_recording_of_the_system_is_refused() {
    let refused = |tape: Tape, words: &str| {
        let error = Explorer::new().replay_live(&tape.finish(), decode, system).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(Tape::new("clock").event(0, EventKind::Start), "n0 is a clock in the recording");
    refused(Tape::new("adder").timer(0, "tick"), "does not begin with its start");
    let three = Tape::of(&[("n0", "adder"), ("n1", "adder"), ("n2", "adder")]);
    refused(three.event(2, EventKind::Start), "a node n2, but the system has only 2 nodes");
    refused(Tape::of(&[("teller", "adder")]), "`teller` was not recorded by a host");
}
