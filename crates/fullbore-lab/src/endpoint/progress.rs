//! Tracks how far an endpoint has come: when it has to stop, and what it measured.

use std::fs;
use std::io::{self, Write, stderr, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_host::named::descriptor_of;
use fullbore_linux::is_pipe_or_socket;

use super::options::Options;
use crate::cpu_time::CpuTime;
use fullbore_host::size;
use fullbore_results::run::EndpointReport;

/// Bytes in one GiB.
const GIB: f64 = (1u64 << 30) as f64;

/// How long after its time an endpoint that sleeps in a call is ended by the watching thread.
const GRACE: Duration = Duration::from_millis(100);

/// The role of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that writes to the pipe.
    Writer,
    /// The end that reads from it.
    Reader,
}

/// Returns whether an error of this kind, with which writing to stdout failed, means that no reader is left.
pub fn reader_has_gone(kind: io::ErrorKind) -> bool {
    kind == io::ErrorKind::BrokenPipe && is_pipe_or_socket(stdout())
}

/// Counts bytes, decides when to stop, and measures the time after the warm-up.
///
/// With --seconds, a thread watches it: an endpoint whose other side is idle sleeps in a system call
/// and does not notice that its time is up. The thread then reports in its place.
pub struct EndpointProgress(Arc<Mutex<State>>);

struct State {
    bytes_left: u64,
    time: Option<Duration>,
    warm_up: Duration,
    began: Instant,
    /// When the warm-up ended, and the calls made until then.
    measured_from: Option<(Instant, u64)>,
    measured: u64,
    moved: u64,
    /// Calls made when bytes were last moved.
    calls: u64,
    reported: bool,
}

impl EndpointProgress {
    /// Starts the clock.
    pub fn begin(options: &Options, role: Role) -> Self {
        let began = Instant::now();
        let state = State {
            bytes_left: match options.seconds {
                Some(_) => u64::MAX,
                None => options.bytes_to_pipe.unwrap_or(10 << 30),
            },
            time: options.seconds,
            warm_up: options.warm_up.unwrap_or_default(),
            began,
            measured_from: options.warm_up.is_none().then_some((began, 0)),
            measured: 0,
            moved: 0,
            calls: 0,
            reported: false,
        };
        let end = state.time.map(|time| state.warm_up + time + GRACE);
        let progress = Self(Arc::new(Mutex::new(state)));
        if let Some(end) = end {
            let (progress, options) = (Self(progress.0.clone()), options.clone());
            thread::spawn(move || progress.end_after(end, &options, role));
        }
        progress
    }

    /// Reports and ends the process after `time`, unless it has reported by then.
    fn end_after(&self, time: Duration, options: &Options, role: Role) {
        thread::sleep(time);
        let mut state = self.state();
        if !state.reported {
            let calls = state.calls;
            let report = state.report(options, calls);
            // The process ends here: an error can only be reported by its exit code.
            let printed = print(&report, options, role);
            std::process::exit(i32::from(printed.is_err()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes moved so far, which is the position in the stream.
    pub fn moved(&self) -> u64 {
        self.state().moved
    }

    /// Returns how many of `most` bytes are to be moved next, or `None` at the end.
    #[inline]
    pub fn next(&self, most: usize) -> Option<usize> {
        match self.state().bytes_left {
            0 => None,
            left => Some(most.min(usize::try_from(left).unwrap_or(usize::MAX))),
        }
    }

    /// Records that `n` more bytes were moved, with `calls` calls so far.
    #[inline]
    pub fn add(&mut self, n: usize, calls: u64) {
        self.state().add(n as u64, calls);
    }

    /// Returns the report after `calls` calls.
    pub fn report(&self, options: &Options, calls: u64) -> EndpointReport {
        self.state().report(options, calls)
    }
}

impl State {
    #[inline]
    fn add(&mut self, n: u64, calls: u64) {
        self.moved += n;
        self.calls = calls;
        self.bytes_left = self.bytes_left.saturating_sub(n);
        if let Some((from, _)) = self.measured_from {
            self.measured += n;
            // The clock is not read while no decision depends on it.
            if self.time.is_some_and(|time| from.elapsed() >= time) {
                self.bytes_left = 0;
            }
        } else if self.began.elapsed() >= self.warm_up {
            self.measured_from = Some((Instant::now(), calls));
        }
    }

    fn report(&mut self, options: &Options, calls: u64) -> EndpointReport {
        self.reported = true;
        let (seconds, calls_before) = match self.measured_from {
            Some((from, calls)) => (from.elapsed().as_secs_f64(), calls),
            None => (0.0, 0),
        };
        EndpointReport {
            options: options_of_this_process(),
            cpu: options.cpu,
            bytes: self.measured,
            moved: self.moved,
            seconds,
            gib_per_s: match seconds {
                0.0 => 0.0,
                _ => self.measured as f64 / GIB / seconds,
            },
            calls: calls - calls_before,
            cpu_seconds: CpuTime::of_this_process().total(),
            ..EndpointReport::default()
        }
    }
}

/// Returns the options of this process as they were typed, without the number of its parent.
fn options_of_this_process() -> String {
    let mut words: Vec<String> = std::env::args().skip(2).collect();
    words.retain(|word| !word.starts_with("--die-with-parent"));
    words.join(" ")
}

/// Prints a report in the format of the options. A reader prints it on stdout. A writer, whose stdout is the
/// pipe, prints it on stderr, and only if a report was requested.
///
/// # Errors
/// Fails if writing fails.
pub fn print(report: &EndpointReport, options: &Options, role: Role) -> io::Result<()> {
    if let Some(file) = &options.json {
        let text = serde_json::to_string(report)?;
        return match file.as_deref().map(|file| (file, descriptor_of(file))) {
            None | Some((_, Some(1))) => writeln!(stdout(), "{text}"),
            Some((_, Some(2))) => writeln!(stderr(), "{text}"),
            Some((file, _)) => fs::write(file, text + "\n").map_err(|error| {
                io::Error::other(format!("write the report to '{}': {error}", file.display()))
            }),
        };
    }
    match role {
        Role::Reader if options.csv => writeln!(stdout(), "{}", csv(report, options)),
        Role::Reader => writeln!(stdout(), "{}", line(report, options)),
        Role::Writer if options.verbose => writeln!(stderr(), "{}", line(report, options)),
        Role::Writer => Ok(()),
    }
}

/// Returns the article's human-readable line, in which sizes have no space.
fn line(report: &EndpointReport, options: &Options) -> String {
    let size = |bytes| size::format(bytes).replace(' ', "");
    format!(
        "{:.1}GiB/s, {} buffer, {} iterations ({} piped)",
        report.gib_per_s,
        size(options.chunk() as u64),
        report.bytes / options.chunk() as u64,
        size(report.bytes),
    )
}

/// Returns the article's line of CSV.
fn csv(report: &EndpointReport, options: &Options) -> String {
    let flags = [
        options.busy_loop,
        options.poll,
        options.huge_page,
        options.check_huge_page,
        options.write_with_vmsplice,
        options.read_with_splice,
        options.gift,
        options.lock_memory,
        options.dont_touch_pages,
        options.same_buffer,
    ]
    .map(|flag| u8::from(flag).to_string())
    .join(",");
    format!(
        "{:.6},{},{},{},{flags}",
        report.gib_per_s,
        report.bytes,
        options.chunk(),
        options.pipe_size,
    )
}
