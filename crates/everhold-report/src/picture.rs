//! The space-time picture of an execution, for a terminal.
//!
//! A [`Picture`] is plain data: nodes, and steps that are already in words. The explorer makes one
//! of each finding; [`Picture::of`] makes one of any execution. Both are drawn here, so that they
//! look alike.
//!
//! ```
//! use everhold_report::picture::{Paper, Part, Picture};
//! use everhold_trace::{EventKind, TraceBuilder};
//!
//! let mut trace = TraceBuilder::new();
//! let (client, server) = (trace.add_node("client", ""), trace.add_node("server", ""));
//! trace.begin(client, EventKind::Timer { name: "retry".to_owned() });
//! let message = trace.send(server, "Ping", None);
//! trace.begin(server, EventKind::Deliver { message });
//! let picture = Picture::of(&trace.finish(), &Part::default(), &Paper::default());
//! let drawing = picture.draw(&Paper::default());
//! assert!(drawing.contains("─Ping─") && drawing.contains("▶●"), "{drawing}");
//! ```
//!
//! - `events`: the events and faults of an execution, as steps in words.
//! - `words`: values, messages and changes as short text.
//! - `lanes`: a lane for each node; `list`: one line per step, where lanes do not fit.
//! - `select`: the steps that are shown if not all can be.
//! - `glyphs`: the characters: box drawing, or plain ASCII; `terminal`: those that the environment
//!   asks for.

mod events;
mod glyphs;
mod lanes;
mod list;
mod select;
mod terminal;
mod words;

use std::collections::BTreeSet;

use everhold_trace::{Execution, NodeId};

pub use events::Part;
pub use glyphs::Charset;
pub use words::Words;

use glyphs::Glyphs;
use lanes::Lanes;
use list::List;
use words::shorten;

/// The room for a picture, and the characters that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// The number of columns. Every character counts as one.
    pub width_max: usize,
    /// The number of rows, including the failure's message. Longer executions lose steps in their
    /// middle.
    pub rows_max: usize,
    /// The set of characters, for terminals and files that do not take Unicode.
    pub charset: Charset,
}

impl Default for Paper {
    fn default() -> Self {
        Paper { width_max: 100, rows_max: 40, charset: Charset::Unicode }
    }
}

/// The contents of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The names of the nodes; the first is that of node 0.
    pub names: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The failure that ends the execution.
    pub failure: Option<Ending>,
    /// The number of the step at which the fair tail begins.
    pub tail_at: Option<usize>,
    /// The numbers of the first and the last step of a round that would repeat for ever.
    pub round: Option<(usize, usize)>,
}

/// The failure that ends an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The failure; only its first line is shown.
    pub text: String,
    /// Whether it happened at the last step; otherwise, the failure is that something never
    /// happens.
    pub at_last: bool,
}

/// A step, ready to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub number: usize,
    /// The node at which it happens.
    pub node: NodeId,
    /// The event, in a word or two.
    pub label: String,
    /// Its mark in the lanes.
    pub mark: Mark,
    /// The changes and the notes.
    pub words: Vec<String>,
    /// Whether it is a fault or the end of one; these are never left out.
    pub is_fault: bool,
    /// Whether it has no number of its own: it belongs to a step beside it.
    pub within: bool,
}

/// The mark of a step in the lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// At every node.
    Start,
    /// At a node that was not there before.
    Spawned,
    /// At its node.
    Event,
    /// A message on its way to the step's node.
    Arrow(Arrow),
    /// The node goes down.
    Crash,
    /// The node comes up again.
    Restart,
    /// The node goes down for good.
    Stop,
    /// These nodes are cut off from the others, in one direction or both.
    Partition(Vec<NodeId>),
    /// The partition ends.
    Heal,
    /// In no lane.
    Nowhere,
}

/// A message on its way to the step's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// The sender.
    pub from: NodeId,
    /// The message, in words.
    pub text: String,
    /// How it fares.
    pub passage: Passage,
}

/// How a message fares on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It arrives.
    Arrives,
    /// The network loses it.
    Lost,
    /// The network will deliver it twice.
    Twice,
    /// It waits until nothing else can happen.
    Delayed,
}

