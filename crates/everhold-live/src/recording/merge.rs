//! The segments of all nodes as one execution.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use everhold_trace::format::{self, Item, ReadError, ReadOptions, Reader, Writer};
use everhold_trace::{Event, EventKind, MessageId, NodeId, Value};

use super::{OUTSIDE, lives};

/// The reasons for which recordings cannot be merged.
#[derive(Debug)]
#[non_exhaustive]
pub enum MergeError {
    /// A folder or file cannot be read.
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A file is not a trace.
    Read {
        /// The path.
        path: PathBuf,
        /// The error.
        error: ReadError,
    },
    /// There are no segments.
    Empty {
        /// The folder.
        folder: PathBuf,
    },
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            MergeError::Read { path, error } => write!(f, "{}: {error}", path.display()),
            MergeError::Empty { folder } => {
                write!(f, "{}: no recorded segments (*.jsonl) here", folder.display())
            }
        }
    }
}

impl std::error::Error for MergeError {}

/// Reads the segments of all nodes in these folders and orders their events by their stamps, which
/// agree with happens-before. A node that came back, or whose recording stops without an end while
/// others continue for more than a second, crashed after the last event that shows it alive: its
/// own, or the arrival of a message that it sent. Events in removed segments are missing:
/// deliveries keep their place but lose their cause, as the diagnostics say.
///
/// # Errors
///
/// If a file cannot be read, or there are none.
pub fn merge<P: AsRef<Path>>(
    folders: impl IntoIterator<Item = P>,
) -> Result<format::TraceFile, MergeError> {
    let mut parts = Parts::default();
    for folder in folders {
        let folder = folder.as_ref();
        let segments = segments(folder)?;
        if segments.is_empty() {
            return Err(MergeError::Empty { folder: folder.to_owned() });
        }
        segments.iter().try_for_each(|path| parts.read(path))?;
    }
    parts.events.sort_by_key(|event| event.time.logical);
    parts.renumber();
    parts.drop_unread();
    let bytes = parts.write().expect("memory is not full");
    let whole = format::read_all(&bytes[..], &ReadOptions::lenient());
    Ok(whole.expect("what was just written can be read"))
}

fn segments(folder: &Path) -> Result<Vec<PathBuf>, MergeError> {
    let fail = |error| MergeError::Io { path: folder.to_owned(), error };
    let entries = fs::read_dir(folder).map_err(fail)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>().map_err(fail)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    // The segments of a node sort by their number, so its events are in order.
    paths.sort();
    Ok(paths)
}

/// The content of the segments, with nodes by their common numbers.
#[derive(Default)]
struct Parts {
    notes: BTreeMap<String, Value>,
    nodes: Vec<(String, String)>,
    events: Vec<Event>,
    /// Nodes whose newest segment has an end.
    ended: BTreeSet<NodeId>,
    /// Nodes whose messages are seen from outside.
    outside: BTreeSet<NodeId>,
}

impl Parts {
    fn read(&mut self, path: &Path) -> Result<(), MergeError> {
        let io = |error| MergeError::Io { path: path.to_owned(), error };
        let read = |error| MergeError::Read { path: path.to_owned(), error };
        let file = BufReader::new(File::open(path).map_err(io)?);
        let mut reader = Reader::new(file, &ReadOptions::lenient()).map_err(read)?;
        // The common numbers of the nodes of this file.
        let mut nodes: Vec<NodeId> = Vec::new();
        let (mut ended, mut outside) = (false, false);
        while let Some(item) = reader.next_item().map_err(read)? {
            match item {
                Item::Run { notes, .. } => {
                    outside |= notes.contains_key(OUTSIDE);
                    self.notes.extend(notes);
                }
                Item::Node(info) => nodes.push(self.node(&info.name, &info.kind)),
                Item::Event(event) => {
                    let event = renamed(*event, &nodes);
                    self.events.push(event);
                }
                Item::End => ended = true,
                _ => {}
            }
        }
        // A segment belongs to the node that it declares first, and newer ones are read later.
        if let Some(owner) = nodes.first() {
            if outside {
                self.outside.insert(*owner);
            }
            if ended {
                self.ended.insert(*owner)
            } else {
                self.ended.remove(owner)
            };
        }
        Ok(())
    }

    /// Restores the numbers of nodes that hosts named `n0`, `n1` and so on, where possible, so that
    /// references to nodes in states stay valid.
    fn renumber(&mut self) {
        let number = |name: &str| name.strip_prefix('n').and_then(|n| n.parse::<u64>().ok());
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|at| (number(&self.nodes[*at].0).unwrap_or(u64::MAX), *at));
        let mut places = vec![NodeId(0); order.len()];
        for (place, at) in order.iter().enumerate() {
            places[*at] = node_id(place);
        }
        self.nodes = order.iter().map(|at| self.nodes[*at].clone()).collect();
        for nodes in [&mut self.ended, &mut self.outside] {
            *nodes = nodes.iter().map(|node| places[node.index()]).collect();
        }
        let events = std::mem::take(&mut self.events).into_iter();
        self.events = events.map(|event| renamed(event, &places)).collect();
    }

    /// Leaves out the sends that were seen from outside and that no node was seen to receive.
    fn drop_unread(&mut self) {
        let message = |event: &Event| match event.kind {
            EventKind::Deliver { message } => Some(message),
            _ => None,
        };
        let arrived: BTreeSet<MessageId> = self.events.iter().filter_map(message).collect();
        for event in self.events.iter_mut().filter(|event| self.outside.contains(&event.node)) {
            let sender = event.node;
            event.sends.retain(|send| arrived.contains(&MessageId { sender, seq: send.seq }));
        }
    }

    /// Returns the common number of a node. Files of other nodes declare it without a kind.
    fn node(&mut self, name: &str, kind: &str) -> NodeId {
        let at = self.nodes.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.nodes.push((name.to_owned(), String::new()));
            self.nodes.len() - 1
        });
        if !kind.is_empty() {
            kind.clone_into(&mut self.nodes[at].1);
        }
        node_id(at)
    }

    fn write(&self) -> io::Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new());
        writer.begin_run("recording", &self.notes)?;
        for (name, kind) in &self.nodes {
            writer.node(name, if kind.is_empty() { "outside" } else { kind })?;
        }
        let crashes = lives::crashes(&self.events, &self.ended);
        for (index, event) in self.events.iter().enumerate() {
            writer.event(event)?;
            for node in crashes.get(&index).into_iter().flatten() {
                let mut crash = Event::new(*node, EventKind::Crash);
                crash.time = event.time;
                writer.event(&crash)?;
            }
        }
        writer.finish()
    }
}

fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index).expect("node ids are 32 bits"))
}

fn renamed(mut event: Event, nodes: &[NodeId]) -> Event {
    let here = |node: NodeId| nodes.get(node.index()).copied().unwrap_or(node);
    event.node = here(event.node);
    if let EventKind::Deliver { message } = &mut event.kind {
        message.sender = here(message.sender);
    }
    for send in &mut event.sends {
        send.to = send.to.map(here);
    }
    event
}
