//! Dishonest sides of a ring, and processes that must be refused.

use std::io::{BufRead, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::control::Control;
use crate::giving::{Giving, Offering};
use crate::meeting::{self, Listener};
use crate::memory::Shared;
use crate::taking::{Joining, Next};
use crate::{Consumer, Producer};
use fullbore_linux::Pipe;
use fullbore_linux::wait::{Wait, Waiter};

/// The timeout of a test.
const LONG: Duration = Duration::from_secs(30);

/// Offers a ring to the first process that connects.
fn give(pipe: &OwnedFd) -> Giving {
    let mut offering = Offering::new(pipe.try_clone().unwrap(), 1 << 20).unwrap();
    let began = Instant::now();
    loop {
        offering.is_asked();
        match offering.offer(&mut Waiter::new(Wait::Block)) {
            Ok(giving) => return giving,
            Err(again) => offering = again.expect("nobody is refused so often"),
        }
        assert!(began.elapsed() < LONG);
    }
}

/// Connects, and receives the offer.
fn take(pipe: &OwnedFd) -> (OwnedFd, Shared) {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < LONG);
        let Some(link) = meeting::connect(pipe.as_fd()) else {
            continue;
        };
        loop {
            match meeting::receive(link.as_fd()) {
                Ok((size, files)) => return (link, Shared::accept(&files, size).unwrap()),
                Err(Errno::AGAIN) => thread::yield_now(),
                // Refused, because a process that another test has started holds the pipe, too.
                Err(_) => break,
            }
        }
    }
}

/// Overwrites all words with random numbers, and some nearly valid ones, until it is stopped.
fn scribble(control: &Control<AtomicU64>, stop: &AtomicBool) {
    let mut random = 88_172_645_463_325_252u64;
    while !stop.load(Ordering::Relaxed) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let words = [
            &control.head.0,
            &control.claim.0,
            &control.released.0,
            &control.consumer_sleeps.0,
            &control.producer_sleeps.0,
        ];
        let word = words[(random % 5) as usize];
        let near = word.load(Ordering::Relaxed).wrapping_add(random >> 60);
        let value = [random, random >> 40, near, near | 1 << 63][(random >> 8) as usize % 4];
        word.store(value, Ordering::Relaxed);
    }
}

