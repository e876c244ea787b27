//! A server of one page over HTTP/1.1, for a handful of clients: a thread for each.
//!
//! A client that is slow or silent delays no other. It has a time by which it must have sent its request, and one
//! by which it must have read its answer. Each connection gets one answer and is closed. When there are too many
//! clients, new ones wait until one has left.
//!
//! A client is never disconnected because this process was slow: what it has sent is read before its time is
//! checked.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::request::{Answer, MOST_OF_REQUEST, answered};

/// The most bytes that are read and discarded after an answer. If they were left unread, the answer might be
/// lost (RFC 9112, 9.6).
const MOST_AFTER: usize = 64 * 1024;

/// How long no client is accepted when there is no file descriptor, thread or memory for one more.
const PAUSE: Duration = Duration::from_millis(20);

/// The stack of a client's thread.
const STACK: usize = 128 * 1024;

/// The limits for clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most clients at a time.
    pub clients: usize,
    /// How long a client may take to send its request.
    pub to_ask: Duration,
    /// How long a client may take to read the answer, and then to close the connection.
    pub to_fetch: Duration,
}

/// The limits of `fullbore top`: more than a hundred scrapes at once are served side by side.
pub const LIMITS: Limits = Limits {
    clients: 160,
    to_ask: Duration::from_secs(5),
    to_fetch: Duration::from_secs(10),
};

/// Begins a thread that serves what `page` returns for as long as this process runs.
///
/// # Errors
/// Fails if the thread cannot be made, or the listener has no address.
pub fn serve(
    listener: TcpListener,
    limits: Limits,
    page: impl Fn() -> Answer + Clone + Send + 'static,
) -> io::Result<()> {
    let is_local = listener.local_addr()?.ip().to_canonical().is_loopback();
    let (taken, places) = sync_channel(limits.clients);
    let places = Arc::new(Mutex::new(places));
    let accept = move || {
        loop {
            // Waits until there is a place.
            let _ = taken.send(());
            let place = Place(Arc::clone(&places));
            let page = page.clone();
            let started = listener.accept().and_then(|(stream, _)| {
                let thread = thread::Builder::new().stack_size(STACK);
                thread.spawn(move || {
                    // Given back when the thread ends, even by a panic.
                    let _place = place;
                    if converse(&stream, limits, is_local, page).is_err() {
                        // The kernel would keep what the client has not read for as long as the client pleases
                        // (socket(7), `SO_LINGER`).
                        let _ = set_socket_linger(&stream, Some(Duration::ZERO));
                    }
                })
            });
            if started.is_err() {
                thread::sleep(PAUSE);
            }
        }
    };
    thread::Builder::new().spawn(accept)?;
    Ok(())
}

/// The place of one client among those that there may be at a time: the channel has an element for each.
struct Place(Arc<Mutex<Receiver<()>>>);

impl Drop for Place {
    fn drop(&mut self) {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = places.try_recv();
    }
}

/// Reads a request, sends the answer, and waits for the client to close the connection.
///
/// # Errors
/// If the client has not done its part in time.
fn converse(
    stream: &TcpStream,
    limits: Limits,
    is_local: bool,
    page: impl Fn() -> Answer,
) -> io::Result<()> {
    let Some(bytes) = asked(stream, is_local, page, Patience::of(limits.to_ask))? else {
        return Ok(());
    };
    let patience = Patience::of(limits.to_fetch);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let limit = |left| stream.set_write_timeout(Some(left));
        let wrote = patience.until(limit, || (&*stream).write(rest))?;
        rest = &rest[wrote..];
    }
    stream.shutdown(Shutdown::Write)?;
    let (mut discarded, mut nowhere) = (0, [0; 4096]);
    while discarded < MOST_AFTER {
        match read(stream, &mut nowhere, patience)? {
            0 => break,
            count => discarded += count,
        }
    }
    Ok(())
}

