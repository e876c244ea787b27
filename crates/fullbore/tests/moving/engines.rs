//! Every engine with every call that moves bytes refused, cut short, or failing once with `EAGAIN` or `EINTR`: what arrives
//! is the stream.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::thread;

use crate::common::calls::{MOVING, cutting_short, failing_once, moving_nothing_once, refusing};
use crate::common::targets::stored;
use crate::common::*;
use fullbore::tee::Policy;
use fullbore::{
    BufferOptions, Consumer, Guarantee, Pipe, Producer, ProducerOptions, Tee, TransferOptions, Way,
};
use rustix::io::Errno;

const LEN: usize = 300_003;

/// Everything that moves bytes, from a source into a sink.
type Engine = fn(&OwnedFd, &OwnedFd) -> Result<(), fullbore::Error>;

const ENGINES: [(&str, Engine); 8] = [
    ("transfer, snapshot", |source, sink| {
        TransferOptions::new()
            .open(source, sink)
            .run()
            .map(drop)
            .map_err(Into::into)
    }),
    ("transfer, reference", |source, sink| {
        let options = TransferOptions::new().guarantee(Guarantee::Reference);
        options
            .open(source, sink)
            .run()
            .map(drop)
            .map_err(Into::into)
    }),
    ("tee", |source, sink| {
        let ran = Tee::new(source, [(sink, Policy::FAIL_ALL)]).run();
        ran.map(drop).map_err(Into::into)
    }),
    ("buffer", |source, sink| {
        let options = BufferOptions::new().memory(1 << 20);
        let ran = options.open(source, [(sink, Policy::FAIL_ALL)]).run();
        ran.map(drop).map_err(Into::into)
    }),
    ("consumer and producer", |source, sink| {
        let (mut from, mut to) = (Consumer::new(source)?, Producer::new(sink)?);
        pass_on(&mut from, &mut to)?;
        to.finish().map(drop).map_err(|unfinished| unfinished.error)
    }),
    ("consumer and producer that copies", |source, sink| {
        let options = ProducerOptions::new().way(Way::Copy);
        let (mut from, mut to) = (Consumer::new(source)?, options.open(sink)?);
        pass_on(&mut from, &mut to)?;
        to.finish().map(drop).map_err(|unfinished| unfinished.error)
    }),
    ("producer that copies and polls", |source, sink| {
        let options = ProducerOptions::new().way(Way::Copy);
        let options = options.wait(fullbore::Wait::Poll);
        let (mut from, mut to) = (Consumer::new(source)?, options.open(sink)?);
        pass_on(&mut from, &mut to)?;
        to.finish().map(drop).map_err(|unfinished| unfinished.error)
    }),
    (
        "consumer that is nonblocking, and its source is polled",
        |source, sink| {
            let options = fullbore::ConsumerOptions::new().wait(fullbore::Wait::Poll);
            let (mut from, mut to) = (options.open(source)?, Producer::new(sink)?);
            pass_on(&mut from, &mut to)?;
            to.finish().map(drop).map_err(|unfinished| unfinished.error)
        },
    ),
];

/// Copies with a loop that repeats interrupted calls, as std does.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> Result<(), fullbore::Error> {
    let of_io = |errno| fullbore::Error::System {
        operation: "pass on",
        errno,
    };
    std::io::copy(from, to).map(drop).map_err(of_io)
}

/// Runs every engine between pipes and files, each pair and engine under `with`, which runs the job it gets.
fn every_engine(what: &str, with: impl Fn(&str, &mut (dyn FnMut() + Send)) -> bool) {
    for (name, engine) in ENGINES {
        for (from_file, to_file) in [(false, false), (true, false), (false, true), (true, true)] {
            let what = format!("{what}, {name}, {from_file} {to_file}");
            let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
            let (feeds, drains) = (source.writer, sink.reader);
            let stored = stored(&first(LEN));
            let written = tempfile::tempfile().unwrap();
            let (from, to): (OwnedFd, OwnedFd) = match (from_file, to_file) {
                (false, false) => (source.reader, sink.writer),
                (true, false) => (stored.into(), sink.writer),
                (false, true) => (source.reader, written.try_clone().unwrap().into()),
                (true, true) => (stored.into(), written.try_clone().unwrap().into()),
            };
            let feeding = thread::spawn(move || {
                if !from_file {
                    // An engine that fails is named below.
                    let _ = std::fs::File::from(feeds).write_all(&first(LEN));
                }
            });
            let reading = thread::spawn(move || {
                let mut got = Vec::new();
                if !to_file {
                    std::fs::File::from(drains).read_to_end(&mut got).unwrap();
                }
                got
            });
            let mut outcome = None;
            let ran = with(name, &mut || outcome = Some(engine(&from, &to)));
            drop((from, to));
            feeding.join().unwrap();
            let mut got = reading.join().unwrap();
            if !ran {
                return;
            }
            outcome
                .unwrap()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            if to_file {
                use std::os::unix::fs::FileExt;
                got = vec![0; written.metadata().unwrap().len() as usize];
                written.read_exact_at(&mut got, 0).unwrap();
            }
            assert!(got == first(LEN), "{what}: {} bytes", got.len());
        }
    }
}