#[test]
fn a_consumer_that_overwrites_all_words_gets_an_error_or_the_pipe() {
    for _ in 0..20 {
        let pipe = Pipe::new().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (link, shared) = take(&pipe.reader);
                scribble(shared.control(), &stop);
                drop(link);
            });
            let mut giving = give(&pipe.writer);
            let size = giving.bytes().len() / 2;
            let deadline = Instant::now() + Duration::from_millis(20);
            let mut waiter = Waiter::new(Wait::Adaptive);
            waiter.deadline = Some(deadline);
            loop {
                let window = match giving.window(64 * 1024, 1, &mut waiter) {
                    Ok(Some(window)) => window,
                    Ok(None) | Err(Errno::PROTO | Errno::TIMEDOUT) => break,
                    Err(errno) => panic!("{errno}"),
                };
                assert!(
                    window.start < size && window.len() <= 64 * 1024,
                    "{window:?}"
                );
                giving.bytes_mut()[window.clone()].fill(1);
                match giving.publish(window.len(), &mut waiter) {
                    Ok(true) => {}
                    Ok(false) | Err(Errno::PROTO | Errno::TIMEDOUT) => break,
                    Err(errno) => panic!("{errno}"),
                }
            }
            match giving.close() {
                Ok(left) => assert!(left <= size),
                Err(errno) => assert_eq!(errno, Errno::PROTO),
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_producer_that_overwrites_all_words_gets_no_more_than_an_error() {
    for _ in 0..10 {
        let pipe = Pipe::new().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let size = 1 << 20;
                let (_link, shared) = listen_and_offer(&pipe.writer, |link| {
                    let (shared, files) = Shared::create(1, size).unwrap();
                    // On a busy machine, the consumer may have given up by now.
                    let _ = meeting::offer(link.as_fd(), size, &files);
                    (link, shared)
                });
                scribble(shared.control(), &stop);
            });
            let mut joining = connected(&pipe.reader);
            let deadline = Instant::now() + Duration::from_millis(100);
            let mut waiter = Waiter::new(Wait::Adaptive);
            waiter.deadline = Some(deadline);
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match joining.next(pipe.reader.as_fd(), buffer.len(), &mut waiter, &mut false) {
                    Ok(Next::Claimed(range)) => {
                        assert!(range.len() <= buffer.len());
                        let ring = joining.ring_mut().unwrap();
                        ring.copy(range, &mut buffer);
                        ring.release(0);
                    }
                    Ok(Next::Pipe) if Instant::now() < deadline => {}
                    Ok(Next::Pipe) | Err(Errno::PROTO | Errno::TIMEDOUT) => break,
                    Ok(Next::Queued(n)) => panic!("{n} bytes in an empty pipe"),
                    Err(errno) => panic!("{errno}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// Listens as a producer, and calls `offer` for the first process that connects.
fn listen_and_offer<T>(pipe: &OwnedFd, offer: impl FnOnce(OwnedFd) -> T) -> T {
    offer_to_first(&Listener::new(pipe.as_fd()).unwrap(), offer)
}

fn offer_to_first<T>(listener: &Listener, offer: impl FnOnce(OwnedFd) -> T) -> T {
    let began = Instant::now();
    loop {
        // Unlike a real producer, it ignores which other processes hold the pipe.
        if let Ok(link) = rustix::net::accept(listener) {
            return offer(link);
        }
        assert!(began.elapsed() < LONG);
        thread::yield_now();
    }
}

/// A consumer that has connected to a producer.
fn connected(pipe: &OwnedFd) -> Joining {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < LONG);
        match meeting::connect(pipe.as_fd()) {
            Some(link) => return Joining::Connected { link, reads: 1 },
            None => thread::yield_now(),
        }
    }
}

/// Shares memory with a consumer that writes impossible numbers by `spoil`, and lets `use_it` have the producer. Nothing
/// that it sends after that may get into the pipe.
fn send_to_a_hostile_consumer(
    spoil: fn(&Control<AtomicU64>),
    use_it: impl FnOnce(Producer<&OwnedFd>),
) {
    let pipe = Pipe::new().unwrap();
    let (tell, told) = mpsc::channel();
    let (end, has_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let source = &pipe.reader;
        scope.spawn(move || {
            let taken = take(source);
            spoil(taken.1.control());
            tell.send(()).unwrap();
            // It stays until the producer is gone.
            let _ = has_ended.recv();
        });
        let inner = fullbore::Producer::new(&pipe.writer).unwrap();
        let mut out = Producer::new(inner, Waiter::new(Wait::Block));
        let began = Instant::now();
        while !out.is_sharing() {
            assert!(began.elapsed() < LONG);
            out.write_all(b"x").unwrap();
            out.flush().unwrap();
            // The two meet while the pipe is empty.
            if queued(&pipe) > 0 {
                rustix::io::read(source, &mut [0; 64]).unwrap();
            }
        }
        told.recv().unwrap();
        use_it(out);
        assert_eq!(queued(&pipe), 0);
        drop(end);
    });
}

fn queued(pipe: &Pipe) -> u64 {
    rustix::io::ioctl_fionread(&pipe.reader).unwrap()
}

const PROTO: Option<i32> = Some(Errno::PROTO.raw_os_error());

#[test]
fn the_stream_of_a_producer_has_ended_once_its_consumer_was_found_to_be_dishonest() {
    let released =
        |control: &Control<AtomicU64>| control.released.0.store(1 << 40, Ordering::Release);
    send_to_a_hostile_consumer(released, |mut out| {
        let began = Instant::now();
        let error = loop {
            assert!(began.elapsed() < LONG);
            if let Err(error) = out.reserve(out.chunk()) {
                break error;
            }
            if let Err(error) = out.commit(out.chunk()) {
                break error;
            }
        };
        assert_eq!(error.raw_os_error(), PROTO);
        let sent = out.sent();
        for _ in 0..3 {
            assert_eq!(out.reserve(out.chunk()).unwrap_err().raw_os_error(), PROTO);
            // A few bytes may be accepted, and are never sent.
            let wrote = out.write_all(&[7; 100]).and_then(|()| out.flush());
            assert_eq!(wrote.unwrap_err().raw_os_error(), PROTO);
        }
        assert_eq!(out.sent(), sent);
        let unfinished = out.finish().unwrap_err();
        assert_eq!(unfinished.error.raw_os_error(), PROTO);
        let again = unfinished.producer.finish().unwrap_err();
        assert_eq!(again.error.raw_os_error(), PROTO);
    });
}

