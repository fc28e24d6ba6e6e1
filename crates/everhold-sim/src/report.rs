//! The report of an exploration: its findings, its extent, and the meaning of a run without
//! findings.

mod outcome;
pub(crate) mod page;
pub(crate) mod text;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everhold_report::Page;
use everhold_report::picture::{Charset, Paper};
use everhold_trace::Execution;

use crate::artifacts;
use crate::coverage::Coverage;
use crate::execute::{Undecided, attempt, quietly};
use crate::explore::{Options, in_order};
use crate::failure::{Cause, Failure};
use crate::portfolio::StrategyTally;
use crate::record::{NodeRecord, RunRecord};
use crate::regressions::{self, Kept, STORY, TestId};
use crate::schedule::Schedule;
use crate::shrink::Shrunk;
use crate::strategy::ExhaustiveProgress;
use crate::untested::{self, Expected, Untested};
use crate::worker::{Batch, Failed, Ran};

/// The lines of a workspace's `Cargo.toml` with which tests explore optimised code: about ten times
/// more executions in the same time.
pub const FASTER_TESTS: &str = "[profile.test]\nopt-level = 1\n";

/// The time of a search from which on a report says that it could be faster.
const SLOW_FROM: Duration = Duration::from_secs(1);

/// The outcome of an exploration.
#[must_use = "a report may hold a violation; call `assert_holds()`, or look at its findings"]
#[derive(Clone, Debug)]
pub struct Report {
    /// Where the exploration was started.
    pub(crate) test: TestId,
    /// The search that was used.
    pub search: String,
    /// The seed of the search.
    pub seed: u64,
    /// The number of threads.
    pub workers: usize,
    /// The nodes that the setup made.
    pub nodes: Vec<NodeRecord>,
    /// The reason why it ended.
    pub stop: Stop,
    /// The number of executions that were run.
    pub executions: u64,
    /// The number of steps of all executions.
    pub steps: u64,
    /// The wall time.
    pub time: Duration,
    /// The findings, each with a different cause.
    pub findings: Vec<Finding>,
    /// The `sometimes` goals.
    pub goals: Vec<Goal>,
    /// The coverage of the search.
    pub coverage: Coverage,
    /// The contribution of each strategy.
    pub tally: Vec<StrategyTally>,
    /// The number of executions that were cut off by the bound on steps.
    pub bounded: u64,
    /// The number of executions that ended because only timers without consequence still fired.
    pub settled: u64,
    /// The bound on steps of the last executions; it adapts to the system unless it was set.
    pub steps_max: u32,
    /// The number of executions in which progress was still owed when they were cut off, before
    /// the longest timer had fired often enough, or true and false in turn without an end: neither
    /// right nor wrong.
    pub unjudged: u64,
    /// The number of executions that ended where a checker reached its bound: neither right nor
    /// wrong.
    pub undecided: u64,
    /// The first bound that a checker reached.
    pub undecided_bound: Option<String>,
    /// The number of executions with a handler that took longer than
    /// [`Explorer::patience`](crate::Explorer::patience) and returned. It depends on the machine.
    pub slow: u64,
    /// The number of messages that found no room, in all executions; see [`Links`](crate::Links).
    pub refused: u64,
    /// The rules for links that fitted a message, as bits.
    pub(crate) fitted: u64,
    /// The number of executions that were run twice to see whether they are the same.
    pub rechecked: u64,
    /// The number of saved schedules that were run first.
    pub regressions: u64,
    /// Problems outside the exploration itself, such as an unreadable regressions file.
    pub problems: Vec<String>,
    /// The traces of the first executions, as many as the explorer was told to keep.
    pub traces: Vec<Execution>,
    /// The coverage of an exhaustive search.
    pub exhaustive: Option<ExhaustiveProgress>,
    /// Whether the bound on steps grew.
    pub(crate) grew: bool,
    pub(crate) expected: Expected,
    pub(crate) next_index: u64,
    pub(crate) traces_file: Option<PathBuf>,
}

/// The reason why an exploration ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// Every execution within the bounds was run.
    Exhausted,
    /// The budget of executions was used up; nothing is known about executions beyond it.
    Executions(u64),
    /// The budget of time was used up.
    Time(Duration),
    /// Every execution was run up to this many steps; some of them were longer.
    Steps(u32),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// Enough findings were made.
    Found,
    /// Only one schedule was asked for.
    Replayed {
        /// The first choice that no longer fits the program.
        skipped: Option<String>,
    },
    /// A checker reached this bound, and the search could not go on after it.
    Undecided {
        /// The checker with its bound, and how to raise it.
        bound: String,
    },
    /// Every execution was run in which partitions cut off one node at a time; there are too many
    /// nodes to part them in every way.
    PartlySplit,
    /// Every execution was run, but there are circles of states in which this property stays owed
    /// and which a fair execution may or may not leave.
    Unjudged {
        /// The first such property.
        property: String,
    },
    /// A handler has not returned in the search, but did when its execution was run again alone.
    Stalled {
        /// The number of the execution.
        execution: u64,
    },
    /// A recording was replayed, and the nodes diverged from it.
    Diverged {
        /// The place, and the difference.
        place: String,
    },
}

