//! Implements what programs in the middle of a pipeline do with the pages that pass through them.
//!
//! Programs in use have each of these habits: newer versions of cat, tee and pv call splice and tee;
//! pipeline tools enlarge the pipes that they find; and a slow program holds pages for a while. A
//! way of writing is sound if the bytes are right behind all of these programs.

use std::io::{stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use fullbore::{PipeEnd, Wait};
use fullbore_linux::{Calls, Ready, is_ready};
use rustix::pipe::SpliceFlags;

use crate::catalogue::movers::std_copy;
use crate::endpoint::prepare::{dev_null, splice_all};
use crate::parent::ParentOptions;
use fullbore_results::soundness::Habit;

/// More bytes than any pipe of the laboratory holds.
const ALL_THERE_IS: usize = 64 << 20;

/// Passes stdin on to stdout until it ends; with the last habit, also to `files`.
pub fn run(habit: Habit, files: &[PathBuf], parent: &ParentOptions) -> anyhow::Result<()> {
    parent.obey()?;
    let (stdin, stdout) = (stdin(), stdout());
    let (source, sink) = (stdin.as_fd(), stdout.as_fd());
    let mut calls = Calls::new(Wait::Block);
    let none = SpliceFlags::empty();
    match habit {
        Habit::Splice => {
            // With room in the pipe behind tee, pages stay referenced while their writer
            // continues.
            PipeEnd::new(sink)?.grow(1 << 20)?;
            while calls.splice(source, sink, ALL_THERE_IS, none, Ready::ToRead)? > 0 {}
        }
        Habit::Tee => {
            PipeEnd::new(sink)?.grow(1 << 20)?;
            let null = dev_null()?;
            loop {
                match calls.tee(source, sink, ALL_THERE_IS, Ready::ToRead)? {
                    0 => break,
                    n => splice_all(&mut calls, source, null.as_fd(), n, Ready::ToRead)?,
                }
            }
        }
        Habit::Resize => resize_and_copy(&mut calls, [source, sink])?,
        Habit::Hold => hold_and_pass(&mut calls, [source, sink])?,
        Habit::StdCopy => std_copy::run(files)?,
    }
    Ok(())
}

fn hold_and_pass(calls: &mut Calls, [source, sink]: [BorrowedFd<'_>; 2]) -> anyhow::Result<()> {
    let (own, growth) = fullbore_linux::pipe::with_capacity(1 << 20)?;
    let (reader, writer) = (own.reader.as_fd(), own.writer.as_fd());
    loop {
        let mut held = 0;
        // Hold data until half of the private pipe is full, by bytes or by pages, or the input ends.
        while held == 0 || held < growth.after / 2 && is_ready(writer, Ready::ToWrite)? {
            let most = growth.after / 2 - held;
            match calls.splice(source, writer, most, SpliceFlags::empty(), Ready::ToRead)? {
                0 => break,
                n => held += n,
            }
        }
        if held == 0 {
            return Ok(());
        }
        thread::sleep(Duration::from_micros(300));
        splice_all(calls, reader, sink, held, Ready::ToWrite)?;
    }
}

fn resize_and_copy(calls: &mut Calls, [source, sink]: [BorrowedFd<'_>; 2]) -> anyhow::Result<()> {
    let pipe = PipeEnd::new(source)?;
    let mut buffer = vec![0; 48 * 1024];
    for turn in 0u64.. {
        if turn % 16 == 0 {
            // The kernel refuses to shrink a pipe that holds more; the pipe then keeps its
            // capacity.
            let _ = pipe.resize(if turn % 32 == 0 { 1 << 20 } else { 64 << 10 });
        }
        let n = calls.read(source, &mut buffer)?;
        if n == 0 {
            break;
        }
        let mut rest = &buffer[..n];
        while !rest.is_empty() {
            rest = &rest[calls.write(sink, rest)?..];
        }
    }
    Ok(())
}
