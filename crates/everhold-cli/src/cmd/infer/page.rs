//! Almost-invariants as a page: each with its exceptions, each exception with its cut.

use std::collections::BTreeMap;

use everhold_infer::{AlmostInvariant, AlmostReport, Episode, Explanation};
use everhold_property::{Library, print};
use everhold_report::{
    Axis, Chart, Form, Kind, Link, Page, PropertyView, Row, Series, Table, Unit, Window,
};
use everhold_trace::Execution;

use crate::words::{counted, number};

/// The largest number of runs that are drawn: those with the most exceptions.
const RUNS_MAX: usize = 8;
/// The largest number of events of a run; of longer runs the part around the first exception is
/// kept.
const EVENTS_MAX: usize = 3_000;
/// The largest number of exceptions that are listed with an almost-invariant.
const LINKS_MAX: usize = 12;
/// The largest number of almost-invariants that have a colour of their own.
const SERIES_MAX: usize = 6;

/// The page of a report on these runs.
pub(super) fn page(report: &AlmostReport, executions: &[&Execution]) -> Page {
    let headline = match report.found.len() {
        0 => "nothing held in all but a few cases".to_owned(),
        1 => "one property held in all but a few cases".to_owned(),
        count => format!("{} properties held in all but a few cases", number(count)),
    };
    let runs = counted(report.runs.0, "run");
    let mut page = Page::new(Kind::Almost, &headline, &runs);
    page.fact("judged", format!("{} properties", number(report.properties)));
    page.fact("in", format!("{} snapshots", number(report.snapshots)));
    page.fact("always held", number(report.held));
    report.left_out.iter().for_each(|note| page.note(&format!("Left out: {note}.")));
    let shown = Shown::new(report, executions);
    for (place, found) in report.found.iter().enumerate() {
        page.property(shown.view(place, found));
    }
    for (execution, first) in &shown.runs {
        let window = Window {
            violating: Some(first.from.index()),
            events_max: EVENTS_MAX,
            ..Window::default()
        };
        page.execution(&shown.name(*execution), executions[*execution], &window);
    }
    if !report.found.is_empty() {
        page.chart(shown.over_time(report));
        page.chart(shown.by_node(report));
        page.table(shown.measured(report));
    }
    page
}

/// The runs that the page draws.
struct Shown<'a> {
    executions: &'a [&'a Execution],
    /// Their indices in the input, and the first exception of each.
    runs: Vec<(usize, Episode)>,
}

