//! The embedded log: segment files in a folder.
//!
//! A segment starts with a magic and the number of its first entry. An entry is its length, a
//! checksum over number and bytes, and the bytes. An entry that a kill left incomplete is cut off when the
//! log is opened; since the checksum covers the number, no leftover passes for an entry. A power cut may
//! lose entries that were read already: the log goes on after the last one that was read.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Cursor, Entry, Log, LogError, Sequence};

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"EHLOG\0\0\x01";
/// Zero or a larger number in its place is damage.
const VERSION_MAX: u8 = 9;
const HEADER: u64 = 16;
const ENTRY_HEADER: u64 = 8;

/// The longest entry; a longer length in a file is damage.
pub(crate) const ENTRY_MAX: usize = 16 << 20;

/// How an embedded log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// The number of partitions, which is fixed when the folder is made.
    pub partitions: u32,
    /// A segment that has grown to this many bytes is closed. Trimming removes whole segments.
    pub segment_bytes: u64,
    /// A partition keeps at most about this many bytes: the oldest segments go, read or not.
    pub partition_bytes_max: u64,
}

impl Default for SegmentOptions {
    fn default() -> SegmentOptions {
        SegmentOptions { partitions: 1, segment_bytes: 16 << 20, partition_bytes_max: 512 << 20 }
    }
}

/// The state in which a log was found when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whole entries.
    pub entries: u64,
    /// Bytes at the ends of segments that were no whole entry and were cut off.
    pub bytes_cut: u64,
}

/// A log in a folder of files.
#[derive(Debug)]
pub struct SegmentLog {
    partitions: Vec<Arc<Partition>>,
    recovered: Recovered,
}

#[derive(Debug)]
struct Partition {
    folder: PathBuf,
    options: SegmentOptions,
    tail: Mutex<Tail>,
    grown: Condvar,
}

#[derive(Debug)]
struct Tail {
    /// The segments, oldest first; the last one is written to.
    segments: Vec<Segment>,
    file: File,
    next: Sequence,
    /// Whether the file may end with half an entry.
    is_torn: bool,
}

impl Tail {
    /// Cuts the file after its last whole entry.
    fn cut(&mut self, end: u64) -> std::io::Result<()> {
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end))?;
        self.is_torn = false;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    first: Sequence,
    bytes: u64,
}

impl SegmentLog {
    /// Opens the log in a folder, or makes one there.
    pub fn open(folder: &Path, options: SegmentOptions) -> Result<SegmentLog, LogError> {
        fs::create_dir_all(folder).map_err(|error| LogError::io(folder, error))?;
        check_shape(folder, options.partitions)?;
        let mut recovered = Recovered::default();
        let mut partitions = Vec::new();
        for number in 0..options.partitions {
            let folder = folder.join(format!("p{number}"));
            fs::create_dir_all(&folder).map_err(|error| LogError::io(&folder, error))?;
            partitions.push(Arc::new(Partition::open(folder, options, &mut recovered)?));
        }
        Ok(SegmentLog { partitions, recovered })
    }

    /// Returns the state in which it was found when it was opened.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    fn partition(&self, partition: u32) -> Result<&Arc<Partition>, LogError> {
        let found = self.partitions.get(partition as usize);
        found.ok_or_else(|| LogError::Unusable(format!("the log has no partition {partition}")))
    }
}

/// The number of partitions and the hash of keys decide which key is where, so neither can change
/// under a log of several partitions.
fn check_shape(folder: &Path, partitions: u32) -> Result<(), LogError> {
    let path = folder.join("partitions");
    let spread = if partitions > 1 { " by stable hash 1" } else { "" };
    let wanted = format!("{partitions}{spread}");
    let unusable = |why: String| Err(LogError::Unusable(format!("{}: {why}", folder.display())));
    match fs::read_to_string(&path) {
        Ok(text) if text.trim() == wanted => Ok(()),
        Ok(text) if text.trim() == partitions.to_string() => unusable(format!(
            "this log was made by a version that spreads keys over its {partitions} partitions in \
             another way; remove the folder, or give another one"
        )),
        Ok(text) => {
            let found = text.split_whitespace().next().unwrap_or_default();
            unusable(format!(
                "this log has {found} partitions and {partitions} were asked for; ask for {found} \
                 or give another folder"
            ))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::write(&path, wanted).map_err(|error| LogError::io(&path, error))
        }
        Err(error) => Err(LogError::io(&path, error)),
    }
}