/// Reads a request, and returns the bytes of its answer; `None` if the client has closed the connection first.
fn asked(
    stream: &TcpStream,
    is_local: bool,
    page: impl Fn() -> Answer,
    patience: Patience,
) -> io::Result<Option<Vec<u8>>> {
    let mut request = [0; MOST_OF_REQUEST];
    let mut filled = 0;
    loop {
        match read(stream, &mut request[filled..], patience)? {
            0 => return Ok(None),
            count => filled += count,
        }
        let answer = answered(&request[..filled], filled == request.len(), is_local, &page);
        if answer.is_some() {
            return Ok(answer);
        }
    }
}

/// Until when a client has time.
#[derive(Clone, Copy)]
struct Patience(Instant);

impl Patience {
    fn of(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Does `work`, which waits for the time that `limit` sets at most. When the time is up it is tried once more:
    /// if this process was stopped, or a page took long, what it waits for may have come in time.
    fn until(
        self,
        limit: impl Fn(Duration) -> io::Result<()>,
        mut work: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let left = self.0.saturating_duration_since(Instant::now());
            limit(left.max(Duration::from_millis(1)))?;
            match work() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !left.is_zero() => {}
                done => return done,
            }
        }
    }
}

fn read(stream: &TcpStream, buffer: &mut [u8], patience: Patience) -> io::Result<usize> {
    let limit = |left| stream.set_read_timeout(Some(left));
    patience.until(limit, || (&*stream).read(buffer))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::OnceLock;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::super::request::OK;
    use super::*;

    const SHORT: Limits = Limits {
        clients: 8,
        to_ask: Duration::from_secs(1),
        to_fetch: Duration::from_secs(3),
    };
    const PATIENT: Limits = Limits {
        to_ask: Duration::from_secs(60),
        to_fetch: Duration::from_secs(60),
        ..SHORT
    };
    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// Runs `clients` beside a server of a page of `size` bytes, and returns their result.
    fn with_server<T>(
        limits: Limits,
        size: usize,
        clients: impl FnOnce(&dyn Fn() -> TcpStream) -> T,
    ) -> T {
        with_slow_server(limits, size, Duration::ZERO, clients)
    }

    /// Does the same with a server that needs `late` to make its page for the first time.
    fn with_slow_server<T>(
        limits: Limits,
        size: usize,
        late: Duration,
        clients: impl FnOnce(&dyn Fn() -> TcpStream) -> T,
    ) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let body: Arc<str> = "#".repeat(size).into();
        let made = Arc::new(OnceLock::new());
        let page = move || {
            made.get_or_init(|| thread::sleep(late));
            Answer {
                status: OK,
                content_type: "text",
                body: body.clone(),
            }
        };
        let connect = move || {
            let client = TcpStream::connect(address).unwrap();
            // With a timeout, a test that fails does not hang.
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            client
        };
        serve(listener, limits, page).unwrap();
        clients(&connect)
    }

    fn answer_to(connect: &dyn Fn() -> TcpStream, request: &[u8]) -> String {
        let mut client = connect();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_request_may_come_in_pieces_and_one_that_never_ends_is_refused() {
        with_server(PATIENT, 3, |connect| {
            let mut client = connect();
            for byte in GET {
                client.write_all(&[*byte]).unwrap();
                thread::sleep(Duration::from_micros(200));
            }
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("###"), "{answer}");

            let long = [b"GET /metrics HTTP/1.1\r\nx: ".as_slice(), &[b'y'; 100_000]].concat();
            let many = b"GET /metrics HTTP/1.1\r\n".iter().copied();
            let many: Vec<u8> = many.chain(b"a: b\r\n".repeat(70)).chain(*b"\r\n").collect();
            let path = [b"GET /".as_slice(), &[b'm'; 20_000]].concat();
            for request in [long, many, path] {
                let mut client = connect();
                // The server may close the connection before everything is written.
                let _ = client.write_all(&request);
                let mut answer = [0; 12];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"HTTP/1.1 431");
            }
        });
    }

    #[test]
    fn what_is_no_request_is_refused() {
        with_server(PATIENT, 3, |connect| {
            for request in [
                "GET /metrics HTTP/2.0",
                "GET /metrics",
                "\x16\x03\x01\x02",
                "GET /\u{e4}\x07 HTTP/1.1",
                "GET /metrics HTTP/1.1\r\nno colon",
            ] {
                let answer = answer_to(connect, format!("{request}\r\n\r\n").as_bytes());
                assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
                assert!(!answer.contains('#'), "{request}: {answer}");
            }
        });
    }

    #[test]
    fn an_answer_is_all_that_a_connection_gets() {
        with_server(PATIENT, 3, |connect| {
            let two = [GET, GET].concat();
            let answer = answer_to(connect, &two);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            for header in ["Content-Length: 3\r\n", "Connection: close\r\n"] {
                assert!(answer.contains(header), "{answer}");
            }
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
            let head = answer_to(connect, &[b"HEAD", &GET[3..]].concat());
            assert!(head.contains("Content-Length: 3\r\n"), "{head}");
            assert!(head.ends_with("\r\n\r\n"), "{head}");
            // A client of the old version that has closed its side after the request.
            let mut client = connect();
            client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("###"), "{answer}");
        });
    }

    #[test]
    fn what_comes_after_a_request_does_not_cost_its_answer() {
        with_server(PATIENT, 3, |connect| {
            let body = [b'x'; 50_000];
            let request = format!(
                "POST /metrics HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            for _ in 0..20 {
                let answer = answer_to(connect, &[request.as_bytes(), &body].concat());
                assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
                assert!(answer.ends_with("Allowed\n"), "{answer}");
            }
        });
    }

    #[test]
    fn a_client_that_never_asks_delays_others_for_its_time_at_most_and_goes() {
        with_server(SHORT, 3, |connect| {
            // These are more clients than the limit, and some have begun to send a request.
            let mut silent: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
            for client in silent.iter_mut().step_by(2) {
                let _ = client.write_all(b"GET /metr");
            }
            for _ in 0..10 {
                assert!(answer_to(connect, GET).ends_with("###"));
            }
        });
        with_server(SHORT, 3, |connect| {
            let mut silent: Vec<TcpStream> = (0..5).map(|_| connect()).collect();
            for client in &mut silent {
                // The client sees the end of the file or a reset, but never a byte.
                let read = client.read(&mut [0; 1]);
                assert!(!matches!(read, Ok(1..)), "{read:?}");
                if let Err(error) = read {
                    assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it was kept");
                }
            }
        });
    }

    #[test]
    fn who_does_not_fetch_the_answer_holds_nobody_up_and_goes() {
        let large = 64 << 20;
        with_server(SHORT, large, |connect| {
            let mut slow: Vec<TcpStream> = (0..4).map(|_| connect()).collect();
            for client in &mut slow {
                client.write_all(GET).unwrap();
            }
            let answer = answer_to(connect, b"GET / HTTP/1.1\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
            for client in &slow {
                // This waits only for the end of the connection, and not for bytes to read.
                let mut cut = [PollFd::new(client, PollFlags::RDHUP)];
                let patience = Timespec::try_from(Duration::from_secs(60)).unwrap();
                assert_eq!(poll(&mut cut, Some(&patience)), Ok(1), "it was kept");
            }
        });
    }

    #[test]
    fn a_client_that_asks_in_time_is_answered_by_a_server_that_is_late() {
        // The server is late by more than the time that a client has for its request.
        let late = SHORT.to_ask * 2;
        with_slow_server(SHORT, 3, late, |connect| {
            let (first, rest) = GET.split_at(20);
            // These are more clients than the limit.
            let clients = (0..20).map(|_| {
                let mut client = connect();
                client.write_all(first).unwrap();
                client.write_all(rest).unwrap();
                client
            });
            for mut client in clients.collect::<Vec<_>>() {
                let mut answer = String::new();
                client.read_to_string(&mut answer).unwrap();
                assert!(answer.ends_with("###"), "{answer}");
            }
        });
    }
}
