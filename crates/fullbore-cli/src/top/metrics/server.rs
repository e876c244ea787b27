//! A server of one page over HTTP/1.1, for a handful of readers: no threads, and nothing that grows.
//!
//! One thread waits for all connections at once, so nobody who is slow or silent holds up another; each
//! has a time by which it must have asked, and one by which it must have taken its answer, and when there
//! are too many, the one that has kept this waiting longest goes. Each connection gets one answer and is
//! closed. What a request says, httparse reads; nothing that it says is kept, shown or obeyed, but its
//! method, its path, whom it is meant for and what it accepts.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;

/// Bytes of a request that are read: its line and its headers. A scrape's are some hundred.
const MOST_OF_REQUEST: usize = 8192;

/// Headers of a request.
const MOST_HEADERS: usize = 64;

/// Bytes that are read, and dropped, after an answer: were they left unread, the answer might be lost
/// (RFC 9112, 9.6).
const MOST_AFTER: usize = 64 * 1024;

/// How long nobody is let in when there are no fds left.
const OUT_OF_FDS: Duration = Duration::from_millis(100);

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

/// What a client is answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The code and its words.
    pub status: &'static str,
    /// What the body is.
    pub content_type: &'static str,
    /// It is shared by all who get the same.
    pub body: Arc<[u8]>,
}

