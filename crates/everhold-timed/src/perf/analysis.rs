//! The whole analysis, from executions to explained findings.

use std::collections::BTreeMap;
use std::time::Duration;

use everhold_node::fingerprint::mix;
use everhold_sim::engine;
use everhold_trace::Execution;

use super::cause::{Causes, Question, causes};
use super::correlate::{Correlation, correlate};
use super::detect::{Detection, Measured};
use super::divergence::{Curve, Effort, Walks};
use super::draw;
use super::growth::{Growth, growth};
use super::judge::{
    Baseline, Group, Suspect, Why, alone, findings, not_looked_at, suspects, usual,
};
use super::lab::{Crew, branch, nanos, seconds};
use super::mace::{Training, divergence, frequencies};
use super::multiples::TimerPeriod;
use super::normal::Share;
use super::path::{Path, TimerWait, own_time};
use super::report::{MaceReport, Nearest, PerfReport, Replayed, SlowFinding};
use super::sample::Sample;
use super::search::{Candidate, Guide, How, guided, tally, uniform};
use super::story;
use super::what_if::what_if;
use crate::{Draws, Ended, Event, Recorded};

/// Settings of the analysis.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) executions: usize,
    /// The number of executions for all guided searches together.
    pub(super) sought: usize,
    pub(super) seed: u64,
    pub(super) workers: usize,
    /// The bound on wall time.
    pub(super) time: Duration,
    /// The bound on simulated time in nanoseconds.
    pub(super) limit: u64,
    pub(super) findings_max: usize,
    pub(super) effort: Effort,
    pub(super) messages_max: usize,
    pub(super) mace: Option<Mace>,
    pub(super) what_if: Vec<super::WhatIf>,
    pub(super) slow_share_max: f64,
    /// The only execution to analyse, if set.
    pub(super) replay: Option<Draws>,
    pub(super) regressions: bool,
    /// The number of executions kept as traces.
    pub(super) traces: u64,
    /// The beginning of a command that draws the same executions.
    pub(super) environment: String,
}

impl Options {
    pub(super) fn check(self) -> Result<Options, String> {
        if self.executions == 0 {
            return Err("an analysis needs at least 1 execution".to_owned());
        }
        if self.workers == 0 {
            return Err("an analysis needs at least 1 worker".to_owned());
        }
        Ok(self)
    }
}

/// The settings of MacePC's analysis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mace {
    pub(super) training: usize,
    pub(super) walks: u32,
}

pub(super) struct Analysis<'a> {
    crew: &'a Crew,
    /// The threads that run a smaller version of the system.
    smaller: Option<&'a Crew>,
    options: &'a Options,
}

/// The drawn executions, and the results derived from the normal ones.
struct Drawn {
    all: Vec<Candidate>,
    guide: Guide,
    baseline: Baseline,
}

/// The number of executions whose events are counted for correlations.
const COUNTED: usize = 200;
/// The number of events beyond which an execution is not written as a trace; its token replays it.
const TRACED: usize = 50_000;

impl<'a> Analysis<'a> {
    pub(super) fn new(crew: &'a Crew, smaller: Option<&'a Crew>, options: &'a Options) -> Self {
        Analysis { crew, smaller, options }
    }

    pub(super) fn go(&self, report: &mut PerfReport) {
        if let Some(draws) = &self.options.replay {
            self.show(draws, report);
        }
        match self.options.mace {
            Some(mace) => self.mace(mace, report),
            None => self.run(report),
        }
        let first: Vec<usize> = (0..self.options.traces as usize).collect();
        let trace = |number: &usize| draw(self.options.seed, *number);
        let traces = self.crew.map("traces", &first, |lab, number| lab.trace(&trace(number)));
        report.traces = traces.into_iter().flatten().collect();
    }

    fn run(&self, report: &mut PerfReport) {
        let drawn =
            uniform(self.crew, self.options.seed, self.options.executions, self.options.limit);
        let Some(normal) = self.normal(&drawn) else { return };
        report.nodes = normal.nodes.clone();
        report.timers = story::timers(&normal);
        report.detection = detect(&drawn, &report.timers);
        if drawn.iter().all(|c| !c.ran.measured.reached) {
            report.never = Some(never(&normal));
            return;
        }
        let guide = self.guide(&normal, &report.timers);
        let baseline = Baseline::new(self.crew, &drawn, &report.detection);
        let sample = Drawn { all: drawn, guide, baseline };
        if let Some(draws) = &self.options.replay {
            let finding = self.again(draws, How::Replayed, &sample, &report.detection);
            report.add(finding);
        } else if !(self.options.regressions && self.run_saved(&sample, report)) {
            self.search(sample, report);
        }
    }

