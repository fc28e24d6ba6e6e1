//! The calls on open files.

use std::ops::Range;

use everhold_node::volume::FileId;

use crate::abi::Errno;
use crate::abi::epoll::EPOLLPRI;
use crate::abi::open::{
    FALLOC_FL_KEEP_SIZE, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, O_ACCMODE, O_APPEND, O_PATH, O_RDONLY,
    O_WRONLY, SEEK_CUR, SEEK_END, SEEK_SET,
};
use crate::descriptor::{Fd, Kind, Open};
use crate::host::Host;
use crate::slab::Id;
use crate::thread::{Answer, Reason};

use super::{Directory, LARGEST_FILE, OpenFile, Space, Status};

impl Host {
    /// The open file of the disk under a descriptor; `other` if it is something else.
    fn open_file(&self, fd: Fd, other: Errno) -> Result<(Id<Open>, &OpenFile), Errno> {
        let open = self.open_of(fd)?;
        match &self.open[open].kind {
            Kind::File(file) => Ok((open, file)),
            _ => Err(other),
        }
    }

    fn open_file_mut(&mut self, open: Id<Open>) -> &mut OpenFile {
        match &mut self.open[open].kind {
            Kind::File(file) => file,
            _ => unreachable!("the file is one of the disk"),
        }
    }

    /// The file with bytes under a descriptor; EISDIR for directories.
    fn regular(&self, fd: Fd, other: Errno) -> Result<(Id<Open>, FileId), Errno> {
        match self.open_file(fd, other)? {
            (open, OpenFile { file: Some(file), is_directory: false, .. }) => Ok((open, *file)),
            _ => Err(Errno::EISDIR),
        }
    }

    fn is_opened_for(&self, open: Id<Open>, not: i32) -> bool {
        self.open[open].flags & O_ACCMODE != not
    }

    pub(crate) fn file_bytes_to_read(&self, file: &OpenFile) -> Result<usize, Errno> {
        let id = file.file.filter(|_| !file.is_directory).ok_or(Errno::ENOTTY)?;
        Ok(self.files.disk.size(id).saturating_sub(file.position) as usize)
    }

    pub(crate) fn file_read(&mut self, fd: Fd, bytes: &mut [u8]) -> Result<usize, Errno> {
        let (open, file) = self.regular(fd, Errno::EINVAL)?;
        let position = self.open_file(fd, Errno::EINVAL)?.1.position;
        let count = self.files.disk.read(file, position, bytes);
        self.open_file_mut(open).position += count as u64;
        Ok(count)
    }

    pub(crate) fn file_write(&mut self, fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
        let (open, file) = self.regular(fd, Errno::EINVAL)?;
        let appends = self.open[open].flags & O_APPEND != 0;
        let size = self.files.disk.size(file);
        let position = if appends { size } else { self.open_file_mut(open).position };
        let count = self.put(file, position, bytes)?;
        self.open_file_mut(open).position = position + count as u64;
        Ok(count)
    }

    /// Writes what fits.
    fn put(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.check_space(file, offset.saturating_add(bytes.len() as u64))?;
        self.files.disk.volume.write(file, offset, bytes);
        self.touch(file);
        Ok(bytes.len())
    }

    /// Reads from a place, without moving the position.
    pub fn pread(&mut self, fd: Fd, bytes: &mut [u8], offset: i64) -> Result<usize, Errno> {
        let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let (open, _) = self.open_file(fd, Errno::ESPIPE)?;
        if !self.is_opened_for(open, O_WRONLY) || self.open[open].flags & O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        let (_, file) = self.regular(fd, Errno::ESPIPE)?;
        Ok(self.files.disk.read(file, offset, bytes))
    }

    /// Writes at a place, without moving the position. With `O_APPEND` the place is the end.
    pub fn pwrite(&mut self, fd: Fd, bytes: &[u8], offset: i64) -> Result<usize, Errno> {
        let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let (open, _) = self.open_file(fd, Errno::ESPIPE)?;
        if !self.is_opened_for(open, O_RDONLY) {
            return Err(Errno::EBADF);
        }
        let (_, file) = self.regular(fd, Errno::ESPIPE)?;
        let appends = self.open[open].flags & O_APPEND != 0;
        let offset = if appends { self.files.disk.size(file) } else { offset };
        self.put(file, offset, bytes)
    }

