//! Symbolic links, and the times of files.

use std::time::Duration;

use everhold_node::volume::{FileId, Shape};

use crate::abi::Errno;
use crate::descriptor::{Fd, Kind};
use crate::host::Host;

use super::names::Last;
use super::{Disk, Notes, OpenFile};

/// The longest path that a symbolic link holds.
const LONGEST_TARGET: usize = 4_095;

impl Disk {
    /// Where a symbolic link leads; nothing for other files.
    pub(super) fn target(&self, file: FileId) -> Option<&str> {
        self.targets.get(&file).map(String::as_str)
    }
}

impl Host {
    /// Makes a symbolic link.
    ///
    /// # Errors
    ///
    /// As `symlinkat`.
    pub fn symlinkat(&mut self, target: &[u8], at: Fd, path: &[u8]) -> Result<(), Errno> {
        let target = std::str::from_utf8(target).map_err(|_| Errno::EINVAL)?;
        match target.len() {
            0 => return Err(Errno::ENOENT),
            1..=LONGEST_TARGET => {}
            _ => return Err(Errno::ENAMETOOLONG),
        }
        let place = self.place(at, path)?;
        if place.found.is_some() {
            return Err(Errno::EEXIST);
        }
        if place.wants_directory {
            return Err(Errno::ENOENT);
        }
        let file = self.made(&place, Shape::Log, 0o777)?;
        self.files.disk.targets.insert(file, target.to_owned());
        Ok(())
    }

    /// Where a symbolic link leads. EINVAL for other files.
    ///
    /// # Errors
    ///
    /// As `readlinkat`.
    pub fn readlinkat(&self, at: Fd, path: &[u8]) -> Result<&str, Errno> {
        let file = self.existing_of(at, path, Last::Slashed)?;
        file.and_then(|file| self.files.disk.target(file)).ok_or(Errno::EINVAL)
    }

    /// Sets the time at which a file was written, as the time since 1970.
    ///
    /// # Errors
    ///
    /// As `utimensat`.
    pub fn set_modified_at(&mut self, at: Fd, path: &[u8], time: Duration) -> Result<(), Errno> {
        let file = self.existing_of(at, path, Last::Target)?;
        self.note_modified(file, time);
        Ok(())
    }

    /// The same for an open file.
    ///
    /// # Errors
    ///
    /// As `futimens`.
    pub fn set_modified(&mut self, fd: Fd, time: Duration) -> Result<(), Errno> {
        let Kind::File(OpenFile { file, .. }) = &self.open[self.open_of(fd)?].kind else {
            return Err(Errno::EINVAL);
        };
        let file = *file;
        self.note_modified(file, time);
        Ok(())
    }

    fn note_modified(&mut self, file: Option<FileId>, modified: Duration) {
        if let Some(file) = file {
            let mode = self.files.disk.status(Some(file)).mode;
            self.files.disk.notes.insert(file, Notes { mode, modified });
        }
    }

    /// Sets the permissions of an open file, which have no effect.
    ///
    /// # Errors
    ///
    /// As `fchmod`.
    pub fn fchmod(&mut self, fd: Fd, mode: u32) -> Result<(), Errno> {
        let Kind::File(OpenFile { file, .. }) = &self.open[self.open_of(fd)?].kind else {
            return Err(Errno::EINVAL);
        };
        let Some(file) = *file else { return Err(Errno::EPERM) };
        let modified = self.files.disk.status(Some(file)).modified;
        self.files.disk.notes.insert(file, Notes { mode: mode & 0o7777, modified });
        Ok(())
    }

    /// Where relative paths begin from now on, as an open directory.
    ///
    /// # Errors
    ///
    /// As `fchdir`.
    pub fn fchdir(&mut self, fd: Fd) -> Result<(), Errno> {
        match &self.open[self.open_of(fd)?].kind {
            Kind::File(OpenFile { file, is_directory: true, .. }) => {
                self.files.working = *file;
                Ok(())
            }
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The path without symbolic links and dots, for `realpath`.
    ///
    /// # Errors
    ///
    /// As `realpath`.
    pub fn real_path(&self, at: Fd, path: &[u8]) -> Result<String, Errno> {
        let file = self.existing_of(at, path, Last::Target)?;
        let place = self.place_of(at, path, Last::Target)?;
        let of = |file: FileId| self.files.disk.path(file).ok_or(Errno::ENOENT);
        match (place.name, place.directory, file) {
            // A file may have several names.
            (Some(name), None, _) => Ok(format!("/{name}")),
            (Some(name), Some(directory), _) => Ok(format!("/{}/{name}", of(directory)?)),
            (None, _, None) => Ok("/".to_owned()),
            (None, _, Some(file)) => Ok(format!("/{}", of(file)?)),
        }
    }
}
