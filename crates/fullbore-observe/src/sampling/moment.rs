//! What a stage does at a moment, derived from what all of its threads do and how full its pipes are.
//! This module only computes; it reads nothing from /proc.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::census::fill::Fill;
use crate::sampling::waiting::{Direction, Doing, Object, On};

/// What a stage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At least one thread of it runs, or would if it had a CPU.
    Active,
    /// It waits for the stage before it.
    Input,
    /// It waits for the stage after it.
    Output,
    /// One part of it waits for the stage before it, and another for the stage after it.
    Both,
    /// It waits for something outside of this pipeline.
    Elsewhere(Cause),
    /// It has ended.
    Ended,
}

/// What a stage waits for outside of the pipeline. If its threads wait for several of them, the first one
/// in this list counts, and a lock, a signal and a child only if there is nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It waits for a file or a device.
    Disk,
    /// It waits for a socket.
    Network,
    /// It waits for a terminal.
    Terminal,
    /// It waits for one of several things, in poll(2) or a similar call.
    Several,
    /// It waits for a timer.
    Timer,
    /// It was stopped.
    Stopped,
    /// It waits for a pipe that is not between two stages.
    OtherPipe,
    /// It waits for a lock.
    Lock,
    /// It waits for a signal.
    Signal,
    /// It waits for a process that it started, about which nothing is known.
    Child,
    /// The cause is unknown, because this user may not read it.
    Unknown,
}

/// The pipe before or after a stage.
#[derive(Debug, Clone, Copy)]
pub struct AdjacentPipe {
    /// Its inode.
    pub inode: u64,
    /// How full it is, if that is known.
    pub fill: Option<Fill>,
    /// Whether the stage is known to sleep until it has room, or bytes: memory that is shared instead of a
    /// pipe tells so.
    pub awaited: bool,
}

/// How a stage was seen to use its pipes. The kernel's byte counters include read(2) and write(2), but no
/// call that moves pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ways {
    /// It waited for its input in read(2) or a similar call.
    pub reads: bool,
    /// It waited for its output in write(2) or a similar call.
    pub writes: bool,
    /// It waited for its input in splice(2) or a similar call.
    pub takes_pages: bool,
    /// It waited for its output in splice(2) or a similar call.
    pub gives_pages: bool,
}

/// What has been recorded of a stage's threads.
#[derive(Debug, Default)]
pub struct Heard {
    input: Option<AdjacentPipe>,
    output: Option<AdjacentPipe>,
    pub ways: Ways,
    any: bool,
    runs: bool,
    for_input: bool,
    for_output: bool,
    elsewhere: BTreeSet<Cause>,
}

impl Heard {
    /// Creates a record in which no thread has been recorded.
    pub fn new([input, output]: [Option<AdjacentPipe>; 2], ways: Ways) -> Self {
        Self {
            input,
            output,
            ways,
            ..Self::default()
        }
    }

    /// Records what one thread does; returns false once no other thread can change the result.
    pub fn note(&mut self, doing: Doing) -> bool {
        self.any |= doing != Doing::Ended;
        match doing {
            Doing::Ended => {}
            Doing::Runs => self.runs = true,
            Doing::Stopped => self.waits_elsewhere(Cause::Stopped),
            Doing::Waits(on) => self.waits(on),
        }
        !self.runs
    }

    fn waits(&mut self, on: On) {
        match on {
            On::Read(object) if is(self.input, object) => {
                self.ways.reads = true;
                self.for_input = true;
            }
            On::Write(object) if is(self.output, object) => {
                self.ways.writes = true;
                self.for_output = true;
            }
            On::Read(Object::SomePipe) if self.is_empty() => self.for_input = true,
            On::Write(Object::SomePipe) if self.is_full() => self.for_output = true,
            On::Move { from, to, side } => self.moves(from, to, side),
            On::Read(object) | On::Write(object) => self.waits_elsewhere(cause(object)),
            On::Partner => self.waits_elsewhere(Cause::OtherPipe),
            On::Timer => self.waits_elsewhere(Cause::Timer),
            On::Lock => self.waits_elsewhere(Cause::Lock),
            On::Child => self.waits_elsewhere(Cause::Child),
            On::Signal => self.waits_elsewhere(Cause::Signal),
            On::Disk => self.waits_elsewhere(Cause::Disk),
            On::Unknown if !(self.is_empty() || self.is_full()) => {
                self.waits_elsewhere(Cause::Unknown)
            }
            // It may wait for anything, just as in poll(2).
            On::Any | On::Unknown => self.waits_elsewhere(Cause::Several),
            On::LockOrTimer => self.waits_elsewhere(Cause::Unknown),
        }
    }

