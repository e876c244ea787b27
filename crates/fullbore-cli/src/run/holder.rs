//! The process that keeps the pipes of `--whole` and `--stalled` open, whatever happens to the other two processes of `run`.
//!
//! It is between them: a child of the keeper, and the parent of the runner. So it becomes the parent of what the runner
//! leaves behind, and can end that if both others are gone. No signal of the terminal or for the process group reaches
//! it, because it has a session of its own, and all signals that can be blocked are. It sleeps until the runner has
//! ended. If a process is left then that this user may not end, it keeps the write ends of the pipes open until nobody
//! reads from them any more, or none is left: such a process never sees an end of its input that a failure has caused.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpid, kill_process, set_child_subreaper, setsid, waitpid,
};
use rustix::stdio::stderr;

use super::failure::FAILED;
use super::left::{end_all, say};
use super::shelf::{Shelf, is_wanted};
use crate::error_text::with_limit;
use crate::processes::ending;
use crate::processes::fork::{close_all_but, exit_at_once, fork};
use crate::processes::title::rename;
use crate::processes::waiting::wait_for;

/// What ps(1) shows.
const COMMAND: &str = "fullbore run: keeps pipes open until their last reader has ended";

/// The end of the socket by which the keeper, or the runner, knows this process.
pub struct ToHolder {
    socket: UnixStream,
    /// The holder, if it is a child of this process.
    child: Option<Pid>,
}

/// How the runner has ended.
pub struct Ended {
    /// As wait(2) has returned it.
    pub status: i32,
    /// Whether the holder stays.
    pub stays: bool,
}

/// Forks a process that forks the runner and then holds the pipes. Returns in the keeper, with the PID of the runner,
/// and in the runner.
///
/// # Errors
/// Fails if no more processes or files may be created, or if the shelf cannot be looked at.
pub fn start(shelf: &Shelf, grace: Duration) -> Result<(ToHolder, Option<Pid>)> {
    shelf.front()?;
    let (socket, to_keeper) = UnixStream::pair().context("socketpair")?;
    shelf.spare_own_pipes();
    let child = fork().map_err(not_forked)?;
    if child.is_some() {
        drop(to_keeper);
        let holder = ToHolder { socket, child };
        // A negative number is that of an error.
        let mut number = [0; 4];
        if let Err(error) = (&holder.socket).read_exact(&mut number) {
            // The holder was killed before it has said it, and the runner may have begun.
            end_all(shelf, true, Signal::TERM, grace, ending::reap_all);
            replace_the_holder(shelf);
            return Err(error).context("the process that holds the pipes was ended");
        }
        let number = i32::from_ne_bytes(number);
        if number < 0 {
            let why = with_limit(&Errno::from_raw_os_error(-number).into());
            bail!("start the process that keeps the pipes open: {why}");
        }
        return Ok((holder, Pid::from_raw(number)));
    }
    drop(socket);
    let runner = match fork_the_runner() {
        Ok((socket, None)) => {
            drop(to_keeper);
            let child = None;
            return Ok((ToHolder { socket, child }, None));
        }
        Ok((to_runner, Some(runner))) => {
            let own = setsid();
            // A runner that is gone needs no answer.
            let _ = (&to_runner).write_all(&[u8::from(own.is_ok())]);
            own.map(|_| (to_runner, runner))
        }
        Err(errno) => Err(errno),
    };
    let number = match &runner {
        Ok((_, runner)) => runner.as_raw_nonzero().get(),
        Err(errno) => -errno.raw_os_error(),
    };
    // A keeper that is gone needs no answer.
    let _ = (&to_keeper).write_all(&number.to_ne_bytes());
    if let Ok((to_runner, runner)) = runner {
        hold(to_keeper, to_runner, runner, shelf, grace);
    }
    exit_at_once(0)
}

/// Names the limit that fork(2) may have reached.
pub fn not_forked(errno: Errno) -> anyhow::Error {
    anyhow!("fork: {}", with_limit(&errno.into()))
}

/// Returns the end of a socket to the other process, and the PID of the runner, or `None` in the runner.
fn fork_the_runner() -> Result<(UnixStream, Option<Pid>), Errno> {
    let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
    set_child_subreaper(Some(getpid()))?;
    let (to_holder, to_runner) = UnixStream::pair().map_err(errno)?;
    if let Some(runner) = fork()? {
        return Ok((to_runner, Some(runner)));
    }
    drop(to_runner);
    // Until the holder has a session of its own, SIGKILL for the process group would end all.
    let mut has_session = [1];
    // If the holder was killed, there is nothing to wait for.
    let _ = (&to_holder).read_exact(&mut has_session);
    if has_session == [0] {
        exit_at_once(0)
    }
    Ok((to_holder, None))
}

impl ToHolder {
    /// Reports the end of the pipeline or, before, the stages. Returns whether the holder lives.
    pub fn tell(&self, bytes: &[u8]) -> bool {
        (&self.socket).write_all(bytes).is_ok()
    }

    /// Returns how the runner has ended, if the holder has said it, or that it is gone.
    pub fn receive(&self) -> Option<Ended> {
        let mut said = [0; 5];
        (&self.socket).read_exact(&mut said).ok()?;
        let [status @ .., stays] = said;
        Some(Ended {
            status: i32::from_ne_bytes(status),
            stays: stays != 0,
        })
    }

