//! The messages in flight: their number and their payloads.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::EventId;
use crate::order::Order;
use crate::trace::{Execution, Fate, Message};
use crate::{NodeId, Value};

/// The messages of an execution that were sent and not lost.
///
/// One that nobody received while the recording ran is in flight to its end; a copy that comes
/// after the first tells nothing new. A broadcast is in flight until all who received it did.
///
/// ```
/// use everhold_trace::{EventKind, Flights, Order, TraceBuilder};
///
/// let mut trace = TraceBuilder::new();
/// let (a, b) = (trace.add_node("a", ""), trace.add_node("b", ""));
/// trace.begin(a, EventKind::Start);
/// let message = trace.send(b, "Ping", None);
/// trace.begin(b, EventKind::Deliver { message });
/// let execution = trace.finish();
///
/// let flights = Flights::of(&execution, &Order::of(&execution));
/// assert_eq!(flights.at(&[1, 0])["Ping"], 1);
/// assert!(flights.at(&[1, 1]).is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Flights(Vec<Flight>);

#[derive(Clone, Debug)]
struct Flight {
    kind: String,
    payload: Value,
    sent: EventId,
    sent_at: (NodeId, u32),
    /// The last of the receives.
    received: Option<EventId>,
    /// The receives: nodes, and how many events they have had by then.
    received_at: Vec<(NodeId, u32)>,
}

impl Flights {
    /// Collects them.
    #[must_use]
    pub fn of(execution: &Execution, order: &Order) -> Flights {
        let flight = |message: &Message| {
            let sent = message.sent.filter(|_| message.fate() != Fate::Lost)?;
            let received: Vec<EventId> = execution.first_deliveries(message).collect();
            let send = execution.send_of(message)?;
            Some(Flight {
                kind: send.label.clone(),
                payload: send.payload.clone().unwrap_or_default(),
                sent,
                sent_at: order.place(sent),
                received_at: received.iter().map(|event| order.place(*event)).collect(),
                received: received.into_iter().max(),
            })
        };
        Flights(execution.messages().iter().filter_map(flight).collect())
    }

    /// The kinds of the messages.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<&str> {
        self.0.iter().map(|flight| flight.kind.as_str()).collect()
    }

    /// The number of messages in flight at a cut, by kind; kinds without any are left out.
    #[must_use]
    pub fn at(&self, cut: &[u32]) -> BTreeMap<String, u64> {
        let mut messages = BTreeMap::new();
        for flight in self.flying(cut) {
            *messages.entry(flight.kind.clone()).or_default() += 1;
        }
        messages
    }

    /// The payloads of the messages in flight at a cut, by kind, in the order of the messages'
    /// identities; kinds without any are left out. The payload of a message without one is null.
    #[must_use]
    pub fn payloads_at(&self, cut: &[u32]) -> BTreeMap<String, Vec<Value>> {
        let mut payloads: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for flight in self.flying(cut) {
            payloads.entry(flight.kind.clone()).or_default().push(flight.payload.clone());
        }
        payloads
    }

    fn flying(&self, cut: &[u32]) -> impl Iterator<Item = &Flight> {
        let has = |(node, count): &(NodeId, u32)| *count <= cut[node.index()];
        let flies = move |flight: &&Flight| {
            let ended = !flight.received_at.is_empty() && flight.received_at.iter().all(has);
            has(&flight.sent_at) && !ended
        };
        self.0.iter().filter(flies)
    }

    /// How the number of each kind changes at the events of the recorded order.
    #[must_use]
    pub fn changes(&self) -> BTreeMap<EventId, Vec<(&str, i64)>> {
        let mut changes: BTreeMap<EventId, Vec<(&str, i64)>> = BTreeMap::new();
        for flight in &self.0 {
            changes.entry(flight.sent).or_default().push((&flight.kind, 1));
            if let Some(received) = flight.received {
                changes.entry(received).or_default().push((&flight.kind, -1));
            }
        }
        changes
    }
}
