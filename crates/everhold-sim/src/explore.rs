//! Many executions, on all cores, until something fails or a bound is reached.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use everhold_node::Message;
use everhold_node::fingerprint::mix;

use crate::clock::Stopwatch;
use crate::execute::{Bounds, Ended, Outcome, execute, quietly};
use crate::inline::Inline;
use crate::interrupt;
use crate::investigate::{investigate_safely, replay_aside};
use crate::portfolio::Portfolio;
use crate::profile;
use crate::progress::ProgressLine;
use crate::regressions::{self, Known, TestId};
use crate::repeated::repeated;
use crate::report::{Finding, Goal, Origin, Report, Stop};
use crate::schedule::Schedule;
use crate::shrink::Shrunk;
use crate::strategy::{Run, Search};
use crate::stuck;
use crate::system::System;
use crate::worker::{Batch, Epoch, Failed, Pulse, Ran, SharedSetup, Worker};
use crate::world::World;

/// The seed of every search that does not name one: a plain run is the same run everywhere.
pub const DEFAULT_SEED: u64 = 0xE7E2_401D;
const DEFAULT_EXECUTIONS: u64 = 10_000;
const DEFAULT_TIME: Duration = Duration::from_secs(60);
/// Epochs grow, so that the portfolio learns early and synchronises rarely.
const EPOCH_FIRST: u64 = 128;
const EPOCH_MAX: u64 = 2_048;
/// The length of an execution that strategies assume before they have seen one.
const STEPS_GUESS: u32 = 64;
/// The largest value up to which the bound on steps grows by itself.
const STEPS_MAX: u32 = 8_000;
/// The number of executions that show whether longer ones end, and the number of executions of the
/// search for each of them.
const TRIALS: u32 = 4;
const TRIALS_ONE_IN: u64 = 256;
/// The interval at which the explorer looks at its workers.
const TICK: Duration = Duration::from_millis(50);

/// Explores the executions of a system with the default budget: 10,000 executions or a minute,
/// whichever is first, with the portfolio of strategies, on all cores.
///
/// The environment can change the budget (`EVERHOLD_EXECUTIONS`, `EVERHOLD_SECONDS`,
/// `EVERHOLD_SEED`, `EVERHOLD_WORKERS`), ask for the traces of the first executions
/// (`EVERHOLD_TRACES`) or for one execution (`EVERHOLD_REPLAY`); settings made explicitly on an
/// [`Explorer`] take precedence. `EVERHOLD_SCALE` multiplies the number of executions and the time
/// wherever they were set: a nightly run with `EVERHOLD_SCALE=10` does ten times as much, even
/// where the code sets the budget.
///
/// ```
/// use everhold_node::{Cx, Node, NodeId};
/// use everhold_sim::explore;
/// use serde::Serialize;
///
/// #[derive(Clone, Serialize)]
/// struct Counter { total: u32 }
///
/// impl Node for Counter {
///     type Msg = u32;
///     fn message(&mut self, _: &mut Cx<u32>, _: NodeId, add: u32) { self.total += add; }
/// }
///
/// #[derive(Clone, Serialize)]
/// struct Client { counter: NodeId }
///
/// impl Node for Client {
///     type Msg = u32;
///     fn start(&mut self, cx: &mut Cx<u32>) {
///         for add in [1, 2] { cx.send(self.counter, add); }
///     }
///     fn message(&mut self, cx: &mut Cx<u32>, _: NodeId, msg: u32) { cx.unexpected(msg); }
/// }
///
/// let report = explore(|system| {
///     let counter = system.node("counter", Counter { total: 0 });
///     system.node("client", Client { counter });
///     system.always("the total is never 2", move |s| {
///         s.get::<Counter>(counter).is_none_or(|c| c.total != 2)
///     });
/// });
/// // Messages may overtake each other: 2 arrives first in half of the executions.
/// assert_eq!(report.finding().unwrap().failure.cause.name(), "the total is never 2");
/// ```
#[track_caller]
pub fn explore<M: Message>(setup: impl Fn(&mut System<M>) + Send + Sync + 'static) -> Report {
    Explorer::new().run(setup)
}

