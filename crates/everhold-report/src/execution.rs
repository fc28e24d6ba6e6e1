//! An execution as the page's script reads it.

use everhold_trace::trace::Message;
use everhold_trace::value::json::AsJson;
use everhold_trace::value::{Change, Step, diff};
use everhold_trace::{
    Event, EventKind, Execution, LocalStates, MarkKind, MessageId, NodeId, Value,
};
use serde::ser::{Serialize, SerializeSeq, Serializer};

/// The part of an execution that a page keeps, and the events that it points at.
#[derive(Clone, Debug)]
pub struct Window {
    /// The event at which a property is violated.
    pub violating: Option<usize>,
    /// The event at which the execution became slow, with a description.
    pub turning: Option<(usize, String)>,
    /// The events of its critical path, which can be shown alone.
    pub path: Vec<usize>,
    /// The largest number of events to keep: those around the violating or turning one.
    pub events_max: usize,
    /// Whether times count nanoseconds of a virtual clock, not steps.
    pub simulated: bool,
    /// Whether logical times are the numbers of steps under which a person knows the events, as in
    /// the report of a failing test.
    pub steps: bool,
}

impl Default for Window {
    fn default() -> Self {
        Window {
            violating: None,
            turning: None,
            path: Vec::new(),
            events_max: 100_000,
            simulated: false,
            steps: false,
        }
    }
}

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ExecutionData {
    title: String,
    nodes: Vec<NodeData>,
    events: Vec<EventData>,
    messages: Vec<MessageData>,
    marks: Vec<MarkData>,
    first: usize,
    left: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    violating: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turning: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turned: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    path: Vec<usize>,
    unit: &'static str,
}

#[derive(Clone, Debug, serde::Serialize)]
struct NodeData {
    name: String,
    kind: String,
}

#[derive(Clone, Debug, Default, serde::Serialize)]
struct EventData {
    n: u32,
    k: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    l: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    r: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    s: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    o: Option<Held>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c: Vec<ChangeData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
}

#[derive(Clone, Debug, serde::Serialize)]
struct MessageData {
    l: String,
    f: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<Held>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<usize>,
    d: Vec<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

#[derive(Clone, Debug, serde::Serialize)]
struct MarkData {
    after: usize,
    kind: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
}

/// A value in the trace's own JSON.
#[derive(Clone, Debug)]
struct Held(Value);

impl Serialize for Held {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        AsJson(&self.0).serialize(to)
    }
}

/// A change: `[steps]` removes a part, `[steps, value]` sets it.
#[derive(Clone, Debug)]
struct ChangeData(Change);

impl Serialize for ChangeData {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let steps: Vec<StepData<'_>> = self.0.path.0.iter().map(StepData).collect();
        let mut pair = to.serialize_seq(None)?;
        pair.serialize_element(&steps)?;
        if let Some(new) = &self.0.new {
            pair.serialize_element(&AsJson(new))?;
        }
        pair.end()
    }
}

struct StepData<'a>(&'a Step);

impl Serialize for StepData<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Step::Field(name) => to.serialize_str(name),
            Step::Index(index) => to.serialize_u64(*index as u64),
            Step::Key(key) => to.collect_map([("key", AsJson(key))]),
            Step::Payload => to.collect_map([("payload", true)]),
        }
    }
}

impl ExecutionData {
    pub(crate) fn new(title: &str, execution: &Execution, window: &Window) -> ExecutionData {
        let range = range(execution, window);
        let kept = Kept { execution, states: execution.local_states(), range: range.clone() };
        let inside = |event: usize| range.contains(&event).then(|| event - range.start);
        let nodes = execution.nodes().iter();
        ExecutionData {
            title: title.to_owned(),
            nodes: nodes
                .map(|node| NodeData { name: node.name.clone(), kind: node.kind.clone() })
                .collect(),
            events: range.clone().map(|event| kept.event(event)).collect(),
            messages: kept.messages().map(|message| kept.message(message)).collect(),
            marks: kept.marks(),
            first: range.start,
            left: execution.events().len() - range.end,
            violating: window.violating.and_then(inside),
            turning: window.turning.as_ref().and_then(|(event, _)| inside(*event)),
            turned: window.turning.as_ref().map(|(_, words)| words.clone()),
            path: window.path.iter().filter_map(|event| inside(*event)).collect(),
            unit: unit(execution, window),
        }
    }
}

fn unit(execution: &Execution, window: &Window) -> &'static str {
    match execution.events().first().map(|event| event.time) {
        _ if window.simulated => "ns",
        _ if window.steps => "steps",
        Some(time) if time.logical.is_none() && time.physical_ns.is_some() => "wall",
        _ => "ticks",
    }
}

