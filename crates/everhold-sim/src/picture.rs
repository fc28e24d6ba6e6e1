//! The space-time picture of an execution, for a terminal.
//!
//! - `scene`: the contents of a picture: events, arrows and changes of state, in words.
//! - `words`: values, messages and changes as short text.
//! - `lanes`: a lane for each node; `list`: one line per step, where lanes do not fit.
//! - `select`: the steps that are shown if not all can be.
//! - `glyphs`: the characters: box drawing, or plain ASCII.

mod glyphs;
mod lanes;
mod list;
mod scene;
mod select;
mod words;

use std::collections::BTreeSet;

pub(crate) use glyphs::Charset;

use crate::failure::Cause;
use crate::record::Recording;
use glyphs::Glyphs;
use lanes::Lanes;
use list::List;
use scene::{Happening, Scene};
use words::shorten;

/// The room for a picture, and the characters that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The number of columns. Every character counts as one.
    pub(crate) width_max: usize,
    /// The number of rows, including the failure's message. Longer executions lose steps in their
    /// middle.
    pub(crate) rows_max: usize,
    /// The set of characters, for terminals and files that do not take Unicode.
    pub(crate) charset: Charset,
}

impl Default for Options {
    fn default() -> Self {
        Options { width_max: 100, rows_max: 40, charset: Charset::Unicode }
    }
}

