//! Finds executions that take far longer than normal, and explains why.
//!
//! A bug that a recovery timer repairs violates no property; it only makes some executions wait.
//! Start with [`Perf`]: it draws executions of a [`Timed`] system, separates slow from normal ones,
//! searches for slower ones, and determines for each kind of slow execution the event after which a
//! good end became improbable, and the message that caused it. MacePC's analysis is available as a
//! [baseline](Perf::mace).
//!
//! In reading order:
//!
//! - `sample`, `modes`, `dip`, `multiples`, `detect`: the classification of executions as slow or
//!   normal.
//! - `lab`, `search`: executions on all cores, drawn at random and searched for.
//! - `path`, `judge`: the critical path of a slow execution, and whether it is a finding.
//! - `growth`: the number of rounds of a timer as a function of the number of nodes.
//! - `divergence`: the probability of a good end after each event; `cause`: the message that
//!   decided.
//! - `rank`, `correlate`, `normal`, `paired`, `what_if`: correlations, the effects of changes, and
//!   their statistical significance.
//! - `verdict`: the conclusions that a sample allows, and their confidence.
//! - `mace`: MacePC's answers to the same questions.
//! - `analysis`, `report`: the whole analysis, and its report.

mod analysis;
mod cause;
mod correlate;
mod detect;
mod dip;
mod divergence;
mod growth;
mod judge;
mod lab;
mod mace;
mod modes;
mod multiples;
mod normal;
mod paired;
mod path;
mod rank;
mod report;
mod sample;
mod search;
mod story;
mod verdict;
mod what_if;

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use everhold_node::Message;
use everhold_sim::engine::{self, TestId, number, scale};
use everhold_sim::rng::seed_of;

pub use everhold_sim::explore::DEFAULT_SEED;

pub use cause::{Causes, Rescue, Shift};
pub use correlate::{Correlation, Features, correlate};
pub use detect::{Detection, Fired, Measured};
pub use dip::{Dip, dip_test};
pub use divergence::{Curve, Effort, Fall, Point, Walks};
pub use growth::Growth;
pub use judge::{Signature, Why};
pub use lab::{OnProgress, PerfProgress};
pub use mace::{Divergence, Frequency, Training, divergence as mace_divergence, frequencies};
pub use modes::{Mode, modes, normal as normal_mode};
pub use multiples::{Multiples, TimerPeriod, multiples};
pub use normal::Share;
pub use paired::{Comparison, Versions, compare};
pub use path::{Leg, Path, Spent, TimerWait};
pub use rank::{believable, pearson, spearman};
pub use report::{
    EventPlot, FallPlot, FindingPlots, LegPlot, MaceReport, MessagePlot, Nearest, PerfReport,
    Plots, PointPlot, Replayed, SlowFinding, SpaceTime,
};
pub use sample::{Sample, TailRatio};
pub use search::{How, SearchTally, Survival};
pub use verdict::{PerfVerdict, VersionsVerdict};
pub use what_if::{Answer, WhatIf};

use crate::{Draws, Timed};
use analysis::{Analysis, Mace, Options};
use lab::{Crew, MakeLab, nanos};

const DEFAULT_EXECUTIONS: usize = 400;
/// The bound on wall time if neither it nor the number of executions is set.
const DEFAULT_TIME: Duration = Duration::from_secs(120);
const DEFAULT_MESSAGES: usize = 400;
/// The largest share of slow executions that may remain undetected.
const DEFAULT_SHARE: f64 = 0.05;