    /// Waits for the end of the holder, which stays no longer or is gone.
    pub fn wait(&self) {
        let _ = waitpid(self.child, WaitOptions::empty());
    }
}

impl AsFd for ToHolder {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until the runner has ended; if it did not report the end of the pipeline, ends the pipeline; and holds the pipes
/// until nobody reads from them.
fn hold(
    to_keeper: UnixStream,
    mut to_runner: UnixStream,
    runner: Pid,
    shelf: &Shelf,
    grace: Duration,
) {
    let _ = SigSet::all().thread_block();
    rename(c"pipe holder", COMMAND);
    let [into, from] = shelf.sockets();
    close_all_but(&[to_keeper.as_fd(), to_runner.as_fd(), into, from, stderr()]);
    // No file system is kept busy.
    let _ = chdir("/");
    let said = hear_the_runner(&to_keeper, &mut to_runner, runner);
    let status = match retry_on_intr(|| waitpid(Some(runner), WaitOptions::empty())) {
        Ok(Some((_, status))) => status.as_raw(),
        lost => {
            let why = lost.map_or_else(|errno| errno.to_string(), |_| "no child".to_owned());
            say(&format!(
                "the exit code of the pipeline is lost: wait4: {why}"
            ));
            i32::from(FAILED) << 8
        }
    };
    if ending::note_all_started(&said) {
        end_all(shelf, true, Signal::TERM, grace, ending::reap_all);
    }
    ending::reap_all();
    let ends = shelf.take_what_is_read(ending::has_children());
    let stays = !ends.is_empty() || !shelf.is_empty();
    let mut answer = status.to_ne_bytes().to_vec();
    answer.push(stays.into());
    let _ = (&to_keeper).write_all(&answer);
    drop(to_keeper);
    if stays {
        stay(ends, shelf, || {
            ending::reap_all();
            ending::has_children()
        });
    }
}

/// Returns what the runner writes until it has ended. If the keeper ends before, continues the runner in case it is
/// stopped: it then reads that the keeper has gone.
fn hear_the_runner(to_keeper: &UnixStream, to_runner: &mut UnixStream, runner: Pid) -> Vec<u8> {
    let (mut keeper, mut said) = (Some(to_keeper.as_fd()), Vec::new());
    loop {
        let fds = [Some(to_runner.as_fd()), keeper].into_iter().flatten();
        let ready = wait_for(&fds.collect::<Vec<_>>(), None);
        let mut bytes = [0; 64];
        if ready[0] {
            match to_runner.read(&mut bytes) {
                Ok(0) | Err(_) => return said,
                Ok(len) => said.extend_from_slice(&bytes[..len]),
            }
        }
        if keeper.is_some() && ready[1] {
            // The runner has not been waited for, so its PID cannot belong to another process.
            let _ = kill_process(runner, Signal::CONT);
            keeper = None;
        }
    }
}

/// Keeps these ends, and those on the shelf, until nobody reads from their pipes. `may_be_left` says whether a process of
/// the pipeline may live.
fn stay(mut ends: Vec<(u32, OwnedFd)>, shelf: &Shelf, may_be_left: impl Fn() -> bool) {
    let [into, from] = shelf.sockets();
    let kept = ends.iter().map(|(_, end)| end.as_fd());
    close_all_but(&kept.chain([into, from]).collect::<Vec<_>>());
    // All signals are blocked, and the shelf may not have been looked at: not enough memory.
    let pause = Timespec::try_from(Duration::from_secs(1)).ok();
    while !ends.is_empty() || !shelf.is_empty() {
        let polled = ends.iter();
        let polled = polled.map(|(_, end)| PollFd::new(end, PollFlags::empty()));
        let _ = poll(&mut polled.collect::<Vec<_>>(), pause.as_ref());
        let may_be_left = may_be_left();
        ends.retain(|(number, end)| is_wanted(*number, end, may_be_left));
        ends.extend(shelf.take_what_is_read(may_be_left));
    }
}

/// Forks a holder if there is none any more and one is needed: a pipe on the shelf still has a reader.
pub fn replace_the_holder(shelf: &Shelf) {
    if shelf.is_read() && matches!(fork(), Ok(None)) {
        let _ = SigSet::all().thread_block();
        let _ = setsid();
        rename(c"pipe holder", COMMAND);
        let _ = chdir("/");
        stay(shelf.take_what_is_read(true), shelf, || true);
        exit_at_once(0)
    }
}

/// The other processes, and the shelf.
pub struct Others<'a> {
    /// A socket to the keeper.
    pub keeper: &'a UnixStream,
    pub shelf: &'a Shelf,
    /// With `--whole`.
    pub holder: Option<ToHolder>,
}

impl Others<'_> {
    /// Tells the others the PIDs of the stages or, by one byte, that all is done.
    pub fn tell(&self, bytes: &[u8]) {
        // If the keeper is gone, the socket says so.
        let _ = (&mut &*self.keeper).write_all(bytes);
        let is_done = bytes.len() == 1;
        let is_gone = self
            .holder
            .as_ref()
            .is_some_and(|holder| !holder.tell(bytes));
        if is_gone && is_done {
            replace_the_holder(self.shelf);
        }
    }
}
