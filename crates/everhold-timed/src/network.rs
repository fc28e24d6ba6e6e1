//! The transport of messages from sending to arrival.

use everhold_node::fingerprint::{self, mix};
use everhold_node::{Message, NodeId, Tag, Time};
use everhold_sim::FaultKind;
use everhold_sim::engine::{Spared, payload};

use super::draw::{Stream, draw};
use super::draws::OnLink;
use super::durations::nanoseconds;
use super::env::{Env, Flight, Item, NETWORK, What};
use super::fault::TimedFault;
use super::kinds::Class;
use super::links::{self, LinkState};
use super::net::Carrier;
use super::record::{Fate, Sent};

/// The number of successive losses of a message after which a stream gives up retransmission.
const LOSSES_MAX: u32 = 32;

impl<M: Message> Env<M> {
    /// Hands a message to the network; returns it if the send buffer is full.
    #[inline]
    pub(super) fn launch(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) -> Result<(), M> {
        let kind = self.kind(Class::Message, fingerprint::kind(&msg));
        let mut transport = self.state.kinds.transport(kind);
        if !self.model.ways.links.is_empty() {
            transport = self.ruled(from, to, &msg).unwrap_or(transport);
        }
        let key = links::key(from, to, transport);
        let link = self.state.links.find(key);
        let link = link.unwrap_or_else(|| self.open_link(key, from, to, transport));
        let model = &*self.model;
        let size = model.size.as_ref().map_or_else(|| fingerprint::size(&msg), |size| size(&msg));
        let bytes = size + model.ways.overhead;
        let carrier = &model.ways.transports[usize::from(transport)];
        let state = self.state.links.get_mut(link);
        let on = OnLink { from, to, transport, index: state.sent };
        let full = state.messages >= carrier.messages_max
            || state.bytes.saturating_add(bytes) > carrier.bytes_max && state.messages > 0;
        if full || !self.has_room(to) {
            self.record_refused(on, kind, bytes);
            return Err(msg);
        }
        self.dispatch(link, on, kind, bytes, tag, msg);
        Ok(())
    }

    /// Returns the transport that a link rule assigns to a message.
    fn ruled(&self, from: NodeId, to: NodeId, msg: &M) -> Option<u8> {
        let sends = self.state.nodes[from.index()].rest.sends;
        let takes = self.state.nodes.get(to.index())?.rest.takes;
        self.model.ways.transport_of(sends & takes, fingerprint::kind(msg))
    }

    /// Returns whether a node's mailbox has room for one more message; messages under way count as
    /// well.
    #[inline]
    fn has_room(&self, node: NodeId) -> bool {
        let room = self.state.nodes.get(node.index()).and_then(|state| state.rest.room);
        room.is_none_or(|room| {
            let waits = |item: &&Item<M>| {
                item.node == node
                    && !item.dead
                    && matches!(item.what, What::Message(_) | What::Departing(_))
            };
            self.state.items.iter().filter(waits).count() < room as usize
        })
    }

    /// Puts a message on a link.
    #[inline]
    fn dispatch(&mut self, link: u32, on: OnLink, kind: u16, bytes: u64, tag: Tag, msg: M) {
        let model = &*self.model;
        let leaves = match &model.disk {
            None => self.state.end,
            Some(_) => self.state.end + self.disk_time(on.from),
        };
        let &Carrier { streams, ordered, spared, .. } =
            &model.ways.transports[usize::from(on.transport)];
        let untold = streams && !self.state.untold.is_empty() && self.is_untold(on.from, on.to);
        let state = self.state.links.get_mut(link);
        let way = &model.ways.ways[state.way as usize];
        state.sent += 1;
        state.open |= streams && !untold && on.from != on.to;
        let drawn = draw(self.state.seed, Stream::Link(state.key), u64::from(on.index));
        let mut delay = way.propagation + way.jitter.sample(drawn);
        if state.changed {
            delay = self.draws.delay(on, delay, way.propagation);
        }
        let mut lost = untold;
        if way.loss > 0 {
            let losses = losses(drawn, way.loss, if streams { LOSSES_MAX } else { 1 });
            lost |= losses > 0 && !streams;
            delay += u64::from(losses) * 2 * way.propagation;
        }
        let sender = &mut self.state.nodes[on.from.index()];
        let sequence = sender.sent;
        sender.sent += 1;
        let flight = Flight { from: on.from, link, bytes, sequence, tag, delay, msg };
        let mut item = Item::new(on.to, kind, What::Message(flight));
        if self.recorder.is_some() {
            self.record_sent(&mut item, on, kind, bytes, leaves, delay);
        }
        if !self.state.upsets.is_empty() {
            let upset = self.upset_message(&mut item, leaves, ordered, spared);
            if upset && streams {
                self.break_at(on, leaves);
            }
            lost |= upset;
        }
        if lost || on.to.index() >= self.state.nodes.len() {
            return self.lose(item);
        }
        if self.state.flows.is_some() {
            return self.queue_departure(item, leaves, on.index);
        }
        self.fly(item, leaves, ordered, drawn as u32);
    }

