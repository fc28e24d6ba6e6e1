//! The records of a probe as trace files of bounded size.
//!
//! A recording is a folder with the newest segments of each node: `n1.000007.jsonl` and so on,
//! each a trace of its own that begins with the node's whole state. When a segment is full the
//! oldest is removed, so a violation comes with its recent history and the disk does not fill.
//! [`merge`] puts the segments of all nodes together into one execution.
//!
//! If the disk is full or the folder disappears, the recording pauses for a while and the problem is
//! reported; the application is not affected.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use everhold_trace::format::Writer;
use everhold_trace::wire::{Hello, Record};
use everhold_trace::{Event, EventKind, NodeId, Value};

use crate::report::Report;

mod fold;
mod lives;
mod merge;

pub use merge::{MergeError, merge};

use fold::Fold;

/// The wait of a recording that failed before it tries again.
const PAUSE: Duration = Duration::from_secs(10);

/// An event to which nothing was added for this long is over. Later observations of its handler
/// form a step of their own.
const REST: Duration = Duration::from_millis(20);

/// The folder and the size of a recording; given to a probe or a host.
///
/// ```
/// use everhold_live::Recording;
/// let recording = Recording::into("/var/tmp/bank").segments(4).segment_bytes(1 << 20);
/// # drop(recording);
/// ```
#[derive(Debug)]
pub struct Recording {
    folder: PathBuf,
    segments: usize,
    segment_bytes: u64,
    notes: BTreeMap<String, Value>,
    peers: Peers,
    writing: Option<Writing>,
}

/// The note of recordings whose messages are seen from outside the nodes.
const OUTSIDE: &str = "messages seen from outside";

/// The names of nodes that messages may come from or go to. Others have the names that hosts give.
pub(crate) type Peers = Arc<Mutex<BTreeMap<NodeId, String>>>;

#[derive(Debug)]
struct Writing {
    who: Hello,
    report: Report,
    fold: Fold,
    segment: Option<Segment>,
    next: u64,
    paused: Option<Instant>,
    lost: u64,
    /// The time of the last record.
    heard: Instant,
}

impl Recording {
    /// Records into this folder, with eight segments of four mebibytes per node.
    #[must_use]
    pub fn into(folder: impl Into<PathBuf>) -> Recording {
        Recording {
            folder: folder.into(),
            segments: 8,
            segment_bytes: 4 << 20,
            notes: BTreeMap::new(),
            peers: Peers::default(),
            writing: None,
        }
    }

    /// Sets the number of segments to keep; at least two.
    #[must_use]
    pub fn segments(mut self, segments: usize) -> Recording {
        self.segments = segments.max(2);
        self
    }

