//! Checkers at work: a thread for each partition that is ours.
//!
//! Each thread reads its partition and judges; a second one, its `scribe`, writes evidence and tells;
//! a third waits for the disk.
//! Partitions come and go as the [`Store`] says. Rules are changed by writing them to the log, so
//! that every checker changes them at the same place.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use everhold_property::Member;
use everhold_trace::NodeId;
use serde_json::Value as Json;

use crate::assemble::{ClockReading, Counts};
use crate::checker::{CheckOptions, PartitionChecker, Place};
use crate::dataflow::Flow;
use crate::entry::{disable_entry, rules_entry, shared_entry};
use crate::evidence::Evidence;
use crate::intake::now_micros;
use crate::log::{Cursor, Log, LogError, Sequence};
use crate::notice::{Notice, ViolationId};
use crate::recent::Recent;
use crate::rule::{BadRules, NotWatched, RuleStatus};
use crate::store::{Lease, Store};

mod costs;
mod lacking;
mod scribe;

use costs::Costs;
use lacking::Lacking;
use scribe::{Checkpoint, TASKS, Task, run_with_scribe};

/// How checkers work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// How snapshots are made and rules judged.
    pub check: CheckOptions,
    /// The interval at which a checkpoint is saved; after a kill, that much of the log is read again.
    pub checkpoint_every: Duration,
    /// The interval at which the store is asked which partitions belong to this process.
    pub balance_every: Duration,
    /// A rule that once takes longer than this is not judged any more.
    pub evaluation_max: Duration,
    /// A rule that takes more than this share of the time, in percent, while the checker is more
    /// than a second behind, three seconds in a row, is not judged any more.
    pub share_max: u64,
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions {
            check: CheckOptions::default(),
            checkpoint_every: Duration::from_secs(2),
            balance_every: Duration::from_millis(500),
            evaluation_max: Duration::from_secs(1),
            share_max: 50,
        }
    }
}

/// How one partition does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionStatus {
    /// The number of the entry that comes next.
    pub next: Sequence,
    /// How far judging is behind arrival, in microseconds.
    pub lag_micros: u64,
    /// The counts of irregularities in the input.
    pub counts: Counts,
    /// The numbers of keys, nodes and waiting records.
    pub sizes: (usize, usize, usize),
    /// How the rules do, by name.
    pub rules: BTreeMap<String, RuleStatus>,
    /// The rules that are not judged here, and why.
    pub not_watched: Vec<NotWatched>,
    /// The present and former members.
    pub members: Vec<MemberStatus>,
    /// Whether the watch's own clock disagrees with most nodes.
    pub own_clock_strays: bool,
    /// The text of the rules.
    pub text: String,
    /// Entries that could not be read.
    pub bad_entries: u64,
    /// The size of the last checkpoint.
    pub checkpoint_bytes: usize,
    /// When this was the status.
    pub taken: Option<Instant>,
    /// When the last entry was read, or the checker started. An intake writes entries also when no
    /// probe speaks.
    pub read: Option<Instant>,
}

/// A node as a checker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which node, with its name and kind, and whether it is up.
    pub member: Member,
    /// Whether what it shows is known; if not, what depends on it is unknown.
    pub known: bool,
    /// Whether it could tell what is not known.
    pub can_tell_more: bool,
    /// The last reading of its clock.
    pub clock: Option<ClockReading>,
    /// Whether its wall clock disagrees with most others.
    pub strays: bool,
}

type Told = Box<dyn FnMut(&Notice) + Send>;
type Flows = Arc<dyn Fn() -> Vec<Flow> + Send + Sync>;

struct Shared {
    log: Arc<dyn Log>,
    options: WatchOptions,
    store: Mutex<Box<dyn Store>>,
    /// Whether other processes may find the same violations.
    is_shared: bool,
    /// The evidence, to be synced without locking it.
    synced: File,
    evidence: Mutex<(Evidence, Told)>,
    /// Apart from the evidence, which is locked while a disk syncs.
    recent: Mutex<Recent>,
    traces: PathBuf,
    status: Mutex<BTreeMap<u32, PartitionStatus>>,
    workers: Mutex<BTreeMap<u32, Worker>>,
    trouble: Box<dyn Fn(String) + Send + Sync>,
    flows: Flows,
    /// The present problems, by the part that they concern.
    failing: Mutex<BTreeMap<String, String>>,
    /// The text of the rules that was last written to the log here; locked while they are changed.
    written: Mutex<Option<String>>,
    /// Makes a node tell everything again.
    ask: Mutex<Option<Box<dyn Fn(NodeId) + Send>>>,
    stop: AtomicBool,
}

