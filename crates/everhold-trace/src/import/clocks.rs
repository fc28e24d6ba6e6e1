//! Messages from vector clocks.

use std::collections::BTreeMap;

use super::expected;
use crate::event::{Event, EventKind, MessageId, Observation, Send, Time};
use crate::format::error::ReadError;
use crate::format::input::Judge;
use crate::trace::{Assembly, NodeInfo};
use crate::{NodeId, Value};

/// A log whose events carry vector clocks.
#[derive(Debug, Default)]
pub(super) struct ClockLog {
    names: Vec<String>,
    ids: BTreeMap<String, u32>,
    events: Vec<Logged>,
    /// The clocks of all events, each sorted by node, without zeros.
    entries: Vec<(u32, u32)>,
}

/// One event of it.
#[derive(Debug)]
struct Logged {
    node: u32,
    own: u32,
    entries: std::ops::Range<usize>,
    line: u64,
    time: Time,
    text: String,
    state: Option<Value>,
}

/// The text of an event besides its host and clock.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) line: u64,
    pub(super) time: Time,
    pub(super) text: String,
    pub(super) state: Option<Value>,
}

impl ClockLog {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds an event. The clock must have an entry for the host itself.
    pub(super) fn add<'a>(
        &mut self,
        host: &str,
        clock: impl Iterator<Item = (&'a str, u64)>,
        said: Said,
        judge: &mut Judge,
    ) -> Result<(), ReadError> {
        let node = self.id(host);
        let begin = self.entries.len();
        for (name, count) in clock.filter(|(_, count)| *count > 0) {
            let id = self.id(name);
            let Ok(count) = u32::try_from(count) else {
                self.entries.truncate(begin);
                let text = format!("the clock of `{host}` has {count} for `{name}`, above 2^32");
                return judge.hear(Some(said.line), expected(text));
            };
            self.entries.push((id, count));
        }
        self.entries[begin..].sort_unstable();
        let own = self.entries[begin..].iter().find(|(id, _)| *id == node);
        let Some(&(_, own)) = own else {
            self.entries.truncate(begin);
            let text = format!("the clock of `{host}` has no entry for `{host}` itself");
            return judge.hear(Some(said.line), expected(text));
        };
        let Said { line, time, text, state } = said;
        let entries = begin..self.entries.len();
        self.events.push(Logged { node, own, entries, line, time, text, state });
        Ok(())
    }

    fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = u32::try_from(self.names.len()).expect("node ids are 32 bits");
        self.ids.insert(name.to_owned(), id);
        self.names.push(name.to_owned());
        id
    }

    /// The execution's parts, messages included.
    pub(super) fn rebuild(self, name: &str, judge: &mut Judge) -> Result<Assembly, ReadError> {
        let mut rebuild = Rebuild::new(&self);
        rebuild.check_counts(judge)?;
        for host in 0..self.names.len() {
            rebuild.find_messages(host, judge)?;
        }
        let Rebuild { by_host, mut edges, .. } = rebuild;
        edges.sort_unstable();
        let slots = slots(&self.events, &by_host);
        Ok(self.assembly(name, &slots, &edges))
    }

    /// `slots` has the events in an order that respects each host's; `edges` the messages, as
    /// (sending, receiving) event.
    fn assembly(self, name: &str, slots: &[u32], edges: &[(u32, u32)]) -> Assembly {
        let mut next = vec![0u64; self.names.len()];
        let mut sends: Vec<Vec<Send>> = self.events.iter().map(|_| Vec::new()).collect();
        let mut received: Vec<Vec<MessageId>> = self.events.iter().map(|_| Vec::new()).collect();
        for &(from, to) in edges {
            let (sender, receiver) =
                (self.events[from as usize].node, self.events[to as usize].node);
            let seq = next[sender as usize];
            next[sender as usize] += 1;
            let to_node = Some(NodeId(receiver));
            sends[from as usize].push(Send {
                to: to_node,
                seq,
                label: String::new(),
                payload: None,
            });
            received[to as usize].push(MessageId { sender: NodeId(sender), seq });
        }
        let lines = slots.iter().map(|slot| self.events[*slot as usize].line).collect();
        let mut logged: Vec<Option<Logged>> = self.events.into_iter().map(Some).collect();
        let event = |&slot: &u32| {
            let slot = slot as usize;
            let logged = logged[slot].take().expect("each event has one slot");
            let (sends, received) =
                (std::mem::take(&mut sends[slot]), std::mem::take(&mut received[slot]));
            event(logged, sends, received)
        };
        let events = slots.iter().map(event).collect();
        let node = |name| NodeInfo { name, kind: String::new(), incarnations: 1 };
        let nodes = self.names.into_iter().map(node).collect();
        Assembly {
            name: name.to_owned(),
            nodes,
            events,
            lines,
            complete: true,
            ..Assembly::default()
        }
    }
}

fn event(logged: Logged, sends: Vec<Send>, mut received: Vec<MessageId>) -> Event {
    let kind = if received.is_empty() {
        EventKind::Local { name: String::new() }
    } else {
        EventKind::Deliver { message: received.remove(0) }
    };
    Event {
        joins: received,
        time: logged.time,
        sends,
        observation: logged.state.map(Observation::State),
        text: Some(logged.text).filter(|text| !text.is_empty()),
        ..Event::new(NodeId(logged.node), kind)
    }
}

/// The file's order, with each host's events in the order of its own count.
fn slots(events: &[Logged], by_host: &[Vec<u32>]) -> Vec<u32> {
    let mut next = vec![0; by_host.len()];
    let slot = |event: &Logged| {
        let host = event.node as usize;
        next[host] += 1;
        by_host[host][next[host] - 1]
    };
    events.iter().map(slot).collect()
}

