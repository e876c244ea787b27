//! The meter of a copy: it counts what passes, and shows it.
//!
//! The one idea: the thread that moves the bytes only adds to a counter. Another thread, which sleeps most
//! of the time, samples the counter and the pipes, and draws.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullbore::PipeEnd;
use fullbore_observe::census::fill::Fill;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::display::{Display, show};
use super::line_options::LineOptions;
use super::look::Look;
use super::manner::{self, Manner};
use super::remote::{self, Request, State};
use super::sample;
use super::stats::Stats;
use super::verdict::Seen;
use crate::processes::interrupt::Interrupt;
use crate::terminal::line::Reading;
use crate::terminal::lines::{say, say_line};
use crate::terminal::log_line::{Due, log_line};
use fullbore_host::text::clean;
use fullbore_observe::Rate;

/// The time between two samples: 50 per second show within a second which side is slow, and take no measurable time.
const SAMPLING_INTERVAL: Duration = Duration::from_millis(20);

/// Counts what passes, and shows it.
pub struct Meter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// As whom it speaks.
    pub manner: Manner,
}

/// Takes the progress out of the tab of the terminal.
const NO_TAB: &str = "\x1b]9;4;0;0\x1b\\";

/// The signals that end pv with an exit code of its own.
const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// What the threads share.
struct Shared {
    began: Instant,
    passed: AtomicU64,
    /// What is shown, and how.
    options: Mutex<LineOptions>,
    /// Bytes per second; 0 is no limit.
    rate_limit: AtomicU64,
    /// The last bytes that passed, if they are shown.
    tail: Mutex<Vec<u8>>,
    /// Whether the rate limit delays bytes at this moment.
    held: AtomicBool,
    ended: AtomicBool,
    /// The input that is being read.
    source: Mutex<Option<Arc<File>>>,
    /// The output.
    sink: Option<OwnedFd>,
    /// `None` if no line is shown.
    display: Mutex<Option<Display>>,
}

impl Meter {
    /// Returns a meter that draws a line on `display`, if there is one, or prints numbers, unless it is to be quiet.
    /// `sink` is a duplicate of the output, which is sampled. Others can change the meter while it runs, and ask how far it
    /// is.
    pub fn new(
        options: LineOptions,
        rate_limit: u64,
        display: Option<Display>,
        sink: Option<OwnedFd>,
        manner: Manner,
    ) -> Self {
        let is_shown = display.is_some() || options.numeric && !options.quiet || options.stats;
        // pv ends with a code of its own, also where nothing is shown.
        let is_needed = is_shown || manner.is_pv() || options.log.is_some();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            passed: AtomicU64::new(0),
            options: Mutex::new(options),
            rate_limit: AtomicU64::new(rate_limit),
            tail: Mutex::default(),
            held: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            source: Mutex::default(),
            sink,
            display: Mutex::new(display),
        });
        // Before the thread starts, so that a signal in between is noted too.
        let interrupt = is_needed.then(|| match manner.is_pv() {
            true => Interrupt::of(&SIGNALS).ending_with(manner::SIGNAL),
            false => Interrupt::noted(),
        });
        let thread = interrupt.and_then(|interrupt| {
            let theirs = Arc::clone(&shared);
            let draw = move || Drawing::new(&theirs, interrupt).run();
            // If no thread can be started, nothing is shown; the bytes are moved all the same.
            thread::Builder::new().spawn(draw).ok()
        });
        // The thread that answers outlives the meter, and must not keep the output open.
        let asked = Arc::downgrade(&shared);
        remote::answer(move |request| match asked.upgrade() {
            Some(shared) => shared.answer(request),
            None => Err("it has ended".into()),
        });
        Self {
            shared,
            thread,
            manner,
        }
    }

    /// Returns the limit in bytes per second; 0 is none.
    pub fn rate_limit(&self) -> u64 {
        self.shared.rate_limit.load(Ordering::Relaxed)
    }

    /// Returns how many of the last bytes are shown, if any.
    pub fn looks_at(&self) -> Option<usize> {
        locked(&self.shared.options).look().looks_at()
    }

    /// Keeps the last of these bytes, to be shown.
    pub fn saw(&self, bytes: &[u8], most: usize) {
        let mut tail = locked(&self.shared.tail);
        let new = &bytes[bytes.len().saturating_sub(most)..];
        let old = tail.len().saturating_sub(most - new.len());
        tail.drain(..old);
        tail.extend(new);
    }

    /// Counts bytes or lines that have passed.
    #[inline]
    pub fn add(&self, count: u64) {
        self.shared.passed.fetch_add(count, Ordering::Relaxed);
    }

    /// Sleeps, because of the rate limit.
    pub fn hold(&self, time: Duration) {
        if time.is_zero() {
            return;
        }
        self.shared.held.store(true, Ordering::Relaxed);
        thread::sleep(time);
        self.shared.held.store(false, Ordering::Relaxed);
    }

    /// Sets the input that is read from now on, if there is one.
    pub fn takes_from(&self, source: Option<&Arc<File>>) {
        *locked(&self.shared.source) = source.cloned();
    }

    /// Prints a line on stderr, above the one that is drawn.
    pub fn say(&self, line: String) {
        match &mut *locked(&self.shared.display) {
            Some(display) => display.say(line),
            None => say_line(line),
        }
    }
}