    /// Runs the saved slow executions. Returns true if one of them is still slow.
    fn run_saved(&self, sample: &Drawn, report: &mut PerfReport) -> bool {
        let (saved, problems) = engine::load::<Draws>(&report.test);
        report.problems.extend(problems);
        for known in saved {
            report.regressions += 1;
            let finding = self.again(&known.execution, How::Saved, sample, &report.detection);
            if finding.is_some() {
                report.add(finding);
                return true;
            }
        }
        false
    }

    fn search(&self, sample: Drawn, report: &mut PerfReport) {
        let Drawn { all: drawn, guide, baseline } = sample;
        let (sought, survival) = guided(self.crew, &guide, &drawn);
        report.survival = survival;
        let all: Vec<Candidate> = drawn.into_iter().chain(sought).collect();
        report.tally = tally(&all, report.detection.slow_limit);
        report.not_looked_at = not_looked_at(&all, &report.detection);
        let groups = self.findings(&all, &report.detection, &baseline);
        for group in groups.iter().take(self.options.findings_max) {
            let finding = self.explain(group, &report.detection, &guide, &all);
            report.add(finding);
        }
        report.more_findings = groups.len().saturating_sub(self.options.findings_max);
        if groups.is_empty() {
            self.grows(&all, report);
        }
        let wait = report.findings.first().and_then(|finding| finding.wait.clone());
        if let Some(wait) = wait {
            let (correlations, times) = self.correlations(&all, &wait.name);
            (report.correlations, report.counted_times) = (correlations, times);
        }
        let base: Vec<&Candidate> = all.iter().filter(|c| c.how == How::Uniform).collect();
        report.what_if = what_if(self.crew, &base, &self.options.what_if, self.options.limit);
    }

    /// Judges one execution by comparison with the drawn ones, and explains it if it is slow.
    fn again(
        &self,
        draws: &Draws,
        how: How,
        sample: &Drawn,
        detection: &Detection,
    ) -> Option<SlowFinding> {
        let ran = self.crew.one("one execution", |lab| lab.run(draws, self.options.limit))?;
        let one = Candidate { draws: draws.clone(), ran, how };
        let all: Vec<Candidate> = sample.all.iter().chain([&one]).cloned().collect();
        let groups = self.findings(&all, detection, &sample.baseline);
        let is_it = |suspect: &&Suspect| suspect.candidate.how == how;
        let slow = groups.iter().find_map(|group| Some((group, group.members.iter().find(is_it)?)));
        match slow {
            Some((group, suspect)) => {
                self.explain_one(group, suspect, detection, &sample.guide, &all)
            }
            None => self.growth(one),
        }
    }

    /// Records an execution from the middle of the normal mode.
    fn normal(&self, drawn: &[Candidate]) -> Option<Recorded> {
        let detection = detect(drawn, &[]);
        let middle = detection.normal.map_or(0.0, |mode| mode.median);
        let off = |c: &Candidate| (c.ran.measured.time - middle).abs();
        let nearest = drawn.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
        self.record(&nearest.draws)
    }

    fn record(&self, draws: &Draws) -> Option<Recorded> {
        self.crew.one("recording", |lab| lab.record(draws))
    }

    fn guide(&self, normal: &Recorded, timers: &[TimerPeriod]) -> Guide {
        let blamable = normal.messages.iter().filter(|sent| !normal.is_of_load(sent));
        let delays = Sample::new(normal.messages.iter().map(|sent| seconds(sent.delay)));
        Guide {
            seed: mix(self.options.seed, 0x9D1D),
            budget: self.options.sought,
            limit: self.options.limit,
            messages: blamable.map(|sent| sent.link).collect(),
            round_trip: Duration::from_secs_f64((2.0 * delays.quantile(0.5)).max(1e-6)),
            timers: timers.to_vec(),
        }
    }

    fn findings(
        &self,
        all: &[Candidate],
        detection: &Detection,
        baseline: &Baseline,
    ) -> Vec<Group> {
        let suspects = suspects(self.crew, all, detection, baseline);
        findings(suspects, detection, baseline)
    }

    /// Looks for slowness that all executions share, which only a comparison with a smaller system
    /// shows.
    fn grows(&self, all: &[Candidate], report: &mut PerfReport) {
        let drawn: Vec<Candidate> = all.iter().filter(|c| c.how == How::Uniform).cloned().collect();
        let finding = usual(&drawn).and_then(|usual| self.growth(usual));
        report.add(finding);
    }

