//! One process that has a block: its input, its output and its messages.
//!
//! No call here waits. These ends of its pipes are only open in this process, so `O_NONBLOCK` affects no other one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use fullbore::Pages;
use fullbore_linux::page_size;
use fullbore_linux::pipe::with_capacity;
use rustix::io::Errno;
use rustix::process::Pid;

use super::input::{Block, OVERHEAD};
use super::memory::{Memory, Part};
use crate::run::{Command, Starting};

/// The bytes of a piece of memory for an output that waits for its turn.
const PIECE: usize = 256 << 10;

/// The capacity of a pipe that nothing has enlarged.
const USUAL: usize = 64 << 10;

/// The most bytes that are dropped at a time.
const DROPPED: usize = 16;

/// Returns whether what a worker writes at once fits behind the filled part. read(2) discards the rest of a packet, and
/// a worker may have put its stdout into packet mode (pipe(7)).
pub fn has_room(memory: &[u8], filled: usize) -> bool {
    memory.len() - filled >= page_size()
}

/// Returns the capacity of a pipe for so many bytes.
fn least_of(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| most.min(bytes.max(USUAL)))
}

/// A block, and the process that has it.
pub struct Worker {
    pub block: Block,
    /// Which of the workers that run at a time it is, from 0.
    pub slot: usize,
    pub pid: Pid,
    pub status: Option<ExitStatus>,
    pub feed: Option<Feed>,
    pub output: Option<Arc<OwnedFd>>,
    pub messages: Option<OwnedFd>,
    /// The start of a line on its stderr.
    pub line: Vec<u8>,
    /// What it has written before its turn.
    pub kept: VecDeque<Part>,
    /// The last piece of that, and how much of it is filled.
    filling: Option<(Pages, usize)>,
    pub began: Instant,
    /// When all of its output had been read.
    pub ended: Option<Instant>,
    pub wrote: u64,
}

/// Its input.
pub struct Feed {
    pub pipe: OwnedFd,
    pub capacity: usize,
    /// The bytes of the first part of the block that it has got.
    written: usize,
}

