//! The probe's own thread, which empties the rings, sorts the records and sends them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use everhold_trace::wire::{Name, Record, Stamp, What};

use super::batches::Batcher;
use super::link::{Link, Numbered, Reading};
use super::ring::{self, Loss, RingReader};
use super::trips::drift;
use super::{Probe, Shared, Timer, lock};
use crate::recording::Recording;
use crate::report::Report;

/// The interval at which the rings are emptied and the clock is set.
const PERIOD: Duration = Duration::from_millis(5);

/// The same interval while there is no observer.
const IDLE: Duration = Duration::from_millis(50);

/// If one round of the loop took longer, the process was stopped, and may have been taken for dead.
const STOPPED: Duration = Duration::from_millis(400);

/// The delay before a refresh is repeated, which doubles each time it did not arrive completely. It
/// stays short enough for checkers to know everything within two seconds after the last loss.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(1);

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
    /// What found no room in the rings, as long as there may be other records between its stamps.
    losses: Vec<Loss>,
    batcher: Batcher,
    /// The number of records in `ready` that have been recorded already.
    written: usize,
    /// The number of dropped records that the recording does not mention yet.
    unwritten: u64,
    beaten: Instant,
    audience: u64,
    /// Since when there are no observers, after the first one: observations since then were not even
    /// recorded.
    away: Option<Stamp>,
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
            losses: Vec::new(),
            batcher: Batcher::default(),
            written: 0,
            unwritten: 0,
            beaten: Instant::now(),
            audience: 0,
            away: None,
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
                    self.tell_clock_to_all();
                }
                self.links.iter_mut().for_each(|link| link.heartbeat(passed));
                self.beaten = Instant::now();
            } else if self.ready.len() >= BATCH {
                self.emit();
            }
        }
        let passed = self.collect();
        self.ready.append(&mut self.early);
        for loss in self.losses.drain(..) {
            self.batcher.miss(loss.first, loss.records);
        }
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
        let audience = self.links.iter_mut().map(Link::look).sum();
        let connected = self.links.iter().any(Link::was_connected);
        // There must be a time before anything is stamped.
        self.set_clock(connected);
        // Of a connection that has ended by now, the next one is told.
        let joined = connected && audience != self.audience;
        if joined {
            self.tell_clock_to_all();
        }
        let again = self.stale && connected && self.refreshed.elapsed() >= self.again;
        let (is_due, is_whole) = (joined || again, self.tells_all());
        if joined && let Some(since) = self.away.take() {
            // Records that still wait may be from before that time.
            self.batcher.resume(since);
            self.stale = true;
        }
        if is_due && is_whole {
            // This comes before other threads are observed, so that none of their records precede
            // it.
            ring::boxed(&self.shared, What::Refresh);
        }
        let watched = connected || self.recording.is_some();
        if !watched && audience > 0 && self.away.is_none() {
            self.away = Some(self.shared.clock.tick());
            self.unproven = false;
        }
        self.shared.watched.store(watched, Ordering::Release);
        let for_good = self.stale && connected && self.refresh.is_none();
        if for_good && !std::mem::replace(&mut self.told, true) {
            self.report.tell(
                "checkers missed something; without a `refresh` (`Builder::refresh`) they do not \
                 know what is not observed again",
            );
        }
        if connected {
            self.audience = audience;
            self.shared.audience.store(audience, Ordering::Release);
        }
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

    fn tell_clock_to_all(&mut self) {
        let pushed = self.shared.pushed.swap(0, Ordering::Relaxed);
        self.tell_clock(pushed, |_, _| true);
    }

    /// Tells checkers the difference between the wall clock and their own clock, and the error of the
    /// stamps: those checkers for which `is_due` says so, given that error. The error is that of the
    /// measurement, plus the distance to the followed clock, plus the largest lead of a received stamp,
    /// which is `pushed`.
    fn tell_clock(&mut self, pushed: u64, is_due: impl Fn(&Link, u64) -> bool) {
        let Some(now) = self.shared.time() else { return };
        let own = self.timer.own();
        let stalled = self.shared.clock.last().0.saturating_sub(now.0);
        let until_next = drift(self.heartbeat * CLOCK_BEATS as u32);
        for link in self.links.iter_mut().filter(|link| link.is_connected()) {
            let Some(estimate) = link.estimate(own) else { continue };
            let apart = self.correction.map_or(0, |used| used.abs_diff(estimate.ahead));
            let error = estimate.error + apart + pushed.max(stalled);
            let error = Stamp(error).micros() + COUNTER_ERROR;
            if is_due(link, error) {
                let ahead = self.timer.wall_ahead().saturating_sub(estimate.ahead) >> STAMP_BITS;
                let error = error + Stamp(until_next).micros() + 1;
                link.tell_clock(Reading { ahead, error });
            }
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
    /// order of the first lines; see `ring`.
    fn collect(&mut self) -> Stamp {
        let mut passed = match self.shared.time() {
            Some(now) => self.shared.clock.tick_at(now),
            None => self.shared.clock.tick(),
        };
        self.rings.append(&mut lock(&self.shared.newcomers));
        let writing = self.rings.iter().filter_map(RingReader::writing).min();
        passed = writing.map_or(passed, |writing| writing.min(passed));
        self.losses.extend(self.rings.iter().filter_map(RingReader::take_loss));

        let known = lock(&self.shared.names);
        self.names.extend_from_slice(&known[self.names.len()..]);
        drop(known);
        for ring in &mut self.rings {
            ring.read(&self.names, &mut self.early);
        }
        self.rings.retain(|ring| !ring.is_done());
        self.early.sort_by_key(|record| record.at);
        self.find_gaps(passed);
        let surely = self.early.partition_point(|record| record.at < passed);
        self.ready.extend(self.early.drain(..surely));
        passed
    }

    /// Finds out what is missing before a stamp. Other threads may have written between the stamps of
    /// dropped records. Whether that was still so after the last of these is unknown, so it is dropped too.
    fn find_gaps(&mut self, passed: Stamp) {
        for loss in &mut self.losses {
            let before = self.early.len();
            self.early.retain(|record| record.at < loss.first || loss.last < record.at);
            loss.records += (before - self.early.len()) as u64;
            if loss.first < passed && loss.records > 0 {
                let records = std::mem::take(&mut loss.records);
                self.batcher.miss(loss.first, records);
                self.unwritten += records;
                self.stale = true;
                self.shared.dropped.fetch_add(records, Ordering::Relaxed);
            }
        }
        self.losses.retain(|loss| loss.last >= passed);
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
        if self.ready.is_empty() && !self.batcher.has_gaps() && sound {
            return;
        }
        self.write_down();
        // No stamp may reach a checker before the error that it has.
        let pushed = self.shared.pushed.load(Ordering::Relaxed);
        self.tell_clock(pushed, Link::underestimates);
        self.written = 0;
        for batch in self.batcher.cut(&std::mem::take(&mut self.ready)) {
            self.offer(&batch);
        }
    }

    fn offer(&mut self, batch: &Numbered) {
        for link in &mut self.links {
            let lost = link.offer(batch);
            self.stale |= lost > 0;
            self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use everhold_trace::NodeId;

    use super::super::{Scalar, Var};
    use super::*;

    /// A probe that is emptied by hand, with rings of two records.
    fn drain() -> Drain {
        let timer = Arc::new(Timer::new(0));
        let shared = Arc::new(Shared::new(NodeId(1), 0, 8, None));
        lock(&shared.names).push("x".into());
        let report = Report::to(|_| ());
        Drain::new(shared, timer, Vec::new(), None, PERIOD, None, report)
    }

    fn observe(shared: &Shared, value: i64) {
        ring::observe(shared, Var(0), Scalar::Int(value));
    }

    /// Another thread with a ring of its own, which observes what it is told.
    fn other(shared: &Arc<Shared>) -> (Sender<i64>, Receiver<()>) {
        let (tell, told) = channel::<i64>();
        let (done, is_done) = channel();
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            for value in told {
                observe(&shared, value);
                done.send(()).expect("the test waits for it");
            }
        });
        (tell, is_done)
    }

    /// The values in the batches that are sent; a lost record is `None`.
    fn sent(drain: &mut Drain) -> Vec<Option<i64>> {
        drain.collect();
        let batches = drain.batcher.cut(&std::mem::take(&mut drain.ready));
        let each = batches.iter().flat_map(|batch| {
            let values = batch.records.iter().map(|record| match &record.what {
                What::Observe(values) => values[0].1.as_int(),
                other => panic!("{other:?} was not observed"),
            });
            let dropped = usize::try_from(batch.dropped).expect("a few");
            std::iter::repeat_n(None, dropped).chain(values)
        });
        each.collect()
    }

    #[test]
    fn what_was_written_before_a_loss_is_told_before_it() {
        let mut drain = drain();
        let shared = Arc::clone(&drain.shared);
        (1..=4).for_each(|value| observe(&shared, value));
        assert_eq!(sent(&mut drain), [Some(1), Some(2), None, None]);
        (5..=6).for_each(|value| observe(&shared, value));
        assert_eq!(sent(&mut drain), [Some(5), Some(6)]);
        assert!(drain.stale, "it is to be told again");
    }

    #[test]
    fn what_others_write_between_lost_records_is_lost_too() {
        let mut drain = drain();
        let shared = Arc::clone(&drain.shared);
        let (tell, done) = other(&shared);
        let other = |value| {
            tell.send(value).expect("it listens");
            done.recv().expect("it answers");
        };
        (1..=3).for_each(|value| observe(&shared, value));
        other(10);
        observe(&shared, 4);
        other(11);
        assert_eq!(sent(&mut drain), [Some(1), Some(2), None, None, None, Some(11)]);
        // One lost record is no interval.
        (5..=7).for_each(|value| observe(&shared, value));
        other(12);
        assert_eq!(sent(&mut drain), [Some(5), Some(6), None, Some(12)]);
    }

    #[test]
    fn a_loss_that_the_node_has_not_passed_is_told_later() {
        let mut drain = drain();
        let shared = Arc::clone(&drain.shared);
        observe(&shared, 1);
        drain.collect();
        let later = Stamp(shared.clock.last().0 + 1_000);
        drain.losses.push(Loss { first: later, last: Stamp(later.0 + 10), records: 1 });
        assert_eq!(sent(&mut drain), [Some(1)]);
        shared.clock.advance_to(Stamp(later.0 + 5));
        observe(&shared, 2);
        shared.clock.advance_to(Stamp(later.0 + 20));
        observe(&shared, 3);
        assert_eq!(sent(&mut drain), [None, None, Some(3)]);
        assert_eq!(drain.losses, []);
    }
}
