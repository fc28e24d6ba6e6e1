//! The report of the analysis, and the conclusions that it allows.

mod page;
mod plots;
mod saved;
mod text;

use std::fmt;
use std::time::Duration;

use everhold_report::Page;
use everhold_sim::engine::{self, TestId};
use everhold_sim::record::NodeRecord;
use everhold_trace::Execution;
use serde::Serialize;

use super::analysis::Options;
use super::cause::Causes;
use super::correlate::Correlation;
use super::detect::Detection;
use super::divergence::Curve;
use super::growth::Growth;
use super::judge::Signature;
use super::lab::{Crew, CutShort};
use super::mace::{Divergence, Frequency, Training};
use super::multiples::TimerPeriod;
use super::path::{Path, TimerWait};
use super::search::{How, SearchTally, Survival};
use super::verdict::{PerfVerdict, share_at_most};
use super::what_if::Answer;
use crate::Recorded;
use saved::Saved;

pub use plots::{
    EventPlot, FallPlot, FindingPlots, LegPlot, MessagePlot, Plots, PointPlot, SpaceTime,
};

/// The outcome of a performance analysis.
#[must_use = "a report may hold slow executions; call `assert_fast()`, or look at its findings"]
#[derive(Clone, Debug)]
pub struct PerfReport {
    pub(super) test: TestId,
    pub(super) replay_with: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The number of threads.
    pub workers: usize,
    /// The nodes of the system.
    pub nodes: Vec<NodeRecord>,
    /// The timers that a normal execution sets, with their periods.
    pub timers: Vec<TimerPeriod>,
    /// The times of the drawn executions, and their classification.
    pub detection: Detection,
    /// Slow executions that are not due to chance, each with a different signature.
    pub findings: Vec<SlowFinding>,
    /// The number of further signatures that were not explained.
    pub more_findings: usize,
    /// The contribution of each search method.
    pub tally: Vec<SearchTally>,
    /// The probabilities of increasingly long executions, estimated by splitting.
    pub survival: Vec<Survival>,
    /// The counts that correlate with the time.
    pub correlations: Vec<Correlation>,
    /// The times of the executions behind [`correlations`](PerfReport::correlations).
    pub counted_times: Vec<f64>,
    /// The effects of changes.
    pub what_if: Vec<Answer>,
    /// MacePC's analysis, if it was requested.
    pub mace: Option<MaceReport>,
    /// The one execution that was requested.
    pub replayed: Option<Replayed>,
    /// The unmet part of the stopping condition, if no execution reached it.
    pub never: Option<String>,
    /// Descriptions of work that was only partly done, or input that could not be used.
    pub problems: Vec<String>,
    /// The number of executions in all phases.
    pub executions: u64,
    /// The number of events simulated.
    pub events: u64,
    /// The simulated time of all executions.
    pub simulated: Duration,
    /// The wall time of the analysis.
    pub time: Duration,
    /// The share of slow executions that may remain undetected for the verdict to be
    /// [`NoneSlow`](PerfVerdict::NoneSlow).
    pub slow_share_max: f64,
    /// The number of slow executions among those drawn that were not examined, because there were
    /// so many.
    pub not_looked_at: usize,
    /// The number of saved executions that were run first.
    pub regressions: u64,
    /// The first executions, as many as requested.
    pub traces: Vec<Execution>,
    pub(super) environment: String,
    pub(super) cut_short: Option<CutShort>,
}

/// A slow execution, with its explanation.
#[derive(Clone, Debug)]
pub struct SlowFinding {
    /// The signature, which differs from that of other findings.
    pub signature: Signature,
    /// The execution time in seconds.
    pub time: f64,
    /// The method by which it was found.
    pub how: How,
    /// The number of examined drawn executions with the same signature.
    pub seen: usize,
    /// The timer for which it waits longest.
    pub wait: Option<TimerWait>,
    /// The critical path.
    pub path: Path,
    /// P(good), the probability of a good end, over its events.
    pub curve: Curve,
    /// The fast execution that leaves it last.
    pub nearest: Option<Nearest>,
    /// Messages whose delay decides.
    pub causes: Causes,
    /// The growth of its rounds with the number of nodes, if that is the finding.
    pub growth: Option<Growth>,
    /// The execution itself.
    pub slow: Recorded,
    /// The execution with states and contents, unless it is very long.
    pub trace: Option<Execution>,
    /// The identifier; set when the report takes the finding in.
    pub(super) id: String,
}

