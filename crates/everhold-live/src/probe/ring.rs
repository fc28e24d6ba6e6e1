//! The ring of one thread of one probe.
//!
//! A record is a few words: a header (kind, types of its two values, name), the stamp, and the
//! words of its values. The ring consists of cells of four words, which suffice for most records: a
//! record that fits is written by one push of a fixed size, longer ones take several cells. A
//! record is committed at once, so the reader sees only complete records. Records that need the
//! heap go through a second ring of boxes.
//!
//! The stamp that a node has passed must be known exactly, or a checker would trust a snapshot that
//! a slow thread is about to contradict. So a thread publishes, while it writes, a stamp that is
//! not above the one that it is about to take. The clock is one atomic word that both sides modify,
//! which orders them: if the reader's tick comes after the thread's, the reader sees either that
//! mark or the finished record, or that the record was dropped.
//!
//! If a ring is full, a record is dropped, and what was dropped is known by its stamps: what the node
//! showed is unknown from the first of them to the last, and after that until it is observed again.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everhold_trace::wire::{DEPTH_MAX, Name, Record, Stamp, Tuple, What};
use everhold_trace::{EventKind, MessageId, NodeId, Value};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Scalar, Shared, Var, lock};

/// The unit of the ring.
type Cell = [u64; CELL_WORDS];
const CELL_WORDS: usize = 4;

/// The longest text in bytes that does not go through the heap.
const TEXT_MAX: usize = 1_000;
/// The size of the longest record in words: header, stamp, and two texts with their lengths,
/// rounded up to whole cells.
const WORDS_MAX: usize = (2 + 2 * (1 + TEXT_MAX / 8 + 1)).next_multiple_of(CELL_WORDS);
/// The size of a buffer that is enough for most records; clearing the larger one would cost more
/// than everything else.
const WORDS_FEW: usize = 64;
/// The number of boxed records that may wait.
const BOXES: usize = 1 << 13;

const OBSERVE: u64 = 1;
const ADD: u64 = 2;
const REMOVE: u64 = 3;
const STEP: u64 = 4;
const LEAVE: u64 = 5;
const SEND: u64 = 6;
const RECEIVE: u64 = 7;

const NULL: u64 = 0;
const FALSE: u64 = 1;
const TRUE: u64 = 2;
const INT: u64 = 3;
const FLOAT: u64 = 4;
const NODE: u64 = 5;
const TEXT: u64 = 6;

thread_local! {
    /// The rings of this thread, one for each probe that it uses; usually one.
    static RINGS: RefCell<Vec<Ring>> = const { RefCell::new(Vec::new()) };
}

/// The writing end.
struct Ring {
    serial: u64,
    cells: Producer<Cell>,
    boxes: Producer<(Stamp, Box<What>)>,
    marks: Arc<Marks>,
}

/// The state that both ends share.
#[derive(Debug)]
struct Marks {
    /// A stamp not above that of the record that is being written; 0 if none is.
    writing: AtomicU64,
    dropped: AtomicU64,
    /// The stamps of the first and the last record that was dropped since the reader looked.
    first_dropped: AtomicU64,
    last_dropped: AtomicU64,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            writing: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            first_dropped: AtomicU64::new(u64::MAX),
            last_dropped: AtomicU64::new(0),
        }
    }
}

/// Records that found no room in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) first: Stamp,
    pub(super) last: Stamp,
    pub(super) records: u64,
}

impl Marks {
    #[cold]
    fn drop_record(&self, at: Stamp) {
        self.last_dropped.store(at.0, Ordering::Relaxed);
        self.first_dropped.fetch_min(at.0, Ordering::AcqRel);
        self.dropped.fetch_add(1, Ordering::Release);
    }

