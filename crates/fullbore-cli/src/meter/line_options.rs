//! The options that say what a meter shows.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use fullbore_host::number::within;
use fullbore_host::text::error_text;
use fullbore_host::{seconds, size};
use serde::{Deserialize, Serialize};

use super::appearance::{Appearance, Style};
use super::extra::Extra;
use super::look::Look;
use crate::copying;
use crate::terminal::line::{Reading, Unit};

/// What a meter shows.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Line")]
pub struct LineOptions {
    /// Show a bar, with the percentage if the size is known
    #[arg(short, long)]
    progress: bool,

    /// Print a plain line about the progress on stderr each SECONDS and at the end, with the time of day, for a log
    #[arg(long, value_name = "SECONDS", value_parser = seconds::within(0.1..=86_400.0))]
    pub log: Option<Duration>,

    /// Show the elapsed time
    #[arg(short, long)]
    timer: bool,

    /// Show the remaining time, if the size is known
    #[arg(short, long)]
    eta: bool,

    /// Show when it will be done, if the size is known
    #[arg(short = 'I', long)]
    fineta: bool,

    /// Show the current rate
    #[arg(short, long)]
    rate: bool,

    /// Show the average rate
    #[arg(short, long)]
    average_rate: bool,

    /// Show the number of bytes, or of lines
    #[arg(short, long)]
    bytes: bool,

    /// Show how full the pipe behind is
    #[arg(short = 'T', long)]
    buffer_percent: bool,

    /// Show the last N bytes that were written
    #[arg(short = 'A', long, value_name = "N")]
    #[arg(value_parser = within::<u16>(1..=256))]
    last_written: Option<u16>,

    /// Show bits instead of bytes
    #[arg(short = '8', long)]
    bits: bool,

    /// Show powers of 1000 instead of 1024
    #[arg(short = 'k', long)]
    si: bool,

    /// Show a line of this format
    #[arg(short = 'F', long)]
    format: Option<String>,

    /// Expected number of bytes, or of lines with --line-mode; @FILE is the size of that file or device, or of all
    /// files below that directory [default: the sum of the files' sizes]
    #[arg(short, long, value_name = "SIZE|@FILE", value_parser = expected)]
    pub size: Option<u64>,

    /// If the size is not known, let the bar show the current rate beside the highest one
    #[arg(short, long)]
    gauge: bool,

    /// The style of bars [default: plain]
    #[arg(short = 'u', long, value_name = "STYLE")]
    bar_style: Option<Style>,

    /// Seconds over which the average rate is taken, and the remaining time estimated [default: the whole time]
    #[arg(short = 'm', long, value_name = "SECONDS", value_parser = seconds::within(1.0..=1_000_000.0))]
    pub average_rate_window: Option<Duration>,

    /// At the end, print the lowest, average and highest rate of all updates, and their standard deviation
    #[arg(short = 'v', long)]
    pub stats: bool,

    /// Show the line in the title of the terminal's window too (window), or as the process' command line (process):
    /// 'window', 'process' or both with a comma, and if wanted a colon and a format
    #[arg(short = 'x', long, value_name = "WHERE[:FORMAT]")]
    pub extra_display: Option<Extra>,

    /// Also show the percentage in the tab of the terminal, where it has the sequences of ConEmu for that
    #[arg(short = '9', long)]
    conemu: bool,

    /// Count lines (newline characters) instead of bytes
    #[arg(short, long)]
    pub line_mode: bool,

    /// Count lines that end with a null character
    #[arg(short = '0', long)]
    pub null: bool,

    /// Text to print before the line
    #[arg(short = 'N', long)]
    pub name: Option<String>,

    /// Draw below the other meters of the pipeline that have this option too
    #[arg(short, long)]
    pub cursor: bool,

    /// Seconds between updates [default: 1]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds::within(0.001..=86_400.0))]
    interval: Option<Duration>,

    /// Start the display and the timer at the first byte
    #[arg(short = 'W', long)]
    pub wait: bool,

    /// Wait SECONDS before the first line
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = seconds::within(0.0..=86_400.0))]
    pub delay_start: Option<Duration>,

    /// The columns of a line [default: those of the terminal, or 80]
    #[arg(short, long, value_name = "COLUMNS")]
    #[arg(value_parser = within::<u16>(1..=65_535))]
    width: Option<u16>,

    /// The rows that lines may take [default: those of the terminal]
    #[arg(short = 'H', long, value_name = "ROWS")]
    #[arg(value_parser = within::<u16>(2..=65_535))]
    pub height: Option<u16>,

    /// Print one number per line, for scripts: the percentage if the size is known, otherwise the number of bytes or
    /// lines. With --bytes or --rate, those; with --timer, after the seconds; with --format, its sequences as numbers
    #[arg(short, long)]
    pub numeric: bool,

    /// Print nothing, whatever other options say
    #[arg(short, long)]
    pub quiet: bool,

    /// Show the line even if stderr is not a terminal
    #[arg(short, long)]
    pub force: bool,

    /// Let the number of --numeric go to and fro if the size is not known, as in pv.
    #[arg(skip)]
    pub wanders: bool,

    /// What the line shows since a running meter was told to change it.
    #[arg(skip)]
    changed: Option<Look>,
}

