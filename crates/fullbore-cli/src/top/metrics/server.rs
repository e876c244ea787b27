//! A server of one page over HTTP/1.1, for a handful of readers: no threads, and nothing that grows.
//!
//! One thread waits for all connections at once, so nobody who is slow or silent holds up another; each
//! has a time by which it must have asked, and one by which it must have taken its answer, and when there
//! are too many, the one that has kept this waiting longest goes. Each connection gets one answer and is
//! closed. What a request says, httparse reads; nothing that it says is kept, shown or obeyed, but its
//! method, its path and what it accepts.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::meter::interrupt::Interrupt;

/// Connections at a time. More than a hundred scrapes at once are served without one being dropped.
const MOST_CONNECTIONS: usize = 256;

/// Bytes of a request that are read: its line and its headers. A scrape's are some hundred.
const MOST_OF_REQUEST: usize = 8192;

/// Headers of a request.
const MOST_HEADERS: usize = 64;

/// Bytes that are read, and dropped, after an answer: were they left unread, the answer might be lost
/// (RFC 9112, 9.6).
const MOST_AFTER: usize = 64 * 1024;

/// How long a client may take to ask.
const TO_ASK: Duration = Duration::from_secs(5);

/// How long it may take to fetch the answer.
const TO_FETCH: Duration = Duration::from_secs(10);

/// How long it may take to close the connection, once it has the answer.
const TO_CLOSE: Duration = Duration::from_secs(1);

/// How long nobody is let in when there are no fds left.
const OUT_OF_FDS: Duration = Duration::from_millis(100);

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

/// A client.
struct Connection {
    stream: TcpStream,
    state: State,
    /// When it is closed, whatever it is doing.
    deadline: Instant,
}

enum State {
    /// The request, as far as it has come.
    Asking(Vec<u8>),
    /// The head and the body of an answer, and how many bytes of both were sent.
    Fetching(Vec<u8>, Arc<[u8]>, usize),
    /// What is still read after the answer, and dropped.
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

/// Serves the page until a signal comes.
///
/// # Errors
/// Where connections can no longer be waited for.
pub fn serve(
    listener: &TcpListener,
    interrupt: &Interrupt,
    mut page: impl FnMut(Format) -> Answer,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let woken = interrupt.wakes()?;
    let mut connections: Vec<Connection> = Vec::new();
    let mut closed_until: Option<Instant> = None;
    while !interrupt.came() {
        let now = Instant::now();
        connections.retain(|connection| connection.deadline > now);
        closed_until = closed_until.filter(|&until| until > now);

        let until = connections.iter().map(|connection| connection.deadline);
        let until = until.chain(closed_until).min();
        let mut fds = vec![PollFd::new(&woken, PollFlags::IN)];
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
        let (of_connections, of_listener) = ready[1..].split_at(connections.len());
        let is_asked_in = of_listener == [true];

        let mut of_connections = of_connections.iter();
        connections.retain_mut(|connection| {
            let is_ready = of_connections.next() == Some(&true);
            !is_ready || connection.advance(&mut page)
        });
        if is_asked_in && let Err(error) = let_in(listener, &mut connections) {
            // EMFILE, ENFILE, ENOBUFS, ENOMEM: others have used them up.
            let _ = error;
            closed_until = Some(Instant::now() + OUT_OF_FDS);
        }
    }
    Ok(())
}

/// A time that poll does not wake before.
fn rounded_up(time: Duration) -> Timespec {
    let time = time + Duration::from_millis(1);
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Lets in all who knock, in the place of others if need be.
fn let_in(listener: &TcpListener, connections: &mut Vec<Connection>) -> io::Result<()> {
    // Those who knock without end must not keep the others from being served.
    for _ in 0..MOST_CONNECTIONS {
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
        if connections.len() == MOST_CONNECTIONS {
            let longest = connections
                .iter()
                .enumerate()
                .min_by_key(|(_, connection)| connection.deadline);
            if let Some((longest, _)) = longest {
                connections.swap_remove(longest);
            }
        }
        connections.push(Connection {
            stream,
            state: State::Asking(Vec::new()),
            deadline: Instant::now() + TO_ASK,
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

    /// Does what can be done without waiting. Whether it goes on.
    fn advance(&mut self, page: &mut impl FnMut(Format) -> Answer) -> bool {
        loop {
            match self.step(page) {
                Ok(Next::Wait) => return true,
                Ok(Next::End) => return false,
                Ok(Next::Go(state)) => {
                    let time = match state {
                        State::Asking(_) => TO_ASK,
                        State::Fetching(..) => TO_FETCH,
                        State::Closing(_) => TO_CLOSE,
                    };
                    self.deadline = Instant::now() + time;
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

    fn step(&mut self, page: &mut impl FnMut(Format) -> Answer) -> io::Result<Next> {
        match &mut self.state {
            State::Asking(request) => {
                let mut buffer = [0; 2048];
                let read = self.stream.read(&mut buffer)?;
                request.extend_from_slice(&buffer[..read]);
                Ok(match answer(request, page) {
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
fn answer(request: &[u8], page: &mut impl FnMut(Format) -> Answer) -> Option<(Vec<u8>, Arc<[u8]>)> {
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
        (None, Some("GET" | "HEAD"), "/metrics") => page(format_for(&parsed)),
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
    let hint = match status.starts_with("404") {
        true => ": there is /metrics",
        false => "",
    };
    Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        body: format!("{status}{hint}\n").into_bytes().into(),
    }
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