#[test]
fn a_producer_that_finds_an_impossible_number_at_its_end_has_the_error_again_and_again() {
    let claim = |control: &Control<AtomicU64>| control.claim.0.store(1 << 40, Ordering::Release);
    send_to_a_hostile_consumer(claim, |mut out| {
        out.write_all(&[7; 100]).unwrap();
        let mut out = out.finish().unwrap_err();
        for _ in 0..3 {
            assert_eq!(out.error.raw_os_error(), PROTO);
            let mut producer = *out.producer;
            let wrote = producer
                .write_all(&[7; 100])
                .and_then(|()| producer.flush());
            assert_eq!(wrote.unwrap_err().raw_os_error(), PROTO);
            out = producer.finish().unwrap_err();
        }
    });
}

#[test]
fn the_stream_of_a_consumer_has_ended_once_its_producer_was_found_to_be_dishonest() {
    let pipe = Pipe::new().unwrap();
    let listener = Listener::new(pipe.writer.as_fd()).unwrap();
    let (end, has_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let size = 1 << 20;
            let _taken = offer_to_first(&listener, |link| {
                let (shared, files) = Shared::create(1, size).unwrap();
                shared.control().head.0.store(1 << 40, Ordering::Release);
                meeting::offer(link.as_fd(), size, &files).unwrap();
                (link, shared)
            });
            let _ = has_ended.recv();
        });
        let inner = fullbore::Consumer::new(&pipe.reader).unwrap();
        let mut source = Consumer::new(inner, Waiter::new(Wait::Block));
        let error = source.fill_buf().unwrap_err();
        assert_eq!(error.raw_os_error(), PROTO);
        // What is in the pipe does not belong behind what was in the ring.
        rustix::io::write(&pipe.writer, b"from the pipe").unwrap();
        for _ in 0..3 {
            let error = source.fill_buf().unwrap_err();
            assert_eq!(error.raw_os_error(), PROTO);
            let mut bytes = vec![0; 8 << 20];
            assert_eq!(source.read(&mut bytes).unwrap_err().raw_os_error(), PROTO);
            assert_eq!(source.discard(5).unwrap_err().raw_os_error(), PROTO);
        }
        assert_eq!(source.taken(), 0);
        assert_eq!(source.into_parts().1, b"");
        assert_eq!(queued(&pipe), 13);
        drop(end);
    });
}

/// Returns what a consumer does after such an offer.
fn after(offer: impl FnOnce(OwnedFd) + Send) -> Next {
    let pipe = Pipe::new().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| listen_and_offer(&pipe.writer, offer));
        let mut joining = connected(&pipe.reader);
        let mut waiter = Waiter::new(Wait::Block);
        joining
            .next(pipe.reader.as_fd(), 100, &mut waiter, &mut false)
            .unwrap()
    })
}

#[test]
fn wrong_offers_leave_the_consumer_with_the_pipe() {
    let file = || OwnedFd::from(tempfile::tempfile().unwrap());
    let files = || [file(), file()];
    // Ordinary files, sizes of every kind, and files in the wrong order.
    assert_eq!(
        after(|link| {
            let _ = meeting::offer(link.as_fd(), 4096, &files());
        }),
        Next::Pipe
    );
    for size in [0, 1, 4097, 1 << 21, usize::MAX] {
        let next = after(|link| {
            let (_, files) = Shared::create(1, 1 << 20).unwrap();
            let _ = meeting::offer(link.as_fd(), size, &files);
        });
        assert_eq!(next, Next::Pipe, "{size}");
    }
    let next = after(|link| {
        let (_, [words, bytes]) = Shared::create(1, 1 << 20).unwrap();
        let _ = meeting::offer(link.as_fd(), 1 << 20, &[bytes, words]);
    });
    assert_eq!(next, Next::Pipe);
    // A flood of bytes without files, and an end at once.
    let flood = |link: OwnedFd| while !meeting::wake(link.as_fd()) && !is_full(&link) {};
    assert_eq!(after(flood), Next::Pipe);
    assert_eq!(after(drop), Next::Pipe);
}

