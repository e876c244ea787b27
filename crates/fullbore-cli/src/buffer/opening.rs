//! Opens the ends of a buffer: files and connections.

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use fullbore_host::text::error_text;
use rustix::fs::FileType;
use rustix::mm::MlockAllFlags;

use super::messages::Messages;
use super::network::Address;
use super::options::Options;
use super::outputs::Place;
use super::sealed::{Receiving, Sending};
use crate::copying::{Input, Output};
use crate::exit;

/// What a buffer reads from, and writes to.
pub struct Ends {
    pub input: Input,
    pub source: Arc<File>,
    pub sinks: Vec<Sink>,
    /// Whether all outputs could be opened.
    pub all_opened: bool,
    /// The input, if it is a connection with a sealed stream.
    pub receiving: Option<Receiving>,
}

/// An output, with its connection if it is a TCP connection.
pub struct Sink {
    pub output: Output,
    pub connection: Option<Connection>,
}

/// A connection that is an output.
pub enum Connection {
    Plain(TcpStream),
    Sealed(Sending),
}

impl Options {
    /// Opens the input, or waits for the connection that it is, and then the outputs. As with mbuffer, outputs that
    /// cannot be opened do not stop the others.
    ///
    /// # Errors
    /// Those of opening the input. If no output can be opened, or with -e one cannot; or if an output is the input.
    pub fn open(&self, messages: &Messages) -> anyhow::Result<Ends> {
        let (input, source, receiving) = self.open_input(messages)?;
        let is_atomic = self.atomic || self.at_least.is_given();
        let all = self.outputs.all(self.existing(), is_atomic)?;
        let inputs = std::slice::from_ref(&input);
        for output in &all {
            if let Place::File(output) = output {
                output.refuse(inputs)?;
            }
        }
        let (mut sinks, mut failures) = (Vec::new(), Vec::new());
        for output in all {
            let opened = match output {
                Place::File(mut output) => {
                    let inputs = inputs.to_vec();
                    let what = format!("{output} could not be opened");
                    self.within(what, move || {
                        let connection = None;
                        output.open(&inputs).map(|()| Sink { output, connection })
                    })
                }
                Place::Connection(address) => {
                    let (buffer, timeout) = (self.tcpbuffer, self.tcptimeo);
                    let what = match self.seal {
                        true => format!("{address} did not greet as a receiver with --unseal does"),
                        false => format!("there was no connection to {address}"),
                    };
                    let seals = self.seal.then_some((self.watchdog, self.sync));
                    self.within(what, move || connect(&address, buffer, timeout, seals))
                }
            };
            match opened {
                Ok(sink) => sinks.push(sink),
                Err(error) if exit::is_usage(&error) || self.stop_on_error => return Err(error),
                Err(error) => failures.push(error),
            }
        }
        let last = sinks.is_empty().then(|| failures.pop()).flatten();
        failures.iter().for_each(|error| messages.error(error));
        match last {
            Some(error) => Err(error),
            None => Ok(Ends {
                input,
                source,
                sinks,
                all_opened: failures.is_empty(),
                receiving,
            }),
        }
    }

    fn open_input(
        &self,
        messages: &Messages,
    ) -> anyhow::Result<(Input, Arc<File>, Option<Receiving>)> {
        let Some(address) = &self.outputs.listen else {
            let input = Input::all(self.input.as_slice()).remove(0);
            let opened = input.clone();
            let what = format!("{input} could not be opened");
            let source = self.within(what, move || opened.open())?;
            return Ok((input, source, None));
        };
        // mbuffer's stands before -I if it is about that too.
        let is_watched = self.outputs.is_watched || !self.as_mbuffer;
        let within = self.watchdog.filter(|_| is_watched);
        let stream = address.accept(self.tcpbuffer, within, |text| messages.warn(&text))?;
        let input = Input::File(address.to_string().into());
        if self.unseal {
            let (receiving, file) = Receiving::start(stream)?;
            return Ok((input, Arc::new(file), Some(receiving)));
        }
        Ok((input, Arc::new(OwnedFd::from(stream).into()), None))
    }

    /// Returns what `open` returns, if it does so within the time of the watchdog. Otherwise it is left waiting: open(2) of
    /// a FIFO waits for its other end, and that of a network file system for a server.
    ///
    /// # Errors
    /// Those of `open`; `what` has not been done if it takes too long.
    pub fn within<T: Send + 'static>(
        &self,
        what: String,
        open: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let Some(limit) = self.watchdog else {
            return open();
        };
        let (done, opened) = channel();
        let opening = thread::Builder::new().spawn(move || {
            let _ = done.send(open());
        });
        let opening = opening.context("start a thread")?;
        let Ok(outcome) = opened.recv_timeout(limit) else {
            let seconds = limit.as_secs_f64();
            bail!("watchdog: {what} within {seconds} s");
        };
        // What is opened next may have to be opened by the only thread.
        let _ = opening.join();
        outcome
    }
}

/// Connects to a host; with `seals`, the time of the watchdog and whether the receiver has to wait for its disk, for a
/// sealed stream.
fn connect(
    address: &Address,
    buffer: Option<usize>,
    timeout: Option<Duration>,
    seals: Option<(Option<Duration>, bool)>,
) -> anyhow::Result<Sink> {
    let stream = address.connect(buffer, timeout)?;
    let (file, connection) = match seals {
        Some((within, is_synced)) => {
            let started = Sending::start(stream, within, is_synced);
            let (sending, file) = started.with_context(|| format!("connect to {address}"))?;
            (file, Connection::Sealed(sending))
        }
        None => {
            let file = stream.try_clone().context("dup a connection")?;
            (OwnedFd::from(file).into(), Connection::Plain(stream))
        }
    };
    Ok(Sink {
        output: Output::File(address.to_string().into(), file),
        connection: Some(connection),
    })
}

/// Returns the block size of an output that is a device.
pub fn device_block(output: &Output) -> Option<usize> {
    let stat = rustix::fs::fstat(output).ok()?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
    let block = usize::try_from(stat.st_blksize).ok();
    block.filter(|&bytes| is_device && bytes > 0)
}

/// Keeps the memory that is mapped now from being swapped out, as it is taken. As with mbuffer, it goes on without. With
/// `MCL_FUTURE`, what is mapped later would have to fit into RLIMIT_MEMLOCK too: the buffer, and the stacks of threads.
pub fn lock_memory(messages: &Messages) {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
    if let Err(errno) = rustix::mm::mlockall(flags) {
        let why = error_text(&errno.into());
        // Without CAP_IPC_LOCK, EPERM is a limit of 0, ENOMEM a higher one (mlock(2)).
        let limit = match errno {
            rustix::io::Errno::NOMEM | rustix::io::Errno::PERM => {
                " ('ulimit -l' is the limit without CAP_IPC_LOCK)"
            }
            _ => "",
        };
        messages.warn(&format!("the memory cannot be locked: {why}{limit}"));
    }
}