impl Partition {
    fn open(
        folder: PathBuf,
        options: SegmentOptions,
        recovered: &mut Recovered,
    ) -> Result<Partition, LogError> {
        let mut segments = Vec::new();
        let mut next = 1;
        for first in list(&folder)? {
            let path = path_of(&folder, first);
            let (bytes, after) = recover(&path, first, recovered)?;
            if bytes == 0 {
                fs::remove_file(&path).map_err(|error| LogError::io(&path, error))?;
                continue;
            }
            next = after;
            segments.push(Segment { first, bytes });
        }
        if segments.is_empty() {
            create(&path_of(&folder, next), next)?;
            segments.push(Segment { first: next, bytes: HEADER });
        }
        let last = segments[segments.len() - 1];
        let file = writable(&path_of(&folder, last.first), last.bytes)?;
        let tail = Mutex::new(Tail { segments, file, next, is_torn: false });
        Ok(Partition { folder, options, tail, grown: Condvar::new() })
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, entries: &[&[u8]]) -> Result<Sequence, LogError> {
        let mut tail = self.tail();
        let mut buffer = Vec::with_capacity(entries.iter().map(|e| e.len() + 8).sum());
        let mut next = tail.next;
        for bytes in entries {
            encode(&mut buffer, next, bytes)?;
            next += 1;
        }
        let end = tail.segments[tail.segments.len() - 1].bytes;
        let path = path_of(&self.folder, tail.segments[tail.segments.len() - 1].first);
        // A full disk leaves half an entry; the next append must not come after it.
        if tail.is_torn {
            tail.cut(end).map_err(|error| LogError::io(&path, error))?;
        }
        if let Err(error) = tail.file.write_all(&buffer) {
            tail.is_torn = true;
            let _ = tail.cut(end);
            return Err(LogError::io(&path, error));
        }
        let last = tail.segments.len() - 1;
        tail.segments[last].bytes = end + buffer.len() as u64;
        tail.next = next;
        if tail.segments[last].bytes >= self.options.segment_bytes {
            self.roll(&mut tail)?;
        }
        drop(tail);
        self.grown.notify_all();
        Ok(next - 1)
    }

    /// Goes on with this number at least.
    fn resume(&self, next: Sequence) -> Result<u64, LogError> {
        let mut tail = self.tail();
        let lost = next.saturating_sub(tail.next);
        if lost > 0 {
            tail.next = next;
            self.roll(&mut tail)?;
        }
        Ok(lost)
    }

    fn roll(&self, tail: &mut Tail) -> Result<(), LogError> {
        let first = tail.next;
        let path = path_of(&self.folder, first);
        create(&path, first)?;
        tail.file = writable(&path, HEADER)?;
        tail.segments.push(Segment { first, bytes: HEADER });
        let mut bytes: u64 = tail.segments.iter().map(|segment| segment.bytes).sum();
        while bytes > self.options.partition_bytes_max && tail.segments.len() > 1 {
            bytes -= self.remove_oldest(tail)?;
        }
        Ok(())
    }

    fn remove_oldest(&self, tail: &mut Tail) -> Result<u64, LogError> {
        let oldest = tail.segments.remove(0);
        let path = path_of(&self.folder, oldest.first);
        fs::remove_file(&path).map_err(|error| LogError::io(&path, error))?;
        Ok(oldest.bytes)
    }

    fn trim(&self, before: Sequence) -> Result<(), LogError> {
        let mut tail = self.tail();
        while tail.segments.len() > 1 && tail.segments[1].first <= before {
            self.remove_oldest(&mut tail)?;
        }
        Ok(())
    }

