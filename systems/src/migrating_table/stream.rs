//! Streams over the virtual table: both tables are read, and the rows are merged by key.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use super::backend::{Backend, Side};
use super::config::{Signal, Subscription};
use super::entity;
use super::table::{Filter, Key, Row};
use super::{Bug, MigratingTable, Phase};

/// A stream of one of the two tables, one row ahead.
#[derive(Clone, Debug)]
struct Cursor {
    stream: u32,
    ahead: Option<Row>,
}

/// A stream of the rows that meet a condition, in the order of their keys. Each row is as it was at
/// some moment between the start of the stream and the read.
pub struct QueryStream {
    backend: Rc<Backend>,
    bug: Bug,
    filter: Filter,
    phase: Cell<Phase>,
    old: RefCell<Option<Cursor>>,
    new: RefCell<Option<Cursor>>,
    is_held: Cell<bool>,
    released: Signal,
    subscription: RefCell<Option<Subscription>>,
}

impl fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryStream").field("filter", &self.filter).finish_non_exhaustive()
    }
}

/// The right to use the stream; only one task has it at a time.
struct Held<'a>(&'a QueryStream);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.is_held.set(false);
        self.0.released.notify();
    }
}

impl MigratingTable {
    /// Begins a stream.
    pub async fn query_streamed(&self, filter: Filter) -> Rc<QueryStream> {
        let stream = Rc::new(QueryStream {
            backend: Rc::clone(&self.backend),
            bug: self.bug,
            filter,
            phase: Cell::new(Phase::UseOldHideMetadata),
            old: RefCell::default(),
            new: RefCell::default(),
            is_held: Cell::new(false),
            released: Signal::default(),
            subscription: RefCell::default(),
        });
        let held = stream.hold().await;
        let subscription = self.config.subscribe(Some(Rc::clone(&stream)));
        stream.start(subscription).await;
        drop(held);
        stream
    }
}

impl QueryStream {
    async fn hold(&self) -> Held<'_> {
        if self.bug != Bug::QueryStreamedLock {
            self.released.until(|| !self.is_held.get()).await;
        }
        self.is_held.set(true);
        Held(self)
    }

    async fn start(&self, subscription: Subscription) {
        let phase = subscription.phase;
        self.phase.set(phase);
        self.subscription.replace(Some(subscription));
        if phase < Phase::UseNewWithTombstones {
            self.open(Side::Old, self.filter.clone()).await;
        }
        if phase > Phase::UseOldHideMetadata {
            self.open_new(None).await;
        }
    }

    /// Opens a stream of one table and reads its first row.
    async fn open(&self, side: Side, filter: Filter) {
        let stream = self.backend.open(side, filter).await;
        let ahead = self.backend.read(stream).await;
        self.cursor(side).replace(Some(Cursor { stream, ahead }));
    }

    /// Opens the stream of the new table, which is not filtered: a row that does not meet the condition
    /// hides one of the old table that does.
    async fn open_new(&self, from: Option<&Key>) {
        let rest = from.map_or(Filter::All, Filter::from_key);
        let shadows = self.bug == Bug::QueryStreamedFilterShadowing;
        let filter = if shadows { self.filter.clone() } else { Filter::All };
        self.open(Side::New, filter.and(rest)).await;
    }

    fn cursor(&self, side: Side) -> &RefCell<Option<Cursor>> {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    /// The key of the row to which the stream of a table has come.
    fn key_ahead(&self, side: Side) -> Option<Key> {
        self.cursor(side).borrow().as_ref()?.ahead.as_ref().map(|row| row.key.clone())
    }

    fn next_key(&self) -> Option<Key> {
        let (old, new) = (self.key_ahead(Side::Old), self.key_ahead(Side::New));
        old.into_iter().chain(new).min()
    }

    /// Takes the row to which the stream of a table has come, if it has this key, and reads on.
    async fn take(&self, side: Side, key: &Key) -> Option<Row> {
        let (stream, row) = {
            let mut cursor = self.cursor(side).borrow_mut();
            let cursor = cursor.as_mut()?;
            (cursor.stream, cursor.ahead.take_if(|row| row.key == *key)?)
        };
        let ahead = self.backend.read(stream).await;
        if let Some(cursor) = self.cursor(side).borrow_mut().as_mut() {
            cursor.ahead = ahead;
        }
        Some(row)
    }

    /// The next row, or the end.
    pub async fn read_row(&self) -> Option<Row> {
        let _held = self.hold().await;
        while let Some(key) = self.next_key() {
            let old = self.take(Side::Old, &key).await;
            let new = self.take(Side::New, &key).await;
            let row = new.or(old).filter(|row| entity::is_visible(row) && self.filter.matches(row));
            if let Some(row) = row {
                return Some(entity::exported(row));
            }
        }
        None
    }

    /// A key at which a new stream can go on without losing a row; `None` at the end.
    pub async fn continuation_key(&self) -> Option<Key> {
        let _held = self.hold().await;
        self.next_key()
    }

    /// Goes on in another phase of the migration.
    pub(super) async fn apply(&self, phase: Phase) {
        let _held = self.hold().await;
        if self.subscription.borrow().is_none() {
            return;
        }
        let key = self.next_key();
        let mut has_just_begun = false;
        if phase > Phase::UseOldHideMetadata
            && self.phase.get() <= Phase::UseOldHideMetadata
            && let Some(key) = &key
        {
            self.open_new(Some(key)).await;
            has_just_begun = true;
        }
        if phase >= Phase::UseNewHideMetadata && self.phase.get() < Phase::UseNewHideMetadata {
            self.old.replace(None);
            self.back_up(key.filter(|_| !has_just_begun)).await;
        }
        if self.bug != Bug::QueryStreamedSaveNewConfig {
            self.phase.set(phase);
        }
    }

    /// Sets the stream of the new table back: it may be ahead of rows that were only in the old one when
    /// it passed their keys.
    async fn back_up(&self, key: Option<Key>) {
        if self.bug != Bug::QueryStreamedBackUpNewStream
            && let Some(key) = key
        {
            self.open_new(Some(&key)).await;
        }
    }

    /// Ends the stream.
    pub async fn close(&self) {
        let _held = self.hold().await;
        self.subscription.replace(None);
    }
}
