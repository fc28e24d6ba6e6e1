//! The probe's own thread, which empties the rings, sorts the records and sends them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use everhold_trace::Value;
use everhold_trace::wire::{FRAME_MAX, Name, Record, Stamp, What};

use super::link::{Link, Numbered};
use super::ring::{self, RingReader};
use super::{Probe, Shared, Timer, lock};
use crate::recording::Recording;
use crate::report::Report;

/// The interval at which the rings are emptied and the clock is set.
const PERIOD: Duration = Duration::from_millis(5);

/// The same interval while there is no observer.
const IDLE: Duration = Duration::from_millis(50);

/// If one round of the loop took longer, the process was stopped, and may have been taken for dead.
const STOPPED: Duration = Duration::from_millis(400);

/// The delay before a refresh is repeated, which doubles each time it did not arrive completely.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(8);

/// The size of the ring of a refresh as a multiple of that of others.
const ROOM: usize = 64;

/// The error of the counter between two settings, in microseconds.
const COUNTER_ERROR: u64 = 2;

/// The number of heartbeats between two measurements of the checkers' clocks.
pub(super) const CLOCK_BEATS: u64 = 4;

/// The number of low bits of a stamp that are fractions of a microsecond.
const STAMP_BITS: u32 = Stamp::from_micros(1).0.trailing_zeros();

/// The number of records at which a batch is sent before the next heartbeat.
const BATCH: usize = 50;

/// The largest number of records in one batch.
const BATCH_MAX: usize = 4_096;

/// A function that observes everything once.
pub(super) struct Refresh {
    pub(super) run: Box<dyn Fn(&Probe) + Send>,
    /// Whether everything has been observed when the function returns.
    pub(super) is_whole: bool,
}

impl fmt::Debug for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refresh")
    }
}

pub(super) struct Drain {
    shared: Arc<Shared>,
    timer: Arc<Timer>,
    /// The lead of the followed checker's clock over the probe's own time.
    correction: Option<i64>,
    beats: u64,
    links: Vec<Link>,
    recording: Option<Recording>,
    refresh: Option<Refresh>,
    heartbeat: Duration,
    rings: Vec<RingReader>,
    names: Vec<Name>,
    /// Records that were read, but whose stamps the node may not have passed yet.
    early: Vec<Record>,
    /// Sorted records to be sent.
    ready: Vec<Record>,
    /// The number of records in `ready` that have been recorded already.
    written: usize,
    /// The number of dropped records that the recording does not mention yet.
    unwritten: u64,
    dropped: u64,
    /// The number of the last batch.
    number: u64,
    beaten: Instant,
    audience: u64,
    /// Whether there was a time without observers after the first one: observations in that time
    /// were not even recorded.
    away: bool,
    /// Whether a checker may have missed something since the last refresh.
    stale: bool,
    /// Whether a refresh ran, but some of its records may have been dropped.
    unproven: bool,
    refreshed: Instant,
    again: Duration,
    report: Report,
    /// Whether it was reported that a checker missed something that is not repeated.
    told: bool,
}

impl Drain {
    pub(super) fn new(
        shared: Arc<Shared>,
        timer: Arc<Timer>,
        links: Vec<Link>,
        recording: Option<Recording>,
        heartbeat: Duration,
        refresh: Option<Refresh>,
        report: Report,
    ) -> Drain {
        if recording.is_some() {
            timer.follow(timer.wall_ahead(), false);
        }
        shared.watched.store(recording.is_some(), Ordering::Release);
        Drain {
            shared,
            timer,
            correction: None,
            beats: 0,
            links,
            recording,
            refresh,
            heartbeat,
            rings: Vec::new(),
            names: Vec::new(),
            early: Vec::new(),
            ready: Vec::new(),
            written: 0,
            unwritten: 0,
            dropped: 0,
            number: 0,
            beaten: Instant::now(),
            audience: 0,
            away: false,
            stale: false,
            unproven: false,
            refreshed: Instant::now(),
            again: AGAIN,
            report,
            told: false,
        }
    }