    /// Records a call that moves bytes between two fds. If it is not known which side it waits for, how
    /// full the pipes are shows it, unless that has changed since they were sampled.
    fn moves(&mut self, from: Object, to: Object, side: Direction) {
        let (takes, gives) = (is(self.input, from), is(self.output, to));
        self.ways.takes_pages |= takes;
        self.ways.gives_pages |= gives;
        let [before, after] = [self.input, self.output].map(|pipe| pipe?.fill);
        match (side, takes, gives) {
            (Direction::From, true, _) => self.for_input = true,
            (Direction::From, false, _) => self.waits_elsewhere(cause(from)),
            (Direction::To, _, true) => self.for_output = true,
            (Direction::To, _, false) => self.waits_elsewhere(cause(to)),
            (_, true, _) if self.is_empty() => self.for_input = true,
            (_, _, true) if self.is_full() => self.for_output = true,
            (_, true, _) if before.is_none() => self.waits_elsewhere(Cause::Unknown),
            (_, _, true) if after.is_none() => self.waits_elsewhere(Cause::Unknown),
            (_, true, true) if after.is_none_or(|fill| fill.share() < 0.5) => self.for_input = true,
            (_, true, true) => self.for_output = true,
            (_, true, false) => self.waits_elsewhere(cause(to)),
            (_, false, true) => self.waits_elsewhere(cause(from)),
            (_, false, false) if cause(from) == cause(to) => self.waits_elsewhere(cause(to)),
            (_, false, false) => self.waits_elsewhere(Cause::Unknown),
        }
    }

    /// Records a wait for something else.
    fn waits_elsewhere(&mut self, cause: Cause) {
        self.elsewhere.insert(cause);
    }

    /// Returns what it waits for outside of the pipeline. A thread that waits for another thread or process
    /// waits for what that one waits for.
    fn causes(&self) -> impl Iterator<Item = Cause> {
        let is_for_another =
            |cause: &Cause| matches!(cause, Cause::Lock | Cause::Signal | Cause::Child);
        let all = self.elsewhere.iter().copied();
        let any = self.elsewhere.iter().all(is_for_another);
        all.filter(move |cause| any || !is_for_another(cause))
    }

    /// Returns whether the result is a guess: its threads wait for several things, and some of them may have
    /// nothing to do with the pipeline.
    pub fn is_mixed(&self) -> bool {
        !(self.runs || self.for_input || self.for_output) && self.causes().count() > 1
    }

    fn is_empty(&self) -> bool {
        self.input.is_some_and(|pipe| pipe.is(Fill::is_empty))
    }

    fn is_full(&self) -> bool {
        self.output.is_some_and(|pipe| pipe.is(Fill::is_full))
    }

    /// Returns whether its output has little room: a stage that sleeps then although it could write, rests until there is
    /// more.
    fn is_nearly_full(&self) -> bool {
        let output = self.output;
        output.is_some_and(|pipe| pipe.is(Fill::is_nearly_full))
    }

    /// Returns what the stage does as a whole. A stage that waits for one of several things waits for its
    /// input if that pipe is empty, for its output if that pipe is full or the stage rests, and otherwise for something
    /// else.
    pub fn moment(&self) -> Moment {
        let for_several = self.elsewhere.contains(&Cause::Several);
        match (self.for_input, self.for_output) {
            _ if !self.any => Moment::Ended,
            _ if self.runs => Moment::Active,
            (true, true) => Moment::Both,
            (true, false) => Moment::Input,
            (false, true) => Moment::Output,
            _ if for_several && self.is_full() => Moment::Output,
            _ if for_several && self.is_empty() => Moment::Input,
            _ if for_several && self.is_nearly_full() => Moment::Output,
            _ => Moment::Elsewhere(self.causes().next().unwrap_or(Cause::Unknown)),
        }
    }
}

impl AdjacentPipe {
    /// Returns whether it is full or empty for the stage: a side of its ring sleeps, or its contents are so.
    fn is(self, state: fn(Fill) -> bool) -> bool {
        self.awaited || self.fill.is_some_and(state)
    }
}

fn is(side: Option<AdjacentPipe>, object: Object) -> bool {
    side.is_some_and(|side| object == Object::Pipe(side.inode))
}

