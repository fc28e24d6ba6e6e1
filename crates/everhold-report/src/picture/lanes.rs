//! A lane for each node, with arrows where messages arrive.

use std::ops::Range;

use everhold_trace::NodeId;

use super::glyphs::Glyphs;
use super::words::shorten;
use super::{Arrow, Mark, Passage, Picture, Step};

/// More lanes than this are harder to follow than a list.
const LANES_MAX: usize = 8;

/// The smallest and the largest number of columns from lane to lane: there is room for a few
/// letters on an arrow, and no more than arrows need.
const PITCH_MIN: usize = 9;
const PITCH_MAX: usize = 26;

/// Columns that must be left for the changes of state.
const WORDS_MIN: usize = 26;

/// Columns that the words for events may take.
const LABEL_MAX: usize = 16;

/// The columns that an arrow needs besides its text: its two ends, and a dash on either side.
const ARROW: usize = 4;

pub(super) struct Lanes {
    lanes: Vec<Lane>,
    glyphs: &'static Glyphs,
    label_width: usize,
    width: usize,
    /// The nodes that are cut off.
    apart: Vec<NodeId>,
}

struct Lane {
    node: NodeId,
    name: String,
    column: usize,
    status: Status,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Up,
    Down,
    Gone,
}

impl Lanes {
    /// Lanes that leave room for words in `width` columns, if that is possible.
    pub(super) fn fit(picture: &Picture, glyphs: &'static Glyphs, width: usize) -> Option<Self> {
        let cast = picture.cast();
        if cast.len() > LANES_MAX {
            return None;
        }
        let names: Vec<String> = cast.iter().map(|node| picture.name(*node)).collect();
        let count = |text: &String| text.chars().count();
        let labels = picture.steps.iter().map(|step| count(&step.label)).max().unwrap_or(0);
        let label_width = labels.min(LABEL_MAX) + 2;
        let last = names.last().map_or(0, count);
        let room = width.checked_sub(label_width + WORDS_MIN + last)?;
        let pitch = pitch(picture, &cast, &names, room)?;
        let lane = |(at, (node, name))| {
            let column = label_width + at * pitch;
            let status = if picture.begins_without(node) { Status::Gone } else { Status::Up };
            Lane { node, name, column, status }
        };
        let lanes: Vec<Lane> = cast.into_iter().zip(names).enumerate().map(lane).collect();
        let width = lanes.last().map_or(0, |lane| lane.column) + last;
        Some(Lanes { lanes, glyphs, label_width, width, apart: Vec::new() })
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn header(&self) -> String {
        let mut row = vec![' '; self.width];
        for lane in &self.lanes {
            write(&mut row, lane.column, &lane.name);
        }
        row.into_iter().collect()
    }

    pub(super) fn column(&self, node: NodeId) -> Option<usize> {
        self.lane(node).map(|lane| lane.column)
    }

    pub(super) fn between(&self) -> String {
        self.row().into_iter().collect()
    }

    pub(super) fn gap(&self) -> String {
        let glyph = |glyph| if glyph == ' ' { ' ' } else { self.glyphs.lane_elided };
        self.row().into_iter().map(glyph).collect()
    }

    pub(super) fn draw(&mut self, step: &Step) -> String {
        let before = self.row();
        self.go_on(step);
        let mut row = match step.mark {
            // A node is marked as cut off from the row of the partition to that of its end.
            Mark::Heal => before,
            _ => self.row(),
        };
        let label = shorten(&step.label, self.label_width - 2, self.glyphs);
        write(&mut row, 0, &label);
        self.mark(&mut row, step);
        row.into_iter().collect()
    }

    /// Updates the lanes after a step.
    fn go_on(&mut self, step: &Step) {
        let status = match &step.mark {
            Mark::Crash => Status::Down,
            Mark::Stop => Status::Gone,
            Mark::Restart | Mark::Spawned => Status::Up,
            Mark::Partition(cut) => return self.apart.clone_from(cut),
            Mark::Heal => return self.apart.clear(),
            Mark::Start | Mark::Event | Mark::Arrow(_) | Mark::Nowhere => return,
        };
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.node == step.node) {
            lane.status = status;
        }
    }

    fn mark(&self, row: &mut [char], step: &Step) {
        let glyphs = self.glyphs;
        let glyph = match &step.mark {
            Mark::Start => {
                return self.lanes.iter().for_each(|lane| row[lane.column] = glyphs.event);
            }
            Mark::Arrow(arrow) => return self.arrow(row, arrow, step.node),
            Mark::Partition(_) => return replace(row, glyphs.apart, glyphs.part),
            Mark::Nowhere => return,
            Mark::Heal => return replace(row, glyphs.apart, glyphs.heal),
            Mark::Event | Mark::Spawned => glyphs.event,
            Mark::Crash => glyphs.crash,
            Mark::Stop => glyphs.stop,
            Mark::Restart => glyphs.restart,
        };
        if let Some(lane) = self.lane(step.node) {
            row[lane.column] = glyph;
        }
    }