    /// The segment that holds `from` or, if that is gone, what comes next; and whether another
    /// segment follows it.
    fn segment_of(&self, from: Sequence) -> (Segment, bool) {
        let tail = self.tail();
        let after = tail.segments.partition_point(|segment| segment.first <= from);
        let place = after.saturating_sub(1);
        (tail.segments[place], place + 1 < tail.segments.len())
    }
}

impl Log for SegmentLog {
    fn partitions(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }

    fn append(&self, partition: u32, entries: &[&[u8]]) -> Result<Sequence, LogError> {
        self.partition(partition)?.append(entries)
    }

    fn cursor(&self, partition: u32, from: Sequence) -> Result<Box<dyn Cursor>, LogError> {
        let partition = Arc::clone(self.partition(partition)?);
        Ok(Box::new(SegmentCursor {
            partition,
            next: from.max(1),
            open: None,
            buffer: Vec::new(),
            used: 0,
        }))
    }

    fn next_sequence(&self, partition: u32) -> Result<Sequence, LogError> {
        Ok(self.partition(partition)?.tail().next)
    }

    fn resume(&self, partition: u32, next: Sequence) -> Result<u64, LogError> {
        self.partition(partition)?.resume(next)
    }

    fn trim(&self, partition: u32, before: Sequence) -> Result<(), LogError> {
        self.partition(partition)?.trim(before)
    }
}

#[derive(Debug)]
struct SegmentCursor {
    partition: Arc<Partition>,
    next: Sequence,
    /// The segment that is read, its file, and the number of the entry at the file's position.
    open: Option<(Sequence, File, Sequence)>,
    /// Bytes of the file, of which the first `used` were handed out.
    buffer: Vec<u8>,
    used: usize,
}

