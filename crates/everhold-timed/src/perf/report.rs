//! What the analysis found, and what its silence means.

mod page;
mod plots;
mod saved;
mod text;

use std::fmt;
use std::time::Duration;

use everhold_report::Page;
use everhold_sim::engine::{self, TestId};
use everhold_sim::record::NodeInfo;
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
use super::search::{How, Survival, Tally};
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
    /// Threads.
    pub workers: usize,
    /// The nodes of the system.
    pub nodes: Vec<NodeInfo>,
    /// The timers that a normal execution sets, with their periods.
    pub timers: Vec<TimerPeriod>,
    /// The times of the uniform executions, and what they say.
    pub detection: Detection,
    /// Slow executions that are not chance, each with another signature.
    pub findings: Vec<Finding>,
    /// Further signatures that were not explained.
    pub more_findings: usize,
    /// What each way of searching contributed.
    pub tally: Vec<Tally>,
    /// The chances of ever longer executions, by splitting.
    pub survival: Vec<Survival>,
    /// Counts that go with the time.
    pub correlations: Vec<Correlation>,
    /// The times of the executions behind [`correlations`](PerfReport::correlations).
    pub counted_times: Vec<f64>,
    /// What changes would do.
    pub what_if: Vec<Answer>,
    /// MacePC's analysis, if it was asked for.
    pub mace: Option<MaceReport>,
    /// The one execution that was asked for.
    pub replayed: Option<Replayed>,
    /// Why no execution reached the stopping condition, if none did.
    pub never: Option<String>,
    /// What was only partly done, or could not be used.
    pub problems: Vec<String>,
    /// Executions in all phases.
    pub executions: u64,
    /// Events simulated.
    pub events: u64,
    /// Simulated time of all executions.
    pub simulated: Duration,
    /// Wall time.
    pub time: Duration,
    /// The share of slow executions that may go unseen for the verdict to be
    /// [`NoneSlow`](PerfVerdict::NoneSlow).
    pub slow_share_max: f64,
    /// Slow executions among those drawn that nobody looked at, because there were so many.
    pub not_looked_at: usize,
    /// Saved executions that were run first.
    pub regressions: u64,
    /// The first executions, as many as were asked for.
    pub traces: Vec<Execution>,
    pub(super) environment: String,
    pub(super) cut_short: Option<CutShort>,
}

/// A slow execution, with the evidence.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What makes it different from other findings.
    pub signature: Signature,
    /// Seconds that it takes.
    pub time: f64,
    /// How it was come by.
    pub how: How,
    /// Uniform executions with the same signature among those looked at.
    pub seen: usize,
    /// The timer that it waits for most.
    pub wait: Option<TimerWait>,
    /// What its end waited for.
    pub path: Path,
    /// The chance of a good end over its events.
    pub curve: Curve,
    /// The fast execution that leaves it last.
    pub nearest: Option<Nearest>,
    /// Messages whose delay decides.
    pub causes: Causes,
    /// How it grows with the number of nodes, if that is what was found.
    pub growth: Option<Growth>,
    /// The execution itself.
    pub slow: Recorded,
    /// The same with states and contents, unless it is very long.
    pub trace: Option<Execution>,
    /// Set when the report takes it in.
    pub(super) id: String,
}

/// A fast execution for comparison.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// What to replay.
    pub token: String,
    /// The execution.
    pub recorded: Recorded,
}

/// One execution that was run again.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// What happened.
    pub slow: Recorded,
    /// What its end waited for.
    pub path: Path,
    /// The same with states and contents, unless it is very long.
    pub trace: Option<Execution>,
}

/// What MacePC would report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MaceReport {
    /// Phase 1b.
    pub training: Training,
    /// Phase 2: executions until an anomalous one, itself included.
    pub searched: usize,
    /// The anomalous execution's time, in seconds.
    pub anomaly: Option<f64>,
    /// What to replay.
    pub token: Option<String>,
    /// Its events.
    pub events: u64,
    /// Phase 3a.
    pub divergence: Option<Divergence>,
    /// The event at the divergence, in words.
    pub at: Option<String>,
    /// The good execution with the longest common prefix.
    pub nearest: Option<String>,
    /// Phase 3b.
    pub frequencies: Vec<Frequency>,
}

impl Finding {
    /// A short name: the test's, and digits that depend on its file and on the execution.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What to replay.
    #[must_use]
    pub fn token(&self) -> String {
        self.slow.draws.token()
    }

    /// The most telling reason, as a sentence.
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

    /// Takes in a finding, if there is one.
    pub(super) fn add(&mut self, finding: Option<Finding>) {
        let named = finding.map(|finding| {
            let id = self.test.id_of(&finding.token());
            Finding { id, ..finding }
        });
        self.findings.extend(named);
    }

    /// The answer in a word: slow if slow executions were found; none slow if none was, and so many
    /// were drawn that with 95 % confidence fewer are slow than [`at_most`](super::Perf::at_most)
    /// allows; otherwise unknown.
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

    /// With 95 % confidence the share of slow executions is below this, if none was found: the bound
    /// of Clopper and Pearson. Slow means that it would be a finding; executions that only met a long
    /// tail of the network are not counted, those that nobody looked at are.
    #[must_use]
    pub fn unseen_share(&self) -> f64 {
        share_at_most(self.not_looked_at, self.detection.times.len())
    }

    /// The first finding.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// True if Ctrl-C ended it early; what is there is what was done by then.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.cut_short == Some(CutShort::Interrupted)
    }

    /// The test as the report names it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.test.name()
    }

    /// What a page draws: distribution, scatter plots, P(good), two executions side by side, the
    /// shares of the critical path.
    #[must_use]
    pub fn plots(&self) -> Plots<'_> {
        Plots::new(self)
    }

    /// The same as JSON: `docs/perf.md` describes it.
    #[must_use]
    pub fn data(&self) -> String {
        serde_json::to_string(&self.plots()).expect("numbers and texts have a JSON form")
    }

    /// What runs an execution of this report again, by its token.
    #[must_use]
    pub fn replay_line(&self, token: &str) -> String {
        text::replay(self, token)
    }

    /// The report as a page: of the first finding, or of what was drawn if there is none.
    #[must_use]
    pub fn page(&self) -> Page {
        self.finding().map_or_else(|| page::clean(self), |finding| page::finding(self, finding))
    }

    /// Writes page, trace, token and plot data of each finding under `target/everhold`; gives the
    /// report as text, with the files' names.
    #[must_use]
    pub fn save(&self) -> String {
        text::report(self, &self.write_files())
    }

    /// Writes everything that can be written. Each file fails on its own.
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
    /// A slow execution is saved in a regressions file beside the test, and from then on it runs first
    /// and fails the test while it is still slow; commit it. Its token, its trace and a page that
    /// explains it are written under `target/everhold`.
    ///
    /// # Panics
    ///
    /// If there is a finding, if no execution reached the stopping condition, or if the analysis was
    /// interrupted. Not if a bound on time or executions was reached: then the printed report says
    /// what was covered.
    #[track_caller]
    pub fn assert_fast(self) {
        // What was found is printed before anything else can fail.
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
