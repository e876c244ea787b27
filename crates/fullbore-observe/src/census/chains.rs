//! Which pipes of a [`Census`] form pipelines, and in what order. This module only computes; it
//! reads nothing from /proc.
//!
//! Bytes are assumed to pass through a process from one pipe to another if it has the first as its stdin,
//! or the second as its stdout; a pipe that is only its stderr does not carry its output. This is true
//! for the stages of a shell's pipelines, for `tee >(gzip)` and for `paste <(a) <(b)`. It is not true for
//! a program that runs many others on pipes; without this rule, all their pipelines would be one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::census::{Census, Holder, Pipe};

const STDIN: i32 = 0;
const STDOUT: i32 = 1;
const STDERR: i32 = 2;

/// What a pipe is used for, as far as its readers and writers show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipeKind {
    /// It leads from one process to another, as the stdin, stdout or stderr of one of them.
    Link,
    /// It leads from one process to another, and is not the stdin, stdout or stderr of either:
    /// programs use it among themselves, or it was inherited and is not used.
    Private,
    /// Every process that has it open has both of its ends: a process uses it to wake itself, or as
    /// a pool of tokens (make's jobserver).
    Own,
    /// One of its sides is open in no process that can be seen.
    #[default]
    OneSided,
}

/// Pipes in sequence: the processes that read from one write to the next, and no other processes
/// read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Indices into [`Census::pipes`], in the direction of the bytes; there is at least one.
    pub pipes: Vec<usize>,
    /// Whether the processes at its end write to its start.
    pub is_circle: bool,
}

/// How the pipes of a census are connected.
#[derive(Debug)]
pub struct Flow<'a> {
    census: &'a Census,
    /// For each pipe, the pipes that its bytes go to next.
    next: Vec<BTreeSet<usize>>,
    /// For each pipe, the pipes that its bytes come from.
    previous: Vec<BTreeSet<usize>>,
}

impl Pipe {
    /// Returns what it is used for.
    pub fn kind(&self) -> PipeKind {
        let (mut writers, mut readers) = (self.writers(), self.readers());
        if writers.next().is_none() || readers.next().is_none() {
            PipeKind::OneSided
        } else if self.holders.iter().all(Holder::has_both) {
            PipeKind::Own
        } else if self.holders.iter().any(Holder::is_standard) {
            PipeKind::Link
        } else {
            PipeKind::Private
        }
    }
}

impl Holder {
    /// Returns whether it is the stdin, stdout or stderr of the holder.
    fn is_standard(&self) -> bool {
        self.reads == Some(STDIN) || matches!(self.writes, Some(STDOUT | STDERR))
    }

    /// Returns whether the pipe is the stderr of the holder, and not its stdout too.
    pub fn is_only_stderr(&self) -> bool {
        self.writes == Some(STDERR) && self.only_writes()
    }
}

impl<'a> Flow<'a> {
    /// Determines which pipes of a census follow each other.
    pub fn new(census: &'a Census) -> Self {
        let count = census.pipes.len();
        let mut flow = Self {
            census,
            next: vec![BTreeSet::new(); count],
            previous: vec![BTreeSet::new(); count],
        };
        // For each process, these are the pipes that it reads from and those that it writes to, with its fds.
        let mut through = vec![(Vec::new(), Vec::new()); census.processes.len()];
        for (index, pipe) in flow.links() {
            for holder in pipe.readers() {
                let fd = holder.reads.unwrap_or(-1);
                through[holder.process].0.push((index, fd));
            }
            for holder in pipe.writers() {
                let fd = holder.writes.unwrap_or(-1);
                through[holder.process].1.push((index, fd));
            }
        }
        for (drained, fed) in through {
            // A process has one stdin and one stdout, and may have thousands of other pipes.
            let from_stdin = (drained.iter().filter(|(_, fd)| *fd == STDIN))
                .flat_map(|from| fed.iter().map(move |to| (from, to)))
                .filter(|(_, (_, writes))| *writes != STDERR);
            let to_stdout = (fed.iter().filter(|(_, fd)| *fd == STDOUT))
                .flat_map(|to| drained.iter().map(move |from| (from, to)));
            for (&(from, _), &(to, _)) in from_stdin.chain(to_stdout) {
                if from != to {
                    flow.next[from].insert(to);
                    flow.previous[to].insert(from);
                }
            }
        }
        flow
    }

    fn links(&self) -> impl Iterator<Item = (usize, &'a Pipe)> {
        self.census
            .pipes
            .iter()
            .enumerate()
            .filter(|(_, pipe)| pipe.kind() == PipeKind::Link)
    }

