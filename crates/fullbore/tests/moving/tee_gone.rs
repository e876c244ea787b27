//! A `Tee` whose sinks lose their readers while its source is silent.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::common::ends::tcp_pair;
use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{Cancel, EndReason, Pipe, Tee, TeeOptions, TransferSide};
use rustix::io::Errno;
use rustix::net::sockopt;

/// Returns the two ends of a pipe and of a connection: reader, writer.
fn readers() -> [(OwnedFd, OwnedFd); 2] {
    let pipe = Pipe::new().unwrap();
    let (theirs, ours) = UnixStream::pair().unwrap();
    [(pipe.reader, pipe.writer), (theirs.into(), ours.into())]
}

fn assert_read(from: &OwnedFd, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    File::from(from.try_clone().unwrap())
        .read_exact(&mut got)
        .unwrap();
    assert_eq!(got, bytes);
}

#[test]
fn it_ends_when_no_sink_has_a_reader_although_the_source_is_silent() {
    let _watch = watch("it_ends_when_no_sink_has_a_reader_although_the_source_is_silent");
    for wait in ALL_WAITS {
        for policy in [Policy::DROP, Policy::IGNORE_CLOSED, Policy::FAIL_ALL] {
            let source = Pipe::new().unwrap();
            let (theirs, ours): (Vec<OwnedFd>, Vec<OwnedFd>) = readers().into_iter().unzip();
            rustix::io::write(&source.writer, b"one").unwrap();
            let outcome = thread::scope(|scope| {
                let running = scope.spawn(|| {
                    let mut tee = TeeOptions::new()
                        .wait(wait)
                        .fail_without_readers(true)
                        .open(&source.reader, ours.into_iter().map(|sink| (sink, policy)));
                    tee.run()
                });
                // One after the other, once the tee is idle.
                for reader in theirs {
                    assert_read(&reader, b"one");
                    drop(reader);
                }
                running.join().unwrap()
            });
            match outcome {
                Ok(report) => {
                    assert_ne!(policy, Policy::FAIL_ALL);
                    assert_eq!((report.ended, report.taken), (EndReason::AtEnd, 3));
                    for sink in &report.sinks {
                        let error = sink.error.as_ref().unwrap();
                        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                        assert_eq!(sink.bytes, 3);
                        assert_eq!(sink.ignored, policy == Policy::IGNORE_CLOSED);
                    }
                }
                Err(failure) => {
                    assert_eq!((policy, failure.sink), (Policy::FAIL_ALL, Some(0)));
                    assert_eq!(failure.error.kind(), ErrorKind::BrokenPipe);
                }
            }
        }
    }
}

#[test]
fn a_connection_that_was_reset_has_the_error_of_a_write() {
    let _watch = watch("a_connection_that_was_reset_has_the_error_of_a_write");
    let source = Pipe::new().unwrap();
    let (ours, theirs): (TcpStream, TcpStream) = tcp_pair();
    sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).unwrap();
    drop(theirs);
    let report = Tee::new(&source.reader, [(ours, Policy::DROP)])
        .run()
        .unwrap();
    let error = report.sinks[0].error.as_ref().unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn as_long_as_one_sink_can_be_written_to_it_goes_on() {
    let _watch = watch("as_long_as_one_sink_can_be_written_to_it_goes_on");
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    // Once the peer of a socket has closed one direction, it is not known whether it still reads.
    let half = UnixStream::pair().unwrap();
    half.0.shutdown(std::net::Shutdown::Write).unwrap();
    for stays in [file, half.1.into()] {
        let source = Pipe::new().unwrap();
        let gone = Pipe::new().unwrap();
        drop(gone.reader);
        let mut tee = TeeOptions::new().nonblocking(true).open(
            &source.reader,
            [
                (&gone.writer, Policy::IGNORE_CLOSED),
                (&stays, Policy::FAIL_ALL),
            ],
        );
        for _ in 0..3 {
            let report = tee.run().unwrap();
            assert_eq!(report.ended, EndReason::WouldBlock(TransferSide::Source));
        }
        let cancel = Cancel::new().unwrap();
        rustix::io::write(&source.writer, b"one").unwrap();
        tee.set_cancel(Some(&cancel));
        let report = tee.run().unwrap();
        assert_eq!(report.sinks[1].bytes, 3);
        assert!(report.sinks[0].ignored);
    }
}

#[test]
fn a_null_device_that_was_opened_for_reading_fails_as_any_sink() {
    let null: OwnedFd = File::open("/dev/null").unwrap().into();
    let run = |policy| {
        let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        rustix::io::write(&source.writer, b"one").unwrap();
        drop(source.writer);
        let outcome = Tee::new(&source.reader, [(&sink.writer, policy), (&null, policy)]).run();
        assert_read(&sink.reader, b"one");
        outcome
    };
    let failure = run(Policy::FAIL_ALL).unwrap_err();
    assert_eq!(failure.sink, Some(1));
    let report = run(Policy::DROP).unwrap();
    let errors = [&failure.error, report.sinks[1].error.as_ref().unwrap()];
    for error in errors {
        let fullbore::Error::Moving { errno, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(Errno::from_io_error(errno), Some(Errno::BADF));
    }
    assert_eq!(report.sinks[0].bytes, 3);
}