/// The settings of an exploration; see [`explore()`] for the defaults.
#[derive(Clone, Debug, Default)]
pub struct Explorer {
    executions: Option<u64>,
    time: Option<Duration>,
    seed: Option<u64>,
    workers: Option<usize>,
    search: Option<Search>,
    bounds: Option<Bounds>,
    replay: Option<Schedule>,
    findings_max: Option<usize>,
    pub(crate) shrink_time: Option<Duration>,
    patience: Option<Duration>,
    pub(crate) name: Option<String>,
    regressions: Option<bool>,
    traces: Option<u64>,
    /// The number of the first execution, when a search goes on.
    first: u64,
    /// Whether the budget is multiplied already.
    scaled: bool,
    /// Whether executions run on the calling thread.
    inline: bool,
}

impl Explorer {
    /// An explorer with the default budget.
    #[must_use]
    pub fn new() -> Self {
        Explorer::default()
    }

    /// Stops after this many executions.
    #[must_use]
    pub fn executions(self, executions: u64) -> Self {
        Explorer { executions: Some(executions), ..self }
    }

    /// Stops after this much wall time; the number of executions by then depends on the machine.
    #[must_use]
    pub fn time(self, time: Duration) -> Self {
        Explorer { time: Some(time), ..self }
    }

    /// Explores with another seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Explorer { seed: Some(seed), ..self }
    }

    /// Uses this many threads. The findings do not depend on the number.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Explorer { workers: Some(workers), ..self }
    }

    /// Sets the search; the default is the portfolio.
    #[must_use]
    pub fn search(self, search: Search) -> Self {
        Explorer { search: Some(search), ..self }
    }

    /// Bounds every execution.
    #[must_use]
    pub fn bounds(self, bounds: Bounds) -> Self {
        Explorer { bounds: Some(bounds), ..self }
    }

    /// Bounds the steps of every execution.
    #[must_use]
    pub fn steps(self, steps_max: u32) -> Self {
        let bounds = Bounds { steps_max, ..self.bounds.unwrap_or_default() };
        Explorer { bounds: Some(bounds), ..self }
    }

    /// Runs this one execution instead of searching.
    #[must_use]
    pub fn replay(self, schedule: Schedule) -> Self {
        Explorer { replay: Some(schedule), ..self }
    }

    /// Continues after a finding, until there are this many with different causes.
    #[must_use]
    pub fn findings(self, findings_max: usize) -> Self {
        Explorer { findings_max: Some(findings_max), ..self }
    }

    /// Spends at most this long on making a finding small; ten seconds by default.
    #[must_use]
    pub fn shrink_time(self, time: Duration) -> Self {
        Explorer { shrink_time: Some(time), ..self }
    }

    /// Suspects a handler that has not returned for this long; ten seconds by default. Its
    /// execution is run again, alone: if it hangs there as well, that is a finding, otherwise it
    /// was only slow. On Linux, time for which that thread waited for a processor does not count.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Explorer { patience: Some(patience), ..self }
    }

    /// Names the search in reports; by default it is the name of the test.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Explorer { name: Some(name.to_owned()), ..self }
    }

    /// Whether failing schedules saved beside the test are run first. On by default.
    #[must_use]
    pub fn regressions(self, on: bool) -> Self {
        Explorer { regressions: Some(on), ..self }
    }

    /// Keeps the traces of the first executions, this many, in [`Report::traces`], from which
    /// properties can be inferred. A search that should not end at a finding also needs
    /// [`findings`](Self::findings).
    #[must_use]
    pub fn traces(self, traces: u64) -> Self {
        Explorer { traces: Some(traces), ..self }
    }

    /// Runs every execution on the calling thread, and starts no other: for nodes that nobody may
    /// share a process with. A handler that does not return cannot be noticed then.
    #[doc(hidden)]
    #[must_use]
    pub fn inline(self) -> Self {
        Explorer { inline: true, ..self }
    }

    /// The same search, continued from the execution in which a part of it stopped.
    #[track_caller]
    pub(crate) fn going_on_after(self, part: &Report) -> Self {
        let options = Options::resolve(self.clone()).unwrap_or_else(|problem| panic!("{problem}"));
        let whole = part.executions.saturating_sub(1);
        Explorer {
            executions: Some(options.executions - whole.min(options.executions - 1)),
            time: Some(options.time.saturating_sub(part.time).max(Duration::from_millis(1))),
            first: part.next_index.saturating_sub(1),
            scaled: true,
            ..self
        }
    }

    /// Runs the exploration.
    ///
    /// # Panics
    ///
    /// If the options make no sense (a budget of nothing, an unreadable environment variable) or
    /// the setup makes a system without nodes; the message says what to do.
    #[track_caller]
    pub fn run<M: Message>(self, setup: impl Fn(&mut System<M>) + Send + Sync + 'static) -> Report {
        self.run_for(Location::caller(), setup)
    }

    /// Runs the exploration for a test at this place.
    #[doc(hidden)]
    pub fn run_for<M: Message>(
        self,
        place: &'static Location<'static>,
        setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
    ) -> Report {
        let test = TestId::new(place, self.name.clone());
        let options = Options::resolve(self).unwrap_or_else(|problem| panic!("{problem}"));
        let (setup, repeated) = repeated(setup);
        // Once here, so that a panic in the setup is the caller's own and not a worker's.
        let mut world = World::new(&setup);
        assert!(
            !world.slots.is_empty(),
            "the system has no nodes, so there is nothing to explore; add some with `system.node`"
        );
        let goals = world.goals().iter().map(|name| Goal::new(name)).collect();
        let mut report = Report::new(test, &options, world.names.clone(), goals);
        report.expected = world.expected();
        report.problems.extend(world.property_problems());
        let reduction_sound = world.always.is_empty()
            && world.sometimes.is_empty()
            && world.eventually.is_empty()
            && world.properties.is_none()
            && world.variants.is_none();
        let links = world.env.borrow().rules.links.clone();
        drop(world);
        if !options.inline {
            run_elsewhere(&setup);
        }
        let inline = options.inline;
        let explorer = Exploration { setup, options };
        if repeated.problem().is_none() {
            explorer.go(&mut report, reduction_sound);
        }
        if let Some(problem) = repeated.problem() {
            panic!("{problem}");
        }
        // The rules of links in a search on this thread are not the user's.
        if report.findings.is_empty() && !matches!(report.stop, Stop::Replayed { .. }) && !inline {
            report.problems.extend(links.problems(report.fitted, &report.nodes));
        }
        report
    }
}

