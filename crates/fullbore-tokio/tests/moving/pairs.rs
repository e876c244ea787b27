//! Every kind of source into every kind of sink, with both guarantees and several lengths.

use std::os::fd::AsFd;

use fullbore_tokio::{Ended, Guarantee, Options, Report, Sink, Source};

use crate::common::ends::{From, To};
use crate::common::{MIB, watch};
use crate::kinds::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Tcp,
    TcpHalf,
    OwnedTcpHalf,
    Unix,
    UnixHalf,
    OwnedUnixHalf,
    Pipe,
    Child,
    AsyncPipe,
    AsyncSocket,
    File,
}

const KINDS: [Kind; 11] = [
    Kind::Tcp,
    Kind::TcpHalf,
    Kind::OwnedTcpHalf,
    Kind::Unix,
    Kind::UnixHalf,
    Kind::OwnedUnixHalf,
    Kind::Pipe,
    Kind::Child,
    Kind::AsyncPipe,
    Kind::AsyncSocket,
    Kind::File,
];

impl Kind {
    fn source(self) -> From {
        match self {
            Kind::Tcp | Kind::TcpHalf | Kind::OwnedTcpHalf => From::Tcp,
            Kind::Unix | Kind::UnixHalf | Kind::OwnedUnixHalf | Kind::AsyncSocket => From::Unix,
            Kind::Pipe | Kind::Child | Kind::AsyncPipe => From::Pipe,
            Kind::File => From::File,
        }
    }

    fn sink(self) -> To {
        match self {
            Kind::Tcp | Kind::TcpHalf | Kind::OwnedTcpHalf => To::Tcp,
            Kind::Unix | Kind::UnixHalf | Kind::OwnedUnixHalf | Kind::AsyncSocket => To::Unix,
            Kind::Pipe | Kind::Child | Kind::AsyncPipe => To::Pipe,
            Kind::File => To::File,
        }
    }
}

async fn moved<S: Source, W: Sink>(options: Options, source: S, sink: W) -> Report {
    let mut transfer = options.copy(source, sink);
    let report = transfer.run().await.unwrap();
    let (_, _, under_way) = transfer.into_parts().unwrap();
    assert!(under_way.is_empty());
    report
}

/// Moves all bytes, and drops both ends.
async fn moved_between(options: Options, (from, source): Fd, (to, sink): Fd) -> Report {
    match from {
        Kind::Tcp => moved_to(options, tcp(source), to, sink).await,
        Kind::TcpHalf => {
            let mut stream = tcp(source);
            let (half, _other) = stream.split();
            moved_to(options, half, to, sink).await
        }
        Kind::OwnedTcpHalf => {
            let (half, _other) = tcp(source).into_split();
            moved_to(options, half, to, sink).await
        }
        Kind::Unix => moved_to(options, unix(source), to, sink).await,
        Kind::UnixHalf => {
            let mut stream = unix(source);
            let (half, _other) = stream.split();
            moved_to(options, half, to, sink).await
        }
        Kind::OwnedUnixHalf => {
            let (half, _other) = unix(source).into_split();
            moved_to(options, half, to, sink).await
        }
        Kind::Pipe => moved_to(options, receiver(source), to, sink).await,
        Kind::Child => {
            let (mut stdout, mut child) = child_stdout(source);
            let report = moved_to(options, &mut stdout, to, sink).await;
            assert!(child.wait().await.unwrap().success());
            report
        }
        Kind::AsyncPipe | Kind::AsyncSocket => {
            moved_to(options, registered(source), to, sink).await
        }
        Kind::File => moved_to(options, file(source), to, sink).await,
    }
}

type Fd = (Kind, std::os::fd::OwnedFd);

async fn moved_to<S: Source>(
    options: Options,
    source: S,
    to: Kind,
    sink: std::os::fd::OwnedFd,
) -> Report {
    match to {
        Kind::Tcp => moved(options, source, tcp(sink)).await,
        Kind::TcpHalf => {
            let mut stream = tcp(sink);
            let (_other, half) = stream.split();
            moved(options, source, half).await
        }
        Kind::OwnedTcpHalf => {
            let (_other, half) = tcp(sink).into_split();
            moved(options, source, half).await
        }
        Kind::Unix => moved(options, source, unix(sink)).await,
        Kind::UnixHalf => {
            let mut stream = unix(sink);
            let (_other, half) = stream.split();
            moved(options, source, half).await
        }
        Kind::OwnedUnixHalf => {
            let (_other, half) = unix(sink).into_split();
            moved(options, source, half).await
        }
        Kind::Pipe => moved(options, source, sender(sink)).await,
        Kind::Child => {
            let (stdin, mut child) = child_stdin(sink);
            let report = moved(options, source, stdin).await;
            assert!(child.wait().await.unwrap().success());
            report
        }
        Kind::AsyncPipe | Kind::AsyncSocket => moved(options, source, registered(sink)).await,
        Kind::File => moved(options, source, file(sink)).await,
    }
}

#[test]
fn every_kind_of_source_arrives_whole_at_every_kind_of_sink() {
    let _watch = watch("pairs");
    let runtime = runtime();
    for from in KINDS {
        for to in KINDS {
            for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
                for len in [0, 1, 70_000, 2 * MIB + 7] {
                    let source = from.source().open(len).unwrap();
                    let sink = to.sink().open().unwrap();
                    let options = Options::new().guarantee(guarantee);
                    let both = (source.fd.try_clone().unwrap(), sink.fd.try_clone().unwrap());
                    let report =
                        runtime.block_on(moved_between(options, (from, both.0), (to, both.1)));
                    let what = format!("{from:?} to {to:?}, {guarantee:?}, {len} bytes");
                    assert_eq!(report.bytes, len as u64, "{what}");
                    assert_eq!(report.taken, len as u64, "{what}");
                    assert_eq!(report.ended, Ended::AtEnd, "{what}");
                    if guarantee == Guarantee::Snapshot {
                        assert_eq!(report.spliced, 0, "{what}");
                    } else if from == Kind::File {
                        assert_eq!(report.spliced, len as u64, "{what}");
                    }
                    sink.close_and_compare(source.expected, &what);
                    source.close();
                }
            }
        }
    }
}

#[test]
fn what_streams_through_a_pipe_is_spliced_after_the_first_call() {
    let _watch = watch("spliced");
    let pipe = fullbore::Pipe::new().unwrap();
    let grown = fullbore::PipeEnd::new(pipe.writer.as_fd()).unwrap();
    if grown.resize(MIB).is_err() {
        return fullbore_tests::skipped("this user's pipes may not be enlarged to 1 MiB");
    }
    rustix::io::write(&pipe.writer, &crate::common::ends::content()[..MIB]).unwrap();
    drop(pipe.writer);
    let sink = To::Unix.open().unwrap();
    let clone = sink.fd.try_clone().unwrap();
    let report = runtime().block_on(async {
        let options = Options::new().guarantee(Guarantee::Reference);
        options.copy(receiver(pipe.reader), unix(clone)).run().await
    });
    let report = report.unwrap();
    assert_eq!(report.bytes, MIB as u64);
    assert!(report.spliced >= MIB as u64 / 2, "{report:?}");
    sink.close_and_compare(&crate::common::ends::content()[..MIB], "spliced");
}
