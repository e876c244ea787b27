//! How far the pipeline of a process is that is already running.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use fullbore_observe::census::scope::{Scope, Whose};
use fullbore_observe::overview::{ChainState, Overview};
use fullbore_observe::{Monitor, Progress};

use crate::interrupt::Interrupt;
use crate::terminal::lines::Screen;
use crate::terminal::progress::ProgressLine;

/// A signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(100);

/// Draws one line about the pipeline that contains this process, if stderr is a terminal or if `anyway` is set, until
/// the process ends or leaves the pipeline.
///
/// # Errors
/// If the process does not exist, may not be inspected, or is in no pipeline.
pub fn follow(pid: u32, interval: Duration, anyway: bool) -> anyhow::Result<()> {
    let mut screen = Screen::new(anyway);
    let interrupt = Interrupt::noted();
    fullbore_observe::allow_all_files();
    let mut monitor = Monitor::new(Scope {
        whose: Whose::Tree(pid),
        all: false,
    })?;
    let mut line = ProgressLine::default();
    let mut overview = monitor.scan()?;
    if chain_of(&overview, pid).is_none() {
        return Err(anyhow!("process {pid} is in no pipeline"));
    }
    let mut last = None;
    while let Some(chain) = chain_of(&overview, pid).filter(|_| !interrupt.came()) {
        if let Some(screen) = &mut screen {
            let text = line.line(progress(&overview, chain), slow(chain), screen.size().0);
            screen.draw(std::slice::from_ref(&text));
            last = Some(text);
        }
        let due = Instant::now() + interval;
        while Instant::now() < due && !interrupt.came() {
            monitor.sample_until(due.min(Instant::now() + NOTICE));
        }
        match monitor.scan() {
            Ok(now) => overview = now,
            // The process has ended.
            Err(_) => break,
        }
    }
    if let (Some(mut screen), Some(last)) = (screen, last) {
        screen.leave(&[last]);
    }
    interrupt.obey();
    Ok(())
}

/// Returns the pipeline that has the process as a stage, or one of a descendant of it.
fn chain_of(overview: &Overview, pid: u32) -> Option<&ChainState> {
    let chains = &overview.chains;
    let has = |chain: &&ChainState| {
        let mut processes = chain.stages.iter().flat_map(|stage| &stage.processes);
        processes.any(|process| process.id.pid == pid)
    };
    chains.iter().find(has).or(chains.first())
}

/// Returns how far it is in its input file, or how much has gone through its first pipe.
fn progress(overview: &Overview, chain: &ChainState) -> Progress {
    let through_pipe = || overview.pipes[chain.pipes[0]].bytes.bytes;
    let progress = chain.progress;
    Progress {
        passed: progress.map_or_else(through_pipe, |progress| Some(progress.passed)),
        total: progress.map(|progress| progress.total),
    }
}

/// Returns the number and the name of the slow stage.
fn slow(chain: &ChainState) -> Option<(usize, &str)> {
    let number = chain.verdict.as_ref()?.slow_stage()?;
    let process = chain.stages[number - 1].processes.first()?;
    Some((number, &process.name))
}
