//! Connections that carry a sealed stream, and the answer of the receiver that its content is in place: `-O --seal` and
//! `-I --unseal`.
//!
//! A thread seals what the buffer writes, or writes for the buffer what it unseals. A socket connects the two, and not a
//! pipe, because its end can be told from here (shutdown(2)), and because it is told only after a success: the thread
//! seals when it has been told so, never because of an end of file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use fullbore_host::text::error_text;
use fullbore_linux::Aligned;
use fullbore_seal::{Damage, Sealer, Unsealer};
use rustix::net::sockopt;

use super::answer::{self, GREETING, Outcome, SEAL, Tail};
use super::network;

/// The most bytes of a frame.
const FRAME: usize = 1 << 20;

/// How long to wait for what a receiver says at once, if no watchdog says otherwise.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A connection over which a thread sends a sealed stream.
pub struct Sending {
    link: UnixStream,
    /// Tells the thread that it has got everything.
    go: Sender<()>,
    done: Receiver<anyhow::Result<Outcome>>,
    /// The bytes that the connection took.
    sent: Arc<AtomicU64>,
    has_to_be_on_disk: bool,
    within: Option<Duration>,
}

impl Sending {
    /// Waits for the receiver's greeting, and returns the connection with the file to write the content to. `within` is
    /// the time of the watchdog.
    ///
    /// # Errors
    /// If the peer does not greet, or no thread can be started.
    pub fn start(
        stream: TcpStream,
        within: Option<Duration>,
        has_to_be_on_disk: bool,
    ) -> anyhow::Result<(Self, File)> {
        // The watchdog covers all of the opening.
        let limit = within.map_or(AT_ONCE, |within| within.saturating_add(AT_ONCE));
        greeted(&stream, limit).map_err(|error| {
            let why = error_text(&error);
            anyhow!("it does not greet as 'fullbore buffer -I PORT --unseal' does: {why}")
        })?;
        keep_alive(&stream)?;
        let (link, theirs) = UnixStream::pair().context("make a socket")?;
        let file = OwnedFd::from(link.try_clone().context("dup a socket")?).into();
        let ((go, told), (said, done)) = (channel(), channel());
        let sent = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent);
        let run = move || {
            let ended = send(&stream, theirs, &told, &counted);
            let _ = said.send(ended);
        };
        thread::Builder::new()
            .spawn(run)
            .context("start a thread")?;
        let sending = Self {
            link,
            go,
            done,
            sent,
            has_to_be_on_disk,
            within,
        };
        Ok((sending, file))
    }

    /// Tells the thread that it has got everything.
    pub fn end(&self) -> io::Result<()> {
        match self.go.send(()) {
            // Otherwise it would wait for ever.
            Ok(()) => self.link.shutdown(Shutdown::Write),
            // It has ended, and `wait` returns why.
            Err(_) => Ok(()),
        }
    }

    /// Waits for the answer, after [`end`](Self::end).
    ///
    /// # Errors
    /// If the content is not in place, or that is not known.
    pub fn wait(&self) -> anyhow::Result<()> {
        let within = self.within.unwrap_or(Duration::MAX);
        let mut sent = u64::MAX;
        let outcome = loop {
            match self.done.recv_timeout(within) {
                Ok(outcome) => break outcome?,
                Err(RecvTimeoutError::Disconnected) => bail!("the thread that seals has ended"),
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.sent.load(Ordering::Relaxed);
                    if now == sent {
                        let seconds = within.as_secs_f64();
                        bail!("watchdog: no answer within {seconds} s; {UNKNOWN}");
                    }
                    sent = now;
                }
            }
        };
        match outcome {
            Outcome::Failed => bail!("the receiver has failed, and has put no file in place"),
            Outcome::InPlace if self.has_to_be_on_disk => bail!(
                "the receiver has put everything in place, but not waited for its disk: it needs --sync too"
            ),
            Outcome::InPlace | Outcome::OnDisk => Ok(()),
        }
    }

    /// Returns why the thread has ended, if it has before it was told to.
    pub fn failure(&self) -> Option<anyhow::Error> {
        // The buffer found out that the thread has closed its socket, which it does last but for this.
        match self.done.recv_timeout(AT_ONCE) {
            Ok(Err(error)) => Some(error),
            _ => None,
        }
    }
}

const UNKNOWN: &str = "whether the receiver has put everything in place is not known";

/// Waits for the greeting.
fn greeted(mut stream: &TcpStream, within: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(within))?;
    let mut greeting = [0; GREETING.len()];
    let read = stream.read_exact(&mut greeting);
    stream.set_read_timeout(None)?;
    match read {
        Ok(()) if greeting == GREETING => Ok(()),
        Ok(()) => Err(io::Error::other("it says something else")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let text = format!("it said nothing within {} s", within.as_secs_f64());
            Err(io::Error::other(text))
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(io::Error::other("it ended the connection"))
        }
        Err(error) => Err(error),
    }
}

