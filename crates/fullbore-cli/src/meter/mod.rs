//! Shows how bytes pass, and which side of the pipeline makes the other wait.
//!
//! | file | holds |
//! |---|---|
//! | `line.rs` | the line, fitted to the terminal |
//! | `rate.rs` | how fast, and how long still |
//! | `look.rs` | one look at the pipes on both sides |
//! | `verdict.rs` | what many looks mean |
//! | `pace.rs` | the rate limit |
//! | `screen.rs` | stderr |
//! | `interrupt.rs` | Ctrl-C |
//! | `watch.rs` | the files of a process that runs already |
//!
//! The one idea: whoever moves the bytes only adds to a counter. A thread of its own, which sleeps
//! nearly always, looks at the counter and at the pipes, and draws.

pub mod interrupt;
mod line;
mod look;
mod pace;
mod rate;
pub mod screen;
mod verdict;
mod watch;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::moving::Source;
use interrupt::Interrupt;
use line::{Reading, line};
pub use line::{Unit, bytes};
pub use pace::Pace;
use rate::Rate;
use screen::Screen;
use verdict::Seen;
pub use watch::{Target, Watch};

/// 50 looks a second tell within a second who is slow, and take no time that could be measured.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is shown, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// What stands in front of the line.
    pub name: Option<String>,
    /// What is counted.
    pub unit: Unit,
    /// How many there will be, where that is known.
    pub total: Option<u64>,
    /// The time between two drawings.
    pub interval: Duration,
}

/// Counts what passes, and shows it.
pub struct Meter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the two threads share.
#[derive(Default)]
struct Shared {
    passed: AtomicU64,
    /// The rate limit keeps bytes back just now.
    held: AtomicBool,
    ended: AtomicBool,
    /// Where bytes come from just now.
    source: Mutex<Option<Arc<Source>>>,
    /// None where no line is shown.
    screen: Mutex<Option<Screen>>,
}

impl Meter {
    /// One that only counts.
    pub fn quiet() -> Self {
        Self {
            shared: Arc::default(),
            thread: None,
        }
    }

    /// One that says so far and so far, a number a line.
    pub fn numbers(options: Options) -> Self {
        Self::start(None, move |shared| numbers(shared, &options))
    }

    /// One that draws a line where stderr is a terminal, or `anyway`; otherwise one that only counts.
    pub fn line(options: Options, anyway: bool) -> Self {
        match Screen::new(anyway) {
            None => Self::quiet(),
            Some(screen) => {
                // Before the thread: a signal that comes in between is noted too.
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
        // Without a thread nothing is shown, and everything passes all the same.
        let thread = thread::Builder::new().spawn(move || run(&theirs)).ok();
        Self { shared, thread }
    }

    /// So many more have passed.
    #[inline]
    pub fn add(&self, count: u64) {
        self.shared.passed.fetch_add(count, Ordering::Relaxed);
    }

    /// Waits for the rate limit.
    pub fn hold(&self, time: Duration) {
        if time.is_zero() {
            return;
        }
        self.shared.held.store(true, Ordering::Relaxed);
        thread::sleep(time);
        self.shared.held.store(false, Ordering::Relaxed);
    }

    /// From now on bytes come from here, or from nowhere.
    pub fn takes_from(&self, source: Option<&Arc<Source>>) {
        *locked(&self.shared.source) = source.cloned();
    }

    /// Says something on stderr without the line in the way.
    pub fn aside(&self, say: impl FnOnce()) {
        let mut screen = locked(&self.shared.screen);
        if let Some(screen) = &mut *screen {
            screen.clear();
        }
        say();
    }

    /// Shows the last of it, and who was slow.
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

    fn look(&self) -> Seen {
        let held = self.held.load(Ordering::Relaxed);
        // Not held while looking: whoever moves bytes must not wait for this thread.
        let source = locked(&self.source).clone();
        let input = source.as_ref().map(AsFd::as_fd);
        look::look(input, std::io::stdout().as_fd(), held)
    }
}

/// A panic of the thread that draws is no reason to stop moving bytes.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number each interval, and one at the end.
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
            screen::say(&format!("{}\n", reading.number()));
            due = (due + options.interval).max(now);
        }
        if ended {
            return;
        }
        thread::park_timeout(due.saturating_duration_since(now));
    }
}

/// The thread that looks and draws.
struct Drawing<'a> {
    shared: &'a Shared,
    options: Options,
    interrupt: Interrupt,
    rate: Rate,
    /// All that was seen, and what was seen lately.
    seen: Seen,
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
            thread::park_timeout(LOOK_EVERY);
            if self.shared.has_ended() {
                break;
            }
            let seen = self.shared.look();
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