    /// Takes what was dropped since the last call. A record that is dropped meanwhile is within these
    /// stamps, or is told the next time.
    fn take_loss(&self) -> Option<Loss> {
        let records = self.dropped.swap(0, Ordering::Acquire);
        if records == 0 {
            return None;
        }
        let first = self.first_dropped.swap(u64::MAX, Ordering::AcqRel);
        let last = self.last_dropped.load(Ordering::Relaxed);
        Some(Loss { first: Stamp(first.min(last)), last: Stamp(last), records })
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct RingReader {
    cells: Consumer<Cell>,
    boxes: Consumer<(Stamp, Box<What>)>,
    marks: Arc<Marks>,
}

#[inline]
pub(super) fn observe(shared: &Shared, var: Var, value: Scalar<'_>) {
    if shared.tap.is_some() {
        let name = Name::clone(&lock(&shared.names)[var.0 as usize]);
        return boxed(shared, What::Observe(vec![(name, value.into())]));
    }
    match value {
        Scalar::Text(text) if text.len() > TEXT_MAX => {
            let name = Name::clone(&lock(&shared.names)[var.0 as usize]);
            boxed(shared, What::Observe(vec![(name, text.into())]));
        }
        Scalar::Text(text) if words_of(text) + 2 <= WORDS_FEW => {
            write(shared, Words::<WORDS_FEW>::new(OBSERVE, var).scalar(value, 40).written());
        }
        Scalar::Text(_) => {
            write(shared, Words::<WORDS_MAX>::new(OBSERVE, var).scalar(value, 40).written());
        }
        plain => {
            let (sort, word) = flat(plain);
            write_one(shared, [header(OBSERVE, var) | sort << 40, 0, word, 0]);
        }
    }
}

#[inline]
pub(super) fn tuple(
    shared: &Shared,
    holds: bool,
    relation: Var,
    key: Scalar<'_>,
    value: Scalar<'_>,
) {
    let is_long = |part| matches!(part, Scalar::Text(text) if text.len() > TEXT_MAX);
    if is_long(key) || is_long(value) || shared.tap.is_some() {
        let relation = Name::clone(&lock(&shared.names)[relation.0 as usize]);
        let tuple = Tuple { relation, key: key.into(), value: value.into() };
        return boxed(shared, if holds { What::Add(tuple) } else { What::Remove(tuple) });
    }
    let kind = if holds { ADD } else { REMOVE };
    let room = |part| if let Scalar::Text(text) = part { words_of(text) } else { 1 };
    match (key, value) {
        (Scalar::Text(_), _) | (_, Scalar::Text(_)) if room(key) + room(value) + 2 <= WORDS_FEW => {
            let mut words = Words::<WORDS_FEW>::new(kind, relation);
            write(shared, words.scalar(key, 48).scalar(value, 40).written());
        }
        (Scalar::Text(_), _) | (_, Scalar::Text(_)) => {
            let mut words = Words::<WORDS_MAX>::new(kind, relation);
            write(shared, words.scalar(key, 48).scalar(value, 40).written());
        }
        _ => {
            let ((key_sort, key), (sort, value)) = (flat(key), flat(value));
            let header = header(kind, relation) | key_sort << 48 | sort << 40;
            write_one(shared, [header, 0, key, value]);
        }
    }
}

/// Returns the number of words of a text, including its length.
fn words_of(text: &str) -> usize {
    1 + text.len().div_ceil(8)
}

pub(super) fn step(shared: &Shared, label: Var) {
    if shared.tap.is_some() {
        let name = lock(&shared.names)[label.0 as usize].to_string();
        return boxed(shared, What::Note(name));
    }
    write_one(shared, [header(STEP, label), 0, 0, 0]);
}

pub(super) fn leave(shared: &Shared, label: Var) {
    if shared.tap.is_some() {
        return;
    }
    write_one(shared, [header(LEAVE, label), 0, 0, 0]);
}

pub(super) fn send(shared: &Shared, to: Option<NodeId>, seq: u64, label: Var) {
    if shared.tap.is_some() {
        return;
    }
    let to = to.map_or(0, |NodeId(to)| u64::from(to) + 1);
    write_one(shared, [header(SEND, label), 0, to, seq]);
}

pub(super) fn receive(shared: &Shared, message: MessageId) {
    if shared.tap.is_some() {
        return;
    }
    let sender = message.sender.0.into();
    write_one(shared, [header(RECEIVE, Var(0)), 0, sender, message.seq]);
}

/// Writes a record that needs the heap. A record that no decoder would accept is dropped here.
pub(super) fn boxed(shared: &Shared, what: What) {
    if let Some(tap) = shared.tap {
        return tap(shared.node, what);
    }
    let fits = match &what {
        What::Observe(values) | What::State(values) => {
            values.iter().all(|(_, value)| nests_within(value, DEPTH_MAX))
        }
        What::Add(tuple) | What::Remove(tuple) => {
            nests_within(&tuple.key, DEPTH_MAX) && nests_within(&tuple.value, DEPTH_MAX)
        }
        What::Send { .. } | What::Note(_) | What::Event(_) => true,
        What::Refresh | What::Whole => true,
    };
    with_ring(shared, |ring| {
        let what = Box::new(what);
        ring.stamped(shared, |ring, at| fits && ring.boxes.push((at, what)).is_ok());
    });
}

/// Counts as dropped an observation that cannot be shown.
#[cold]
pub(super) fn unfit(shared: &Shared) {
    if shared.tap.is_some() {
        return;
    }
    with_ring(shared, |ring| ring.stamped(shared, |_, _| false));
}

fn nests_within(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::List(items) => items.iter().all(|item| nests_within(item, below)),
        Value::Set(items) => items.iter().all(|item| nests_within(item, below)),
        Value::Map(entries) => entries
            .iter()
            .all(|(key, value)| nests_within(key, below) && nests_within(value, below)),
        Value::Record(fields) => fields.values().all(|value| nests_within(value, below)),
        Value::Variant { payload, .. } => nests_within(payload, below),
        _ => true,
    }
}

#[inline]
fn write_one(shared: &Shared, mut cell: Cell) {
    with_ring(shared, |ring| {
        ring.stamped(shared, |ring, stamp| {
            cell[1] = stamp.0;
            ring.cells.push(cell).is_ok()
        });
    });
}

/// Writes a record of several cells.
fn write(shared: &Shared, cells: &mut [Cell]) {
    with_ring(shared, |ring| {
        ring.stamped(shared, |ring, stamp| {
            cells[0][1] = stamp.0;
            ring.cells.push_entire_slice(cells).is_ok()
        });
    });
}

#[inline]
fn with_ring(shared: &Shared, then: impl FnOnce(&mut Ring)) {
    // A thread that is being torn down has no rings any more; its observations are lost.
    let _ = RINGS.try_with(|rings| {
        let mut rings = rings.borrow_mut();
        match rings.iter_mut().find(|ring| ring.serial == shared.serial) {
            Some(ring) => then(ring),
            None => then(register(&mut rings, shared, shared.ring_words)),
        }
    });
}

/// Gives the present thread a ring with a multiple of the usual size.
pub(super) fn roomy(shared: &Shared, times: usize) {
    let _ = RINGS.try_with(|rings| {
        register(&mut rings.borrow_mut(), shared, shared.ring_words.saturating_mul(times));
    });
}

#[cold]
fn register<'r>(rings: &'r mut Vec<Ring>, shared: &Shared, words: usize) -> &'r mut Ring {
    rings.retain(|ring| !ring.cells.is_abandoned());
    let (cells, cells_out) = RingBuffer::new(words.div_ceil(CELL_WORDS));
    let (boxes, boxes_out) = RingBuffer::new(BOXES);
    let marks = Arc::new(Marks::default());
    let reader = RingReader { cells: cells_out, boxes: boxes_out, marks: Arc::clone(&marks) };
    lock(&shared.newcomers).push(reader);
    rings.push(Ring { serial: shared.serial, cells, boxes, marks });
    rings.last_mut().expect("it was just added")
}

