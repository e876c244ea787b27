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
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;

use super::request::{Answer, Format, answer};

/// The most bytes that are read and discarded after an answer. If they were left unread, the answer might be
/// lost (RFC 9112, 9.6).
const MOST_AFTER: usize = 64 * 1024;

/// How long this waits at most while there are clients, or while none can be accepted because there are too
/// many, or no file descriptor or memory for one more.
const PAUSE: Duration = Duration::from_millis(20);

/// The limits for clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most connections at a time.
    pub connections: usize,
    /// How long a client may take to send its request.
    pub to_ask: Duration,
    /// How long a client may take to read the answer and close the connection.
    pub to_fetch: Duration,
}

/// The limits of `fullbore top`: more than a hundred scrapes at once are served side by side.
pub const LIMITS: Limits = Limits {
    connections: 160,
    to_ask: Duration::from_secs(5),
    to_fetch: Duration::from_secs(10),
};

/// The content of the server, and its other work.
pub trait Service: Send + 'static {
    /// Returns the page in this format.
    fn page(&mut self, format: Format) -> Answer;

    /// Returns when there is other work to do, if there is any.
    fn next_work(&self) -> Option<Instant>;

    /// Does the other work.
    fn work(&mut self);
}

/// Serves the page until `stop` can be read from. Clients that are connected then keep their threads.
///
/// # Errors
/// Fails if connections can no longer be waited for.
pub fn serve(
    listener: &TcpListener,
    stop: BorrowedFd<'_>,
    limits: Limits,
    service: Arc<Mutex<impl Service>>,
) -> io::Result<()> {
    let is_local = listener.local_addr()?.ip().to_canonical().is_loopback();
    listener.set_nonblocking(true)?;
    let connected = Arc::new(());
    let mut has_room = true;
    loop {
        let work = locked(&service).next_work();
        let work = work.map(|when| when.saturating_duration_since(Instant::now()));
        // A client may give the service other work while this waits.
        let is_serving = Arc::strong_count(&connected) > 1;
        let pause = (is_serving || !has_room).then_some(PAUSE);
        let patience = work.into_iter().chain(pause).min();
        let mut fds = [
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        match poll(
            &mut fds[..1 + usize::from(has_room)],
            patience.map(rounded_up).as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [stopped, has_client] = fds.map(|fd| !fd.revents().is_empty());
        if stopped {
            return Ok(());
        }
        let mut accepted = true;
        if has_client {
            let (service, token) = (Arc::clone(&service), Arc::clone(&connected));
            accepted = accept(listener, move |stream| {
                if converse(&stream, limits, is_local, &service).is_err() {
                    // The kernel would keep what the client has not read for as long as the client pleases
                    // (socket(7), `SO_LINGER`).
                    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
                }
                drop(stream);
                drop(token);
            });
        }
        has_room = accepted && Arc::strong_count(&connected) <= limits.connections;
        let mut service = locked(&service);
        if service
            .next_work()
            .is_some_and(|when| when <= Instant::now())
        {
            service.work();
        }
    }
}

fn locked<T>(service: &Mutex<T>) -> MutexGuard<'_, T> {
    service.lock().expect("no scan panics")
}

/// Rounds a time up, so that poll(2) does not wake before it.
fn rounded_up(time: Duration) -> Timespec {
    Timespec::try_from(time + Duration::from_millis(1)).expect("it is less than a day")
}

/// Accepts a client, if it is still there, and serves it in a thread. Returns `false` if there is no file
/// descriptor, memory or thread left, which may change.
fn accept(listener: &TcpListener, serve: impl FnOnce(TcpStream) + Send + 'static) -> bool {
    use Errno as E;
    match listener.accept() {
        Ok((stream, _)) => thread::Builder::new().spawn(move || serve(stream)).is_ok(),
        Err(error) => !matches!(
            Errno::from_io_error(&error),
            Some(E::MFILE | E::NFILE | E::NOBUFS | E::NOMEM)
        ),
    }
}

/// A time by which a client must be done. It allows one last try after that, which finds what came in time.
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(time: Duration) -> Self {
        Self(Some(Instant::now() + time))
    }

    fn time_left(&mut self) -> io::Result<Duration> {
        let at = self.0.ok_or(io::ErrorKind::TimedOut)?;
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.0 = None;
        }
        Ok(left.max(Duration::from_millis(1)))
    }

    fn read(&mut self, mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        stream.set_read_timeout(Some(self.time_left()?))?;
        uninterrupted(|| stream.read(buffer))
    }

    fn write(&mut self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        stream.set_write_timeout(Some(self.time_left()?))?;
        uninterrupted(|| stream.write(bytes))
    }
}