/// A fast execution for comparison.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// The token with which it can be replayed.
    pub token: String,
    /// The execution.
    pub recorded: Recorded,
}

/// One execution that was run again.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The record of the execution.
    pub slow: Recorded,
    /// The critical path.
    pub path: Path,
    /// The execution with states and contents, unless it is very long.
    pub trace: Option<Execution>,
}

/// The results of MacePC's analysis.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MaceReport {
    /// The result of phase 1b.
    pub training: Training,
    /// Phase 2: the number of executions up to the anomalous one, inclusive.
    pub searched: usize,
    /// The anomalous execution's time, in seconds.
    pub anomaly: Option<f64>,
    /// The token with which the anomalous execution can be replayed.
    pub token: Option<String>,
    /// The number of its events.
    pub events: u64,
    /// The result of phase 3a.
    pub divergence: Option<Divergence>,
    /// The event at the divergence, in words.
    pub at: Option<String>,
    /// The good execution with the longest common prefix.
    pub nearest: Option<String>,
    /// The result of phase 3b.
    pub frequencies: Vec<Frequency>,
}

impl SlowFinding {
    /// Returns a short identifier: the name of the test, and digits that depend on its file and on
    /// the execution.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the token with which the execution can be replayed.
    #[must_use]
    pub fn token(&self) -> String {
        self.slow.draws.token()
    }

    /// Returns the most informative reason, as a sentence.
    #[must_use]
    pub fn because(&self) -> Option<String> {
        text::because(self)
    }
}

impl PerfReport {
    pub(super) fn new(test: TestId, options: &Options) -> PerfReport {
        PerfReport {
            test,
            replay_with: None,
            seed: options.seed,
            workers: options.workers,
            nodes: Vec::new(),
            timers: Vec::new(),
            detection: Detection::default(),
            findings: Vec::new(),
            more_findings: 0,
            tally: Vec::new(),
            survival: Vec::new(),
            correlations: Vec::new(),
            counted_times: Vec::new(),
            what_if: Vec::new(),
            mace: None,
            replayed: None,
            never: None,
            problems: Vec::new(),
            executions: 0,
            events: 0,
            simulated: Duration::ZERO,
            time: Duration::ZERO,
            slow_share_max: options.slow_share_max,
            not_looked_at: 0,
            regressions: 0,
            traces: Vec::new(),
            environment: options.environment.clone(),
            cut_short: None,
        }
    }

    pub(super) fn finish(&mut self, crew: &Crew, smaller: Option<&Crew>) {
        for work in [Some(crew), smaller].into_iter().flatten().map(Crew::work) {
            self.executions += work.executions;
            self.events += work.events;
            self.simulated += Duration::from_secs_f64(work.simulated);
            self.cut_short = self.cut_short.or(work.cut_short);
        }
        self.time = crew.elapsed();
    }

    /// Adds a finding, if there is one.
    pub(super) fn add(&mut self, finding: Option<SlowFinding>) {
        let named = finding.map(|finding| {
            let id = self.test.id_of(&finding.token());
            SlowFinding { id, ..finding }
        });
        self.findings.extend(named);
    }

    /// Returns the verdict: slow if slow executions were found; none slow if none was found and
    /// enough executions were drawn that, with 95 % confidence, the share of slow ones is below the
    /// bound of [`at_most`](super::Perf::at_most); otherwise unknown.
    #[must_use]
    pub fn verdict(&self) -> PerfVerdict {
        let anomalous = self.mace.as_ref().is_some_and(|mace| mace.anomaly.is_some());
        if !self.findings.is_empty() || anomalous {
            return PerfVerdict::Slow;
        }
        let cut = self.replayed.is_some()
            || self.never.is_some()
            || self.cut_short.is_some()
            || self.mace.is_some();
        if !cut && self.unseen_share() <= self.slow_share_max {
            PerfVerdict::NoneSlow
        } else {
            PerfVerdict::Unknown
        }
    }

