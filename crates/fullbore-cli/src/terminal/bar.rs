//! The line of a copy: how much has arrived, drawn five times a second by a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::line::{Reading, line};
use super::lines::Screen;
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
    /// Draws the line of a copy of `size` bytes, if the size is known.
    pub fn new(size: Option<u64>) -> Self {
        let arrived = Arc::new(AtomicU64::new(0));
        let (ends, ended) = channel::<()>();
        let mut bar = Self {
            arrived: Arc::clone(&arrived),
            ends: Some(ends),
            draws: None,
        };
        let Some(mut screen) = Screen::new(false) else {
            return bar;
        };
        let mut rate = Rate::new(0, Instant::now());
        let draw = move || {
            let mut tick = 0;
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                rate.update(arrived.load(Ordering::Relaxed), Instant::now());
                let reading = Reading {
                    tick,
                    ..Reading::of(&rate, size)
                };
                screen.draw(&[line(&reading, screen.size().0)]);
                tick += 1;
            }
            screen.clear();
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