/// The range of events to keep: all of them, or as many as allowed, with the important one at two
/// thirds.
fn range(execution: &Execution, window: &Window) -> std::ops::Range<usize> {
    let all = execution.events().len();
    if all <= window.events_max {
        return 0..all;
    }
    let turning = window.turning.as_ref().map(|(event, _)| *event);
    let focus = window.violating.or(turning).unwrap_or(0);
    let start = focus.saturating_sub(window.events_max / 3 * 2).min(all - window.events_max);
    start..start + window.events_max
}

/// The kept part of an execution.
struct Kept<'a> {
    execution: &'a Execution,
    states: LocalStates<'a>,
    range: std::ops::Range<usize>,
}

impl Kept<'_> {
    /// The messages that touch the kept part, by identity.
    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.execution.messages().iter().filter(|message| self.touches(message))
    }

    fn touches(&self, message: &Message) -> bool {
        let ends = message.sent.iter().chain(&message.delivered);
        ends.into_iter().any(|event| self.range.contains(&event.index()))
    }

    /// The index of a message among those that are kept.
    fn number(&self, id: MessageId) -> Option<usize> {
        // Messages are sorted by identity, and a window usually contains the whole execution.
        let all = self.execution.messages();
        let place = all.binary_search_by_key(&id, |message| message.id).ok()?;
        if self.range.len() == self.execution.events().len() {
            return Some(place);
        }
        let before = all[..place].iter().filter(|message| self.touches(message)).count();
        self.touches(&all[place]).then_some(before)
    }

    fn event(&self, at: usize) -> EventData {
        let event = &self.execution.events()[at];
        let (o, c) = self.state(at, event);
        EventData {
            n: event.node.0,
            k: event.kind.word(),
            l: event.kind.name().unwrap_or_default().to_owned(),
            t: time(event),
            r: event.received().filter_map(|id| self.number(id)).collect(),
            s: event.sent().filter_map(|id| self.number(id)).collect(),
            o: o.map(Held),
            c: c.into_iter().map(ChangeData).collect(),
            x: event.text.clone(),
        }
    }

    /// The node's whole state at its first event in the window, and otherwise the changes.
    fn state(&self, at: usize, event: &Event) -> (Option<Value>, Vec<Change>) {
        let own = self.execution.events_of(event.node);
        let place = own.partition_point(|id| id.index() < at);
        let Some(now) = self.states.at(event.node, place + 1) else { return (None, Vec::new()) };
        let first = place == 0 || own[place - 1].index() < self.range.start;
        match self.states.at(event.node, place) {
            Some(before) if !first => (None, diff(before, now)),
            _ => (Some(now.clone()), Vec::new()),
        }
    }

    fn message(&self, message: &Message) -> MessageData {
        let send = self.execution.send_of(message);
        let inside = |event: usize| self.range.contains(&event).then(|| event - self.range.start);
        let delivered = message.delivered.iter().filter_map(|event| inside(event.index()));
        MessageData {
            l: send.map(|send| send.label.clone()).unwrap_or_default(),
            f: message.id.sender.0,
            to: send.and_then(|send| send.to).map(|node| node.0),
            p: send.and_then(|send| send.payload.clone()).map(Held),
            s: message.sent.and_then(|event| inside(event.index())),
            d: delivered.collect(),
            lost: message.lost,
        }
    }

    fn marks(&self) -> Vec<MarkData> {
        let marks = self.execution.marks().iter();
        let found = marks.filter_map(|mark| {
            let (kind, text, node) = self.mark(&mark.kind)?;
            let after = (mark.after as usize).clamp(self.range.start, self.range.end);
            Some(MarkData { after: after - self.range.start, kind, text, node })
        });
        found.collect()
    }

    fn mark(&self, kind: &MarkKind) -> Option<(&'static str, String, Option<u32>)> {
        match kind {
            // These faults are visible in the arrows of their messages.
            MarkKind::Lost(_) | MarkKind::Duplicated(_) => None,
            MarkKind::Heal => Some(("heal", String::new(), None)),
            MarkKind::Partition(groups) => {
                let name = |node: &NodeId| self.execution.node(*node).name.as_str();
                let group =
                    |nodes: &Vec<NodeId>| nodes.iter().map(name).collect::<Vec<_>>().join(" ");
                let text = groups.iter().map(group).collect::<Vec<_>>().join(" | ");
                Some(("partition", text, None))
            }
            MarkKind::Fault { node, name } => Some(("fault", name.clone(), node.map(|n| n.0))),
        }
    }
}

fn time(event: &Event) -> Option<i64> {
    let logical = event.time.logical.and_then(|ticks| i64::try_from(ticks).ok());
    match event.kind {
        EventKind::Start if logical.is_none() => event.time.physical_ns,
        _ => logical.or(event.time.physical_ns),
    }
}
