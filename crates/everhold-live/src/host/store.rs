//! A node's disk as a folder: a journal of synced writes, which is compacted from time to time.
//!
//! ```text
//! disk        generation (u64), then an entry for each write that makes up the state
//! journal.G   the writes since the state of generation G
//! entry       length (u32), CRC-32 (u32), write
//! boots       the number of starts of the node
//! lock        held while a process uses the folder
//! ```
//!
//! Every synced write is in the journal on the medium before a message of the same event leaves. A
//! process that is killed leaves at most an incomplete last entry, on which no message depended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use everhold_node::Disk;
use everhold_node::disk::Write;

/// The excess of the journal's length over the state's at which it is compacted.
const SLACK: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    generation: u64,
    journal: File,
    journal_bytes: u64,
    state_bytes: u64,
    _lock: File,
}

impl Store {
    /// Opens the folder of a node; returns its disk and the number of this start, from 1.
    pub(super) fn open(folder: &Path) -> io::Result<(Store, Disk, u64)> {
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.try_lock().map_err(|_| {
            let text = "another process uses this folder; is the node running already?";
            io::Error::new(io::ErrorKind::AddrInUse, text)
        })?;
        let boots = match fs::read_to_string(folder.join("boots")) {
            Ok(text) => text.trim().parse().unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        } + 1;
        replace(folder, "boots", format!("{boots}\n").as_bytes())?;

        let state = read(&folder.join("disk"))?;
        let (generation, state) = match state.split_first_chunk() {
            Some((generation, state)) => (u64::from_le_bytes(*generation), state),
            None => (0, &[][..]),
        };
        let (mut writes, state_bytes) = entries(state);
        let path = journal_path(folder, generation);
        let (later, journal_bytes) = entries(&read(&path)?);
        writes.extend(later);
        let journal = OpenOptions::new().create(true).append(true).open(path)?;
        journal.set_len(journal_bytes)?;
        let folder = folder.to_owned();
        let store = Store { folder, generation, journal, journal_bytes, state_bytes, _lock: lock };
        Ok((store, Disk::journaled(writes), boots))
    }

    /// Appends the writes that the disk synced since the last call. On return they are on the
    /// medium.
    pub(super) fn commit(&mut self, disk: &mut Disk) -> io::Result<()> {
        let writes = disk.take_synced();
        if writes.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        writes.iter().for_each(|write| put_entry(&mut bytes, write));
        self.journal.write_all(&bytes)?;
        self.journal.sync_data()?;
        self.journal_bytes += bytes.len() as u64;
        if self.journal_bytes > 2 * self.state_bytes + SLACK { self.compact(disk) } else { Ok(()) }
    }

    /// Writes a new state. The replacement of `disk` is the moment from which the next journal
    /// counts: a crash before it leaves the old pair, a crash after it the new one.
    fn compact(&mut self, disk: &Disk) -> io::Result<()> {
        let next = self.generation + 1;
        let journal = File::create(journal_path(&self.folder, next))?;
        journal.sync_data()?;
        let mut bytes = next.to_le_bytes().to_vec();
        disk.as_writes().for_each(|write| put_entry(&mut bytes, &write));
        replace(&self.folder, "disk", &bytes)?;
        fs::remove_file(journal_path(&self.folder, self.generation))?;
        self.state_bytes = bytes.len() as u64;
        self.journal = journal;
        self.journal_bytes = 0;
        self.generation = next;
        Ok(())
    }
}

fn journal_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("journal.{generation}"))
}

/// Replaces a small file such that a crash leaves either the old or the new content.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, folder.join(name))?;
    File::open(folder)?.sync_all()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn put_entry(bytes: &mut Vec<u8>, write: &Write) {
    let body = postcard::to_allocvec(write).expect("a write can be serialised");
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
}

/// Returns the complete entries and their total length; the bytes after them are an incomplete
/// entry.
fn entries(mut bytes: &[u8]) -> (Vec<Write>, u64) {
    let (mut writes, all) = (Vec::new(), bytes.len());
    while let Some((write, rest)) = entry(bytes) {
        writes.push(write);
        bytes = rest;
    }
    (writes, (all - bytes.len()) as u64)
}

fn entry(bytes: &[u8]) -> Option<(Write, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    Some((postcard::from_bytes(body).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("everhold-store-{}-{name}", std::process::id());
            Folder(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A kill at any byte of the journal leaves a prefix of the committed writes.
    #[test]
    fn a_journal_cut_anywhere_is_a_prefix() {
        let folder = Folder::new("cut");
        let (mut store, mut disk, boots) = Store::open(&folder.0).unwrap();
        assert_eq!(boots, 1);
        for n in 0..3u8 {
            disk.append("log", &[n; 3]);
            disk.sync();
            disk.put("unsynced", &[n]);
            store.commit(&mut disk).unwrap();
        }
        drop(store);
        let path = folder.0.join("journal.0");
        let whole = fs::read(&path).unwrap();
        let mut last = 3;
        for length in (0..=whole.len()).rev() {
            fs::write(&path, &whole[..length]).unwrap();
            let (_, disk, _) = Store::open(&folder.0).unwrap();
            let entries = disk.log("log");
            assert!(entries.len() <= last);
            last = entries.len();
            let expected: Vec<_> = (0..last as u8).map(|n| vec![n; 3]).collect();
            assert_eq!(entries, expected);
        }
        assert_eq!(last, 0);
    }

    #[test]
    fn compacting_keeps_everything_and_the_folder_small() {
        let folder = Folder::new("compact");
        let (mut store, mut disk, _) = Store::open(&folder.0).unwrap();
        for n in 0..60u32 {
            disk.put("big", &vec![n as u8; 100_000]);
            disk.append("log", &n.to_le_bytes());
            disk.sync();
            store.commit(&mut disk).unwrap();
        }
        assert!(store.generation > 0 && store.journal_bytes < 2 * SLACK);
        drop(store);
        let (_store, disk, boots) = Store::open(&folder.0).unwrap();
        assert_eq!(boots, 2);
        assert_eq!(disk.get("big"), Some(&vec![59; 100_000][..]));
        assert_eq!(disk.log("log").len(), 60);
        let error = Store::open(&folder.0).unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
    }
}