/// The settings that are in force: those of the explorer, or else of the environment, or else the
/// defaults.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) executions: u64,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) search: Search,
    pub(crate) bounds: Bounds,
    /// Whether no bounds were set, so that they may adapt to the system.
    pub(crate) adapts: bool,
    pub(crate) replay: Option<Schedule>,
    pub(crate) findings_max: usize,
    pub(crate) shrink_time: Duration,
    pub(crate) patience: Duration,
    pub(crate) regressions: bool,
    pub(crate) traces: u64,
    pub(crate) first: u64,
    pub(crate) inline: bool,
}

/// The reason why options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOption(String);

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Options {
    pub(crate) fn resolve(told: Explorer) -> Result<Options, BadOption> {
        let executions =
            told.executions.map_or_else(|| number("EVERHOLD_EXECUTIONS"), |n| Ok(Some(n)))?;
        let seconds = number("EVERHOLD_SECONDS")?.map(Duration::from_secs);
        let time = told.time.or(seconds);
        let seed = told.seed.map_or_else(|| number("EVERHOLD_SEED"), |n| Ok(Some(n)))?;
        let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = match told.workers {
            Some(workers) => workers,
            None => number("EVERHOLD_WORKERS")?.map_or_else(cores, |n| n as usize),
        };
        let replay = match told.replay {
            Some(schedule) => Some(schedule),
            None => regressions::replay_asked_for().map_err(BadOption)?,
        };
        let scale = if told.scaled { 1 } else { scale()? };
        // A bound on time alone means: as many executions as fit.
        let unbounded = if time.is_some() { u64::MAX } else { DEFAULT_EXECUTIONS };
        let endless = if executions.is_some() { Duration::MAX } else { DEFAULT_TIME };
        let options = Options {
            executions: executions.unwrap_or(unbounded).saturating_mul(scale.into()),
            time: time.unwrap_or(endless).saturating_mul(scale),
            seed: seed.unwrap_or(DEFAULT_SEED),
            workers,
            search: told.search.unwrap_or(Search::Portfolio),
            bounds: told.bounds.unwrap_or_default(),
            adapts: told.bounds.is_none(),
            replay,
            findings_max: told.findings_max.unwrap_or(1),
            shrink_time: told.shrink_time.unwrap_or(Duration::from_secs(10)),
            patience: told.patience.unwrap_or(Duration::from_secs(10)),
            regressions: told.regressions.unwrap_or(true),
            traces: match told.traces {
                Some(traces) => traces,
                None => number("EVERHOLD_TRACES")?.unwrap_or(0),
            },
            first: told.first,
            inline: told.inline,
        };
        options.check()
    }

    fn check(self) -> Result<Options, BadOption> {
        let nothing = |what: &str, remedy: &str| {
            Err(BadOption(format!("a budget of no {what} explores nothing; {remedy}")))
        };
        if self.executions == 0 {
            return nothing("executions", "give at least 1, or leave it out for the default");
        }
        if self.time.is_zero() {
            return nothing("time", "give at least a millisecond, or leave it out for the default");
        }
        if self.bounds.steps_max == 0 {
            return nothing("steps", "executions need at least 1 step");
        }
        if self.workers == 0 {
            return nothing("workers", "give at least 1, or leave it out for one a core");
        }
        if self.findings_max == 0 {
            return nothing("findings", "a search stops at the first finding by default");
        }
        if self.traces > 0 && matches!(self.search, Search::Exhaustive { .. }) {
            return Err(BadOption(
                "an exhaustive search keeps no traces: it goes back and forth within executions; \
                 use another search for them, such as `Search::Random`"
                    .to_owned(),
            ));
        }
        if let Search::Pct { depth: 0 } = self.search {
            return Err(BadOption("PCT needs a depth of at least 1; 2 and 3 are usual".to_owned()));
        }
        Ok(self)
    }
}

