//! The progress bar of a copy.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use fullbore_host::size::amount;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// A progress bar on stderr, or nothing if stderr is not a terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// Shows a bar for `size` bytes, or a spinner if the size is not known.
    pub fn new(size: Option<u64>) -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let (bar, template) = match size {
            Some(size) => (
                ProgressBar::new(size),
                "{bar:30} {moved} of {size}  {rate}/s  {eta} left",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{spinner} {moved}  {rate}/s  {elapsed}",
            ),
        };
        let style = ProgressStyle::with_template(template)
            .expect("the template is a fixed one")
            .with_key("moved", |state: &ProgressState, out: &mut dyn Write| {
                let _ = out.write_str(&amount(state.pos() as f64));
            })
            .with_key("size", |state: &ProgressState, out: &mut dyn Write| {
                let _ = out.write_str(&amount(state.len().unwrap_or(0) as f64));
            })
            .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                let _ = out.write_str(&amount(state.per_sec()));
            });
        let bar = bar.with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Counts bytes that arrived.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Removes the bar from the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}
