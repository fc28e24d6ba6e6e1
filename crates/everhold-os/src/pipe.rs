//! Pipes.

use std::collections::VecDeque;

use crate::abi::Errno;
use crate::abi::epoll::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDNORM, EPOLLWRNORM};
use crate::abi::open::{O_CLOEXEC, O_NONBLOCK, O_RDONLY, O_WRONLY};
use crate::descriptor::{Fd, Kind, Open};
use crate::host::Host;
use crate::slab::Id;
use crate::thread::Answer;

/// The bytes of a page, which are the unit of the room in a pipe.
const PAGE: usize = 4096;

/// The pages that a pipe holds.
const PAGES: usize = 16;

/// Bytes on their way from the writers to the readers, in pages as Linux keeps them.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pages: VecDeque<Page>,
    reader: Option<Id<Open>>,
    writer: Option<Id<Open>>,
}

#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    read: usize,
}

impl Pipe {
    pub(crate) fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.bytes.len() - page.read).sum()
    }

    fn is_full(&self) -> bool {
        self.pages.len() >= PAGES
    }

    pub(crate) fn reader_readiness(&self) -> u32 {
        let data = if self.pages.is_empty() { 0 } else { EPOLLIN | EPOLLRDNORM };
        data | if self.writer.is_none() { EPOLLHUP } else { 0 }
    }

    pub(crate) fn writer_readiness(&self) -> u32 {
        let room = if self.is_full() { 0 } else { EPOLLOUT | EPOLLWRNORM };
        room | if self.reader.is_none() { EPOLLERR } else { 0 }
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut taken = 0;
        while taken < into.len() {
            let Some(page) = self.pages.front_mut() else { break };
            let part = (page.bytes.len() - page.read).min(into.len() - taken);
            into[taken..taken + part].copy_from_slice(&page.bytes[page.read..page.read + part]);
            page.read += part;
            taken += part;
            if page.read == page.bytes.len() {
                self.pages.pop_front();
            }
        }
        taken
    }

    /// Fills the last page where the bytes that do not fill a page fit there, then new pages.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let mut put = 0;
        let odd = bytes.len() % PAGE;
        if let Some(page) = self.pages.back_mut()
            && odd > 0
            && page.bytes.len() + odd <= PAGE
        {
            page.bytes.extend_from_slice(&bytes[..odd]);
            put = odd;
        }
        while put < bytes.len() && !self.is_full() {
            let part = (bytes.len() - put).min(PAGE);
            self.pages.push_back(Page { bytes: bytes[put..put + part].to_vec(), read: 0 });
            put += part;
        }
        put
    }
}

impl Host {
    /// A pipe: the descriptor to read from, and the one to write to.
    pub fn pipe(&mut self, flags: i32) -> Result<(Fd, Fd), Errno> {
        if flags & !(O_NONBLOCK | O_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        self.check_room(2)?;
        let pipe = self.pipes.add(Pipe::default());
        let reader = self.add_open(Kind::PipeReader(pipe), O_RDONLY | flags)?;
        let writer = self.add_open(Kind::PipeWriter(pipe), O_WRONLY | flags)?;
        self.pipes[pipe].reader = Some(self.open_of(reader)?);
        self.pipes[pipe].writer = Some(self.open_of(writer)?);
        Ok((reader, writer))
    }

    pub(crate) fn pipe_read(&mut self, fd: Fd, id: Id<Pipe>, bytes: &mut [u8]) -> Answer<usize> {
        let pipe = &mut self.pipes[id];
        if bytes.is_empty() {
            return Ok(0);
        }
        let was_full = pipe.is_full();
        let taken = pipe.take(bytes);
        if taken == 0 && pipe.writer.is_some() {
            return Err(self.await_data(fd));
        }
        let pipe = &self.pipes[id];
        if let Some(writer) = pipe.writer.filter(|_| was_full && !pipe.is_full()) {
            self.notify(writer, EPOLLOUT | EPOLLWRNORM);
        }
        Ok(taken)
    }

    /// Up to a page is written at once or not at all.
    pub(crate) fn pipe_write(&mut self, fd: Fd, id: Id<Pipe>, bytes: &[u8]) -> Answer<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let moved = self.progress().moved;
        let Some(reader) = self.pipes[id].reader else {
            return if moved > 0 { Ok(moved) } else { Err(Errno::EPIPE.into()) };
        };
        let put = self.pipes[id].put(&bytes[moved..]);
        if put > 0 {
            self.notify(reader, EPOLLIN | EPOLLRDNORM);
        }
        let moved = moved + put;
        if moved == bytes.len() {
            return Ok(moved);
        }
        self.progress().moved = moved;
        match self.await_room(fd) {
            crate::Stop::Failed(_) if moved > 0 => Ok(moved),
            stop => Err(stop),
        }
    }

    pub(crate) fn pipe_close(&mut self, id: Id<Pipe>, is_writer: bool) {
        let pipe = &mut self.pipes[id];
        let end = if is_writer { &mut pipe.writer } else { &mut pipe.reader };
        *end = None;
        match (pipe.reader, pipe.writer) {
            (None, None) => drop(self.pipes.remove(id)),
            (Some(end), _) | (_, Some(end)) => {
                self.notify(end, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
            }
        }
    }
}