/// Reads a whole number from a variable of the environment, or from the profile that
/// `EVERHOLD_PROFILE` chooses, if it is set in one of them.
///
/// # Errors
///
/// If its value is something else, or there is no such profile.
pub fn number(variable: &str) -> Result<Option<u64>, BadOption> {
    let Ok(text) = std::env::var(variable) else {
        return profile::number(variable).map_err(BadOption);
    };
    let digits = text.trim().replace('_', "");
    digits.parse().map(Some).map_err(|_| {
        BadOption(format!("{variable}={text} is not a whole number; set it to one, or unset it"))
    })
}

/// Runs the setup on another thread, to see whether it describes the same system there. If it
/// cannot run there, the workers will report that.
fn run_elsewhere<M: Message>(setup: &SharedSetup<M>) {
    thread::scope(|scope| {
        let run = || drop(quietly(|| setup(&mut System::new())));
        let _ = scope.spawn(run).join();
    });
}

/// The factor by which the budget is multiplied.
///
/// # Errors
///
/// If `EVERHOLD_SCALE` is not a whole number from 1.
pub fn scale() -> Result<u32, BadOption> {
    let Some(scale) = number("EVERHOLD_SCALE")? else { return Ok(1) };
    u32::try_from(scale).ok().filter(|scale| *scale > 0).ok_or_else(|| {
        BadOption(format!(
            "EVERHOLD_SCALE={scale} cannot multiply a budget; set it to a number from 1 to {}, or \
             unset it",
            u32::MAX
        ))
    })
}

