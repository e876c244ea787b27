//! Shows how bytes pass, and which side of the pipeline makes the other wait.
//!
//! | file | holds |
//! |---|---|
//! | `line.rs` | the line, fitted to the terminal |
//! | `rate.rs` | rates, and the remaining time |
//! | `sample.rs` | one sample of the pipes on both sides |
//! | `verdict.rs` | what many samples mean |
//! | `pace.rs` | the rate limit |
//! | `options.rs` | what is shown, and how |
//! | `watch.rs` | the files of a process that is already running |
//!
//! The one idea: the thread that moves the bytes only adds to a counter. Another thread, which sleeps most
//! of the time, samples the counter and the pipes, and draws.

mod line;
mod options;
mod pace;
mod rate;
mod sample;
mod verdict;
mod watch;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;
use crate::moving::Source;
use crate::terminal::lines::{Screen, say};
pub use line::Unit;
use line::{Reading, line};
pub use options::Options;
pub use pace::Pace;
use rate::Rate;
use verdict::Seen;
pub use watch::{Target, Watch};

/// The time between two samples: 50 per second show within a second which side is slow, and take no measurable time.
const SAMPLING_INTERVAL: Duration = Duration::from_millis(20);

/// Counts what passes, and shows it.
pub struct Meter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the two threads share.
#[derive(Default)]
struct Shared {
    passed: AtomicU64,
    /// Whether the rate limit delays bytes at this moment.
    held: AtomicBool,
    ended: AtomicBool,
    /// The input that is being read.
    source: Mutex<Option<Arc<Source>>>,
    /// `None` if no line is shown.
    screen: Mutex<Option<Screen>>,
}

impl Meter {
    /// Returns a meter that only counts.
    pub fn quiet() -> Self {
        Self {
            shared: Arc::default(),
            thread: None,
        }
    }

    /// Returns a meter that prints one number per line.
    pub fn numbers(options: Options) -> Self {
        Self::start(None, move |shared| numbers(shared, &options))
    }

    /// Returns a meter that draws a line if stderr is a terminal, or if `anyway` is set. Otherwise it only
    /// counts.
    pub fn line(options: Options, anyway: bool) -> Self {
        match Screen::new(anyway) {
            None => Self::quiet(),
            Some(screen) => {
                // Before the thread starts, so that a signal in between is noted too.
                let interrupt = Interrupt::noted();
                Self::start(Some(screen), move |shared| {
                    Drawing::new(shared, options, interrupt).run();
                })
            }
        }
    }

    fn start(screen: Option<Screen>, run: impl FnOnce(&Shared) + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            screen: Mutex::new(screen),
            ..Shared::default()
        });
        let theirs = Arc::clone(&shared);
        // If no thread can be started, nothing is shown; the bytes are moved all the same.
        let thread = thread::Builder::new().spawn(move || run(&theirs)).ok();
        Self { shared, thread }
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
    pub fn takes_from(&self, source: Option<&Arc<Source>>) {
        *locked(&self.shared.source) = source.cloned();
    }

    /// Clears the line, then calls `say`, which prints something on stderr.
    pub fn aside(&self, say: impl FnOnce()) {
        let mut screen = locked(&self.shared.screen);
        if let Some(screen) = &mut *screen {
            screen.clear();
        }
        say();
    }

    /// Shows the final line, and which side was slow.
    pub fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.ended.store(true, Ordering::Release);
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn sample(&self) -> Seen {
        let held = self.held.load(Ordering::Relaxed);
        // The lock is not held while sampling: the thread that moves bytes must not wait for this one.
        let source = locked(&self.source).clone();
        let input = source.as_ref().map(AsFd::as_fd);
        sample::sample(input, std::io::stdout().as_fd(), held)
    }
}

/// Locks the mutex also after a panic of the drawing thread, which is no reason to stop moving bytes.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a number in each interval, and one at the end.
fn numbers(shared: &Shared, options: &Options) {
    let mut due = Instant::now() + options.interval;
    loop {
        let ended = shared.has_ended();
        let now = Instant::now();
        if ended || now >= due {
            let reading = Reading {
                passed: shared.passed(),
                total: options.total,
                ..Reading::default()
            };
            say(&format!("{}\n", reading.number()));
            due = (due + options.interval).max(now);
        }
        if ended {
            return;
        }
        thread::park_timeout(due.saturating_duration_since(now));
    }
}

/// The thread that takes samples and draws.
struct Drawing<'a> {
    shared: &'a Shared,
    options: Options,
    interrupt: Interrupt,
    rate: Rate,
    /// All samples.
    seen: Seen,
    /// The latest samples.
    recent: Seen,
    tick: u64,
}

impl<'a> Drawing<'a> {
    fn new(shared: &'a Shared, options: Options, interrupt: Interrupt) -> Self {
        Self {
            shared,
            options,
            interrupt,
            rate: Rate::new(0, Instant::now()),
            seen: Seen::default(),
            recent: Seen::default(),
            tick: 0,
        }
    }

    fn run(mut self) {
        let mut due = Instant::now() + self.options.interval;
        while !self.interrupt.came() {
            thread::park_timeout(SAMPLING_INTERVAL);
            if self.shared.has_ended() {
                break;
            }
            let seen = self.shared.sample();
            self.seen += seen;
            self.recent += seen;
            let now = Instant::now();
            if now >= due {
                due = (due + self.options.interval).max(now);
                self.draw();
            }
        }
        self.finish();
        self.interrupt.obey();
    }

    fn draw(&mut self) {
        let reading = self.reading(false);
        if let Some(screen) = &mut *locked(&self.shared.screen) {
            let (columns, _) = screen.size();
            screen.draw(&[line(&reading, columns)]);
        }
        self.recent = self.recent.fading();
        self.tick += 1;
    }

    fn finish(&mut self) {
        let reading = self.reading(true);
        let verdict = self.seen.verdict();
        if let Some(screen) = &mut *locked(&self.shared.screen) {
            let (columns, _) = screen.size();
            let words = match &reading.name {
                Some(name) => format!("{}: {verdict}", fullbore_host::text::clean(name)),
                None => verdict.to_string(),
            };
            screen.leave(&[line(&reading, columns), words]);
        }
    }

    fn reading(&mut self, ended: bool) -> Reading {
        let passed = self.shared.passed();
        self.rate.update(passed, Instant::now());
        Reading {
            name: self.options.name.clone(),
            unit: self.options.unit,
            passed,
            total: self.options.total,
            elapsed: self.rate.elapsed(),
            now: self.rate.now(),
            average: self.rate.average(),
            left: self.options.total.and_then(|total| self.rate.left(total)),
            hint: self.recent.verdict().in_short(),
            tick: self.tick,
            ended,
        }
    }
}
