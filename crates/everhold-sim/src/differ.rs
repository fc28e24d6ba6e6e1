//! The first difference between two runs of one schedule, in words, and where to look for the
//! reason.

use everhold_node::NodeId;
use everhold_trace::Value;

use crate::record::{EventRecord, RunRecord, StepRecord};
use crate::report::text::count;

const ORDER: &str = "the same items in another order: look for a loop over a `HashMap` or a `HashSet` \
    there; `BTreeMap` and `BTreeSet` have one order";
const OUTSIDE: &str = "the node depends on something outside its context: look for memory that is shared \
    between nodes or executions (`static`, `Arc`, `Rc`, thread-locals), the time (`Instant`, \
    `SystemTime`), randomness (`rand`, a hasher), threads";

/// The first difference between two recordings: its step, its node, the difference itself, and
/// where to look for the reason.
pub(crate) fn first_difference(a: &RunRecord, b: &RunRecord) -> Option<String> {
    let name = |recording: &RunRecord, node: NodeId| {
        recording.nodes.get(node.index()).map_or_else(|| node.to_string(), |info| info.name.clone())
    };
    for (index, (x, y)) in a.initial.iter().zip(&b.initial).enumerate() {
        if let Some(words) = state(x, y) {
            return Some(format!("when it starts, {}: {words}", a.nodes[index].name));
        }
    }
    for (at, (x, y)) in a.steps.iter().zip(&b.steps).enumerate() {
        if x.node != y.node || x.event != y.event {
            let (one, other) = (event(x, &name(a, x.node)), event(y, &name(b, y.node)));
            return Some(format!("step {at}: {one} in one run, {other} in the next; {OUTSIDE}"));
        }
        let words = inside(x, y);
        if let Some(words) = words {
            return Some(format!("step {at}, {}: {words}", event(x, &name(a, x.node))));
        }
    }
    (a.steps.len() != b.steps.len()).then(|| {
        let steps = count(a.steps.len() as u64, "step");
        format!("one run has {steps}, the next {}; {OUTSIDE}", b.steps.len())
    })
}

/// Whether the nodes act differently in the two recordings. Their states are not compared: in
/// another world, sets may be kept in another order.
pub(crate) fn acts_differently(a: &RunRecord, b: &RunRecord) -> bool {
    let differs = |(x, y): (&StepRecord, &StepRecord)| {
        x.node != y.node || x.event != y.event || sends(x) != sends(y) || x.notes != y.notes
    };
    a.steps.len() != b.steps.len() || a.steps.iter().zip(&b.steps).any(differs)
}

fn sends(step: &StepRecord) -> Vec<String> {
    step.sends.iter().map(|send| format!("{} to {}", send.text, send.to)).collect()
}

/// The difference within a step that is the same event at the same node in both recordings.
fn inside(x: &StepRecord, y: &StepRecord) -> Option<String> {
    if let Some(words) = state(&x.state, &y.state) {
        return Some(words);
    }
    let (one, other) = (sends(x), sends(y));
    if one != other {
        let hint = hint(&one, &other);
        return Some(match one.iter().zip(&other).find(|(one, other)| one != other) {
            Some((one, other)) => format!("it sent {one} in one run, {other} in the next; {hint}"),
            None => format!(
                "it sent {} in one run, {} in the next; {hint}",
                count(one.len() as u64, "message"),
                other.len()
            ),
        });
    }
    let noted = x.notes.iter().zip(&y.notes).find(|(one, other)| one != other);
    if let Some((one, other)) = noted {
        return Some(format!("it noted or chose {one} in one run, {other} in the next; {OUTSIDE}"));
    }
    (x.notes.len() != y.notes.len()).then(|| {
        let (one, other) = (count(x.notes.len() as u64, "time"), y.notes.len());
        format!("it noted or chose {one} in one run, {other} in the next; {OUTSIDE}")
    })
}

fn hint<T: Ord + Clone>(one: &[T], other: &[T]) -> &'static str {
    let (mut one, mut other) = (one.to_vec(), other.to_vec());
    one.sort();
    other.sort();
    if one == other { ORDER } else { OUTSIDE }
}

fn event(step: &StepRecord, name: &str) -> String {
    match &step.event {
        EventRecord::Start => "the start of all nodes".to_owned(),
        EventRecord::Deliver { text, .. } => format!("{text} arrives at {name}"),
        EventRecord::Timer(timer) => format!("timer {timer} fires at {name}"),
        EventRecord::Poll(task) => format!("task {task} continues at {name}"),
        EventRecord::Restart => format!("{name} restarts"),
        EventRecord::Heal => "the partition ends".to_owned(),
        EventRecord::Fault(fault) => format!("{fault:?} at {name}"),
        EventRecord::Disconnected(peer) => format!("{name} is told that {peer} is disconnected"),
    }
}

/// Describes how two states differ, by the innermost field that does.
fn state(one: &Value, other: &Value) -> Option<String> {
    let (path, one, other) = field(one, other)?;
    let hint = match (one, other) {
        (Value::List(one), Value::List(other)) => {
            let texts = |items: &[Value]| -> Vec<String> {
                items.iter().map(ToString::to_string).collect()
            };
            hint(&texts(one), &texts(other))
        }
        _ => OUTSIDE,
    };
    let what = if path.is_empty() { "its state".to_owned() } else { format!("its field `{path}`") };
    Some(format!("{what} is {one} in one run, {other} in the next; {hint}"))
}

fn field<'a>(one: &'a Value, other: &'a Value) -> Option<(String, &'a Value, &'a Value)> {
    if one == other {
        return None;
    }
    if let (Value::Record(a), Value::Record(b)) = (one, other) {
        for ((name, a), (same, b)) in a.iter().zip(b) {
            if name != same {
                break;
            }
            if let Some((path, a, b)) = field(a, b) {
                let path =
                    if path.is_empty() { name.to_string() } else { format!("{name}.{path}") };
                return Some((path, a, b));
            }
        }
    }
    Some((String::new(), one, other))
}
