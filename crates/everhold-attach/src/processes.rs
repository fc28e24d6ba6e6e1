//! Processes, as `/proc` shows them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::language::Identity;

/// A file, however it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(path: &Path) -> Option<FileId> {
        let data = fs::metadata(path).ok()?;
        Some(FileId { device: data.dev(), inode: data.ino() })
    }
}

/// The executable of a process: the file that it runs, even if its name now means another one.
pub(crate) fn executable(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/exe"))
}

/// The name of the executable of a process, for people.
pub(crate) fn executable_name(process: u32) -> Option<PathBuf> {
    fs::read_link(executable(process)).ok()
}

/// The name of this machine that no other has.
pub(crate) fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty());
    let found = read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/random/boot_id"));
    found.unwrap_or_default().trim().to_owned()
}

/// The number of the network namespace of a process.
pub(crate) fn network_namespace(process: u32) -> u64 {
    fs::metadata(format!("/proc/{process}/ns/net")).map_or(0, |data| data.ino())
}

/// All processes that run this file.
pub(crate) fn running(file: FileId) -> Vec<u32> {
    let mut found = all();
    found.retain(|process| FileId::of(&executable(*process)) == Some(file));
    found
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// The libraries that a process has loaded, by the name it knows them by and by a name that works
/// from here, whatever it sees of the file system.
pub(crate) fn libraries(process: u32) -> Vec<(PathBuf, PathBuf)> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let own = executable_name(process);
    let mut found = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let is_code = words.nth(1).is_some_and(|flags| flags.contains('x'));
        let Some(name) = words.nth(3).filter(|name| is_code && name.starts_with('/')) else {
            continue;
        };
        let name = PathBuf::from(name);
        if Some(&name) != own.as_ref() && found.iter().all(|(known, _)| *known != name) {
            let inside = name.strip_prefix("/").unwrap_or(&name).to_owned();
            found.push((name, PathBuf::from(format!("/proc/{process}/root")).join(inside)));
        }
    }
    found
}

/// The name of the node that a process is.
pub(crate) fn node_name(process: u32, identity: &Identity) -> Result<String, String> {
    let missing = |what: String| format!("process {process} has {what}");
    let folder = PathBuf::from(format!("/proc/{process}"));
    let words = |file: &str| -> Vec<String> {
        let bytes = fs::read(folder.join(file)).unwrap_or_default();
        let parts = bytes.split(|byte| *byte == 0);
        parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    };
    match identity {
        Identity::Process => Ok(format!("{}-{process}", program_name(process))),
        Identity::Argument(name) => {
            let arguments = words("cmdline");
            let found = arguments.iter().enumerate().find_map(|(index, word)| {
                if word == name {
                    return arguments.get(index + 1).cloned();
                }
                Some(word.strip_prefix(name.as_str())?.strip_prefix('=')?.to_owned())
            });
            found.ok_or_else(|| missing(format!("no argument {name}, which names its node")))
        }
        Identity::Environment(name) => {
            let found = words("environ").into_iter().find_map(|word| {
                Some(word.strip_prefix(name.as_str())?.strip_prefix('=')?.to_owned())
            });
            found.ok_or_else(|| missing(format!("no variable {name}, which names its node")))
        }
        Identity::File(name) => {
            let base = if name.starts_with('/') { "root" } else { "cwd" };
            let path = folder.join(base).join(name.trim_start_matches('/'));
            let text = fs::read_to_string(&path).unwrap_or_default();
            let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
            line.map(str::to_owned)
                .ok_or_else(|| missing(format!("no file {name}, which names its node")))
        }
        Identity::Address => listening(process)
            .into_iter()
            .next()
            .ok_or_else(|| missing("no port on which it listens, which names its node".to_owned())),
    }
}

/// The name of the program of a process.
pub(crate) fn program_name(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "process".to_owned() } else { name.to_owned() }
}

/// The addresses on which a process listens, by port.
fn listening(process: u32) -> Vec<String> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let sockets: Vec<String> = descriptors
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let target = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
            Some(target)
        })
        .collect();
    let mut found = BTreeMap::new();
    for table in ["tcp", "tcp6"] {
        let path = format!("/proc/{process}/net/{table}");
        for line in fs::read_to_string(path).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, local, _, state, .., _] = fields[..] else { continue };
            let is_own = fields.get(9).is_some_and(|inode| sockets.iter().any(|s| s == inode));
            if let Some((_, port)) = local.split_once(':').filter(|_| is_own && state == "0A")
                && let Ok(port) = u16::from_str_radix(port, 16)
            {
                found.insert(port, format!("port-{port}"));
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_process_has_a_name_and_libraries() {
        let own = std::process::id();
        let name = node_name(own, &Identity::Process).unwrap();
        assert!(name.ends_with(&format!("-{own}")), "{name}");
        assert!(libraries(own).iter().any(|(name, _)| name.to_string_lossy().contains("libc")));
        let file = FileId::of(&executable(own)).unwrap();
        assert!(running(file).contains(&own));
        let missing = node_name(own, &Identity::Argument("--no-such".into())).unwrap_err();
        assert!(missing.contains("no argument --no-such"), "{missing}");
    }

    #[test]
    fn a_listening_process_is_named_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listening(std::process::id()).contains(&format!("port-{port}")));
    }
}