    /// Computes the arrival time of a message, with the sender's bandwidth shared by its heavy
    /// flows.
    #[inline]
    fn fly(&mut self, item: Item<M>, leaves: u64, ordered: bool, tie: u32) {
        let What::Message(flight) = &item.what else { return };
        let model = &*self.model;
        let link = self.state.links.get_mut(flight.link);
        let way = &model.ways.ways[link.way as usize];
        let before = link.bytes;
        link.bytes += flight.bytes;
        link.messages += 1;
        let sender = &mut self.state.nodes[flight.from.index()];
        let threshold = model.ways.threshold;
        if before <= threshold && link.bytes > threshold {
            sender.heavy += 1;
        }
        let transmission = way.transmission(flight.bytes, sender.heavy.max(1));
        let arrival = if ordered {
            let begins = leaves.max(link.last_arrival.saturating_sub(way.propagation));
            let arrival = (begins + transmission + flight.delay).max(link.last_arrival + 1);
            link.last_arrival = arrival;
            arrival
        } else {
            leaves + transmission + flight.delay
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.arrives(item.record, arrival);
        }
        let slot = self.state.put(item);
        self.state.queue.push(arrival, tie, slot);
    }

    #[cold]
    fn open_link(&mut self, key: u64, from: NodeId, to: NodeId, transport: u8) -> u32 {
        let changed = !self.draws.changes.is_empty() && self.draws.has_link(from, to, transport);
        let ways = &self.model.ways;
        let ruled = ways.transports[usize::from(transport)].way;
        let way = ruled.unwrap_or_else(|| ways.between(from, to));
        let (last_arrival, bytes, messages, sent, open) = (0, 0, 0, 0, false);
        let state = LinkState { key, last_arrival, bytes, messages, sent, way, changed, open };
        self.state.links.add(state)
    }

    /// Handles the arrival of a message; returns false if it is not delivered.
    #[inline]
    pub(super) fn arrive(&mut self, slot: u32) -> bool {
        let item = &self.state.items[slot as usize];
        let What::Message(flight) = &item.what else { return true };
        let (from, to, dead) = (flight.from, item.node, item.dead);
        if !self.state.sides.is_empty() && !dead && self.is_cut(from, to, flight.link) {
            self.hold_back(slot);
            return false;
        }
        let link = self.state.links.get_mut(flight.link);
        let before = link.bytes;
        link.bytes -= flight.bytes;
        link.messages -= 1;
        let threshold = self.model.ways.threshold;
        if before > threshold && link.bytes <= threshold {
            self.state.nodes[from.index()].heavy -= 1;
        }
        if dead {
            self.drop_item(slot);
        }
        !dead
    }

    fn is_cut(&self, from: NodeId, to: NodeId, link: u32) -> bool {
        let fault = if self.state.one_way { FaultKind::OneWay } else { FaultKind::Partition };
        let transport = self.state.links.get(link).key as u8;
        if self.model.ways.transports[usize::from(transport)].spared.contains(fault) {
            return false;
        }
        let side = |node: NodeId| self.state.sides.get(node.index()).copied().unwrap_or(false);
        if self.state.one_way { side(from) && !side(to) } else { side(from) != side(to) }
    }

    /// Handles a message that meets the partition: a stream waits, a datagram is lost.
    fn hold_back(&mut self, slot: u32) {
        let What::Message(flight) = &self.state.items[slot as usize].what else { return };
        let transport = self.state.links.get_mut(flight.link).key as u8;
        if self.model.ways.transports[usize::from(transport)].streams {
            self.state.stalled.push(slot);
        } else {
            self.state.items[slot as usize].dead = true;
            self.arrive(slot);
        }
    }

    /// Ends the partition: the messages that waited go on in their order.
    pub(super) fn heal(&mut self) {
        self.state.sides.clear();
        for slot in std::mem::take(&mut self.state.stalled) {
            let item = &self.state.items[slot as usize];
            let What::Message(flight) = &item.what else { continue };
            let link = self.state.links.get_mut(flight.link);
            let way = &self.model.ways.ways[link.way as usize];
            let arrival = (self.state.now + way.propagation).max(link.last_arrival + 1);
            link.last_arrival = arrival;
            if let Some(recorder) = &mut self.recorder {
                recorder.arrives(item.record, arrival);
            }
            self.state.queue.push(arrival, 0, slot);
        }
    }