    /// Moves the position.
    pub fn lseek(&mut self, fd: Fd, offset: i64, whence: i32) -> Result<u64, Errno> {
        let (open, file) = self.open_file(fd, Errno::ESPIPE)?;
        let from = match whence {
            SEEK_SET => 0,
            SEEK_CUR => file.position as i64,
            SEEK_END if file.is_directory => return Err(Errno::EINVAL),
            SEEK_END => file.file.map_or(0, |file| self.files.disk.size(file) as i64),
            _ => return Err(Errno::EINVAL),
        };
        let to = from.checked_add(offset).and_then(|to| u64::try_from(to).ok());
        let to = to.ok_or(Errno::EINVAL)?;
        self.open_file_mut(open).position = to;
        Ok(to)
    }

    /// Sets the length of a file.
    pub fn ftruncate(&mut self, fd: Fd, length: i64) -> Result<(), Errno> {
        let length = u64::try_from(length).map_err(|_| Errno::EINVAL)?;
        let (open, _) = self.open_file(fd, Errno::EINVAL)?;
        let (_, file) = self.regular(fd, Errno::EINVAL).map_err(|_| Errno::EINVAL)?;
        if !self.is_opened_for(open, O_RDONLY) {
            return Err(Errno::EINVAL);
        }
        if length > LARGEST_FILE {
            return Err(Errno::EFBIG);
        }
        self.files.disk.volume.set_length(file, length);
        self.touch(file);
        Ok(())
    }

    /// Makes a file so long that a range is within it. Holes cannot be made.
    pub fn fallocate(&mut self, fd: Fd, mode: i32, offset: i64, length: i64) -> Result<(), Errno> {
        if offset < 0 || length <= 0 {
            return Err(Errno::EINVAL);
        }
        if mode & !FALLOC_FL_KEEP_SIZE != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let (open, _) = self.open_file(fd, Errno::ENODEV)?;
        if !self.is_opened_for(open, O_RDONLY) {
            return Err(Errno::EBADF);
        }
        let (_, file) = self.regular(fd, Errno::ENODEV)?;
        let end = (offset as u64).saturating_add(length as u64);
        self.check_space(file, end)?;
        if mode == 0 && end > self.files.disk.size(file) {
            self.files.disk.volume.set_length(file, end);
        }
        Ok(())
    }

    /// `fsync` and `fdatasync`: of a file its contents, of a directory its names.
    pub fn fsync(&mut self, fd: Fd) -> Result<(), Errno> {
        let (_, OpenFile { file, is_directory, .. }) = self.open_file(fd, Errno::EINVAL)?;
        let (file, is_directory) = (*file, *is_directory);
        self.check_sync(file.filter(|_| !is_directory))?;
        match file {
            Some(file) if !is_directory => self.files.disk.volume.sync_file(file),
            Some(FileId(number)) => {
                let prefix = format!("{number}/");
                self.files.disk.volume.sync_names_where(&|name| name.starts_with(&prefix));
            }
            None => self.files.disk.volume.sync_names_where(&|name| !name.contains('/')),
        }
        Ok(())
    }

    /// `sync` and `syncfs`: everything.
    pub fn sync(&mut self) {
        self.files.disk.volume.sync();
    }

    /// `sync_file_range`, which promises nothing after a crash.
    pub fn sync_file_range(&mut self, fd: Fd) -> Result<(), Errno> {
        self.open_file(fd, Errno::ESPIPE).map(|_| ())
    }

    /// A sync may fail once, and the pages that it was to write count as clean.
    fn check_sync(&mut self, file: Option<FileId>) -> Result<(), Errno> {
        if self.files.failed_syncs >= self.settings.disk.failing_syncs {
            return Ok(());
        }
        if self.choose("fsync fails", 2) == 0 {
            return Ok(());
        }
        self.files.failed_syncs += 1;
        if file.is_some() {
            self.files.disk.volume.fail_sync(file);
        }
        Err(Errno::EIO)
    }

    /// The answer of `fstat`.
    pub fn fstat(&self, fd: Fd) -> Result<Status, Errno> {
        let open = self.open_of(fd)?;
        let Kind::File(file) = &self.open[open].kind else {
            let kind = super::FileKind::Other;
            let inode = (1 << 32) + u64::from(open.number());
            let modified = std::time::Duration::ZERO;
            return Ok(Status { inode, kind, mode: 0o600, links: 1, size: 0, modified });
        };
        Ok(self.files.disk.status(file.file))
    }