    /// Sets the size of a segment.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Recording {
        self.segment_bytes = bytes;
        self
    }

    /// Adds a note about the run to every segment.
    #[must_use]
    pub fn note(mut self, key: &str, value: impl Into<Value>) -> Recording {
        self.notes.insert(key.to_owned(), value.into());
        self
    }

    /// The messages are seen from outside the nodes, so it is not known who a send is for. When
    /// recordings are merged, a send that no node was seen to receive is left out: it was for somebody
    /// who is not observed, and would be in flight for ever.
    #[must_use]
    pub fn from_outside(self) -> Recording {
        self.note(OUTSIDE, true)
    }

    /// Calls other nodes by these names, which may be completed later.
    pub(crate) fn with_peers(mut self, peers: &Peers) -> Recording {
        self.peers = Arc::clone(peers);
        self
    }

    pub(crate) fn begin(&mut self, who: &Hello, report: Report) {
        self.notes.insert("system".to_owned(), who.system.as_str().into());
        self.notes.insert("incarnation".to_owned(), who.incarnation.into());
        let next = segments_of(&self.folder, &who.name).last().map_or(0, |(number, _)| number + 1);
        let fold = Fold::new(who.node);
        let who = who.clone();
        let (paused, heard) = (None, Instant::now());
        let segment = None;
        self.writing = Some(Writing { who, report, fold, segment, next, paused, lost: 0, heard });
    }

    /// Takes in sorted records.
    pub(crate) fn records(&mut self, records: &[Record], dropped: u64) {
        let Some(writing) = &mut self.writing else { return };
        let mut events = Vec::new();
        writing.heard = Instant::now();
        if dropped > 0 {
            writing.fold.lost(dropped);
        }
        for record in records {
            events.extend(writing.fold.record(record));
        }
        self.write(&events);
    }

    /// Writes the last event if it is over and no record followed, since a process may be killed at
    /// any time.
    pub(crate) fn rest(&mut self) {
        let Some(writing) = &mut self.writing else { return };
        if writing.heard.elapsed() >= REST
            && let Some(last) = writing.fold.end()
        {
            self.write(&[last]);
        }
    }

    /// Writes the remaining events.
    pub(crate) fn end(&mut self) {
        let last = self.writing.as_mut().and_then(|writing| writing.fold.end());
        self.write(last.as_slice());
        let Some(Writing { segment: Some(mut segment), .. }) = self.writing.take() else { return };
        // A segment without an end reads as incomplete, which it then is.
        let _ = segment.writer.end_run();
    }

    fn write(&mut self, events: &[Event]) {
        let Some(mut writing) = self.writing.take() else { return };
        if writing.paused.is_some_and(|since| since.elapsed() < PAUSE) {
            writing.lost += events.len() as u64;
        } else if let Err(error) = self.try_write(&mut writing, events) {
            self.pause(&mut writing, &error);
        }
        self.writing = Some(writing);
    }

    fn try_write(&self, writing: &mut Writing, events: &[Event]) -> io::Result<()> {
        for event in events {
            if writing.segment.as_ref().is_none_or(|full| full.bytes() > self.segment_bytes) {
                self.turn(writing)?;
            }
            let Some(segment) = &mut writing.segment else { return Ok(()) };
            segment.event(event)?;
        }
        match &mut writing.segment {
            Some(segment) => segment.writer.flush(),
            None => Ok(()),
        }
    }

    /// Ends the present segment, removes the oldest and begins the next.
    fn turn(&self, writing: &mut Writing) -> io::Result<()> {
        if let Some(mut full) = writing.segment.take() {
            full.writer.end_run()?;
        }
        fs::create_dir_all(&self.folder)?;
        let kept = segments_of(&self.folder, &writing.who.name);
        for (_, old) in kept.iter().rev().skip(self.segments - 1) {
            fs::remove_file(old)?;
        }
        let path = self.folder.join(format!("{}.{:06}.jsonl", writing.who.name, writing.next));
        writing.next += 1;
        writing.segment = Some(Segment::create(&path, &writing.who, &self.notes, &self.peers)?);
        if let Some(since) = writing.paused.take() {
            let (lost, seconds) = (std::mem::take(&mut writing.lost), since.elapsed().as_secs());
            let text = format!("recording resumes after {seconds} s; events lost: {lost}");
            writing.report.tell(&text);
        }
        Ok(())
    }

    fn pause(&self, writing: &mut Writing, error: &io::Error) {
        writing.report.tell(&format!(
            "recording into {} pauses for {} s ({error}); free some space there or name another \
             folder. The service goes on",
            self.folder.display(),
            PAUSE.as_secs(),
        ));
        writing.paused = Some(Instant::now());
        if let Some(Segment { path, .. }) = writing.segment.take() {
            // Its content may be cut anywhere, and the space is worth more.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the segments of a node, oldest first.
fn segments_of(folder: &Path, node: &str) -> Vec<(u64, PathBuf)> {
    let number = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        let number = name.strip_prefix(node)?.strip_prefix('.')?.strip_suffix(".jsonl")?;
        number.parse().ok()
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> =
        entries.map(|entry| entry.path()).filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    writer: Writer<Counted>,
    /// The numbers of the nodes in this file.
    nodes: BTreeMap<NodeId, NodeId>,
    peers: Peers,
    written: Arc<AtomicU64>,
}

impl Segment {
    fn create(
        path: &Path,
        who: &Hello,
        notes: &BTreeMap<String, Value>,
        peers: &Peers,
    ) -> io::Result<Segment> {
        let written = Arc::new(AtomicU64::new(0));
        let output =
            Counted { file: BufWriter::new(File::create(path)?), count: Arc::clone(&written) };
        let mut writer = Writer::new(output).with_changes();
        writer.begin_run(&who.system, notes)?;
        let me = writer.node(&who.name, &who.kind)?;
        let nodes = BTreeMap::from([(who.node, me)]);
        let (path, peers) = (path.to_owned(), Arc::clone(peers));
        Ok(Segment { path, writer, nodes, peers, written })
    }

    fn bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut event = event.clone();
        event.node = self.node(event.node)?;
        if let EventKind::Deliver { message } = &mut event.kind {
            message.sender = self.node(message.sender)?;
        }
        for send in &mut event.sends {
            send.to = send.to.map(|to| self.node(to)).transpose()?;
        }
        self.writer.event(&event)
    }

    /// Declares a node when it first appears, under its name, or the one that hosts give it.
    fn node(&mut self, node: NodeId) -> io::Result<NodeId> {
        if let Some(known) = self.nodes.get(&node) {
            return Ok(*known);
        }
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let name = peers.get(&node).cloned().unwrap_or_else(|| node.to_string());
        drop(peers);
        let declared = self.writer.node(&name, "")?;
        self.nodes.insert(node, declared);
        Ok(declared)
    }
}

/// A writer that counts its bytes.
#[derive(Debug)]
struct Counted {
    file: BufWriter<File>,
    count: Arc<AtomicU64>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.count.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