/// What a running meter is told to change; `None` leaves it as it is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    name: Option<String>,
    size: Option<u64>,
    interval: Option<Duration>,
    pub look: Option<Look>,
    width: Option<u16>,
    height: Option<u16>,
    /// Bytes per second; 0 is no limit.
    pub rate_limit: Option<u64>,
}

impl LineOptions {
    /// Returns what a running meter is told to change.
    pub fn changes(&self, rate_limit: Option<u64>) -> Changes {
        Changes {
            name: self.name.clone(),
            size: self.size,
            interval: self.interval,
            look: self.given_look(),
            width: self.width,
            height: self.height,
            rate_limit,
        }
    }

    pub fn change(&mut self, changes: Changes) {
        self.name = changes.name.or(self.name.take());
        self.size = changes.size.or(self.size);
        self.interval = changes.interval.or(self.interval);
        self.width = changes.width.or(self.width);
        self.height = changes.height.or(self.height);
        self.changed = changes.look.or(self.changed.take());
    }

    /// Returns what is counted.
    pub fn unit(&self) -> Unit {
        match self.counts_lines() {
            true => Unit::Lines,
            false => Unit::Bytes,
        }
    }

    /// Returns the time between two updates of the line.
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or(Duration::from_secs(1))
    }

    /// Returns how readings are shown.
    pub fn look(&self) -> Look {
        let look = self.changed.clone().or_else(|| self.given_look());
        look.unwrap_or(Look::Ours)
    }

    /// Returns the line about a reading, in the columns that a terminal has.
    pub fn line(&self, reading: &Reading, columns: usize) -> String {
        let columns = self.width.map_or(columns, usize::from);
        self.look().line(reading, columns)
    }

    pub fn counts_lines(&self) -> bool {
        self.line_mode || self.null
    }

    /// Returns the byte that ends a line, if lines are counted.
    pub fn lines_end_with(&self) -> Option<u8> {
        match (self.null, self.line_mode) {
            (true, _) => Some(0),
            (false, true) => Some(b'\n'),
            (false, false) => None,
        }
    }

    /// Returns what the line shows, if the command line says so.
    fn given_look(&self) -> Option<Look> {
        let appearance = Appearance {
            si: self.si,
            bits: self.bits,
            style: self.bar_style.unwrap_or_default(),
            gauge: self.gauge,
        };
        if self.numeric {
            let is_percent = !self.bytes && !self.rate;
            let numbers = [self.timer, is_percent, self.bytes, self.rate];
            let numbers: Vec<_> = numbers.into_iter().zip(["%t", "%p", "%b", "%r"]).collect();
            let format = self.format.clone().unwrap_or_else(|| joined(&numbers));
            return Some(Look::Number(format, self.wanders && self.format.is_none()));
        }
        let tab = if self.conemu {
            "%{progress-conemu}"
        } else {
            ""
        };
        if let Some(format) = &self.format {
            return Some(Look::Format(format!("{format}{tab}"), appearance));
        }
        let last = self.last_written.map(|number| format!("%{number}A"));
        let switches = [
            (self.bytes, "%b"),
            (self.buffer_percent, "%T"),
            (self.timer, "%t"),
            (self.rate, "%r"),
            (self.average_rate, "%a"),
            (self.progress, "%p"),
            (self.eta, "%e"),
            (self.fineta, "%I"),
            (last.is_some(), last.as_deref().unwrap_or_default()),
        ];
        let mut shown = joined(&switches);
        if shown.is_empty() && !self.conemu && appearance == Appearance::default() {
            return None;
        }
        if shown.is_empty() {
            shown = "%b %t %r %p %e".to_owned();
        }
        Some(Look::Parts(shown + tab, appearance))
    }
}

/// Returns a format of the sequences that are switched on.
fn joined(switches: &[(bool, &str)]) -> String {
    let on = switches.iter().filter(|(on, _)| *on);
    let on: Vec<&str> = on.map(|&(_, sequence)| sequence).collect();
    on.join(" ")
}

/// Reads a number of bytes, or the size of the file or block device after an `@`.
///
/// # Errors
/// What is wrong with the number or the file.
pub fn expected(text: &str) -> Result<u64, String> {
    let Some(path) = text.strip_prefix('@') else {
        return size::parse(text);
    };
    let path_error = |error: std::io::Error| format!("'{path}': {}", error_text(&error));
    let file = File::open(path).map_err(path_error)?;
    let found = file.metadata().map_err(path_error)?;
    if found.is_dir() {
        return size_below(Path::new(path)).map_err(path_error);
    }
    // The end of an empty file is not known by its size.
    let is_empty = found.is_file() && found.len() == 0;
    let size = copying::end(&file).or(is_empty.then_some(0));
    let refused = "is neither a regular file nor a block device nor a directory";
    size.ok_or_else(|| format!("'{path}' {refused}"))
}

/// Returns the sum of the sizes of all regular files below a directory.
fn size_below(directory: &Path) -> std::io::Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            size += size_below(&entry.path())?;
        } else if found.is_file() {
            size += found.len();
        }
    }
    Ok(size)
}