struct Rebuild<'a> {
    log: &'a ClockLog,
    /// The events of each host by its own count.
    by_host: Vec<Vec<u32>>,
    edges: Vec<(u32, u32)>,
}

impl<'a> Rebuild<'a> {
    fn new(log: &'a ClockLog) -> Rebuild<'a> {
        let mut by_host = vec![Vec::new(); log.names.len()];
        for (place, event) in log.events.iter().enumerate() {
            let place = u32::try_from(place).expect("event ids are 32 bits");
            by_host[event.node as usize].push(place);
        }
        for events in &mut by_host {
            events.sort_by_key(|event: &u32| log.events[*event as usize].own);
        }
        Rebuild { log, by_host, edges: Vec::new() }
    }

    /// Each host must count 1, 2, 3 and so on.
    fn check_counts(&self, judge: &mut Judge) -> Result<(), ReadError> {
        for (host, events) in self.by_host.iter().enumerate() {
            let name = &self.log.names[host];
            let mut before = 0;
            for event in events {
                let Logged { own, line, .. } = self.log.events[*event as usize];
                if own == before {
                    let text = format!(
                        "clocks contradict each other: `{name}` has two events with count {own}; \
                         a host's clock ticks at each event, and a restarted host needs a new name"
                    );
                    judge.hear(Some(line), expected(text))?;
                } else if own != before + 1 {
                    let text = format!(
                        "`{name}` goes from count {before} to {own}: events are missing; read \
                         leniently to go on with the hole"
                    );
                    judge.hear(Some(line), expected(text))?;
                }
                before = own;
            }
        }
        Ok(())
    }

    fn find_messages(&mut self, host: usize, judge: &mut Judge) -> Result<(), ReadError> {
        let mut before: &[(u32, u32)] = &[];
        for place in 0..self.by_host[host].len() {
            let id = self.by_host[host][place];
            let event = &self.log.events[id as usize];
            let clock = self.clock(id);
            if let Some(text) = self.goes_back(before, clock) {
                judge.hear(Some(event.line), expected(text))?;
            }
            let mut news = Vec::new();
            for &(node, count) in clock {
                if node as usize == host || lookup(before, node) >= count {
                    continue;
                }
                match self.event_at(node, count) {
                    Ok(cause) => news.push((node, count, cause)),
                    Err((text, near)) => {
                        judge.hear(Some(event.line), expected(text))?;
                        news.extend(near.map(|cause| (node, count, cause)));
                    }
                }
            }
            self.reduce(news, id, judge)?;
            before = clock;
        }
        Ok(())
    }

    /// Keeps the causes that no other cause implies, and checks that the event knows what they do.
    fn reduce(
        &mut self,
        mut news: Vec<(u32, u32, u32)>,
        id: u32,
        judge: &mut Judge,
    ) -> Result<(), ReadError> {
        let clock = self.clock(id);
        while let Some(&first) = news.first() {
            // Go up from cause to a cause that implies it, as far as that leads.
            let mut top = first;
            for news in &news {
                if news.2 != top.2 && lookup(self.clock(news.2), top.0) >= top.1 {
                    top = *news;
                }
            }
            let implied = self.clock(top.2);
            let ahead = implied.iter().find(|(node, count)| lookup(clock, *node) < *count);
            let own = self.log.events[id as usize].node;
            if let Some((node, count)) = ahead.filter(|(node, _)| *node != own) {
                let names = &self.log.names;
                let text = format!(
                    "clocks contradict each other: it knows event {} of `{}`, which knows event \
                     {count} of `{}`, but does not know that one",
                    top.1, names[top.0 as usize], names[*node as usize]
                );
                judge.hear(Some(self.log.events[id as usize].line), expected(text))?;
            }
            self.edges.push((top.2, id));
            let implied = self.clock(top.2);
            news.retain(|(node, count, _)| *node != top.0 && lookup(implied, *node) < *count);
        }
        Ok(())
    }

    fn clock(&self, event: u32) -> &'a [(u32, u32)] {
        &self.log.entries[self.log.events[event as usize].entries.clone()]
    }

    fn goes_back(&self, before: &[(u32, u32)], clock: &[(u32, u32)]) -> Option<String> {
        let back = before.iter().find(|(node, count)| lookup(clock, *node) < *count)?;
        let name = &self.log.names[back.0 as usize];
        Some(format!(
            "clocks contradict each other: the host knew event {} of `{name}` before, and now \
             only {}; a clock never goes back",
            back.1,
            lookup(clock, back.0)
        ))
    }

    /// The event of a host with this count; without one, what to say and the last one before.
    fn event_at(&self, node: u32, count: u32) -> Result<u32, (String, Option<u32>)> {
        let events = &self.by_host[node as usize];
        let own = |event: &u32| self.log.events[*event as usize].own;
        let near = events.partition_point(|event| own(event) <= count).checked_sub(1);
        match near.map(|near| events[near]) {
            Some(event) if own(&event) == count => Ok(event),
            near => {
                let name = &self.log.names[node as usize];
                let text = format!(
                    "the clock knows event {count} of `{name}`, which the log does not have; add \
                     that host's log, or read leniently"
                );
                Err((text, near))
            }
        }
    }
}

fn lookup(clock: &[(u32, u32)], node: u32) -> u32 {
    clock.binary_search_by_key(&node, |entry| entry.0).map_or(0, |at| clock[at].1)
}
