//! The snapshots in which properties are judged: after every event, or where nothing is on its way.

use everhold_property::Scope;
use everhold_trace::trace::Fate;
use everhold_trace::{EventId, Execution};

use super::failing::offsets;
use crate::bitmap;

/// For each run the events after which a property of this scope is judged.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) scope: Scope,
    pub(crate) runs: Vec<Vec<u32>>,
    /// How many events each run has.
    events: Vec<u32>,
}

impl Moments {
    /// `None` for a scope that is not about snapshots of the recorded order.
    pub(crate) fn of(scope: Scope, executions: &[&Execution]) -> Option<Moments> {
        let runs = executions.iter().map(|execution| match scope {
            Scope::EveryCut => Some((0..events(execution)).collect()),
            Scope::AllQuiet => Some(quiet(execution)),
            Scope::Quiet | Scope::Delivery | Scope::Chains => None,
        });
        let events = executions.iter().map(|execution| events(execution)).collect();
        Some(Moments { scope, runs: runs.collect::<Option<_>>()?, events })
    }

    /// How many snapshots there are in all runs.
    pub(crate) fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.len() as u64).sum()
    }

    /// Whether every snapshot is one of them.
    pub(crate) fn is_all(&self) -> bool {
        self.runs.iter().zip(&self.events).all(|(run, events)| run.len() == *events as usize)
    }

    /// A set of these snapshots, the runs one after the other, as a set of all snapshots.
    pub(crate) fn among_all(&self, set: Vec<u64>) -> Vec<u64> {
        if self.is_all() {
            return set;
        }
        let all = offsets(self.events.iter().copied());
        let own = offsets(self.runs.iter().map(|run| number(run.len())));
        let mut wide = vec![0; bitmap::words(all[all.len() - 1])];
        let mut run = 0;
        for place in bitmap::rows(&set) {
            while place >= own[run + 1] {
                run += 1;
            }
            let event = all[run] + self.runs[run][place - own[run]] as usize;
            wide[event / 64] |= 1 << (event % 64);
        }
        wide
    }
}

fn number(place: usize) -> u32 {
    u32::try_from(place).expect("event ids are 32 bits")
}

fn events(execution: &Execution) -> u32 {
    number(execution.events().len())
}

/// The events after which no message is on its way.
///
/// One that never arrives, and of which nothing says that it was lost, is on its way to the end:
/// what it would have changed is not known.
fn quiet(execution: &Execution) -> Vec<u32> {
    let end = execution.events().len();
    let mut changes = vec![0_i64; end + 1];
    for message in execution.messages() {
        let Some(sent) = message.sent else { continue };
        let arrived = match message.fate() {
            // When all that it was for have it; a later copy tells nothing new.
            Fate::Delivered => {
                execution.first_deliveries(message).max().map_or(end, EventId::index)
            }
            Fate::Lost => continue,
            Fate::InFlight => end,
        };
        changes[sent.index()] += 1;
        changes[arrived] -= 1;
    }
    let mut flying = 0;
    let mut moments = Vec::new();
    for (event, change) in (0..events(execution)).zip(changes) {
        flying += change;
        if flying == 0 {
            moments.push(event);
        }
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_trace::{EventKind, TraceBuilder};

    #[test]
    fn quiet_is_when_all_that_arrives_has_arrived() {
        let mut trace = TraceBuilder::new();
        let (a, b) = (trace.add_node("a", ""), trace.add_node("b", ""));
        trace.begin(a, EventKind::Start);
        trace.begin(b, EventKind::Start);
        let one = trace.send(a, "one", None);
        trace.begin(a, EventKind::Deliver { message: one });
        let gone = trace.send(b, "gone", None);
        trace.lost(gone);
        trace.begin(b, EventKind::Timer { name: "tick".into() });
        // A copy arrives late; what is sent last never does.
        trace.begin(a, EventKind::Deliver { message: one });
        trace.begin(b, EventKind::Timer { name: "tick".into() });
        trace.send(a, "last", None);
        trace.begin(b, EventKind::Timer { name: "tick".into() });
        let execution = trace.finish();
        let moments = Moments::of(Scope::AllQuiet, &[&execution]).expect("it is about snapshots");
        assert_eq!(moments.runs, [vec![0, 2, 3, 4]]);
        assert_eq!(moments.among_all(vec![0b1011]), [0b1_0101]);
        assert!(Moments::of(Scope::Chains, &[&execution]).is_none());
    }
}