struct Exploration<M: Message> {
    setup: SharedSetup<M>,
    options: Options,
}

impl<M: Message> Exploration<M> {
    fn go(self, report: &mut Report, reduction_sound: bool) {
        let watch = Stopwatch::start();
        if let Some(schedule) = &self.options.replay {
            self.replay(schedule, report);
        } else if !(self.options.regressions && self.run_regressions(report)) {
            match &self.options.search {
                Search::Exhaustive { reduction } => {
                    let reduction = reduction.sound(reduction_sound);
                    crate::exhaust::exhaust(&self.setup, &self.options, reduction, report);
                }
                _ => self.search(report, watch),
            }
        }
        report.time = watch.elapsed();
    }

    /// Runs one schedule.
    fn replay(&self, schedule: &Schedule, report: &mut Report) {
        let origin = || Origin { execution: None, search: "replay".to_owned() };
        report.executions = 1;
        report.stop = Stop::Replayed { skipped: None };
        let replayed = match replay_aside(&self.setup, schedule, &self.options, origin) {
            Ok(replayed) => replayed,
            Err(stuck) => return report.findings.push(*stuck),
        };
        report.steps = u64::from(replayed.outcome.steps);
        if let Some(undecided) = replayed.outcome.undecided {
            report.give_up(undecided);
        }
        if let Some(skipped) = replayed.trail.skipped {
            let choice = &schedule.choices[skipped];
            report.stop = Stop::Replayed { skipped: Some(format!("choice {skipped}, {choice}")) };
        }
        if let Some(failure) = replayed.outcome.failure {
            report.findings.push(Finding {
                failure,
                schedule: schedule.clone(),
                original: schedule.clone(),
                recording: replayed.recording,
                shrunk: Shrunk::default(),
                origin: origin(),
            });
        }
    }

    /// Runs the schedules that failed before. True if one fails again.
    fn run_regressions(&self, report: &mut Report) -> bool {
        let (saved, problems) = regressions::load(&report.test);
        report.problems.extend(problems);
        for Known { execution: schedule, story } in saved {
            report.regressions += 1;
            let story = story.map(|story| format!(", found in {story}")).unwrap_or_default();
            let search = format!("a saved schedule{story}");
            let origin = || Origin { execution: None, search };
            let finding = match replay_aside(&self.setup, &schedule, &self.options, origin.clone())
            {
                Err(stuck) => *stuck,
                Ok(replayed) => {
                    let Some(failure) = replayed.outcome.failure else { continue };
                    Finding {
                        failure,
                        original: schedule.clone(),
                        schedule,
                        recording: replayed.recording,
                        shrunk: Shrunk::default(),
                        origin: origin(),
                    }
                }
            };
            report.findings.push(finding);
            report.stop = Stop::Found;
            return true;
        }
        false
    }

    fn search(&self, report: &mut Report, watch: Stopwatch) {
        let mut portfolio = Portfolio::new(&self.options.search);
        let mut crew = AnyCrew::hire(&self.setup, &portfolio.searches, &self.options);
        let mut steps = STEPS_GUESS.min(self.options.bounds.steps_max);
        let mut size = EPOCH_FIRST;
        let mut line = ProgressLine::new();
        let mut tried = false;
        while report.executions < self.options.executions {
            let count = size.min(self.options.executions - report.executions);
            let epoch = Arc::new(self.plan(&portfolio, report, count as usize, steps));
            let confirm = |index| stuck::hangs_again(&self.setup, &epoch, index, &self.options);
            let done = crew.run(&epoch, &self.options, watch, &confirm);
            report.slow += done.slow;
            let (ran, failed) = report.absorb(done.batches);
            line.tick(report.name(), report.executions, self.options.executions, watch.elapsed());
            portfolio.learn(&ran);
            self.adapt(&ran, report, &mut tried);
            steps = steps.max(longest(&ran, report.steps_max));
            if report.executions == ran.len() as u64 {
                // The guess was only for the first epoch.
                steps = longest(&ran, report.steps_max).max(1);
            }
            if let Some(finding) = done.stuck {
                report.findings.push(*finding);
                report.stop = Stop::Found;
                break;
            }
            if let Some(failed) = failed {
                let finding = self.investigate(&failed);
                report.findings.push(finding);
                if report.findings.len() >= self.options.findings_max {
                    report.stop = Stop::Found;
                    break;
                }
                report.rewind_to(failed.index);
            }
            if let Some(stop) = done.stop {
                report.stop = stop;
                break;
            }
            size = (size * 2).min(EPOCH_MAX);
        }
        report.tally = portfolio.tally;
    }

