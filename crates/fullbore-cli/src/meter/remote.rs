//! How a running meter is told to change, and asked how far it is: a socket with a name of its own in the
//! abstract namespace (unix(7)), which is gone with the process, whatever ends it.
//!
//! Only the user of that process is heard, and root; and the one who asks makes sure that the process with
//! that PID answers.

use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use fullbore_observe::Rate;
use fullbore_process::{Peer, peer_of};
use rustix::process::{Uid, geteuid};
use serde::{Deserialize, Serialize};

use super::display::{Display, show};
use super::line_options::{Changes, LineOptions};
use crate::processes::interrupt::Interrupt;
use crate::terminal::line::{Reading, Unit};

/// The longest time that another process may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a meter is told or asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    Change(Changes),
    Progress,
}

/// How far a meter is.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    pub name: Option<String>,
    pub unit: Unit,
    pub passed: u64,
    pub total: Option<u64>,
    pub elapsed: Duration,
}

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("fullbore-meter-{pid}"))
}

/// What answers a request.
type Handle = Box<dyn FnMut(Request) -> Result<State, String> + Send>;

/// The meter that answers now: with `--store-and-forward` there is a second one.
static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);

fn handle() -> MutexGuard<'static, Option<Handle>> {
    HANDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers requests until this process ends, or another meter answers them. Without sockets, nobody is answered.
pub fn answer(answers: impl FnMut(Request) -> Result<State, String> + Send + 'static) {
    if handle().replace(Box::new(answers)).is_some() {
        return;
    }
    let Ok(listener) = address(std::process::id()).and_then(|at| UnixListener::bind_addr(&at))
    else {
        return;
    };
    let serve = move || {
        for stream in listener.incoming().flatten() {
            // A silent client blocks others only until its timeout.
            let _ = answer_one(&stream);
        }
    };
    let _ = std::thread::Builder::new().spawn(serve);
}

fn answer_one(stream: &UnixStream) -> anyhow::Result<()> {
    if !may_change(Uid::from_raw(peer_of(stream)?.user), geteuid()) {
        return Ok(());
    }
    let request = serde_json::from_str(&receive(stream)?)?;
    match &mut *handle() {
        Some(handle) => send(stream, &handle(request)),
        None => Ok(()),
    }
}

/// Sends a line.
fn send(mut stream: &UnixStream, value: &impl Serialize) -> anyhow::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    Ok(stream.write_all(&text)?)
}

/// Receives a line.
fn receive(stream: &UnixStream) -> anyhow::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

/// Returns whether this user may change and ask the meters of `owner`.
fn may_change(user: Uid, owner: Uid) -> bool {
    user == owner || user.is_root()
}

/// Asks the meter with this PID.
///
/// # Errors
/// If that process is no meter that can be reached, belongs to another user, or refuses.
pub fn ask(pid: u32, request: &Request) -> anyhow::Result<State> {
    let stream = address(pid).and_then(|at| UnixStream::connect_addr(&at));
    let no_meter = "(one in another container cannot be reached)";
    let stream =
        stream.map_err(|_| anyhow!("no running fullbore meter has PID {pid} {no_meter}"))?;
    // Another process may have taken the name, which depends on the PID only.
    let is_owner =
        |peer: Peer| peer.process == pid && may_change(geteuid(), Uid::from_raw(peer.user));
    if !peer_of(&stream).is_ok_and(is_owner) {
        bail!("process {pid} belongs to another user");
    }
    let no_answer = || format!("process {pid} does not answer");
    send(&stream, request).with_context(no_answer)?;
    let line = receive(&stream).with_context(no_answer)?;
    if line.is_empty() {
        bail!("process {pid} belongs to another user, or has ended");
    }
    let said: Result<State, String> = serde_json::from_str(&line).with_context(no_answer)?;
    said.map_err(|why| anyhow!("process {pid}: {why}"))
}

/// A signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(50);

/// Shows how far the meter with this PID is, until it ends or a signal comes.
///
/// # Errors
/// If it cannot be asked even once.
pub fn query(pid: u32, options: &LineOptions, mut display: Option<Display>) -> anyhow::Result<()> {
    let interrupt = Interrupt::noted();
    let mut state = ask(pid, &Request::Progress)?;
    let mut rate = Rate::new(state.passed, Instant::now());
    for tick in 0.. {
        let reading = reading(options, &state, &rate, tick);
        show(display.as_mut(), options, &reading, None);
        let due = Instant::now() + options.interval();
        while Instant::now() < due && !interrupt.came() {
            let left = due.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(NOTICE));
        }
        match ask(pid, &Request::Progress) {
            Ok(now) if !interrupt.came() => state = now,
            _ => break,
        }
        rate.update(state.passed, Instant::now());
    }
    if display.is_some() {
        let last = Reading {
            ended: true,
            ..reading(options, &state, &rate, 0)
        };
        show(display.as_mut(), options, &last, None);
    }
    interrupt.obey();
    Ok(())
}

fn reading(options: &LineOptions, state: &State, rate: &Rate, tick: u64) -> Reading {
    let seconds = state.elapsed.as_secs_f64();
    Reading {
        name: options.name.clone().or(state.name.clone()),
        unit: state.unit,
        elapsed: state.elapsed,
        average: match seconds > 0.0 {
            true => state.passed as f64 / seconds,
            false => 0.0,
        },
        tick,
        ..Reading::of(rate, options.size.or(state.total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meters_of_root_are_for_root_only() {
        let [root, one, other] = [0, 1000, 1001].map(Uid::from_raw);
        assert!(may_change(root, root) && may_change(one, one) && may_change(root, one));
        assert!(!may_change(one, root) && !may_change(one, other));
    }
}
