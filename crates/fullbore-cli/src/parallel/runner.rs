//! The process that cuts the input, starts the workers, and joins their outputs. It has one thread, which waits with
//! poll(2) for everything: signals, the input, the output, and the pipes of all workers (`wait.rs`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::stdio::stdin;

use super::display::Display;
use super::drain::Drain;
use super::failures::Failures;
use super::input::{Block, Input, OVERHEAD};
use super::memory::Memory;
use super::messages::Messages;
use super::options::{Options, Sizes};
use super::outlet::Outlet;
use super::queue::Queue;
use super::records::Records;
use super::report::Report;
use super::rest::Rest;
use super::stop::Stop;
use super::worker::{Feed, Worker};
use crate::copying::SourcePipe;
use crate::inherited;
use crate::processes::ending;
use crate::processes::interrupt::die_of;
use crate::run::{
    Command, Failure, Signals, Starting, say_left, stay_below_the_keeper, write_json,
};
use crate::terminal::lines::say_line;
use fullbore_host::text::clean;

/// How long workers may take to end after they were asked to.
pub const GRACE: Duration = Duration::from_secs(1);

/// The largest capacity of a pipe of a worker.
const PIPE: usize = 1 << 20;

/// The bytes of a block whose output the second thread writes.
const LARGE: u64 = 1 << 20;

/// How often a worker is read from before the others have their turn.
const STEPS: usize = 4;

/// Runs the command on the input, and ends this process as a stage with all of it would end.
///
/// # Errors
/// [`Failure`] if the command cannot be started; those of reading, writing and splitting.
pub fn run(
    keeper: &UnixStream,
    signals: Signals,
    command: impl FnOnce() -> Result<Command>,
    options: &Options,
    sizes: Sizes,
) -> Result<ExitCode> {
    let outcome = Work::begin(keeper, signals, command, options, sizes).and_then(Work::finish);
    let mut to_keeper = keeper;
    let _ = to_keeper.write(&[1]);
    match outcome? {
        Outcome::Code(code) => Ok(ExitCode::from(code)),
        Outcome::Signal(signal) => die_of(signal.as_raw()),
    }
}

enum Outcome {
    Code(u8),
    Signal(Signal),
}

/// The state of the work.
pub struct Work<'a> {
    pub keeper: &'a UnixStream,
    pub signals: Signals,
    pub options: &'a Options,
    pub sizes: Sizes,
    starting: Starting,
    command: Command,
    pipe_size: usize,
    pub input: Input<'static>,
    pub source_pipe: SourcePipe,
    header: Arc<[u8]>,
    /// Blocks without a worker. The last one may be open.
    pub ready: VecDeque<Block>,
    pub queue: Queue,
    pub memory: Memory,
    pub messages: Messages,
    /// stdout, unless the second thread has it.
    pub outlet: Option<Outlet>,
    pub drain: Option<Drain>,
    pub failures: Failures<'a>,
    /// The input of a process that has ended before its block, of which no more comes.
    cut_off: Option<Feed>,
    /// Whether no process or pipe could be made, so that one has to end first.
    pub is_starved: bool,
    /// Since when records have waited for the rest of a page.
    pub held_from: Option<Instant>,
    /// Why no more input can be read.
    pub broken: Option<anyhow::Error>,
    pub report: Report,
    json: Option<File>,
    began: Instant,
    pub display: Display,
    pub cpu_of_children: f64,
    pub rest: Rest,
}