    /// Raises the bound on steps if most executions are cut off: twofold if a goal was never
    /// reached, otherwise once, to a bound within which executions end, if they do. Depends only on
    /// finished epochs, so not on the number of workers.
    fn adapt(&self, ran: &[Ran], report: &mut Report, tried: &mut bool) {
        let cut_off = ran.iter().filter(|ran| ran.bounded).count();
        if !self.options.adapts || cut_off * 2 <= ran.len() {
            return;
        }
        let wanted = if report.missed_goals().next().is_some() {
            report.steps_max * 2
        } else if std::mem::replace(tried, true) {
            return;
        } else {
            self.try_longer()
        };
        while report.steps_max < wanted.min(STEPS_MAX) {
            report.steps_max = (report.steps_max * 2).min(STEPS_MAX);
            report.grew = true;
        }
    }

    /// The length of a few executions, if most of them end within the largest bound; else zero. They
    /// are not part of the search, and not made if they would be a large part of its effort.
    fn try_longer(&self) -> u32 {
        let Options { seed, bounds, executions, patience, inline, .. } = self.options;
        if inline || executions < TRIALS_ONE_IN * u64::from(TRIALS) {
            return 0;
        }
        let setup = Arc::clone(&self.setup);
        let bounds = Bounds { steps_max: STEPS_MAX, ..bounds };
        let trials = stuck::aside(patience, move |seen| {
            let mut world = World::new(&setup);
            seen.follow(&mut world);
            let run = |seed| Run { seed, steps: bounds.steps_max, ..Run::default() };
            let trial = |number| execute(&mut world, &run(mix(seed, number)), bounds);
            (0..u64::from(TRIALS)).map(trial).collect::<Vec<_>>()
        });
        // Whatever fails there is for the search to find, which reaches as far now.
        let ends = |outcome: &&Outcome| {
            matches!(outcome.ended, Ended::Quiet | Ended::Settled | Ended::Failed)
        };
        let trials = trials.unwrap_or_default();
        let ended: Vec<u32> = trials.iter().filter(ends).map(|outcome| outcome.steps).collect();
        if 2 * ended.len() > TRIALS as usize { ended.into_iter().max().unwrap_or(0) } else { 0 }
    }

    fn plan(&self, portfolio: &Portfolio, report: &Report, count: usize, steps: u32) -> Epoch {
        let (seed, first) = (self.options.seed, report.next_index);
        Epoch {
            seed,
            first,
            plan: portfolio.plan(seed, first, count),
            searches: portfolio.searches.clone(),
            parents: portfolio.parents.clone(),
            steps,
            bounds: Bounds { steps_max: report.steps_max, ..self.options.bounds },
            traces: self.options.traces,
            known: report.findings.iter().map(|f| f.failure.cause.clone()).collect(),
            next: AtomicU64::new(first),
            stop_at: AtomicU64::new(u64::MAX),
            halt: Arc::new(AtomicBool::new(false)),
        }
    }

    fn investigate(&self, failed: &Failed) -> Finding {
        investigate_safely(&self.setup, failed, &self.options)
    }
}

/// The length of the longest execution, at most the bound: faults and changes of priority belong at
/// the beginning, not among ticks that never end.
fn longest(ran: &[Ran], steps_max: u32) -> u32 {
    ran.iter().map(|ran| ran.steps).max().unwrap_or(0).min(steps_max)
}