    /// Applies the faults that waited for a message; returns true if the message is lost.
    #[cold]
    fn upset_message(
        &mut self,
        item: &mut Item<M>,
        leaves: u64,
        ordered: bool,
        spared: Spared,
    ) -> bool {
        let mut lost = false;
        let waits = |fault: &TimedFault| fault.kind().is_some_and(|kind| spared.contains(kind));
        let upsets = std::mem::take(&mut self.state.upsets);
        let (waiting, striking): (Vec<_>, Vec<_>) = upsets.into_iter().partition(waits);
        self.state.upsets = waiting;
        for fault in striking {
            match (fault, &mut item.what) {
                (TimedFault::Lose, _) => lost = true,
                (TimedFault::Delay(by), What::Message(flight)) => {
                    flight.delay += nanoseconds(by);
                }
                (TimedFault::Duplicate, What::Message(flight)) => {
                    let again = Item::new(item.node, item.kind, What::Message(flight.clone()));
                    let tie = draw(self.state.seed, Stream::Faults, leaves) as u32;
                    match self.state.flows {
                        Some(_) => self.queue_departure(again, leaves, tie),
                        None => self.fly(again, leaves, ordered, tie),
                    }
                }
                _ => {}
            }
        }
        lost
    }

    fn lose(&mut self, item: Item<M>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.lost(item.record);
        }
    }

    #[cold]
    fn record_sent(
        &mut self,
        item: &mut Item<M>,
        link: OnLink,
        kind: u16,
        bytes: u64,
        leaves: u64,
        delay: u64,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        if recorder.full
            && let What::Message(flight) = &item.what
        {
            recorder.payloads.push(payload(&flight.msg, &mut recorder.room));
        }
        let (by, sent) = (recorder.current(), Time(leaves));
        let (arrives, fate) = (None, Fate::UnderWay);
        item.record = recorder.sent(Sent { link, kind, bytes, by, sent, arrives, delay, fate });
    }

    #[cold]
    fn record_refused(&mut self, link: OnLink, kind: u16, bytes: u64) {
        let Some(recorder) = &mut self.recorder else { return };
        if recorder.full {
            recorder.payloads.push(everhold_trace::Value::Null);
        }
        let (by, sent) = (recorder.current(), Time(self.state.end));
        let (arrives, delay, fate) = (None, 0, Fate::Refused);
        recorder.sent(Sent { link, kind, bytes, by, sent, arrives, delay, fate });
    }

    /// Schedules the entry of a message into the fairly shared network.
    fn queue_departure(&mut self, mut item: Item<M>, leaves: u64, tie: u32) {
        if let What::Message(flight) = item.what {
            let link = self.state.links.get_mut(flight.link);
            link.bytes += flight.bytes;
            link.messages += 1;
            item.what = What::Departing(flight);
            let slot = self.state.put(item);
            self.state.queue.push(leaves, tie, slot);
        }
    }

    /// Moves a message into the fairly shared network.
    #[cold]
    pub(super) fn depart(&mut self, slot: u32) {
        let now = self.state.now;
        let item = &mut self.state.items[slot as usize];
        let what = std::mem::replace(&mut item.what, What::Vacant);
        let What::Departing(flight) = what else { return };
        let (to, dead) = (item.node, item.dead);
        let (from, link, bytes) = (flight.from, flight.link, flight.bytes);
        item.what = What::Message(flight);
        if dead {
            self.arrive(slot);
            return;
        }
        let cap = self.model.ways.ways[self.state.links.get_mut(link).way as usize].rate;
        if let (Some(flows), Some(fair)) = (&mut self.state.flows, &self.model.ways.fair) {
            let ends = (from, to, fair.of(from).0, fair.of(to).1);
            flows.add(now, link, ends, cap, (slot, bytes));
            if let Some(at) = flows.look_at(now) {
                self.state.queue.push(at, u32::MAX, NETWORK);
            }
        }
    }

    /// Advances the fairly shared network to a change of its rates.
    #[cold]
    pub(super) fn share(&mut self) {
        let now = self.state.now;
        let Some(mut flows) = self.state.flows.take() else { return };
        flows.advance(now);
        while let Some(slot) = flows.finished() {
            self.leave_wire(slot, now);
        }
        if let Some(at) = flows.refill(now) {
            self.state.queue.push(at, u32::MAX, NETWORK);
        }
        self.state.flows = Some(flows);
    }

    /// Handles the end of a message's transmission.
    fn leave_wire(&mut self, slot: u32, now: u64) {
        let item = &self.state.items[slot as usize];
        let What::Message(flight) = &item.what else { return };
        let link = self.state.links.get_mut(flight.link);
        let transport = link.key as u8;
        let mut arrival = now + flight.delay;
        if self.model.ways.transports[usize::from(transport)].ordered {
            arrival = arrival.max(link.last_arrival + 1);
            link.last_arrival = arrival;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.arrives(item.record, arrival);
        }
        self.state.queue.push(arrival, mix(u64::from(slot), now) as u32, slot);
    }
}

/// Returns the number of successive losses of a message.
#[cold]
fn losses(drawn: u64, loss: u64, most: u32) -> u32 {
    let is_lost = |number: &u32| mix(drawn, u64::from(*number)) >> 32 < loss;
    (0..most).take_while(is_lost).count() as u32
}
