//! A server of one page over HTTP/1.1, for a handful of clients.
//!
//! Each client has a thread of its own, so a client that is slow or silent delays no other. It has a time by
//! which it must have sent its request, and one by which it must have read its answer. Each connection gets
//! one answer and is closed. When there are too many clients, new ones wait until one has left.
//!
//! A client is never disconnected because this process was slow: what it has sent is read before its time is
//! checked.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::request::{Answer, Format, MOST_OF_REQUEST, answer};

/// The most bytes that are read and discarded after an answer. If they were left unread, the answer might be
/// lost (RFC 9112, 9.6).
const MOST_AFTER: u64 = 64 * 1024;

/// How long no client is accepted when there are too many, or no file descriptor or memory for one more.
const PAUSE: Duration = Duration::from_millis(20);

/// The limits for clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most clients at a time.
    pub clients: usize,
    /// How long a client may take to send its request.
    pub to_ask: Duration,
    /// How long a client may take to read the answer and close the connection.
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
/// Fails if no thread can be made.
pub fn serve(
    listener: TcpListener,
    limits: Limits,
    page: impl Fn(Format) -> Answer + Clone + Send + 'static,
) -> io::Result<()> {
    let is_local = listener.local_addr()?.ip().to_canonical().is_loopback();
    let connected = Arc::new(());
    let accept = move || {
        loop {
            let (page, token) = (page.clone(), Arc::clone(&connected));
            let has_room = Arc::strong_count(&connected) <= limits.clients + 1;
            let accepted = has_room
                && listener.accept().is_ok_and(|(stream, _)| {
                    let serve = move || {
                        if converse(&stream, limits, is_local, page).is_err() {
                            // The kernel would keep what the client has not read for as long as the client
                            // pleases (socket(7), `SO_LINGER`).
                            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
                        }
                        drop(stream);
                        drop(token);
                    };
                    thread::Builder::new().spawn(serve).is_ok()
                });
            if !accepted {
                thread::sleep(PAUSE);
            }
        }
    };
    thread::Builder::new().spawn(accept)?;
    Ok(())
}

/// Reads a request, sends the answer, and waits for the client to close the connection.
fn converse(
    stream: &TcpStream,
    limits: Limits,
    is_local: bool,
    page: impl Fn(Format) -> Answer,
) -> io::Result<()> {
    let (mut request, mut buffer) = (Vec::new(), [0; MOST_OF_REQUEST]);
    let mut asking = Timed::new(stream, limits.to_ask);
    let (head, body) = loop {
        let read = asking.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..read]);
        match answer(&request, is_local, &page) {
            Some(answer) => break answer,
            None if read == 0 => return Ok(()),
            None => {}
        }
    };
    let mut fetching = Timed::new(stream, limits.to_fetch);
    fetching.write_all(&head)?;
    fetching.write_all(&body)?;
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut fetching.take(MOST_AFTER), &mut io::sink())?;
    Ok(())
}

/// A connection whose calls fail after a time. One call is allowed after it, which finds what came in time.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
    is_over: bool,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a TcpStream, time: Duration) -> Self {
        let until = Instant::now() + time;
        Self {
            stream,
            until,
            is_over: false,
        }
    }

    fn time_left(&mut self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        match std::mem::replace(&mut self.is_over, left.is_zero()) {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left.max(Duration::from_millis(1)))),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        match Read::read(&mut self.stream, buffer) {
            // A stop signal interrupts a call, although no handler is installed (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read(buffer),
            read => read,
        }
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        Write::write(&mut self.stream, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    const SHORT: Limits = Limits {
        clients: 8,
        to_ask: Duration::from_millis(500),
        to_fetch: Duration::from_millis(1500),
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
        let body: Arc<[u8]> = vec![b'#'; size].into();
        let made = Arc::new(OnceLock::new());
        let page = move |_| {
            made.get_or_init(|| thread::sleep(late));
            Answer {
                status: "200 OK",
                content_type: "text",
                body: Arc::clone(&body),
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
                let patience = Timespec {
                    tv_sec: 60,
                    tv_nsec: 0,
                };
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
