//! The line of a copy: how much has arrived, drawn five times a second by a thread of its own, which also prints the lines
//! of `--log`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::line::{Reading, line};
use super::lines::{Screen, say_line};
use super::log_line::{Due, log_line};
use fullbore_observe::Rate;

/// The time between two drawings.
const EVERY: Duration = Duration::from_millis(200);

/// The line, which is removed on drop. Nothing is drawn if stderr is no terminal.
pub struct Bar {
    arrived: Arc<AtomicU64>,
    /// Its end ends the thread.
    ends: Option<Sender<()>>,
    draws: Option<JoinHandle<()>>,
}

impl Bar {
    /// Shows the progress of a copy of `size` bytes, if the size is known: `is_drawn` on the terminal, and as lines of a
    /// log.
    pub fn new(size: Option<u64>, is_drawn: bool, log: Option<Duration>) -> Self {
        let arrived = Arc::new(AtomicU64::new(0));
        let (ends, ended) = channel::<()>();
        let mut bar = Self {
            arrived: Arc::clone(&arrived),
            ends: Some(ends),
            draws: None,
        };
        let mut screen = is_drawn.then(|| Screen::new(false)).flatten();
        let mut log = log.map(Due::every);
        if screen.is_none() && log.is_none() {
            return bar;
        }
        let mut rate = Rate::new(0, Instant::now());
        let draw = move || {
            let mut tick = 0;
            loop {
                let drawing = screen.as_ref().map(|_| EVERY);
                let wait = drawing.into_iter().chain(log.map(|due| due.left())).min();
                let ended = ended.recv_timeout(wait.unwrap_or(EVERY));
                let ended = ended != Err(RecvTimeoutError::Timeout);
                rate.update(arrived.load(Ordering::Relaxed), Instant::now());
                let reading = Reading {
                    tick,
                    ended,
                    ..Reading::of(&rate, size)
                };
                if let Some(screen) = screen.as_mut().filter(|_| !ended) {
                    screen.draw(&[line(&reading, screen.size().0)]);
                    tick += 1;
                }
                if log.as_mut().is_some_and(|due| ended || due.is_due()) {
                    say_line(log_line(&reading, ""));
                }
                if ended {
                    break;
                }
            }
            if let Some(mut screen) = screen {
                screen.clear();
            }
        };
        // Without a thread there is no line.
        bar.draws = thread::Builder::new().spawn(draw).ok();
        bar
    }

    /// Counts bytes that arrived.
    pub fn add(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.ends = None;
        if let Some(draws) = self.draws.take() {
            let _ = draws.join();
        }
    }
}