impl Ring {
    /// Takes a stamp and writes with it, while the mark shows that this is in progress.
    #[inline]
    fn stamped(&mut self, shared: &Shared, write: impl FnOnce(&mut Ring, Stamp) -> bool) {
        // The release ordering ensures that a reader of the mark sees all earlier writes.
        self.marks.writing.store(shared.clock.last().0, Ordering::Release);
        let stamp = shared.stamp();
        if !write(self, stamp) {
            self.marks.drop_record(stamp);
        }
        self.marks.writing.store(0, Ordering::Release);
    }
}

#[inline]
fn header(kind: u64, name: Var) -> u64 {
    kind << 56 | u64::from(name.0)
}

/// A record with texts, built on the stack.
struct Words<const N: usize> {
    words: [u64; N],
    length: usize,
}

impl<const N: usize> Words<N> {
    fn new(kind: u64, name: Var) -> Words<N> {
        let mut words = [0; N];
        words[0] = header(kind, name);
        Words { words, length: 2 }
    }

    /// Returns the cells that are in use.
    fn written(&mut self) -> &mut [Cell] {
        &mut self.words.as_chunks_mut().0[..self.length.div_ceil(CELL_WORDS)]
    }

    fn push(&mut self, word: u64) {
        self.words[self.length] = word;
        self.length += 1;
    }

    /// Appends a value, and puts its type into the header at this position.
    fn scalar(&mut self, value: Scalar<'_>, place: u32) -> &mut Self {
        let (sort, word) = flat(value);
        self.words[0] |= sort << place;
        self.push(word);
        if let Scalar::Text(text) = value {
            let (whole, rest) = text.as_bytes().as_chunks();
            whole.iter().for_each(|word| self.push(u64::from_le_bytes(*word)));
            if !rest.is_empty() {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                self.push(u64::from_le_bytes(word));
            }
        }
        self
    }
}

