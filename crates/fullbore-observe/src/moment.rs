//! What a stage does at a moment, put together from what all of its threads do and how full its pipes
//! are. Nothing here looks at anything.

use serde::Serialize;

use super::link::Fill;
use super::waiting::{Doing, Object, On};

/// What a stage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Something of it runs, or would if it had a CPU.
    Active,
    /// It waits for the stage before.
    Input,
    /// It waits for the stage after.
    Output,
    /// One part of it waits for the stage before, another for the one after.
    Both,
    /// It waits for something that is not of this pipeline.
    Elsewhere(Cause),
    /// It has ended.
    Ended,
}

/// What a stage waits for outside of the pipeline. Where several of its threads wait for several of them,
/// the first one here is what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A file or a device that does not answer at once.
    Disk,
    /// A socket.
    Network,
    /// A terminal.
    Terminal,
    /// One of several things: it is in poll(2) or the like.
    Several,
    /// A time.
    Timer,
    /// It was stopped.
    Stopped,
    /// A pipe that is not between two stages.
    OtherPipe,
    /// A lock.
    Lock,
    /// A signal.
    Signal,
    /// A process that it started, of which nothing is known.
    Child,
    /// What, this user may not know.
    Unknown,
}

/// A pipe at one side of a stage.
#[derive(Debug, Clone, Copy)]
pub struct AdjacentPipe {
    /// Its inode.
    pub inode: u64,
    /// How full it is, where that is known.
    pub fill: Option<Fill>,
}

/// How a stage was seen to use its pipes. The counters of bytes know of read(2) and write(2), and of
/// nothing that moves pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ways {
    /// It waited in read(2) or the like for its input.
    pub reads: bool,
    /// It waited in splice(2) or the like for its input.
    pub takes_pages: bool,
    /// It waited in write(2) or the like for its output.
    pub writes: bool,
    /// It waited in splice(2) or the like for its output.
    pub gives_pages: bool,
}

/// What was heard of a stage's threads.
#[derive(Debug)]
pub struct Heard<'a> {
    input: Option<AdjacentPipe>,
    output: Option<AdjacentPipe>,
    ways: &'a mut Ways,
    any: bool,
    runs: bool,
    for_input: bool,
    for_output: bool,
    for_several: bool,
    /// What matters most.
    elsewhere: Option<Cause>,
}

impl<'a> Heard<'a> {
    /// Nothing so far.
    pub fn new(
        input: Option<AdjacentPipe>,
        output: Option<AdjacentPipe>,
        ways: &'a mut Ways,
    ) -> Self {
        Self {
            input,
            output,
            ways,
            any: false,
            runs: false,
            for_input: false,
            for_output: false,
            for_several: false,
            elsewhere: None,
        }
    }

    /// Notes what one thread does; false once nothing more can change the outcome.
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
            On::Read(object) if is(self.input, object) || self.is_likely_input(object) => {
                self.for_input = true;
                self.ways.reads |= matches!(object, Object::Pipe(_));
            }
            On::Write(object) if is(self.output, object) || self.is_likely_output(object) => {
                self.for_output = true;
                self.ways.writes |= matches!(object, Object::Pipe(_));
            }
            On::Move { from, to } => self.moves(from, to),
            On::Read(object) | On::Write(object) => self.waits_elsewhere(cause(object)),
            On::Any => self.for_several = true,
            On::Timer => self.waits_elsewhere(Cause::Timer),
            On::Lock => self.waits_elsewhere(Cause::Lock),
            On::Child => self.waits_elsewhere(Cause::Child),
            On::Signal => self.waits_elsewhere(Cause::Signal),
            On::Disk => self.waits_elsewhere(Cause::Disk),
            // It may wait for anything, just as in poll(2).
            On::Unknown if self.is_empty() || self.is_full() => self.for_several = true,
            On::Unknown => self.waits_elsewhere(Cause::Unknown),
        }
    }

    /// Which of both sides it waits for, the call does not say; the pipes do, unless something has
    /// changed since they were looked at.
    fn moves(&mut self, from: Object, to: Object) {
        let (takes, gives) = (is(self.input, from), is(self.output, to));
        self.ways.takes_pages |= takes;
        self.ways.gives_pages |= gives;
        let half_full = fill(self.output).is_some_and(|fill| fill.share() >= 0.5);
        match (takes, gives) {
            (true, _) if self.is_empty() => self.for_input = true,
            (_, true) if self.is_full() => self.for_output = true,
            (true, true) if half_full => self.for_output = true,
            (true, true) => self.for_input = true,
            // A file takes what it is given.
            (true, false) if to == Object::File => self.for_input = true,
            (true, false) => self.waits_elsewhere(cause(to)),
            (false, true) if from == Object::Memory => self.for_output = true,
            (false, _) => self.waits_elsewhere(cause(from)),
        }
    }

    /// An earlier one in the list of causes says more.
    fn waits_elsewhere(&mut self, cause: Cause) {
        self.elsewhere = Some(self.elsewhere.map_or(cause, |known| known.min(cause)));
    }

    fn is_likely_input(&self, object: Object) -> bool {
        object == Object::SomePipe && self.is_empty()
    }

    fn is_likely_output(&self, object: Object) -> bool {
        object == Object::SomePipe && self.is_full()
    }

    fn is_empty(&self) -> bool {
        fill(self.input).is_some_and(Fill::is_empty)
    }

    fn is_full(&self) -> bool {
        fill(self.output).is_some_and(Fill::is_full)
    }

    /// What it does, all together. Who waits for one of several things waits for the side of which a pipe
    /// tells, and for something else where neither does.
    pub fn moment(&self) -> Moment {
        match (self.for_input, self.for_output) {
            _ if !self.any => Moment::Ended,
            _ if self.runs => Moment::Active,
            (true, true) => Moment::Both,
            (true, false) => Moment::Input,
            (false, true) => Moment::Output,
            _ if self.for_several && self.is_full() => Moment::Output,
            _ if self.for_several && self.is_empty() => Moment::Input,
            _ if self.for_several => {
                let several = Cause::Several;
                Moment::Elsewhere(self.elsewhere.map_or(several, |known| known.min(several)))
            }
            _ => Moment::Elsewhere(self.elsewhere.unwrap_or(Cause::Unknown)),
        }
    }
}