/// Those who run the executions.
enum AnyCrew<M: Message> {
    Threads(Crew),
    Inline(Box<Inline<M>>),
}

impl<M: Message> AnyCrew<M> {
    fn hire(setup: &SharedSetup<M>, searches: &[Search], options: &Options) -> Self {
        if options.inline {
            return AnyCrew::Inline(Box::new(Inline::new(setup, searches)));
        }
        AnyCrew::Threads(Crew::hire(setup, searches, options))
    }

    fn run(
        &mut self,
        epoch: &Arc<Epoch>,
        options: &Options,
        watch: Stopwatch,
        hangs_again: &dyn Fn(u64) -> Option<Finding>,
    ) -> EpochDone {
        match self {
            AnyCrew::Threads(crew) => crew.run(epoch, options, watch, hangs_again),
            AnyCrew::Inline(inline) => {
                let (batch, stop) = inline.run(epoch, || out_of_budget(options, watch));
                EpochDone { batches: vec![batch], stop, stuck: None, slow: 0 }
            }
        }
    }
}

/// The worker threads. If one of them is stuck, they are abandoned instead of joined.
struct Crew {
    orders: Vec<Sender<Arc<Epoch>>>,
    results: Receiver<(usize, thread::Result<Batch>)>,
    pulses: Vec<Arc<Pulse>>,
}

/// The result of an epoch.
struct EpochDone {
    batches: Vec<Batch>,
    stop: Option<Stop>,
    /// A handler that did not return, twice.
    stuck: Option<Box<Finding>>,
    /// Executions in which a handler took longer than the patience, and returned.
    slow: u64,
}

/// The observations of one worker.
#[derive(Clone, Copy, Debug)]
struct Look {
    beat: u64,
    /// Looks since it last moved. Looks are counted and not time, since time also passes while no
    /// thread runs.
    still: u32,
    /// The number of times that its execution was run again and returned.
    cleared: u32,
    /// The execution that was counted as slow last, plus one.
    counted: u64,
}

/// A worker that stands still is abandoned after its execution returned this often elsewhere.
const CLEARED_MAX: u32 = 3;

impl Crew {
    fn hire<M: Message>(setup: &SharedSetup<M>, searches: &[Search], options: &Options) -> Crew {
        let (report, results) = channel();
        let (mut orders, mut pulses) = (Vec::new(), Vec::new());
        for number in 0..options.workers {
            let (order, jobs) = channel::<Arc<Epoch>>();
            let pulse = Arc::new(Pulse::default());
            let (setup, searches, report) = (Arc::clone(setup), searches.to_vec(), report.clone());
            let beating = Arc::clone(&pulse);
            let work = move || {
                let mut worker = Worker::new(&setup, &searches, beating);
                for epoch in jobs {
                    let batch = catch_unwind(AssertUnwindSafe(|| worker.run(&epoch)));
                    if report.send((number, batch)).is_err() {
                        break;
                    }
                }
            };
            thread::Builder::new()
                .name(format!("everhold-{number}"))
                .spawn(work)
                .expect("the operating system starts a thread for a worker");
            orders.push(order);
            pulses.push(pulse);
        }
        Crew { orders, results, pulses }
    }

