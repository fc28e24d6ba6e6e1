//! One line per step, for executions with more nodes than lanes fit.

use std::collections::BTreeMap;

use everhold_trace::NodeId;

use super::glyphs::Glyphs;
use super::words::shorten;
use super::{Mark, Passage, Picture, Step};

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
    pub(super) fn fit(picture: &Picture, glyphs: &'static Glyphs, width: usize) -> Self {
        let names = picture.cast().into_iter().map(|node| (node, picture.name(node))).collect();
        let mut list = List { names, glyphs, name_width: 0, event_width: 0 };
        let longest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let names = longest(&mut list.names.values().cloned());
        list.name_width = names.clamp("node".len(), NAME_MAX);
        let events = longest(&mut picture.steps.iter().map(|step| list.event(step)));
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

    pub(super) fn draw(&self, step: &Step) -> String {
        let name = match step.mark {
            Mark::Start | Mark::Partition(_) | Mark::Heal | Mark::Nowhere => "",
            _ => self.names.get(&step.node).map_or("", String::as_str),
        };
        let (names, events) = (self.name_width, self.event_width);
        let name = shorten(name, names, self.glyphs);
        let event = shorten(&self.event(step), events, self.glyphs);
        format!("{name:names$}  {event:events$}")
    }

    fn event(&self, step: &Step) -> String {
        let Mark::Arrow(arrow) = &step.mark else { return step.label.clone() };
        let from = self.names.get(&arrow.from).map_or("?", String::as_str);
        let message = format!("{} {} {from}", arrow.text, self.glyphs.from);
        match arrow.passage {
            Passage::Arrives if step.label.is_empty() => message,
            Passage::Arrives => format!("{message} ({})", step.label),
            Passage::Lost | Passage::Twice | Passage::Delayed => {
                format!("{} {message}", step.label)
            }
        }
    }
}
