//! Events, messages, times and numbers as short texts.

use everhold_trace::text::thousands;
use everhold_trace::{
    EventId, EventKind, Execution, LocalStates, MarkKind, MessageId, NodeId, value,
};

/// A number with commas between its thousands: `52,745`.
pub(crate) fn number(count: impl TryInto<u64>) -> String {
    count.try_into().map_or_else(|_| "?".to_owned(), thousands)
}

/// A number with its noun in the right form: `1 run`, `3 runs`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    amount(count as u64, noun, &format!("{noun}s"))
}

/// A number with its noun, whose plural is irregular: `1 delivery`, `3 deliveries`.
pub(crate) fn amount(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A text on one line with at most this many characters; a cut is marked.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= chars_max {
        return line;
    }
    let mut cut: String = line.chars().take(chars_max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A text padded with spaces to a width in characters.
pub(crate) fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.chars().count())))
}

/// The event at an index of the execution.
pub(crate) fn event_id(place: usize) -> EventId {
    EventId(u32::try_from(place).expect("event ids are 32 bits"))
}

pub(crate) fn node(execution: &Execution, node: NodeId) -> String {
    let known = execution.nodes().get(node.index());
    known.map_or_else(|| node.to_string(), |info| info.name.clone())
}

/// The label of a message, or its sender and number if it has no label.
pub(crate) fn message(execution: &Execution, id: MessageId) -> String {
    let send = execution.message(id).and_then(|message| execution.send_of(message));
    match send.map(|send| send.label.as_str()) {
        Some("") | None => format!("{}#{}", node(execution, id.sender), id.seq),
        Some(label) => label.to_owned(),
    }
}

/// The description of an event.
pub(crate) fn event(execution: &Execution, id: EventId) -> String {
    let event = execution.event(id);
    let text = event.text.as_deref().and_then(|text| text.lines().next());
    let own = match (event.kind.name(), text) {
        (Some(name), _) if !name.is_empty() => format!("{} {name}", event.kind.word()),
        (_, Some(text)) => text.to_owned(),
        (_, None) => event.kind.word().to_owned(),
    };
    let received: Vec<String> = event.received().map(|id| origin(execution, id)).collect();
    match (received.is_empty(), &event.kind, text) {
        (true, ..) => own,
        (false, EventKind::Deliver { .. }, None) => format!("deliver {}", received.join(", ")),
        (false, ..) => format!("{own} ← {}", received.join(", ")),
    }
}

/// A message by its label and its sender.
fn origin(execution: &Execution, id: MessageId) -> String {
    let sender = node(execution, id.sender);
    let send = execution.message(id).and_then(|message| execution.send_of(message));
    match send.map(|send| send.label.as_str()) {
        Some("") | None => sender,
        Some(label) => format!("{label} from {sender}"),
    }
}

/// The messages that an event sent, and the changes of its node's state.
pub(crate) fn effects(execution: &Execution, states: &LocalStates<'_>, id: EventId) -> Vec<String> {
    let event = execution.event(id);
    let mut effects = Vec::new();
    for (send, sent) in event.sends.iter().zip(event.sent()) {
        let to = send.to.map_or_else(|| "all".to_owned(), |to| node(execution, to));
        let what = if send.label.is_empty() { String::new() } else { message(execution, sent) };
        effects.push(format!("{what} → {to}").trim_start().to_owned());
    }
    let count = execution.index_in_node(id);
    match (states.at(event.node, count), states.at(event.node, count + 1)) {
        (Some(before), Some(after)) => {
            effects.extend(value::diff(before, after).iter().map(ToString::to_string));
        }
        (None, Some(after)) => effects.push(after.to_string()),
        (Some(_), None) => effects.push("its state is gone".to_owned()),
        (None, None) => {}
    }
    effects
}

/// A fault between two events.
pub(crate) fn mark(execution: &Execution, kind: &MarkKind) -> String {
    let name = |id: NodeId| node(execution, id);
    match kind {
        MarkKind::Lost(id) => {
            format!("lost: {} from {}", message(execution, *id), name(id.sender))
        }
        MarkKind::Duplicated(id) => {
            format!("duplicated: {} from {}", message(execution, *id), name(id.sender))
        }
        MarkKind::Partition(groups) => {
            let group = |nodes: &Vec<NodeId>| {
                nodes.iter().map(|node| name(*node)).collect::<Vec<_>>().join(" ")
            };
            format!("partition: {}", groups.iter().map(group).collect::<Vec<_>>().join(" | "))
        }
        MarkKind::Heal => "partition heals".to_owned(),
        MarkKind::Fault { node: Some(node), name: fault } => {
            format!("fault at {}: {fault}", name(*node))
        }
        MarkKind::Fault { node: None, name: fault } => format!("fault: {fault}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts() {
        assert_eq!((number(52_745), number(-1)), ("52,745".to_owned(), "?".to_owned()));
        assert_eq!(short("äöü", 3), "äöü");
        assert_eq!(short("äöüß", 3), "äö…");
        assert_eq!(short("a\nb", 9), "a b");
        assert_eq!(pad("ä", 3), "ä  ");
    }
}
