//! One process that has a block: its input, its output and its messages.
//!
//! No call here waits. The read ends of its pipes are only open in this process, so `O_NONBLOCK` affects no other one.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Result;
use fullbore::{Pages, Producer, ProducerOptions};
use fullbore_linux::pipe::with_capacity;
use rustix::io::Errno;
use rustix::process::Pid;

use super::input::Block;
use super::memory::Memory;
use crate::run::{Command, Starting};

/// The bytes of the first piece of memory for an output that waits for its turn.
const PIECE: usize = 256 << 10;

/// The bytes of the pieces after it, where memory is not short: huge pages need fewer page faults.
const LARGE: usize = 2 << 20;

/// The capacity of a pipe that nothing has enlarged.
const USUAL: usize = 64 << 10;

/// The most bytes that are dropped at a time.
const DROPPED: usize = 16;

/// Returns the capacity of a pipe for so many bytes.
fn least_of(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| most.min(bytes.max(USUAL)))
}

/// A block, and the process that has it.
pub struct Worker {
    pub number: u64,
    pub start: u64,
    pub bytes: u64,
    pub first: Vec<u8>,
    /// Which of the workers that run at a time it is, from 0.
    pub slot: usize,
    pub pid: Pid,
    pub status: Option<ExitStatus>,
    pub feed: Option<Feed>,
    pub output: Option<OwnedFd>,
    pub messages: Option<OwnedFd>,
    /// The start of a line on its stderr.
    pub line: Vec<u8>,
    /// What it has written before its turn, in pieces and the memory of each.
    pub kept: VecDeque<(Pages, usize)>,
    /// The last piece of that, and how much of it is filled.
    filling: Option<(Pages, usize)>,
    pub kept_bytes: usize,
    pub began: Instant,
    /// When all of its output had been read.
    pub ended: Option<Instant>,
    pub wrote: u64,
}

/// The bytes that a worker has yet to get.
pub struct Feed {
    out: Producer<OwnedFd>,
    header: Rc<[u8]>,
    written: usize,
    pages: Vec<Pages>,
    rest: Vec<u8>,
    rest_written: usize,
    /// The memory that they count for.
    pub charge: usize,
}

