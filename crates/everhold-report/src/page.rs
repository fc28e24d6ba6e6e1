//! The data of a page.

use everhold_trace::Execution;
use serde::Serialize;

use crate::execution::{ExecutionData, Window};

/// The version of the data format; the page's script refuses any other.
pub(crate) const VERSION: u32 = 1;

/// The kind of finding that a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A property is violated.
    Violation,
    /// Nothing was found.
    Clean,
    /// An execution that takes far longer than others.
    Slow,
    /// Properties that hold in all but a few cases.
    Almost,
    /// A recording, not judged.
    Trace,
}

/// A page, as data. The order in which parts are added is the order in which they are shown.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    version: u32,
    kind: Kind,
    headline: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    facts: Vec<(String, String)>,
    commands: Vec<(String, String)>,
    notes: Vec<String>,
    properties: Vec<PropertyView>,
    executions: Vec<ExecutionData>,
    charts: Vec<Chart>,
    tables: Vec<Table>,
    program: String,
}

impl Page {
    /// A page with a headline; `title` names its origin, such as a test.
    #[must_use]
    pub fn new(kind: Kind, headline: &str, title: &str) -> Page {
        Page {
            version: VERSION,
            kind,
            headline: headline.to_owned(),
            title: title.to_owned(),
            message: None,
            facts: Vec::new(),
            commands: Vec::new(),
            notes: Vec::new(),
            properties: Vec::new(),
            executions: Vec::new(),
            charts: Vec::new(),
            tables: Vec::new(),
            program: concat!("Everhold ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// The lines below the headline, such as the values that falsify the property.
    pub fn message(&mut self, text: &str) {
        self.message = Some(text.to_owned());
    }

    /// A named fact.
    pub fn fact(&mut self, name: &str, value: impl ToString) {
        self.facts.push((name.to_owned(), value.to_string()));
    }

    /// A command to copy. The first command should reproduce the finding.
    pub fn command(&mut self, name: &str, command: &str) {
        self.commands.push((name.to_owned(), command.to_owned()));
    }

    /// A warning that the reader must see first, such as a missing part or a claim without proof.
    pub fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// A property with its verdict; see [`judged`](crate::judged).
    pub fn property(&mut self, property: PropertyView) {
        self.properties.push(property);
    }

    /// An execution as a space-time diagram. Two of them on a [slow](Kind::Slow) page are shown
    /// side by side, aligned at the events where they turn.
    pub fn execution(&mut self, title: &str, execution: &Execution, window: &Window) {
        self.executions.push(ExecutionData::new(title, execution, window));
    }

    /// A chart.
    pub fn chart(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    /// A table.
    pub fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// The whole page, in one text.
    #[must_use]
    pub fn html(&self) -> String {
        crate::html::page(self)
    }
}

/// A property and its verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PropertyView {
    /// Its name.
    pub name: String,
    /// Its text in the language; empty if it is code.
    pub text: String,
    /// `holds`, `almost`, `violated` or `unknown`.
    pub verdict: String,
    /// The verdict from each event on at which it changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<(usize, String)>,
    /// Parts of the property's text, with their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witness: Vec<(String, String)>,
    /// A further explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Exceptions and violations to open, each with a few words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(String, Link)>,
}

/// Opens an event of one of the page's executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The number of the execution, in the order in which they were added.
    pub execution: usize,
    /// The event's place in it.
    pub event: usize,
}

/// The unit of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Plain numbers.
    #[default]
    Number,
    /// Nanoseconds.
    Ns,
    /// Shares from 0 to 1, shown in per cent.
    Share,
}

/// One axis of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// Its title.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Whether it is logarithmic.
    pub log: bool,
    /// The names of the positions 0, 1 and so on, if the axis is not numeric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn new(name: &str, unit: Unit) -> Axis {
        Axis { name: name.to_owned(), unit, log: false, names: Vec::new() }
    }

    /// An axis with named positions, the first at 0.
    #[must_use]
    pub fn named(name: &str, names: Vec<String>) -> Axis {
        Axis { names, ..Axis::new(name, Unit::Number) }
    }

    /// The same axis, logarithmic.
    #[must_use]
    pub fn log(self) -> Axis {
        Axis { log: true, ..self }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Joined points.
    Line,
    /// A stair, as of a cumulative distribution.
    Steps,
    /// Points alone.
    Points,
    /// Bars.
    Bars,
}

/// A named sequence of points in a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// How it is drawn.
    pub form: Form,
    /// The points, as (x, y).
    pub points: Vec<(f64, f64)>,
    /// The lower and upper end at each point, such as a confidence band.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub band: Vec<(f64, f64)>,
    /// The event that a click on each point opens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Option<Link>>,
}

impl Series {
    /// A series without band and links.
    #[must_use]
    pub fn new(name: &str, form: Form, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.to_owned(), form, points, band: Vec::new(), links: Vec::new() }
    }
}

/// A vertical line with a label, such as a multiple of a timer's period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its place on the x axis.
    pub at: f64,
    /// Its label.
    pub label: String,
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// A line below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
    /// Vertical lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its cells.
    pub cells: Vec<String>,
    /// The event that a click on the row opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// A line below the title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}