/// The result of an exploration in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimVerdict {
    /// Every execution within the bounds was run and none fails.
    Holds,
    /// An execution fails.
    Violated,
    /// A bound was reached first.
    Unknown,
    /// The program is not a function of its schedule, or the schedule no longer fits it.
    Diverged,
}

/// A state that some execution should reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Its name.
    pub name: String,
    /// The number of executions that reached it; an exhaustive search only records whether one did.
    pub reached: u64,
}

impl Goal {
    pub(crate) fn new(name: &str) -> Self {
        Goal { name: name.to_owned(), reached: 0 }
    }
}

/// A failing execution, with the evidence.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The failure.
    pub failure: Failure,
    /// The smallest schedule that shows it.
    pub schedule: Schedule,
    /// The schedule that the search found.
    pub original: Schedule,
    /// The recording of the execution under the small schedule.
    pub recording: RunRecord,
    /// The statistics of shrinking.
    pub shrunk: Shrunk,
    /// The execution that showed it first.
    pub origin: Origin,
}

/// The execution that showed a finding first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its number in the search.
    pub execution: Option<u64>,
    /// The strategy that ran it.
    pub search: String,
}

impl Finding {
    /// A short name of its schedule: eight hexadecimal digits. [`Report::id_of`] adds the name of
    /// the test.
    #[must_use]
    pub fn id(&self) -> String {
        self.schedule.id()
    }

    /// Whether there is a schedule to replay. Without one, the only way back to the execution is
    /// the whole search.
    pub(crate) fn has_schedule(&self) -> bool {
        !(self.schedule.choices.is_empty() && self.recording.steps.is_empty())
    }

    /// The execution as a trace, for every tool that reads one.
    #[must_use]
    pub fn trace(&self) -> Execution {
        crate::to_trace::execution(self)
    }

    /// The space-time picture of the execution, at most 40 rows, as wide as `COLUMNS` says.
    #[must_use]
    pub fn picture(&self) -> String {
        crate::picture::draw(&self.recording, &Paper::of_environment())
    }
}

impl Report {
    pub(crate) fn new(
        test: TestId,
        options: &Options,
        nodes: Vec<NodeRecord>,
        goals: Vec<Goal>,
    ) -> Self {
        Report {
            test,
            search: options.search.to_string(),
            seed: options.seed,
            workers: options.workers,
            nodes,
            stop: Stop::Executions(options.executions),
            executions: 0,
            steps: 0,
            time: Duration::ZERO,
            findings: Vec::new(),
            goals,
            coverage: Coverage::default(),
            tally: Vec::new(),
            bounded: 0,
            unjudged: 0,
            undecided: 0,
            undecided_bound: None,
            slow: 0,
            refused: 0,
            fitted: 0,
            settled: 0,
            steps_max: options.bounds.steps_max,
            rechecked: 0,
            regressions: 0,
            problems: Vec::new(),
            traces: Vec::new(),
            exhaustive: None,
            grew: false,
            expected: Expected::default(),
            next_index: options.first,
            traces_file: None,
        }
    }

    /// The result in a word.
    #[must_use]
    pub fn verdict(&self) -> SimVerdict {
        let diverged = |finding: &Finding| finding.failure.cause == Cause::Nondeterminism;
        match &self.stop {
            _ if self.findings.iter().any(diverged) => SimVerdict::Diverged,
            _ if !self.findings.is_empty() => SimVerdict::Violated,
            Stop::Replayed { skipped: Some(_) } | Stop::Diverged { .. } => SimVerdict::Diverged,
            Stop::Exhausted => SimVerdict::Holds,
            _ => SimVerdict::Unknown,
        }
    }

    /// The first finding.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// Goals that no execution reached.
    pub fn missed_goals(&self) -> impl Iterator<Item = &Goal> {
        self.goals.iter().filter(|goal| goal.reached == 0)
    }

    /// The name under which a finding of this report is kept in `target/everhold`: the test's name
    /// and eight digits. `EVERHOLD_REPLAY` takes it.
    #[must_use]
    pub fn id_of(&self, finding: &Finding) -> String {
        self.test.id_of(&finding.schedule.token())
    }

