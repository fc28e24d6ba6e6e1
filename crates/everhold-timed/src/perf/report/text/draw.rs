//! Formatting of numbers, and small charts made of characters.

use std::fmt::Write;

use super::super::MaceReport;
use crate::Recorded;
use crate::perf::detect::Detection;
use crate::perf::divergence::Curve;
use crate::perf::lab::seconds;
use crate::perf::modes::Mode;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The number of columns of the longest bar.
const BAR: usize = 40;
/// The number of modes that are shown individually.
const MODES_MAX: usize = 12;

/// Formats a time with three digits and a unit.
pub(in super::super) fn span(seconds: f64) -> String {
    let (scaled, unit) = match seconds.abs() {
        s if s >= 1.0 || s == 0.0 => (seconds, "s"),
        s if s >= 1e-3 => (seconds * 1e3, "ms"),
        s if s >= 1e-6 => (seconds * 1e6, "µs"),
        _ => (seconds * 1e9, "ns"),
    };
    let digits = match scaled.abs() {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$} {unit}")
}

/// Formats a share as a percentage.
pub(in super::super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Draws a histogram with one line per mode.
pub(super) fn histogram(found: &Detection) -> String {
    let most = found.modes.iter().map(|mode| mode.count).max().unwrap_or(1);
    let mut out = String::new();
    for mode in found.modes.iter().take(MODES_MAX) {
        let bar = "█".repeat((mode.count * BAR).div_ceil(most.max(1)));
        let normal =
            if found.normal.is_some_and(|normal| normal.low == mode.low) { " normal" } else { "" };
        let timer = found.multiples.as_ref().zip(mode.multiple);
        let timer = timer.map_or_else(String::new, |(fit, k)| format!(" {k} × {}", fit.timer.name));
        let _ = writeln!(out, "    {:>12} {:>5} {bar}{normal}{timer}", range(mode), mode.count);
    }
    if found.modes.len() > MODES_MAX {
        let _ = writeln!(out, "    {:>12} {} more modes", "", found.modes.len() - MODES_MAX);
    }
    out
}

fn range(mode: &Mode) -> String {
    let (low, high) = (span(mode.low), span(mode.high));
    if low == high { low } else { format!("{}–{high}", span(mode.low)) }
}

/// Draws the curve of P(good) as one line of block characters, evenly spaced over the estimated
/// points.
pub(super) fn strip(curve: &Curve, slow: &Recorded) -> String {
    let block = |rate: f64| BLOCKS[((rate * 7.0).round() as usize).min(7)];
    let last = curve.points.last().map_or(0, |point| point.after);
    let columns = BAR.min(last + 1);
    let at = |column: usize| {
        let event = last * column / (columns - 1).max(1);
        let near = curve.points.iter().min_by_key(|point| point.after.abs_diff(event));
        near.map_or(' ', |point| block(point.good.rate()))
    };
    let blocks: String = (0..columns).map(at).collect();
    let first = curve.points.first().map_or(0.0, |point| point.good.rate());
    let end = slow.events.get(last.saturating_sub(1)).map_or(0.0, |event| seconds(event.end.0));
    format!("{first:.2} {blocks} over {last} events, {}; {} walks", span(end), curve.walks)
}

/// Writes the results of MacePC's phases.
pub(super) fn mace(out: &mut String, mace: &MaceReport, replay: &dyn Fn(&str) -> String) {
    let t = &mace.training;
    let _ = writeln!(
        out,
        "MacePC      trained on {} executions: Q1 {}, Q3 {}, anomalous beyond {}",
        t.executions,
        span(t.q1),
        span(t.q3),
        span(t.bound)
    );
    match (&mace.anomaly, &mace.token) {
        (Some(time), Some(token)) => {
            let _ = writeln!(
                out,
                "            {} after {} executions: {}",
                span(*time),
                mace.searched,
                replay(token)
            );
        }
        _ => {
            let _ = writeln!(out, "            no anomaly in {} executions", mace.searched);
        }
    }
    if let Some(d) = &mace.divergence {
        let at = mace.at.as_deref().unwrap_or("?");
        let _ = writeln!(
            out,
            "            diverges at event {} of {} ({at}); {} walks",
            d.last_good, mace.events, d.walks
        );
    }
    if let Some(nearest) = &mace.nearest {
        let _ = writeln!(out, "            nearest good execution: {}", replay(nearest));
    }
    let shown: Vec<String> =
        mace.frequencies.iter().take(5).map(|f| format!("{} ({:+.2})", f.kind, f.r)).collect();
    if !shown.is_empty() {
        let _ = writeln!(out, "            correlated with the time: {}", shown.join(", "));
    }
    let _ = writeln!(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_three_digits() {
        for (seconds, text) in [
            (0.0, "0.00 s"),
            (10.004, "10.0 s"),
            (0.006, "6.00 ms"),
            (0.0123, "12.3 ms"),
            (123.4, "123 s"),
            (0.000_002, "2.00 µs"),
        ] {
            assert_eq!(span(seconds), text);
        }
        assert_eq!(percent(0.015), "1.5 %");
        assert_eq!(percent(0.5), "50 %");
    }
}