    fn run(
        &self,
        epoch: &Arc<Epoch>,
        options: &Options,
        watch: Stopwatch,
        hangs_again: &dyn Fn(u64) -> Option<Finding>,
    ) -> EpochDone {
        for order in &self.orders {
            order.send(Arc::clone(epoch)).expect("workers wait for the next epoch");
        }
        let mut done = EpochDone { batches: Vec::new(), stop: None, stuck: None, slow: 0 };
        let mut looks = vec![Look { beat: 0, still: 0, cleared: 0, counted: 0 }; self.pulses.len()];
        let mut busy = vec![true; self.pulses.len()];
        while done.batches.len() < self.orders.len() {
            match self.results.recv_timeout(TICK) {
                Ok((worker, batch)) => {
                    busy[worker] = false;
                    done.batches.push(batch.unwrap_or_else(|panic| resume_unwind(panic)));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look(&busy, &mut looks, options.patience, &mut done);
                    if let Some(suspect) = self.suspect(&busy, &looks, options.patience) {
                        self.judge(suspect, &mut looks, hangs_again, &mut done);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if done.stuck.is_none() && done.stop.is_none() {
                done.stop = out_of_budget(options, watch);
            }
            if done.stuck.is_some() || done.stop.is_some() {
                epoch.halt.store(true, Ordering::Relaxed);
            }
            if done.stuck.is_some() || matches!(done.stop, Some(Stop::Stalled { .. })) {
                break;
            }
        }
        done
    }

    /// Notes which workers moved and which did not.
    fn look(&self, busy: &[bool], looks: &mut [Look], patience: Duration, done: &mut EpochDone) {
        for (number, pulse) in self.pulses.iter().enumerate().filter(|(number, _)| busy[*number]) {
            let (beat, look) = (pulse.beats.load(Ordering::Relaxed), &mut looks[number]);
            let execution = pulse.execution.load(Ordering::Relaxed);
            if beat != look.beat {
                *look = Look { beat, still: 0, cleared: 0, ..*look };
                continue;
            }
            look.still += 1;
            if look.still > ticks(patience) && look.counted != execution {
                done.slow += 1;
                look.counted = execution;
            }
        }
    }

    /// A worker that has stood still for long, once all others are done or stand still as well:
    /// then its execution can be run again without other threads that compete for the processor.
    fn suspect(&self, busy: &[bool], looks: &[Look], patience: Duration) -> Option<(usize, u64)> {
        let executions = self.pulses.iter().map(|pulse| pulse.execution.load(Ordering::Relaxed));
        let working = executions.enumerate().filter(|(number, _)| busy[*number]);
        let working: Vec<(usize, u64)> = working.filter(|(_, execution)| *execution > 0).collect();
        let still = |number: usize| {
            let look = looks[number];
            look.still > ticks(patience).saturating_mul(1 << look.cleared)
        };
        if !working.iter().all(|(number, _)| still(*number)) {
            return None;
        }
        let first = working.into_iter().min_by_key(|(_, execution)| *execution)?;
        Some((first.0, first.1 - 1))
    }

    /// Runs the execution of a suspect again: it is stuck only if it hangs there as well.
    fn judge(
        &self,
        (worker, execution): (usize, u64),
        looks: &mut [Look],
        hangs_again: &dyn Fn(u64) -> Option<Finding>,
        done: &mut EpochDone,
    ) {
        if let Some(finding) = hangs_again(execution) {
            done.stuck = Some(Box::new(finding));
            // They have not returned either.
            let still = looks.iter().filter(|look| look.still > 0 && look.counted > 0).count();
            done.slow = done.slow.saturating_sub(still as u64);
            return;
        }
        looks[worker].cleared += 1;
        if looks[worker].cleared >= CLEARED_MAX {
            done.stop = Some(Stop::Stalled { execution });
        }
    }
}

/// The number of looks in this much time.
fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

pub(crate) fn out_of_budget(options: &Options, watch: Stopwatch) -> Option<Stop> {
    if interrupt::requested() {
        return Some(Stop::Interrupted);
    }
    (watch.elapsed() > options.time).then_some(Stop::Time(options.time))
}

/// Sorts an epoch's executions and keeps those up to the first that stopped the search.
pub(crate) fn in_order(batches: &mut [Batch], known: impl Fn(&Ran) -> bool) -> Vec<Ran> {
    let mut ran: Vec<Ran> = batches.iter_mut().flat_map(|batch| batch.ran.drain(..)).collect();
    ran.sort_unstable_by_key(|ran| ran.index);
    let stop = ran.iter().position(|ran| ran.failed.is_some() && !known(ran));
    ran.truncate(stop.map_or(ran.len(), |at| at + 1));
    ran
}