    /// Returns the execution as a finding, if it waits for a timer whose rounds grow with the
    /// number of nodes.
    fn growth(&self, candidate: Candidate) -> Option<SlowFinding> {
        let found = growth(self.crew, self.smaller?, self.options.seed)?;
        let group = alone(self.crew, candidate, Why::Growth, &found.timer)?;
        self.common(&group, found)
    }

    /// Explains the simplest execution of a group. Where all executions are slow, that one may have
    /// no single cause; then it tries the middle and the slowest one, for which some message may
    /// save a round of the timer.
    fn explain(
        &self,
        group: &Group,
        detection: &Detection,
        guide: &Guide,
        all: &[Candidate],
    ) -> Option<SlowFinding> {
        let explain = |suspect| self.explain_one(group, suspect, detection, guide, all);
        let simplest = explain(group.members.first()?)?;
        if simplest.causes.rescuing > 0 || !detection.common_path() {
            return Some(simplest);
        }
        let usual = &group.members[group.members.len() / 2];
        let time = |suspect: &&Suspect| suspect.candidate.ran.measured.time;
        let slowest = group.members.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
        let others = [Some(usual), slowest].into_iter().flatten();
        let caused = others.filter_map(explain).find(|finding| finding.causes.rescuing > 0);
        Some(caused.unwrap_or(simplest))
    }

    fn explain_one(
        &self,
        group: &Group,
        suspect: &Suspect,
        detection: &Detection,
        guide: &Guide,
        all: &[Candidate],
    ) -> Option<SlowFinding> {
        let slow = self.record(&suspect.candidate.draws)?;
        let limit = nanos(detection.slow_limit);
        let (curve, nearest) = self.curve(&slow, limit);
        let nearest = nearest.or_else(|| fastest(all)).and_then(|draws| {
            let recorded = self.record(&draws)?;
            let fast = own_time(&recorded) <= detection.slow_limit;
            fast.then(|| Nearest { token: draws.token(), recorded })
        });
        let until = suspect.wait.as_ref().and_then(|wait| story::first(&slow, &wait.name));
        // A change may itself cost a little time and still remove the wait.
        let removed =
            detection.slow_limit.max((own_time(&slow) / 2.0).min(3.0 * detection.slow_limit));
        let question = Question {
            slow: &slow,
            limit: nanos(removed),
            fall: curve.decisive().map(|fall| fall.event as u32),
            until: until.map_or(u64::MAX, |time| time.0),
            round_trip: guide.round_trip,
            messages_max: self.options.messages_max,
        };
        let causes = self.causes(question, suspect.wait.as_ref());
        let seen = group.members.iter().filter(|s| s.candidate.how == How::Uniform).count();
        Some(SlowFinding {
            signature: group.signature.clone(),
            time: own_time(&slow),
            how: suspect.candidate.how,
            seen: seen.max(1),
            wait: suspect.wait.clone(),
            path: Path::of(&slow),
            curve,
            nearest,
            causes,
            trace: self.trace(&slow),
            growth: None,
            id: String::new(),
            slow,
        })
    }

    /// Makes a finding of what all executions share, which has neither a place where it begins nor
    /// a message that decides.
    fn common(&self, group: &Group, growth: Growth) -> Option<SlowFinding> {
        let suspect = group.members.first()?;
        let slow = self.record(&suspect.candidate.draws)?;
        Some(SlowFinding {
            signature: group.signature.clone(),
            time: own_time(&slow),
            how: suspect.candidate.how,
            seen: 1,
            wait: suspect.wait.clone(),
            path: Path::of(&slow),
            curve: Curve::default(),
            nearest: None,
            causes: Causes::default(),
            trace: self.trace(&slow),
            growth: Some(growth),
            id: String::new(),
            slow,
        })
    }

    /// If no single message makes the execution fast, looks for messages that save a round of the
    /// timer.
    fn causes(&self, question: Question<'_>, wait: Option<&TimerWait>) -> Causes {
        let found = causes(self.crew, &question);
        let (Some(wait), 0) = (wait, found.rescuing) else { return found };
        let time = nanos(own_time(question.slow));
        let limit = time.saturating_sub(wait.longest / 2);
        if limit <= question.limit {
            return found;
        }
        causes(self.crew, &Question { limit, ..question })
    }

    /// Returns the execution with its states, unless it is too long.
    fn trace(&self, slow: &Recorded) -> Option<Execution> {
        let short = slow.events.len() <= TRACED;
        short.then(|| self.crew.one("recording", |lab| lab.trace(&slow.draws)))?
    }