    fn arrow(&self, row: &mut [char], arrow: &Arrow, to: NodeId) {
        let (Some(from), Some(to)) = (self.lane(arrow.from), self.lane(to)) else { return };
        if arrow.passage == Passage::Arrives {
            row[to.column] = self.glyphs.event;
        }
        if from.column == to.column {
            return;
        }
        let side = usize::from(from.column > to.column);
        let (left, right) = (from.column.min(to.column), from.column.max(to.column));
        for glyph in &mut row[left + 1..right] {
            *glyph = self.on_the_way(*glyph, arrow.passage);
        }
        row[from.column] = self.glyphs.leaves[side];
        let end = self.end(arrow.passage, side);
        let end_width = end.chars().count();
        write(row, if side == 0 { right - end_width } else { left + 1 }, &end);
        // On the stretch next to the sender if it fits there, else over the lanes between.
        let near = free(from.column, self.beside(from.column, side), to.column, end_width);
        let whole = free(from.column, to.column, to.column, end_width);
        let text = arrow.text.replace('\n', " ");
        let fits = text.chars().count() + 2 <= near.len();
        let room = if fits { near } else { whole };
        let text = shorten(&text, room.len().saturating_sub(2), self.glyphs);
        write(row, room.start + (room.len() - text.chars().count()) / 2, &text);
    }

    /// The column of the lane next to another one, to the right (0) or to the left (1).
    fn beside(&self, column: usize, side: usize) -> usize {
        let columns = self.lanes.iter().map(|lane| lane.column);
        let next = match side {
            0 => columns.filter(|other| *other > column).min(),
            _ => columns.filter(|other| *other < column).max(),
        };
        next.expect("an arrow goes to another lane")
    }

    fn on_the_way(&self, under: char, passage: Passage) -> char {
        let glyphs = self.glyphs;
        match passage {
            _ if under == glyphs.up => glyphs.over,
            _ if under == glyphs.apart => glyphs.over_apart,
            Passage::Arrives => glyphs.across,
            Passage::Lost | Passage::Twice | Passage::Delayed => glyphs.dashed,
        }
    }

    fn end(&self, passage: Passage, side: usize) -> String {
        match passage {
            Passage::Arrives => self.glyphs.arrives[side].to_string(),
            Passage::Lost => self.glyphs.lost.to_owned(),
            Passage::Twice => self.glyphs.twice.to_owned(),
            Passage::Delayed => self.glyphs.delayed.to_owned(),
        }
    }

    fn lane(&self, node: NodeId) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.node == node)
    }

    /// The lanes alone.
    fn row(&self) -> Vec<char> {
        let mut row = vec![' '; self.width];
        for lane in &self.lanes {
            let cut_off = self.apart.contains(&lane.node);
            row[lane.column] = match lane.status {
                Status::Up if cut_off => self.glyphs.apart,
                Status::Up => self.glyphs.up,
                Status::Down => self.glyphs.down,
                Status::Gone => ' ',
            };
        }
        row
    }
}

/// As wide as names and messages need, as far as there is room; `None` if that is not enough.
fn pitch(picture: &Picture, cast: &[NodeId], names: &[String], room: usize) -> Option<usize> {
    let count = |text: &String| text.chars().count();
    let spaces = cast.len().saturating_sub(1);
    if spaces == 0 {
        return Some(0);
    }
    let before_last = names[..spaces].iter().map(count).max().unwrap_or(0);
    let needed = PITCH_MIN.max(before_last + 2);
    let arrows = picture.steps.iter().filter_map(|step| match &step.mark {
        Mark::Arrow(arrow) if arrow.from != step.node => Some(count(&arrow.text) + ARROW),
        _ => None,
    });
    let wanted = arrows.max().unwrap_or(0).clamp(needed, PITCH_MAX.max(needed));
    let pitch = wanted.min(room / spaces);
    (pitch >= needed).then_some(pitch)
}

/// The columns of an arrow from one lane up to another that its head does not take.
fn free(from: usize, until: usize, to: usize, end_width: usize) -> Range<usize> {
    let head = if until == to { end_width } else { 0 };
    if from < until { from + 1..until - head } else { until + 1 + head..from }
}

fn write(row: &mut [char], at: usize, text: &str) {
    for (place, glyph) in row[at..].iter_mut().zip(text.chars()) {
        *place = glyph;
    }
}

fn replace(row: &mut [char], old: char, new: char) {
    row.iter_mut().filter(|glyph| **glyph == old).for_each(|glyph| *glyph = new);
}
