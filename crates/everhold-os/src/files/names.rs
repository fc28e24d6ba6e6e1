//! Paths, directories, and the calls that change names.

use std::collections::BTreeMap;
use std::time::Duration;

use everhold_node::volume::{FileId, Shape};

use crate::abi::Errno;
use crate::abi::open::{
    O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_RDONLY, O_TMPFILE, O_TRUNC,
};
use crate::descriptor::{Fd, Kind};
use crate::device::Device;
use crate::host::Host;

use super::{Directory, Disk, Entry, FileKind, Notes, OpenFile, Status};

/// Stands for the working directory, where a call takes a directory.
pub const AT_FDCWD: Fd = -100;

/// The most bytes of a name.
const LONGEST_NAME: usize = 255;

/// The most symbolic links on the way to a file.
const LINKS_MAX: u32 = 40;

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// Never: the call is about the name.
    Itself,
    /// If a slash comes after it.
    Slashed,
    Target,
    /// Always, to a file that is made if it is not there.
    Created,
}

/// The rest of the way along a path.
#[derive(Default)]
struct Way<'a> {
    /// The names that come, the next one last.
    parts: Vec<&'a str>,
    wants_directory: bool,
    /// The last part is a dot, which leads to a directory itself.
    ends_in_dot: bool,
    links: u32,
}

impl<'a> Way<'a> {
    /// Goes along another path first, that of a symbolic link or the first one.
    fn follow(&mut self, path: &'a str) {
        if self.parts.is_empty() {
            self.wants_directory |= path.ends_with('/') || path.ends_with("/.") || path == ".";
            let last = path.rsplit('/').find(|part| !part.is_empty());
            self.ends_in_dot |= last.is_none_or(|part| part == ".");
        }
        self.parts.extend(path.rsplit('/').filter(|part| !matches!(*part, "" | ".")));
    }
}

/// Where a path leads: a name in a directory, or a directory itself.
pub(super) struct Place {
    pub(super) directory: Directory,
    /// The last name of the path; nothing for the root, `.` and `..`.
    pub(super) name: Option<String>,
    /// The file that is there, or the directory itself.
    pub(super) found: Option<Directory>,
    /// The path ends with a slash, so it has to be a directory.
    pub(super) wants_directory: bool,
}

/// The name of an entry in the volume.
fn key(directory: Directory, name: &str) -> String {
    match directory {
        None => name.to_owned(),
        Some(FileId(number)) => format!("{number}/{name}"),
    }
}

