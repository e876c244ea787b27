//! A pipeline that is watched, and what watching shows about its pipes.

use std::collections::BTreeSet;
use std::time::Instant;

use fullbore_host::text::{clean, shell_words};

use crate::census::chains::{self, PipeKind};
use crate::census::link::{Link, WriteEnd};
use crate::census::proc_files::MOST_OF_COMMAND;
use crate::census::{Census, Holder, Pipe, ProcessId};
use crate::monitor::overview::{Blocked, ChainProgress, Overview, Side, Slow};
use crate::rate::Rate;
use crate::sampling::attribution::Attribution;
use crate::sampling::facts::{Mixes, StartedStage};
use crate::sampling::moment::Moment;
use crate::sampling::process::awaits_a_child;
use crate::sampling::stage::PROCESSES;
use crate::verdict::numbers::{Certainty, StageNumbers};
use crate::verdict::{Verdict, VerdictKind};
use crate::watch::Watch;
use crate::watch::progress::Progress;

/// Files that are kept open for a process with one thread.
const FILES: usize = 5;

/// A pipeline that is watched.
#[derive(Debug)]
pub struct WatchedChain {
    pub watch: Watch,
    /// The bytes of the input that have come to its end, if it has an input file.
    passed: Option<Rate>,
}

/// Returns how many pipes each process reads from and writes to, without its stderr.
pub fn loads(census: &Census) -> Vec<(usize, usize)> {
    let mut all = vec![(0, 0); census.processes.len()];
    let pipes = census.pipes.iter();
    for pipe in pipes.filter(|pipe| pipe.kind() != PipeKind::Own) {
        for holder in &pipe.holders {
            let (drains, feeds) = &mut all[holder.process];
            *drains += usize::from(holder.reads.is_some());
            *feeds += usize::from(holder.writes.is_some_and(|fd| fd != 2));
        }
    }
    all
}

/// Returns the number of files that are kept open to watch these stages.
pub fn files_for(stages: &[Vec<usize>]) -> usize {
    let processes: usize = stages.iter().map(|stage| stage.len().min(PROCESSES)).sum();
    stages.len() + processes * FILES
}

impl WatchedChain {
    /// Starts to watch a chain; returns `None` if one of its pipes has gone.
    pub fn new(census: &Census, chain: &chains::Chain, stages: &[Vec<usize>]) -> Option<Self> {
        let link = |(at, &index): (usize, &usize)| {
            let pipe = &census.pipes[index];
            Some(Link {
                writer: at,
                reader: at + 1,
                handle: census.handle(pipe).ok()?,
                capacity: 0,
                wanted: 0,
                write_end: WriteEnd::of(census, pipe),
            })
        };
        let links: Option<Vec<Link>> = chain.pipes.iter().enumerate().map(link).collect();
        let stages = stages.iter().map(|stage| named(census, stage));
        Some(Self {
            watch: Watch::of_others(stages.collect(), links?),
            passed: None,
        })
    }

    /// Sets the processes that its stages now consist of.
    pub fn set_members(
        &mut self,
        census: &Census,
        chain: &chains::Chain,
        stages: &[Vec<usize>],
        loads: &[(usize, usize)],
    ) {
        for (at, stage) in stages.iter().enumerate() {
            let all = || stage.iter().map(|&process| &census.processes[process]);
            let pids: BTreeSet<u32> = all().map(|process| process.id.pid).collect();
            let processes: Vec<(ProcessId, bool)> = all()
                .map(|process| (process.id, pids.contains(&process.parent)))
                .collect();
            let others = |pipe: Option<&usize>, fd_of: fn(&Holder) -> Option<i32>| {
                pipe.map_or(Attribution::Clear, |&pipe| {
                    others(census, &census.pipes[pipe], stage, fd_of)
                })
            };
            let mixes = Mixes {
                reads: stage.iter().any(|&process| loads[process].0 > 1),
                writes: stage.iter().any(|&process| loads[process].1 > 1),
                others_read: others(at.checked_sub(1).map(|at| &chain.pipes[at]), |one| {
                    one.reads
                }),
                others_write: others(chain.pipes.get(at), |one| one.writes),
            };
            let watched = &mut self.watch.pipeline.stages[at];
            watched.facts.started = named(census, stage);
            watched.facts.mixes = mixes;
            watched.set_members(&processes, census.began);
        }
        for (link, &pipe) in self.watch.pipeline.links.iter_mut().zip(&chain.pipes) {
            link.write_end = WriteEnd::of(census, &census.pipes[pipe]);
        }
    }

