//! The report as data, for plots. Its shape as JSON is described in `docs/perf.md`.

use serde::Serialize;

use super::{Finding, PerfReport};
use crate::perf::cause::Causes;
use crate::perf::correlate::Correlation;
use crate::perf::detect::Detection;
use crate::perf::divergence::Fall;
use crate::perf::growth::Growth;
use crate::perf::judge::Signature;
use crate::perf::lab::seconds;
use crate::perf::multiples::{TimerPeriod, after_multiple};
use crate::perf::path::Spent;
use crate::perf::search::{Survival, Tally};
use crate::perf::story;
use crate::perf::verdict::PerfVerdict;
use crate::perf::what_if::Answer;
use crate::{Event, Recorded, Trigger};

/// A change of this number says that the shape is another.
const VERSION: u32 = 1;

/// What a page draws of a report; as JSON it is what [`PerfReport::data`] gives. Times are seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Plots<'a> {
    /// Of the shape; 1.
    pub version: u32,
    /// What was analysed.
    pub name: &'a str,
    /// The seed.
    pub seed: u64,
    /// The answer in a word.
    pub verdict: PerfVerdict,
    /// If no execution is slow: their share is below this, with 95 % confidence.
    pub unseen_share: f64,
    /// Executions in all phases.
    pub executions: u64,
    /// Events simulated.
    pub events: u64,
    /// The names of the nodes; elsewhere a node is its place here.
    pub nodes: Vec<&'a str>,
    /// The timers, with their periods.
    pub timers: &'a [TimerPeriod],
    /// The cumulative distribution (`times`, ascending), its modes, and what the tests say.
    pub distribution: &'a Detection,
    /// Where to draw lines in the distribution: the multiples of the named timer.
    pub timer_multiples: Vec<f64>,
    /// What each way of searching contributed.
    pub tally: &'a [Tally],
    /// The chances of ever longer executions.
    pub survival: &'a [Survival],
    /// Scatter plots: counts, one an execution, with their correlation...
    pub correlations: &'a [Correlation],
    /// ... and the times of those executions.
    pub correlation_times: &'a [f64],
    /// What changes would do.
    pub what_if: &'a [Answer],
    /// MacePC's phases.
    pub mace: &'a Option<super::MaceReport>,
    /// One an explained finding.
    pub findings: Vec<FindingPlots<'a>>,
}

/// What a page draws of a finding.
#[derive(Clone, Debug, Serialize)]
pub struct FindingPlots<'a> {
    /// Its short name.
    pub id: String,
    /// What to replay.
    pub token: String,
    /// The command that replays it.
    pub replay: String,
    /// How long it takes.
    pub time: f64,
    /// What makes it different from other findings.
    pub signature: &'a Signature,
    /// The most telling reason, as a sentence.
    pub because: Option<String>,
    /// How it grows with the nodes, if that is what was found.
    pub growth: &'a Option<Growth>,
    /// The critical path from start to end, leg by leg.
    pub critical_path: Vec<LegPlot<'a>>,
    /// The shares of what it went into, the largest first.
    pub path_shares: Vec<(String, f64)>,
    /// The kinds of the messages on it.
    pub path_messages: Vec<(String, usize)>,
    /// P(good) over the execution, with 95 % bands.
    pub good_curve: Vec<PointPlot>,
    /// Where it falls.
    pub falls: Vec<FallPlot>,
    /// Messages whose delay decides.
    pub causes: &'a Causes,
    /// The slow execution around the moment at which the two part.
    pub slow: SpaceTime<'a>,
    /// The nearest fast one, with its zero at the same moment.
    pub nearest: Option<SpaceTime<'a>>,
}

/// A stretch of the critical path.
#[derive(Clone, Debug, Serialize)]
pub struct LegPlot<'a> {
    /// What the time went into.
    pub spent: &'a Spent,
    /// From.
    pub from: f64,
    /// To.
    pub to: f64,
    /// The event it leads to, in words.
    pub event: String,
}

/// A point of the curve of P(good).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PointPlot {
    /// After so many events.
    pub after: usize,
    /// The moment.
    pub at: f64,
    /// The share of walks that ended well.
    pub good: f64,
    /// The lower end of its 95 % band.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Walks.
    pub walks: u32,
}

/// A fall of P(good).
#[derive(Clone, Debug, Serialize)]
pub struct FallPlot {
    /// The event at which it falls.
    pub event: usize,
    /// When that is.
    pub at: f64,
    /// The event in words.
    pub what: String,
    /// P(good) before.
    pub before: f64,
    /// And after.
    pub after: f64,
}

/// Part of an execution, with times relative to the moment at which the two part.
#[derive(Clone, Debug, Serialize)]
pub struct SpaceTime<'a> {
    /// What to replay.
    pub token: String,
    /// The moment that is zero here.
    pub aligned_at: f64,
    /// When the whole execution ends, from its start.
    pub ends_at: f64,
    /// The number of the first event that is shown.
    pub first_event: usize,
    /// The events, in order of their start.
    pub events: Vec<EventPlot<'a>>,
    /// The messages that they handle.
    pub messages: Vec<MessagePlot<'a>>,
}