/// Looks for latent performance bugs in a timed system.
///
/// ```
/// use std::time::Duration;
/// use everhold_node::{Cx, Node, NodeId};
/// use everhold_timed::perf::Perf;
/// use everhold_timed::{Durations, Timed};
/// use serde::Serialize;
///
/// #[derive(Clone, Serialize)]
/// struct Echo { answered: bool }
///
/// impl Node for Echo {
///     type Msg = bool;
///     fn start(&mut self, cx: &mut Cx<bool>) {
///         if cx.id() == NodeId(0) { cx.send(NodeId(1), false); }
///     }
///     fn message(&mut self, cx: &mut Cx<bool>, from: NodeId, answer: bool) {
///         if !answer { cx.send(from, true); }
///         self.answered = true;
///     }
/// }
///
/// let timed = Timed::new(|system| {
///     system.nodes("echo", 2, |_| Echo { answered: false });
/// })
/// .durations(Durations::uniform(Duration::from_micros(20), Duration::from_micros(200)))
/// .stop_when_each(|node: &Echo| node.answered);
/// Perf::new(timed).executions(100).run().assert_fast();
/// ```
#[must_use = "nothing is run before `run()`"]
pub struct Perf<M: Message> {
    timed: Timed<M>,
    smaller: Option<Timed<M>>,
    executions: Option<usize>,
    sought: Option<usize>,
    seed: Option<u64>,
    workers: Option<usize>,
    time: Option<Duration>,
    limit: Option<Duration>,
    findings_max: usize,
    effort: Effort,
    messages_max: usize,
    mace: Option<Mace>,
    what_if: Vec<WhatIf>,
    slow_share_max: f64,
    replay: Option<Draws>,
    regressions: Option<bool>,
    traces: Option<u64>,
    name: Option<String>,
    replay_with: Option<String>,
    on_progress: Option<OnProgress>,
}

impl<M: Message> fmt::Debug for Perf<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perf").field("executions", &self.executions).finish_non_exhaustive()
    }
}

impl<M: Message> Perf<M> {
    /// Analyses a system with a stopping condition: 400 executions are drawn at random and 200
    /// searched for, in at most two minutes, on all cores.
    ///
    /// Environment variables change these settings as for [`explore`](everhold_sim::explore()):
    /// `EVERHOLD_EXECUTIONS`, `EVERHOLD_SECONDS`, `EVERHOLD_SEED`, `EVERHOLD_WORKERS`,
    /// `EVERHOLD_TRACES` and `EVERHOLD_REPLAY`; settings made in the code take precedence.
    /// `EVERHOLD_SCALE` multiplies the numbers of executions and the time, wherever they were set.
    pub fn new(timed: Timed<M>) -> Self {
        Perf {
            timed,
            smaller: None,
            messages_max: DEFAULT_MESSAGES,
            executions: None,
            sought: None,
            seed: None,
            workers: None,
            time: None,
            limit: None,
            findings_max: 3,
            effort: Effort::default(),
            mace: None,
            what_if: Vec::new(),
            slow_share_max: DEFAULT_SHARE,
            replay: None,
            regressions: None,
            traces: None,
            name: None,
            replay_with: None,
            on_progress: None,
        }
    }

    /// Sets the number of executions that are drawn at random; half as many again are searched for.
    /// Without a bound on time, the analysis takes as long as it needs.
    pub fn executions(self, executions: usize) -> Self {
        Perf { executions: Some(executions), ..self }
    }

    /// Sets the number of executions spent on the search for slower ones, with delayed messages,
    /// forks and splitting; by default half the number of drawn executions.
    pub fn seek(self, sought: usize) -> Self {
        Perf { sought: Some(sought), ..self }
    }

    /// Sets the seed.
    pub fn seed(self, seed: u64) -> Self {
        Perf { seed: Some(seed), ..self }
    }

    /// Sets the number of threads. Results do not depend on it.
    pub fn workers(self, workers: usize) -> Self {
        Perf { workers: Some(workers), ..self }
    }

    /// Sets the bound on wall time; the report then covers the work done by then.
    pub fn time(self, time: Duration) -> Self {
        Perf { time: Some(time), ..self }
    }

    /// Sets the bound on simulated time, beyond which an execution is given up.
    pub fn limit(self, limit: Duration) -> Self {
        Perf { limit: Some(limit), ..self }
    }

    /// Sets the number of kinds of slow execution to explain at most.
    pub fn findings(self, findings_max: usize) -> Self {
        Perf { findings_max, ..self }
    }

    /// Sets the effort for the curve of P(good).
    pub fn effort(self, effort: Effort) -> Self {
        Perf { effort, ..self }
    }

    /// Sets the number of messages of a slow execution to change at most, one at a time, in search
    /// of a cause; 400 by default, those around the fall of P(good) first.
    pub fn messages(self, messages_max: usize) -> Self {
        Perf { messages_max, ..self }
    }

    /// Also analyses the same system with fewer nodes, about a quarter. Slowness that all executions
    /// have in common cannot be detected in one sample; but if the number of rounds of a timer grows
    /// with the number of nodes, the system repairs itself one step per round, and that is a
    /// finding.
    pub fn smaller(self, timed: Timed<M>) -> Self {
        Perf { smaller: Some(timed), ..self }
    }