    /// Estimates P(good) over the execution, and finds the good walk that leaves it last.
    fn curve(&self, slow: &Recorded, limit: u64) -> (Curve, Option<Draws>) {
        // After the limit no good end is possible, unless a load generator used the time.
        let over = |event: &Event| slow.load.is_empty() && event.start.0 > limit;
        let events = slow.events.partition_point(|event| !over(event));
        let mut good: BTreeMap<usize, u64> = BTreeMap::new();
        let curve = Curve::estimate(events, self.options.effort, |asked| {
            let walked = self.crew.map("divergence", asked, |lab, walks| {
                let seeds = seeds(&slow.draws, walks);
                let ran = lab.walks(&slow.draws, walks.after as u64, &seeds, limit);
                let fine: Vec<bool> = ran.iter().map(|ran| ran.measured.reached).collect();
                (seeds, fine)
            });
            let share = |(asked, walked): (&Walks, Option<(Vec<u64>, Vec<bool>)>)| {
                let Some((seeds, fine)) = walked else { return Share::default() };
                if let Some(first) = fine.iter().position(|fine| *fine) {
                    good.entry(asked.after).or_insert(seeds[first]);
                }
                let hits = fine.iter().filter(|fine| **fine).count() as u32;
                Share { hits, tries: fine.len() as u32 }
            };
            asked.iter().zip(walked).map(share).collect()
        });
        let by_load = |event: &Event| slow.is_load(event.node);
        let curve = curve.blame(|at| slow.events.get(at).is_none_or(|event| !by_load(event)));
        let last = good.into_iter().next_back();
        let draws = last.map(|(after, seed)| branch(&slow.draws, after as u64, seed));
        (curve, draws)
    }

    fn correlations(&self, all: &[Candidate], timer: &str) -> (Vec<Correlation>, Vec<f64>) {
        let counted: Vec<&Candidate> =
            all.iter().filter(|c| c.how == How::Uniform).take(COUNTED).collect();
        // All executions use the same moment: events that come later in a slow execution were
        // impossible in a fast one.
        let features = self.crew.map("counting", &counted, |lab, candidate| {
            let recorded = lab.record(&candidate.draws);
            let before = story::first(&recorded, timer);
            let end = everhold_node::Time(u64::MAX);
            (story::features(&recorded, before.unwrap_or(end)), candidate.ran.measured.time)
        });
        let (features, times): (Vec<_>, Vec<_>) = features.into_iter().flatten().unzip();
        (correlate(&features, &times), times)
    }

    /// Keeps the one requested execution, whatever the verdict.
    fn show(&self, draws: &Draws, report: &mut PerfReport) {
        let Some(slow) = self.record(draws) else { return };
        report.nodes = slow.nodes.clone();
        report.timers = story::timers(&slow);
        let path = Path::of(&slow);
        report.replayed = Some(Replayed { trace: self.trace(&slow), path, slow });
    }

    /// Runs MacePC's phases as described in the paper.
    fn mace(&self, mace: Mace, report: &mut PerfReport) {
        let limit = self.options.limit;
        let trained = uniform(self.crew, self.options.seed, mace.training, limit);
        let times = Sample::new(trained.iter().map(|c| c.ran.measured.time));
        let training = Training::new(&times);
        report.detection = detect(&trained, &[]);
        let first = trained.first().and_then(|first| self.record(&first.draws));
        report.nodes = first.map(|recorded| recorded.nodes).unwrap_or_default();
        let searched = match &self.options.replay {
            Some(draws) => self.only(draws),
            None => self.until_anomalous(mace, training.bound),
        };
        let anomaly = searched.iter().find(|c| c.ran.measured.time > training.bound).cloned();
        let mut found = MaceReport {
            training,
            searched: searched.len(),
            anomaly: anomaly.as_ref().map(|c| c.ran.measured.time),
            token: anomaly.as_ref().map(|c| c.draws.token()),
            ..MaceReport::default()
        };
        if let Some(anomaly) = anomaly {
            self.mace_divergence(mace, &anomaly, training, &mut found);
        }
        let counted: Vec<&Candidate> = trained.iter().chain(&searched).take(COUNTED).collect();
        let counts = self.crew.map("frequencies", &counted, |lab, candidate| {
            let recorded = lab.record(&candidate.draws);
            (story::counts(&recorded), candidate.ran.measured.time)
        });
        let (counts, times): (Vec<_>, Vec<_>) = counts.into_iter().flatten().unzip();
        found.frequencies = frequencies(&counts, &times);
        report.mace = Some(found);
    }

