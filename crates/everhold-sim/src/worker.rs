//! Executions on a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everhold_node::Message;
use everhold_node::fingerprint::mix;
use everhold_trace::Execution;

use crate::coverage::Coverage;
use crate::differ::{acts_differently, first_difference};
use crate::execute::{Bounds, Ended, Undecided, execute};
use crate::failure::{Cause, Failure};
use crate::fault::FaultKind;
use crate::record::RunRecord;
use crate::rng::seed_of;
use crate::strategy::{Run, Search, Strategy};
use crate::system::System;
use crate::to_trace;
use crate::world::World;

/// Describes the system; shared by all workers.
pub(crate) type SharedSetup<M> = Arc<dyn Fn(&mut System<M>) + Send + Sync>;

/// The first executions are all examined closely, then one in this many.
const SAMPLED_FIRST: u64 = 64;
const SAMPLED_ONE_IN: u64 = 64;
/// The first executions are all run twice, so that short searches are checked too, then one in this
/// many. The very first is also run in a world of its own, which the setup describes anew.
const RECHECKED_FIRST: u64 = 4;
const RECHECKED_ONE_IN: u64 = 256;
/// One execution in this many may become a parent for guided ones, if it is not longer than this.
const PARENT_ONE_IN: u64 = 4;
const PARENT_MAX: usize = 4_096;

/// A stretch of executions that are planned together. Their outcome does not depend on which worker
/// runs which of them, so it does not depend on the number of workers.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) seed: u64,
    pub(crate) first: u64,
    /// For each execution the search that it uses, as an index.
    pub(crate) plan: Vec<u8>,
    pub(crate) searches: Vec<Search>,
    pub(crate) parents: Vec<Arc<[u32]>>,
    pub(crate) steps: u32,
    pub(crate) bounds: Bounds,
    /// Executions with a smaller number than this are recorded.
    pub(crate) traces: u64,
    pub(crate) known: Vec<Cause>,
    pub(crate) next: AtomicU64,
    /// Executions after this one need not run: an earlier one failed.
    pub(crate) stop_at: AtomicU64,
    pub(crate) halt: Arc<AtomicBool>,
}

/// A horizon is not shortened below this many steps.
const HORIZON_MIN: u32 = 16;

/// The number of steps over which an execution spreads its faults and changes of priority.
///
/// In every other execution it is the whole expected length. Systems with periodic timers are long,
/// while their bugs are often near the beginning: a few places that are uniform over a thousand steps
/// almost never fall together into the first thirty. So the other executions halve the length, each
/// number of halvings being equally likely.
fn horizon(seed: u64, steps: u32) -> u32 {
    let halvings = (steps / HORIZON_MIN).checked_ilog2().unwrap_or(0);
    let drawn = mix(seed, 0x4021);
    if halvings == 0 || drawn.is_multiple_of(2) {
        return steps;
    }
    steps >> (1 + (drawn >> 1) % u64::from(halvings))
}

impl Epoch {
    /// The search of an execution.
    pub(crate) fn search_of(&self, index: u64) -> u8 {
        self.plan[(index - self.first) as usize]
    }

    /// How an execution is run, whichever worker runs it.
    pub(crate) fn run_of(&self, index: u64, faults: u32) -> Run {
        let search = &self.searches[self.search_of(index) as usize];
        let guided = *search == Search::Guided && !self.parents.is_empty();
        let seed = seed_of(self.seed, index);
        let parent = guided.then(|| Arc::clone(&self.parents[seed as usize % self.parents.len()]));
        Run { seed, steps: horizon(seed, self.steps), faults, parent }
    }

    fn end(&self) -> u64 {
        self.first + self.plan.len() as u64
    }

    /// The number of the next execution to run.
    fn take(&self) -> Option<u64> {
        if self.halt.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.end() && index <= self.stop_at.load(Ordering::Relaxed)).then_some(index)
    }
}

