//! Reports as pages.

use everhold_report::{Kind, Page, PropertyView, Row, Table, Window, pairs};
use everhold_trace::text::thousands;

use crate::fault::FaultKind;
use crate::report::text::{count, origin, replay_line, sizes, summary};
use crate::report::{Finding, Report, Saved};

/// The largest number of events on a page; longer executions keep the part around the violation.
const EVENTS_MAX: usize = 20_000;

/// The page of a finding.
pub(crate) fn finding(report: &Report, finding: &Finding) -> Page {
    let mut page = Page::new(Kind::Violation, &finding.failure.cause.to_string(), report.name());
    if !finding.failure.message.is_empty() {
        page.message(&finding.failure.message);
    }
    let declared = report.expected.declared.get(finding.failure.cause.name());
    if let Some(declared) = declared {
        page.fact("declared at", &declared.place);
    }
    page.fact("found in", origin(report, finding));
    page.fact("size", sizes(finding));
    page.fact("search", summary(report));
    for (name, state) in &finding.recording.monitors {
        page.fact(&format!("monitor {name}"), state);
    }
    if let Some((from, to)) = finding.recording.lasso {
        page.note(&format!("The steps {from} to {to} would repeat for ever."));
    }
    page.command("replay", &replay_line(report, finding, &Saved::default()));
    let trace = finding.trace();
    if let Some(declared) = declared.filter(|declared| !declared.text.is_empty()) {
        page.property(violated(finding, &declared.text, trace.events().len()));
    }
    let window = Window {
        violating: trace.events().len().checked_sub(1),
        events_max: EVENTS_MAX,
        steps: true,
        ..Window::default()
    };
    page.execution("the smallest execution that was found", &trace, &window);
    page
}

/// The violated property with its text, and with the values that the failure names.
fn violated(finding: &Finding, text: &str, events: usize) -> PropertyView {
    let last = events.saturating_sub(1);
    // Of progress nothing is known until the execution is judged as a whole.
    let before = if finding.failure.cause.is_progress() { "unknown" } else { "holds" };
    PropertyView {
        name: finding.failure.cause.name().to_owned(),
        text: text.to_owned(),
        verdict: "violated".to_owned(),
        changes: vec![(0, before.to_owned()), (last, "violated".to_owned())],
        witness: pairs(&finding.failure.message),
        ..PropertyView::default()
    }
}

/// The page of a run without findings.
pub(crate) fn clean(report: &Report) -> Page {
    let mut page = Page::new(Kind::Clean, "no violation", report.name());
    page.note(&summary(report));
    for problem in &report.problems {
        page.note(problem);
    }
    for goal in report.missed_goals() {
        page.note(&format!("The goal \"{}\" was never reached.", goal.name));
    }
    facts(&mut page, report);
    page.table(coverage(report));
    page
}

fn facts(page: &mut Page, report: &Report) {
    let orders = &report.coverage.orders;
    page.fact("seed", format!("{:#x}", report.seed));
    page.fact("orders", format!("{} distinct", thousands(orders.distinct())));
    page.fact("next execution is new", format!("{:.0} %", orders.unseen() * 100.0));
    page.fact("states", format!("{} distinct", thousands(report.coverage.states.distinct())));
    page.fact("run twice", format!("{}, identical", count(report.rechecked, "execution")));
    for (kind, injected) in FaultKind::ALL.into_iter().zip(report.coverage.faults) {
        if injected > 0 {
            page.fact(kind.name(), thousands(injected));
        }
    }
    for goal in report.goals.iter().filter(|goal| goal.reached > 0) {
        page.fact(&format!("goal \"{}\"", goal.name), count(goal.reached, "execution"));
    }
}

/// The table of the messages that arrived in each phase of nodes, and of those that never did.
fn coverage(report: &Report) -> Table {
    let row = |(kind, phase, message): &(String, String, String), seen: String| Row {
        cells: vec![kind.clone(), phase.clone(), message.clone(), seen],
        link: None,
    };
    let unseen = report.coverage.unseen_pairs();
    let unseen = unseen.iter().map(|pair| row(pair, "never".to_owned()));
    let seen = report.coverage.pairs.iter().map(|(pair, times)| row(pair, thousands(*times)));
    Table {
        title: "Phases and messages".to_owned(),
        text: Some(format!(
            "in {} that were examined closely",
            count(report.coverage.sampled, "execution")
        )),
        columns: ["kind", "phase", "message", "seen"].map(str::to_owned).to_vec(),
        rows: unseen.chain(seen).collect(),
    }
}
