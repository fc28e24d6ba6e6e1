//! A recording as a trace.

use everhold_node::NodeId;
use everhold_trace::{EventKind, Execution, Time, TraceBuilder, Value, notes};

use crate::env::DUPLICATE;
use crate::failure::Failure;
use crate::fault::{Fault, MessageName, Side};
use crate::record::{EventRecord, RunRecord, SendRecord, SpawnRecord, StepRecord};
use crate::report::{Finding, Report};
use crate::schedule::Schedule;

/// The executions whose traces a search kept, as inference and other tools take them.
impl AsRef<[Execution]> for Report {
    fn as_ref(&self) -> &[Execution] {
        &self.traces
    }
}

/// The finding's execution, with its violation and how to replay it.
pub(crate) fn execution(finding: &Finding) -> Execution {
    build(&finding.recording, &finding.schedule, Some(&finding.failure))
}

/// Any recorded execution, with how to replay it.
pub(crate) fn recorded(recording: &RunRecord, seed: u64) -> Execution {
    let schedule = Schedule { seed, choices: recording.choices.clone() };
    build(recording, &schedule, recording.failure.as_ref())
}

fn build(recording: &RunRecord, schedule: &Schedule, failure: Option<&Failure>) -> Execution {
    let mut trace = TraceBuilder::new();
    for node in &recording.nodes {
        trace.add_node(&node.name, &node.kind);
    }
    if let Some(failure) = failure {
        trace.note(notes::PROPERTY, failure.cause.to_string());
    }
    trace.note(notes::SCHEDULE, schedule.token());
    trace.note(notes::SEED, schedule.seed);
    for (number, step) in recording.steps.iter().enumerate() {
        match &step.event {
            EventRecord::Start => starts(&mut trace, recording, step),
            _ => add(&mut trace, recording, step, number),
        }
        step.spawned.iter().for_each(|spawned| start_of(&mut trace, spawned, number));
    }
    let execution = trace.finish();
    let last = execution.events().len().saturating_sub(1);
    match failure {
        Some(_) => execution.with_note(notes::STEP, last as u64),
        None => execution,
    }
}

/// All nodes start in one step of the explorer, but each at an event of its own.
fn starts(trace: &mut TraceBuilder, recording: &RunRecord, step: &StepRecord) {
    for (index, state) in recording.initial.iter().enumerate() {
        let node = crate::env::node_id(index);
        trace.begin(node, EventKind::Start);
        trace.time(Time::logical(0));
        sends(trace, step.sends.iter().filter(|sent| sent.message.from == node));
        trace.observe(state.clone());
    }
}

/// Nodes that were added during a step start within it, each at an event of its own after it.
fn start_of(trace: &mut TraceBuilder, spawned: &SpawnRecord, number: usize) {
    trace.begin(spawned.node, EventKind::Start);
    trace.time(Time::logical(number as u64));
    sends(trace, &spawned.sends);
    trace.observe(spawned.state.clone());
    for note in &spawned.notes {
        trace.text(note);
    }
}

fn sends<'r>(trace: &mut TraceBuilder, sends: impl IntoIterator<Item = &'r SendRecord>) {
    for sent in sends {
        let id = trace.send(sent.to, sent.kind, Some(sent.payload.clone()));
        if sent.lost {
            trace.lost(id);
        }
    }
}

fn id(message: MessageName) -> everhold_trace::MessageId {
    let seq = u64::from(message.sequence & !DUPLICATE);
    everhold_trace::MessageId { sender: message.from, seq }
}

fn add(trace: &mut TraceBuilder, recording: &RunRecord, step: &StepRecord, number: usize) {
    let kind = match &step.event {
        EventRecord::Deliver { message, .. } => EventKind::Deliver { message: id(*message) },
        EventRecord::Timer(name) => EventKind::Timer { name: name.clone() },
        EventRecord::Poll(task) => EventKind::Local { name: format!("task {task}") },
        EventRecord::Restart => EventKind::Restart,
        EventRecord::Heal => return trace.heal(),
        EventRecord::Disconnected(peer) => {
            EventKind::Local { name: format!("disconnected from {}", name_of(recording, *peer)) }
        }
        EventRecord::Fault(Fault::Crash(_)) => EventKind::Crash,
        EventRecord::Fault(fault) => return mark(trace, recording, *fault),
        EventRecord::Start => unreachable!("starting is handled apart"),
    };
    trace.begin(step.node, kind);
    trace.time(Time::logical(number as u64));
    sends(trace, &step.sends);
    // A handler that panicked left no state behind.
    let is_last = number + 1 == recording.steps.len();
    let unseen = step.state == Value::Null && is_last && recording.failure.is_some();
    if !matches!(step.event, EventRecord::Fault(_)) && !unseen {
        trace.observe(step.state.clone());
    }
    for note in &step.notes {
        trace.text(note);
    }
}

fn mark(trace: &mut TraceBuilder, recording: &RunRecord, fault: Fault) {
    match fault {
        Fault::Crash(_) => unreachable!("a crash is an event"),
        Fault::Stop(node) => trace.fault(Some(node), "stop"),
        Fault::Lose(message) => trace.lost(id(message)),
        Fault::Duplicate(message) => trace.duplicated(id(message)),
        Fault::Delay(message) => trace.fault(None, &format!("delay of {message}")),
        Fault::Skew(node, quarters) => {
            trace.fault(Some(node), &format!("clock skew of {quarters} quarters"));
        }
        Fault::Partition(side) => {
            let all = (0..recording.nodes.len()).map(crate::env::node_id);
            let (cut, rest): (Vec<_>, Vec<_>) = all.partition(|node| side.contains(*node));
            trace.partition(vec![cut, rest]);
        }
        Fault::Mute(side) => {
            trace.fault(None, &format!("nobody hears {} any more", names(recording, &side)));
        }
        Fault::Deafen(side) => {
            let names = names(recording, &side);
            trace.fault(None, &format!("nothing from the others reaches {names} any more"));
        }
        Fault::Reset(one, other) => {
            let (one, other) = (name_of(recording, one), name_of(recording, other));
            trace.fault(None, &format!("reset of the connection between {one} and {other}"));
        }
    }
}

fn name_of(recording: &RunRecord, node: NodeId) -> &str {
    recording.nodes.get(node.index()).map_or("?", |info| info.name.as_str())
}

fn names(recording: &RunRecord, side: &Side) -> String {
    let names = side.nodes().iter().map(|node| name_of(recording, *node));
    names.collect::<Vec<_>>().join(", ")
}