impl Picture {
    /// The picture of a part of an execution; it is drawn on the same paper.
    #[must_use]
    pub fn of(execution: &Execution, part: &Part, paper: &Paper) -> Picture {
        events::picture(execution, part, paper.charset)
    }

    /// Draws the picture; every line ends in a newline. Empty if nothing happened.
    #[must_use]
    pub fn draw(&self, paper: &Paper) -> String {
        if self.steps.is_empty() {
            return String::new();
        }
        Sheet::new(self, Layout::fit(self, paper), paper).draw()
    }

    /// Whether paper of this width has room for a lane for each node. Where it has not, the
    /// picture is a list.
    #[must_use]
    pub fn has_lanes(&self, paper: &Paper) -> bool {
        matches!(Layout::fit(self, paper), Layout::Lanes(_))
    }

    /// The nodes at which something happens or from which a message comes, in order.
    fn cast(&self) -> Vec<NodeId> {
        let mut cast: Vec<NodeId> = Vec::new();
        for step in &self.steps {
            match &step.mark {
                Mark::Start | Mark::Nowhere => {}
                Mark::Arrow(arrow) => cast.extend([arrow.from, step.node]),
                Mark::Spawned
                | Mark::Event
                | Mark::Crash
                | Mark::Restart
                | Mark::Stop
                | Mark::Partition(_)
                | Mark::Heal => cast.push(step.node),
            }
        }
        cast.sort_unstable();
        cast.dedup();
        if cast.is_empty() { (0..self.names.len() as u32).map(NodeId).collect() } else { cast }
    }

    /// Whether the node is added in an execution that begins without it.
    fn begins_without(&self, node: NodeId) -> bool {
        self.steps.iter().any(|step| step.node == node && step.mark == Mark::Spawned)
    }

    fn name(&self, node: NodeId) -> String {
        self.names.get(node.index()).map_or_else(|| node.to_string(), String::clone)
    }
}

/// The number of rows that the failure's message may take; reports have the rest of it elsewhere.
const FAILURE_ROWS_MAX: usize = 3;

/// The number of columns that the failure's message needs to hang under its event.
const HANGING_MIN: usize = 56;

/// The number of rows that the changes of one step may take, if there is room.
const STEP_ROWS_MAX: usize = 3;

/// The space between the drawn part of a row and its words.
const GAP: &str = "   ";

enum Layout {
    Lanes(Lanes),
    List(List),
}

impl Layout {
    fn fit(picture: &Picture, paper: &Paper) -> Self {
        let width = paper.width_max.saturating_sub(gutter_width(picture) + GAP.len());
        match Lanes::fit(picture, paper.charset.glyphs(), width) {
            Some(lanes) => Layout::Lanes(lanes),
            None => Layout::List(List::fit(picture, paper.charset.glyphs(), width)),
        }
    }

    fn width(&self) -> usize {
        match self {
            Layout::Lanes(lanes) => lanes.width(),
            Layout::List(list) => list.width(),
        }
    }

    /// The line above the first step, gutter included.
    fn header(&self, picture: &Picture) -> String {
        let gutter = gutter_width(picture);
        match self {
            Layout::Lanes(lanes) => format!("{}{}", " ".repeat(gutter), lanes.header()),
            Layout::List(list) => format!("{:>1$}  {2}", "step", gutter - 2, list.header()),
        }
    }

    /// The drawn part of a step. Steps must come in order, since lanes remember which nodes are
    /// down.
    fn draw(&mut self, step: &Step) -> String {
        match self {
            Layout::Lanes(lanes) => lanes.draw(step),
            Layout::List(list) => list.draw(step),
        }
    }

    /// The drawn part of a row in which nothing happens.
    fn between(&self) -> String {
        match self {
            Layout::Lanes(lanes) => lanes.between(),
            Layout::List(list) => " ".repeat(list.width()),
        }
    }

    /// The drawn part of a row that stands for steps that are left out.
    fn gap(&self) -> String {
        match self {
            Layout::Lanes(lanes) => lanes.gap(),
            Layout::List(list) => " ".repeat(list.width()),
        }
    }

