//! The progress bar of a copy.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on stderr, or nothing where that is no terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar towards `size` bytes, or one without an end.
    pub fn new(size: Option<u64>) -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let (bar, template) = match size {
            Some(size) => (
                ProgressBar::new(size),
                "{bar:30} {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{spinner} {binary_bytes}  {binary_bytes_per_sec}  {elapsed}",
            ),
        };
        let style = ProgressStyle::with_template(template).expect("the template is a fixed one");
        let bar = bar.with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// So many bytes more arrived.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Takes it off the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}
