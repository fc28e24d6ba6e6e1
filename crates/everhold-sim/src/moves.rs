//! The set of moves that can happen next, from which a strategy picks. It is maintained, never
//! recomputed.

use everhold_node::fingerprint::mix;
use everhold_node::{NodeId, TaskId};

use crate::fault::FaultKind;

/// Something that can happen now, apart from faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// The kind of the move.
    pub(crate) what: What,
    /// The node at which it happens.
    pub(crate) node: NodeId,
    /// The step that made it possible, such as the send or the setting of the timer. Zero is the
    /// start.
    pub(crate) born: u32,
    /// The identity of the move: it is the same in every execution with the same beginning.
    pub(crate) id: u64,
}

/// The kinds of move, with what the engine needs to find the thing itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A message arrives; the index is the message's place in the network.
    Deliver(u32),
    /// A task of an async node continues.
    Poll(TaskId),
    /// The node's next timer fires.
    Timer,
    /// A crashed node restarts.
    Restart,
    /// The partition ends.
    Heal,
    /// A node is told that a connection ended; the index is the notice's place in the network.
    Disconnected(u32),
}

impl What {
    /// Whether it is a timer, a restart or a heal: these happen when they are chosen or when
    /// nothing else can.
    #[must_use]
    pub(crate) fn is_idle(self) -> bool {
        match self {
            What::Deliver(_) | What::Poll(_) | What::Disconnected(_) => false,
            What::Timer | What::Restart | What::Heal => true,
        }
    }
}

/// A stable handle on a move while it is possible.
pub(crate) type Slot = u32;

/// No move.
pub(crate) const NONE: Slot = Slot::MAX;

/// The moves that are possible now.
///
/// Picks are numbered: first the ready moves (deliveries and tasks), then the idle ones (timers,
/// restarts), then the faults that are still in budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    slots: Vec<Entry>,
    free: Vec<Slot>,
    ready: Vec<Slot>,
    idle: Vec<Slot>,
    by_node: Vec<Vec<Slot>>,
    fresh: Vec<Slot>,
    track_nodes: bool,
    pub(crate) faults: FaultMenu,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offered: Move,
    /// Place in `ready` or `idle`.
    at: u32,
    /// Place in `by_node`.
    at_node: u32,
}

impl Moves {
    /// Moves that happen as soon as the strategy says so.
    #[must_use]
    #[inline]
    pub(crate) fn ready(&self) -> u32 {
        self.ready.len() as u32
    }

    /// Timers, restarts and heals.
    #[must_use]
    #[inline]
    pub(crate) fn idle(&self) -> u32 {
        self.idle.len() as u32
    }