fn is_full(link: &OwnedFd) -> bool {
    !fullbore_linux::is_ready(link.as_fd(), fullbore_linux::wait::Ready::ToWrite).unwrap()
}

#[test]
fn a_side_that_floods_the_socket_is_only_woken() {
    let pipe = Pipe::new().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (link, shared) = take(&pipe.reader);
            while !meeting::wake(link.as_fd()) && !is_full(&link) {}
            // It claims nothing, and ends.
            drop((link, shared));
        });
        let mut giving = give(&pipe.writer);
        let mut waiter = Waiter::new(Wait::Block);
        let mut sent = 0;
        while let Some(window) = giving.window(64 * 1024, 1, &mut waiter).unwrap() {
            if giving.publish(window.len(), &mut waiter) != Ok(true) {
                break;
            }
            sent += window.len();
        }
        assert_eq!(
            giving.close(),
            Ok(sent),
            "everything is the producer's again"
        );
    });
}

#[test]
fn connections_of_others_are_refused_and_change_nothing() {
    let pipe = Pipe::new().unwrap();
    let other = Pipe::new().unwrap();
    let mut listener = Listener::new(pipe.writer.as_fd()).unwrap();
    let user = rustix::process::geteuid().as_raw();
    // This process does not hold the read end.
    drop(pipe.reader);
    let refuse_some = |listener: &mut Listener| {
        for _ in 0..100 {
            let _ = meeting::connect_by(pipe.writer.as_fd(), user);
            assert!(listener.accept(pipe.writer.as_fd()).is_none());
        }
    };
    for _ in 0..20 {
        listener.hurry();
        refuse_some(&mut listener);
    }
    assert!(!listener.is_exhausted());
    // The other pipe has no listener, and a name cannot be bound twice.
    assert!(meeting::connect(other.reader.as_fd()).is_none());
    let _first = Listener::new(other.writer.as_fd()).unwrap();
    assert!(Listener::new(other.writer.as_fd()).is_none());
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        fullbore_tests::skipped("only root can be another user");
        return;
    }
    let pipe = Pipe::new().unwrap();
    let mut listener = Listener::new(pipe.writer.as_fd()).unwrap();
    let link = connect_as_another_user(&pipe.reader);
    assert!(listener.accept(pipe.writer.as_fd()).is_none());
    drop(link);
}

/// Connects from a thread of another user that holds the same pipe.
fn connect_as_another_user(source: &OwnedFd) -> OwnedFd {
    let connected = thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            // SAFETY: the system call changes the user of this thread alone.
            let answer = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            assert_eq!(answer, 0);
            // The name is that of the producer's user.
            meeting::connect_by(source.as_fd(), 0)
        });
        connecting.join().unwrap()
    });
    connected.expect("anybody may connect")
}

#[test]
fn another_user_who_connects_does_not_end_the_sharing() {
    if !rustix::process::geteuid().is_root() {
        fullbore_tests::skipped("only root can be another user");
        return;
    }
    let pipe = Pipe::new().unwrap();
    thread::scope(|scope| {
        let taking = scope.spawn(|| take(&pipe.reader));
        let mut giving = give(&pipe.writer);
        let _taken = taking.join().unwrap();
        let _link = connect_as_another_user(&pipe.reader);
        let mut waiter = Waiter::new(Wait::Block);
        for _ in 0..10 {
            // It checks every few milliseconds.
            thread::sleep(std::time::Duration::from_millis(10));
            giving.window(100, 1, &mut waiter).unwrap().unwrap();
            assert_eq!(giving.publish(1, &mut waiter), Ok(true));
            assert!(!giving.over);
        }
    });
}