fn cause(object: Object) -> Cause {
    match object {
        Object::Pipe(_) | Object::SomePipe => Cause::OtherPipe,
        Object::Socket => Cause::Network,
        Object::Terminal => Cause::Terminal,
        Object::File => Cause::Disk,
        Object::Memory | Object::Other => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: Object = Object::Pipe(1);
    const OUT: Object = Object::Pipe(2);

    fn side(inode: u64, queued: usize) -> Option<AdjacentPipe> {
        let capacity = 80;
        Some(AdjacentPipe {
            inode,
            fill: Some(Fill {
                no_slot_is_free: None,
                queued,
                capacity,
            }),
            awaited: false,
        })
    }

    /// Returns what a stage does whose threads do this, while `before` and `after` of 80 bytes are in the
    /// pipes before and after it.
    fn moment(doings: &[Doing], before: usize, after: usize) -> Moment {
        let mut heard = Heard::new([side(1, before), side(2, after)], Ways::default());
        for &doing in doings {
            if !heard.note(doing) {
                break;
            }
        }
        heard.moment()
    }

    #[test]
    fn threads_that_wait_for_several_things_make_it_a_guess() {
        let waits = Doing::Waits;
        let (timer, disk) = (waits(On::Timer), waits(On::Disk));
        let (lock, timed) = (waits(On::Lock), waits(On::LockOrTimer));
        for (doings, is_mixed) in [
            (&[disk][..], false),
            (&[timer, timer], false),
            (&[timed], false),
            // They wait for another thread.
            (&[disk, lock, lock, waits(On::Signal)], false),
            (&[waits(On::Child), timer], false),
            // One of them may only tick.
            (&[disk, timer], true),
            (&[disk, timed], true),
            (&[lock, timer, timed], true),
            (&[waits(On::Any), disk], true),
            // These are certain.
            (&[waits(On::Read(IN)), timer, disk], false),
            (&[waits(On::Write(OUT)), timer, disk], false),
            (&[timer, disk, Doing::Runs], false),
        ] {
            let mut heard = Heard::new([side(1, 40), side(2, 40)], Ways::default());
            for &doing in doings {
                heard.note(doing);
            }
            assert_eq!(heard.is_mixed(), is_mixed, "{doings:?}");
        }
    }

    #[test]
    fn a_ring_tells_which_of_several_things_a_stage_waits_for() {
        let side = |inode, awaited| {
            let (queued, capacity) = (40, 80);
            Some(AdjacentPipe {
                inode,
                fill: Some(Fill {
                    no_slot_is_free: None,
                    queued,
                    capacity,
                }),
                awaited,
            })
        };
        for (before, after, expected) in [
            (false, true, Moment::Output),
            (true, false, Moment::Input),
            (false, false, Moment::Elsewhere(Cause::Several)),
        ] {
            let mut heard = Heard::new([side(1, before), side(2, after)], Ways::default());
            heard.note(Doing::Waits(On::Any));
            assert_eq!(heard.moment(), expected);
        }
    }

    #[test]
    fn a_call_that_moves_bytes_waits_for_something_unknown_if_the_pipes_cannot_be_read() {
        let side = |inode| {
            Some(AdjacentPipe {
                inode,
                fill: None,
                awaited: false,
            })
        };
        for (from, to) in [(IN, OUT), (IN, Object::Socket), (Object::File, OUT)] {
            let mut heard = Heard::new([side(1), side(2)], Ways::default());
            let side = Direction::Unknown;
            heard.note(Doing::Waits(On::Move { from, to, side }));
            assert_eq!(heard.moment(), Moment::Elsewhere(Cause::Unknown));
            let ways = heard.ways;
            assert_eq!(
                (ways.takes_pages, ways.gives_pages),
                (from == IN, to == OUT)
            );
        }
    }

    #[test]
    #[rustfmt::skip]
    fn what_a_stage_does_is_put_together_from_its_threads() {
        use Doing::{Ended, Runs, Stopped};
        use Moment::{Active, Both, Elsewhere, Input, Output};
        let waits = Doing::Waits;
        let (reads, writes) = (waits(On::Read(IN)), waits(On::Write(OUT)));
        let (any, lock) = (waits(On::Any), waits(On::Lock));
        let waits_for = |side, from, to| waits(On::Move { from, to, side });
        let moves = |from, to| waits_for(Direction::Unknown, from, to);
        let (file, memory) = (Object::File, Object::Memory);
        for (doings, before, after, expected) in [
            (&[][..], 0, 0, Moment::Ended), (&[Ended], 0, 0, Moment::Ended),
            (&[Runs], 0, 0, Active), (&[reads, Runs], 0, 0, Active), (&[Ended, Runs], 0, 0, Active),
            // The call decides, however full the pipes are by now.
            (&[reads], 0, 0, Input), (&[reads], 40, 0, Input), (&[writes], 0, 80, Output), (&[writes], 0, 40, Output),
            (&[reads, writes], 0, 80, Both),
            // One thread reads, and the others wait for it.
            (&[reads, lock, lock], 0, 0, Input), (&[lock, lock], 0, 0, Elsewhere(Cause::Lock)),
            // A shell waits for a process that it has started.
            (&[waits(On::Child), writes], 0, 80, Output), (&[waits(On::Child)], 0, 0, Elsewhere(Cause::Child)),
            // The pipes decide.
            (&[any], 0, 0, Input), (&[any], 0, 40, Input), (&[any], 40, 80, Output), (&[any], 0, 80, Output),
            (&[waits(On::LockOrTimer)], 0, 80, Elsewhere(Cause::Unknown)), (&[lock, waits(On::LockOrTimer)], 0, 0, Elsewhere(Cause::Unknown)),
            (&[any], 40, 50, Output), (&[any], 80, 50, Output), (&[any], 10, 50, Output), (&[any], 0, 50, Input), (&[waits(On::Timer)], 40, 50, Elsewhere(Cause::Timer)),
            (&[any], 40, 40, Elsewhere(Cause::Several)), (&[any, lock], 40, 40, Elsewhere(Cause::Several)),
            (&[waits(On::Unknown)], 0, 40, Input), (&[waits(On::Unknown)], 40, 80, Output), (&[waits(On::Unknown)], 40, 40, Elsewhere(Cause::Unknown)),
            (&[waits(On::Read(Object::SomePipe))], 0, 40, Input), (&[waits(On::Read(Object::SomePipe))], 40, 40, Elsewhere(Cause::OtherPipe)),
            (&[waits(On::Write(Object::SomePipe))], 40, 80, Output), (&[waits(On::Write(Object::SomePipe))], 40, 40, Elsewhere(Cause::OtherPipe)),
            // Pages are moved.
            (&[moves(IN, OUT)], 0, 40, Input), (&[moves(IN, OUT)], 40, 80, Output), (&[moves(IN, OUT)], 40, 60, Output), (&[moves(IN, OUT)], 40, 10, Input),
            (&[moves(IN, Object::Socket)], 0, 0, Input), (&[moves(IN, Object::Socket)], 40, 0, Elsewhere(Cause::Network)), 
            (&[moves(IN, file)], 0, 0, Input), (&[moves(IN, file)], 40, 0, Elsewhere(Cause::Disk)),
            (&[moves(Object::File, OUT)], 0, 80, Output), (&[moves(Object::File, OUT)], 0, 10, Elsewhere(Cause::Disk)),
            (&[waits_for(Direction::To, memory, OUT)], 0, 40, Output),
            // The function that it sleeps in shows which side it waits for: the pipes may have changed since.
            (&[waits_for(Direction::To, IN, file)], 0, 0, Elsewhere(Cause::Disk)), (&[waits_for(Direction::From, IN, file)], 40, 0, Input),
            (&[waits_for(Direction::From, IN, OUT)], 40, 80, Input), (&[waits_for(Direction::To, IN, OUT)], 0, 0, Output),
            (&[moves(Object::Pipe(3), file)], 0, 0, Elsewhere(Cause::Unknown)), (&[moves(Object::Pipe(3), Object::Pipe(4))], 0, 0, Elsewhere(Cause::OtherPipe)),
            // The thread waits for something other than these pipes.
            (&[waits(On::Read(OUT))], 0, 0, Elsewhere(Cause::OtherPipe)), (&[waits(On::Read(Object::Socket))], 0, 0, Elsewhere(Cause::Network)),
            (&[waits(On::Write(Object::File))], 0, 0, Elsewhere(Cause::Disk)), (&[waits(On::Timer)], 0, 0, Elsewhere(Cause::Timer)),
            (&[waits(On::Read(Object::Pipe(3))), waits(On::Timer)], 0, 0, Elsewhere(Cause::Timer)),
            (&[waits(On::Partner)], 0, 0, Elsewhere(Cause::OtherPipe)),
            (&[Stopped], 0, 0, Elsewhere(Cause::Stopped)),
        ] {
            assert_eq!(moment(doings, before, after), expected, "{doings:?} {before} {after}");
        }
    }
}