#[test]
fn every_engine_delivers_the_stream_where_any_call_but_read_and_write_is_refused() {
    let _watch = watch("every_engine_delivers_the_stream_where_any_call_is_refused");
    let plain = [libc::SYS_read, libc::SYS_write];
    let others: Vec<_> = MOVING.iter().map(|(call, _)| *call).collect();
    let others: Vec<_> = others
        .into_iter()
        .filter(|call| !plain.contains(call))
        .collect();
    for errno in [Errno::NOSYS, Errno::PERM] {
        every_engine(&format!("all, {errno}"), |_, job| {
            refusing(&others, errno, job).is_some()
        });
        for &call in &others {
            every_engine(&format!("{call}, {errno}"), |_, job| {
                refusing(&[call], errno, job).is_some()
            });
        }
    }
}

#[test]
fn every_engine_delivers_the_stream_where_every_call_is_cut_short() {
    let _watch = watch("every_engine_delivers_the_stream_where_every_call_is_cut_short");
    every_engine("cut short", |_, job| match cutting_short(job) {
        None => false,
        Some(((), cut)) => {
            assert!(cut > 1, "{cut} calls");
            true
        }
    });
}

/// A pipe or a file never fails with `EAGAIN` by itself here, but another process may have set `O_NONBLOCK` meanwhile.
#[test]
fn every_engine_delivers_the_stream_where_one_call_would_block_or_is_interrupted() {
    let _watch = watch("every_engine_delivers_the_stream_where_one_call_would_block");
    let calls = MOVING.map(|(call, _)| call);
    for errno in [Errno::AGAIN, Errno::INTR] {
        for nth in [1, 2, 3, 5, 9] {
            every_engine(&format!("{nth}th call, {errno}"), |name, job| {
                // Between two files nothing waits, nor does a private pipe, which this engine alone reads.
                let waits = |call: &libc::c_long| {
                    *call != libc::SYS_copy_file_range
                        && !(name == "transfer, reference" && *call == libc::SYS_read)
                };
                let waiting: Vec<_> = calls.into_iter().filter(waits).collect();
                failing_once(&waiting, nth, errno, job).is_some()
            });
        }
    }
}

/// Only read(2) shows the end. A 0 of another call may have another reason, and write(2) says which.
#[test]
fn every_engine_delivers_the_stream_where_one_call_moves_nothing() {
    let _watch = watch("every_engine_delivers_the_stream_where_one_call_moves_nothing");
    let calls = [
        libc::SYS_splice,
        libc::SYS_tee,
        libc::SYS_vmsplice,
        libc::SYS_sendfile,
        libc::SYS_copy_file_range,
    ];
    let flagged = [libc::SYS_preadv2, libc::SYS_pwritev2];
    for nth in [1, 2, 3, 5] {
        every_engine(&format!("{nth}th call, 0"), |_, job| {
            moving_nothing_once(&calls, nth, job).is_some()
        });
        // A nonblocking writer splices, too.
        every_engine(&format!("{nth}th call, 0, no RWF_NOWAIT"), |_, job| {
            let without = || moving_nothing_once(&calls, nth, job).is_some();
            refusing(&flagged, Errno::OPNOTSUPP, without).unwrap_or(false)
        });
    }
}

#[test]
fn a_device_ends_only_where_read_says_so() {
    let zero = File::open("/dev/zero").unwrap();
    for nth in [1, 2] {
        let pipe = Pipe::new().unwrap();
        let options = TransferOptions::new().guarantee(Guarantee::Reference);
        let mut transfer = options.limit(40_000).open(&zero, &pipe.writer);
        let moved = moving_nothing_once(&[libc::SYS_splice], nth, || transfer.run());
        let Some(report) = moved else {
            return;
        };
        assert_eq!(report.unwrap().bytes, 40_000, "splice {nth}");
    }
}