    /// Returns the one requested execution, in place of phase 2.
    fn only(&self, draws: &Draws) -> Vec<Candidate> {
        let ran = self.crew.one("one execution", |lab| lab.run(draws, self.options.limit));
        let how = How::Replayed;
        ran.map(|ran| Candidate { draws: draws.clone(), ran, how }).into_iter().collect()
    }

    /// Phase 2: draws executions until one exceeds the bound.
    fn until_anomalous(&self, mace: Mace, bound: f64) -> Vec<Candidate> {
        let mut searched = Vec::new();
        let mut next = mace.training;
        while next < mace.training + self.options.executions {
            let batch: Vec<Draws> = (next..next + mace.training.max(1))
                .map(|number| draw(self.options.seed, number))
                .collect();
            next += batch.len();
            let ran =
                self.crew.map("anomaly search", &batch, |lab, d| lab.run(d, self.options.limit));
            let cut = ran.iter().any(Option::is_none);
            for (draws, ran) in batch.into_iter().zip(ran) {
                let Some(ran) = ran else { continue };
                searched.push(Candidate { draws, ran, how: How::Uniform });
                if ran.measured.time > bound {
                    return searched;
                }
            }
            if cut {
                break;
            }
        }
        searched
    }

    /// Phase 3a: each walk replays its prefix and runs to the stopping condition.
    fn mace_divergence(
        &self,
        mace: Mace,
        anomaly: &Candidate,
        training: Training,
        found: &mut MaceReport,
    ) {
        found.events = anomaly.ran.events;
        let place = divergence(anomaly.ran.events as usize, |prefix| {
            let walk = |number: u32| {
                let seed = walk_seed(&anomaly.draws, prefix, number);
                branch(&anomaly.draws, prefix as u64, seed)
            };
            for number in 0..mace.walks {
                let draws = walk(number);
                let ran = self.crew.one("divergence", |lab| lab.run(&draws, self.options.limit));
                match ran {
                    Some(ran) if ran.measured.reached && ran.measured.time <= training.q3 => {
                        return (Some(number), number + 1);
                    }
                    Some(_) => {}
                    None => return (None, number),
                }
            }
            (None, mace.walks)
        });
        found.nearest = place.nearest.map(|number| {
            let seed = walk_seed(&anomaly.draws, place.last_good, number);
            branch(&anomaly.draws, place.last_good as u64, seed).token()
        });
        found.at =
            self.record(&anomaly.draws).map(|slow| story::event(&slow, place.last_good as u32));
        found.divergence = Some(place);
    }
}

fn walk_seed(draws: &Draws, after: usize, number: u32) -> u64 {
    mix(draws.seed, mix(0x3A1C_0000 + after as u64, u64::from(number)))
}

fn seeds(draws: &Draws, walks: &Walks) -> Vec<u64> {
    (walks.first..walks.first + walks.count).map(|n| walk_seed(draws, walks.after, n)).collect()
}

fn detect(candidates: &[Candidate], timers: &[TimerPeriod]) -> Detection {
    let measured: Vec<Measured> = candidates.iter().map(|c| c.ran.measured).collect();
    Detection::new(&measured, timers)
}

fn fastest(all: &[Candidate]) -> Option<Draws> {
    let done = all.iter().filter(|c| c.ran.measured.reached);
    let fastest = done.min_by(|a, b| a.ran.measured.time.total_cmp(&b.ran.measured.time));
    fastest.map(|c| c.draws.clone())
}

/// Describes a stopping condition that no execution reached.
fn never(recorded: &Recorded) -> String {
    let (how, nearest) = match &recorded.run.ended {
        Ended::Quiet(nearest) => ("nothing could happen any more", nearest.as_deref()),
        Ended::EventLimit(nearest) => ("the limit of events was reached", nearest.as_deref()),
        Ended::TimeLimit(nearest) => {
            ("the limit of simulated time was reached", nearest.as_deref())
        }
        Ended::Failed(failure) => return format!("the system failed: {failure}"),
        Ended::Undecided(bound) => return format!("it could not be judged: {bound}"),
        Ended::Done => ("it was reached", None),
    };
    let still = nearest.map_or_else(String::new, |nearest| format!("; still missing: {nearest}"));
    let idle = if recorded.messages.is_empty() && recorded.timers.is_empty() {
        "; no message was sent and no timer set: does the system do anything?"
    } else {
        ""
    };
    format!("{how}{still}{idle}")
}
