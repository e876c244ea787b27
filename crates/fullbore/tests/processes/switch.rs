//! An outlet that gave pages, and later finds that it must not: no byte that a pipe still refers to is written again.
//!
//! Whether vmsplice(2) shares pages is found out once per process, so each case is a process. At first it cannot be found
//! out, because no pipe can be made (`EMFILE`), and pages are given. Then the trial fails as if other threads had forked
//! during each of its attempts. Nobody reads until everything was sent.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, io};

use crate::common::calls::misjudging_vmsplice;
use crate::common::ends::memfd;
use crate::common::*;
use fullbore::{Pipe, PipeEnd, ProducerOptions, TransferOptions, Way};

const JOB: &str = "FULLBORE_TEST_SWITCH";

/// Bytes that are sent before and after the switch: together, less than the pipe holds.
const BEFORE: u64 = 512 << 10;
const AFTER: u64 = 256 << 10;

#[test]
fn no_byte_changes_where_pages_were_given_and_later_are_not() {
    if !gives_fresh_pages() {
        return;
    }
    for job in ["fresh", "recycle", "transfer"] {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "switch::sends_and_switches", "--ignored"])
            .env(JOB, job)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{job}: {said}");
        assert!(said.contains("1 passed"), "{job}: {said}");
    }
}

#[test]
#[ignore = "runs in the processes that the other test starts"]
fn sends_and_switches() {
    let Ok(job) = env::var(JOB) else { return };
    let pipe = Pipe::new().unwrap();
    let room = PipeEnd::new(pipe.writer.as_fd())
        .unwrap()
        .grow(1 << 20)
        .unwrap();
    assert!(room.after as u64 > BEFORE + AFTER);
    let bytes = first((BEFORE + AFTER) as usize);
    let mut source = memfd();
    source.write_all(&bytes).unwrap();
    source.rewind().unwrap();
    let later = AtomicBool::new(false);
    let switch = || later.store(true, Ordering::SeqCst);
    let done = misjudging_vmsplice(&later, || -> io::Result<()> {
        let options = ProducerOptions::new().chunk(64 << 10);
        let way = match job.as_str() {
            "transfer" => {
                let mut transfer = TransferOptions::new().open(source, pipe.writer);
                let ran = transfer.run_with(|progress| {
                    if progress.bytes >= BEFORE {
                        switch();
                    }
                    ControlFlow::Continue(())
                });
                ran.map_err(|failure| failure.error)?;
                return Ok(());
            }
            "recycle" => Way::Recycle,
            _ => Way::Fresh,
        };
        let mut out = options.way(way).open(pipe.writer)?;
        send(&mut out, 0, BEFORE, 64 << 10)?;
        assert_eq!(out.report().way, way);
        switch();
        send(&mut out, BEFORE, BEFORE + AFTER, 64 << 10)?;
        // What recycles waits for its reader in `finish`.
        let (_, unsent) = out.into_parts();
        assert!(unsent.is_empty());
        assert_eq!(fullbore_linux::vmsplice_shares().ok(), Some(false));
        Ok(())
    });
    if let Some(done) = done {
        done.unwrap();
        let mut got = Vec::new();
        File::from(pipe.reader).read_to_end(&mut got).unwrap();
        let wrong = got.iter().zip(&bytes).position(|(got, sent)| got != sent);
        assert_eq!((got.len(), wrong), (bytes.len(), None), "{job}");
    }
}