    /// Ready and idle moves together.
    #[must_use]
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        (self.ready.len() + self.idle.len()) as u32
    }

    /// True if nothing can happen but a fault.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Faults that could be injected now; their picks follow those of the moves.
    #[must_use]
    #[inline]
    pub(crate) fn faults(&self) -> &FaultMenu {
        &self.faults
    }

    /// Everything that could be picked, faults included.
    #[must_use]
    pub(crate) fn picks(&self) -> u32 {
        self.len() + self.faults.len()
    }

    /// The move behind a pick below [`len`](Moves::len).
    #[must_use]
    #[inline]
    pub(crate) fn get(&self, pick: u32) -> &Move {
        &self.slots[self.slot(pick) as usize].offered
    }

    /// The moves in order of their picks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Move> {
        self.ready.iter().chain(&self.idle).map(|slot| &self.slots[*slot as usize].offered)
    }

    /// Moves that became possible since the last pick and still are. Only kept for strategies
    /// that [ask](crate::strategy::Strategy::tracks_nodes).
    pub(crate) fn fresh(&self) -> impl Iterator<Item = (u32, &Move)> {
        self.fresh.iter().map(|slot| (*slot, &self.slots[*slot as usize].offered))
    }

    /// The moves at one node, in no particular order.
    pub(crate) fn at_node(&self, node: NodeId) -> impl Iterator<Item = (u32, &Move)> {
        let slots = self.by_node.get(node.index()).map_or(&[][..], Vec::as_slice);
        slots.iter().map(|slot| (*slot, &self.slots[*slot as usize].offered))
    }

    /// The pick of a move named by its slot, as [`fresh`](Moves::fresh) gives it; `None` if the
    /// slot is empty or has another move by now.
    #[must_use]
    pub(crate) fn pick_of(&self, slot: u32, id: u64) -> Option<u32> {
        let entry = self.slots.get(slot as usize)?;
        let list = if entry.offered.what.is_idle() { &self.idle } else { &self.ready };
        let present = entry.offered.id == id && list.get(entry.at as usize) == Some(&slot);
        let before = if entry.offered.what.is_idle() { self.ready() } else { 0 };
        present.then(|| before + entry.at)
    }

    #[inline]
    fn slot(&self, pick: u32) -> Slot {
        let pick = pick as usize;
        match self.ready.get(pick) {
            Some(slot) => *slot,
            None => self.idle[pick - self.ready.len()],
        }
    }

    /// Becomes a copy of `other`, reusing its own memory.
    pub(crate) fn copy_from(&mut self, other: &Moves) {
        self.slots.clone_from(&other.slots);
        self.free.clone_from(&other.free);
        self.ready.clone_from(&other.ready);
        self.idle.clone_from(&other.idle);
        if other.track_nodes {
            self.by_node.clone_from(&other.by_node);
            self.fresh.clone_from(&other.fresh);
        }
        self.track_nodes = other.track_nodes;
        self.faults.clone_from(&other.faults);
    }

    pub(crate) fn clear(&mut self, nodes: usize, track_nodes: bool) {
        self.slots.clear();
        self.free.clear();
        self.ready.clear();
        self.idle.clear();
        self.fresh.clear();
        self.track_nodes = track_nodes;
        self.by_node.iter_mut().for_each(Vec::clear);
        if track_nodes && self.by_node.len() < nodes {
            self.by_node.resize_with(nodes, Vec::new);
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, offered: Move) -> Slot {
        let list = if offered.what.is_idle() { &mut self.idle } else { &mut self.ready };
        let mut entry = Entry { offered, at: list.len() as u32, at_node: 0 };
        let slot = self.free.pop().unwrap_or(self.slots.len() as Slot);
        list.push(slot);
        if self.track_nodes {
            self.fresh.push(slot);
            let node = offered.node.index();
            if self.by_node.len() <= node {
                self.by_node.resize_with(node + 1, Vec::new);
            }
            entry.at_node = self.by_node[node].len() as u32;
            self.by_node[node].push(slot);
        }
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = entry,
            None => self.slots.push(entry),
        }
        slot
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        let entry = self.slots[slot as usize];
        let list = if entry.offered.what.is_idle() { &mut self.idle } else { &mut self.ready };
        debug_assert_eq!(list[entry.at as usize], slot, "a move is removed once");
        list.swap_remove(entry.at as usize);
        if let Some(moved) = list.get(entry.at as usize) {
            self.slots[*moved as usize].at = entry.at;
        }
        if self.track_nodes {
            self.forget_at_node(slot, entry);
        }
        self.free.push(slot);
    }

    fn forget_at_node(&mut self, slot: Slot, entry: Entry) {
        let list = &mut self.by_node[entry.offered.node.index()];
        list.swap_remove(entry.at_node as usize);
        if let Some(moved) = list.get(entry.at_node as usize) {
            self.slots[*moved as usize].at_node = entry.at_node;
        }
        if let Some(at) = self.fresh.iter().position(|fresh| *fresh == slot) {
            self.fresh.swap_remove(at);
        }
    }

    /// Changes the step at which a move that is already offered became possible, as when a timer is
    /// set again.
    pub(crate) fn renew(&mut self, slot: Slot, born: u32, id: u64) {
        let offered = &mut self.slots[slot as usize].offered;
        (offered.born, offered.id) = (born, id);
    }

    pub(crate) fn forget_fresh(&mut self) {
        self.fresh.clear();
    }
}

