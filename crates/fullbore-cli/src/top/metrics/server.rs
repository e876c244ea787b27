//! A server of one page over HTTP/1.1, for a handful of clients. It starts no threads, and nothing in it
//! grows without a limit.
//!
//! One thread waits for all connections at once, so a client that is slow or silent delays no other. Each
//! client has a time by which it must have sent its request, and one by which it must have read its answer;
//! when there are too many clients, the one that has been idle longest is disconnected. Each connection gets
//! one answer and is closed.
//!
//! A client is never disconnected because this process was slow: what a client has sent is read before its
//! time is checked, and a round in which this process was kept from serving counts for no more than
//! [`MOST_OF_ROUND`].

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;

use super::request::{Answer, Format, answer};

/// The most bytes that are read and discarded after an answer. If they were left unread, the answer might be
/// lost (RFC 9112, 9.6).
const MOST_AFTER: usize = 64 * 1024;

/// How long no connection is accepted after the file descriptors have run out.
const OUT_OF_FDS: Duration = Duration::from_millis(100);

/// The most time that a round counts for, besides the time in which it waited for clients.
const MOST_OF_ROUND: Duration = Duration::from_millis(100);

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

/// The limits of `fullbore top`: more than a hundred scrapes at once are served without dropping one.
pub const LIMITS: Limits = Limits {
    connections: 160,
    to_ask: Duration::from_secs(5),
    to_fetch: Duration::from_secs(10),
};

/// The content of the server, and its other work.
pub trait Service {
    /// Returns the page in this format.
    fn page(&mut self, format: Format) -> Answer;

    /// Returns when there is other work to do, if there is any.
    fn next_work(&self) -> Option<Instant>;

    /// Does the other work.
    fn work(&mut self);
}

/// A connection to a client.
struct Connection {
    stream: TcpStream,
    state: State,
    /// When the connection is closed, whatever its state, by [`Server::now`].
    deadline: Duration,
    /// When the client last sent or read something, or was accepted.
    idle_since: Duration,
}

enum State {
    /// The client sends its request, which is kept as far as it has arrived.
    Asking(Vec<u8>),
    /// The client reads its answer: the head, the body, and how many bytes of both were sent.
    Fetching(Vec<u8>, Arc<[u8]>, usize),
    /// The client may not have read all of the answer yet: how many more bytes are read and discarded.
    Closing(usize),
}

/// How a connection continues.
enum Next {
    /// It continues when it is ready again.
    Wait,
    /// It continues at once, in the same state.
    Again,
    /// It continues at once, in another state.
    Go(State),
    /// It is closed.
    End,
}

/// Serves the page until `stop` can be read from.
///
/// # Errors
/// Fails if connections can no longer be waited for.
pub fn serve(
    listener: &TcpListener,
    stop: BorrowedFd<'_>,
    limits: Limits,
    service: &mut impl Service,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut server = Server {
        listener,
        limits,
        is_local: listener.local_addr()?.ip().to_canonical().is_loopback(),
        connections: Vec::new(),
        now: Duration::ZERO,
        accepts_from: Duration::ZERO,
    };
    while server.round(stop, service)? {}
    Ok(())
}

struct Server<'a> {
    listener: &'a TcpListener,
    limits: Limits,
    /// Whether only this machine can reach the address that is served.
    is_local: bool,
    connections: Vec<Connection>,
    /// The time for which clients could be served so far; it is the clock of all deadlines.
    now: Duration,
    /// The time from which connections are accepted, which is later than `now` if the file descriptors had
    /// run out.
    accepts_from: Duration,
}

impl Server<'_> {
    /// Waits until there is something to do, and does it. Returns whether the server continues.
    fn round(&mut self, stop: BorrowedFd<'_>, service: &mut impl Service) -> io::Result<bool> {
        let began = Instant::now();
        let accepts = self.accepts_from <= self.now;
        let deadlines = self.connections.iter().map(|one| one.deadline);
        let deadlines = deadlines.chain((!accepts).then_some(self.accepts_from));
        let work = service
            .next_work()
            .map(|when| when.saturating_duration_since(began));
        let patience = deadlines
            .map(|deadline| deadline.saturating_sub(self.now))
            .chain(work)
            .min();

        let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        fds.extend(self.connections.iter().map(Connection::wants));
        if accepts {
            fds.push(PollFd::new(self.listener, PollFlags::IN));
        }
        match poll(&mut fds, patience.map(rounded_up).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let most = patience.unwrap_or(Duration::MAX);
        self.now += began.elapsed().min(most.saturating_add(MOST_OF_ROUND));
        let woke = Instant::now();
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return Ok(false);
        }
        let (of_connections, of_listener) = ready[1..].split_at(self.connections.len());
        self.advance(of_connections, service);
        if of_listener == [true] && self.accept(service).is_err() {
            // No file descriptors or no memory is left, which may change.
            self.accepts_from = self.now + OUT_OF_FDS;
        }
        let now = self.now;
        self.connections.retain(|connection| {
            let has_time = connection.deadline > now;
            if !has_time {
                connection.cut();
            }
            has_time
        });
        if service
            .next_work()
            .is_some_and(|when| when <= Instant::now())
        {
            service.work();
        }
        self.now += woke.elapsed().min(MOST_OF_ROUND);
        Ok(true)
    }

    /// Advances those connections that are ready, without waiting.
    fn advance(&mut self, ready: &[bool], service: &mut impl Service) {
        let mut ready = ready.iter();
        let (now, limits, is_local) = (self.now, self.limits, self.is_local);
        self.connections.retain_mut(|connection| {
            ready.next() != Some(&true) || connection.advance(now, limits, is_local, service)
        });
    }

    /// Accepts all pending connections. If there are too many, the new ones replace old ones, but none from
    /// which received bytes are still unread.
    fn accept(&mut self, service: &mut impl Service) -> io::Result<()> {
        // Clients that connect without end must not keep the others from being served.
        for _ in 0..self.limits.connections {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    // The client or its network is already gone (accept(2), 'Error handling').
                    _ if error.raw_os_error().is_some_and(is_of_one) => continue,
                    _ => return Err(error),
                },
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.connections.len() == self.limits.connections {
                self.make_room(service);
            }
            let mut connection = Connection {
                stream,
                state: State::Asking(Vec::new()),
                deadline: self.now + self.limits.to_ask,
                idle_since: self.now,
            };
            // The request has often arrived together with the connection.
            if connection.advance(self.now, self.limits, self.is_local, service) {
                self.connections.push(connection);
            }
        }
        Ok(())
    }

    /// Reads what each client has sent, and then disconnects one client if there are still too many: the one
    /// that has been idle longest among those that have their answer, or among all if none has.
    fn make_room(&mut self, service: &mut impl Service) {
        let all = vec![true; self.connections.len()];
        self.advance(&all, service);
        let idle = (self.connections.iter().enumerate())
            .min_by_key(|(_, connection)| {
                let is_answered = matches!(connection.state, State::Closing(_));
                (!is_answered, connection.idle_since)
            })
            .filter(|_| self.connections.len() == self.limits.connections);
        if let Some((idle, _)) = idle {
            self.connections.remove(idle).cut();
        }
    }
}

