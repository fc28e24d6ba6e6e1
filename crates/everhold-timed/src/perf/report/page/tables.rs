//! The tables of the page: critical path, causes, effects of changes.

use everhold_report::{Link, Row, Table};

use super::super::{PerfReport, SlowFinding, text};
use crate::perf::cause::Shift;
use crate::perf::lab::seconds;
use crate::perf::path::Leg;
use crate::perf::story;

/// The number of segments of the critical path that are listed, the longest ones.
const LEGS_MAX: usize = 30;

fn columns<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// The critical path in order of time, without short segments if there are many.
pub(super) fn path(finding: &SlowFinding) -> Table {
    let mut legs: Vec<&Leg> = finding.path.legs.iter().collect();
    legs.sort_by_key(|leg| (std::cmp::Reverse(leg.to - leg.from), leg.from));
    legs.truncate(LEGS_MAX);
    legs.sort_by_key(|leg| (leg.from, leg.to));
    let left = finding.path.legs.len() - legs.len();
    let all: u64 = finding.path.legs.iter().map(|leg| leg.to - leg.from).sum();
    let row = |leg: &&Leg| {
        let took = leg.to - leg.from;
        let share = took as f64 / all.max(1) as f64;
        Row {
            cells: vec![
                text::span(seconds(leg.from)),
                text::span(seconds(took)),
                text::percent(share),
                leg.spent.to_string(),
                story::event(&finding.slow, leg.event),
            ],
            link: Some(Link { execution: 0, event: leg.event as usize }),
        }
    };
    let rest = if left > 0 { format!("; {left} shorter ones are left out") } else { String::new() };
    Table {
        title: "Critical path".to_owned(),
        text: Some(format!("what its end waited for, from start to end{rest}")),
        columns: columns(["from", "took", "share", "spent on", "leads to", ""]),
        rows: legs.iter().map(row).collect(),
    }
}

/// The messages whose delay decides.
pub(super) fn causes(report: &PerfReport, finding: &SlowFinding) -> Table {
    let causes = &finding.causes;
    let rows = causes.rescues.iter().map(|rescue| {
        let way = match rescue.shift {
            Shift::Later => "later",
            Shift::Earlier => "earlier",
        };
        let swapped = rescue.swapped.as_ref();
        Row {
            cells: vec![
                rescue.message.clone(),
                format!("{} {way}", text::span(rescue.by)),
                text::span(rescue.time),
                format!("{} of {}", rescue.robust.hits, rescue.robust.tries),
                swapped
                    .map(|(first, second)| format!("{first} before {second}"))
                    .unwrap_or_default(),
                text::replay(report, &rescue.token),
            ],
            link: finding
                .slow
                .messages
                .get(rescue.number)
                .map(|sent| Link { execution: 0, event: sent.by as usize }),
        }
    });
    Table {
        title: "Messages that decide".to_owned(),
        text: Some(format!(
            "{} of {} messages, each changed alone, bring it below {}",
            causes.rescuing,
            causes.tried,
            text::span(causes.limit)
        )),
        columns: columns([
            "message",
            "if it came",
            "it takes",
            "also with other draws",
            "in the slow execution",
            "replay",
            "",
        ]),
        rows: rows.collect(),
    }
}

/// The effects of changes.
pub(super) fn what_if(report: &PerfReport) -> Table {
    let rows = report.what_if.iter().map(|answer| {
        let compared = &answer.comparison;
        Row {
            cells: vec![
                answer.change.to_string(),
                text::span(answer.before),
                text::span(answer.after),
                format!("{} of {}", compared.slower, compared.pairs),
                format!("{} of {}", compared.faster, compared.pairs),
                format!("{:.3}", compared.p_value),
            ],
            link: None,
        }
    });
    Table {
        title: "What if".to_owned(),
        text: Some("the same draws, with and without the change".to_owned()),
        columns: columns(["change", "median", "then", "slower", "faster", "p"]),
        rows: rows.collect(),
    }
}