/// Draws an execution; every line ends in a newline. Empty if nothing happened.
pub(crate) fn draw(recording: &Recording, options: &Options) -> String {
    let scene = Scene::new(recording, options.charset.glyphs());
    if scene.happenings.is_empty() {
        return String::new();
    }
    let layout = Layout::fit(&scene, options);
    Page::new(&scene, layout, options).draw()
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
    fn fit(scene: &Scene<'_>, options: &Options) -> Self {
        let width = options.width_max.saturating_sub(gutter_width(scene) + GAP.len());
        match Lanes::fit(scene, width) {
            Some(lanes) => Layout::Lanes(lanes),
            None => Layout::List(List::fit(scene, width)),
        }
    }

    fn width(&self) -> usize {
        match self {
            Layout::Lanes(lanes) => lanes.width(),
            Layout::List(list) => list.width(),
        }
    }

    /// The line above the first step, gutter included.
    fn header(&self, scene: &Scene<'_>) -> String {
        let gutter = gutter_width(scene);
        match self {
            Layout::Lanes(lanes) => format!("{}{}", " ".repeat(gutter), lanes.header()),
            Layout::List(list) => format!("{:>1$}  {2}", "step", gutter - 2, list.header()),
        }
    }

    /// The drawn part of a step. Steps must come in order, since lanes remember which nodes are
    /// down.
    fn draw(&mut self, happening: &Happening) -> String {
        match self {
            Layout::Lanes(lanes) => lanes.draw(happening),
            Layout::List(list) => list.draw(happening),
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
    fn lane(&self, happening: &Happening) -> Option<usize> {
        match self {
            Layout::Lanes(lanes) => lanes.column(happening.node),
            Layout::List(_) => None,
        }
    }
}

/// Room for the bracket, the step's number and two spaces.
fn gutter_width(scene: &Scene<'_>) -> usize {
    let last = scene.happenings.last().map_or(0, |happening| happening.step);
    last.to_string().len().max(3) + 3
}

/// Puts rows together.
struct Page<'s> {
    scene: &'s Scene<'s>,
    layout: Layout,
    glyphs: &'static Glyphs,
    gutter: usize,
    /// The number of columns for words at the right.
    room: usize,
    width_max: usize,
    rows_max: usize,
    out: String,
}

impl<'s> Page<'s> {
    fn new(scene: &'s Scene<'s>, layout: Layout, options: &Options) -> Self {
        let gutter = gutter_width(scene);
        Page {
            room: options.width_max.saturating_sub(gutter + layout.width() + GAP.len()).max(1),
            glyphs: options.charset.glyphs(),
            width_max: options.width_max,
            rows_max: options.rows_max,
            out: String::new(),
            scene,
            layout,
            gutter,
        }
    }

    fn draw(mut self) -> String {
        let failure = self.failure();
        let marks = usize::from(self.scene.tail_at.is_some()) + usize::from(self.lasso().is_some());
        let rows = self.rows_max.saturating_sub(1 + marks + failure.len());
        let (shown, step_rows) = self.select(rows);
        let header = self.layout.header(self.scene);
        self.line(&header);
        self.steps(&shown, step_rows);
        for line in failure {
            self.line(&line);
        }
        self.out
    }

    /// The steps to show, and the number of rows that each may take.
    fn select(&self, rows: usize) -> (BTreeSet<usize>, usize) {
        let all = &self.scene.happenings;
        for step_rows in (1..=STEP_ROWS_MAX).rev() {
            let wrapped = all.iter().map(|one| self.wrap(&one.words, step_rows).len().max(1));
            if wrapped.sum::<usize>() <= rows {
                return ((0..all.len()).collect(), step_rows);
            }
        }
        let faults: Vec<bool> = all.iter().map(|happening| happening.is_fault).collect();
        (select::select(&faults, rows), 1)
    }

    fn steps(&mut self, shown: &BTreeSet<usize>, step_rows: usize) {
        let scene = self.scene;
        let mut hidden = 0;
        for (at, happening) in scene.happenings.iter().enumerate() {
            if scene.tail_at == Some(happening.step) && !happening.within {
                hidden = self.leave_out(hidden, happening.step);
                self.row(happening.step, "", self.layout.between(), &self.tail_words());
            }
            let drawn = self.layout.draw(happening);
            if shown.contains(&at) {
                hidden = self.leave_out(hidden, happening.step);
                let drawn = self.mark_failure(at, drawn);
                self.step(happening, drawn, step_rows);
            } else {
                hidden += 1;
            }
            let ends = scene.happenings.get(at + 1).is_none_or(|next| !next.within);
            if ends && self.lasso().is_some_and(|(_, last)| last == happening.step) {
                hidden = self.leave_out(hidden, happening.step);
                self.lasso_end();
            }
        }
    }

    fn step(&mut self, happening: &Happening, drawn: String, step_rows: usize) {
        let words = self.wrap(&happening.words, step_rows);
        let mut words = words.iter().map(String::as_str);
        let number = if happening.within { String::new() } else { happening.step.to_string() };
        self.row(happening.step, &number, drawn, words.next().unwrap_or_default());
        for more in words {
            self.row(happening.step, "", self.layout.between(), more);
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
    fn lasso(&self) -> Option<(usize, usize)> {
        self.scene.lasso.map(|(from, to)| (from + 1, to))
    }

    fn lasso_end(&mut self) {
        let Some((first, last)) = self.lasso() else { return };
        let words = format!("{} steps {first} to {last} repeat for ever", self.glyphs.round);
        let gutter = format!("{:1$}", self.glyphs.bracket[2], self.gutter);
        self.line(&format!("{gutter}{}{GAP}{words}", self.layout.between()));
    }

    fn row(&mut self, step: usize, number: &str, drawn: String, words: &str) {
        let bracket = match self.lasso() {
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
        let Some(failure) = self.scene.failure else { return Vec::new() };
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
        let text = failure.to_string();
        let text = text.lines().next().unwrap_or_default();
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
        let (failure, last) = (self.scene.failure?, self.scene.happenings.last()?);
        let at_event =
            !(failure.cause.is_progress() || matches!(failure.cause, Cause::Deadlock(_)));
        self.layout.lane(last).filter(|_| at_event)
    }

    fn can_hang(&self, column: usize) -> bool {
        self.gutter + column + HANGING_MIN <= self.width_max
    }

    /// Marks the event that failed, where the words cannot hang under it.
    fn mark_failure(&self, at: usize, drawn: String) -> String {
        let is_last = at + 1 == self.scene.happenings.len();
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
