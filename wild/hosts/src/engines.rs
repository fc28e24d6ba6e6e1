//! The engines, each with the settings under which its documents promise durability.

mod atomic_file;
mod fjall;
mod persy;
mod queue_file;
mod redb;
mod sqlite;

pub use atomic_file::AtomicFile;
pub use fjall::Fjall;
pub use persy::Persy;
pub use queue_file::Queue;
pub use redb::Redb;
pub use sqlite::{Journal, Sqlite};

use crate::{Entries, Failure};

/// Entries as bytes, for engines that store bytes: lengths, keys and values.
fn encode(entries: &Entries) -> Vec<u8> {
    let parts = entries.iter().flat_map(|(key, value)| [key.as_bytes(), value]);
    parts.flat_map(|part| [&(part.len() as u32).to_le_bytes(), part].concat()).collect()
}

fn decode(mut bytes: &[u8]) -> Result<Entries, Failure> {
    let mut entries = Entries::new();
    while !bytes.is_empty() {
        let key = part(&mut bytes)?.to_vec();
        entries.insert(String::from_utf8(key)?, part(&mut bytes)?.to_vec());
    }
    Ok(entries)
}

fn part<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Failure> {
    let (length, rest) = bytes.split_first_chunk().ok_or("a length is cut off")?;
    let length = u32::from_le_bytes(*length) as usize;
    let (part, rest) = rest.split_at_checked(length).ok_or("an entry is cut off")?;
    *bytes = rest;
    Ok(part)
}