    pub(super) fn run(mut self, stopped: &Receiver<()>) {
        if self.tells_all() {
            ring::roomy(&self.shared, ROOM);
        }
        let mut round = Instant::now();
        while stopped.recv_timeout(self.period()) == Err(RecvTimeoutError::Timeout) {
            self.stale |= round.elapsed() > STOPPED;
            round = Instant::now();
            self.look_for_watchers();
            let passed = self.collect();
            self.confirm();
            self.write_down();
            if self.beaten.elapsed() >= self.heartbeat {
                self.emit();
                self.beats += 1;
                if self.beats.is_multiple_of(CLOCK_BEATS) {
                    self.tell_clock();
                }
                self.links.iter().for_each(|link| link.heartbeat(passed));
                self.beaten = Instant::now();
            } else if self.ready.len() >= BATCH {
                self.emit();
            }
        }
        let passed = self.collect();
        self.ready.append(&mut self.early);
        self.emit();
        self.links.into_iter().for_each(|link| link.close(passed));
        if let Some(recording) = &mut self.recording {
            recording.end();
        }
    }

    fn period(&self) -> Duration {
        if self.shared.watched.load(Ordering::Relaxed) { PERIOD.min(self.heartbeat) } else { IDLE }
    }

    fn look_for_watchers(&mut self) {
        let connected = self.links.iter().any(Link::is_connected);
        // There must be a time before anything is stamped.
        self.set_clock(connected);
        let audience = self.links.iter().map(Link::connections).sum();
        let joined = audience != self.audience;
        if joined {
            self.tell_clock();
        }
        let again = self.stale && connected && self.refreshed.elapsed() >= self.again;
        let (is_due, is_whole) = (joined || again, self.tells_all());
        if is_due && is_whole {
            // This comes before other threads are observed, so that none of their records precede
            // it.
            ring::boxed(&self.shared, What::Refresh);
        }
        let watched = connected || self.recording.is_some();
        self.shared.watched.store(watched, Ordering::Release);
        if joined && std::mem::take(&mut self.away) {
            // The gap in the numbers tells the checkers.
            self.number += 1;
            self.stale = true;
        }
        let for_good = self.stale && connected && self.refresh.is_none();
        if for_good && !std::mem::replace(&mut self.told, true) {
            self.report.tell(
                "checkers missed something; without a `refresh` (`Builder::refresh`) they do not \
                 know what is not observed again",
            );
        }
        self.away |= !watched && audience > 0;
        self.audience = audience;
        self.shared.audience.store(audience, Ordering::Release);
        if let Some(refresh) = self.refresh.as_ref().filter(|_| is_due) {
            (refresh.run)(&Probe { shared: Arc::clone(&self.shared), _drain: None });
            (self.stale, self.unproven) = (false, is_whole);
            self.refreshed = Instant::now();
        }
    }

    /// Follows the clock of the first checker that answers, or the wall clock if no checker can be
    /// asked. Before the first connection there is no time, unless a recording needs one.
    fn set_clock(&mut self, connected: bool) {
        let own = self.timer.own();
        let mut there = self.links.iter().filter(|link| link.is_connected());
        let estimate = there.find_map(|link| link.estimate(own));
        let known = estimate.map(|estimate| estimate.ahead).or(self.correction);
        let has_use = connected || self.recording.is_some();
        match known {
            Some(ahead) => self.timer.follow(ahead, true),
            None if has_use => self.timer.follow(self.timer.wall_ahead(), false),
            None => {}
        }
        self.correction = known;
    }

    /// Tells each checker the difference between the wall clock and its own clock, and the error of
    /// the stamps. The error is that of the measurement, plus the distance to the followed clock,
    /// plus the largest lead of a received stamp.
    fn tell_clock(&mut self) {
        let Some(now) = self.shared.time() else { return };
        let own = self.timer.own();
        let pushed = self.shared.pushed.swap(0, Ordering::Relaxed);
        let stalled = self.shared.clock.last().0.saturating_sub(now.0);
        for link in self.links.iter().filter(|link| link.is_connected()) {
            let Some(estimate) = link.estimate(own) else { continue };
            let apart = self.correction.map_or(0, |used| used.abs_diff(estimate.ahead));
            let error = estimate.error + apart + pushed.max(stalled);
            let ahead = self.timer.wall_ahead().saturating_sub(estimate.ahead);
            link.clock(ahead >> STAMP_BITS, Stamp(error).micros() + COUNTER_ERROR);
        }
    }

    fn tells_all(&self) -> bool {
        self.refresh.as_ref().is_some_and(|refresh| refresh.is_whole)
    }

    /// Marks the refresh as complete, if none of its records was dropped; the rings have been read
    /// since.
    fn confirm(&mut self) {
        if std::mem::take(&mut self.unproven) {
            if self.stale {
                self.again = (self.again * 2).min(AGAIN_MAX);
            } else {
                self.again = AGAIN;
                ring::boxed(&self.shared, What::Whole);
            }
        }
    }

