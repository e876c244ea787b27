//! [`fullbore::close`] returns the error of close(2), and closes the fd once in any case.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::common::calls::judging;
use fullbore::{Error, Pipe, close};
use rustix::io::Errno;

const CLOSE: &[libc::c_long] = &[libc::SYS_close];

#[test]
fn a_failed_close_is_an_error_and_is_not_repeated() {
    for errno in [Errno::IO, Errno::DQUOT, Errno::NOSPC, Errno::INTR] {
        let file = tempfile::tempfile().unwrap();
        let mut calls = 0;
        let verdict = |nth| {
            calls = nth;
            (nth == 1).then_some(errno)
        };
        let Some(closed) = judging(CLOSE, verdict, || close(file)) else {
            return;
        };
        match closed {
            Err(Error::System {
                operation: "close",
                errno: said,
            }) => assert_eq!(said.raw_os_error(), Some(errno.raw_os_error())),
            other => panic!("{errno:?}: {other:?}"),
        }
        assert_eq!(calls, 1, "{errno:?}");
    }
}

#[test]
fn a_successful_close_closes_the_fd() {
    let pipe = Pipe::new().unwrap();
    close(pipe.writer).unwrap();
    // No writer is left.
    assert_eq!(rustix::io::read(&pipe.reader, &mut [0; 1]), Ok(0));
    close(File::from(pipe.reader)).unwrap();
}

#[test]
fn closing_a_duplicate_leaves_the_fd_open() {
    let file = tempfile::tempfile().unwrap();
    let duplicate: OwnedFd = file.as_fd().try_clone_to_owned().unwrap();
    assert_ne!(duplicate.as_raw_fd(), file.as_raw_fd());
    close(duplicate).unwrap();
    assert_eq!(rustix::io::write(&file, b"still open"), Ok(10));
}
