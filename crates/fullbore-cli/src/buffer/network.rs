//! TCP connections as input and output: `-I [HOST:]PORT` and `-O HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs,
};
use std::os::fd::AsFd;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fullbore_linux::unacknowledged;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
    set_tcp_user_timeout,
};

use crate::error_text::Failed;
use crate::processes::waiting::wait_for;

/// The time between two looks at what the other side has not got yet.
const LOOK: Duration = Duration::from_millis(2);

const SIZE: &str = "set the size of the TCP buffer";

/// The version of IP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    #[default]
    Any,
    V4,
    V6,
}

impl Family {
    fn has(self, address: &SocketAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

/// A host and a port, as they were named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) host: Option<String>,
    pub(super) port: u16,
    pub family: Family,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        let in_brackets = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = in_brackets.unwrap_or(host);
        match port.parse() {
            Ok(port) if port > 0 => Ok(Self {
                host: Some(host.to_owned()).filter(|host| !host.is_empty()),
                port,
                family: Family::Any,
            }),
            _ => Err(format!(
                "invalid address '{text}': expected HOST:PORT with a port from 1 to 65535"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, "port {}", self.port),
        }
    }
}

impl Address {
    /// Whether a host was named.
    pub fn has_host(&self) -> bool {
        self.host.is_some()
    }

    fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        let host = self.host.as_deref().unwrap_or("localhost");
        let found = (host, self.port).to_socket_addrs();
        let found = found.failed(format_args!("resolve '{host}'"))?;
        let found: Vec<SocketAddr> = found.filter(|address| self.family.has(address)).collect();
        match found.is_empty() {
            true => bail!("resolve '{host}': it has no address of this version of IP"),
            false => Ok(found),
        }
    }

    /// Waits for a connection to this port, and takes it; of the host only, if one was named. `warn` is told about
    /// others.
    ///
    /// # Errors
    /// If the host is not known, the port cannot be listened at, or there is no connection `within` this time.
    pub fn accept(
        &self,
        buffer: Option<usize>,
        within: Option<Duration>,
        warn: impl Fn(String),
    ) -> anyhow::Result<TcpStream> {
        let wanted = self.has_host().then(|| self.addresses()).transpose()?;
        let wanted = wanted.unwrap_or_default();
        let any: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        let mut of_family = any.map(|host| SocketAddr::new(host, self.port)).to_vec();
        of_family.retain(|any| self.family.has(any));
        let listener = TcpListener::bind(&of_family[..]);
        let listener = listener.failed(format_args!("listen at {self}"))?;
        // Before the connection is made, because the size of a window is agreed on then (tcp(7)).
        if let Some(bytes) = buffer {
            set_socket_recv_buffer_size(&listener, bytes).context(SIZE)?;
        }
        let due = within.map(|time| Instant::now() + time);
        listener.set_nonblocking(true)?;
        loop {
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                bail!("watchdog: nobody has connected to {self}");
            }
            wait_for(&[listener.as_fd()], left);
            let (stream, peer) = match listener.accept() {
                Err(error) if is_of_the_peer(&error) => continue,
                accepted => accepted.failed(format_args!("accept at {self}"))?,
            };
            let host = peer.ip().to_canonical();
            let is_it = |address: &SocketAddr| address.ip().to_canonical() == host;
            if wanted.is_empty() || wanted.iter().any(is_it) {
                return Ok(stream);
            }
            warn(format!("rejected a connection from {host}"));
        }
    }

    /// Connects to this host. With a `timeout`, the connection fails once its peer has not acknowledged for so long what
    /// was sent, or has had no room for what is still to be sent (`TCP_USER_TIMEOUT`, tcp(7)).
    ///
    /// # Errors
    /// If the host is not known, or no address of it takes the connection.
    pub fn connect(
        &self,
        buffer: Option<usize>,
        timeout: Option<Duration>,
    ) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(&self.addresses()?[..]);
        let stream = stream.failed(format_args!("connect to {self}"))?;
        // Whatever ends this process, SIGKILL too, the kernel now closes the connection by a reset (socket(7)), which the
        // peer cannot take for the end of the stream. `end` switches it off.
        set_socket_linger(&stream, Some(Duration::ZERO)).context("set SO_LINGER")?;
        if let Some(bytes) = buffer {
            set_socket_send_buffer_size(&stream, bytes).context(SIZE)?;
        }
        if let Some(timeout) = timeout {
            // 0 is no timeout.
            let millis = timeout.as_millis().clamp(1, u32::MAX.into()) as u32;
            set_tcp_user_timeout(&stream, millis).context("set the timeout of the connection")?;
        }
        Ok(stream)
    }
}

/// Whether accept(2) failed because of a connection that was gone again.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Tells the other side that it has got everything: from now on, the end of this process is no reset.
///
/// # Errors
/// If the connection was reset.
pub fn end(stream: &TcpStream) -> io::Result<()> {
    set_socket_linger(stream, None)?;
    let Err(error) = stream.shutdown(Shutdown::Write) else {
        return Ok(());
    };
    set_socket_linger(stream, Some(Duration::ZERO))?;
    // It was reset before.
    let is_gone = error.kind() == io::ErrorKind::NotConnected;
    let reset = || is_gone.then(|| Errno::CONNRESET.into());
    Err(stream.take_error()?.or_else(reset).unwrap_or(error))
}

/// Waits until the other side has got every byte, after [`end`]: close(2) would not tell that it did not.
///
/// # Errors
/// If the connection was reset, or its timeout has passed.
pub fn wait(stream: &TcpStream) -> io::Result<()> {
    loop {
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        if unacknowledged(stream)? == 0 {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// Waits as [`wait`] does, at most for this time. Returns whether the other side has got every byte.
pub fn wait_within(stream: &TcpStream, time: Duration) -> bool {
    let began = Instant::now();
    while unacknowledged(stream) != Ok(0) {
        if began.elapsed() >= time || !matches!(stream.take_error(), Ok(None)) {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// Reads the time of `--tcptimeo`: in microseconds, or with a unit.
pub fn timeout(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = digits.parse::<f64>().unwrap_or(f64::NAN) * unit;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!(
            "invalid time '{text}': expected microseconds, or a number with us, ms, s, m or h"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_host_and_a_port() {
        let read = |text: &str| {
            text.parse::<Address>()
                .ok()
                .map(|a| (a.host.clone(), a.port, a.to_string()))
        };
        let host = |host: &str, shown: &str| Some((Some(host.to_owned()), 80, shown.to_owned()));
        assert_eq!(read("a.b:80"), host("a.b", "a.b:80"));
        assert_eq!(read("[::1]:80"), host("::1", "[::1]:80"));
        assert_eq!(read("8000"), Some((None, 8000, "port 8000".into())));
        assert_eq!(read(":8000"), Some((None, 8000, "port 8000".into())));
        for text in ["", "a", "a:", "a:0", "a:65536", "80:x"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_microseconds_or_have_a_unit() {
        for (text, micros) in [
            ("500", 500),
            ("2ms", 2000),
            ("1.5s", 1_500_000),
            ("1min", 60_000_000),
            ("1h", 3_600_000_000),
        ] {
            assert_eq!(timeout(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "x", "0", "-1", "5d"] {
            assert!(timeout(text).is_err(), "{text}");
        }
    }
}