impl Feed {
    /// Gives the worker the parts that its pipe has room for, and counts the bytes.
    ///
    /// # Errors
    /// Those of write(2), but for `EAGAIN`; `EPIPE` if the worker has closed its input.
    fn give(
        &mut self,
        parts: &mut VecDeque<Part>,
        memory: &mut Memory,
        given: &mut usize,
    ) -> Result<(), Errno> {
        while let Some(part) = parts.front() {
            let left = &part[self.written..];
            if left.is_empty() {
                parts
                    .pop_front()
                    .into_iter()
                    .for_each(|part| memory.free(part));
                self.written = 0;
                continue;
            }
            match rustix::io::write(&self.pipe, left) {
                Ok(n) => {
                    self.written += n;
                    *given += n;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

impl Worker {
    /// Starts a process for a block.
    ///
    /// # Errors
    /// Those of pipe(2), fork(2) and execve(2), with the block.
    pub fn start(
        starting: &Starting,
        command: &Command,
        pipe_size: usize,
        header: &Arc<[u8]>,
        mut block: Block,
        slot: usize,
    ) -> Result<Self, (io::Error, Block)> {
        let began = Instant::now();
        let start = || -> io::Result<_> {
            let wanted = match block.is_open {
                true => pipe_size,
                false => least_of(block.bytes, pipe_size),
            };
            let (stdin, grown) = with_capacity(wanted)?;
            let (stdout, _) = with_capacity(pipe_size)?;
            let stderr = fullbore::Pipe::new()?;
            for end in [&stdin.writer, &stdout.reader, &stderr.reader] {
                rustix::io::ioctl_fionbio(end, true)?;
            }
            let ends = [
                stdin.reader.as_fd(),
                stdout.writer.as_fd(),
                stderr.writer.as_fd(),
            ];
            let pid = starting.start(command, ends.map(Some))?;
            let capacity = grown.after;
            Ok((pid, capacity, stdin.writer, stdout.reader, stderr.reader))
        };
        match start() {
            Err(error) => Err((error, block)),
            Ok((pid, capacity, pipe, output, messages)) => Ok(Self {
                block: {
                    block.parts.push_front(Part::Shared(Arc::clone(header)));
                    block
                },
                slot,
                pid,
                status: None,
                feed: Some(Feed {
                    pipe,
                    capacity,
                    written: 0,
                }),
                output: Some(Arc::new(output)),
                messages: Some(messages),
                line: Vec::new(),
                kept: VecDeque::new(),
                filling: None,
                began,
                ended: None,
                wrote: 0,
            }),
        }
    }

    /// Whether it has ended, and all of its output was read.
    pub fn has_ended(&self) -> bool {
        self.status.is_some() && self.output.is_none() && self.messages.is_none()
    }

    /// Whether it has got all that was read of its block.
    pub fn has_all(&self) -> bool {
        self.block.parts.is_empty()
    }

    /// Gives the worker a part of its block, and returns how much. After the last one it sees the end of its input.
    ///
    /// # Errors
    /// Those of write(2). A worker that has closed its input gets no more.
    pub fn give(&mut self, memory: &mut Memory) -> Result<usize, Errno> {
        let mut given = 0;
        let parts = &mut self.block.parts;
        match (self.feed.as_mut()).map(|feed| feed.give(parts, memory, &mut given)) {
            Some(Ok(())) if self.block.is_open || !self.has_all() => {}
            Some(Err(errno)) if errno != Errno::PIPE => return Err(errno),
            _ => self.forget_input(memory),
        }
        Ok(given)
    }

    /// Closes its input, and takes back the memory of what it has not got.
    pub fn forget_input(&mut self, memory: &mut Memory) {
        self.block
            .parts
            .drain(..)
            .for_each(|part| memory.free(part));
        if self.feed.take().is_some() {
            memory.give_back(OVERHEAD);
        }
    }

    /// Returns whether memory is left for more of its output.
    pub fn may_keep(&self, memory: &mut Memory) -> bool {
        self.filling.is_some() || memory.has(PIECE)
    }

    /// Keeps what it has written, as far as there is memory.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn keep(&mut self, memory: &mut Memory) -> Result<(), Errno> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        while self.filling.is_some() || memory.has(PIECE) {
            let (pages, filled) = match &mut self.filling {
                Some(filling) => filling,
                none => match memory.pages(PIECE) {
                    Some(pages) => none.insert((pages, 0)),
                    None => {
                        memory.refuse();
                        return Ok(());
                    }
                },
            };
            match rustix::io::read(output, &mut pages[*filled..]) {
                Ok(0) => {
                    self.output = None;
                    self.keep_short(memory);
                    return Ok(());
                }
                Ok(n) => {
                    *filled += n;
                    self.wrote += n as u64;
                    if !has_room(pages, *filled) {
                        let full = self.filling.take();
                        (self.kept)
                            .extend(full.map(|(pages, filled)| Part::Pages(pages, 0..filled)));
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Puts the last piece behind the others. A short one gets memory of its size.
    pub fn keep_short(&mut self, memory: &mut Memory) {
        let Some((pages, filled)) = self.filling.take() else {
            return;
        };
        if filled >= pages.len() / 2 {
            self.kept.push_back(Part::Pages(pages, 0..filled));
            return;
        }
        if filled > 0 {
            memory.take_anyway(filled);
            self.kept.push_back(Part::Bytes(pages[..filled].to_vec()));
        }
        memory.free(Part::Pages(pages, 0..0));
    }

    /// Reads and drops what it has written.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn discard(&mut self, memory: &mut Memory) -> Result<(), Errno> {
        if let Some((pages, _)) = self.filling.take() {
            memory.free(Part::Pages(pages, 0..0));
        }
        self.kept.drain(..).for_each(|part| memory.free(part));
        let mut dropped = [0; USUAL];
        for _ in 0..DROPPED {
            let Some(output) = &self.output else {
                break;
            };
            match rustix::io::read(output, &mut dropped[..]) {
                Ok(0) => self.output = None,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
