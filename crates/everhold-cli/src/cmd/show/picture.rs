//! A space-time picture: a lane for each node, time downwards, an arrow for each delivery.

use std::io::{self, Write};

use everhold_trace::{EventId, EventKind, Execution, NodeId};

use super::Part;
use crate::words::{self, pad, short};

/// The narrowest and the widest lane, in characters.
const LANE: (usize, usize) = (6, 14);
/// The largest number of lanes that fit on a screen.
const LANES_MAX: usize = 24;

pub(super) fn write(part: &Part<'_>, out: &mut impl Write) -> io::Result<()> {
    let execution = part.execution;
    let (lanes, hidden) = lanes(part);
    let drawing = Drawing { execution, width: width(execution, &lanes), lanes };
    let names: Vec<String> = drawing.lanes.iter().map(|id| drawing.title(*id)).collect();
    writeln!(out, "{}", format!("{:>6}  {}", "", names.concat()).trim_end())?;
    let states = execution.local_states();
    let mut marks = execution.marks().iter().peekable();
    while marks.next_if(|mark| (mark.after as usize) < part.range.start).is_some() {}
    for id in part.events() {
        while let Some(mark) = marks.next_if(|mark| mark.after <= id.0) {
            let lane = drawing.row(None);
            writeln!(out, "{:>6}  {lane} * {}", "", words::mark(execution, &mark.kind))?;
        }
        let Some(lane) = drawing.lane(execution.event(id).node) else { continue };
        let row = drawing.event(id, lane);
        let mut said = vec![short(&words::event(execution, id), 44)];
        said.extend(words::effects(execution, &states, id));
        writeln!(out, "{:>6}  {row} {}", id.0, short(&said.join("; "), 100).trim_end())?;
    }
    if !hidden.is_empty() {
        let names: Vec<String> = hidden.iter().map(|id| words::node(execution, *id)).collect();
        writeln!(out, "not shown: {}; choose nodes with --node", short(&names.join(", "), 60))?;
    }
    if !part.is_whole() {
        let (all, shown) = (execution.events().len(), part.events().count());
        writeln!(out, "{} of {} events", words::number(shown as u64), words::number(all as u64))?;
    }
    Ok(())
}

/// The nodes that have a lane, and those for which there is no room.
fn lanes(part: &Part<'_>) -> (Vec<NodeId>, Vec<NodeId>) {
    let execution = part.execution;
    let mut active: Vec<NodeId> = Vec::new();
    for id in part.events() {
        let event = execution.event(id);
        active.push(event.node);
        active.extend(event.received().map(|message| message.sender));
        active.extend(event.sends.iter().filter_map(|send| send.to));
    }
    active.retain(|node| node.index() < execution.nodes().len());
    active.sort_unstable();
    active.dedup();
    // A selected node always has a lane; the nodes that it communicates with share the rest.
    let mut lanes: Vec<NodeId> = active.clone();
    lanes.sort_by_key(|node| !part.has(*node));
    let hidden = lanes.split_off(lanes.len().min(LANES_MAX));
    lanes.sort_unstable();
    (lanes, hidden)
}

fn width(execution: &Execution, lanes: &[NodeId]) -> usize {
    let names = lanes.iter().map(|id| execution.node(*id).name.chars().count() + 2);
    names.max().unwrap_or(0).clamp(LANE.0, LANE.1)
}

struct Drawing<'a> {
    execution: &'a Execution,
    lanes: Vec<NodeId>,
    width: usize,
}

impl Drawing<'_> {
    fn lane(&self, node: NodeId) -> Option<usize> {
        self.lanes.binary_search(&node).ok()
    }

    fn title(&self, node: NodeId) -> String {
        pad(&short(&self.execution.node(node).name, self.width - 1), self.width)
    }

    /// A row of lanes without events, with another character at one position.
    fn row(&self, at: Option<(usize, char)>) -> String {
        let mut cells = vec![' '; self.lanes.len() * self.width];
        for lane in 0..self.lanes.len() {
            cells[lane * self.width] = '│';
        }
        if let Some((lane, mark)) = at {
            cells[lane * self.width] = mark;
        }
        cells.into_iter().collect()
    }

    /// The row of an event, with an arrow from the sender of each message that it received.
    fn event(&self, id: EventId, lane: usize) -> String {
        let event = self.execution.event(id);
        let mark = match event.kind {
            EventKind::Crash => '✗',
            EventKind::Start | EventKind::Restart => '○',
            _ => '●',
        };
        let mut cells: Vec<char> = self.row(Some((lane, mark))).chars().collect();
        for message in event.received() {
            let from = self.lane(message.sender).filter(|from| *from != lane);
            if let Some(from) = from {
                let sent = self.execution.message(message).and_then(|message| message.sent);
                self.arrow(&mut cells, from, lane, sent);
            }
        }
        cells.into_iter().collect()
    }

    /// A line between two lanes with its head at the receiver and the number of the sending event.
    fn arrow(&self, cells: &mut [char], from: usize, to: usize, sent: Option<EventId>) {
        let (from, to) = (from * self.width, to * self.width);
        let (begin, end) = (from.min(to) + 1, from.max(to));
        for cell in &mut cells[begin..end] {
            *cell = if *cell == '│' || *cell == '┼' { '┼' } else { '─' };
        }
        cells[from] = if from < to { '├' } else { '┤' };
        cells[if from < to { to - 1 } else { to + 1 }] = if from < to { '▶' } else { '◀' };
        let label = sent.map_or(String::new(), |event| event.0.to_string());
        let at = if from < to { from + 1 } else { from.saturating_sub(label.len()) };
        if label.len() + 2 < self.width {
            cells[at..at + label.len()].iter_mut().zip(label.chars()).for_each(|(c, l)| *c = l);
        }
    }
}