/// Returns the type of a value and its word, which is the length for a text.
#[inline]
fn flat(value: Scalar<'_>) -> (u64, u64) {
    match value {
        Scalar::Null => (NULL, 0),
        Scalar::Bool(false) => (FALSE, 0),
        Scalar::Bool(true) => (TRUE, 0),
        Scalar::Int(number) => (INT, number.cast_unsigned()),
        Scalar::Float(number) => (FLOAT, number.to_bits()),
        Scalar::Node(node) => (NODE, node.0.into()),
        Scalar::Text(text) => (TEXT, text.len() as u64),
    }
}

impl RingReader {
    /// Returns a lower bound on the stamp of the record that is being written, if one is.
    pub(super) fn writing(&self) -> Option<Stamp> {
        match self.marks.writing.load(Ordering::Acquire) {
            0 => None,
            stamp => Some(Stamp(stamp)),
        }
    }

    /// Returns true if its thread has ended and everything was read.
    pub(super) fn is_done(&self) -> bool {
        self.cells.is_abandoned() && self.cells.is_empty() && self.boxes.is_empty()
    }

    /// Takes what found no room in the ring since the last call. If this is asked before the ring is
    /// read, every record that was written before one of these is read then.
    pub(super) fn take_loss(&self) -> Option<Loss> {
        self.marks.take_loss()
    }

    /// Empties the ring.
    pub(super) fn read(&mut self, names: &[Name], out: &mut Vec<Record>) {
        let ready = self.cells.slots();
        if let Ok(chunk) = self.cells.read_chunk(ready) {
            let (first, second) = chunk.as_slices();
            let mut cells = first.iter().chain(second);
            while let Some([header, stamp, rest @ ..]) = cells.next() {
                let more = rest.iter().chain(cells.by_ref().flatten());
                out.push(record(*header, Stamp(*stamp), &mut more.copied(), names));
            }
            chunk.commit_all();
        }
        while let Ok((at, what)) = self.boxes.pop() {
            out.push(Record::new(at, *what));
        }
    }
}

/// Takes the words of a record; the rest of its last cell is padding.
fn record(header: u64, at: Stamp, words: &mut impl Iterator<Item = u64>, names: &[Name]) -> Record {
    let name = || Name::clone(&names[header as u32 as usize]);
    let (key, value) = (header >> 48 & 0xff, header >> 40 & 0xff);
    let what = match header >> 56 {
        OBSERVE => What::Observe(vec![(name(), scalar(value, words))]),
        ADD => What::Add(read_tuple(name(), key, value, words)),
        REMOVE => What::Remove(read_tuple(name(), key, value, words)),
        STEP => What::Event(EventKind::Local { name: name().as_ref().to_owned() }),
        LEAVE => What::Event(EventKind::Local { name: format!("{} ends", name()) }),
        SEND => {
            let to = next(words).checked_sub(1).map(|to| NodeId(to as u32));
            What::Send { to, seq: next(words), label: name() }
        }
        RECEIVE => {
            What::receive(MessageId { sender: NodeId(next(words) as u32), seq: next(words) })
        }
        other => unreachable!("no record of kind {other} is written"),
    };
    Record::new(at, what)
}

fn next(words: &mut impl Iterator<Item = u64>) -> u64 {
    words.next().expect("records are committed whole")
}

fn read_tuple(
    relation: Name,
    key: u64,
    value: u64,
    words: &mut impl Iterator<Item = u64>,
) -> Tuple {
    let key = scalar(key, words);
    Tuple { relation, key, value: scalar(value, words) }
}

fn scalar(sort: u64, words: &mut impl Iterator<Item = u64>) -> Value {
    let word = next(words);
    match sort {
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        INT => Value::Int(word.cast_signed()),
        FLOAT => Value::Float(f64::from_bits(word)),
        NODE => Value::Node(NodeId(word as u32)),
        TEXT => {
            let length = word as usize;
            let mut bytes = Vec::with_capacity(length + 7);
            while bytes.len() < length {
                bytes.extend_from_slice(&next(words).to_le_bytes());
            }
            bytes.truncate(length);
            String::from_utf8(bytes).expect("it was written from a text").into()
        }
        _ => Value::Null,
    }
}