impl<'a> Shown<'a> {
    fn new(report: &AlmostReport, executions: &'a [&'a Execution]) -> Shown<'a> {
        let mut runs: BTreeMap<usize, (usize, Episode)> = BTreeMap::new();
        for episode in report.found.iter().flat_map(|found| &found.episodes) {
            let (count, first) = runs.entry(episode.run).or_insert((0, *episode));
            *count += 1;
            *first = (*first).min(*episode);
        }
        let mut runs: Vec<(usize, Episode)> = {
            let mut most: Vec<_> = runs.into_iter().collect();
            most.sort_by_key(|(run, (count, _))| (std::cmp::Reverse(*count), *run));
            most.into_iter().take(RUNS_MAX).map(|(run, (_, first))| (run, first)).collect()
        };
        runs.sort_by_key(|(run, _)| *run);
        Shown { executions, runs }
    }

    fn name(&self, run: usize) -> String {
        match self.executions[run].name() {
            "" => format!("run {}", run + 1),
            name => format!("run {} · {name}", run + 1),
        }
    }

    fn link(&self, episode: &Episode) -> Option<Link> {
        let execution = self.runs.iter().position(|(run, _)| *run == episode.run)?;
        Some(Link { execution, event: episode.from.index() })
    }

    /// One almost-invariant, with its first exceptions to open.
    fn view(&self, place: usize, found: &AlmostInvariant) -> PropertyView {
        let explained = Explanation::of(found, self.executions, &Library::new());
        let shared = explained.shared.iter().take(3);
        let shared: Vec<String> =
            shared.map(|one| format!("{} ({} of {})", one.what, one.of.0, one.of.1)).collect();
        let common = match shared.is_empty() {
            true => String::new(),
            false => format!(" · exceptions share: {}", shared.join(", ")),
        };
        let opened = found.episodes.iter().filter_map(|episode| {
            let words = format!("run {} after {}", episode.run + 1, episode.from);
            Some((words, self.link(episode)?))
        });
        PropertyView {
            name: format!("{}. {}", place + 1, found.property.name),
            text: print(&found.property).trim_end().to_owned(),
            verdict: "almost".to_owned(),
            message: Some(format!("{}{common}", found.measured())),
            links: opened.take(LINKS_MAX).collect(),
            ..PropertyView::default()
        }
    }

    /// A chart of the exceptions over time, with one row for each run.
    fn over_time(&self, report: &AlmostReport) -> Chart {
        let series = report.found.iter().take(SERIES_MAX).zip(1..).map(|(found, number)| {
            let here = found.episodes.iter().filter_map(|one| Some((one, self.link(one)?)));
            let here: Vec<(&Episode, Link)> = here.collect();
            let at = |(episode, link): &(&Episode, Link)| {
                // Exceptions of several properties at one event are drawn beside each other, so
                // that all are visible.
                let aside = f64::from(number - 1) * 0.09 - 0.22;
                (episode.from.index() as f64, link.execution as f64 + aside)
            };
            let points = here.iter().map(at).collect();
            let name = format!("{number}. {}", found.property.name);
            let mut series = Series::new(&name, Form::Points, points);
            series.links = here.iter().map(|(_, link)| Some(*link)).collect();
            series
        });
        let names = self.runs.iter().map(|(run, _)| format!("run {}", run + 1)).collect();
        Chart {
            title: "Exceptions over time".to_owned(),
            text: Some("each opens the cut right after its event".to_owned()),
            x: Axis::new("event", Unit::Number),
            y: Axis::named("run", names),
            series: series.collect(),
            lines: Vec::new(),
        }
    }

    /// A chart of the exceptions by the node that they concern.
    fn by_node(&self, report: &AlmostReport) -> Chart {
        let mut names: Vec<String> = report
            .found
            .iter()
            .flat_map(|found| &found.nodes)
            .map(|(name, _)| name.clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        let series = report.found.iter().take(SERIES_MAX).zip(1..).map(|(found, number)| {
            let at = |(name, count): &(String, u64)| {
                let place = names.binary_search(name).unwrap_or_default();
                (place as f64, *count as f64)
            };
            let points = found.nodes.iter().map(at).collect();
            Series::new(&format!("{number}. {}", found.property.name), Form::Points, points)
        });
        let series = series.collect();
        Chart {
            title: "Exceptions by node".to_owned(),
            text: Some("judged again in every snapshot while they last".to_owned()),
            x: Axis::named("node", names),
            y: Axis::new("exceptions", Unit::Number).log(),
            series,
            lines: Vec::new(),
        }
    }

    fn measured(&self, report: &AlmostReport) -> Table {
        let percent = |rate: f64| format!("{:.3} %", (rate * 100_000.0).floor() / 1000.0);
        let rows = report.found.iter().zip(1..).map(|(found, number)| Row {
            cells: vec![
                format!("{number}"),
                found.property.name.clone(),
                percent(found.rate),
                format!("{} to {}", percent(found.interval.0), percent(found.interval.1)),
                found.evaluations.to_string(),
                found.exceptions.to_string(),
                found.episodes.len().to_string(),
                format!("{:.1}", found.score.total()),
            ],
            link: found.episodes.iter().find_map(|episode| self.link(episode)),
        });
        let columns = [
            "",
            "property",
            "held in",
            "95 % interval",
            "judged",
            "exceptions",
            "episodes",
            "rank",
            "",
        ];
        Table {
            title: "Measured".to_owned(),
            text: Some("the interval counts distinct bindings, without repeats".to_owned()),
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }
    }
}
