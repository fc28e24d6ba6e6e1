//! Runs executions for the analysis on all cores. Results do not depend on the number of cores.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everhold_node::{Message, Time};
use everhold_sim::engine::{self, Stopwatch};
use everhold_trace::Execution;

use super::detect::Measured;
use super::path::own_time;
use crate::{Change, Draws, Recorded, Sim, TimedRun};

/// The simulator as the analysis uses it, independent of the message type.
pub(super) trait Lab {
    /// Runs an execution until the stopping condition holds or the limit in nanoseconds is reached.
    fn run(&mut self, draws: &Draws, limit: u64) -> Ran;
    /// Runs walks that share the first `after` events, each with a seed for the rest.
    fn walks(&mut self, draws: &Draws, after: u64, seeds: &[u64], limit: u64) -> Vec<Ran>;
    /// Runs an execution and records it.
    fn record(&mut self, draws: &Draws) -> Recorded;
    /// Runs an execution and returns it as a trace with states and contents.
    fn trace(&mut self, draws: &Draws) -> Execution;
}

/// A summary of how an execution ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ran {
    pub(super) measured: Measured,
    pub(super) events: u64,
}

impl Ran {
    pub(super) fn of(run: &TimedRun) -> Ran {
        let measured = Measured { time: run.time.as_secs_f64(), reached: run.is_done() };
        Ran { measured, events: run.events }
    }

    /// Excludes the time of load generators, which requires the whole record.
    fn without_load(recorded: &Recorded, limit: u64) -> Ran {
        let (time, limit) = (own_time(recorded), seconds(limit));
        let reached = recorded.run.is_done() && time <= limit;
        Ran { measured: Measured { time: time.min(limit), reached }, events: recorded.run.events }
    }
}

impl<M: Message> Lab for Sim<M> {
    fn run(&mut self, draws: &Draws, limit: u64) -> Ran {
        if self.has_load() {
            return Ran::without_load(&self.record(draws), limit);
        }
        let mut world = self.start(draws);
        let run = world.finish_by(Time(limit));
        self.keep(world);
        Ran::of(&run)
    }

    fn walks(&mut self, draws: &Draws, after: u64, seeds: &[u64], limit: u64) -> Vec<Ran> {
        let replay =
            |lab: &mut Self, seed: &u64| Lab::run(lab, &branch(draws, after, *seed), limit);
        if self.has_load() {
            return seeds.iter().map(|seed| replay(self, seed)).collect();
        }
        let mut world = self.start(draws);
        world.run_events(after);
        let walk = |seed: &u64| Some(Ran::of(&world.fork(Some(*seed))?.finish_by(Time(limit))));
        let forked: Option<Vec<Ran>> = seeds.iter().map(walk).collect();
        self.keep(world);
        // Nodes that cannot be copied require a replay for each walk.
        forked.unwrap_or_else(|| seeds.iter().map(|seed| replay(self, seed)).collect())
    }

    fn record(&mut self, draws: &Draws) -> Recorded {
        Sim::record(self, draws)
    }

    fn trace(&mut self, draws: &Draws) -> Execution {
        Sim::trace(self, draws)
    }
}

/// Returns the draws of an execution that branches off another after a number of events.
pub(super) fn branch(draws: &Draws, after: u64, seed: u64) -> Draws {
    let mut draws = draws.clone();
    let later = |c: &Change| matches!(c, Change::Reseed { after: at, .. } if *at >= after);
    draws.changes.retain(|change| !later(change));
    draws.reseed(after, seed)
}

pub(super) type MakeLab = Box<dyn Fn() -> Box<dyn Lab> + Send + Sync>;

/// The progress of a phase of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfProgress {
    /// The name of the phase.
    pub phase: &'static str,
    /// The number of executions of this phase that are done.
    pub done: usize,
    /// The number of executions of this phase.
    pub total: usize,
    /// The number of events simulated so far, in all phases.
    pub events: u64,
}

/// A function that is called now and then, from several threads.
pub type OnProgress = Box<dyn Fn(PerfProgress) + Send + Sync>;

