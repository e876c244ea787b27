//! File descriptors that poll(2) never reports as ready: some cannot be read or written at all, and some devices can
//! always be written to.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{
    Buffer, ConsumerOptions, Error, Guarantee, Pipe, ProducerOptions, Tee, TransferOptions,
    TransferSide,
};
use fullbore_tests::skipped;
use rustix::event::epoll;
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

const BOTH: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

fn an_epoll() -> OwnedFd {
    epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()
}

/// Descriptors that cannot be written to, and never become ready for it, with the error of write(2).
fn only_to_read() -> Vec<(Errno, OwnedFd)> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC);
    let mut all = vec![(Errno::INVAL, an_epoll())];
    for (refusal, made) in [(Errno::INVAL, timer), (Errno::BADF, changes)] {
        match made {
            Ok(descriptor) => all.push((refusal, descriptor)),
            Err(errno) => fullbore_tests::skipped(&format!("timerfd or inotify: {errno}")),
        }
    }
    all
}

/// Descriptors that cannot be read, and never become ready for it.
fn not_to_read() -> [OwnedFd; 2] {
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    [an_epoll(), process]
}

/// Returns a pipe with bytes and a writer.
fn a_source() -> Pipe {
    let pipe = Pipe::new().unwrap();
    rustix::io::write(&pipe.writer, b"hello").unwrap();
    pipe
}

#[track_caller]
fn assert_is(expected: Errno, on: TransferSide, error: &Error) {
    let Error::Moving { side, errno, .. } = error else {
        panic!("{error:?}");
    };
    let errno = Errno::from_io_error(errno);
    assert_eq!((*side, errno), (on, Some(expected)), "{error:#}");
}

#[test]
fn a_sink_that_cannot_be_written_to_fails_at_once() {
    let _watch = watch("a_sink_that_cannot_be_written_to_fails_at_once");
    for (errno, sink) in only_to_read() {
        for guarantee in BOTH {
            for wait in ALL_WAITS {
                let source = a_source();
                let mut transfer = TransferOptions::new()
                    .guarantee(guarantee)
                    .wait(wait)
                    .open(&source.reader, &sink);
                assert_is(
                    errno,
                    TransferSide::Sink,
                    &transfer.run().unwrap_err().error,
                );
            }
        }
        let source = a_source();
        let mut tee = Tee::new(&source.reader, [(&sink, Policy::FAIL_ALL)]);
        assert_is(errno, TransferSide::Sink, &tee.run().unwrap_err().error);
        let source = a_source();
        let mut buffer = Buffer::new(&source.reader, [(&sink, Policy::FAIL_ALL)]);
        assert_is(errno, TransferSide::Sink, &buffer.run().unwrap_err().error);
        for wait in ALL_WAITS {
            let sink = sink.try_clone().unwrap();
            let mut producer = ProducerOptions::new().wait(wait).open(sink).unwrap();
            let written = std::io::Write::write_all(&mut producer, b"hello")
                .and_then(|()| std::io::Write::flush(&mut producer));
            assert_eq!(Errno::from_io_error(&written.unwrap_err()), Some(errno));
        }
    }
}

#[test]
fn a_source_that_cannot_be_read_fails_at_once() {
    let _watch = watch("a_source_that_cannot_be_read_fails_at_once");
    for source in not_to_read() {
        let errno = Errno::INVAL;
        let sink = Pipe::new().unwrap();
        for guarantee in BOTH {
            for wait in ALL_WAITS {
                let mut transfer = TransferOptions::new()
                    .guarantee(guarantee)
                    .wait(wait)
                    .open(&source, &sink.writer);
                assert_is(
                    errno,
                    TransferSide::Source,
                    &transfer.run().unwrap_err().error,
                );
            }
        }
        let mut tee = Tee::new(&source, [(&sink.writer, Policy::FAIL_ALL)]);
        assert_is(errno, TransferSide::Source, &tee.run().unwrap_err().error);
        let mut buffer = Buffer::new(&source, [(&sink.writer, Policy::FAIL_ALL)]);
        assert_is(
            errno,
            TransferSide::Source,
            &buffer.run().unwrap_err().error,
        );
        for wait in ALL_WAITS {
            let source = source.try_clone().unwrap();
            let mut consumer = ConsumerOptions::new().wait(wait).open(source).unwrap();
            let error = std::io::Read::read(&mut consumer, &mut [0; 10]).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(errno));
        }
    }
}

/// The kernel's log refuses `RWF_NOWAIT`, and poll(2) reports only that it can be read.
#[test]
fn a_device_that_never_says_that_it_can_be_written_to_gets_its_bytes() {
    let _watch = watch("a_device_that_never_says_that_it_can_be_written_to_gets_its_bytes");
    let Ok(log) = File::options().write(true).open("/dev/kmsg") else {
        return skipped("/dev/kmsg cannot be opened here");
    };
    let source = || {
        let pipe = Pipe::new().unwrap();
        rustix::io::write(&pipe.writer, b"<7>a test of fullbore\n").unwrap();
        pipe.reader
    };
    let mut tee = Tee::new(source(), [(log.as_fd(), Policy::FAIL_ALL)]);
    assert_eq!(tee.run().unwrap().sinks[0].bytes, 22);
    let mut buffer = Buffer::new(source(), [(&log, Policy::FAIL_ALL)]);
    assert_eq!(buffer.run().unwrap().sinks[0].bytes, 22);
    for wait in ALL_WAITS {
        let report = TransferOptions::new()
            .wait(wait)
            .open(source(), &log)
            .run()
            .unwrap();
        assert_eq!(report.bytes, 22);
        let mut never = TransferOptions::new()
            .nonblocking(true)
            .open(source(), &log);
        assert_eq!(never.run().unwrap().bytes, 22);
        let sink = log.try_clone().unwrap();
        let mut producer = ProducerOptions::new().wait(wait).open(sink).unwrap();
        std::io::Write::write_all(&mut producer, b"<7>a test of fullbore\n").unwrap();
        producer.finish().unwrap();
    }
}