    /// The room of the disk, for `statvfs`.
    #[must_use]
    pub fn space(&self) -> Space {
        let total = self.settings.disk.space;
        Space { total, free: total.saturating_sub(self.files.disk.used()) }
    }

    /// Takes or gives back an advisory lock of a whole file.
    pub fn flock(&mut self, fd: Fd, operation: i32) -> Answer<()> {
        let answer = self.flock_once(fd, operation);
        self.settle(answer)
    }

    fn flock_once(&mut self, fd: Fd, operation: i32) -> Answer<()> {
        let (open, file) = self.open_file(fd, Errno::EBADF)?;
        let Some(file) = file.file else { return Ok(()) };
        let alone = match operation & !LOCK_NB {
            LOCK_UN => {
                self.unlock(file, open);
                return Ok(());
            }
            LOCK_SH => false,
            LOCK_EX => true,
            _ => return Err(Errno::EINVAL.into()),
        };
        let locks = self.files.locks.entry(file).or_default();
        let others =
            locks.iter().filter(|(holder, exclusive)| *holder != open && (alone || *exclusive));
        let others: Vec<(Id<Open>, u32)> = others.map(|(holder, _)| (*holder, EPOLLPRI)).collect();
        // A lock of the other kind is given back before the new one is taken.
        if locks.iter().any(|(holder, exclusive)| *holder == open && *exclusive != alone) {
            self.unlock(file, open);
        }
        if others.is_empty() {
            let locks = self.files.locks.entry(file).or_default();
            if !locks.iter().any(|(holder, _)| *holder == open) {
                locks.push((open, alone));
            }
            return Ok(());
        }
        if operation & LOCK_NB != 0 {
            return Err(Errno::EAGAIN.into());
        }
        Err(self.park(Reason::Descriptor("a lock", fd), &others, Errno::EAGAIN))
    }

    /// `fcntl` with `F_SETLK` or `F_SETLKW`: a record lock belongs to the process, so it never
    /// waits for another thread of the host. `F_GETLK` finds none.
    pub fn record_lock(&self, fd: Fd, alone: bool) -> Result<(), Errno> {
        let (open, _) = self.open_file(fd, Errno::EINVAL)?;
        let fits = self.is_opened_for(open, if alone { O_RDONLY } else { O_WRONLY });
        if fits { Ok(()) } else { Err(Errno::EBADF) }
    }

    fn unlock(&mut self, file: FileId, open: Id<Open>) {
        let Some(locks) = self.files.locks.get_mut(&file) else { return };
        let before = locks.len();
        locks.retain(|(holder, _)| *holder != open);
        let is_given_back = locks.len() < before;
        if locks.is_empty() {
            self.files.locks.remove(&file);
        }
        if is_given_back {
            self.notify(open, EPOLLPRI);
        }
    }

    /// The last descriptor of an open file was closed.
    pub(crate) fn file_close(&mut self, open: Id<Open>, file: Directory) {
        if let Some(file) = file {
            self.unlock(file, open);
            self.files.disk.volume.release(file);
        }
    }

    /// The bytes of a file for a mapping: those of the range, and zeros after its end. ENODEV for
    /// what has no bytes, EACCES if it is not open for reading.
    pub fn map(&self, fd: Fd, range: Range<u64>) -> Result<Vec<u8>, Errno> {
        let (open, file) = self.regular(fd, Errno::ENODEV).map_err(|errno| match errno {
            Errno::EISDIR => Errno::ENODEV,
            other => other,
        })?;
        if !self.is_opened_for(open, O_WRONLY) {
            return Err(Errno::EACCES);
        }
        let length = range.end.checked_sub(range.start).ok_or(Errno::EINVAL)?;
        if length > LARGEST_FILE {
            return Err(Errno::ENOMEM);
        }
        let mut bytes = vec![0; length as usize];
        self.files.disk.read(file, range.start, &mut bytes);
        Ok(bytes)
    }

    /// Records what a shared mapping has changed, as far as the file goes. A sync after it, by
    /// `msync` or `fsync`, makes it durable.
    pub fn write_back(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let (open, file) = self.regular(fd, Errno::ENODEV)?;
        if !self.is_opened_for(open, O_RDONLY) {
            return Err(Errno::EACCES);
        }
        let room = self.files.disk.size(file).saturating_sub(offset);
        let count = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.put(file, offset, &bytes[..count]).map(|_| ())
    }
}