/// An event: a box on the line of its node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EventPlot<'a> {
    /// Where.
    pub node: u32,
    /// What.
    pub kind: &'a str,
    /// From.
    pub start: f64,
    /// To.
    pub end: f64,
}

/// A message: an arrow from line to line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MessagePlot<'a> {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// What.
    pub kind: &'a str,
    /// When it left.
    pub sent: f64,
    /// When it arrived.
    pub arrives: f64,
}

/// Events shown on each side of the moment at which the two executions part.
const AROUND: usize = 150;

impl<'a> Plots<'a> {
    pub(super) fn new(report: &'a PerfReport) -> Plots<'a> {
        Plots {
            version: VERSION,
            name: report.name(),
            seed: report.seed,
            verdict: report.verdict(),
            unseen_share: report.unseen_share(),
            executions: report.executions,
            events: report.events,
            nodes: report.nodes.iter().map(|node| node.name.as_str()).collect(),
            timers: &report.timers,
            timer_multiples: timer_multiples(&report.detection),
            distribution: &report.detection,
            tally: &report.tally,
            survival: &report.survival,
            correlations: &report.correlations,
            correlation_times: &report.counted_times,
            what_if: &report.what_if,
            mace: &report.mace,
            findings: report.findings.iter().map(|found| finding(report, found)).collect(),
        }
    }
}

/// The multiples of the named timer that fall within the times.
pub(super) fn timer_multiples(detection: &Detection) -> Vec<f64> {
    let Some(fit) = &detection.multiples else { return Vec::new() };
    let last = detection.times.quantile(1.0);
    let rounds =
        after_multiple(last, fit.timer.period).map_or((last / fit.timer.period) as u32, |k| k);
    (1..=rounds).map(|k| f64::from(k) * fit.timer.period).collect()
}

fn finding<'a>(report: &PerfReport, finding: &'a Finding) -> FindingPlots<'a> {
    let slow = &finding.slow;
    let at = |event: usize| slow.events.get(event).map_or(finding.time, |e| seconds(e.start.0));
    let points = finding.curve.points.iter().map(|point| {
        let (low, high) = point.good.band();
        let (after, good, walks) = (point.after, point.good.rate(), point.good.tries);
        PointPlot { after, at: at(after), good, low, high, walks }
    });
    let fall = |fall: &Fall| FallPlot {
        event: fall.event,
        at: at(fall.event),
        what: story::event(slow, fall.event as u32),
        before: fall.before.rate(),
        after: fall.after.rate(),
    };
    let parted = parted(finding);
    FindingPlots {
        id: finding.id().to_owned(),
        token: finding.token(),
        replay: report.replay_line(&finding.token()),
        time: finding.time,
        signature: &finding.signature,
        because: finding.because(),
        growth: &finding.growth,
        path_shares: finding.path.shares(),
        path_messages: finding.path.messages(slow),
        critical_path: finding
            .path
            .legs
            .iter()
            .map(|leg| LegPlot {
                spent: &leg.spent,
                from: seconds(leg.from),
                to: seconds(leg.to),
                event: story::event(slow, leg.event),
            })
            .collect(),
        good_curve: points.collect(),
        falls: finding.curve.falls.iter().map(fall).collect(),
        causes: &finding.causes,
        slow: space_time(slow, parted),
        nearest: finding.nearest.as_ref().map(|nearest| space_time(&nearest.recorded, parted)),
    }
}

/// The first event that is not the same in the nearest fast execution; without one, where P(good)
/// falls most.
fn parted(finding: &Finding) -> usize {
    let Some(nearest) = &finding.nearest else {
        return finding.curve.decisive().map_or(0, |fall| fall.event);
    };
    let same = |(a, b): &(&Event, &Event)| (a.node, a.kind, a.start) == (b.node, b.kind, b.start);
    let both = finding.slow.events.iter().zip(&nearest.recorded.events);
    both.take_while(same).count()
}

fn space_time(recorded: &Recorded, parted: usize) -> SpaceTime<'_> {
    let first = parted.saturating_sub(AROUND).min(recorded.events.len());
    let last = (parted + AROUND).min(recorded.events.len());
    let zero = recorded.events.get(parted).map_or(0.0, |event| seconds(event.start.0));
    let shown = &recorded.events[first..last];
    let at = |time: everhold_node::Time| seconds(time.0) - zero;
    let events = shown.iter().map(|event| EventPlot {
        node: event.node.0,
        kind: recorded.kind(event.kind),
        start: at(event.start),
        end: at(event.end),
    });
    let messages = shown.iter().filter_map(|event| match event.trigger {
        Trigger::Message(message) => {
            let sent = recorded.messages.get(message as usize)?;
            let (from, to, kind) = (sent.link.from.0, sent.link.to.0, recorded.kind(sent.kind));
            Some(MessagePlot { from, to, kind, sent: at(sent.sent), arrives: at(event.ready) })
        }
        _ => None,
    });
    SpaceTime {
        token: recorded.draws.token(),
        aligned_at: zero,
        ends_at: recorded.run.time.as_secs_f64(),
        first_event: first,
        events: events.collect(),
        messages: messages.collect(),
    }
}