    /// Runs MacePC's analysis instead: the quartile rule after `training` executions, a uniform
    /// search, and a divergence point by `walks` random walks from each prefix. The paper uses 50
    /// training executions and 20 walks.
    pub fn mace(self, training: usize, walks: u32) -> Self {
        Perf { mace: Some(Mace { training, walks }), ..self }
    }

    /// Also estimates the effect of a change.
    pub fn what_if(mut self, change: WhatIf) -> Self {
        self.what_if.push(change);
        self
    }

    /// Sets the largest share of slow executions that may remain undetected for the verdict
    /// [`NoneSlow`](PerfVerdict::NoneSlow); 5 % by default.
    pub fn at_most(self, share: f64) -> Self {
        Perf { slow_share_max: share, ..self }
    }

    /// Judges only this execution: whether it is slow in comparison with the drawn ones, and why.
    pub fn replay(self, draws: Draws) -> Self {
        Perf { replay: Some(draws), ..self }
    }

    /// Sets whether saved slow executions in the regressions file beside the test run first; on by
    /// default.
    pub fn regressions(self, on: bool) -> Self {
        Perf { regressions: Some(on), ..self }
    }

    /// Keeps the traces of this many executions, the first ones, in [`PerfReport::traces`].
    pub fn traces(self, traces: u64) -> Self {
        Perf { traces: Some(traces), ..self }
    }

    /// Sets the name of the analysis in the report; by default the name of the test.
    pub fn name(self, name: &str) -> Self {
        Perf { name: Some(name.to_owned()), ..self }
    }

    /// Sets the command to which a token is appended to replay an execution; by default the test
    /// with `EVERHOLD_REPLAY`.
    pub fn replay_with(self, command: &str) -> Self {
        Perf { replay_with: Some(command.to_owned()), ..self }
    }

    /// Sets a function that is called about once per execution, from several threads.
    pub fn on_progress(self, call: impl Fn(PerfProgress) + Send + Sync + 'static) -> Self {
        Perf { on_progress: Some(Box::new(call)), ..self }
    }

    /// Runs the analysis. With `EVERHOLD_REPLAY` set to a timed execution (a token, a file with one, or
    /// the id of a finding), only that execution is judged and explained.
    ///
    /// # Panics
    ///
    /// If the settings are invalid: no stopping condition, no executions, a network without
    /// bandwidth, a system without nodes, an environment variable that cannot be read. The message
    /// gives the remedy.
    #[track_caller]
    pub fn run(mut self) -> PerfReport {
        let test = TestId::new(Location::caller(), self.name.clone());
        let options = self.options().unwrap_or_else(|problem| panic!("{problem}"));
        let on_progress = self.on_progress.take();
        let smaller = self.smaller.clone().map(|timed| crew(&options, timed, None));
        let crew = crew(&options, self.timed.clone(), on_progress);
        let mut report = PerfReport::new(test, &options);
        report.replay_with = self.replay_with;
        Analysis::new(&crew, smaller.as_ref(), &options).go(&mut report);
        report.finish(&crew, smaller.as_ref());
        report
    }

    /// Only draws the executions and returns their times, in the order of the seeds, for
    /// [`Versions`]. There are fewer than requested if the analysis was interrupted or ran out of
    /// time.
    ///
    /// # Panics
    ///
    /// For the same reasons as [`run`](Perf::run).
    #[must_use]
    #[track_caller]
    pub fn measure(mut self) -> Vec<Measured> {
        let options = self.options().unwrap_or_else(|problem| panic!("{problem}"));
        let on_progress = self.on_progress.take();
        let crew = crew(&options, self.timed.clone(), on_progress);
        let drawn = search::uniform(&crew, options.seed, options.executions, options.limit);
        let numbered = drawn.iter().enumerate();
        // A gap would pair different seeds of two versions.
        let without_gaps = numbered.take_while(|(at, c)| c.draws == draw(options.seed, *at));
        without_gaps.map(|(_, candidate)| candidate.ran.measured).collect()
    }

