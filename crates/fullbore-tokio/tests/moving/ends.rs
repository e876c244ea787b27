//! Peers that half-close, reset, or stop reading; and idle connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream as StdTcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::thread;
use std::time::{Duration, Instant};

use fullbore_tokio::{Ended, Guarantee, Options, TransferSide};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, sockopt,
};
use rustix::time::{ClockId, clock_gettime};

use crate::common::calls::refusing;
use crate::common::ends::{content, memfd, same_bytes, tcp_pair};
use crate::common::{MIB, assert_cheap, raw_pty, watch};
use crate::kinds::*;

const GUARANTEES: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn reset(socket: StdTcpStream) {
    sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_side_that_has_closed_its_half_still_gets_the_answer() {
    let _watch = watch("half-closed");
    for guarantee in GUARANTEES {
        let ((a, mut client), (b, mut server)) = (tcp_pair(), tcp_pair());
        let asking = thread::spawn(move || {
            client.write_all(&content()[..100_000]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            answer
        });
        let answering = thread::spawn(move || {
            let mut question = Vec::new();
            server.read_to_end(&mut question).unwrap();
            server.write_all(&content()[..3 * MIB]).unwrap();
            question
        });
        let both = runtime().block_on(async {
            let options = Options::new().guarantee(guarantee);
            options
                .copy_bidirectional(tcp(a.into()), tcp(b.into()))
                .run()
                .await
        });
        let both = both.unwrap();
        same_bytes(
            &answering.join().unwrap(),
            &content()[..100_000],
            "question",
        );
        same_bytes(&asking.join().unwrap(), &content()[..3 * MIB], "answer");
        assert_eq!(
            (both.a_to_b.bytes, both.b_to_a.bytes),
            (100_000, 3 * MIB as u64)
        );
        assert_eq!(
            (both.a_to_b.ended, both.b_to_a.ended),
            (Ended::AtEnd, Ended::AtEnd)
        );
    }
}

#[test]
fn a_reset_is_a_failure_of_its_side_and_the_other_peer_sees_no_end() {
    let _watch = watch("reset");
    for guarantee in GUARANTEES {
        let ((a, client), (b, mut server)) = (tcp_pair(), tcp_pair());
        server.write_all(b"before").unwrap();
        reset(client);
        runtime().block_on(async {
            let options = Options::new().guarantee(guarantee);
            let mut transfer = options.copy_bidirectional(tcp(a.into()), tcp(b.into()));
            let failure = transfer.run().await.unwrap_err();
            let reset = failure.error.raw_os_error().unwrap();
            assert!(
                [libc::ECONNRESET, libc::EPIPE].contains(&reset),
                "{failure:?}"
            );
            let both = &failure.report;
            let ended = [both.a_to_b.ended, both.b_to_a.ended];
            let failed = ended.iter().filter(|&&ended| ended == Ended::Failed);
            assert_eq!(failed.count(), 1, "{both:?}");
            // The kernel reports a reset once, and then an end.
            let again = transfer.run().await.unwrap_err();
            let reset = again.error.raw_os_error().unwrap();
            assert!(
                [libc::ECONNRESET, libc::EPIPE].contains(&reset),
                "{again:?}"
            );
            let both = &again.report;
            // Whether they could still be sent depends on when the reset arrived.
            let (_, sink, under_way) = transfer.into_parts().unwrap();
            let known = both.b_to_a.bytes + under_way.b_to_a.len() as u64;
            assert_eq!(known, both.b_to_a.taken);
            // The peer waits, because this side is not closed.
            server.set_nonblocking(true).unwrap();
            let error = server.read(&mut [0; 9]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            drop(sink);
        });
    }
}

#[test]
fn a_source_that_was_reset_fails_again_and_has_no_end() {
    let _watch = watch("reset twice");
    for guarantee in GUARANTEES {
        let ((a, client), (b, _server)) = (tcp_pair(), tcp_pair());
        reset(client);
        runtime().block_on(async {
            let options = Options::new().guarantee(guarantee);
            let mut transfer = options.copy(tcp(a.into()), tcp(b.into()));
            for _ in 0..3 {
                let failure = transfer.run().await.unwrap_err();
                assert_eq!(failure.error.raw_os_error(), Some(libc::ECONNRESET));
                assert_eq!(failure.report.ended, Ended::Failed);
            }
        });
    }
}

#[test]
fn what_a_server_has_sent_before_it_went_reaches_the_client() {
    let _watch = watch("drained");
    for guarantee in GUARANTEES {
        let ((a, mut client), (b, mut server)) = (tcp_pair(), tcp_pair());
        // The server answers and closes before the question arrives, which resets the connection.
        server.write_all(&content()[..50_000]).unwrap();
        drop(server);
        client.write_all(&content()[..1000]).unwrap();
        let reading = thread::spawn(move || {
            let mut answer = Vec::new();
            while answer.len() < 50_000 {
                let begun = answer.len();
                answer.resize(begun + 4096, 0);
                let n = client.read(&mut answer[begun..]).unwrap();
                assert!(n > 0, "the end after {begun} bytes");
                answer.truncate(begun + n);
            }
            answer
        });
        runtime().block_on(async {
            let options = Options::new().guarantee(guarantee);
            let (a, b) = (tcp(a.into()), tcp(b.into()));
            let mut transfer = options.copy_bidirectional(a, b);
            let outcome = transfer.run().await;
            let both = transfer.report();
            assert_eq!(both.b_to_a.bytes, 50_000, "{outcome:?}");
        });
        same_bytes(&reading.join().unwrap(), &content()[..50_000], "answer");
    }
}

/// A transfer of [`LEN`] bytes into a socket whose peer does not read yet.
struct Stalled {
    runtime: tokio::runtime::Runtime,
    transfer: fullbore_tokio::Transfer<tokio::net::TcpStream, tokio::net::TcpStream>,
    server: StdTcpStream,
    sending: thread::JoinHandle<()>,
}

const LEN: usize = 8 * MIB;

impl Stalled {
    /// Starts it between these sockets, and waits until the sink is full.
    fn new(options: Options, before: impl FnOnce(&mut StdTcpStream, &mut StdTcpStream)) -> Self {
        let ((a, mut client), (mut b, mut server)) = (tcp_pair(), tcp_pair());
        before(&mut b, &mut server);
        let sending = thread::spawn(move || client.write_all(&content()[..LEN]).unwrap());
        let runtime = runtime();
        let transfer = runtime.block_on(async { options.copy(tcp(a.into()), tcp(b.into())) });
        let mut stalled = Self {
            runtime,
            transfer,
            server,
            sending,
        };
        let began = Instant::now();
        loop {
            stalled.run_for(Duration::from_millis(50));
            let report = stalled.transfer.report();
            if report.taken > report.bytes && report.slow() == Some(TransferSide::Sink) {
                return stalled;
            }
            assert!(began.elapsed() < Duration::from_secs(300), "{report:?}");
        }
    }

    /// Returns the CPU time of a run of this duration.
    fn run_for(&mut self, time: Duration) -> Duration {
        let used = cpu_time();
        self.runtime.block_on(async {
            let _ = tokio::time::timeout(time, self.transfer.run()).await;
        });
        cpu_time() - used
    }

    /// Reads everything, and compares it.
    fn finish(mut self) {
        let mut server = self.server;
        let reading = thread::spawn(move || {
            let mut bytes = Vec::new();
            server.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let report = self.runtime.block_on(self.transfer.run()).unwrap();
        assert_eq!(report.bytes, LEN as u64);
        drop(self.transfer);
        same_bytes(&reading.join().unwrap(), &content()[..LEN], "all");
        self.sending.join().unwrap();
    }
}

#[test]
fn a_peer_that_stops_reading_costs_nothing_and_is_the_slow_side() {
    let _watch = watch("stops reading");
    for guarantee in GUARANTEES {
        let mut stalled = Stalled::new(Options::new().guarantee(guarantee), |_, _| ());
        assert_cheap("a stalled transfer", Duration::from_millis(20), || {
            stalled.run_for(Duration::from_millis(300))
        });
        stalled.finish();
    }
}

#[test]
fn a_connection_on_which_nothing_happens_costs_no_cpu_time() {
    let _watch = watch("idle");
    for guarantee in GUARANTEES {
        let ((a, _client), (b, _server)) = (tcp_pair(), tcp_pair());
        let runtime = runtime();
        let (a, b) = runtime.block_on(async { (tcp(a.into()), tcp(b.into())) });
        let mut transfer = Options::new().guarantee(guarantee).copy_bidirectional(a, b);
        assert_cheap("an idle connection", Duration::from_millis(20), || {
            let used = cpu_time();
            runtime.block_on(async {
                let _ = tokio::time::timeout(Duration::from_millis(300), transfer.run()).await;
            });
            cpu_time() - used
        });
    }
}

/// A socket with a message in its error queue is permanently in an error condition to epoll(7).
#[test]
fn a_full_sink_in_an_error_condition_is_not_polled_in_a_loop() {
    let _watch = watch("error queue");
    for guarantee in GUARANTEES {
        let mut has_timestamps = false;
        let mut stalled = Stalled::new(Options::new().guarantee(guarantee), |sink, peer| {
            // SOF_TIMESTAMPING_TX_SOFTWARE and SOF_TIMESTAMPING_SOFTWARE (linux/net_tstamp.h).
            let flags: libc::c_int = 2 | 16;
            // SAFETY: the option is a number, and is read during the call.
            let answer = unsafe {
                libc::setsockopt(
                    sink.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_TIMESTAMPING,
                    (&raw const flags).cast(),
                    size_of_val(&flags) as u32,
                )
            };
            has_timestamps = answer == 0;
            sink.write_all(b"x").unwrap();
            peer.read_exact(&mut [0]).unwrap();
        });
        if has_timestamps {
            assert_cheap("a full sink", Duration::from_millis(100), || {
                stalled.run_for(Duration::from_millis(500))
            });
        } else {
            fullbore_tests::skipped("this kernel takes no timestamps of sent bytes");
        }
        stalled.finish();
    }
}

#[test]
fn a_terminal_that_has_hung_up_is_an_error_and_no_end() {
    runtime().block_on(async {
        for guarantee in GUARANTEES {
            let Some((master, slave)) = raw_pty() else {
                return fullbore_tests::skipped("no pseudo-terminal here");
            };
            let mut source = registered(slave);
            drop(master);
            let (near, _far) = StdUnixStream::pair().unwrap();
            let options = Options::new().guarantee(guarantee);
            let mut moved = options.copy(&mut source, unix(near.into()));
            let failure = moved.run().await.unwrap_err();
            assert_eq!(failure.error.raw_os_error(), Some(libc::EIO), "{failure}");
        }
    });
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_moved() {
    runtime().block_on(async {
        let pipe = fullbore::Pipe::new().unwrap();
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut sink = unix(near.into());
        // SAFETY: an OwnedFd is the same open descriptor until it is dropped.
        let mut blocks = unsafe { tokio::io::unix::AsyncFd::register(pipe.reader) }.unwrap();
        let error = fullbore_tokio::copy(&mut blocks, &mut sink)
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("the source") && text.contains("O_NONBLOCK"),
            "{text}"
        );
        // A FIFO or terminal that was opened as a file.
        let mut file = file(pipe.writer);
        let error = fullbore_tokio::copy(&mut file, &mut sink)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("AsyncFd"), "{error}");
        // Messages have boundaries.
        let (datagrams, _peer) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let mut datagrams = registered(datagrams.into());
        let error = fullbore_tokio::copy(&mut datagrams, &mut sink)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("boundaries"), "{error}");
        // The same pipe for both.
        let pipe = fullbore::Pipe::new().unwrap();
        let (mut source, mut sink) = (receiver(pipe.reader), sender(pipe.writer));
        let error = fullbore_tokio::copy(&mut source, &mut sink)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "source and sink are the same pipe");
    });
}

/// This socket is not connected: send(2) and shutdown(2) are refused, and write(2) is not.
#[test]
fn a_stream_socket_of_another_family_is_sent_to_and_shut_down_as_a_socket() {
    let _watch = watch("another family");
    let Ok(socket) = rustix::net::socket(AddressFamily::VSOCK, SocketType::STREAM, None) else {
        return fullbore_tests::skipped("no AF_VSOCK here");
    };
    let (near, mut peer) = StdUnixStream::pair().unwrap();
    peer.write_all(b"x").unwrap();
    drop(peer);
    let (ended, peer) = StdUnixStream::pair().unwrap();
    drop(peer);
    refusing(&[libc::SYS_sendto, libc::SYS_shutdown], Errno::IO, || {
        runtime().block_on(async {
            let mut sink = registered(socket);
            let sent = fullbore_tokio::copy(&mut unix(near.into()), &mut sink).await;
            assert_eq!(sent.unwrap_err().error.raw_os_error(), Some(libc::EIO));
            let mut ended = unix(ended.into());
            let shut_down = fullbore_tokio::copy_bidirectional(&mut ended, &mut sink).await;
            let error = shut_down.unwrap_err().error;
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
            assert!(error.to_string().contains("shutdown"), "{error}");
        });
    });
}

#[test]
fn a_descriptor_that_cannot_be_examined_is_an_error_with_the_name_of_the_call() {
    refusing(&[libc::SYS_getsockopt], Errno::IO, || {
        runtime().block_on(async {
            let [(a, _a), (b, _b)] = [(); 2].map(|()| StdUnixStream::pair().unwrap());
            let (mut source, mut sink) = (unix(a.into()), registered(b.into()));
            let failure = fullbore_tokio::copy(&mut source, &mut sink).await;
            let error = failure.unwrap_err().error;
            assert!(error.to_string().contains("getsockopt"), "{error}");
        });
    });
}

/// A local peer that calls sendfile(2) sends pages of the page cache (H5 of docs/guarantees.md).
#[test]
fn by_snapshot_bytes_stay_what_they_were_when_they_arrived_behind_a_peer_that_splices() {
    let _watch = watch("a peer that splices");
    const LEN: usize = 200_000;
    for guarantee in GUARANTEES {
        let ((a, client), (b, mut server)) = (tcp_pair(), tcp_pair());
        sockopt::set_socket_send_buffer_size(&b, 2 * LEN).unwrap();
        let file = memfd();
        file.write_all_at(&content()[..LEN], 0).unwrap();
        let changed = file.try_clone().unwrap();
        let sending = thread::spawn(move || {
            let mut left = LEN;
            while left > 0 {
                left -= rustix::fs::sendfile(&client, &file, None, left).unwrap();
            }
        });
        let report = runtime().block_on(async {
            // So that there are several calls, and the later ones are splices by reference.
            let rate = std::num::NonZero::new(LEN as u64 * 8).unwrap();
            let options = Options::new().guarantee(guarantee).rate(rate);
            let mut transfer = options.copy(tcp(a.into()), tcp(b.try_clone().unwrap().into()));
            transfer.run().await.unwrap()
        });
        sending.join().unwrap();
        assert_eq!(report.bytes, LEN as u64);
        changed.write_all_at(&[0; LEN], 0).unwrap();
        drop(b);
        let mut got = Vec::new();
        server.read_to_end(&mut got).unwrap();
        match guarantee {
            Guarantee::Snapshot => same_bytes(&got, &content()[..LEN], "by snapshot"),
            Guarantee::Reference => assert_eq!(got.len(), LEN),
        }
    }
}

/// recvmsg(2) and read(2) stop at such a message, so a short read does not prove that the socket is empty.
#[test]
fn bytes_behind_a_message_with_a_descriptor_are_not_forgotten() {
    let _watch = watch("a message with a descriptor");
    for guarantee in GUARANTEES {
        let (ours, peer) = StdUnixStream::pair().unwrap();
        let (sink, mut reader) = StdUnixStream::pair().unwrap();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [peer.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let slices = [std::io::IoSlice::new(b"a")];
        rustix::net::sendmsg(&peer, &slices, &mut control, SendFlags::empty()).unwrap();
        rustix::io::write(&peer, b"b").unwrap();
        let report = runtime().block_on(async {
            let options = Options::new().guarantee(guarantee).limit(2);
            let mut transfer = options.copy(unix(ours.into()), unix(sink.into()));
            transfer.run().await.unwrap()
        });
        assert_eq!((report.bytes, report.ended), (2, Ended::AtLimit));
        let mut got = [0; 2];
        reader.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"ab");
    }
}