    /// The column of the lane in which something happened.
    fn lane(&self, step: &Step) -> Option<usize> {
        match self {
            Layout::Lanes(lanes) => lanes.column(step.node),
            Layout::List(_) => None,
        }
    }
}

/// Room for the bracket, the step's number and two spaces.
fn gutter_width(picture: &Picture) -> usize {
    let last = picture.steps.last().map_or(0, |step| step.number);
    last.to_string().len().max(3) + 3
}

/// Puts rows together.
struct Sheet<'p> {
    picture: &'p Picture,
    layout: Layout,
    glyphs: &'static Glyphs,
    gutter: usize,
    /// The number of columns for words at the right.
    room: usize,
    width_max: usize,
    rows_max: usize,
    out: String,
}

impl<'p> Sheet<'p> {
    fn new(picture: &'p Picture, layout: Layout, paper: &Paper) -> Self {
        let gutter = gutter_width(picture);
        Sheet {
            room: paper.width_max.saturating_sub(gutter + layout.width() + GAP.len()).max(1),
            glyphs: paper.charset.glyphs(),
            width_max: paper.width_max,
            rows_max: paper.rows_max,
            out: String::new(),
            picture,
            layout,
            gutter,
        }
    }

    fn draw(mut self) -> String {
        let failure = self.failure();
        let marks =
            usize::from(self.picture.tail_at.is_some()) + usize::from(self.round().is_some());
        let rows = self.rows_max.saturating_sub(1 + marks + failure.len());
        let (shown, step_rows) = self.select(rows);
        let header = self.layout.header(self.picture);
        self.line(&header);
        self.steps(&shown, step_rows);
        for line in failure {
            self.line(&line);
        }
        self.out
    }

    /// The steps to show, and the number of rows that each may take.
    fn select(&self, rows: usize) -> (BTreeSet<usize>, usize) {
        let all = &self.picture.steps;
        for step_rows in (1..=STEP_ROWS_MAX).rev() {
            let wrapped = all.iter().map(|one| self.wrap(&one.words, step_rows).len().max(1));
            if wrapped.sum::<usize>() <= rows {
                return ((0..all.len()).collect(), step_rows);
            }
        }
        let faults: Vec<bool> = all.iter().map(|step| step.is_fault).collect();
        (select::select(&faults, rows), 1)
    }

    fn steps(&mut self, shown: &BTreeSet<usize>, step_rows: usize) {
        let picture = self.picture;
        let mut hidden = 0;
        for (at, step) in picture.steps.iter().enumerate() {
            if picture.tail_at == Some(step.number) && !step.within {
                hidden = self.leave_out(hidden, step.number);
                self.row(step.number, "", self.layout.between(), &self.tail_words());
            }
            let drawn = self.layout.draw(step);
            if shown.contains(&at) {
                hidden = self.leave_out(hidden, step.number);
                let drawn = self.mark_failure(at, drawn);
                self.step(step, drawn, step_rows);
            } else {
                hidden += 1;
            }
            let ends = picture.steps.get(at + 1).is_none_or(|next| !next.within);
            if ends && self.round().is_some_and(|(_, last)| last == step.number) {
                hidden = self.leave_out(hidden, step.number);
                self.round_end();
            }
        }
    }

    fn step(&mut self, step: &Step, drawn: String, step_rows: usize) {
        let words = self.wrap(&step.words, step_rows);
        let mut words = words.iter().map(String::as_str);
        let number = if step.within { String::new() } else { step.number.to_string() };
        self.row(step.number, &number, drawn, words.next().unwrap_or_default());
        for more in words {
            self.row(step.number, "", self.layout.between(), more);
        }
    }

    /// Adds a row that says how many steps are not shown; returns the new count.
    fn leave_out(&mut self, hidden: usize, step: usize) -> usize {
        if hidden > 0 {
            let words = format!("{hidden} step{} left out", if hidden == 1 { "" } else { "s" });
            self.row(step, self.glyphs.elided, self.layout.gap(), &words);
        }
        0
    }

    fn tail_words(&self) -> String {
        format!("{0}{0} fair from here on, no more faults", self.glyphs.across)
    }

    /// First and last step of the round.
    fn round(&self) -> Option<(usize, usize)> {
        self.picture.round.map(|(from, to)| (from + 1, to))
    }