impl<'a> Work<'a> {
    fn begin(
        keeper: &'a UnixStream,
        signals: Signals,
        command: impl FnOnce() -> Result<Command>,
        options: &'a Options,
        sizes: Sizes,
    ) -> Result<Self> {
        stay_below_the_keeper()?;
        if inherited::stdin_was_closed() {
            bail!("standard input is closed");
        }
        fullbore_linux::can_be_read(stdin()).context("read from stdin")?;
        let command = command()?;
        let outlet = Outlet::open()?;
        let json = options.shown.json_file()?;
        let records = Records::new(options.ends());
        let memory = fullbore_linux::memory_limit();
        Ok(Self {
            keeper,
            starting: Starting::new(&signals.before)?,
            signals,
            options,
            sizes,
            pipe_size: fullbore_observe::affordable(2 * sizes.jobs, most_for(sizes.jobs), memory),
            input: Input::new(stdin(), records, options.cut(sizes))?,
            source_pipe: SourcePipe::new(false),
            header: Arc::default(),
            ready: VecDeque::new(),
            queue: Queue::new(options.unordered),
            memory: Memory::new(sizes.memory, sizes.piece),
            messages: Messages::default(),
            outlet: Some(outlet),
            drain: None,
            failures: Failures::new(options),
            cut_off: None,
            is_starved: false,
            held_from: None,
            broken: None,
            report: Report {
                command: clean(command.text.to_string_lossy().trim()),
                jobs: sizes.jobs,
                block_bytes: sizes.first,
                memory_bytes: sizes.memory,
                ..Report::default()
            },
            command,
            json,
            began: Instant::now(),
            display: Display::new(&options.shown),
            cpu_of_children: 0.0,
            rest: Rest::default(),
        })
    }

    fn finish(mut self) -> Result<Outcome> {
        let stop = self.go().and_then(|()| self.take_back()).err();
        // After a stop, nothing more is written.
        let _ = self.take_back();
        // The pipes to the workers stay open until these have ended, so that none takes a cut block for a whole one.
        let signal = match stop {
            Some(Stop::Signal(signal)) => signal,
            _ => Signal::TERM,
        };
        if ending::has_children() {
            let left = ending::end_all(signal, GRACE, None, ending::reap_all);
            say_left(&left, false);
        }
        self.display.clear();
        for worker in &mut self.queue.workers {
            while worker.messages.is_some() && self.messages.read(worker) == Ok(true) {}
        }
        self.messages.write_all();
        self.display.log(self.input.read, true);
        if let Some(Stop::Signal(signal)) = stop {
            return Ok(Outcome::Signal(signal));
        }
        if let Some(text) = self.failures.text(self.report.blocks) {
            say_line(format_args!("fullbore parallel: {text}"));
        }
        let reported = self.say_report();
        match (stop, self.failures.code(), self.broken) {
            (Some(Stop::Failed(error)), ..) | (_, 0, Some(error)) => Err(error),
            (_, 0, None) => reported.map(|()| Outcome::Code(0)),
            (_, code, _) => Ok(Outcome::Code(code)),
        }
    }

    fn go(&mut self) -> Result<(), Stop> {
        loop {
            // The end of a block makes a process that has ended before complete, so that its output is written. An output
            // that has been written makes room for the next worker.
            self.cut()?;
            self.write()?;
            self.start_workers()?;
            let is_failing = self.failures.is_failing;
            let has_input = self.may_go_on() && !self.input.is_finished();
            let has_blocks = !is_failing && self.ready.front().is_some_and(|first| !first.is_open);
            let is_writing = self.outlet.as_ref().is_none_or(Outlet::is_full);
            // A process whose block has no end does not end.
            let is_writing_on = !self.failures.has_stopped;
            let can_end =
                |worker: &Worker| !worker.block.is_open || is_writing_on && worker.status.is_some();
            let has_workers = self.queue.workers.iter().any(can_end);
            if !(has_input || has_blocks || has_workers || is_writing) {
                return Ok(());
            }
            self.wait()?;
            self.display.show(self.input.read);
        }
    }

    /// Whether more of the input is read, unless that is at its end.
    pub fn may_go_on(&self) -> bool {
        !self.failures.is_failing && self.broken.is_none()
    }

    /// Whether there is room for more of the input.
    pub fn has_room(&self) -> bool {
        let complete = self.ready.iter().filter(|block| !block.is_open).count();
        complete < self.sizes.ready()
    }

    /// Whether a process would get at once what comes next of the input.
    pub fn is_eager(&self) -> bool {
        match self.queue.workers.back() {
            Some(worker) if worker.block.is_open => worker.has_all(),
            _ => {
                let has_open = self.ready.front().is_none_or(|block| block.is_open);
                has_open && !self.sizes.is_whole && self.may_start()
            }
        }
    }

    fn may_start(&self) -> bool {
        !self.is_starved && self.queue.running() < self.sizes.jobs
    }

