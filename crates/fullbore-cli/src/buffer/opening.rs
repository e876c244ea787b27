//! Opens the ends of a buffer: files and connections.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use fullbore_host::refusal::Usage;
use fullbore_host::text::error_text;
use rustix::fs::FileType;
use rustix::mm::MlockAllFlags;

use super::messages::Messages;
use super::network::Address;
use super::outputs::{Outputs, Wanted};
use crate::moving::{Existing, Input, Output, Source};

/// What is opened, and how.
pub struct Opening<'a> {
    pub input: Option<&'a Path>,
    pub outputs: &'a Outputs,
    /// What becomes of output files that exist.
    pub existing: Existing,
    pub atomic: bool,
    pub stop_on_error: bool,
    pub tcpbuffer: Option<usize>,
    pub tcptimeo: Option<Duration>,
    pub watchdog: Option<Duration>,
    pub messages: &'a Messages,
}

/// The outputs that could be opened, the connection that each is, and whether all could be opened.
type Opened = (Vec<Output>, Vec<Option<TcpStream>>, bool);

impl Opening<'_> {
    /// Opens the input, or waits for the connection that it is.
    ///
    /// # Errors
    /// Those of open(2), or that there is no connection.
    pub fn input(&self) -> anyhow::Result<(Input, Source)> {
        let Some(address) = &self.outputs.listen else {
            let named: Vec<PathBuf> = self.input.iter().map(Into::into).collect();
            let input = Input::all(&named).remove(0);
            let source = input.open()?;
            return Ok((input, source));
        };
        let within = self.watchdog.filter(|_| self.outputs.is_watched);
        let stream = address.accept(self.tcpbuffer, within, |text| self.messages.warn(&text))?;
        let input = Input::File(address.to_string().into());
        Ok((input, Source::File(OwnedFd::from(stream).into())))
    }

    /// Opens the outputs. As with mbuffer, those that cannot be opened do not stop the others. Returns for each of them
    /// the connection that it is, and whether all could be opened.
    ///
    /// # Errors
    /// If none can be opened, or with -e one cannot; or if an output is the input.
    pub fn outputs(&self, input: &Input) -> anyhow::Result<Opened> {
        let all = self.outputs.all(self.existing, self.atomic)?;
        let inputs = std::slice::from_ref(input);
        for output in &all {
            if let Wanted::File(output) = output {
                output.refuse(inputs)?;
            }
        }
        let (mut opened, mut connections, mut last) = (Vec::new(), Vec::new(), None);
        for output in all {
            let result = match output {
                Wanted::File(mut output) => output.open(inputs).map(|()| (output, None)),
                Wanted::Connection(address) => self.connect(&address),
            };
            match result {
                Ok((output, connection)) => {
                    opened.push(output);
                    connections.push(connection);
                }
                Err(error) if error.is::<Usage>() || self.stop_on_error => return Err(error),
                Err(error) => {
                    if let Some(before) = last.replace(error) {
                        self.messages.error(&before);
                    }
                }
            }
        }
        match last {
            None => Ok((opened, connections, true)),
            Some(error) if opened.is_empty() => Err(error),
            Some(error) => {
                self.messages.error(&error);
                Ok((opened, connections, false))
            }
        }
    }

    fn connect(&self, address: &Address) -> anyhow::Result<(Output, Option<TcpStream>)> {
        let stream = address.connect(self.tcpbuffer, self.tcptimeo)?;
        let file = stream.try_clone().context("dup a connection")?;
        let output = Output::opened(address.to_string().into(), OwnedFd::from(file).into());
        Ok((output, Some(stream)))
    }
}

/// Returns the block size of an output that is a device.
pub fn device_block(output: &Output) -> Option<usize> {
    let stat = rustix::fs::fstat(output).ok()?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
    usize::try_from(stat.st_blksize)
        .ok()
        .filter(|&bytes| is_device && bytes > 0)
}

/// Keeps the memory that is mapped now from being swapped out, as it is taken. As with mbuffer, it goes on without. With
/// `MCL_FUTURE`, what is mapped later would have to fit into RLIMIT_MEMLOCK too: the buffer, and the stacks of threads.
pub fn lock_memory(messages: &Messages) {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
    if let Err(errno) = rustix::mm::mlockall(flags) {
        let why = error_text(&errno.into());
        messages.warn(&format!(
            "the memory cannot be locked: {why} (ulimit -l, or CAP_IPC_LOCK)"
        ));
    }
}