    /// The subjects of the test that no execution showed: goals, kinds of nodes, properties that
    /// were never decided. Empty where they could not be expected: after a finding, an
    /// interruption, or the replay of one schedule.
    #[must_use]
    pub fn untested(&self) -> Vec<Untested> {
        let whole = matches!(
            self.stop,
            Stop::Exhausted
                | Stop::Executions(_)
                | Stop::Time(_)
                | Stop::Steps(_)
                | Stop::PartlySplit
                | Stop::Unjudged { .. }
        );
        let given_up = matches!(self.stop, Stop::Undecided { .. });
        if !(whole || given_up) || !self.findings.is_empty() || self.executions == 0 {
            return Vec::new();
        }
        // Where a checker ended the whole search, nothing else can be expected of it.
        let mut untested = if whole { self.expected.untested(&self.goals) } else { Vec::new() };
        if let Stop::Unjudged { property } = &self.stop {
            untested.extend(self.expected.circle(property));
        }
        let most = 2 * (self.unjudged + self.undecided) > self.executions;
        if given_up || most {
            untested.extend(self.expected.undecided(self.undecided_bound.as_deref()));
        }
        untested
    }

    /// Counts an execution in which a checker gave up.
    pub(crate) fn give_up(&mut self, undecided: Undecided) {
        self.undecided += 1;
        self.expected.checker.get_or_insert(undecided.monitor.unwrap_or_default());
        self.undecided_bound.get_or_insert(undecided.bound);
    }

    /// The name of the test in reports.
    #[must_use]
    pub fn name(&self) -> &str {
        self.test.name()
    }

    /// The report as a page: the first finding with its space-time diagram, or the coverage of a
    /// run without findings. [`assert_holds`](Self::assert_holds) writes the page of a finding
    /// itself.
    #[must_use]
    pub fn page(&self) -> Page {
        match self.findings.first() {
            Some(finding) => page::finding(self, finding),
            None => page::clean(self),
        }
    }

    /// Writes the [traces](Self::traces) that were kept into one file, for `everhold infer`,
    /// `check` and `show`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; nothing is left half written.
    pub fn save_traces(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        let path = path.as_ref();
        artifacts::write_whole(path, &artifacts::bytes(&self.traces)).map_err(std::io::Error::other)
    }

    /// Ends the test: prints the report, and panics if the test fails.
    ///
    /// A failing schedule is saved in a regressions file beside the test and runs first from then
    /// on; commit it. The schedule, the trace of the execution and a page that shows it are written
    /// under `target/everhold`.
    ///
    /// # Panics
    ///
    /// If there is a finding, if a replayed schedule no longer fits, if the exploration was
    /// interrupted, or if something was [never tested](Self::untested): a goal that no execution
    /// reached, a kind of node that does not exist. A bound that was reached is no reason to panic:
    /// the printed report then states the coverage.
    #[track_caller]
    pub fn assert_holds(self) {
        if let Err(words) = self.conclude(&mut show) {
            panic!("{words}");
        }
    }

    /// Does the work of [`assert_holds`](Self::assert_holds) for a test in another process: the parts of
    /// the report go to `show`, and the error is the text of the panic.
    ///
    /// # Errors
    ///
    /// If the test fails.
    #[doc(hidden)]
    pub fn conclude(mut self, show: &mut dyn FnMut(&str)) -> Result<(), String> {
        // First of all, before anything that may fail.
        if let Some(finding) = self.findings.first() {
            show(&text::head(&self, finding));
        }
        self.leave_traces();
        let Some(finding) = self.findings.first() else {
            show(&self.to_string());
            self.advise(show);
            let ended = self.without_finding();
            self.leave_outcome(ended.is_err(), &mut Saved::default());
            return ended;
        };
        let mut saved = Saved::default();
        artifacts::save_schedule(&self, finding, &mut saved);
        show(&text::replay(&self, finding, &saved));
        show(&text::body(&self, finding));
        artifacts::save_rest(&self, finding, &mut saved);
        self.leave_outcome(true, &mut saved);
        let kept = self.keep(finding);
        show(&text::foot(&self, &saved, &kept));
        self.advise(show);
        Err(text::last_words(&self, finding, &saved))
    }

    /// Says that the search was slow only because it was compiled without optimisation.
    fn advise(&self, show: &mut dyn FnMut(&str)) {
        if env!("EVERHOLD_OPT_LEVEL") == "0" && self.time >= SLOW_FROM {
            show(&text::unoptimised());
        }
    }

    /// Writes the outcome as data, for `everhold findings`. Tests without a name of their own share
    /// one with others, so theirs is not kept. A replay says nothing about the search; its outcome
    /// goes to the file that `everhold replay` names.
    fn leave_outcome(&self, fails: bool, saved: &mut Saved) {
        if matches!(self.stop, Stop::Replayed { .. } | Stop::Diverged { .. })
            && let Some(file) = std::env::var_os(artifacts::OUTCOME_FILE)
        {
            artifacts::save_replayed(file.as_ref(), &outcome::bytes(self, fails, saved), saved);
        }
        let searched = !matches!(self.stop, Stop::Replayed { .. });
        if searched && self.test.test_name().is_some() {
            let bytes = outcome::bytes(self, fails, saved);
            let finding = self.findings.first().map(|finding| self.id_of(finding));
            artifacts::save_outcome(&self.test.outcome_name(), finding.as_deref(), &bytes, saved);
        }
    }

