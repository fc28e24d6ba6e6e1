//! A lane for each node, with arrows where messages arrive.

use std::ops::Range;

use everhold_node::NodeId;

use super::glyphs::Glyphs;
use super::scene::{Arrow, Fate, Happening, Mark, Scene};
use super::words::shorten;
use crate::fault::Side;

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
    /// Mask of the nodes that are cut off.
    apart: Option<Side>,
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
    pub(super) fn fit(scene: &Scene<'_>, width: usize) -> Option<Self> {
        let cast = scene.cast();
        if cast.len() > LANES_MAX {
            return None;
        }
        let names: Vec<String> = cast.iter().map(|node| scene.name(*node)).collect();
        let count = |text: &String| text.chars().count();
        let labels = scene.happenings.iter().map(|one| count(&one.label)).max().unwrap_or(0);
        let label_width = labels.min(LABEL_MAX) + 2;
        let last = names.last().map_or(0, count);
        let room = width.checked_sub(label_width + WORDS_MIN + last)?;
        let pitch = pitch(scene, &cast, &names, room)?;
        let lane = |(at, (node, name))| {
            let column = label_width + at * pitch;
            let status = if scene.begins_without(node) { Status::Gone } else { Status::Up };
            Lane { node, name, column, status }
        };
        let lanes: Vec<Lane> = cast.into_iter().zip(names).enumerate().map(lane).collect();
        let width = lanes.last().map_or(0, |lane| lane.column) + last;
        Some(Lanes { lanes, glyphs: scene.glyphs, label_width, width, apart: None })
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

    pub(super) fn draw(&mut self, happening: &Happening) -> String {
        let before = self.row();
        self.go_on(happening);
        let mut row = match happening.mark {
            // A node is marked as cut off from the row of the partition to that of its end.
            Mark::Heal => before,
            _ => self.row(),
        };
        let label = shorten(&happening.label, self.label_width - 2, self.glyphs);
        write(&mut row, 0, &label);
        self.mark(&mut row, happening);
        row.into_iter().collect()
    }

    /// Updates the lanes after a step.
    fn go_on(&mut self, happening: &Happening) {
        let status = match happening.mark {
            Mark::Crash => Status::Down,
            Mark::Stop => Status::Gone,
            Mark::Restart | Mark::Spawned => Status::Up,
            Mark::Partition(side) => return self.apart = Some(side),
            Mark::Heal => return self.apart = None,
            Mark::Start | Mark::Event | Mark::Arrow(_) => return,
        };
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.node == happening.node) {
            lane.status = status;
        }
    }

    fn mark(&self, row: &mut [char], happening: &Happening) {
        let glyphs = self.glyphs;
        let glyph = match &happening.mark {
            Mark::Start => {
                return self.lanes.iter().for_each(|lane| row[lane.column] = glyphs.event);
            }
            Mark::Arrow(arrow) => return self.arrow(row, arrow, happening.node),
            Mark::Partition(_) => return replace(row, glyphs.apart, glyphs.part),
            Mark::Heal => return replace(row, glyphs.apart, glyphs.heal),
            Mark::Event | Mark::Spawned => glyphs.event,
            Mark::Crash => glyphs.crash,
            Mark::Stop => glyphs.stop,
            Mark::Restart => glyphs.restart,
        };
        if let Some(lane) = self.lane(happening.node) {
            row[lane.column] = glyph;
        }
    }

    fn arrow(&self, row: &mut [char], arrow: &Arrow, to: NodeId) {
        let (Some(from), Some(to)) = (self.lane(arrow.from), self.lane(to)) else { return };
        if arrow.fate == Fate::Arrives {
            row[to.column] = self.glyphs.event;
        }
        if from.column == to.column {
            return;
        }
        let side = usize::from(from.column > to.column);
        let (left, right) = (from.column.min(to.column), from.column.max(to.column));
        for glyph in &mut row[left + 1..right] {
            *glyph = self.on_the_way(*glyph, arrow.fate);
        }
        row[from.column] = self.glyphs.leaves[side];
        let end = self.end(arrow.fate, side);
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

    fn on_the_way(&self, under: char, fate: Fate) -> char {
        let glyphs = self.glyphs;
        match fate {
            _ if under == glyphs.up => glyphs.over,
            _ if under == glyphs.apart => glyphs.over_apart,
            Fate::Arrives => glyphs.across,
            Fate::Lost | Fate::Twice | Fate::Delayed => glyphs.dashed,
        }
    }

    fn end(&self, fate: Fate, side: usize) -> String {
        match fate {
            Fate::Arrives => self.glyphs.arrives[side].to_string(),
            Fate::Lost => self.glyphs.lost.to_owned(),
            Fate::Twice => self.glyphs.twice.to_owned(),
            Fate::Delayed => self.glyphs.delayed.to_owned(),
        }
    }

    fn lane(&self, node: NodeId) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.node == node)
    }

    /// The lanes alone.
    fn row(&self) -> Vec<char> {
        let mut row = vec![' '; self.width];
        for lane in &self.lanes {
            let cut_off = self.apart.is_some_and(|side| side.contains(lane.node));
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
fn pitch(scene: &Scene<'_>, cast: &[NodeId], names: &[String], room: usize) -> Option<usize> {
    let count = |text: &String| text.chars().count();
    let spaces = cast.len().saturating_sub(1);
    if spaces == 0 {
        return Some(0);
    }
    let before_last = names[..spaces].iter().map(count).max().unwrap_or(0);
    let needed = PITCH_MIN.max(before_last + 2);
    let arrows = scene.happenings.iter().filter_map(|happening| match &happening.mark {
        Mark::Arrow(arrow) if arrow.from != happening.node => Some(count(&arrow.text) + ARROW),
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
