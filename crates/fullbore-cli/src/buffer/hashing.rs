//! The digest of what passes: `--md5` and `--hash`. It is one more output, a pipe whose reader computes it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use fullbore_linux::{Aligned, Pipe};
use rustix::io::retry_on_intr;

use crate::copying::hash::{Algorithm, Digest};
use crate::error_text::with_limit;

/// The bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// The capacity of the pipe, where the limits allow it.
const PIPE: usize = 1 << 20;

/// A digest that is being computed.
pub struct Hashing {
    algorithm: Algorithm,
    pub pipe: OwnedFd,
    thread: JoinHandle<io::Result<Digest>>,
}

impl Hashing {
    /// Starts a thread that computes the digest of what is written to the pipe.
    ///
    /// # Errors
    /// If there is no pipe or no thread.
    pub fn start(algorithm: Algorithm) -> anyhow::Result<Self> {
        // The larger, the fewer times the two threads wait for each other.
        let made = fullbore_linux::pipe::with_capacity(PIPE);
        let Pipe { reader, writer } = made.context("make a pipe")?.0;
        let read = move || digest(algorithm, reader.into());
        let thread = std::thread::Builder::new().spawn(read);
        let thread = thread.map_err(|error| anyhow!("start a thread: {}", with_limit(&error)))?;
        Ok(Self {
            algorithm,
            pipe: writer,
            thread,
        })
    }

    /// Returns the line of mbuffer about the digest.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn finish(self) -> anyhow::Result<String> {
        drop(self.pipe);
        let ended = self.thread.join();
        let digest = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let text = digest.context("compute the digest")?.text();
        Ok(format!("{} hash: {text}", name(self.algorithm)))
    }
}

fn digest(algorithm: Algorithm, reader: File) -> io::Result<Digest> {
    let (mut digest, mut bytes) = (Digest::new(algorithm), Aligned::new(CHUNK));
    loop {
        match retry_on_intr(|| rustix::io::read(&reader, &mut bytes[..]))? {
            0 => return Ok(digest),
            count => digest.add(&bytes[..count]),
        }
    }
}

/// Returns the name of an algorithm as mbuffer writes it.
pub fn name(algorithm: Algorithm) -> String {
    let value = algorithm.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_ascii_uppercase())
}