    /// Cuts what was read, and adds each part to its block. Afterwards either enough blocks are ready, or all that was
    /// read is cut.
    fn cut(&mut self) -> Result<(), Stop> {
        while self.has_room() && !self.failures.is_failing {
            let Some(part) = self.input.next(self.is_eager(), &mut self.memory) else {
                return Ok(());
            };
            match (self.queue.workers.back_mut(), self.ready.back_mut()) {
                (Some(worker), _) if worker.block.is_open => {
                    worker.block.add(part);
                    self.give(self.queue.workers.len() - 1)?;
                }
                (_, Some(block)) if block.is_open => block.add(part),
                _ => {
                    self.memory.take_anyway(OVERHEAD);
                    self.ready.push_back(part);
                }
            }
        }
        Ok(())
    }

    /// Starts a worker for each block, as far as there may be more.
    fn start_workers(&mut self) -> Result<(), Stop> {
        while !self.failures.is_failing {
            self.cut()?;
            let may_be_open = self.broken.is_none() && !self.sizes.is_whole;
            let is_next = |block: &mut Block| may_be_open || !block.is_open;
            if !self.may_start() || !self.ready.front_mut().is_some_and(is_next) {
                return Ok(());
            }
            if let Some(block) = self.ready.pop_front() {
                self.start_worker(block)?;
            }
        }
        Ok(())
    }

    fn start_worker(&mut self, block: Block) -> Result<(), Stop> {
        if block.number == 1 {
            self.header = Arc::from(self.input.header.as_slice());
        }
        let started = Worker::start(
            &self.starting,
            &self.command,
            self.pipe_size,
            &self.header,
            block,
            self.queue.free_slot(),
        );
        match started {
            Ok(worker) => {
                ending::note_started(worker.pid.as_raw_nonzero().get() as u32);
                self.report.blocks += 1;
                self.queue.workers.push_back(worker);
                self.give(self.queue.workers.len() - 1).map(drop)
            }
            Err((error, block)) if is_shortage(&error) && self.queue.running() > 0 => {
                self.ready.push_front(block);
                self.is_starved = true;
                Ok(())
            }
            Err((error, _)) => {
                let failure = Failure::of_program(&self.command.program, &error);
                Err(Stop::Failed(failure.into()))
            }
        }
    }

    /// Gives a worker a part of its block, and returns how much.
    pub fn give(&mut self, at: usize) -> Result<usize, Stop> {
        let worker = &mut self.queue.workers[at];
        worker.give(&mut self.memory).map_err(|errno| {
            let number = worker.block.number;
            Stop::of(errno, format_args!("write to the worker of block {number}"))
        })
    }