    /// Returns all pipes from one process to another as chains without branches: where bytes are split
    /// or merged, a chain ends and others begin.
    pub fn chains(&self) -> Vec<Chain> {
        let mut chains = Vec::new();
        let mut done = BTreeSet::new();
        // Pipes that are not reached from a start form circles, which have none.
        let links = self.links().map(|(pipe, _)| pipe);
        let (starts, others): (Vec<_>, Vec<_>) =
            links.partition(|&pipe| self.before(pipe).is_none());
        for pipe in starts.into_iter().chain(others) {
            if !done.contains(&pipe) {
                chains.push(self.chain(pipe, &mut done));
            }
        }
        chains
    }

    fn chain(&self, start: usize, done: &mut BTreeSet<usize>) -> Chain {
        let mut pipes = vec![start];
        done.insert(start);
        let mut last = start;
        while let Some(next) = self.after(last).filter(|&next| done.insert(next)) {
            pipes.push(next);
            last = next;
        }
        Chain {
            pipes,
            is_circle: self.next[last].contains(&start),
        }
    }

    /// Returns the only pipe that follows this one, if it follows no other pipe.
    fn after(&self, pipe: usize) -> Option<usize> {
        only(&self.next[pipe]).filter(|&next| only(&self.previous[next]) == Some(pipe))
    }

    fn before(&self, pipe: usize) -> Option<usize> {
        only(&self.previous[pipe]).filter(|&previous| only(&self.next[previous]) == Some(pipe))
    }

    /// Returns these pipes, and all pipes that their bytes come from or go to.
    pub fn pipeline(&self, of: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let of: Vec<usize> = of.into_iter().collect();
        let mut all = reached(&of, &self.next);
        all.extend(reached(&of, &self.previous));
        all
    }

    /// Returns the stages of a chain: the processes that write to the first pipe, those that read from
    /// each pipe and write to the next, and those that read from the last. Each stage is a list of
    /// indices of processes, and the one that names the stage comes first.
    pub fn stages(&self, chain: &Chain) -> Vec<Vec<usize>> {
        let pipe = |index: usize| &self.census.pipes[index];
        let feeds = |index: usize| pipe(index).writers().map(|holder| holder.process);
        let drains = |index: usize| pipe(index).readers().map(|holder| holder.process);
        let mut stages = vec![self.by_name(feeds(chain.pipes[0]).collect())];
        for both in chain.pipes.windows(2) {
            let next: BTreeSet<usize> = feeds(both[1]).collect();
            let between = drains(both[0]).filter(|process| next.contains(process));
            stages.push(self.by_name(between.collect()));
        }
        let last = chain.pipes[chain.pipes.len() - 1];
        stages.push(self.by_name(drains(last).collect()));
        stages
    }

    /// Sorts the processes that have no child in the stage first, and the youngest of them before all
    /// others, because a shell waits for what it has started.
    fn by_name(&self, mut stage: Vec<usize>) -> Vec<usize> {
        let processes = &self.census.processes;
        let parents: BTreeSet<u32> = stage.iter().map(|&one| processes[one].parent).collect();
        stage.sort_by_key(|&one| {
            let id = processes[one].id;
            let is_parent = parents.contains(&id.pid);
            (is_parent, std::cmp::Reverse((id.start, id.pid)))
        });
        stage
    }
}

fn only(set: &BTreeSet<usize>) -> Option<usize> {
    set.first().copied().filter(|_| set.len() == 1)
}

fn reached(from: &[usize], next: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut found: BTreeSet<usize> = from.iter().copied().collect();
    let mut left = from.to_vec();
    while let Some(pipe) = left.pop() {
        left.extend(next[pipe].iter().filter(|&&next| found.insert(next)));
    }
    found
}

#[cfg(test)]
mod tests {
    use fullbore_linux::PipeIdentity;

    use super::*;
    use crate::census::{Process, ProcessId};

    /// Makes a census of processes with ids from 10 on, and of pipes, each given by the fds that
    /// processes have of it: `(process, fd, 'r' or 'w')`.
    fn census(parents: &[u32], pipes: &[&[(u32, i32, char)]]) -> Census {
        let processes = parents.iter().enumerate().map(|(index, &parent)| Process {
            id: ProcessId {
                pid: 10 + index as u32,
                start: index as u64,
            },
            parent,
            uid: 0,
            name: "x".into(),
            command: "x".into(),
        });
        let pipes = pipes.iter().enumerate().map(|(index, ends)| {
            let mut pipe = Pipe {
                identity: PipeIdentity {
                    device: 0,
                    inode: index as u64,
                },
                owner: 0,
                name: None,
                holders: Vec::new(),
            };
            for &(pid, fd, mode) in *ends {
                pipe.hold(pid as usize - 10, fd, mode == 'r', mode == 'w');
            }
            pipe
        });
        Census {
            processes: processes.collect(),
            pipes: pipes.collect(),
            ..Census::default()
        }
    }

    /// Returns the chains as numbers of pipes.
    fn chains(census: &Census) -> Vec<Vec<usize>> {
        let chains = Flow::new(census).chains();
        chains.into_iter().map(|chain| chain.pipes).collect()
    }