/// The result of one execution.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) index: u64,
    pub(crate) search: u8,
    pub(crate) order: u64,
    pub(crate) steps: u32,
    pub(crate) bounded: bool,
    pub(crate) unjudged: Option<String>,
    pub(crate) settled: bool,
    pub(crate) undecided: Option<Undecided>,
    pub(crate) refused: u64,
    pub(crate) fitted: u64,
    pub(crate) reached: Vec<bool>,
    pub(crate) faults: [u32; FaultKind::ALL.len()],
    pub(crate) rechecked: bool,
    pub(crate) log: Option<Arc<[u32]>>,
    pub(crate) failed: Option<Box<Failed>>,
    pub(crate) trace: Option<Box<Execution>>,
}

/// A failing execution, as the search saw it.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) index: u64,
    pub(crate) search: String,
    pub(crate) seed: u64,
    pub(crate) failure: Failure,
    pub(crate) log: Vec<u32>,
    pub(crate) tail_at: Option<usize>,
}

/// The results of a worker in an epoch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Kinds of nodes that existed, and whether each property was decided, since the worker
    /// started.
    pub(crate) kinds: Vec<String>,
    pub(crate) judged: Vec<bool>,
    pub(crate) ran: Vec<Ran>,
    pub(crate) coverage: Coverage,
}

/// Shows from outside whether a worker still moves.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Grows with every step.
    pub(crate) beats: Arc<AtomicU64>,
    /// The execution that is running, plus one; zero when idle.
    pub(crate) execution: AtomicU64,
}

pub(crate) struct Worker<M: Message> {
    setup: SharedSetup<M>,
    world: World<M>,
    strategies: Vec<Box<dyn Strategy>>,
    pulse: Arc<Pulse>,
    faults: u32,
}

impl<M: Message> Worker<M> {
    pub(crate) fn new(setup: &SharedSetup<M>, searches: &[Search], pulse: Arc<Pulse>) -> Self {
        let mut world = World::new(setup);
        world.pulse = Some(Arc::clone(&pulse.beats));
        let faults = world.faults_max();
        let strategies = searches.iter().map(Search::strategy).collect();
        Worker { setup: Arc::clone(setup), world, strategies, pulse, faults }
    }

    pub(crate) fn run(&mut self, epoch: &Epoch) -> Batch {
        self.run_while(epoch, || ())
    }

    /// Does something after each execution.
    pub(crate) fn run_while(&mut self, epoch: &Epoch, mut after: impl FnMut()) -> Batch {
        let mut batch = Batch::default();
        while let Some(index) = epoch.take() {
            self.pulse.execution.store(index + 1, Ordering::Relaxed);
            let ran = self.one(epoch, index, &mut batch.coverage);
            let stops =
                ran.failed.as_ref().is_some_and(|f| !epoch.known.contains(&f.failure.cause));
            if stops {
                epoch.stop_at.fetch_min(index, Ordering::Relaxed);
            }
            batch.ran.push(ran);
            after();
        }
        self.pulse.execution.store(0, Ordering::Relaxed);
        batch.coverage.finish();
        batch.kinds.clone_from(&self.world.kinds);
        batch.judged = self.world.judged();
        batch
    }

    fn one(&mut self, epoch: &Epoch, index: u64, coverage: &mut Coverage) -> Ran {
        let search = epoch.search_of(index);
        let sampled = index < SAMPLED_FIRST || index.is_multiple_of(SAMPLED_ONE_IN);
        let run = epoch.run_of(index, self.faults);
        if sampled {
            coverage.sampled += 1;
            self.world.coverage = Some(std::mem::take(coverage));
        }
        let recorded = index < epoch.traces;
        self.world.set_recording(recorded);
        let mut ran = self.execute(epoch, index, search, &run);
        if recorded {
            let recording = self.world.take_recording();
            let trace = to_trace::recorded(&recording, run.seed);
            ran.trace = Some(Box::new(trace.with_name(&format!("execution {index}"))));
        }
        if let Some(seen) = self.world.coverage.take() {
            *coverage = seen;
        }
        let chosen = index < RECHECKED_FIRST || index % RECHECKED_ONE_IN == RECHECKED_ONE_IN - 1;
        if chosen && ran.failed.is_none() {
            self.recheck(epoch, &run, &mut ran);
        }
        ran
    }