    /// Writes what can be written without waiting.
    fn write(&mut self) -> Result<(), Stop> {
        let (mut steps, mut taken) = (0, 0);
        let may_go_on = self.may_go_on();
        if let Some(drain) = self.drain.as_ref().filter(|_| !may_go_on) {
            // What comes of a block that is cut ends with its process.
            let is_its = |worker: &Worker| worker.block.number == drain.number;
            let worker = self.queue.workers.iter().find(|worker| is_its(worker));
            if worker.is_some_and(|worker| worker.block.is_open) {
                self.take_back()?;
            }
        }
        while let Some(outlet) = &mut self.outlet {
            let is_empty = outlet.flush()?;
            if let Some(part) = outlet.spent() {
                self.memory.free(part);
            }
            if !is_empty {
                return Ok(());
            }
            if self.failures.has_stopped {
                return self.discard();
            }
            let Some(at) = self.queue.turn(&self.memory) else {
                return Ok(());
            };
            let worker = &mut self.queue.workers[at];
            let is_cut = worker.block.is_open && !may_go_on;
            worker.keep_short(&mut self.memory);
            if let Some(part) = worker.kept.pop_front() {
                outlet.send(part);
            } else if is_cut && worker.status.is_none() {
                return Ok(());
            } else if worker.output.is_some() {
                if worker.block.bytes >= LARGE && self.sizes.may_have_a_thread && !is_cut {
                    self.lend(at);
                    return Ok(());
                }
                if steps == STEPS || self.rest.is_on() && worker.status.is_none() {
                    return Ok(());
                }
                steps += 1;
                let read = outlet.take(&mut worker.output);
                let read = read.map_err(|errno| Stop::unread(worker.block.number, errno))?;
                worker.wrote += read as u64;
                taken += read;
                self.rest.note(taken);
                match worker.output.is_some() && !outlet.is_full() {
                    // What the process has left behind waits for the rest of the block.
                    true if is_cut => self.end(at),
                    true => return Ok(()),
                    false => {}
                }
            } else if is_cut || worker.has_ended() && !worker.block.is_open {
                self.end(at);
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Has the second thread write what comes of the output of a worker, if there can be one.
    fn lend(&mut self, at: usize) {
        let worker = &self.queue.workers[at];
        if let Some(output) = worker.output.clone() {
            let (number, waited) = (worker.block.number, self.report.waited);
            self.drain = Drain::start(&mut self.outlet, output, number, waited);
        }
        self.sizes.may_have_a_thread = self.drain.is_some();
    }

    /// Takes the outlet back from the second thread, if that has it.
    ///
    /// # Errors
    /// Those that the thread has met.
    pub fn take_back(&mut self) -> Result<(), Stop> {
        let Some(drain) = self.drain.take() else {
            return Ok(());
        };
        let (number, before) = (drain.number, drain.waited_before);
        let drained = drain.take_back();
        self.outlet = Some(drained.outlet);
        let seconds = drained.waited.as_secs_f64();
        self.report.waited.was_for_output(before, seconds);
        let is_its = |worker: &Worker| worker.block.number == number;
        if let Some(at) = self.queue.workers.iter().position(is_its) {
            let worker = &mut self.queue.workers[at];
            worker.wrote += drained.taken;
            worker.output = drained.output;
            self.note_end(at);
        }
        drained.outcome
    }

    /// Drops the outputs behind a failed block, so that their workers can finish.
    fn discard(&mut self) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(worker) = self.queue.workers.get_mut(at) {
            let dropped = worker.discard(&mut self.memory);
            dropped.map_err(|errno| Stop::unread(worker.block.number, errno))?;
            match worker.has_ended() {
                true => self.end(at),
                false => at += 1,
            }
        }
        Ok(())
    }

    /// Removes a worker that has ended and whose output has been written.
    fn end(&mut self, at: usize) {
        if let Some(mut worker) = self.queue.workers.remove(at) {
            if worker.block.is_open {
                // What the process has left behind is no end of the block either.
                self.cut_off = worker.feed.take();
            }
            worker.forget_input(&mut self.memory);
            while worker.messages.is_some() && self.messages.read(&mut worker) == Ok(true) {}
            self.failures.note_written(&worker);
            self.report.note(&worker);
            self.may_try_again();
        }
    }

    /// A process is free, and its memory.
    pub fn may_try_again(&mut self) {
        self.is_starved = false;
        self.memory.try_again();
    }

    /// Prints the report and writes its JSON, if they were asked for.
    fn say_report(&mut self) -> Result<()> {
        let report = &mut self.report;
        report.seconds = self.began.elapsed().as_secs_f64();
        report.memory_peak_bytes = self.memory.peak;
        report.bytes_read = self.input.read;
        report.failed_blocks = self.failures.count;
        report.own_cpu_seconds = cpu_seconds(UsageWho::RUSAGE_SELF);
        report.conclude();
        if self.options.shown.report {
            say_line(report.lines().join("\n"));
        }
        match self.json.take() {
            Some(file) => write_json(file, report),
            None => Ok(()),
        }
    }
}

/// Returns the capacity that pipes of so many workers may have: all pipes of a user together have a limit.
fn most_for(jobs: usize) -> usize {
    match jobs {
        0..=8 => PIPE,
        9..=32 => PIPE / 4,
        _ => PIPE / 16,
    }
}

/// Returns whether a process or a pipe could not be made because there are too many.
fn is_shortage(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE)
    )
}

/// Returns the CPU time of this process, or of all its children that have ended.
pub fn cpu_seconds(who: UsageWho) -> f64 {
    // getrusage(2) fails only for an invalid argument.
    getrusage(who).map_or(0.0, |usage| {
        (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
    })
}