    /// Whether a test without a finding passes.
    fn without_finding(&self) -> Result<(), String> {
        match &self.stop {
            Stop::Interrupted => {
                Err(format!("interrupted after {}", text::count(self.executions, "execution")))
            }
            Stop::Replayed { skipped: Some(choice) } => Err(format!(
                "the schedule no longer fits the program: {choice} cannot happen; the \
                 execution did not fail. Search again without EVERHOLD_REPLAY, and remove the \
                 schedule if it came from a regressions file"
            )),
            Stop::Diverged { place } => {
                Err(format!("the replay diverged from the recording: {place}"))
            }
            Stop::Stalled { .. } => Err(text::summary(self)),
            _ => match self.untested() {
                untested if untested.is_empty() => Ok(()),
                untested => Err(untested::words(&untested, self.executions, self.bounded)),
            },
        }
    }

    /// Adds the schedule to the regressions file, with how it was found.
    fn keep(&self, finding: &Finding) -> Option<Kept> {
        if !finding.has_schedule() {
            return Some(
                Err("it has no schedule, since it could not be replayed alone".to_owned()),
            );
        }
        let mut violates = finding.failure.cause.to_string();
        if finding.origin.execution.is_some() {
            violates += &format!("{STORY}{}", text::story(self, finding));
        }
        regressions::keep(&self.test, &finding.schedule.token(), &violates)
    }

    /// Writes the traces that were requested to the file where the next command finds them.
    fn leave_traces(&mut self) {
        if self.traces.is_empty() {
            return;
        }
        let file = artifacts::folder().join(artifacts::file_name(self.name())).join("traces.jsonl");
        let save = || self.save_traces(&file).map_err(|problem| problem.to_string());
        match attempt("writing the traces", save) {
            Ok(()) => self.traces_file = Some(file),
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Takes in the executions of an epoch, in their order; returns them with the first one that
    /// fails for a new cause.
    pub(crate) fn absorb(&mut self, mut batches: Vec<Batch>) -> (Vec<Ran>, Option<Failed>) {
        for batch in &batches {
            self.coverage.merge(&batch.coverage);
            self.expected.see(&batch.kinds, &batch.judged);
        }
        let known: Vec<Cause> = self.findings.iter().map(|f| f.failure.cause.clone()).collect();
        let is_known =
            |ran: &Ran| ran.failed.as_ref().is_some_and(|f| known.contains(&f.failure.cause));
        let mut ran = in_order(&mut batches, is_known);
        for execution in &mut ran {
            self.count(execution);
            self.traces.extend(execution.trace.take().map(|trace| *trace));
        }
        let last = ran.last().filter(|last| !is_known(last));
        let failed = last.and_then(|last| last.failed.as_deref().cloned());
        (ran, failed)
    }

    fn count(&mut self, ran: &Ran) {
        self.executions += 1;
        self.next_index = self.next_index.max(ran.index + 1);
        self.steps += u64::from(ran.steps);
        self.bounded += u64::from(ran.bounded);
        if let Some(owed) = &ran.unjudged {
            self.unjudged += 1;
            self.expected.unjudged.get_or_insert_with(|| owed.clone());
        }
        self.settled += u64::from(ran.settled);
        if let Some(undecided) = &ran.undecided {
            self.give_up(undecided.clone());
        }
        self.refused += ran.refused;
        self.fitted |= ran.fitted;
        self.rechecked += u64::from(ran.rechecked);
        self.coverage.orders.add(ran.order);
        for (sum, count) in self.coverage.faults.iter_mut().zip(ran.faults) {
            *sum += u64::from(count);
        }
        for (goal, reached) in self.goals.iter_mut().zip(&ran.reached) {
            goal.reached += u64::from(*reached);
        }
    }

    /// Continues with the execution after a finding that does not end the search.
    pub(crate) fn rewind_to(&mut self, failed: u64) {
        self.next_index = failed + 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.findings.first() {
            Some(finding) => f.write_str(&text::failure(self, finding)),
            None => f.write_str(&text::clean(self)),
        }
    }
}

/// Prints a part of a report. A standard output that is closed must not hide what follows.
fn show(part: &str) {
    let part = Charset::of_environment().text(part);
    let _ = quietly(|| println!("{part}"));
}

/// The files to which the evidence was written, as far as that was possible.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saved {
    pub(crate) schedule: Option<PathBuf>,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) page: Option<PathBuf>,
    pub(crate) problems: Vec<String>,
}
