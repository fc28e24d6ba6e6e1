//! The report as data, for plots. Its shape is described in `docs/perf.md`.

use serde::Serialize;

use super::{Finding, PerfReport};
use crate::perf::cause::Causes;
use crate::perf::correlate::Correlation;
use crate::perf::detect::Detection;
use crate::perf::divergence::Fall;
use crate::perf::judge::Signature;
use crate::perf::lab::seconds;
use crate::perf::multiples::{TimerPeriod, after_multiple};
use crate::perf::path::Spent;
use crate::perf::search::{Survival, Tally};
use crate::perf::story;
use crate::perf::what_if::Answer;
use crate::timed::{Recorded, Trigger};

/// A change of this number says that the shape is another.
const VERSION: u32 = 1;

#[derive(Serialize)]
pub(super) struct Data<'a> {
    version: u32,
    name: &'a str,
    seed: u64,
    executions: u64,
    events: u64,
    nodes: Vec<&'a str>,
    timers: &'a [TimerPeriod],
    distribution: &'a Detection,
    timer_multiples: Vec<f64>,
    tally: &'a [Tally],
    survival: &'a [Survival],
    correlations: &'a [Correlation],
    correlation_times: &'a [f64],
    what_if: &'a [Answer],
    mace: &'a Option<super::MaceReport>,
    findings: Vec<FindingData<'a>>,
}

#[derive(Serialize)]
struct FindingData<'a> {
    id: String,
    token: String,
    time: f64,
    signature: &'a Signature,
    because: Option<String>,
    critical_path: Vec<LegData<'a>>,
    good_curve: Vec<PointData>,
    falls: Vec<FallData>,
    causes: &'a Causes,
    slow: SpaceTime<'a>,
    nearest: Option<SpaceTime<'a>>,
}

#[derive(Serialize)]
struct LegData<'a> {
    spent: &'a Spent,
    from: f64,
    to: f64,
    event: String,
}

#[derive(Serialize)]
struct PointData {
    after: usize,
    at: f64,
    good: f64,
    low: f64,
    high: f64,
    walks: u32,
}

#[derive(Serialize)]
struct FallData {
    event: usize,
    at: f64,
    what: String,
    before: f64,
    after: f64,
}

/// Part of an execution, with times relative to the moment at which the two part.
#[derive(Serialize)]
struct SpaceTime<'a> {
    token: String,
    aligned_at: f64,
    first_event: usize,
    events: Vec<EventData<'a>>,
    messages: Vec<MessageData<'a>>,
}

#[derive(Serialize)]
struct EventData<'a> {
    node: u32,
    kind: &'a str,
    start: f64,
    end: f64,
}

#[derive(Serialize)]
struct MessageData<'a> {
    from: u32,
    to: u32,
    kind: &'a str,
    sent: f64,
    arrives: f64,
}

/// Events shown on each side of the moment at which the two executions part.
const AROUND: usize = 150;

impl<'a> Data<'a> {
    pub(super) fn new(report: &'a PerfReport) -> Data<'a> {
        Data {
            version: VERSION,
            name: report.name(),
            seed: report.seed,
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
            findings: report.findings.iter().map(finding).collect(),
        }
    }
}

/// The multiples of the named timer that fall within the times.
fn timer_multiples(detection: &Detection) -> Vec<f64> {
    let Some(fit) = &detection.multiples else { return Vec::new() };
    let last = detection.times.quantile(1.0);
    let rounds =
        after_multiple(last, fit.timer.period).map_or((last / fit.timer.period) as u32, |k| k);
    (1..=rounds).map(|k| f64::from(k) * fit.timer.period).collect()
}

fn finding(finding: &Finding) -> FindingData<'_> {
    let slow = &finding.slow;
    let at = |event: usize| slow.events.get(event).map_or(finding.time, |e| seconds(e.start.0));
    let points = finding.curve.points.iter().map(|point| {
        let (low, high) = point.good.band();
        let (after, good, walks) = (point.after, point.good.rate(), point.good.tries);
        PointData { after, at: at(after), good, low, high, walks }
    });
    let fall = |fall: &Fall| FallData {
        event: fall.event,
        at: at(fall.event),
        what: story::event(slow, fall.event as u32),
        before: fall.before.rate(),
        after: fall.after.rate(),
    };
    let parted = finding.curve.decisive().map_or(0, |fall| fall.event);
    FindingData {
        id: finding.id(),
        token: finding.token(),
        time: finding.time,
        signature: &finding.signature,
        because: finding.because(),
        critical_path: finding
            .path
            .legs
            .iter()
            .map(|leg| LegData {
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

fn space_time(recorded: &Recorded, parted: usize) -> SpaceTime<'_> {
    let first = parted.saturating_sub(AROUND).min(recorded.events.len());
    let last = (parted + AROUND).min(recorded.events.len());
    let zero = recorded.events.get(parted).map_or(0.0, |event| seconds(event.start.0));
    let shown = &recorded.events[first..last];
    let at = |time: everhold_node::Time| seconds(time.0) - zero;
    let events = shown.iter().map(|event| EventData {
        node: event.node.0,
        kind: recorded.kind(event.kind),
        start: at(event.start),
        end: at(event.end),
    });
    let messages = shown.iter().filter_map(|event| match event.trigger {
        Trigger::Message(message) => {
            let sent = recorded.messages.get(message as usize)?;
            let (from, to, kind) = (sent.link.from.0, sent.link.to.0, recorded.kind(sent.kind));
            Some(MessageData { from, to, kind, sent: at(sent.sent), arrives: at(event.ready) })
        }
        _ => None,
    });
    SpaceTime {
        token: recorded.draws.token(),
        aligned_at: zero,
        first_event: first,
        events: events.collect(),
        messages: messages.collect(),
    }
}
