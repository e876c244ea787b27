//! The live table: when pipes are scanned, when the table is drawn, and when keys are handled. The terminal
//! is restored after what usually ends or stops this process: keys, an error, a panic, SIGINT, SIGTERM, SIGHUP,
//! SIGQUIT and SIGTSTP.

mod keys;
mod raw;
mod state;
pub mod view;

use std::io::{self, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};

use crate::processes::interrupt::Interrupt;
use crate::terminal::size_of;
use crate::tune_report::Report;
use fullbore::PipeIdentity;
use fullbore_host::text::clean;
use fullbore_observe::Monitor;
use fullbore_observe::tune::outcome::Options;
use fullbore_observe::tune::target::Target;
use fullbore_observe::tune::tune;
use keys::{Key, Keys};
use state::{Action, Mode, State};

/// The time within which a signal is noticed.
const SIGNALS: Duration = Duration::from_millis(100);
/// The time within which the rest of a key arrives, over a slow line too.
const REST: Duration = Duration::from_millis(50);

/// Shows the table until the user or a signal ends it.
///
/// # Errors
/// Fails if the terminal fails, or if there is no /proc.
pub fn run(monitor: &mut Monitor, interval: Duration) -> Result<()> {
    let interrupt = Interrupt::of(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT]);
    let (stopped, continued) = (noted(SIGTSTP)?, noted(SIGCONT)?);
    let resized = noted(SIGWINCH)?;
    let mut keys = Keys::default();
    // There are two scans, because rates in the first overview need an earlier scan to compare with.
    monitor.scan()?;
    let mut state = State::new(monitor.scan()?);
    let mut screen = Screen::enter()?;
    let mut next_look = Instant::now() + interval.min(Duration::from_millis(500));
    let mut next_sample = Instant::now() + monitor.next_sample();
    let mut is_new = true;
    loop {
        if is_new {
            screen.draw(&state)?;
            is_new = false;
        }
        let now = Instant::now();
        let due = match state.paused {
            true => now + SIGNALS,
            false => next_look.min(next_sample),
        };
        if let Some(key) = next_key(&mut keys, due.saturating_duration_since(now).min(SIGNALS))? {
            match state.key(key) {
                Action::Nothing if state.paused => monitor.forget(),
                Action::Nothing => {}
                Action::Leave => break,
                Action::Stop => stopped.store(true, Ordering::Relaxed),
                Action::Grow { pipe, to, force } => {
                    state.message = vec!["observing how its writer sends…".to_owned()];
                    screen.draw(&state)?;
                    grow(&mut state, pipe, to, force);
                    monitor.requery_capacities();
                    next_look = Instant::now();
                }
            }
            is_new = true;
        }
        is_new |= resized.swap(false, Ordering::Relaxed);
        if interrupt.came() {
            break;
        }
        if stopped.swap(false, Ordering::Relaxed) {
            raw::give_back();
            monitor.forget();
            // This does what SIGTSTP does if it is not handled.
            let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            continued.store(true, Ordering::Relaxed);
        }
        if continued.swap(false, Ordering::Relaxed) {
            screen.take()?;
            is_new = true;
        }
        let now = Instant::now();
        if state.paused {
            next_look = now;
        } else if now >= next_look {
            state.update(monitor.scan()?);
            // If a scan took too long, the scans that were due meanwhile are skipped.
            next_look = (next_look + interval).max(now);
            next_sample = Instant::now() + monitor.next_sample();
            is_new = true;
        } else if now >= next_sample {
            monitor.sample();
            next_sample = Instant::now() + monitor.next_sample();
        }
    }
    drop(screen);
    interrupt.obey();
    Ok(())
}

/// Waits for a key, and returns it.
///
/// # Errors
/// Fails if the terminal was closed, or fails.
fn next_key(keys: &mut Keys, time: Duration) -> Result<Option<Key>> {
    if let Some(key) = keys.next(false) {
        return Ok(Some(key));
    }
    let stdin = stdin();
    let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
    let time = if keys.has_part() {
        time.min(REST)
    } else {
        time
    };
    match poll(&mut terminal, Some(&time.try_into()?)) {
        Ok(_) => {}
        // By a signal.
        Err(Errno::INTR) => return Ok(None),
        Err(errno) => return Err(errno).context("wait for the terminal"),
    }
    let state = terminal[0].revents();
    if state.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        bail!("the terminal was closed");
    }
    if state.is_empty() {
        return Ok(keys.next(true));
    }
    let mut bytes = [0; 1024];
    match rustix::io::read(&stdin, &mut bytes) {
        Ok(count) => keys.add(&bytes[..count]),
        Err(Errno::INTR | Errno::AGAIN) => {}
        Err(errno) => return Err(errno).context("read the terminal"),
    }
    Ok(keys.next(false))
}

/// Returns a flag that is set when this signal comes.
fn noted(signal: i32) -> Result<Arc<AtomicBool>> {
    let noted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, Arc::clone(&noted)).context("handle a signal")?;
    Ok(noted)
}

/// Enlarges a pipe, and sets the message that reports the result.
fn grow(state: &mut State, pipe: PipeIdentity, to: usize, force: bool) {
    let done = tune(
        &Target::Pipe(pipe),
        Options {
            force,
            ..Options::growing(to)
        },
    );
    state.message = match done {
        Err(error) => vec![clean(&format!("not enlarged: {error:#}"))],
        Ok(tuning) => {
            let report = Report(tuning);
            if report.is_refused() {
                state.mode = Mode::Question { pipe, to };
            }
            let mut lines = vec![report.to_string().trim().to_owned()];
            lines.extend(report.warnings());
            lines.iter().map(|line| clean(line)).collect()
        }
    };
}

/// The terminal, as long as this program draws on it.
#[derive(Default)]
struct Screen {
    /// The size and the lines of the last drawing: of the next one, only what differs is written.
    size: (usize, usize),
    shown: Vec<String>,
    /// The first row of the table that is shown.
    first: usize,
}

impl Screen {
    fn enter() -> Result<Self> {
        static HOOK: std::sync::Once = std::sync::Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                raw::give_back();
                before(panic);
            }));
        });
        let mut screen = Self::default();
        screen.take()?;
        Ok(screen)
    }

    /// Takes the terminal, which is given back on drop.
    fn take(&mut self) -> Result<()> {
        raw::take().context("set up the terminal")?;
        self.size = (0, 0);
        Ok(())
    }

    fn draw(&mut self, state: &State) -> Result<()> {
        let size = size();
        let lines = view::lines(state, size, &mut self.first);
        self.paint(size, lines).context("draw on the terminal")
    }

    fn paint(&mut self, size: (usize, usize), lines: Vec<String>) -> io::Result<()> {
        let mut out = stdout().lock();
        if size != self.size {
            out.write_all(b"\x1b[2J")?;
            self.size = size;
            self.shown.clear();
        }
        self.shown.resize(lines.len(), String::new());
        for (row, (line, shown)) in lines.iter().zip(&self.shown).enumerate() {
            if line != shown {
                // Cleared first, because after the last column there is nothing to the right of the cursor.
                write!(out, "\x1b[{};1H\x1b[2K{line}", row + 1)?;
            }
        }
        self.shown = lines;
        out.flush()
    }
}

/// Returns the columns and the rows of the terminal, and those of an old one where it does not know them.
fn size() -> (usize, usize) {
    let known = size_of(stdout()).filter(|&(_, rows)| rows > 0);
    known.unwrap_or((80, 24))
}

impl Drop for Screen {
    fn drop(&mut self) {
        raw::give_back();
    }
}