/// Rounds a time up, so that poll(2) does not wake before it.
fn rounded_up(time: Duration) -> Timespec {
    let time = time + Duration::from_millis(1);
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Returns whether an error of accept(2) concerns only one connection.
fn is_of_one(errno: i32) -> bool {
    !matches!(
        Errno::from_raw_os_error(errno),
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM
    )
}

impl Connection {
    fn wants(&self) -> PollFd<'_> {
        let flags = match self.state {
            State::Asking(_) | State::Closing(_) => PollFlags::IN,
            State::Fetching(..) => PollFlags::OUT,
        };
        PollFd::from_borrowed_fd(self.stream.as_fd(), flags)
    }

    /// Makes the kernel discard what the client has not read when the connection is closed; otherwise the
    /// kernel keeps it for as long as the client pleases (socket(7), `SO_LINGER`).
    fn cut(&self) {
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }

    /// Does what can be done without waiting. Returns whether the connection continues.
    fn advance(
        &mut self,
        now: Duration,
        limits: Limits,
        is_local: bool,
        service: &mut impl Service,
    ) -> bool {
        loop {
            match self.step(is_local, service) {
                Ok(next) => {
                    self.idle_since = now;
                    match next {
                        Next::Wait => return true,
                        Next::End => return false,
                        Next::Again => {}
                        Next::Go(state) => {
                            if let State::Fetching(..) = state {
                                self.deadline = now + limits.to_fetch;
                            }
                            self.state = state;
                        }
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return true,
                    io::ErrorKind::Interrupted => {}
                    // The client is gone.
                    _ => return false,
                },
            }
        }
    }

    fn step(&mut self, is_local: bool, service: &mut impl Service) -> io::Result<Next> {
        match &mut self.state {
            State::Asking(request) => {
                let mut buffer = [0; 2048];
                let read = self.stream.read(&mut buffer)?;
                request.extend_from_slice(&buffer[..read]);
                Ok(
                    match answer(request, is_local, |format| service.page(format)) {
                        Some((head, body)) => Next::Go(State::Fetching(head, body, 0)),
                        // The client has closed its side before it sent a complete request.
                        None if read == 0 => Next::End,
                        None => Next::Wait,
                    },
                )
            }
            State::Fetching(head, body, sent) => {
                let left = match head.get(*sent..) {
                    Some(left) if !left.is_empty() => left,
                    _ => &body[*sent - head.len()..],
                };
                if left.is_empty() {
                    self.stream.shutdown(Shutdown::Write)?;
                    return Ok(Next::Go(State::Closing(MOST_AFTER)));
                }
                *sent += self.stream.write(left)?;
                Ok(Next::Again)
            }
            State::Closing(left) => {
                let mut buffer = [0; 4096];
                let read = self.stream.read(&mut buffer)?;
                *left = left.saturating_sub(read);
                Ok(match read == 0 || *left == 0 {
                    true => Next::End,
                    false => Next::Wait,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        next_work: Instant,
        /// How long each piece of work takes.
        work_takes: Duration,
    }

    impl Service for Counted {
        fn page(&mut self, _: Format) -> Answer {
            Answer {
                status: "200 OK",
                content_type: "text",
                body: Arc::clone(&self.page),
            }
        }

        fn next_work(&self) -> Option<Instant> {
            Some(self.next_work)
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
        let mut service = Counted {
            page: vec![b'#'; size].into(),
            worked: 0,
            next_work: Instant::now(),
            work_takes,
        };
        let connect = move || {
            let client = TcpStream::connect(address).unwrap();
            // With a timeout, a test that fails does not hang.
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            client
        };
        let result = thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, stop.as_fd(), limits, &mut service));
            // This closure owns `stops`, so the server ends even if the clients panic.
            let stops = stops;
            let result = clients(&connect);
            drop(stops);
            server.join().unwrap().unwrap();
            result
        });
        assert!(service.worked > 0);
        result
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
    fn who_never_asks_holds_nobody_up_and_goes() {
        with_server(PATIENT, 3, |connect| {
            // These are many more connections than the limit, and some have begun to send a request.
            let mut silent: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
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