    /// Returns the settings of the code, or else of the environment, or else the defaults.
    fn options(&mut self) -> Result<Options, String> {
        self.check()?;
        let told = |number: Option<usize>| number.map(|number| number as u64);
        let executions = told_or("EVERHOLD_EXECUTIONS", told(self.executions))?;
        let seconds = told_or("EVERHOLD_SECONDS", None)?.map(Duration::from_secs);
        let unbounded = if executions.is_some() { Duration::MAX } else { DEFAULT_TIME };
        let replay = match self.replay.take() {
            Some(draws) => Some(draws),
            None => engine::replay_asked_for()?,
        };
        let drawn = executions.map_or(DEFAULT_EXECUTIONS, |number| number as usize);
        let scale = scale().map_err(|error| error.to_string())?;
        let options = Options {
            executions: drawn.saturating_mul(scale as usize),
            sought: self.sought.unwrap_or(drawn / 2).saturating_mul(scale as usize),
            seed: told_or("EVERHOLD_SEED", self.seed)?.unwrap_or(DEFAULT_SEED),
            workers: told_or("EVERHOLD_WORKERS", told(self.workers))?
                .map_or_else(cores, |number| number as usize),
            time: self.time.or(seconds).unwrap_or(unbounded).saturating_mul(scale),
            limit: self.limit.map_or(u64::MAX, |limit| nanos(limit.as_secs_f64())),
            findings_max: self.findings_max,
            effort: self.effort,
            messages_max: self.messages_max,
            mace: self.mace,
            what_if: std::mem::take(&mut self.what_if),
            slow_share_max: self.slow_share_max,
            replay,
            regressions: self.regressions.unwrap_or(true),
            traces: told_or("EVERHOLD_TRACES", self.traces)?.unwrap_or(0),
            environment: self.environment(),
        };
        options.check()
    }

    /// Returns the environment variables that determine the drawn executions, as the beginning of a
    /// command: a replay compares with the same executions.
    fn environment(&self) -> String {
        let drawn = [
            ("EVERHOLD_SEED", self.seed.is_some()),
            ("EVERHOLD_EXECUTIONS", self.executions.is_some()),
            ("EVERHOLD_SCALE", false),
        ];
        let used = drawn.iter().filter(|(_, told)| !told);
        let value = |name: &str| std::env::var(name).ok().map(|value| format!("{name}={value} "));
        used.filter_map(|(name, _)| value(name)).collect()
    }

    fn check(&self) -> Result<(), String> {
        if self.timed.never_stops() {
            let remedy = "say when an execution is done with `Timed::stop_when`";
            return Err(format!("the system has no stopping condition; {remedy}"));
        }
        let smaller = self.smaller.as_ref().map_or(Ok(()), Timed::check);
        self.timed.check().and(smaller).map_err(|error| error.to_string())
    }
}

fn told_or(variable: &str, told: Option<u64>) -> Result<Option<u64>, String> {
    told.map_or_else(|| number(variable).map_err(|error| error.to_string()), |told| Ok(Some(told)))
}

fn crew<M: Message>(options: &Options, timed: Timed<M>, on_progress: Option<OnProgress>) -> Crew {
    let make: MakeLab = Box::new(move || Box::new(timed.sim()));
    Crew::new(make, options.workers, options.time, on_progress)
}

/// Compares a version of a system with a reference on the same seeds, to find slowness that is the
/// same in every execution, and to check that a change costs nothing. [`Perf::measure`] accepts
/// settings.
///
/// # Panics
///
/// If the settings of one of them are invalid.
#[track_caller]
pub fn compare_versions<A: Message, B: Message>(
    version: &Timed<A>,
    reference: &Timed<B>,
    executions: usize,
) -> Versions {
    let version = Perf::new(version.clone()).executions(executions).measure();
    let reference = Perf::new(reference.clone()).executions(executions).measure();
    Versions::new(&version, &reference)
}

/// Returns the seed of an analysis without an explicit one: `EVERHOLD_SEED`, or else
/// [`DEFAULT_SEED`].
///
/// # Panics
///
/// If the variable is not a number.
#[must_use]
pub fn default_seed() -> u64 {
    let asked = told_or("EVERHOLD_SEED", None).unwrap_or_else(|problem| panic!("{problem}"));
    asked.unwrap_or(DEFAULT_SEED)
}

/// Returns the draws of the execution with this number under a seed.
#[must_use]
pub fn draw(seed: u64, number: usize) -> Draws {
    Draws::seed(seed_of(seed, number as u64))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
