//! The conversion of a recorded execution to a trace with states, contents and simulated times in
//! nanoseconds.

use everhold_trace::{EventKind, Execution, MessageId, Time, TraceBuilder, notes};

use super::record::{Fate, Recorded, Trigger};

/// The note that gives the unit of the logical times.
const CLOCK: &str = "clock";

/// Returns the trace; states and contents are missing if they were not requested.
pub(crate) fn execution(recorded: &Recorded) -> Execution {
    let mut trace = TraceBuilder::new();
    for node in &recorded.nodes {
        trace.add_node(&node.name, &node.kind);
    }
    trace.note(notes::SCHEDULE, recorded.draws.token());
    trace.note(notes::SEED, recorded.draws.seed);
    trace.note(CLOCK, "ns");
    let mut ids: Vec<Option<MessageId>> = vec![None; recorded.messages.len()];
    let mut unsent = 0;
    for (number, event) in recorded.events.iter().enumerate() {
        trace.begin(event.node, kind(recorded, event.trigger, &ids));
        trace.time(Time::logical(event.start.0));
        while let Some(sent) = recorded.messages.get(unsent).filter(|m| m.by as usize <= number) {
            if sent.fate != Fate::Refused {
                let payload = recorded.payloads.get(unsent).cloned();
                let id = trace.send(sent.link.to, recorded.kind(sent.kind), payload);
                if sent.fate == Fate::Lost {
                    trace.lost(id);
                }
                ids[unsent] = Some(id);
            }
            unsent += 1;
        }
        let state = recorded.states.get(number).filter(|_| event.trigger != Trigger::Crash);
        if let Some(state) = state {
            trace.observe(state.clone());
        }
        let remarks = recorded.notes.iter().filter(|(at, _)| *at as usize == number);
        remarks.for_each(|(_, text)| trace.text(text));
    }
    trace.finish()
}

fn kind(recorded: &Recorded, trigger: Trigger, ids: &[Option<MessageId>]) -> EventKind {
    match trigger {
        Trigger::Message(message) => match ids[message as usize] {
            Some(message) => EventKind::Deliver { message },
            None => EventKind::Local { name: "a message from nowhere".to_owned() },
        },
        Trigger::Timer(timer) => {
            let name = recorded.timers[timer as usize].timer.to_string();
            EventKind::Timer { name }
        }
        Trigger::Start => EventKind::Start,
        Trigger::Task => EventKind::Local { name: "task".to_owned() },
        Trigger::Input => EventKind::Local { name: "input".to_owned() },
        Trigger::Restart => EventKind::Restart,
        Trigger::Crash => EventKind::Crash,
        Trigger::Disconnected(peer) => {
            let peer = recorded.nodes.get(peer.index()).map_or("?", |info| info.name.as_str());
            EventKind::Local { name: format!("disconnected from {peer}") }
        }
    }
}