/// Repeats a call that a stop signal interrupts, although no handler is installed (signal(7)).
fn uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Reads a request, sends the answer, and waits for the client to close the connection.
fn converse(
    stream: &TcpStream,
    limits: Limits,
    is_local: bool,
    service: &Mutex<impl Service>,
) -> io::Result<()> {
    let mut buffer = [0; 8192];
    let mut request = Vec::new();
    let mut deadline = Deadline::after(limits.to_ask);
    let (head, body) = loop {
        let read = deadline.read(stream, &mut buffer)?;
        request.extend_from_slice(&buffer[..read]);
        match answer(&request, is_local, |format| locked(service).page(format)) {
            Some(answer) => break answer,
            None if read == 0 => return Ok(()),
            None => {}
        }
    };
    let mut deadline = Deadline::after(limits.to_fetch);
    for mut left in [&head[..], &body] {
        while !left.is_empty() {
            left = &left[deadline.write(stream, left)?..];
        }
    }
    stream.shutdown(Shutdown::Write)?;
    let mut discarded = 0;
    while discarded < MOST_AFTER {
        match deadline.read(stream, &mut buffer)? {
            0 => return Ok(()),
            read => discarded += read,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    const SHORT: Limits = Limits {
        connections: 8,
        to_ask: Duration::from_millis(500),
        to_fetch: Duration::from_millis(1500),
    };
    const PATIENT: Limits = Limits {
        to_ask: Duration::from_secs(60),
        to_fetch: Duration::from_secs(60),
        ..SHORT
    };
    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// A service with one page and endless work.
    struct Counted {
        page: Arc<[u8]>,
        worked: usize,
        /// Whether the page was asked for: there is no work before.
        is_asked: bool,
        next_work: Instant,
        /// How long each piece of work takes.
        work_takes: Duration,
    }

    impl Service for Counted {
        fn page(&mut self, _: Format) -> Answer {
            self.is_asked = true;
            Answer {
                status: "200 OK",
                content_type: "text",
                body: Arc::clone(&self.page),
            }
        }

        fn next_work(&self) -> Option<Instant> {
            self.is_asked.then_some(self.next_work)
        }

        fn work(&mut self) {
            self.worked += 1;
            thread::sleep(self.work_takes);
            self.next_work = Instant::now() + Duration::from_millis(1);
        }
    }

    /// Runs `clients` beside a server of a page of `size` bytes, and returns their result.
    fn with_server<T>(
        limits: Limits,
        size: usize,
        clients: impl FnOnce(&dyn Fn() -> TcpStream) -> T,
    ) -> T {
        with_slow_server(limits, size, Duration::ZERO, clients)
    }

    /// Does the same with a server that is busy for `work_takes` again and again.
    fn with_slow_server<T>(
        limits: Limits,
        size: usize,
        work_takes: Duration,
        clients: impl FnOnce(&dyn Fn() -> TcpStream) -> T,
    ) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stops) = UnixStream::pair().unwrap();
        let service = Arc::new(Mutex::new(Counted {
            page: vec![b'#'; size].into(),
            worked: 0,
            is_asked: false,
            next_work: Instant::now(),
            work_takes,
        }));
        let connect = move || {
            let client = TcpStream::connect(address).unwrap();
            // With a timeout, a test that fails does not hang.
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            client
        };
        thread::scope(|scope| {
            let served = Arc::clone(&service);
            let server = scope.spawn(|| serve(&listener, stop.as_fd(), limits, served));
            // This closure owns `stops`, so the server ends even if the clients panic.
            let stops = stops;
            let result = clients(&connect);
            // Once the page was asked for, the work begins without another client.
            let began = Instant::now();
            while locked(&service).is_asked && locked(&service).worked == 0 {
                assert!(began.elapsed() < Duration::from_secs(60), "no work");
                thread::sleep(Duration::from_millis(1));
            }
            drop(stops);
            server.join().unwrap().unwrap();
            result
        })
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
    fn the_work_that_a_request_gives_begins_without_another_client() {
        with_server(PATIENT, 3, |connect| {
            let mut client = connect();
            // The server waits again by the time that the request comes.
            thread::sleep(Duration::from_millis(100));
            client.write_all(GET).unwrap();
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
            // These are more connections than the limit, and some have begun to send a request.
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
            // These are more connections than the limit.
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