    #[test]
    fn a_pipeline_is_one_chain_in_the_order_of_its_bytes() {
        // c | d | a | b
        let census = census(
            &[1; 4],
            &[
                &[(10, 1, 'w'), (11, 0, 'r')],
                &[(12, 1, 'w'), (13, 0, 'r')],
                &[(13, 1, 'w'), (10, 0, 'r')],
            ],
        );
        assert_eq!(chains(&census), [[1, 2, 0]]);
        let flow = Flow::new(&census);
        let stages = flow.stages(&flow.chains()[0]);
        assert_eq!(stages, [[2], [3], [0], [1]]);
        assert_eq!(flow.pipeline([2]), BTreeSet::from([0, 1, 2]));
    }

    #[test]
    fn a_shell_and_what_it_has_started_are_one_stage_that_is_named_by_the_latter() {
        // (11 is a shell below which 12 runs) in the middle
        let census = census(
            &[1, 1, 11, 1],
            &[
                &[(10, 1, 'w'), (11, 0, 'r'), (12, 0, 'r')],
                &[(11, 1, 'w'), (12, 1, 'w'), (13, 0, 'r')],
            ],
        );
        assert_eq!(chains(&census), [[0, 1]]);
        let flow = Flow::new(&census);
        let stages = flow.stages(&flow.chains()[0]);
        assert_eq!(stages, [vec![0], vec![2, 1], vec![3]]);
    }

    #[test]
    fn a_chain_ends_where_bytes_part_and_all_of_it_is_the_pipeline() {
        // a | tee >(b) | c | d
        let census = census(
            &[1; 5],
            &[
                &[(10, 1, 'w'), (11, 0, 'r')],
                &[(11, 63, 'w'), (12, 0, 'r')],
                &[(11, 1, 'w'), (13, 0, 'r')],
                &[(13, 1, 'w'), (14, 0, 'r')],
            ],
        );
        assert_eq!(chains(&census), [vec![0], vec![1], vec![2, 3]]);
        let flow = Flow::new(&census);
        assert_eq!(flow.pipeline([0]).len(), 4);
        assert_eq!(flow.pipeline([3]), BTreeSet::from([0, 2, 3]));
    }

    #[test]
    fn what_stages_complain_to_is_not_what_their_bytes_go_on_to() {
        // a | b, with the stderr of both read by another process.
        let census = census(
            &[1; 3],
            &[
                &[(10, 1, 'w'), (11, 0, 'r')],
                &[(10, 2, 'w'), (11, 2, 'w'), (12, 5, 'r')],
            ],
        );
        assert_eq!(chains(&census), [[0], [1]]);
        assert_eq!(Flow::new(&census).pipeline([0]), BTreeSet::from([0]));
    }

    #[test]
    fn what_a_process_has_of_many_others_does_not_join_them() {
        // 10 reads the output of 11 and 12, and writes to 13 and 14.
        let census = census(
            &[1; 5],
            &[
                &[(11, 1, 'w'), (10, 7, 'r')],
                &[(12, 1, 'w'), (10, 8, 'r')],
                &[(10, 9, 'w'), (13, 0, 'r')],
                &[(10, 11, 'w'), (14, 0, 'r')],
            ],
        );
        assert_eq!(chains(&census).len(), 4);
        assert_eq!(Flow::new(&census).pipeline([0]), BTreeSet::from([0]));
    }

    #[test]
    fn a_circle_is_told_from_a_line() {
        let census = census(
            &[1; 2],
            &[&[(10, 1, 'w'), (11, 0, 'r')], &[(11, 1, 'w'), (10, 0, 'r')]],
        );
        let chains = Flow::new(&census).chains();
        assert_eq!(chains.len(), 1);
        assert!(chains[0].is_circle && chains[0].pipes == [0, 1]);
    }

    #[test]
    fn a_pipe_that_is_a_process_s_own_is_no_link() {
        let census = census(
            &[1; 3],
            &[
                &[(10, 3, 'r'), (10, 4, 'w')],
                &[(10, 5, 'r'), (10, 6, 'w'), (11, 5, 'r'), (11, 6, 'w')],
                &[(10, 7, 'r')],
                // The parent has forgotten to close its other end.
                &[(10, 8, 'r'), (10, 9, 'w'), (12, 0, 'r')],
                &[(10, 11, 'r'), (12, 11, 'w')],
            ],
        );
        let kinds: Vec<PipeKind> = census.pipes.iter().map(Pipe::kind).collect();
        assert_eq!(
            kinds,
            [
                PipeKind::Own,
                PipeKind::Own,
                PipeKind::OneSided,
                PipeKind::Link,
                PipeKind::Private
            ]
        );
        assert_eq!(chains(&census), [[3]]);
    }
}