impl Drop for Meter {
    /// Shows the final line, and which side was slow.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.ended.store(true, Ordering::Release);
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn answer(&self, request: Request) -> Result<State, String> {
        let mut options = locked(&self.options);
        if let Request::Change(changes) = request {
            let is_other = |look: &Look| look.is_number() != options.look().is_number();
            if changes.look.as_ref().is_some_and(is_other) {
                return Err("--numeric cannot be changed while it runs".into());
            }
            if let Some(limit) = changes.rate_limit {
                self.rate_limit.store(limit, Ordering::Relaxed);
            }
            options.change(changes);
        }
        let (name, unit, total) = (options.name.clone(), options.unit(), options.size);
        drop(options);
        Ok(State {
            name,
            unit,
            passed: self.taken(),
            total,
            elapsed: self.began.elapsed(),
        })
    }

    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Returns how much the next program has taken: what has passed, without what the output pipe still holds.
    fn taken(&self) -> u64 {
        if locked(&self.options).counts_lines() {
            return self.passed();
        }
        let queued = self.behind().map_or(0, |fill| fill.queued);
        self.passed().saturating_sub(queued as u64)
    }

    /// Returns how full the output is, if it is a pipe.
    fn behind(&self) -> Option<Fill> {
        let sink = self.sink.as_ref()?;
        PipeEnd::new(sink.as_fd())
            .is_ok()
            .then(|| Fill::at(sink).ok())?
    }

    fn sample(&self) -> Seen {
        let held = self.held.load(Ordering::Relaxed);
        // The lock is not held while sampling: the thread that moves bytes must not wait for this one.
        let source = locked(&self.source).clone();
        let input = source.as_ref().map(AsFd::as_fd);
        sample::sample(input, self.sink.as_ref().map(AsFd::as_fd), held)
    }
}

fn new_rate(shared: &Shared) -> Rate {
    Rate::new(0, Instant::now()).over(locked(&shared.options).average_rate_window)
}

/// Locks the mutex also after a panic of the drawing thread, which is no reason to stop moving bytes.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that takes samples and draws.
struct Drawing<'a> {
    shared: &'a Shared,
    interrupt: Interrupt,
    rate: Rate,
    /// All samples.
    seen: Seen,
    /// The latest samples.
    recent: Seen,
    tick: u64,
    /// What was shown last.
    taken: u64,
    stats: Stats,
}

impl<'a> Drawing<'a> {
    fn new(shared: &'a Shared, interrupt: Interrupt) -> Self {
        Self {
            shared,
            interrupt,
            rate: new_rate(shared),
            seen: Seen::default(),
            recent: Seen::default(),
            tick: 0,
            taken: 0,
            stats: Stats::default(),
        }
    }