    /// Adds the findings to the overview.
    pub fn describe(&mut self, chain: usize, overview: &mut Overview) {
        let found = self.watch.recent();
        // Nothing has been observed yet at the first scan.
        let is_known = |stage: &StageNumbers| found.numbers.samples > 0 && stage.seconds > 0.0;
        let chain = &mut overview.chains[chain];
        for (stage, numbers) in chain.stages.iter_mut().zip(&found.numbers.stages) {
            let is_known = is_known(numbers);
            stage.time = is_known.then_some(numbers.time);
            stage.cpus = is_known.then_some(numbers.cpus);
            stage.blame = is_known.then_some(numbers.blame);
        }
        for (at, (&index, numbers)) in chain.pipes.iter().zip(&found.numbers.pipes).enumerate() {
            let row = &mut overview.pipes[index];
            let fill = self.watch.pipeline.fill(at);
            row.fill(fill);
            let was_seen = numbers.seconds > 0.0;
            row.empty = was_seen.then_some(numbers.empty);
            row.full = was_seen.then_some(numbers.full);
            row.bytes = self.watch.bytes(at);
            row.bytes_per_second = numbers.bytes_per_second;
            row.rate_is = match numbers.bytes_per_second {
                Some(_) => numbers.bytes.bytes_are,
                None => Certainty::Unknown,
            };
            let sides = [
                (Side::Writer, at, Moment::Output),
                (Side::Reader, at + 1, Moment::Input),
            ];
            for (side, stage, waits) in sides {
                if [waits, Moment::Both].contains(&self.watch.pipeline.stages[stage].moment) {
                    let seconds = self.watch.pipeline.waiting_time(stage).as_secs_f64();
                    row.blocked.push(Blocked { side, seconds });
                }
            }
            let stages = &found.numbers.stages;
            let (writer, reader) = (&stages[at], &stages[at + 1]);
            row.writer_waits = is_known(writer).then_some(writer.time.waited_for_output);
            row.reader_waits = is_known(reader).then_some(reader.time.waited_for_input);
            row.slow = slow(&found.verdict, at);
        }
        chain.verdict = Some(found.verdict);
        chain.progress = match chain.is_circle {
            true => None,
            false => self.progress(),
        };
    }

    /// Returns how far it is in its input file.
    fn progress(&mut self) -> Option<ChainProgress> {
        let Progress { passed, total } = self.watch.progress(None);
        let (passed, total) = passed.zip(total)?;
        let now = Instant::now();
        let rate = self.passed.get_or_insert_with(|| Rate::new(passed, now));
        rate.update(passed, now);
        Some(ChainProgress {
            passed,
            total,
            bytes_per_second: Some(rate.average()).filter(|_| !rate.elapsed().is_zero()),
            seconds_left: rate.left(total).map(|left| left.as_secs_f64()),
        })
    }
}

/// Returns how certain a stage's figures are, given the processes outside of the stage that have the same
/// side of a pipe open. A shell that waits for the stage has no effect, and a pipe that a program has only
/// as its stderr is seldom what others wait for.
fn others(
    census: &Census,
    pipe: &Pipe,
    stage: &[usize],
    fd_of: fn(&Holder) -> Option<i32>,
) -> Attribution {
    let mut started_it = None;
    let mut worst = Attribution::Clear;
    for holder in &pipe.holders {
        let is_another = !holder.has_both() && !stage.contains(&holder.process);
        let Some(fd) = fd_of(holder).filter(|_| is_another) else {
            continue;
        };
        let pid = census.processes[holder.process].id.pid;
        let started_it = started_it.get_or_insert_with(|| above(census, stage));
        if started_it.contains(&pid) && awaits_a_child(pid) {
            continue;
        }
        worst = worst.max(match fd {
            0 | 1 => Attribution::Unclear,
            _ => Attribution::Likely,
        });
        if worst == Attribution::Unclear {
            break;
        }
    }
    worst
}