    /// Reads all rings; returns the stamp that the node has passed. This is correct because of the
    /// order of the first four lines; see `ring`.
    fn collect(&mut self) -> Stamp {
        let mut passed = match self.shared.time() {
            Some(now) => self.shared.clock.tick_at(now),
            None => self.shared.clock.tick(),
        };
        self.rings.append(&mut lock(&self.shared.newcomers));
        let writing = self.rings.iter().filter_map(RingReader::writing).min();
        passed = writing.map_or(passed, |writing| writing.min(passed));

        let known = lock(&self.shared.names);
        self.names.extend_from_slice(&known[self.names.len()..]);
        drop(known);
        let mut dropped = 0;
        for ring in &mut self.rings {
            dropped += ring.read(&self.names, &mut self.early);
        }
        self.rings.retain(|ring| !ring.is_done());
        self.dropped += dropped;
        self.unwritten += dropped;
        if dropped > 0 {
            self.stale = true;
            // The time of the dropped records is unknown, and may be before this mark.
            let is_whole = |record: &&Record| record.what == What::Whole;
            self.written -= self.ready[..self.written].iter().filter(is_whole).count();
            self.ready.retain(|record| !is_whole(&record));
            self.early.retain(|record| !is_whole(&record));
        }
        self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        self.early.sort_by_key(|record| record.at);
        let surely = self.early.partition_point(|record| record.at < passed);
        self.ready.extend(self.early.drain(..surely));
        passed
    }

    /// Writes new records without waiting for a batch: a process that is killed loses its unwritten
    /// records, and the moments before a violation are the most valuable ones.
    fn write_down(&mut self) {
        let news = &self.ready[self.written..];
        if let Some(recording) = &mut self.recording {
            if news.is_empty() && self.unwritten == 0 {
                recording.rest();
            } else {
                recording.records(news, std::mem::take(&mut self.unwritten));
            }
        }
        self.written = self.ready.len();
    }

    fn emit(&mut self) {
        let sound = self.links.iter().all(Link::is_sound);
        if self.ready.is_empty() && self.dropped == 0 && sound {
            return;
        }
        self.write_down();
        let records = std::mem::take(&mut self.ready);
        self.written = 0;
        let mut rest = &records[..];
        loop {
            let (batch, more) = rest.split_at(batch_of(rest));
            self.offer(batch);
            rest = more;
            if rest.is_empty() {
                return;
            }
        }
    }

    fn offer(&mut self, records: &[Record]) {
        self.number += 1;
        let dropped = std::mem::take(&mut self.dropped);
        let batch = Numbered { number: self.number, dropped, records: records.into() };
        for link in &mut self.links {
            let lost = link.offer(&batch);
            self.stale |= lost > 0;
            self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

/// Returns the number of records in the next batch: as many as certainly fit into a frame, at least
/// one.
pub(super) fn batch_of(records: &[Record]) -> usize {
    let mut room = FRAME_MAX / 2;
    let fits = |record: &&Record| {
        let size = size_of(record);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    records.iter().take(BATCH_MAX).take_while(fits).count().max(1).min(records.len())
}

/// Returns an upper bound on the bytes that a record takes in a frame.
fn size_of(record: &Record) -> usize {
    let named = |values: &[(Name, Value)]| {
        values.iter().map(|(name, value)| name.len() + size_of_value(value)).sum()
    };
    let rest = match &record.what {
        What::Observe(values) | What::State(values) => named(values),
        What::Add(tuple) | What::Remove(tuple) => {
            tuple.relation.len() + size_of_value(&tuple.key) + size_of_value(&tuple.value)
        }
        What::Send { label, .. } => label.len(),
        What::Event(kind) => kind.name().map_or(0, str::len),
        What::Note(text) => text.len(),
        What::Refresh | What::Whole => 0,
    };
    64 + rest
}

fn size_of_value(value: &Value) -> usize {
    let inside: usize = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.iter().map(size_of_value).sum(),
        Value::Set(items) => items.iter().map(size_of_value).sum(),
        Value::Map(entries) => {
            entries.iter().map(|(key, value)| size_of_value(key) + size_of_value(value)).sum()
        }
        Value::Record(fields) => {
            fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum()
        }
        Value::Variant { name, payload } => name.len() + size_of_value(payload),
        _ => 0,
    };
    24 + inside
}