/// How the page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As everybody reads it.
    Text,
    /// For those who ask for it.
    OpenMetrics,
}

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
    /// Whether nobody but this machine can reach the address that is served.
    is_local: bool,
    /// When it is closed, whatever it is doing.
    deadline: Instant,
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
    let mut connections: Vec<Connection> = Vec::new();
    let mut closed_until: Option<Instant> = None;
    loop {
        let now = Instant::now();
        connections.retain(|connection| {
            let has_time = connection.deadline > now;
            if !has_time {
                connection.cut();
            }
            has_time
        });
        closed_until = closed_until.filter(|&until| until > now);

        let until = connections.iter().map(|connection| connection.deadline);
        let until = until.chain(closed_until).chain(service.next_work()).min();
        let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        fds.extend(connections.iter().map(Connection::wants));
        if closed_until.is_none() {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let timeout = until.map(|until| rounded_up(until.saturating_duration_since(now)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return Ok(());
        }
        let (of_connections, of_listener) = ready[1..].split_at(connections.len());
        let is_asked_in = of_listener == [true];

        let mut of_connections = of_connections.iter();
        connections.retain_mut(|connection| {
            let is_ready = of_connections.next() == Some(&true);
            !is_ready || connection.advance(limits, service)
        });
        if is_asked_in && let_in(listener, limits, &mut connections).is_err() {
            // No fds or no memory is left: they may come back.
            closed_until = Some(Instant::now() + OUT_OF_FDS);
        }
        if service
            .next_work()
            .is_some_and(|when| when <= Instant::now())
        {
            service.work();
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

/// Accepts every connection that waits; where there are too many, the new ones replace old ones.
fn let_in(
    listener: &TcpListener,
    limits: Limits,
    connections: &mut Vec<Connection>,
) -> io::Result<()> {
    let is_local = listener.local_addr()?.ip().to_canonical().is_loopback();
    // Clients that connect without end must not keep the others from being served.
    for _ in 0..limits.connections {
        let stream = match listener.accept() {
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
        if connections.len() == limits.connections {
            // Those that have their answer first: they only have to notice.
            let longest = connections
                .iter()
                .enumerate()
                .min_by_key(|(_, connection)| {
                    let is_answered = matches!(connection.state, State::Closing(_));
                    (!is_answered, connection.deadline)
                });
            if let Some((longest, _)) = longest {
                connections.swap_remove(longest).cut();
            }
        }
        connections.push(Connection {
            stream,
            state: State::Asking(Vec::new()),
            is_local,
            deadline: Instant::now() + limits.to_ask,
        });
    }
    Ok(())
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
    fn advance(&mut self, limits: Limits, service: &mut impl Service) -> bool {
        loop {
            match self.step(service) {
                Ok(Next::Wait) => return true,
                Ok(Next::End) => return false,
                Ok(Next::Go(state)) => {
                    if let State::Fetching(..) = state {
                        self.deadline = Instant::now() + limits.to_fetch;
                    }
                    self.state = state;
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

    fn step(&mut self, service: &mut impl Service) -> io::Result<Next> {
        match &mut self.state {
            State::Asking(request) => {
                let mut buffer = [0; 2048];
                let read = self.stream.read(&mut buffer)?;
                request.extend_from_slice(&buffer[..read]);
                Ok(match answer(request, self.is_local, service) {
                    Some((head, body)) => Next::Go(State::Fetching(head, body, 0)),
                    // It has closed its side before it had asked.
                    None if read == 0 => Next::End,
                    None => Next::Wait,
                })
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
                // Others may be ready as well.
                Ok(Next::Wait)
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

/// The head and the body that a request is answered with, once it is whole, or wrong.
fn answer(
    request: &[u8],
    is_local: bool,
    service: &mut impl Service,
) -> Option<(Vec<u8>, Arc<[u8]>)> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let status = match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => None,
        Ok(httparse::Status::Partial) if request.len() < MOST_OF_REQUEST => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Some("431 Request Header Fields Too Large")
        }
        Err(_) => Some("400 Bad Request"),
    };
    let path = parsed.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let is_head = parsed.method == Some("HEAD");
    let mut allow = "";
    let answer = match (status, parsed.method, path) {
        (Some(status), ..) => refusal(status),
        (None, ..) if is_local && !is_meant_for_loopback(&parsed) => {
            refusal("421 Misdirected Request")
        }
        (None, Some("GET" | "HEAD"), "/metrics") => service.page(format_for(&parsed)),
        (None, _, "/metrics") => {
            allow = "Allow: GET, HEAD\r\n";
            refusal("405 Method Not Allowed")
        }
        _ => refusal("404 Not Found"),
    };
    let head = format!(
        "HTTP/1.1 {}\r\n{allow}Content-Type: {}\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.content_type,
        answer.body.len(),
    );
    let body = if is_head { Arc::default() } else { answer.body };
    Some((head.into_bytes(), body))
}

/// A refusal says no more than what it is.
fn refusal(status: &'static str) -> Answer {
    let hint = match status.split(' ').next() {
        Some("404") => ": use /metrics",
        Some("421") => ": use localhost or a numeric address",
        _ => "",
    };
    Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        body: format!("{status}{hint}\n").into_bytes().into(),
    }
}

/// Whether a request names this machine as its own programs do: by number, or as localhost (RFC 6761, 6.3).
/// A page of somebody else's that has its own name lead to loopback (DNS rebinding) sends that name with what
/// it has a browser ask.
fn is_meant_for_loopback(request: &httparse::Request<'_, '_>) -> bool {
    let mut hosts = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("host"));
    hosts
        .all(|host| std::str::from_utf8(host.value).is_ok_and(|host| is_loopback_name(host.trim())))
}

/// With or without a port.
fn is_loopback_name(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split(']').next().unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let name = host.split(':').next().unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(name);
    name.parse::<IpAddr>().is_ok()
        || name
            .rsplit('.')
            .next()
            .is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}

/// What the client accepts: a scraper that reads OpenMetrics says so.
fn format_for(request: &httparse::Request<'_, '_>) -> Format {
    let accepted = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("accept"))
        .filter_map(|header| std::str::from_utf8(header.value).ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|kind| {
            kind.trim()
                .eq_ignore_ascii_case("application/openmetrics-text")
        });
    match accepted {
        true => Format::OpenMetrics,
        false => Format::Text,
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

    /// A page, how often it was asked for, and work without end.
    struct Counted {
        page: Arc<[u8]>,
        asked: usize,
        worked: usize,
        next_work: Instant,
    }

    impl Service for Counted {
        fn page(&mut self, format: Format) -> Answer {
            self.asked += 1;
            Answer {
                status: "200 OK",
                content_type: match format {
                    Format::Text => "text",
                    Format::OpenMetrics => "open",
                },
                body: Arc::clone(&self.page),
            }
        }

        fn next_work(&self) -> Option<Instant> {
            Some(self.next_work)
        }

        fn work(&mut self) {
            self.worked += 1;
            self.next_work = Instant::now() + Duration::from_millis(1);
        }
    }

    /// Runs `clients` beside a server of a page of so many bytes. What they return, and how often the page
    /// was asked for.
    fn with_server<T>(
        limits: Limits,
        size: usize,
        clients: impl FnOnce(&dyn Fn() -> TcpStream) -> T,
    ) -> (T, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stops) = UnixStream::pair().unwrap();
        let mut service = Counted {
            page: vec![b'#'; size].into(),
            asked: 0,
            worked: 0,
            next_work: Instant::now(),
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
        (result, service.asked)
    }

    fn answer_to(connect: &dyn Fn() -> TcpStream, request: &[u8]) -> String {
        let mut client = connect();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn only_the_page_can_be_had_and_only_read() {
        let (_, asked) = with_server(PATIENT, 3, |connect| {
            for (request, status, has) in [
                ("GET /metrics HTTP/1.1", "200 OK", "Content-Length: 3"),
                ("GET /metrics HTTP/1.0", "200 OK", "Content-Type: text"),
                ("GET /metrics?x=1 HTTP/1.1", "200 OK", "Connection: close"),
                ("HEAD /metrics HTTP/1.1", "200 OK", "Content-Length: 3"),
                ("GET / HTTP/1.1", "404 Not Found", "use /metrics"),
                ("GET /metrics/ HTTP/1.1", "404 Not Found", ""),
                ("GET /../metrics HTTP/1.1", "404 Not Found", ""),
                (
                    "POST /metrics HTTP/1.1",
                    "405 Method Not Allowed",
                    "Allow: GET, HEAD\r\n",
                ),
                (
                    "PUT /metrics HTTP/1.1",
                    "405 Method Not Allowed",
                    "Allow: GET, HEAD\r\n",
                ),
                (
                    "DELETE /metrics HTTP/1.1",
                    "405 Method Not Allowed",
                    "Allow: GET, HEAD\r\n",
                ),
                (
                    "OPTIONS /metrics HTTP/1.1",
                    "405 Method Not Allowed",
                    "Allow: GET, HEAD\r\n",
                ),
                ("get /metrics HTTP/1.1", "405 Method Not Allowed", ""),
                ("POST / HTTP/1.1", "404 Not Found", ""),
                ("GET /metrics HTTP/2.0", "400 Bad Request", ""),
                ("GET /metrics", "400 Bad Request", ""),
                ("\x16\x03\x01\x02", "400 Bad Request", ""),
                ("GET /\u{e4}\x07 HTTP/1.1", "400 Bad Request", ""),
                ("GET /metrics HTTP/1.1\r\nno colon", "400 Bad Request", ""),
            ] {
                let answer = answer_to(connect, format!("{request}\r\n\r\n").as_bytes());
                let first = format!("HTTP/1.1 {status}\r\n");
                assert!(answer.starts_with(&first), "{request}: {answer}");
                assert!(answer.contains(has), "{request}: {answer}");
                let (_, body) = answer.split_once("\r\n\r\n").unwrap();
                let is_page = body == "###";
                let wants_page = request.starts_with("GET ") && status == "200 OK";
                assert_eq!(is_page, wants_page, "{request}: {answer}");
            }
        });
        assert_eq!(asked, 4);
    }

    #[test]
    fn a_name_of_somebody_else_s_that_leads_to_loopback_is_refused() {
        let (_, asked) = with_server(PATIENT, 3, |connect| {
            for (host, status) in [
                ("Host: localhost", "200 OK"),
                ("host: LocalHost:9464", "200 OK"),
                ("Host: top.localhost.:9464", "200 OK"),
                ("Host: 127.0.0.1:9464", "200 OK"),
                ("Host: [::1]:9464", "200 OK"),
                ("Host: 10.1.2.3", "200 OK"),
                ("Accept: */*", "200 OK"),
                ("Host: evil.example", "421 Misdirected Request"),
                ("Host: evil.example:9464", "421 Misdirected Request"),
                ("Host: localhost.evil.example", "421 Misdirected Request"),
                ("Host: 127.0.0.1.evil.example", "421 Misdirected Request"),
                ("Host: [evil]", "421 Misdirected Request"),
                ("Host: \u{e4}", "421 Misdirected Request"),
                (
                    "Host: localhost\r\nHost: evil.example",
                    "421 Misdirected Request",
                ),
            ] {
                let request = format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n");
                let answer = answer_to(connect, request.as_bytes());
                let first = format!("HTTP/1.1 {status}\r\n");
                assert!(answer.starts_with(&first), "{host}: {answer}");
            }
        });
        assert_eq!(asked, 7);
    }

    #[test]
    fn who_reads_open_metrics_gets_it() {
        with_server(PATIENT, 0, |connect| {
            for (accept, kind) in [
                ("*/*", "text"),
                ("text/plain", "text"),
                ("application/openmetrics-text", "open"),
                (
                    "text/html, Application/OpenMetrics-Text;version=1.0.0;q=0.5,*/*;q=0.1",
                    "open",
                ),
            ] {
                let request = format!("GET /metrics HTTP/1.1\r\naccept: {accept}\r\n\r\n");
                let answer = answer_to(connect, request.as_bytes());
                let line = format!("Content-Type: {kind}\r\n");
                assert!(answer.contains(&line), "{accept}: {answer}");
            }
        });
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
}