    /// Returns an upper bound on the share of slow executions with 95 % confidence, if none was
    /// found (Clopper-Pearson). An execution counts as slow if it would be a finding; executions
    /// that only met a long tail of the network are not counted, executions that were not examined
    /// are.
    #[must_use]
    pub fn unseen_share(&self) -> f64 {
        share_at_most(self.not_looked_at, self.detection.times.len())
    }

    /// Returns the first finding.
    #[must_use]
    pub fn finding(&self) -> Option<&SlowFinding> {
        self.findings.first()
    }

    /// Returns true if Ctrl-C ended the analysis early; the report covers the work done by then.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.cut_short == Some(CutShort::Interrupted)
    }

    /// Returns the name of the analysis.
    #[must_use]
    pub fn name(&self) -> &str {
        self.test.name()
    }

    /// Returns the data of the plots of a page: distribution, scatter plots, P(good), two
    /// executions side by side, the shares of the critical path.
    #[must_use]
    pub fn plots(&self) -> Plots<'_> {
        Plots::new(self)
    }

    /// Returns the data of the plots as JSON; `docs/perf.md` describes the format.
    #[must_use]
    pub fn data(&self) -> String {
        serde_json::to_string(&self.plots()).expect("numbers and texts have a JSON form")
    }

    /// Returns the command that replays an execution of this report, given its token.
    #[must_use]
    pub fn replay_line(&self, token: &str) -> String {
        text::replay(self, token)
    }

    /// Returns the report as a page: about the first finding, or about the sample if there is none.
    #[must_use]
    pub fn page(&self) -> Page {
        self.finding().map_or_else(|| page::clean(self), |finding| page::finding(self, finding))
    }

    /// Writes page, trace, token and plot data of each finding under `target/everhold`; returns the
    /// report as text, with the names of the files.
    #[must_use]
    pub fn save(&self) -> String {
        text::report(self, &self.write_files())
    }

    /// Writes all files. A failure of one does not affect the others.
    fn write_files(&self) -> Saved {
        let mut saved = Saved::default();
        for finding in &self.findings {
            let folder = engine::folder().join(finding.id());
            let token = || format!("{}\n", finding.token()).into_bytes();
            saved.write(folder.join("schedule.txt"), token);
            if let Some(trace) = &finding.trace {
                let trace = || engine::bytes(&[trace.clone().with_name(self.name())]);
                saved.write(folder.join("trace.jsonl"), trace);
            }
            saved.write(folder.join("perf.json"), || self.data().into_bytes());
            let page = || page::finding(self, finding).html().into_bytes();
            saved.page(folder.join("report.html"), page);
        }
        if !self.traces.is_empty() {
            let folder = engine::folder().join(engine::file_name(self.name()));
            saved.write(folder.join("traces.jsonl"), || engine::bytes(&self.traces));
        }
        saved
    }

    /// Ends a test: prints the report, and panics if executions are slow.
    ///
    /// A slow execution is saved in a regressions file beside the test. From then on it runs first,
    /// and fails the test as long as it is slow; commit the file. The execution's token, its trace
    /// and a page that explains it are written under `target/everhold`.
    ///
    /// # Panics
    ///
    /// If there is a finding, if no execution reached the stopping condition, or if the analysis
    /// was interrupted. A bound on time or executions that is reached does not panic: the printed
    /// report then states the coverage.
    #[track_caller]
    pub fn assert_fast(self) {
        // The report is printed before anything else can fail.
        println!("{self}");
        let mut saved = self.write_files();
        saved.keep(self.finding().and_then(|finding| {
            let slow = text::headline(&self, finding);
            engine::keep(&self.test, &finding.token(), &slow)
        }));
        print!("{saved}");
        if let Some(problem) = text::last_words(&self, &saved) {
            panic!("{problem}");
        }
    }
}

impl fmt::Display for PerfReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::report(self, &Saved::default()))
    }
}