fn fill(side: Option<AdjacentPipe>) -> Option<Fill> {
    side.and_then(|side| side.fill)
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

    /// What a stage does whose threads do this, while of 80 bytes there are so many in the pipes before and
    /// after it.
    fn moment(doings: &[Doing], before: usize, after: usize) -> Moment {
        let side = |inode, queued| {
            let capacity = 80;
            Some(AdjacentPipe {
                inode,
                fill: Some(Fill { queued, capacity }),
            })
        };
        let mut ways = Ways::default();
        let mut heard = Heard::new(side(1, before), side(2, after), &mut ways);
        for &doing in doings {
            if !heard.note(doing) {
                break;
            }
        }
        heard.moment()
    }

    #[test]
    #[rustfmt::skip]
    fn what_a_stage_does_is_put_together_from_its_threads() {
        use Doing::{Ended, Runs, Stopped};
        use Moment::{Active, Both, Elsewhere, Input, Output};
        let waits = Doing::Waits;
        let (reads, writes) = (waits(On::Read(IN)), waits(On::Write(OUT)));
        let (any, lock) = (waits(On::Any), waits(On::Lock));
        let moves = |from, to| waits(On::Move { from, to });
        for (doings, before, after, expected) in [
            (&[][..], 0, 0, Moment::Ended), (&[Ended], 0, 0, Moment::Ended),
            (&[Runs], 0, 0, Active), (&[reads, Runs], 0, 0, Active), (&[Ended, Runs], 0, 0, Active),
            // A call tells, whatever the pipes hold by now.
            (&[reads], 0, 0, Input), (&[reads], 40, 0, Input), (&[writes], 0, 80, Output), (&[writes], 0, 40, Output),
            (&[reads, writes], 0, 80, Both),
            // A thread reads, others wait for what it will give them.
            (&[reads, lock, lock], 0, 0, Input), (&[lock, lock], 0, 0, Elsewhere(Cause::Lock)),
            // A shell waits for one that it has started.
            (&[waits(On::Child), writes], 0, 80, Output), (&[waits(On::Child)], 0, 0, Elsewhere(Cause::Child)),
            // The pipes tell.
            (&[any], 0, 0, Input), (&[any], 0, 40, Input), (&[any], 40, 80, Output), (&[any], 0, 80, Output),
            (&[any], 40, 40, Elsewhere(Cause::Several)), (&[any, lock], 40, 40, Elsewhere(Cause::Several)),
            (&[waits(On::Unknown)], 0, 40, Input), (&[waits(On::Unknown)], 40, 80, Output), (&[waits(On::Unknown)], 40, 40, Elsewhere(Cause::Unknown)),
            (&[waits(On::Read(Object::SomePipe))], 0, 40, Input), (&[waits(On::Read(Object::SomePipe))], 40, 40, Elsewhere(Cause::OtherPipe)),
            (&[waits(On::Write(Object::SomePipe))], 40, 80, Output), (&[waits(On::Write(Object::SomePipe))], 40, 40, Elsewhere(Cause::OtherPipe)),
            // Pages that are moved.
            (&[moves(IN, OUT)], 0, 40, Input), (&[moves(IN, OUT)], 40, 80, Output), (&[moves(IN, OUT)], 40, 60, Output), (&[moves(IN, OUT)], 40, 10, Input),
            (&[moves(IN, Object::Socket)], 0, 0, Input), (&[moves(IN, Object::Socket)], 40, 0, Elsewhere(Cause::Network)), (&[moves(IN, Object::File)], 40, 0, Input),
            (&[moves(Object::File, OUT)], 0, 80, Output), (&[moves(Object::File, OUT)], 0, 10, Elsewhere(Cause::Disk)),
            (&[moves(Object::Memory, OUT)], 0, 40, Output),
            // Others than these pipes.
            (&[waits(On::Read(OUT))], 0, 0, Elsewhere(Cause::OtherPipe)), (&[waits(On::Read(Object::Socket))], 0, 0, Elsewhere(Cause::Network)),
            (&[waits(On::Write(Object::File))], 0, 0, Elsewhere(Cause::Disk)), (&[waits(On::Timer)], 0, 0, Elsewhere(Cause::Timer)),
            (&[waits(On::Read(Object::Pipe(3))), waits(On::Timer)], 0, 0, Elsewhere(Cause::Timer)),
            (&[Stopped], 0, 0, Elsewhere(Cause::Stopped)),
        ] {
            assert_eq!(moment(doings, before, after), expected, "{doings:?} {before} {after}");
        }
    }
}