impl Shared {
    /// Notes a problem: it is reported once, and remembered until it is solved.
    fn fails(&self, what: &str, problem: String) {
        if lock(&self.failing).insert(what.to_owned(), problem.clone()).is_none() {
            (self.trouble)(problem);
        }
    }

    fn works(&self, what: &str) {
        lock(&self.failing).remove(what);
    }
}

struct Worker {
    vet: SyncSender<(String, String, SyncSender<Result<(), BadRules>>)>,
    lease: Arc<Mutex<Option<Lease>>>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checkers at work, until this is dropped.
pub struct Watch {
    shared: Arc<Shared>,
    balancer: Option<JoinHandle<()>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("partitions", &lock(&self.shared.status).keys()).finish()
    }
}

/// Everything that checkers need.
pub struct WatchParts {
    /// The log that the checkers read.
    pub log: Arc<dyn Log>,
    /// Where checkpoints and leases are.
    pub store: Box<dyn Store>,
    /// Where violations are written.
    pub evidence: Evidence,
    /// Makes the checks written in Rust, once for each partition.
    pub flows: Flows,
    /// Told each notice once, after it is in the evidence.
    pub told: Told,
    /// Told what people should know of the checkers themselves.
    pub trouble: Box<dyn Fn(String) + Send + Sync>,
}

impl fmt::Debug for WatchParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchParts").field("log", &self.log).field("store", &self.store).finish()
    }
}

impl Watch {
    /// Starts checkers.
    ///
    /// # Errors
    ///
    /// If the store does not answer.
    pub fn start(mut parts: WatchParts, options: WatchOptions) -> Result<Watch, LogError> {
        let shared = Arc::new(Shared {
            log: parts.log,
            options,
            is_shared: parts.store.is_shared(),
            synced: parts.evidence.handle()?,
            store: Mutex::new(parts.store),
            recent: Mutex::new(parts.evidence.take_recent()),
            traces: parts.evidence.folder().to_owned(),
            evidence: Mutex::new((parts.evidence, parts.told)),
            status: Mutex::default(),
            workers: Mutex::default(),
            trouble: parts.trouble,
            flows: parts.flows,
            failing: Mutex::default(),
            written: Mutex::default(),
            ask: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        balance(&shared)?;
        let balancer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || keep_balance(&shared)
        });
        Ok(Watch { shared, balancer: Some(balancer) })
    }

    /// Sets how a node is made to tell everything again: [`Intake::asker`](crate::Intake::asker). It is
    /// asked when something remains unknown of it that it could tell, such as after a silence that it
    /// did not notice itself; less and less often, if that does not help.
    pub fn ask_through(&self, ask: impl Fn(NodeId) + Send + 'static) {
        *lock(&self.shared.ask) = Some(Box::new(ask));
    }

    /// How the partitions that are ours do.
    #[must_use]
    pub fn status(&self) -> BTreeMap<u32, PartitionStatus> {
        lock(&self.shared.status).clone()
    }

    /// Returns the recent notices that changed after the notice of this number, as JSON: the number of
    /// the last change, violations, other notices.
    #[must_use]
    pub fn told_after(&self, number: u64) -> (u64, Vec<Json>, Vec<Json>) {
        lock(&self.shared.recent).after(number)
    }

    /// The trace of a violation, as [`Evidence`] wrote it.
    #[must_use]
    pub fn trace(&self, id: ViolationId) -> Option<Vec<u8>> {
        std::fs::read(crate::evidence::trace_path(&self.shared.traces, id)).ok()
    }

    /// The text of the rules in force; `None` if no partition is ours.
    #[must_use]
    pub fn rules(&self) -> Option<String> {
        lock(&self.shared.status).values().next().map(|status| status.text.clone())
    }