    fn round_end(&mut self) {
        let Some((first, last)) = self.round() else { return };
        let words = format!("{} steps {first} to {last} repeat for ever", self.glyphs.round);
        let gutter = format!("{:1$}", self.glyphs.bracket[2], self.gutter);
        self.line(&format!("{gutter}{}{GAP}{words}", self.layout.between()));
    }

    fn row(&mut self, step: usize, number: &str, drawn: String, words: &str) {
        let bracket = match self.round() {
            Some((first, _)) if step == first && !number.is_empty() => self.glyphs.bracket[0],
            Some((first, last)) if (first..=last).contains(&step) => self.glyphs.bracket[1],
            _ => ' ',
        };
        let gutter = format!("{bracket}{number:>0$}  ", self.gutter - 3);
        self.line(&format!("{gutter}{drawn}{GAP}{words}"));
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(&shorten(text.trim_end(), self.width_max, self.glyphs));
        self.out.push('\n');
    }

    /// Fills rows with items; what does not fit into the last one is cut off.
    fn wrap(&self, items: &[String], rows_max: usize) -> Vec<String> {
        let broken = |item: &String| words::paragraph(item, self.room, rows_max, self.glyphs);
        let items: Vec<String> = match rows_max {
            1 => items.to_vec(),
            _ => items.iter().flat_map(broken).collect(),
        };
        let mut rows: Vec<String> = Vec::new();
        for item in &items {
            match rows.last_mut() {
                Some(row) if rows_max == 1 || fits(row, item, self.room, self.glyphs) => {
                    row.push_str(self.glyphs.separator);
                    row.push_str(item);
                }
                _ => rows.push(item.clone()),
            }
        }
        if rows.len() > rows_max {
            let rest = rows.split_off(rows_max - 1);
            rows.push(rest.join(self.glyphs.separator));
        }
        rows.iter().map(|row| shorten(row, self.room, self.glyphs)).collect()
    }

    /// The failure's message, hung under the event at which the execution failed if there is room.
    fn failure(&self) -> Vec<String> {
        let Some(failure) = &self.picture.failure else { return Vec::new() };
        let hook = self.hook().filter(|column| self.can_hang(*column));
        let start = match hook {
            Some(column) => {
                format!("{}{}", " ".repeat(self.gutter + column), self.glyphs.hook)
            }
            None => " ".repeat(self.gutter),
        };
        let start = format!("{start}{} ", self.glyphs.failed);
        let hanging = start.chars().count();
        let room = self.width_max.saturating_sub(hanging).max(1);
        let text = failure.text.lines().next().unwrap_or_default();
        let lines = words::paragraph(text, room, FAILURE_ROWS_MAX, self.glyphs);
        let line = |(at, line): (usize, String)| match at {
            0 => format!("{start}{line}"),
            _ => format!("{}{line}", " ".repeat(hanging)),
        };
        lines.into_iter().enumerate().map(line).collect()
    }

    /// The lane of the event at which the execution failed; none if the failure is that something
    /// never happens, such as a deadlock.
    fn hook(&self) -> Option<usize> {
        let (failure, last) = (self.picture.failure.as_ref()?, self.picture.steps.last()?);
        self.layout.lane(last).filter(|_| failure.at_last)
    }

    fn can_hang(&self, column: usize) -> bool {
        self.gutter + column + HANGING_MIN <= self.width_max
    }

    /// Marks the event that failed, where the words cannot hang under it.
    fn mark_failure(&self, at: usize, drawn: String) -> String {
        let is_last = at + 1 == self.picture.steps.len();
        match self.hook().filter(|column| is_last && !self.can_hang(*column)) {
            Some(lane) => {
                let mark =
                    |(column, glyph)| if column == lane { self.glyphs.failed } else { glyph };
                drawn.chars().enumerate().map(mark).collect()
            }
            None => drawn,
        }
    }
}

fn fits(row: &str, item: &str, room: usize, glyphs: &Glyphs) -> bool {
    let count = |text: &str| text.chars().count();
    count(row) + count(glyphs.separator) + count(item) <= room
}

#[cfg(test)]
mod tests;
