//! The segments of all nodes as one execution.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use everhold_trace::format::{self, Item, ReadError, ReadOptions, Reader, Writer};
use everhold_trace::{Event, EventKind, NodeId, Value};

/// Why recordings cannot be put together.
#[derive(Debug)]
#[non_exhaustive]
pub enum MergeError {
    /// A folder or file cannot be read.
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is no trace.
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: ReadError,
    },
    /// There are no segments.
    Empty {
        /// Where.
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

/// Reads the segments of all nodes in these folders and orders their events by their stamps,
/// which agree with happens-before. A node that came back without having recorded its end crashed
/// in between. What the rings of segments forgot is missing: deliveries keep their place and lose
/// their cause, as the diagnostics say.
///
/// # Errors
///
/// If a file cannot be read, or there is none.
pub fn merge<P: AsRef<Path>>(
    folders: impl IntoIterator<Item = P>,
) -> Result<format::Recording, MergeError> {
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
    // Segments of a node sort by their number, so its events come in order.
    paths.sort();
    Ok(paths)
}

/// What the segments say, with nodes by their common numbers.
#[derive(Default)]
struct Parts {
    notes: BTreeMap<String, Value>,
    nodes: Vec<(String, String)>,
    events: Vec<Event>,
}

impl Parts {
    fn read(&mut self, path: &Path) -> Result<(), MergeError> {
        let io = |error| MergeError::Io { path: path.to_owned(), error };
        let read = |error| MergeError::Read { path: path.to_owned(), error };
        let file = BufReader::new(File::open(path).map_err(io)?);
        let mut reader = Reader::new(file, &ReadOptions::lenient()).map_err(read)?;
        // What each node of the file is called here.
        let mut nodes = Vec::new();
        while let Some(item) = reader.next_item().map_err(read)? {
            match item {
                Item::Run { notes, .. } => self.notes.extend(notes),
                Item::Node(info) => nodes.push(self.node(&info.name, &info.kind)),
                Item::Event(event) => {
                    let event = renamed(*event, &nodes);
                    self.events.push(event);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The common number of a node. Peers are declared without a kind by those who only hear of
    /// them.
    fn node(&mut self, name: &str, kind: &str) -> NodeId {
        let at = self.nodes.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.nodes.push((name.to_owned(), String::new()));
            self.nodes.len() - 1
        });
        if !kind.is_empty() {
            kind.clone_into(&mut self.nodes[at].1);
        }
        NodeId(u32::try_from(at).expect("node ids are 32 bits"))
    }

    fn write(&self) -> io::Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new());
        writer.begin_run("recording", &self.notes)?;
        for (name, kind) in &self.nodes {
            writer.node(name, if kind.is_empty() { "outside" } else { kind })?;
        }
        let mut started = BTreeSet::new();
        for event in &self.events {
            if event.kind == EventKind::Restart && started.contains(&event.node) {
                let mut crash = Event::new(event.node, EventKind::Crash);
                crash.time = event.time;
                writer.event(&crash)?;
            }
            started.insert(event.node);
            writer.event(event)?;
        }
        writer.finish()
    }
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