/// The threads of the analysis and the amount of work they have done.
pub(super) struct Crew {
    make: MakeLab,
    workers: usize,
    time: Duration,
    watch: Stopwatch,
    on_progress: Option<OnProgress>,
    work: Mutex<Work>,
}

/// The amount of work that was simulated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) executions: u64,
    pub(super) events: u64,
    pub(super) simulated: f64,
    pub(super) cut_short: Option<CutShort>,
}

/// The reason for which not everything was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutShort {
    Interrupted,
    Time,
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Crew {
    pub(super) fn new(
        make: MakeLab,
        workers: usize,
        time: Duration,
        on_progress: Option<OnProgress>,
    ) -> Crew {
        let (watch, work) = (Stopwatch::start(), Mutex::new(Work::default()));
        Crew { make, workers, time, watch, on_progress, work }
    }

    pub(super) fn work(&self) -> Work {
        *self.work.lock().expect("no worker panics while it counts")
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Runs every job on some thread; the results are in the order of the jobs, with `None` where
    /// the analysis was interrupted or out of time.
    pub(super) fn map<J: Sync, R: Send>(
        &self,
        phase: &'static str,
        jobs: &[J],
        work: impl Fn(&mut Counted<'_>, &J) -> R + Sync,
    ) -> Vec<Option<R>> {
        let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let labour = || {
            let mut lab = (self.make)();
            while !self.is_over() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { break };
                let mut counted = Counted { lab: &mut *lab, work: Work::default() };
                let result = work(&mut counted, job);
                let events = self.count(counted.work);
                *results[at].lock().expect("one worker a job") = Some(result);
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(call) = &self.on_progress {
                    call(PerfProgress { phase, done, total: jobs.len(), events });
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.workers.min(jobs.len()) {
                scope.spawn(labour);
            }
            labour();
        });
        results.into_iter().map(|r| r.into_inner().expect("no worker panicked")).collect()
    }

    /// Runs one job on this thread.
    pub(super) fn one<R: Send>(
        &self,
        phase: &'static str,
        work: impl Fn(&mut Counted<'_>) -> R + Sync,
    ) -> Option<R> {
        self.map(phase, &[()], |lab, ()| work(lab)).pop().flatten()
    }

    fn count(&self, more: Work) -> u64 {
        let mut work = self.work.lock().expect("no worker panics while it counts");
        work.executions += more.executions;
        work.events += more.events;
        work.simulated += more.simulated;
        work.events
    }

    fn is_over(&self) -> bool {
        let why = match () {
            () if engine::is_interrupted() => CutShort::Interrupted,
            () if self.watch.elapsed() > self.time => CutShort::Time,
            () => return false,
        };
        self.work.lock().expect("no worker panics while it counts").cut_short = Some(why);
        true
    }
}

/// A simulator that counts its work.
pub(super) struct Counted<'a> {
    lab: &'a mut dyn Lab,
    work: Work,
}

impl Counted<'_> {
    pub(super) fn run(&mut self, draws: &Draws, limit: u64) -> Ran {
        let ran = self.lab.run(draws, limit);
        self.add(&ran, 0)
    }

    pub(super) fn walks(
        &mut self,
        draws: &Draws,
        after: u64,
        seeds: &[u64],
        limit: u64,
    ) -> Vec<Ran> {
        let all = self.lab.walks(draws, after, seeds, limit);
        all.into_iter().map(|ran| self.add(&ran, after)).collect()
    }

    pub(super) fn record(&mut self, draws: &Draws) -> Recorded {
        let recorded = self.lab.record(draws);
        self.add(&Ran::of(&recorded.run), 0);
        recorded
    }

    pub(super) fn trace(&mut self, draws: &Draws) -> Execution {
        self.lab.trace(draws)
    }

    /// Counts the work of an execution, without the shared events before a fork.
    fn add(&mut self, ran: &Ran, shared: u64) -> Ran {
        self.work.executions += 1;
        self.work.events += ran.events.saturating_sub(shared);
        self.work.simulated += ran.measured.time;
        *ran
    }
}

/// Converts seconds to nanoseconds.
pub(super) fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Converts nanoseconds to seconds.
pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