    fn execute(&mut self, epoch: &Epoch, index: u64, search: u8, run: &Run) -> Ran {
        let sampled = self.world.coverage.is_some();
        self.lend(search, sampled);
        let outcome = execute(&mut self.world, run, epoch.bounds);
        let mut env = self.world.env.borrow_mut();
        std::mem::swap(&mut env.strategy, &mut self.strategies[search as usize]);
        let wanted = index.is_multiple_of(PARENT_ONE_IN) && env.log.len() <= PARENT_MAX;
        let guided = epoch.searches.contains(&Search::Guided);
        let failed = outcome.failure.map(|failure| {
            Box::new(Failed {
                index,
                search: epoch.searches[search as usize].to_string(),
                seed: run.seed,
                failure,
                log: env.log.clone(),
                tail_at: outcome.tail_at,
            })
        });
        Ran {
            index,
            search,
            order: env.state.partial_order(),
            steps: outcome.steps,
            bounded: outcome.ended == Ended::Bounded,
            unjudged: outcome.unjudged,
            settled: outcome.ended == Ended::Settled,
            undecided: outcome.undecided,
            refused: std::mem::take(&mut env.refused),
            fitted: std::mem::take(&mut env.fitted),
            reached: self.world.reached_goals(),
            faults: env.state.injected,
            rechecked: false,
            log: (wanted && guided).then(|| env.log.as_slice().into()),
            failed,
            trace: None,
        }
    }

    /// Puts a strategy into the world.
    fn lend(&mut self, search: u8, hashing: bool) {
        let mut env = self.world.env.borrow_mut();
        std::mem::swap(&mut env.strategy, &mut self.strategies[search as usize]);
        env.hashing = hashing;
    }

    /// Runs the same execution again: the same choices must lead to the same events.
    fn recheck(&mut self, epoch: &Epoch, run: &Run, ran: &mut Ran) {
        let log = self.world.env.borrow().log.clone();
        let end = self.world.end_state();
        let again = self.execute(epoch, ran.index, ran.search, run);
        ran.rechecked = true;
        let same_log = self.world.env.borrow().log == log;
        let same_end = self.world.end_state() == end;
        let same = again.order == ran.order && again.steps == ran.steps && same_log && same_end;
        if !same || (ran.index == 0 && !self.is_same_elsewhere(epoch, run, ran)) {
            let message = "two executions with the same choices differ".to_owned();
            ran.failed = Some(Box::new(Failed {
                index: ran.index,
                search: epoch.searches[ran.search as usize].to_string(),
                seed: run.seed,
                failure: Failure { cause: Cause::Nondeterminism, message },
                log,
                tail_at: None,
            }));
        }
    }

    /// Compares the execution closely, also in another world with nodes that the setup makes anew.
    fn is_same_elsewhere(&mut self, epoch: &Epoch, run: &Run, ran: &Ran) -> bool {
        let here = self.record(epoch, run, ran);
        let again = self.record(epoch, run, ran);
        let mut other = World::new(&self.setup);
        other.pulse.clone_from(&self.world.pulse);
        std::mem::swap(&mut self.world, &mut other);
        let elsewhere = self.record(epoch, run, ran);
        std::mem::swap(&mut self.world, &mut other);
        first_difference(&here, &again).is_none() && !acts_differently(&here, &elsewhere)
    }

    fn record(&mut self, epoch: &Epoch, run: &Run, ran: &Ran) -> RunRecord {
        self.world.set_recording(true);
        self.execute(epoch, ran.index, ran.search, run);
        self.world.take_recording()
    }
}
