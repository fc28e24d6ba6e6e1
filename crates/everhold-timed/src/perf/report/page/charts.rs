//! The charts of the page.

use everhold_report::{Axis, Chart, Form, Line, Link, Series, Unit};

use super::super::{PerfReport, SlowFinding};
use crate::perf::correlate::Correlation;
use crate::perf::report::{plots, text};

/// The number of counts that are plotted against the time.
pub(super) const SCATTERS: usize = 1;
/// The number of multiples of a timer that are labelled.
const MULTIPLES_MAX: usize = 6;
/// The approximate number of steps of a plotted distribution.
const STEPS: usize = 400;

/// The index of the slow execution on the page.
const SLOW: usize = 0;

/// P(good) over the events, with its falls.
pub(super) fn chance(finding: &SlowFinding) -> Chart {
    let points = &finding.curve.points;
    let places = points.iter().map(|point| (point.after as f64, point.good.rate()));
    let mut series = Series::new("P(good)", Form::Line, places.collect());
    series.band = points.iter().map(|point| point.good.band()).collect();
    // The point lies before the event with this number, which is the one that may change P(good).
    let link = |after: usize| (after < finding.slow.events.len()).then_some(after);
    let links = points.iter().map(|point| link(point.after));
    series.links = links.map(|at| at.map(|event| Link { execution: SLOW, event })).collect();
    let falls = finding.curve.falls.iter().take(3).map(|fall| Line {
        at: fall.event as f64,
        label: format!("{:.2} → {:.2}", fall.before.rate(), fall.after.rate()),
    });
    Chart {
        title: "Probability of a normal time after each event".to_owned(),
        text: Some(format!(
            "{} walks branch off the slow execution; the band is the 95 % confidence interval",
            finding.curve.walks
        )),
        x: Axis::new("event of the slow execution", Unit::Number),
        y: Axis::new("P(good)", Unit::Share),
        series: vec![series],
        lines: falls.collect(),
    }
}

/// The cumulative distribution, with the multiples of the timer for which slow executions wait.
pub(super) fn times(report: &PerfReport) -> Chart {
    let found = &report.detection;
    let sorted = found.times.sorted();
    let share = |at: usize| (at + 1) as f64 / sorted.len() as f64;
    let every = sorted.len().div_ceil(STEPS).max(1);
    let kept = |at: &usize| at.is_multiple_of(every) || at + 1 == sorted.len();
    let steps = (0..sorted.len()).filter(kept).map(|at| (nanoseconds(sorted[at]), share(at)));
    let limit = Line { at: nanoseconds(found.slow_limit), label: "slow beyond".to_owned() };
    Chart {
        title: "Times of the drawn executions".to_owned(),
        text: Some(multiples_in_words(report)),
        x: Axis::new("time", Unit::Ns).log(),
        y: Axis::new("cumulative share", Unit::Share),
        series: vec![Series::new("executions", Form::Steps, steps.collect())],
        lines: [limit].into_iter().chain(multiples(report)).collect(),
    }
}

fn multiples(report: &PerfReport) -> impl Iterator<Item = Line> {
    let fit = report.detection.multiples.as_ref();
    let name = fit.map(|fit| fit.timer.name.clone()).unwrap_or_default();
    let all = plots::timer_multiples(&report.detection).into_iter().zip(1..);
    all.take(MULTIPLES_MAX).map(move |(time, times)| Line {
        at: nanoseconds(time),
        label: format!("{times} × {name}"),
    })
}

fn multiples_in_words(report: &PerfReport) -> String {
    let found = &report.detection;
    let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0)]
        .map(|(name, q)| format!("{name} {}", text::span(found.times.quantile(q))));
    let timer = found.multiples.as_ref().map(|fit| {
        let period = text::span(fit.timer.period);
        let name = &fit.timer.name;
        format!(
            "; {} of {} slow ones end just after a multiple of timer {name} ({period})",
            fit.hits, fit.slow
        )
    });
    format!("{}{}", quantiles.join(", "), timer.unwrap_or_default())
}

/// A count against the time, with the slow executions as a separate series.
pub(super) fn scatter(report: &PerfReport, correlation: &Correlation) -> Chart {
    let limit = report.detection.slow_limit;
    let pairs = || correlation.counts.iter().copied().zip(report.counted_times.iter().copied());
    let points = |slow: bool| {
        let of = pairs().filter(|(_, time)| (*time > limit) == slow);
        of.map(|(count, time)| (count, nanoseconds(time))).collect()
    };
    Chart {
        title: format!("{} correlates with the time", correlation.what),
        text: Some(format!(
            "Spearman's correlation {:+.2} over {} executions, p {:.1e}",
            correlation.r,
            correlation.counts.len(),
            correlation.p_value
        )),
        x: Axis::new(&correlation.what, Unit::Number),
        y: Axis::new("time", Unit::Ns).log(),
        series: vec![
            Series::new("normal", Form::Points, points(false)),
            Series::new("slow", Form::Points, points(true)),
        ],
        lines: Vec::new(),
    }
}

fn nanoseconds(seconds: f64) -> f64 {
    seconds * 1e9
}
