//! The report as data for plots. `docs/perf.md` describes the JSON format.

use serde::Serialize;

use super::{PerfReport, SlowFinding};
use crate::perf::cause::Causes;
use crate::perf::correlate::Correlation;
use crate::perf::detect::Detection;
use crate::perf::divergence::Fall;
use crate::perf::growth::Growth;
use crate::perf::judge::Signature;
use crate::perf::lab::seconds;
use crate::perf::multiples::{TimerPeriod, after_multiple};
use crate::perf::path::Spent;
use crate::perf::search::{SearchTally, Survival};
use crate::perf::story;
use crate::perf::verdict::PerfVerdict;
use crate::perf::what_if::Answer;
use crate::{Event, Recorded, Trigger};

/// The version of the format, which increases with incompatible changes.
const VERSION: u32 = 1;

/// The data of the plots of a report; [`PerfReport::data`] returns it as JSON. Times are in
/// seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Plots<'a> {
    /// The version of the format, 1.
    pub version: u32,
    /// The name of the analysis.
    pub name: &'a str,
    /// The seed.
    pub seed: u64,
    /// The verdict.
    pub verdict: PerfVerdict,
    /// An upper bound on the share of slow executions with 95 % confidence, if none was found.
    pub unseen_share: f64,
    /// The number of executions in all phases.
    pub executions: u64,
    /// The number of events simulated.
    pub events: u64,
    /// The names of the nodes; elsewhere a node is given by its index here.
    pub nodes: Vec<&'a str>,
    /// The timers, with their periods.
    pub timers: &'a [TimerPeriod],
    /// The distribution of times (`times`, ascending), its modes, and the results of the tests.
    pub distribution: &'a Detection,
    /// The positions of vertical lines in the distribution: the multiples of the named timer.
    pub timer_multiples: Vec<f64>,
    /// The contribution of each search method.
    pub tally: &'a [SearchTally],
    /// The probabilities of increasingly long executions.
    pub survival: &'a [Survival],
    /// The scatter plots: counts, one per execution, with their correlations.
    pub correlations: &'a [Correlation],
    /// The times of the executions in the scatter plots.
    pub correlation_times: &'a [f64],
    /// The effects of changes.
    pub what_if: &'a [Answer],
    /// The results of MacePC's phases.
    pub mace: &'a Option<super::MaceReport>,
    /// The explained findings.
    pub findings: Vec<FindingPlots<'a>>,
}

/// The data of the plots of a finding.
#[derive(Clone, Debug, Serialize)]
pub struct FindingPlots<'a> {
    /// The short identifier.
    pub id: String,
    /// The token with which it can be replayed.
    pub token: String,
    /// The command that replays it.
    pub replay: String,
    /// The execution time.
    pub time: f64,
    /// The signature, which differs from that of other findings.
    pub signature: &'a Signature,
    /// The most informative reason, as a sentence.
    pub because: Option<String>,
    /// The growth with the number of nodes, if that is the finding.
    pub growth: &'a Option<Growth>,
    /// The critical path from start to end.
    pub critical_path: Vec<LegPlot<'a>>,
    /// The shares of the uses of its time, the largest first.
    pub path_shares: Vec<(String, f64)>,
    /// The kinds of the messages on it, with their counts.
    pub path_messages: Vec<(String, usize)>,
    /// P(good) over the execution, with 95 % bands.
    pub good_curve: Vec<PointPlot>,
    /// The falls of P(good).
    pub falls: Vec<FallPlot>,
    /// Messages whose delay decides.
    pub causes: &'a Causes,
    /// The slow execution around the moment at which it and the nearest fast one diverge.
    pub slow: SpaceTime<'a>,
    /// The nearest fast execution, with its zero at the same moment.
    pub nearest: Option<SpaceTime<'a>>,
}

/// A segment of the critical path.
#[derive(Clone, Debug, Serialize)]
pub struct LegPlot<'a> {
    /// The use of the time.
    pub spent: &'a Spent,
    /// The beginning.
    pub from: f64,
    /// The end.
    pub to: f64,
    /// The event at its end, in words.
    pub event: String,
}

/// A point of the curve of P(good).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PointPlot {
    /// The number of events before it.
    pub after: usize,
    /// The moment.
    pub at: f64,
    /// The share of walks that ended well.
    pub good: f64,
    /// The lower end of its 95 % band.
    pub low: f64,
    /// The upper end of its 95 % band.
    pub high: f64,
    /// The number of walks.
    pub walks: u32,
}

/// A fall of P(good).
#[derive(Clone, Debug, Serialize)]
pub struct FallPlot {
    /// The event at which it falls.
    pub event: usize,
    /// The time of that event.
    pub at: f64,
    /// The event, in words.
    pub what: String,
    /// P(good) before the fall.
    pub before: f64,
    /// P(good) after the fall.
    pub after: f64,
}

/// A part of an execution, with times relative to the moment at which the two executions diverge.
#[derive(Clone, Debug, Serialize)]
pub struct SpaceTime<'a> {
    /// The token with which it can be replayed.
    pub token: String,
    /// The time of the moment that is zero here.
    pub aligned_at: f64,
    /// The end of the whole execution, counted from its start.
    pub ends_at: f64,
    /// The number of the first event that is included.
    pub first_event: usize,
    /// The events, in order of their start.
    pub events: Vec<EventPlot<'a>>,
    /// The messages that they handle.
    pub messages: Vec<MessagePlot<'a>>,
}

/// An event: a box on the line of its node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EventPlot<'a> {
    /// The node.
    pub node: u32,
    /// The kind of event.
    pub kind: &'a str,
    /// The beginning.
    pub start: f64,
    /// The end.
    pub end: f64,
}

/// A message: an arrow from line to line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MessagePlot<'a> {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The kind of message.
    pub kind: &'a str,
    /// The time at which it left its sender.
    pub sent: f64,
    /// The time at which it arrived.
    pub arrives: f64,
}

/// The number of events on each side of the moment at which the two executions diverge.
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

/// Returns the multiples of the named timer within the range of the times.
pub(super) fn timer_multiples(detection: &Detection) -> Vec<f64> {
    let Some(fit) = &detection.multiples else { return Vec::new() };
    let last = detection.times.quantile(1.0);
    let rounds =
        after_multiple(last, fit.timer.period).map_or((last / fit.timer.period) as u32, |k| k);
    (1..=rounds).map(|k| f64::from(k) * fit.timer.period).collect()
}

fn finding<'a>(report: &PerfReport, finding: &'a SlowFinding) -> FindingPlots<'a> {
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

/// Returns the first event that differs in the nearest fast execution, or else the event at which
/// P(good) falls most.
fn parted(finding: &SlowFinding) -> usize {
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