/// A text about names in the volume, with the paths of directories for their numbers.
pub(super) fn readable(text: &str, paths: &BTreeMap<u32, String>) -> String {
    let word = |word: &str| {
        let path = word.split_once('/').and_then(|(number, name)| {
            let path = paths.get(&number.parse().ok()?)?;
            Some(format!("{path}/{name}"))
        });
        path.unwrap_or_else(|| word.to_owned())
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

impl Disk {
    fn lookup(&self, directory: Directory, name: &str) -> Option<FileId> {
        self.volume.now().names.get(&key(directory, name)).copied()
    }

    /// The directory in which a directory has its name, and that name.
    fn parent(&self, directory: FileId) -> Option<(Directory, &str)> {
        let names = &self.volume.now().names;
        let (key, _) = names.iter().find(|(_, file)| **file == directory)?;
        Some(match key.split_once('/') {
            None => (None, key.as_str()),
            Some((number, name)) => (Some(FileId(number.parse().ok()?)), name),
        })
    }

    pub(super) fn path(&self, file: FileId) -> Option<String> {
        let (parent, name) = self.parent(file)?;
        match parent {
            None => Some(name.to_owned()),
            Some(parent) => Some(format!("{}/{name}", self.path(parent)?)),
        }
    }

    /// The paths of all directories, by their numbers.
    pub(super) fn directories(&self) -> BTreeMap<u32, String> {
        let files = self.volume.now().files.keys().copied();
        let directories = files.filter(|file| self.is_directory(*file));
        directories.filter_map(|file| Some((file.0, self.path(file)?))).collect()
    }

    /// The names in a directory with their files, in order.
    fn entries(&self, directory: Directory) -> Vec<(&str, FileId)> {
        let names = &self.volume.now().names;
        let Some(FileId(number)) = directory else {
            let all = names.iter().filter(|(key, _)| !key.contains('/'));
            return all.map(|(key, file)| (key.as_str(), *file)).collect();
        };
        let prefix = format!("{number}/");
        let from = names.range(prefix.clone()..);
        let within = from.take_while(|(key, _)| key.starts_with(&prefix));
        within.map(|(key, file)| (&key[prefix.len()..], *file)).collect()
    }

    /// Whether a directory still has a name.
    fn is_reachable(&self, directory: Directory) -> bool {
        directory.is_none_or(|directory| self.parent(directory).is_some())
    }

    fn is_within(&self, mut directory: Directory, above: FileId) -> bool {
        while let Some(inner) = directory {
            if inner == above {
                return true;
            }
            directory = self.parent(inner).and_then(|(parent, _)| parent);
        }
        false
    }

    pub(super) fn status(&self, file: Directory) -> Status {
        let Some(id) = file else {
            let links = 2 + self.subdirectories(None);
            let (inode, kind) = (1, FileKind::Directory);
            return Status {
                inode,
                kind,
                mode: 0o755,
                links,
                size: 4096,
                modified: Default::default(),
            };
        };
        let is_directory = self.is_directory(id);
        let notes = self.notes.get(&id).copied();
        let mode = if is_directory { 0o755 } else { 0o644 };
        let notes = notes.unwrap_or(Notes { mode, modified: Duration::ZERO });
        let names = self.volume.now().names.values().filter(|named| **named == id).count() as u64;
        if let Some(target) = self.target(id) {
            let (kind, size) = (FileKind::Link, target.len() as u64);
            let Notes { modified, .. } = notes;
            let inode = u64::from(id.0) + 2;
            return Status { inode, kind, mode: 0o777, links: names, size, modified };
        }
        let (kind, links, size) = match is_directory {
            true if names == 0 => (FileKind::Directory, 0, 4096),
            true => (FileKind::Directory, 2 + self.subdirectories(file), 4096),
            false => (FileKind::Regular, names, self.size(id)),
        };
        let Notes { mode, modified } = notes;
        Status { inode: u64::from(id.0) + 2, kind, mode, links, size, modified }
    }

    fn subdirectories(&self, directory: Directory) -> u64 {
        let entries = self.entries(directory);
        entries.iter().filter(|(_, file)| self.is_directory(*file)).count() as u64
    }
}

impl Host {
    /// Follows a path.
    pub(super) fn place(&self, at: Fd, path: &[u8]) -> Result<Place, Errno> {
        self.place_of(at, path, Last::Itself)
    }

    pub(super) fn place_of(&self, at: Fd, path: &[u8], last: Last) -> Result<Place, Errno> {
        let path = std::str::from_utf8(path).map_err(|_| Errno::EINVAL)?;
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut directory = if path.starts_with('/') { None } else { self.starting_at(at)? };
        let disk = &self.files.disk;
        let mut way = Way::default();
        way.follow(path);
        while let Some(part) = way.parts.pop() {
            if part.len() > LONGEST_NAME {
                return Err(Errno::ENAMETOOLONG);
            }
            if part == ".." {
                let parent = directory.and_then(|inner| disk.parent(inner));
                directory = parent.and_then(|(parent, _)| parent);
                continue;
            }
            let found = disk.lookup(directory, part);
            let is_last = way.parts.is_empty() && !way.ends_in_dot;
            let is_followed = match last {
                Last::Itself => !is_last,
                Last::Slashed => !is_last || way.wants_directory,
                Last::Target | Last::Created => true,
            };
            if let Some(target) = found.and_then(|file| disk.target(file)).filter(|_| is_followed) {
                way.links += 1;
                if way.links > LINKS_MAX {
                    return Err(Errno::ELOOP);
                }
                if is_last && last == Last::Created && target.ends_with('/') {
                    return Err(Errno::EISDIR);
                }
                if target.starts_with('/') {
                    directory = None;
                }
                way.follow(target);
                continue;
            }
            let Way { wants_directory, .. } = way;
            if is_last {
                let name = Some(part.to_owned());
                let found = found.map(Some);
                return Ok(Place { directory, name, found, wants_directory });
            }
            let inner = found.ok_or(Errno::ENOENT)?;
            if !disk.is_directory(inner) {
                return Err(Errno::ENOTDIR);
            }
            directory = Some(inner);
        }
        let Way { wants_directory, .. } = way;
        Ok(Place { directory, name: None, found: Some(directory), wants_directory })
    }

    fn starting_at(&self, at: Fd) -> Result<Directory, Errno> {
        if at == AT_FDCWD {
            return Ok(self.files.working);
        }
        match &self.open[self.open_of(at)?].kind {
            Kind::File(OpenFile { file, is_directory: true, .. }) => Ok(*file),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Where a path leads, if something is there.
    fn existing(&self, at: Fd, path: &[u8]) -> Result<Directory, Errno> {
        self.existing_of(at, path, Last::Target)
    }

    pub(super) fn existing_of(&self, at: Fd, path: &[u8], last: Last) -> Result<Directory, Errno> {
        let place = self.place_of(at, path, last)?;
        let found = place.found.ok_or(Errno::ENOENT)?;
        let is_directory = found.is_none_or(|file| self.files.disk.is_directory(file));
        if place.wants_directory && !is_directory { Err(Errno::ENOTDIR) } else { Ok(found) }
    }

    /// Opens a file, and makes it if the flags say so.
    ///
    /// ```
    /// use everhold_os::{AT_FDCWD, Host, abi::open::{O_CREAT, O_RDWR}};
    /// let mut host = Host::for_tests();
    /// let wal = host.openat(AT_FDCWD, b"/wal", O_CREAT | O_RDWR, 0o600)?;
    /// host.write(wal, b"x=1")?;
    /// host.fsync(wal)?;
    /// assert_eq!(host.fstat(wal)?.size, 3);
    /// # Ok::<(), everhold_os::Stop>(())
    /// ```
    pub fn openat(&mut self, at: Fd, path: &[u8], flags: i32, mode: u32) -> Result<Fd, Errno> {
        if flags & O_TMPFILE == O_TMPFILE {
            return Err(Errno::EOPNOTSUPP);
        }
        if flags & O_CREAT != 0 && flags & O_DIRECTORY != 0 {
            return Err(Errno::EINVAL);
        }
        if let Some(device) = Device::of(path) {
            return self.open_device(device, flags);
        }
        let is_new = flags & O_CREAT != 0 && flags & O_EXCL != 0;
        let last = match flags & O_CREAT != 0 && path.ends_with(b"/") {
            true => Last::Itself,
            false if is_new || flags & O_NOFOLLOW != 0 => Last::Slashed,
            false if flags & O_CREAT != 0 => Last::Created,
            false => Last::Target,
        };
        let place = self.place_of(at, path, last)?;
        if flags & O_CREAT != 0 && place.wants_directory && place.name.is_some() {
            return Err(Errno::EISDIR);
        }
        self.check_room(1)?;
        let file = match place.found {
            Some(_) if is_new => return Err(Errno::EEXIST),
            Some(Some(file)) if self.files.disk.target(file).is_some() => {
                return Err(if flags & O_DIRECTORY != 0 { Errno::ENOTDIR } else { Errno::ELOOP });
            }
            Some(found) => self.opened(&place, found, flags)?,
            None if flags & O_CREAT == 0 => return Err(Errno::ENOENT),
            None => Some(self.made(&place, Shape::Bytes, mode)?),
        };
        let is_directory = file.is_none_or(|file| self.files.disk.is_directory(file));
        if let Some(file) = file {
            self.files.disk.volume.hold(file);
        }
        self.add_open(Kind::File(OpenFile { file, is_directory, position: 0 }), flags)
    }

    /// Checks that a file that is there can be opened so, and empties it if asked to.
    fn opened(&mut self, place: &Place, found: Directory, flags: i32) -> Result<Directory, Errno> {
        let writes = flags & O_ACCMODE != O_RDONLY;
        match found.filter(|file| !self.files.disk.is_directory(*file)) {
            None if writes || flags & (O_CREAT | O_TRUNC) != 0 => Err(Errno::EISDIR),
            None => Ok(found),
            Some(_) if flags & O_DIRECTORY != 0 || place.wants_directory => Err(Errno::ENOTDIR),
            Some(file) => {
                if flags & O_TRUNC != 0 && flags & O_PATH == 0 {
                    self.files.disk.volume.set_length(file, 0);
                    self.touch(file);
                }
                Ok(found)
            }
        }
    }

    pub(super) fn made(&mut self, place: &Place, shape: Shape, mode: u32) -> Result<FileId, Errno> {
        let name = place.name.as_ref().ok_or(Errno::EEXIST)?;
        if !self.files.disk.is_reachable(place.directory) {
            return Err(Errno::ENOENT);
        }
        let file = self.files.disk.volume.create(&key(place.directory, name), shape);
        let modified = self.clock(crate::ClockId::Realtime);
        self.files.disk.notes.insert(file, Notes { mode: mode & 0o7777, modified });
        Ok(file)
    }

    /// Makes a directory.
    pub fn mkdirat(&mut self, at: Fd, path: &[u8], mode: u32) -> Result<(), Errno> {
        let place = self.place(at, path)?;
        if place.found.is_some() {
            return Err(Errno::EEXIST);
        }
        self.made(&place, Shape::Record, mode).map(|_| ())
    }

    /// Takes the name of a file away. The file stays while it is open or has other names.
    pub fn unlinkat(&mut self, at: Fd, path: &[u8]) -> Result<(), Errno> {
        if self.unix_unlink(path) {
            return Ok(());
        }
        let place = self.place(at, path)?;
        let Some(name) = &place.name else { return Err(Errno::EISDIR) };
        let found = place.found.flatten().ok_or(Errno::ENOENT)?;
        match self.files.disk.is_directory(found) {
            true => Err(Errno::EISDIR),
            false if place.wants_directory => Err(Errno::ENOTDIR),
            false => {
                self.files.disk.volume.unlink(&key(place.directory, name));
                Ok(())
            }
        }
    }

    /// Removes a directory that is empty.
    pub fn rmdirat(&mut self, at: Fd, path: &[u8]) -> Result<(), Errno> {
        let place = self.place(at, path)?;
        let Some(name) = &place.name else {
            return Err(match path.ends_with(b"..") || path.ends_with(b"../") {
                true => Errno::ENOTEMPTY,
                false if place.directory.is_none() && !path.ends_with(b".") => Errno::EBUSY,
                false => Errno::EINVAL,
            });
        };
        let found = place.found.flatten().ok_or(Errno::ENOENT)?;
        if !self.files.disk.is_directory(found) {
            return Err(Errno::ENOTDIR);
        }
        if !self.files.disk.entries(Some(found)).is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.files.disk.volume.unlink(&key(place.directory, name));
        Ok(())
    }

    /// Gives a file another name, in one step. What had that name loses it, unless `keeps`.
    pub fn renameat(
        &mut self,
        (from_at, from): (Fd, &[u8]),
        (to_at, to): (Fd, &[u8]),
        keeps: bool,
    ) -> Result<(), Errno> {
        let (from, to) = (self.place(from_at, from)?, self.place(to_at, to)?);
        let disk = &self.files.disk;
        let old = from.name.as_ref().ok_or(Errno::EBUSY)?;
        let new = to.name.as_ref().ok_or(if keeps { Errno::EEXIST } else { Errno::EBUSY })?;
        let file = from.found.flatten().ok_or(Errno::ENOENT)?;
        if keeps && to.found.is_some() {
            return Err(Errno::EEXIST);
        }
        let is_directory = disk.is_directory(file);
        if !is_directory && (from.wants_directory || to.wants_directory) {
            return Err(Errno::ENOTDIR);
        }
        if is_directory && disk.is_within(to.directory, file) {
            return Err(Errno::EINVAL);
        }
        if !disk.is_reachable(to.directory) {
            return Err(Errno::ENOENT);
        }
        if let Some(replaced) = to.found.flatten() {
            if replaced == file {
                return Ok(());
            }
            match (is_directory, disk.is_directory(replaced)) {
                _ if disk.is_within(from.directory, replaced) => return Err(Errno::ENOTEMPTY),
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                (true, true) if !disk.entries(Some(replaced)).is_empty() => {
                    return Err(Errno::ENOTEMPTY);
                }
                _ => {}
            }
        }
        let (from, to) = (key(from.directory, old), key(to.directory, new));
        self.files.disk.volume.rename(&from, &to);
        Ok(())
    }

    /// Gives a file one more name.
    pub fn linkat(&mut self, from: (Fd, &[u8]), to: (Fd, &[u8])) -> Result<(), Errno> {
        let file = self.existing_of(from.0, from.1, Last::Slashed)?;
        let place = self.place(to.0, to.1)?;
        if place.found.is_some() {
            return Err(Errno::EEXIST);
        }
        let name = place.name.as_ref().ok_or(Errno::EEXIST)?;
        if place.wants_directory {
            return Err(Errno::ENOENT);
        }
        let file = file.filter(|file| !self.files.disk.is_directory(*file)).ok_or(Errno::EPERM)?;
        if !self.files.disk.is_reachable(place.directory) {
            return Err(Errno::ENOENT);
        }
        let names = &self.files.disk.volume.now().names;
        let (old, _) = names.iter().find(|(_, named)| **named == file).ok_or(Errno::ENOENT)?;
        let old = old.clone();
        self.files.disk.volume.link(&old, &key(place.directory, name));
        Ok(())
    }

    /// `stat` and `fstatat`.
    pub fn statat(&self, at: Fd, path: &[u8]) -> Result<Status, Errno> {
        self.status_of(at, path, Last::Target)
    }

    /// `lstat`, and `fstatat` with `AT_SYMLINK_NOFOLLOW`: a symbolic link itself.
    pub fn lstatat(&self, at: Fd, path: &[u8]) -> Result<Status, Errno> {
        self.status_of(at, path, Last::Slashed)
    }

    fn status_of(&self, at: Fd, path: &[u8], last: Last) -> Result<Status, Errno> {
        if self.unix_has(path) || Device::of(path).is_some() {
            let modified = Duration::ZERO;
            let (kind, mode) = (FileKind::Other, 0o755);
            return Ok(Status { inode: 1 << 33, kind, mode, links: 1, size: 0, modified });
        }
        Ok(self.files.disk.status(self.existing_of(at, path, last)?))
    }

    /// Whether a path is free for the name of a Unix socket.
    pub(crate) fn check_socket_path(&self, path: &[u8]) -> Result<(), Errno> {
        let place = self.place(AT_FDCWD, path)?;
        if place.found.is_some() { Err(Errno::EADDRINUSE) } else { Ok(()) }
    }

    /// Whether a path leads to a file. Everything is permitted.
    pub fn accessat(&self, at: Fd, path: &[u8]) -> Result<(), Errno> {
        if self.unix_has(path) || Device::of(path).is_some() {
            return Ok(());
        }
        self.existing(at, path).map(|_| ())
    }

    /// The permissions of a file, which are kept and answered but have no effect.
    pub fn chmodat(&mut self, at: Fd, path: &[u8], mode: u32) -> Result<(), Errno> {
        let Some(file) = self.existing(at, path)? else { return Err(Errno::EPERM) };
        let modified = self.files.disk.status(Some(file)).modified;
        self.files.disk.notes.insert(file, Notes { mode: mode & 0o7777, modified });
        Ok(())
    }

    /// Where relative paths begin from now on.
    pub fn chdir(&mut self, path: &[u8]) -> Result<(), Errno> {
        let found = self.existing(AT_FDCWD, path)?;
        if found.is_some_and(|file| !self.files.disk.is_directory(file)) {
            return Err(Errno::ENOTDIR);
        }
        self.files.working = found;
        Ok(())
    }

    /// The path of the working directory. ENOENT if it was removed.
    pub fn getcwd(&self) -> Result<String, Errno> {
        match self.files.working {
            None => Ok("/".to_owned()),
            Some(file) => Ok(format!("/{}", self.files.disk.path(file).ok_or(Errno::ENOENT)?)),
        }
    }

    /// The names in an open directory, in order, after `.` and `..`.
    pub fn read_directory(&self, fd: Fd) -> Result<Vec<Entry>, Errno> {
        let Kind::File(OpenFile { file, is_directory: true, .. }) =
            &self.open[self.open_of(fd)?].kind
        else {
            return Err(Errno::ENOTDIR);
        };
        let disk = &self.files.disk;
        if !disk.is_reachable(*file) {
            return Ok(Vec::new());
        }
        let parent = file.and_then(|file| disk.parent(file)).and_then(|(parent, _)| parent);
        let entry = |name: &str, file: Directory| {
            let Status { inode, kind, .. } = disk.status(file);
            Entry { name: name.to_owned(), inode, kind }
        };
        let mut entries = vec![entry(".", *file), entry("..", parent)];
        entries.extend(disk.entries(*file).into_iter().map(|(name, file)| entry(name, Some(file))));
        Ok(entries)
    }
}