/// The faults that are in budget, as ranges of picks.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultMenu {
    counts: [u32; FaultKind::ALL.len()],
    total: u32,
    disk: DiskMenu,
}

/// The faults that can strike a disk within an event, if nodes use one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskMenu {
    /// A crash at an operation.
    pub(crate) crash: bool,
    /// An operation that fails.
    pub(crate) fails: bool,
    /// A full disk.
    pub(crate) full: bool,
}

impl FaultMenu {
    /// The number of different faults that could be injected now.
    #[must_use]
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.total
    }

    /// True if there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The number of faults of one kind that could be injected now.
    #[must_use]
    pub(crate) fn of(&self, kind: FaultKind) -> u32 {
        self.counts[kind as usize]
    }

    /// The first pick of a kind, counted from the first fault.
    #[must_use]
    pub(crate) fn first(&self, kind: FaultKind) -> u32 {
        self.counts[..kind as usize].iter().sum()
    }

    /// The number of faults that make something possible where nothing is: crashes, after which a
    /// node restarts, and broken connections, whose ends are notified.
    #[must_use]
    pub(crate) fn awakening(&self) -> u32 {
        self.of(FaultKind::Crash) + self.of(FaultKind::Reset)
    }

    /// The pick of one of them, counted from the first fault.
    #[must_use]
    pub(crate) fn awaken(&self, number: u32) -> u32 {
        match number.checked_sub(self.of(FaultKind::Crash)) {
            None => self.first(FaultKind::Crash) + number,
            Some(number) => self.first(FaultKind::Reset) + number,
        }
    }

    /// The faults that are not picks: they strike within an event, when a disk is used.
    #[must_use]
    pub(crate) fn disk(&self) -> DiskMenu {
        self.disk
    }

    /// True if there is neither a pick nor a fault within an event.
    #[must_use]
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.total == 0 && self.disk == DiskMenu::default()
    }

    pub(crate) fn set_disk(&mut self, disk: DiskMenu) {
        self.disk = disk;
    }

    pub(crate) fn set(&mut self, counts: [u32; FaultKind::ALL.len()]) {
        self.counts = counts;
        self.total = counts.iter().sum();
    }

    /// The kind of a fault and its number within the kind.
    pub(crate) fn decode(&self, mut index: u32) -> (FaultKind, u32) {
        for kind in FaultKind::ALL {
            if index < self.of(kind) {
                return (kind, index);
            }
            index -= self.of(kind);
        }
        unreachable!("a fault is picked from the menu")
    }
}

/// Identities of moves. They depend on the past of their node, not on events elsewhere, so
/// independent steps can be swapped without renaming anything.
pub(crate) mod identity {
    use super::{NodeId, TaskId, mix};

    #[inline]
    pub(crate) fn message(from: NodeId, sequence: u32) -> u64 {
        (u64::from(from.0) << 32) | u64::from(sequence)
    }

    pub(crate) fn timer(node: NodeId, setting: u32) -> u64 {
        mix(0x71E5, (u64::from(node.0) << 32) | u64::from(setting))
    }

    pub(crate) fn task(node: NodeId, task: TaskId, polls: u32) -> u64 {
        mix(mix(0x7A5C, (u64::from(node.0) << 32) | u64::from(task.0)), u64::from(polls))
    }

    pub(crate) fn restart(node: NodeId, incarnation: u32) -> u64 {
        mix(0x4E57, (u64::from(node.0) << 32) | u64::from(incarnation))
    }

    pub(crate) const HEAL: u64 = 0x4EA1;

    pub(crate) fn notice(node: NodeId, peer: NodeId, born: u32) -> u64 {
        mix(mix(0xD15C, (u64::from(node.0) << 32) | u64::from(peer.0)), u64::from(born))
    }
}
