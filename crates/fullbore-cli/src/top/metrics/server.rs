//! A server of one page over HTTP/1.1, for a handful of readers: no threads, and nothing that grows.
//!
//! One thread waits for all connections at once, so a client that is slow or silent delays no other. Each
//! client has a time by which it must have asked, and one by which it must have taken its answer; when there
//! are too many clients, the one that has been idle longest is disconnected. Each connection gets one answer and
//! is closed.
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

/// Bytes that are read, and dropped, after an answer: were they left unread, the answer might be lost
/// (RFC 9112, 9.6).
const MOST_AFTER: usize = 64 * 1024;

/// How long no connection is accepted when there are no fds left.
const OUT_OF_FDS: Duration = Duration::from_millis(100);

/// The most that a round counts for besides the time in which it waited for clients.
const MOST_OF_ROUND: Duration = Duration::from_millis(100);

/// What clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// How long a client may take to ask.
    pub to_ask: Duration,
    /// And to fetch the answer, and close the connection.
    pub to_fetch: Duration,
}

/// More than a hundred scrapes at once are served without one being dropped.
pub const LIMITS: Limits = Limits {
    connections: 160,
    to_ask: Duration::from_secs(5),
    to_fetch: Duration::from_secs(10),
};

/// What is served.
pub trait Service {
    /// The page.
    fn page(&mut self, format: Format) -> Answer;

    /// When there is other work to do, if there is.
    fn next_work(&self) -> Option<Instant>;

    /// Does it.
    fn work(&mut self);
}

/// A client.
struct Connection {
    stream: TcpStream,
    state: State,
    /// When it is closed, whatever it is doing, by [`Server::now`].
    deadline: Duration,
    /// When it last sent or took something, or was accepted.
    idle_since: Duration,
}

enum State {
    /// The request, as far as it has come.
    Asking(Vec<u8>),
    /// The head and the body of an answer, and how many bytes of both were sent.
    Fetching(Vec<u8>, Arc<[u8]>, usize),
    /// How much is still read after the answer, and dropped. The client may not have all of the answer yet.
    Closing(usize),
}

/// How a connection goes on.
enum Next {
    /// When it is ready again.
    Wait,
    /// In the same state, at once.
    Again,
    /// In another state, at once.
    Go(State),
    /// Not at all.
    End,
}

/// Serves the page until `stop` can be read from.
///
/// # Errors
/// Where connections can no longer be waited for.
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
    /// How long clients could be served so far.
    now: Duration,
    /// From when on connections are accepted: later than now where no fds were left.
    accepts_from: Duration,
}

impl Server<'_> {
    /// Waits until there is something to do, and does it. Whether it goes on.
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
            // No fds or no memory is left: they may come back.
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

    /// Does what can be done without waiting for those connections that are ready.
    fn advance(&mut self, ready: &[bool], service: &mut impl Service) {
        let mut ready = ready.iter();
        let (now, limits, is_local) = (self.now, self.limits, self.is_local);
        self.connections.retain_mut(|connection| {
            ready.next() != Some(&true) || connection.advance(now, limits, is_local, service)
        });
    }

    /// Accepts every connection that waits. Where there are too many, the new ones replace old ones, but none
    /// that has sent something which was not read yet.
    fn accept(&mut self, service: &mut impl Service) -> io::Result<()> {
        // Clients that connect without end must not keep the others from being served.
        for _ in 0..self.limits.connections {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    // It has gone again, or its network has (accept(2), 'Error handling').
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
            // What it asks for has often arrived with it.
            if connection.advance(self.now, self.limits, self.is_local, service) {
                self.connections.push(connection);
            }
        }
        Ok(())
    }

    /// Reads what each client has sent, and then disconnects one: one that has its answer if there is one, and
    /// of these, or of all, the one that has been idle longest.
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

/// A time that poll does not wake before.
fn rounded_up(time: Duration) -> Timespec {
    let time = time + Duration::from_millis(1);
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Whether an error of accept(2) is about the one connection.
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

    /// Has what was not fetched dropped: else the kernel keeps it for as long as the client pleases
    /// (socket(7), `SO_LINGER`).
    fn cut(&self) {
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }

    /// Does what can be done without waiting. Whether it goes on.
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
                    // It has gone.
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
                        // It has closed its side before it had asked.
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

    /// A page, and work without end.
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

    /// Runs `clients` beside a server of a page of so many bytes. Returns what they return.
    fn with_server<T>(
        limits: Limits,
        size: usize,
        clients: impl FnOnce(&dyn Fn() -> TcpStream) -> T,
    ) -> T {
        with_slow_server(limits, size, Duration::ZERO, clients)
    }

    /// The same beside a server that does nothing else for so long again and again.
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
            // A test that fails does not hang.
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            client
        };
        let result = thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, stop.as_fd(), limits, &mut service));
            // The server ends also where the clients panic.
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
                // It may be cut off in the middle of it.
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
            // Many more than there may be, some of whom have begun to ask.
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
                // End of file, or a reset: not a word, at any rate.
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
                // What can be read of it is never waited for.
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
        // Whatever the server does, it is late by more than a client has to ask.
        let late = SHORT.to_ask * 2;
        with_slow_server(SHORT, 3, late, |connect| {
            let (first, rest) = GET.split_at(20);
            // More than there may be at a time.
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
