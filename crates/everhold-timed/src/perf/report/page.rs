//! The report as a page: the slow execution beside the nearest fast one, and the plots.

mod charts;
mod tables;

use everhold_report::{Kind, Page, Window};
use everhold_trace::Execution;

use super::{PerfReport, SlowFinding, text};
use crate::Recorded;
use crate::perf::story;
use crate::perf::verdict::PerfVerdict;

/// Of longer executions, only this many events are kept, around the moment at which the two
/// executions diverge.
const EVENTS_MAX: usize = 3_000;

/// The page of one slow execution.
pub(super) fn finding(report: &PerfReport, finding: &SlowFinding) -> Page {
    let mut page = Page::new(Kind::Slow, &text::headline(report, finding), report.name());
    if let Some(because) = finding.because() {
        page.message(&because);
    }
    page.fact("found by", found_by(report, finding));
    if let Some(fall) = finding.curve.decisive() {
        page.fact("lost at", lost_at(finding, fall.event));
    } else if finding.curve.lost_from_the_start() {
        page.fact("lost at", "the start: no event is decisive, the common path is slow");
    }
    if let Some(growth) = &finding.growth {
        page.fact("grows", format!("with the nodes, by a power of {:.1}", growth.power));
    }
    page.fact("time spent on", text::spent(&finding.path));
    whole(&mut page, report);
    page.command("replay", &text::replay(report, &finding.token()));
    if let Some(nearest) = &finding.nearest {
        page.command("nearest fast", &text::replay(report, &nearest.token));
    }
    executions(&mut page, finding);
    page.chart(charts::chance(finding));
    common(&mut page, report);
    page.table(tables::path(finding));
    page.table(tables::causes(report, finding));
    page
}

/// The page of an analysis without findings.
pub(super) fn clean(report: &PerfReport) -> Page {
    let headline = match report.verdict() {
        PerfVerdict::NoneSlow => "no slow execution found",
        PerfVerdict::Slow => "an anomalous execution",
        PerfVerdict::Unknown => "no slow execution found, but the sample allows no conclusion",
    };
    let mut page = Page::new(Kind::Clean, headline, report.name());
    if let Some(never) = &report.never {
        page.note(&format!("No execution reached the stopping condition: {never}"));
    }
    whole(&mut page, report);
    if report.verdict() == PerfVerdict::NoneSlow {
        page.fact("how sure", text::sure(report));
    }
    common(&mut page, report);
    page
}

/// Adds the facts about the analysis as a whole.
fn whole(page: &mut Page, report: &PerfReport) {
    page.fact("slow", text::slow_share(&report.detection));
    page.fact("search", text::summary(report));
    for problem in &report.problems {
        page.note(problem);
    }
}

/// Adds the parts that do not depend on the execution.
fn common(page: &mut Page, report: &PerfReport) {
    if !report.detection.times.is_empty() {
        page.chart(charts::times(report));
    }
    for correlation in report.correlations.iter().take(charts::SCATTERS) {
        page.chart(charts::scatter(report, correlation));
    }
    if !report.what_if.is_empty() {
        page.table(tables::what_if(report));
    }
}

fn found_by(report: &PerfReport, finding: &SlowFinding) -> String {
    let how = finding.how.word();
    format!("{how}, seed {:#x}; seen in {} of the drawn executions", report.seed, finding.seen)
}

fn lost_at(finding: &SlowFinding, event: usize) -> String {
    let of = finding.slow.events.len();
    format!("event {event} of {of}: {}", story::event(&finding.slow, event as u32))
}

/// Adds the two diagrams; both mark the moment of divergence, so that the page can align them.
fn executions(page: &mut Page, finding: &SlowFinding) {
    let fall = finding.curve.decisive();
    let parted = fall.map(|fall| fall.event);
    let words = fall.map(|fall| {
        let (before, after) = (fall.before.rate(), fall.after.rate());
        format!("P(good) {before:.2} → {after:.2}")
    });
    let path: Vec<usize> = finding.path.legs.iter().map(|leg| leg.event as usize).collect();
    let slow = finding.trace.clone().unwrap_or_else(|| trace(&finding.slow));
    let title = format!("slow: {}", text::span(finding.time));
    page.execution(&title, &slow, &window(parted.zip(words), path));
    if let Some(nearest) = &finding.nearest {
        let time = text::span(nearest.recorded.run.time.as_secs_f64());
        let words = parted.map(|at| (at, "the slow execution diverges here".to_owned()));
        let title = format!("nearest fast: {time}");
        page.execution(&title, &trace(&nearest.recorded), &window(words, Vec::new()));
    }
}

fn trace(recorded: &Recorded) -> Execution {
    crate::to_trace::execution(recorded)
}

fn window(turning: Option<(usize, String)>, path: Vec<usize>) -> Window {
    Window { turning, path, events_max: EVENTS_MAX, simulated: true, ..Window::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::analysis::Options;
    use crate::perf::story::toy;
    use everhold_sim::engine::TestId;

    #[test]
    fn a_clean_analysis_has_a_page() {
        let here = std::panic::Location::caller();
        let report = PerfReport::new(TestId::new(here, None), &Options::default());
        let html = clean(&report).html();
        assert!(html.contains("no slow execution"), "{}", &html[..200]);
    }

    #[test]
    fn a_recording_without_states_can_be_drawn() {
        let execution = trace(&toy::waits_for_a_timer());
        assert_eq!(execution.events().len(), 3);
    }
}