/// Returns the ancestors of these processes, as far as they have pipes open themselves.
fn above(census: &Census, stage: &[usize]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for &process in stage {
        let mut parent = census.processes[process].parent;
        while found.insert(parent) {
            match census.process(parent) {
                Some(above) => parent = census.processes[above].parent,
                None => break,
            }
        }
    }
    found
}

/// Returns how many of these processes have started none of the others.
fn without_children(census: &Census, stage: &[usize]) -> usize {
    let parents = above(census, stage);
    let is_leaf = |&&one: &&usize| !parents.contains(&census.processes[one].id.pid);
    stage.iter().filter(is_leaf).count()
}

/// Returns a stage with the name of its first process, and the number of other processes that have
/// started none of them.
fn named(census: &Census, stage: &[usize]) -> StartedStage {
    let Some(&first) = stage.first() else {
        return StartedStage {
            text: "?".to_owned(),
            ..StartedStage::default()
        };
    };
    let process = &census.processes[first];
    let (more, command) = match stage {
        [_] => (0, command(process.id.pid)),
        _ => (without_children(census, stage).saturating_sub(1), None),
    };
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    StartedStage {
        text: format!("{} {}{more}", process.name, process.id.pid),
        command: command.unwrap_or_default(),
        pid: process.id.pid,
    }
}

/// Returns the command line of a process as it would be typed, if that is one line that is not too long for advice.
fn command(pid: u32) -> Option<String> {
    let read = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = read.strip_suffix(&[0])?.split(|&byte| byte == 0);
    let line = String::from_utf8(shell_words(words)).ok()?;
    (line.len() <= MOST_OF_COMMAND && clean(&line) == line).then_some(line)
}

/// Returns which side of the pipe after this stage, counted from 0, is the slow one, because a verdict is
/// about stages.
fn slow(verdict: &Verdict, writer: usize) -> Slow {
    let named = &verdict.stages;
    let before = named.iter().any(|&number| number <= writer + 1);
    let after = named.iter().any(|&number| number > writer + 1);
    match (before, after) {
        _ if verdict.kind == VerdictKind::Cpus => Slow::Cpus,
        (true, true) => Slow::Both,
        (true, false) => Slow::Writer,
        (false, true) => Slow::Reader,
        (false, false) => Slow::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::verdict::Sureness;

    #[test]
    fn the_words_of_a_process_are_as_they_would_be_typed_in_one_line() {
        let long = "x".repeat(MOST_OF_COMMAND);
        for (word, expected) in [
            ("it's", Some(r"sh -c 'echo; read x' 'it'\''s'")),
            ("", Some("sh -c 'echo; read x' ''")),
            ("two\nlines", None),
            ("\u{1b}[31m", None),
            (&long, None),
        ] {
            let mut sh = Command::new("sh");
            sh.args(["-c", "echo; read x", word]);
            sh.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = sh.spawn().unwrap();
            // While exec(2) sets up its memory, a process has no words.
            let mut stdout = child.stdout.take().unwrap();
            stdout.read_exact(&mut [0]).unwrap();
            assert_eq!(command(child.id()).as_deref(), expected);
            child.wait().unwrap();
        }
        assert_eq!(command(u32::MAX), None);
    }

    #[test]
    fn a_slow_stage_is_on_one_side_of_every_pipe_of_its_chain() {
        use Slow::{Both, Cpus, Reader, Unknown, Writer};
        for (kind, stages, expected) in [
            (VerdictKind::Stage, vec![1], [Writer; 3]),
            (VerdictKind::Stage, vec![2], [Reader, Writer, Writer]),
            (VerdictKind::Stage, vec![4], [Reader; 3]),
            (VerdictKind::Shared, vec![1, 4], [Both; 3]),
            (VerdictKind::ByTurns, vec![1, 2], [Both, Writer, Writer]),
            (VerdictKind::Cpus, vec![], [Cpus; 3]),
            (VerdictKind::Nobody, vec![], [Unknown; 3]),
            (VerdictKind::TooShort, vec![], [Unknown; 3]),
        ] {
            let verdict = Verdict {
                kind,
                stages,
                bound_by: None,
                sure: Sureness::Sure,
                words: String::new(),
                next: None,
            };
            let sides = [0, 1, 2].map(|writer| slow(&verdict, writer));
            assert_eq!(sides, expected, "{verdict:?}");
        }
    }
}