impl Cursor for SegmentCursor {
    fn next(&mut self, bytes_max: usize, wait: Duration) -> Result<Vec<Entry>, LogError> {
        self.wait(wait);
        let mut entries = Vec::new();
        let mut bytes = 0;
        while bytes < bytes_max {
            let Some(entry) = self.one()? else { break };
            bytes += entry.bytes.len();
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// How much is read from a file at once.
const READ: usize = 256 << 10;

impl SegmentCursor {
    fn wait(&self, wait: Duration) {
        let end = Instant::now() + wait;
        let mut tail = self.partition.tail();
        while tail.next <= self.next {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.partition.grown.wait_timeout(tail, left);
            tail = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next entry, unless the end is reached.
    fn one(&mut self) -> Result<Option<Entry>, LogError> {
        if self.partition.tail().next <= self.next {
            return Ok(None);
        }
        loop {
            let (segment, closed) = self.partition.segment_of(self.next);
            if self.open.as_ref().is_none_or(|open| open.0 != segment.first) {
                self.go_to(segment)?;
            }
            match self.read_entry()? {
                Some(entry) if entry.sequence < self.next => {}
                Some(entry) => {
                    self.next = entry.sequence + 1;
                    return Ok(Some(entry));
                }
                // A closed segment that ends early was damaged: go on with what follows.
                None if closed => self.next = self.following(segment.first),
                None => return Ok(None),
            }
        }
    }

    fn following(&self, first: Sequence) -> Sequence {
        let tail = self.partition.tail();
        let after = tail.segments.iter().find(|segment| segment.first > first);
        after.map_or(tail.next, |segment| segment.first)
    }

    fn go_to(&mut self, segment: Segment) -> Result<(), LogError> {
        let path = path_of(&self.partition.folder, segment.first);
        let mut file = File::open(&path).map_err(|error| LogError::io(&path, error))?;
        file.seek(SeekFrom::Start(HEADER)).map_err(|error| LogError::io(&path, error))?;
        self.buffer.clear();
        self.used = 0;
        self.next = self.next.max(segment.first);
        self.open = Some((segment.first, file, segment.first));
        Ok(())
    }

    fn read_entry(&mut self) -> Result<Option<Entry>, LogError> {
        let Some((_, file, sequence)) = &mut self.open else { return Ok(None) };
        loop {
            if let Decoded::Entry(bytes) = decode(&self.buffer[self.used..], *sequence) {
                let entry = Entry { sequence: *sequence, bytes: bytes.to_vec() };
                self.used += bytes.len() + ENTRY_HEADER as usize;
                *sequence += 1;
                return Ok(Some(entry));
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            let start = self.buffer.len();
            self.buffer.resize(start + READ, 0);
            let read = file.read(&mut self.buffer[start..]);
            let count = read.map_err(|error| LogError::io(&self.partition.folder, error))?;
            self.buffer.truncate(start + count);
            if count == 0 {
                return Ok(None);
            }
        }
    }
}

fn path_of(folder: &Path, first: Sequence) -> PathBuf {
    folder.join(format!("{first:020}.seg"))
}

/// The first numbers of the segments in a folder, in order.
fn list(folder: &Path) -> Result<Vec<Sequence>, LogError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| LogError::io(folder, error))? {
        let path = entry.map_err(|error| LogError::io(folder, error))?.path();
        if path.extension().is_some_and(|extension| extension == "seg")
            && let Some(first) = path.file_stem().and_then(|s| s.to_str()?.parse().ok())
        {
            found.push(first);
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn create(path: &Path, first: Sequence) -> Result<(), LogError> {
    let mut header = MAGIC.to_vec();
    header.extend(first.to_le_bytes());
    fs::write(path, header).map_err(|error| LogError::io(path, error))
}

fn writable(path: &Path, end: u64) -> Result<File, LogError> {
    let open = || {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        Ok(file)
    };
    open().map_err(|error| LogError::io(path, error))
}

/// Cuts a segment after its last whole entry; returns its length, 0 if nothing of it is usable, and
/// the number of the entry after it.
fn recover(
    path: &Path,
    first: Sequence,
    recovered: &mut Recovered,
) -> Result<(u64, Sequence), LogError> {
    let bytes = fs::read(path).map_err(|error| LogError::io(path, error))?;
    let mut header = MAGIC.to_vec();
    header.extend(first.to_le_bytes());
    let (name, version) = MAGIC.split_at(MAGIC.len() - 1);
    if let Some([other @ 1..=VERSION_MAX, ..]) = bytes.strip_prefix(name)
        && version != [*other]
        && bytes.len() >= header.len()
    {
        return Err(LogError::Unusable(format!(
            "{} is a log of version {other}, and this program reads version {}; remove the folder, or \
             give another one",
            path.display(),
            version[0]
        )));
    }
    if !bytes.starts_with(&header) {
        recovered.bytes_cut += bytes.len() as u64;
        return Ok((0, first));
    }
    let (mut at, mut next) = (header.len(), first);
    while let Decoded::Entry(entry) = decode(&bytes[at..], next) {
        at += entry.len() + ENTRY_HEADER as usize;
        next += 1;
    }
    recovered.entries += next - first;
    recovered.bytes_cut += (bytes.len() - at) as u64;
    Ok((at as u64, next))
}

enum Decoded<'a> {
    Entry(&'a [u8]),
    /// Not a whole entry, or not this one.
    Nothing,
}

fn encode(buffer: &mut Vec<u8>, sequence: Sequence, bytes: &[u8]) -> Result<(), LogError> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= ENTRY_MAX);
    let length = length.ok_or_else(|| {
        LogError::Unusable(format!("an entry of {} bytes is too long for the log", bytes.len()))
    })?;
    buffer.extend(length.to_le_bytes());
    buffer.extend(checksum(sequence, bytes).to_le_bytes());
    buffer.extend(bytes);
    Ok(())
}

fn decode(buffer: &[u8], sequence: Sequence) -> Decoded<'_> {
    let Some((header, rest)) = buffer.split_first_chunk::<8>() else { return Decoded::Nothing };
    let [a, b, c, d, w, x, y, z] = *header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    match rest.get(..length).filter(|_| length <= ENTRY_MAX) {
        Some(bytes) if checksum(sequence, bytes) == u32::from_le_bytes([w, x, y, z]) => {
            Decoded::Entry(bytes)
        }
        _ => Decoded::Nothing,
    }
}

fn checksum(sequence: Sequence, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&sequence.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}
