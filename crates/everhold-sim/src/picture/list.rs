//! One line per step, for executions with more nodes than lanes fit.

use std::collections::BTreeMap;

use everhold_node::NodeId;

use super::glyphs::Glyphs;
use super::scene::{Fate, Happening, Mark, Scene};
use super::words::shorten;

/// Columns that names may take.
const NAME_MAX: usize = 16;

/// Columns that the words for events may take.
const EVENT_MAX: usize = 40;

pub(super) struct List {
    names: BTreeMap<NodeId, String>,
    glyphs: &'static Glyphs,
    name_width: usize,
    event_width: usize,
}

impl List {
    pub(super) fn fit(scene: &Scene<'_>, width: usize) -> Self {
        let names = scene.cast().into_iter().map(|node| (node, scene.name(node))).collect();
        let mut list = List { names, glyphs: scene.glyphs, name_width: 0, event_width: 0 };
        let longest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let names = longest(&mut list.names.values().cloned());
        list.name_width = names.clamp("node".len(), NAME_MAX);
        let events = longest(&mut scene.happenings.iter().map(|one| list.event(one)));
        // At least half of the remaining columns belong to the changes of state.
        let room = EVENT_MAX.min(width.saturating_sub(list.name_width) / 2).max("event".len());
        list.event_width = events.clamp("event".len(), room);
        list
    }

    pub(super) fn width(&self) -> usize {
        self.name_width + 2 + self.event_width
    }

    pub(super) fn header(&self) -> String {
        let (names, events) = (self.name_width, self.event_width);
        format!("{:names$}  {:events$}{}change", "node", "event", super::GAP)
    }

    pub(super) fn draw(&self, happening: &Happening) -> String {
        let name = match happening.mark {
            Mark::Start | Mark::Partition(_) | Mark::Heal => "",
            _ => self.names.get(&happening.node).map_or("", String::as_str),
        };
        let (names, events) = (self.name_width, self.event_width);
        let name = shorten(name, names, self.glyphs);
        let event = shorten(&self.event(happening), events, self.glyphs);
        format!("{name:names$}  {event:events$}")
    }

    fn event(&self, happening: &Happening) -> String {
        let Mark::Arrow(arrow) = &happening.mark else { return happening.label.clone() };
        let from = self.names.get(&arrow.from).map_or("?", String::as_str);
        let message = format!("{} {} {from}", arrow.text, self.glyphs.from);
        match arrow.fate {
            Fate::Arrives if happening.label.is_empty() => message,
            Fate::Arrives => format!("{message} ({})", happening.label),
            Fate::Lost | Fate::Twice | Fate::Delayed => format!("{} {message}", happening.label),
        }
    }
}