    /// Puts rules in force, if they read well and fit what the nodes show; otherwise the old ones
    /// stay. `file` is where the text comes from, for the message.
    ///
    /// # Errors
    ///
    /// If the rules are wrong, or the log does not take them.
    pub fn set_rules(&self, text: &str, file: &str) -> Result<(), BadRules> {
        self.write_rules(text, file, &mut lock(&self.shared.written))
    }

    /// Changes the rules in force, one change after another, and returns when that is in force.
    /// `edit` makes the new text from the present one.
    ///
    /// # Errors
    ///
    /// The error of `edit`, the reason why the new rules are refused, or that they are not in force yet.
    pub fn change_rules(
        &self,
        edit: impl FnOnce(&str) -> Result<String, BadRules>,
    ) -> Result<(), BadRules> {
        let mut written = lock(&self.shared.written);
        let present = written.clone().or_else(|| self.rules()).unwrap_or_default();
        let text = edit(&present)?;
        self.write_rules(&text, "rules", &mut written)?;
        let end = Instant::now() + IN_FORCE;
        while lock(&self.shared.status).values().any(|status| status.text != text) {
            if Instant::now() > end {
                return Err(BadRules::Late);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the present problems. As long as there is one, no rule is known to hold.
    #[must_use]
    pub fn failing(&self) -> Vec<String> {
        lock(&self.shared.failing).values().cloned().collect()
    }

    fn write_rules(
        &self,
        text: &str,
        file: &str,
        written: &mut Option<String>,
    ) -> Result<(), BadRules> {
        crate::rule::RuleSet::parse(text, file)?;
        let asked = self.ask(text, file).into_iter();
        let answers = asked.filter_map(|(answer, _)| answer.recv_timeout(VETTED).ok());
        let answers: Vec<Result<(), BadRules>> = answers.collect();
        // A partition may know no key of a relation that another one knows.
        if answers.iter().all(Result::is_err) {
            answers.into_iter().collect::<Result<(), BadRules>>()?;
        }
        let entry = rules_entry(now_micros(), text);
        for partition in 0..self.shared.log.partitions() {
            let appended = self.shared.log.append(partition, &[&entry]);
            appended.map_err(|error| BadRules::NotWritten(error.to_string()))?;
        }
        *written = Some(text.to_owned());
        Ok(())
    }

    /// Asks every checker whether it would take the rules.
    fn ask(&self, text: &str, file: &str) -> Vec<(Receiver<Result<(), BadRules>>, u32)> {
        let workers = lock(&self.shared.workers);
        let ask = |(partition, worker): (&u32, &Worker)| {
            let (reply, answer) = sync_channel(1);
            let question = (text.to_owned(), file.to_owned(), reply);
            worker.vet.try_send(question).ok().map(|()| (answer, *partition))
        };
        workers.iter().filter_map(ask).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(balancer) = self.balancer.take() {
            let _ = balancer.join();
        }
        let workers = std::mem::take(&mut *lock(&self.shared.workers));
        for (_, mut worker) in workers {
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
        let _ = lock(&self.shared.store).release();
    }
}

/// The time in which checkers must answer whether they accept rules.
const VETTED: Duration = Duration::from_secs(5);

/// The time for which a change of rules is awaited.
const IN_FORCE: Duration = Duration::from_secs(8);

fn keep_balance(shared: &Arc<Shared>) {
    let mut lacking = Lacking::default();
    while !shared.stop.load(Relaxed) {
        thread::sleep(shared.options.balance_every);
        if let Some(ask) = &*lock(&shared.ask) {
            let status = lock(&shared.status).clone();
            lacking.look(status.values()).into_iter().for_each(ask);
        }
        match balance(shared) {
            Ok(()) => shared.works("leases"),
            Err(error) => {
                shared.fails("leases", format!("leases cannot be renewed, trying again: {error}"));
            }
        }
    }
}

/// Starts and ends checkers as the store says.
fn balance(shared: &Arc<Shared>) -> Result<(), LogError> {
    let balance = lock(&shared.store).balance()?;
    for lease in balance.renewed {
        if let Some(worker) = lock(&shared.workers).get(&lease.partition) {
            *lock(&worker.lease) = Some(lease);
        }
    }
    for partition in balance.lost {
        let worker = lock(&shared.workers).remove(&partition);
        if let Some(mut worker) = worker {
            *lock(&worker.lease) = None;
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
            lock(&shared.status).remove(&partition);
        }
    }
    for (lease, checkpoint) in balance.gained {
        let worker = start_worker(shared, lease, checkpoint)?;
        lock(&shared.workers).insert(lease.partition, worker);
    }
    Ok(())
}

fn start_worker(
    shared: &Arc<Shared>,
    lease: Lease,
    checkpoint: Option<Vec<u8>>,
) -> Result<Worker, LogError> {
    let place = Place { partition: lease.partition, of: shared.log.partitions() };
    let options = CheckOptions { place, ..shared.options.check };
    let mut checker = match checkpoint.map(|bytes| PartitionChecker::restore(options, &bytes)) {
        Some(Ok(checker)) => checker,
        Some(Err(error)) => {
            (shared.trouble)(format!("partition {} starts over: {error}", lease.partition));
            PartitionChecker::new(options)
        }
        None => PartitionChecker::new(options),
    };
    (shared.flows)().into_iter().for_each(|flow| checker.add_flow(flow));
    let lost = shared.log.resume(lease.partition, checker.next())?;
    if lost > 0 {
        (shared.trouble)(format!(
            "the last {lost} entries of partition {} were judged, and are lost in the log, which goes \
             on after them",
            lease.partition
        ));
    }
    let cursor = shared.log.cursor(lease.partition, checker.next())?;
    let held = Arc::new(Mutex::new(Some(lease)));
    let (vet, questions) = sync_channel(4);
    let (scribe, tasks) = sync_channel(TASKS);
    let job = Job {
        scribe,
        shared: Arc::clone(shared),
        partition: lease.partition,
        lease: Arc::clone(&held),
        checker,
        cursor,
        questions,
        saved: Instant::now(),
        shown: Instant::now(),
        heard: Instant::now(),
        watched: Instant::now(),
        costs: Costs::default(),
        checkpoint_bytes: 0,
        outgoing: VecDeque::new(),
    };
    lock(&shared.status).insert(lease.partition, job.status());
    let thread = thread::Builder::new()
        .name(format!("check {}", lease.partition))
        .spawn(move || run_with_scribe(job, tasks))
        .map_err(|error| LogError::Unusable(format!("no thread for a checker: {error}")))?;
    Ok(Worker { vet, lease: held, thread: Some(thread) })
}

/// One partition's work.
struct Job {
    shared: Arc<Shared>,
    partition: u32,
    lease: Arc<Mutex<Option<Lease>>>,
    checker: PartitionChecker,
    cursor: Box<dyn Cursor>,
    scribe: SyncSender<Task>,
    questions: Receiver<(String, String, SyncSender<Result<(), BadRules>>)>,
    saved: Instant,
    shown: Instant,
    /// When the last entry was read.
    heard: Instant,
    watched: Instant,
    costs: Costs,
    checkpoint_bytes: usize,
    /// Messages to be written to the logs of other partitions.
    outgoing: VecDeque<(u32, Vec<u8>)>,
}

/// How much of the log is read at once.
const READ: usize = 1 << 20;

impl Job {
    fn run(mut self) {
        let mut notices = Vec::new();
        let reading = format!("partition {}", self.partition);
        while !self.shared.stop.load(Relaxed) && lock(&self.lease).is_some() {
            match self.share() {
                true => self.read(&reading, &mut notices),
                false => thread::sleep(Duration::from_millis(200)),
            }
            while let Ok((text, file, reply)) = self.questions.try_recv() {
                let _ = reply.send(self.checker.vet(&text, &file).map(drop));
            }
            self.look_after();
        }
        if lock(&self.lease).is_some() {
            self.save();
        }
    }

    fn read(&mut self, reading: &str, notices: &mut Vec<Notice>) {
        match self.cursor.next(READ, Duration::from_millis(50)) {
            Ok(entries) => {
                self.shared.works(reading);
                if !entries.is_empty() {
                    self.heard = Instant::now();
                }
                for entry in &entries {
                    self.checker.apply(entry, notices);
                    self.tell(notices);
                    self.outgoing.extend(self.checker.take_outgoing());
                }
            }
            Err(error) => {
                self.shared.fails(reading, format!("{reading} cannot be read: {error}"));
                self.reopen();
            }
        }
    }

    /// The log did not answer: try again from where we are.
    fn reopen(&mut self) {
        thread::sleep(Duration::from_millis(200));
        if let Ok(cursor) = self.shared.log.cursor(self.partition, self.checker.next()) {
            self.cursor = cursor;
        }
    }

    fn tell(&mut self, notices: &mut Vec<Notice>) {
        for notice in notices.drain(..) {
            let _ = self.scribe.send(Task::Tell(notice));
        }
    }

    /// Writes to other partitions what they need; whether all of it is written.
    fn share(&mut self) -> bool {
        while let Some((partition, message)) = self.outgoing.front() {
            let entry = shared_entry(now_micros(), message);
            let what = format!("exchange {}", self.partition);
            if let Err(error) = self.shared.log.append(*partition, &[&entry]) {
                let problem = format!("partition {partition} cannot be written: {error}");
                self.shared.fails(&what, problem);
                return false;
            }
            self.shared.works(&what);
            self.outgoing.pop_front();
        }
        true
    }

    /// Does the periodic work.
    fn look_after(&mut self) {
        if self.shown.elapsed() >= Duration::from_millis(200) {
            self.shown = Instant::now();
            let status = self.status();
            lock(&self.shared.status).insert(self.partition, status);
        }
        if self.watched.elapsed() >= Duration::from_secs(1) {
            self.judge_costs();
            self.watched = Instant::now();
        }
        if self.saved.elapsed() >= self.shared.options.checkpoint_every {
            self.save();
        }
    }

    /// Saves a checkpoint, after the notices before it were reported.
    fn save(&mut self) {
        self.saved = Instant::now();
        if !self.share() {
            return; // What is not written yet is made again from the checkpoint before it.
        }
        let checkpoint = Checkpoint { bytes: self.checker.checkpoint(), next: self.checker.next() };
        self.checkpoint_bytes = checkpoint.bytes.len();
        let _ = self.scribe.send(Task::Save(checkpoint));
    }

    fn status(&self) -> PartitionStatus {
        let (arrived, _) = self.checker.progress();
        let behind = self.shared.log.next_sequence(self.partition).unwrap_or(0);
        let lag =
            if behind > self.checker.next() { now_micros().saturating_sub(arrived) } else { 0 };
        PartitionStatus {
            next: self.checker.next(),
            lag_micros: if arrived == 0 { 0 } else { lag },
            counts: self.checker.counts(),
            sizes: self.checker.sizes(),
            rules: self.checker.rules().into_iter().collect(),
            not_watched: self.checker.not_watched().to_vec(),
            members: self
                .checker
                .members()
                .map(|(member, known)| {
                    let (clock, strays) = self.checker.clock(member.id);
                    let can_tell_more = !known && self.checker.can_tell_more(member.id);
                    MemberStatus { member: member.clone(), known, can_tell_more, clock, strays }
                })
                .collect(),
            own_clock_strays: self.checker.own_clock_strays(),
            text: self.checker.rules_text().to_owned(),
            bad_entries: self.checker.bad_entries(),
            checkpoint_bytes: self.checkpoint_bytes,
            taken: Some(Instant::now()),
            read: Some(self.heard),
        }
    }

    /// Turns off rules that are too expensive; each alone, and through the log.
    fn judge_costs(&mut self) {
        let lagging = self.status().lag_micros > 1_000_000;
        let costly = self.costs.costly(&self.checker, self.shared.options, lagging);
        for (name, share) in costly {
            (self.shared.trouble)(format!(
                "the rule \"{name}\" is too expensive ({:.0} % of the time) and is disabled; the \
                 others go on",
                share * 100.0
            ));
            let _ = self.shared.log.append(self.partition, &[&disable_entry(now_micros(), &name)]);
        }
    }
}