    fn run(mut self) {
        let shared = self.shared;
        let interval = || locked(&shared.options).interval();
        let mut due = Instant::now() + interval();
        let delay = locked(&self.shared.options).delay_start.unwrap_or_default();
        let mut waiting = locked(&self.shared.options).wait;
        let began = Instant::now();
        let mut log = locked(&self.shared.options).log.map(Due::every);
        while !self.interrupt.came() {
            thread::park_timeout(match waiting {
                true => SAMPLING_INTERVAL,
                false => SAMPLING_INTERVAL.min(due.saturating_duration_since(Instant::now())),
            });
            if shared.ended.load(Ordering::Acquire) {
                break;
            }
            if waiting && self.shared.passed() == 0 {
                continue;
            }
            let now = Instant::now();
            if std::mem::take(&mut waiting) {
                self.rate = new_rate(self.shared);
                due = now;
            }
            if log.as_mut().is_some_and(Due::is_due) {
                self.log(false);
            }
            let seen = self.shared.sample();
            self.seen += seen;
            self.recent += seen;
            let is_due = now >= due;
            if is_due {
                due = (due + interval()).max(now);
            }
            // A change of the interval has an effect before the old one is over.
            due = due.min(now + interval());
            if is_due && began.elapsed() >= delay {
                self.draw(false);
            } else if let Some(display) = &mut *locked(&self.shared.display) {
                display.turn();
            }
        }
        // Skipped if the first line was not due yet.
        if !(waiting && self.shared.passed() == 0) && began.elapsed() >= delay {
            self.draw(true);
        }
        if log.is_some() {
            self.log(true);
        }
        let options = locked(&self.shared.options);
        if options.stats {
            let bits = options.look().appearance().is_some_and(|look| look.bits);
            say_line(self.stats.line(bits));
        }
        self.interrupt.obey();
    }

    /// Prints the line of --log, above the one that is drawn.
    fn log(&mut self, ended: bool) {
        let reading = self.reading(ended);
        let line = log_line(&reading, reading.hint.unwrap_or_default());
        match &mut *locked(&self.shared.display) {
            Some(display) if !ended => display.say(line),
            _ => say_line(line),
        }
    }

    /// Draws the line; for the last one, also which side was slow.
    fn draw(&mut self, ended: bool) {
        let reading = self.reading(ended);
        let options = locked(&self.shared.options).clone();
        let verdict = || match &reading.name {
            Some(name) => format!("{}: {}", clean(name), self.seen.verdict().text),
            None => self.seen.verdict().text,
        };
        let below = (ended && options.look() == Look::Ours).then(verdict);
        let mut display = locked(&self.shared.display);
        show(display.as_mut(), &options, &reading, below);
        let format = options.look().format();
        if ended && display.is_some() && format.is_some_and(|format| format.sets_tab()) {
            say(NO_TAB);
        }
        self.recent = self.recent.fading();
        self.tick += 1;
    }

    fn reading(&mut self, ended: bool) -> Reading {
        // At the end, what the pipe holds will be read or never. Before that, others may write into it too.
        self.taken = match ended {
            true => self.shared.passed(),
            false => self.shared.taken().max(self.taken),
        };
        self.rate.update(self.taken, Instant::now());
        if !ended {
            self.stats.note(self.rate.now());
        }
        let options = locked(&self.shared.options);
        Reading {
            name: options.name.clone(),
            unit: options.unit(),
            passed: self.taken,
            average: match ended {
                true => self.rate.average(),
                false => self.rate.recent(),
            },
            fastest: self.stats.most,
            buffered: 100.0 * self.shared.behind().map_or(0.0, Fill::share),
            hint: self.recent.verdict().in_short,
            tick: self.tick,
            ended,
            tail: locked(&self.shared.tail).clone(),
            ..Reading::of(&self.rate, options.size)
        }
    }
}