impl Feed {
    /// Gives the worker what its pipe has room for. Returns whether that was all.
    ///
    /// # Errors
    /// Those of the pipe, but for `EAGAIN`; `EPIPE` if the worker has closed its input.
    fn give(&mut self) -> io::Result<bool> {
        match self.give_all() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            given => given.map(|()| true),
        }
    }

    fn give_all(&mut self) -> io::Result<()> {
        while self.written < self.header.len() {
            self.written += self.out.write(&self.header[self.written..])?;
        }
        for pages in self.pages.drain(..) {
            // The producer keeps what it cannot send now.
            match self.out.send_pages(pages).map_err(io::Error::from) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        while self.rest_written < self.rest.len() {
            self.rest_written += self.out.write(&self.rest[self.rest_written..])?;
        }
        self.out.flush()
    }

    /// Returns the pipe.
    pub fn pipe(&self) -> &OwnedFd {
        self.out.get_ref()
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
        header: &Rc<[u8]>,
        block: Block,
        slot: usize,
    ) -> Result<Self, (io::Error, Block)> {
        let began = Instant::now();
        let start = || -> io::Result<_> {
            let (stdin, _) = with_capacity(least_of(block.bytes, pipe_size))?;
            let (stdout, _) = with_capacity(pipe_size)?;
            let stderr = fullbore::Pipe::new()?;
            for end in [&stdout.reader, &stderr.reader] {
                rustix::io::ioctl_fionbio(end, true)?;
            }
            let ends = [
                stdin.reader.as_fd(),
                stdout.writer.as_fd(),
                stderr.writer.as_fd(),
            ];
            let out = ProducerOptions::new().nonblocking(true).pipe_size(0);
            let out = out.open(stdin.writer)?;
            let pid = starting.start(command, ends.map(Some))?;
            Ok((pid, out, stdout.reader, stderr.reader))
        };
        match start() {
            Err(error) => Err((error, block)),
            Ok((pid, out, output, messages)) => Ok(Self {
                number: block.number,
                start: block.start,
                bytes: block.bytes,
                first: block.first,
                slot,
                pid,
                status: None,
                feed: Some(Feed {
                    out,
                    header: Rc::clone(header),
                    written: 0,
                    pages: block.pages,
                    rest: block.rest,
                    rest_written: 0,
                    charge: block.charge,
                }),
                output: Some(output),
                messages: Some(messages),
                line: Vec::new(),
                kept: VecDeque::new(),
                filling: None,
                kept_bytes: 0,
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

    /// Gives the worker a part of its block. After the last one it sees the end of its input.
    ///
    /// # Errors
    /// Those of the pipe. A worker that has closed its input gets no more.
    pub fn give(&mut self, memory: &mut Memory) -> io::Result<()> {
        let Some(feed) = &mut self.feed else {
            return Ok(());
        };
        match feed.give() {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
        memory.give_back(feed.charge);
        self.feed = None;
        Ok(())
    }

    /// Returns whether memory is left for more of its output.
    pub fn may_keep(&self, memory: &mut Memory) -> bool {
        self.filling.is_some() || memory.has(PIECE)
    }

    /// Returns the size of the next piece.
    fn piece(&self, memory: &Memory) -> usize {
        match self.kept_bytes >= PIECE && memory.is_ample_for(LARGE) {
            true => LARGE,
            false => PIECE,
        }
    }

    /// Keeps what it has written. Returns false if the kernel has no memory.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn keep(&mut self, memory: &mut Memory) -> Result<bool, Errno> {
        let Some(output) = &self.output else {
            return Ok(true);
        };
        let piece = self.piece(memory);
        while self.filling.is_some() || memory.has(PIECE) {
            let (pages, filled) = match &mut self.filling {
                Some(filling) => filling,
                none => {
                    let Ok(pages) = Pages::huge(piece) else {
                        memory.refuse();
                        return Ok(false);
                    };
                    memory.take_anyway(piece);
                    self.kept_bytes += piece;
                    none.insert((pages, 0))
                }
            };
            match rustix::io::read(output, &mut pages[*filled..]) {
                Ok(0) => {
                    self.output = None;
                    self.keep_short(memory);
                    return Ok(true);
                }
                Ok(n) => {
                    *filled += n;
                    self.wrote += n as u64;
                    if *filled == pages.len() {
                        let full = self.filling.take();
                        self.kept.extend(full);
                        return Ok(true);
                    }
                }
                Err(Errno::AGAIN) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }

    /// Puts the last piece behind the others. A short one gets memory of its size.
    pub fn keep_short(&mut self, memory: &mut Memory) {
        let Some((mut pages, filled)) = self.filling.take() else {
            return;
        };
        let small = filled.next_multiple_of(fullbore_linux::page_size());
        let mut uses = pages.len();
        let copy = (filled > 0 && small < uses / 2)
            .then(|| Pages::new(small).ok())
            .flatten();
        pages.truncate(filled);
        let whole = uses;
        if let Some(mut copy) = copy {
            copy[..filled].copy_from_slice(&pages);
            copy.truncate(filled);
            (pages, uses) = (copy, small);
        }
        if filled == 0 {
            uses = 0;
        } else {
            self.kept.push_back((pages, uses));
        }
        memory.give_back(whole - uses);
        self.kept_bytes -= whole - uses;
    }

    /// Reads and drops what it has written.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn discard(&mut self, memory: &mut Memory) -> Result<(), Errno> {
        self.filling = None;
        self.kept.clear();
        memory.give_back(std::mem::take(&mut self.kept_bytes));
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
