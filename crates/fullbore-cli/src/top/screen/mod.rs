//! The live table: what is looked at, drawn and done, and when. The terminal is left as it was, whatever
//! ends this process or stops it, but for SIGKILL.

mod state;
mod view;

use std::io::{Stdout, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::widgets::TableState;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGTSTP};

use crate::interrupt::Interrupt;
use crate::tune::Report;
use fullbore::pipe::PipeIdentity;
use fullbore_host::text::clean;
use fullbore_observe::Monitor;
use fullbore_observe::tune::outcome::Options;
use fullbore_observe::tune::target::Target;
use fullbore_observe::tune::tune;
use state::{Action, Mode, State};
use view::Look;

/// A signal is noticed within this time.
const SIGNALS: Duration = Duration::from_millis(100);

/// Shows it until a person, or a signal, ends it.
///
/// # Errors
/// Where the terminal fails, or there is no /proc.
pub fn run(monitor: &mut Monitor, interval: Duration) -> Result<()> {
    let interrupt = Interrupt::noted();
    let (stopped, continued) = (noted(SIGTSTP)?, noted(SIGCONT)?);
    // Two looks, so that the first overview has something to say.
    monitor.look()?;
    let mut state = State::new(monitor.look()?);
    let mut screen = Screen::enter()?;
    let look = Look::of_environment();
    let mut next_look = Instant::now() + interval.min(Duration::from_millis(500));
    let mut next_sample = Instant::now() + monitor.next_sample();
    let mut is_new = true;
    loop {
        if is_new {
            screen.draw(&state, look)?;
            is_new = false;
        }
        let now = Instant::now();
        let due = match state.paused {
            true => now + SIGNALS,
            false => next_look.min(next_sample),
        };
        if is_event(due.saturating_duration_since(now).min(SIGNALS))? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match state.key(key) {
                    Action::Nothing if state.paused => monitor.forget(),
                    Action::Nothing => {}
                    Action::Leave => break,
                    Action::Stop => stopped.store(true, Ordering::Relaxed),
                    Action::Grow { pipe, to, force } => {
                        state.message = vec!["observing how its writer sends…".to_owned()];
                        screen.draw(&state, look)?;
                        grow(&mut state, pipe, to, force);
                        monitor.requery_capacities();
                        next_look = Instant::now();
                    }
                },
                _ => {}
            }
            is_new = true;
        }
        if interrupt.came() {
            break;
        }
        if stopped.swap(false, Ordering::Relaxed) {
            restore();
            monitor.forget();
            // The same as SIGTSTP does where nobody handles it.
            let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            continued.store(true, Ordering::Relaxed);
        }
        if continued.swap(false, Ordering::Relaxed) {
            // A shell has given the terminal its own settings meanwhile.
            let _ = disable_raw_mode();
            screen.take()?;
            is_new = true;
        }
        let now = Instant::now();
        if state.paused {
            next_look = now;
        } else if now >= next_look {
            state.update(monitor.look()?);
            // One that took too long is not made up for.
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

/// Waits for something to be read from the terminal, and says whether there is.
///
/// # Errors
/// Where the terminal was closed, or fails. Once it has gone, `event::poll` would read nothing from
/// it without end.
fn is_event(time: Duration) -> Result<bool> {
    // What has been read already is not waited for.
    for time in [Duration::ZERO, time] {
        let stdin = stdin();
        let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut terminal, Some(&time.try_into()?)) {
            // SIGWINCH is an event as well.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).context("wait for the terminal"),
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if terminal[0].revents().intersects(gone) {
            bail!("the terminal was closed");
        }
        if event::poll(Duration::ZERO)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a signal came.
fn noted(signal: i32) -> Result<Arc<AtomicBool>> {
    let noted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, Arc::clone(&noted)).context("handle a signal")?;
    Ok(noted)
}

/// Gives a pipe room, and says what came of it.
fn grow(state: &mut State, pipe: PipeIdentity, to: usize, force: bool) {
    let done = tune(
        &Target::Pipe(pipe),
        Options {
            size: to,
            is_strict: false,
            revert: false,
            force,
            dry_run: false,
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

/// The terminal, as long as it is ours.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    table: TableState,
}

impl Screen {
    fn enter() -> Result<Self> {
        static HOOK: std::sync::Once = std::sync::Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let terminal = Terminal::new(CrosstermBackend::new(stdout()));
        let mut screen = Self {
            terminal: terminal.context("query the size of the terminal")?,
            table: TableState::new(),
        };
        screen.take()?;
        Ok(screen)
    }

    /// Takes the terminal; it is put back on drop.
    fn take(&mut self) -> Result<()> {
        enable_raw_mode().context("set up the terminal")?;
        if !TAKEN.swap(true, Ordering::Relaxed) {
            execute!(stdout(), EnterAlternateScreen).context("set up the terminal")?;
        }
        self.terminal.clear().context("clear the terminal")
    }

    fn draw(&mut self, state: &State, look: Look) -> Result<()> {
        let table = &mut self.table;
        self.terminal
            .draw(|frame| view::draw(frame, state, table, look))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the terminal is ours. Leaving its other screen twice would put the cursor where it once was.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Puts the terminal back. Nobody is told if it has gone.
fn restore() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}
