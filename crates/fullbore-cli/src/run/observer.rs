//! The observation of a pipeline for `--report`, `--live`, `--progress` and `--json`: when to sample and to draw, and
//! what is printed at the end.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use rustix::system::uname;

use super::options::Options;
use super::shown::write_json;
use super::stall::Stall;
use crate::processes::ending;
use crate::terminal::lines::say_line;
use crate::terminal::live::Live;
use crate::terminal::log_line::Due;
use crate::terminal::progress::ProgressLine;
use crate::terminal::{report, size_of, stderr};
use fullbore_observe::census::link::Link;
use fullbore_observe::{StartedStage, Watch};

/// The interval at which the live report is drawn.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// The observation of a running pipeline.
pub struct Observer {
    pub watch: Watch,
    live: Option<Live>,
    /// The lines of --log, and when they are due.
    log: Option<(ProgressLine, Due)>,
    /// The bytes that the first stage writes, if the user has said that.
    size: Option<u64>,
    /// The file of `--json`.
    json: Option<File>,
    /// How long nothing has moved, if that is limited.
    stall: Option<Stall>,
    /// Whether samples are taken for that alone.
    is_seldom: bool,
    sample_at: Instant,
    draw_at: Instant,
}

impl Observer {
    /// Begins to observe a pipeline whose start began at this time, and the file of its output.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn new(
        options: &Options,
        json: Option<File>,
        stages: Vec<StartedStage>,
        links: Vec<Link>,
        began: Instant,
        output: Option<BorrowedFd<'_>>,
    ) -> Result<Self> {
        let (now, shown) = (Instant::now(), &options.shown);
        let stall = options.stalled.map(|limit| Stall::new(limit, output));
        Ok(Self {
            watch: Watch::new(stages, links).started_at(began),
            live: match shown.progress {
                true => Live::new(Some((ProgressLine::from_start(), shown.size))),
                false if options.live => Live::new(None),
                false => None,
            },
            log: (shown.log).map(|every| (ProgressLine::from_start(), Due::every(every))),
            size: shown.size,
            json,
            stall: stall.transpose().context("dup the file of -o")?,
            is_seldom: !options.is_reported(),
            sample_at: now,
            draw_at: now + DRAW_EVERY,
        })
    }

    /// Takes a sample and draws the report, if that is due. Returns when it is due the next time.
    pub fn sample(&mut self) -> Instant {
        let now = Instant::now();
        if now >= self.sample_at {
            self.watch.sample();
            let mut pause = self.watch.next_sample();
            if let Some(stall) = &mut self.stall {
                stall.check(&mut self.watch);
                if self.is_seldom {
                    pause = pause.max(stall.interval());
                }
            }
            self.sample_at = now + pause;
        }
        if self.log.as_mut().is_some_and(|(_, due)| due.is_due()) {
            self.log(false);
        }
        let logged = self.log.as_ref().map(|(_, due)| due.at());
        let next = logged.map_or(self.sample_at, |at| at.min(self.sample_at));
        let Some(live) = &mut self.live else {
            return next;
        };
        if live.give_way() {
            // A program that draws draws everything again then, and others ignore it.
            ending::tell(ending::living, Signal::WINCH, None);
        }
        if now >= self.draw_at {
            live.draw(&self.watch);
            self.draw_at = now + DRAW_EVERY;
        }
        self.draw_at.min(next)
    }

    /// Prints the line of --log.
    fn log(&mut self, ended: bool) {
        if let Some((line, _)) = &mut self.log {
            let findings = self.watch.recent();
            let at = self.watch.progress(self.size);
            say_line(line.log_line(at, findings.slow_stage(), ended));
        }
    }

    /// Removes the drawing, because another job uses the terminal next.
    pub fn stops(&mut self) {
        if let Some(live) = &mut self.live {
            live.clear();
        }
    }

    /// Goes on after the pipeline was stopped. A program that draws takes the terminal first.
    pub fn continues(&mut self) {
        self.watch.paused();
        if let Some(stall) = &mut self.stall {
            stall.continues();
        }
        self.draw_at = Instant::now() + DRAW_EVERY;
    }

    /// Returns which stage the pipeline waits for, if nothing has moved for too long.
    pub fn stalled(&self) -> Option<String> {
        self.stall.as_ref()?.stalled(&self.watch)
    }

    /// Reports how the pipeline performed.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn report(mut self, options: &Options) -> Result<()> {
        self.log(true);
        let mut findings = self.watch.findings();
        findings.host = Some(uname().nodename().to_string_lossy().into_owned());
        if let Some(live) = &mut self.live {
            live.end();
        }
        if options.shown.report || options.live {
            let columns = size_of(stderr()).map_or(usize::MAX, |(columns, _)| columns);
            let (tables, verdict) = report::parts(&findings, columns);
            say_line([tables, verdict].concat().join("\n"));
        }
        match self.json {
            Some(file) => write_json(file, &findings),
            None => Ok(()),
        }
    }
}

/// Checks that an observation is possible if one was asked for, and creates the file of `--json`.
///
/// # Errors
/// Fails if /proc does not show the stages, or the file cannot be created.
pub fn prepare(options: &Options) -> Result<Option<File>> {
    if options.watched() && !ending::proc_is_ours() {
        bail!(
            "no report is possible, and no stall is seen: --report, --live, --progress, --log, --json and --stalled need \
             /proc of this PID namespace; mount it ('mount -t proc proc /proc'), or run without these options"
        );
    }
    options.shown.json_file()
}