/// Finds out within a minute that the peer's machine is gone, while nothing is sent.
fn keep_alive(stream: &TcpStream) -> anyhow::Result<()> {
    let set = || {
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(30))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(stream, 3)?;
        sockopt::set_socket_keepalive(stream, true)
    };
    set().context("set the keepalive of the connection")
}

/// Counts what a connection takes.
struct Counted<'a>(&'a TcpStream, &'a AtomicU64);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.0.write(bytes)?;
        self.1.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Seals the content, and returns the answer.
fn send(
    stream: &TcpStream,
    mut content: UnixStream,
    told: &Receiver<()>,
    sent: &AtomicU64,
) -> anyhow::Result<Outcome> {
    let sink = Tail::new(Counted(stream, sent));
    let write = |error: io::Error| anyhow!(error_text(&error));
    // A frame is one write.
    let sink = BufWriter::with_capacity(FRAME + 64, sink);
    let mut sealer = Sealer::new(sink).map_err(write)?;
    let mut room = Aligned::new(FRAME);
    loop {
        let n = match content.read(&mut room) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("read the content"),
        };
        if n == 0 {
            break;
        }
        let written = sealer.write_all(&room[..n]).and_then(|()| sealer.flush());
        written.map_err(write)?;
    }
    told.recv()
        .map_err(|_| anyhow!("the stream was not complete"))?;
    let seal = sealer.finish().map_err(write)?.get_ref().last();
    // The connection still resets if this process ends: SO_LINGER stays set.
    stream.shutdown(Shutdown::Write).map_err(write)?;
    let outcome = answer::read(stream, &seal).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            anyhow!("the connection ended without an answer; {UNKNOWN}")
        }
        _ => anyhow!("{}; {UNKNOWN}", error_text(&error)),
    })?;
    // All is known on both sides.
    let _ = sockopt::set_socket_linger(stream, None);
    Ok(outcome)
}

/// A connection from which a thread reads a sealed stream.
pub struct Receiving {
    stream: TcpStream,
    link: UnixStream,
    done: Receiver<anyhow::Result<[u8; SEAL]>>,
}

impl Receiving {
    /// Greets the sender, and returns the connection with the file to read the content from.
    ///
    /// # Errors
    /// If the sender cannot be greeted, or no thread can be started.
    pub fn start(stream: TcpStream) -> anyhow::Result<(Self, File)> {
        keep_alive(&stream)?;
        (&stream).write_all(&GREETING).context("greet the sender")?;
        let (link, theirs) = UnixStream::pair().context("make a socket")?;
        let file = OwnedFd::from(link.try_clone().context("dup a socket")?).into();
        let source = stream.try_clone().context("dup a connection")?;
        let (said, done) = channel();
        let run = move || {
            let ended = receive(source, &theirs);
            // Before the buffer sees the end, so that it is there when it is asked for.
            let _ = said.send(ended);
            drop(theirs);
        };
        thread::Builder::new()
            .spawn(run)
            .context("start a thread")?;
        Ok((Self { stream, link, done }, file))
    }

    /// Returns the seal of the stream, after the buffer has ended.
    ///
    /// # Errors
    /// Those of reading, and the damage of the stream.
    pub fn seal(&self) -> anyhow::Result<[u8; SEAL]> {
        // If the buffer has ended early, the thread may wait for it to read.
        let ended = self.link.shutdown(Shutdown::Both);
        ended.context("end the thread that unseals")?;
        self.done
            .recv()
            .context("the thread that unseals has ended")?
    }

    /// Says what became of the stream with this seal. Returns whether the sender has got it `within` this time.
    pub fn answer(&self, outcome: Outcome, seal: &[u8; SEAL], within: Option<Duration>) -> bool {
        let answered = answer::write(&self.stream, outcome, seal)
            .and_then(|()| self.stream.shutdown(Shutdown::Write));
        // A failure is one without its answer too.
        let is_awaited = answered.is_ok() && outcome != Outcome::Failed;
        is_awaited && network::wait_within(&self.stream, within.unwrap_or(AT_ONCE))
    }
}

/// Unseals a stream, and returns its seal.
fn receive(source: TcpStream, mut content: &UnixStream) -> anyhow::Result<[u8; SEAL]> {
    let mut unsealer = Unsealer::new(BufReader::with_capacity(FRAME, Tail::new(source)));
    let mut room = Aligned::new(FRAME);
    loop {
        let n = match unsealer.read(&mut room) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => match Damage::of(&error) {
                Some(damage) => bail!("{damage}"),
                None => bail!("{}", error_text(&error)),
            },
        };
        if n == 0 {
            return Ok(unsealer.into_inner().into_inner().last());
        }
        content
            .write_all(&room[..n])
            .context("pass the content on")?;
    }
}
