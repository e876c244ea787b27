//! The process that cuts the input, starts the workers, and joins their outputs. It has one thread, which waits with
//! poll(2) for everything: signals, the input, the output, and the pipes of all workers.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Stdout, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fullbore::{Producer, ProducerOptions};
use fullbore_linux::{is_pipe_or_socket, pipe};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};
use rustix::process::{
    Signal, WaitOptions, getpid, set_child_subreaper, set_parent_process_death_signal, wait,
};

use super::input::{Block, Input};
use super::memory::Memory;
use super::messages::{Messages, fd as stderr_fd};
use super::options::{Options, Sizes};
use super::queue::Queue;
use super::records::Records;
use super::report::{Report, Slot};
use super::worker::Worker;
use crate::error_text::Failed;
use crate::inherited;
use crate::processes::ending;
use crate::processes::interrupt::die_of;
use crate::run::{Came, Command, Failure, Signals, Starting, code, say_left, stop};
use crate::terminal::footer::Footer;
use crate::terminal::lines::say_line;
use crate::terminal::log_line::Due;
use crate::terminal::progress::ProgressLine;
use fullbore_host::size::amount;
use fullbore_host::text::{clean, counted};
use fullbore_observe::Progress;

/// How long workers may take to end after they were asked to.
pub const GRACE: Duration = Duration::from_secs(1);

/// The interval at which the progress is drawn.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// The largest capacity of a pipe of a worker.
const PIPE: usize = 1 << 20;

/// The least bytes in the pipe of a worker that are moved to stdout with their pages.
const SPLICED: u64 = 32 << 10;

/// The most bytes of one step of the output.
const STEP: usize = 256 << 10;

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

/// Why no more is written.
enum Stop {
    Signal(Signal),
    /// Nothing reads the output any more.
    Closed,
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Stop::Failed(error)
    }
}

/// A block whose worker has failed.
struct FailedBlock {
    number: u64,
    text: String,
    status: ExitStatus,
}

struct Work<'a> {
    keeper: &'a UnixStream,
    signals: Signals,
    options: &'a Options,
    sizes: Sizes,
    starting: Starting,
    command: Command,
    pipe_size: usize,
    input: Input<'static>,
    header: Rc<[u8]>,
    /// Complete blocks without a worker.
    ready: VecDeque<Block>,
    queue: Queue,
    memory: Memory,
    messages: Messages,
    out: Producer<Stdout>,
    /// Whether stdout is a pipe that takes pages from the pipe of a worker.
    splices: bool,
    /// The bytes that went to stdout so.
    spliced: u64,
    /// Whether stdout had no room for them.
    is_full: bool,
    /// The memory of what `out` is sending.
    sending: usize,
    /// The blocks that have failed, in the order in which that was seen.
    failed: Vec<FailedBlock>,
    /// Whether a worker has failed, so that no other is started.
    is_failing: bool,
    /// Whether a failed block was written as far as it goes, so that the output ends there.
    has_stopped: bool,
    /// Whether no process or pipe could be made, so that one has to end first.
    is_starved: bool,
    /// Why no more input can be read.
    broken: Option<anyhow::Error>,
    report: Report,
    json: Option<File>,
    began: Instant,
    progress: Option<(Footer, ProgressLine, Instant)>,
    log: Option<(ProgressLine, Due)>,
    /// The bytes to expect, if that is known.
    total: Option<u64>,
    cpu_of_children: f64,
}

/// What poll(2) has reported.
#[derive(Clone, Copy)]
enum On {
    Signals,
    Keeper,
    Input,
    Output,
    Stderr,
    Feed(usize),
    OutputOf(usize),
    Messages(usize),
}

impl<'a> Work<'a> {
    fn begin(
        keeper: &'a UnixStream,
        signals: Signals,
        command: impl FnOnce() -> Result<Command>,
        options: &'a Options,
        sizes: Sizes,
    ) -> Result<Self> {
        set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
        // As in `run`: the socket reports that the keeper is gone.
        set_parent_process_death_signal(Some(Signal::CONT)).context("PR_SET_PDEATHSIG")?;
        if inherited::stdin_was_closed() {
            bail!("standard input is closed");
        }
        let command = command()?;
        let stdout = inherited::stdout()?;
        let json = options.json.iter().flatten().next();
        let json = json.map(|path| inherited::create(path)).transpose()?;
        let splices = match pipe::of(&stdout)? {
            Some(end) if !pipe::keeps_packets(stdout.as_fd()) => {
                end.grow(pipe::roomy())?;
                true
            }
            _ => false,
        };
        let out = ProducerOptions::new().nonblocking(true).open(stdout)?;
        let input = rustix::stdio::stdin();
        let progress = options.progress.then(Footer::new).flatten();
        let progress = progress.map(|footer| (footer, ProgressLine::from_start(), Instant::now()));
        let memory = fullbore_linux::memory_limit();
        Ok(Self {
            keeper,
            starting: Starting::new(&signals.before)?,
            signals,
            options,
            sizes,
            pipe_size: fullbore_observe::affordable(2 * sizes.jobs, most_for(sizes.jobs), memory),
            input: Input::new(
                input,
                Records::new(options.ends()),
                options.cut(sizes.block),
            ),
            header: Rc::default(),
            ready: VecDeque::new(),
            queue: Queue::new(options.unordered),
            memory: Memory::new(sizes.memory, sizes.block),
            messages: Messages::default(),
            out,
            splices,
            spliced: 0,
            is_full: false,
            sending: 0,
            failed: Vec::new(),
            is_failing: false,
            has_stopped: false,
            is_starved: false,
            broken: None,
            report: Report {
                command: clean(command.text.to_string_lossy().trim()),
                jobs: sizes.jobs,
                block_bytes: sizes.block,
                memory_bytes: sizes.memory,
                ..Report::default()
            },
            command,
            json,
            began: Instant::now(),
            progress,
            total: options.size.or_else(size_of_stdin),
            log: (options.log).map(|every| (ProgressLine::from_start(), Due::every(every))),
            cpu_of_children: 0.0,
        })
    }

    fn finish(mut self) -> Result<Outcome> {
        let stop = self.go().err();
        // The pipes to the workers stay open until these have ended, so that none takes a cut block for a whole one.
        let signal = match stop {
            Some(Stop::Signal(signal)) => signal,
            _ => Signal::TERM,
        };
        if ending::has_children() {
            let left = ending::end_all(signal, GRACE, None, || {
                while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            });
            say_left(&left, false);
        }
        if let Some((footer, ..)) = &mut self.progress {
            footer.clear();
        }
        for worker in &mut self.queue.workers {
            while worker.messages.is_some() && self.messages.read(worker) == Ok(true) {}
        }
        self.messages.write_all();
        self.log(true);
        if let Some(Stop::Signal(signal)) = stop {
            return Ok(Outcome::Signal(signal));
        }
        self.say_failed();
        let reported = self.say_report();
        let first = self.failed.iter().min_by_key(|failed| failed.number);
        let code = first.map_or(0, |failed| code(failed.status));
        match stop {
            Some(Stop::Failed(error)) => Err(error),
            _ if code != 0 => Ok(Outcome::Code(code)),
            _ => match self.broken {
                Some(error) => Err(error),
                None => reported.map(|()| Outcome::Code(0)),
            },
        }
    }

    fn go(&mut self) -> Result<(), Stop> {
        loop {
            // An output that has been written makes room for the next worker.
            self.write()?;
            self.start_workers()?;
            let has_input = !(self.is_failing || self.input.is_finished() || self.broken.is_some());
            let has_blocks = !self.is_failing && !self.ready.is_empty();
            if !has_input && !has_blocks && self.queue.workers.is_empty() && self.out.unsent() == 0
            {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Cuts blocks from what was read, and starts a worker for each as far as there may be more. Afterwards either
    /// enough blocks are ready, or all that was read is cut.
    fn start_workers(&mut self) -> Result<(), Stop> {
        while !self.is_failing {
            while self.ready.len() < self.sizes.jobs {
                match self.input.next(&mut self.memory) {
                    Some(block) => self.ready.push_back(block),
                    None => break,
                }
            }
            if self.is_starved || self.queue.running() >= self.sizes.jobs {
                return Ok(());
            }
            match self.ready.pop_front() {
                Some(block) => self.start_worker(block)?,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn start_worker(&mut self, block: Block) -> Result<(), Stop> {
        if block.number == 1 {
            self.header = Rc::from(self.input.header.as_slice());
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
            }
            Err((error, block)) if is_shortage(&error) && self.queue.running() > 0 => {
                self.ready.push_front(block);
                self.is_starved = true;
            }
            Err((error, _)) => {
                let failure = Failure::of_program(&self.command.program, &error);
                return Err(Stop::Failed(failure.into()));
            }
        }
        Ok(())
    }

    /// Writes what can be written without waiting.
    fn write(&mut self) -> Result<(), Stop> {
        let mut steps = 0;
        self.is_full = false;
        loop {
            if self.out.unsent() > 0 {
                let flushed = self.out.flush();
                match self.sent(flushed)? {
                    true => {}
                    false => return Ok(()),
                }
            }
            self.memory.give_back(std::mem::take(&mut self.sending));
            if self.has_stopped {
                return self.discard();
            }
            let Some(at) = self.queue.turn(&self.memory) else {
                return Ok(());
            };
            let worker = &mut self.queue.workers[at];
            worker.keep_short(&mut self.memory);
            if let Some((pages, charge)) = worker.kept.pop_front() {
                worker.kept_bytes -= charge;
                self.sending = charge;
                let sent = self.out.send_pages(pages).map_err(io::Error::from);
                self.sent(sent)?;
            } else if let Some(output) = &worker.output {
                if steps == 4 {
                    return Ok(());
                }
                steps += 1;
                if self.splices && has_spliceable(output) {
                    let (stdout, flags) = (rustix::stdio::stdout(), SpliceFlags::NONBLOCK);
                    match splice(output, None, stdout, None, PIPE, flags) {
                        Ok(moved) => {
                            worker.wrote += moved as u64;
                            self.spliced += moved as u64;
                            continue;
                        }
                        Err(Errno::AGAIN) => {
                            self.is_full = true;
                            return Ok(());
                        }
                        Err(Errno::INTR) => continue,
                        Err(Errno::INVAL) => self.splices = false,
                        Err(errno) => return self.sent(Err(errno.into())).map(drop),
                    }
                }
                let window = self.out.reserve(STEP).context("memory for the output")?;
                let mut filled = 0;
                let mut is_empty = false;
                while filled < window.len() && !is_empty {
                    match rustix::io::read(output, &mut window[filled..]) {
                        Ok(0) => {
                            worker.output = None;
                            break;
                        }
                        Ok(n) => filled += n,
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => is_empty = true,
                        Err(errno) => return Err(of_worker(worker.number, errno)),
                    }
                }
                worker.wrote += filled as u64;
                let sent = self.out.commit(filled).map_err(io::Error::from);
                if !self.sent(sent)? || is_empty {
                    return Ok(());
                }
            } else if worker.has_ended() {
                self.end(at);
            } else {
                return Ok(());
            }
        }
    }

    /// Returns whether all was sent.
    fn sent(&self, sent: io::Result<()>) -> Result<bool, Stop> {
        match sent {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error)
                if error.kind() == io::ErrorKind::BrokenPipe && is_pipe_or_socket(io::stdout()) =>
            {
                Err(Stop::Closed)
            }
            Err(error) => {
                let after = after(self.out.report().bytes + self.spliced);
                let failed = Err::<(), _>(error).failed(format_args!("write to stdout{after}"));
                Err(Stop::Failed(failed.unwrap_err()))
            }
        }
    }

    /// Drops the outputs behind a failed block, so that their workers can finish.
    fn discard(&mut self) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(worker) = self.queue.workers.get_mut(at) {
            worker
                .discard(&mut self.memory)
                .map_err(|errno| of_worker(worker.number, errno))?;
            match worker.has_ended() {
                true => self.end(at),
                false => at += 1,
            }
        }
        Ok(())
    }

    /// Removes a worker that has ended and whose output has been written.
    fn end(&mut self, at: usize) {
        let Some(mut worker) = self.queue.workers.remove(at) else {
            return;
        };
        if let Some(feed) = worker.feed.take() {
            self.memory.give_back(feed.charge);
        }
        let status = worker.status.unwrap_or_default();
        if self.is_failure(status) {
            self.has_stopped |= !self.options.keep_going;
            let last = worker.start + worker.bytes.saturating_sub(1);
            self.failed.push(FailedBlock {
                number: worker.number,
                text: format!(
                    "block {} (bytes {} to {last}, first line '{}')",
                    worker.number,
                    worker.start,
                    clean(&String::from_utf8_lossy(&worker.first))
                ),
                status,
            });
        }
        let ended = worker.ended.unwrap_or_else(Instant::now);
        self.report.waited_for_turn(ended.elapsed());
        self.report.bytes_written += worker.wrote;
        let slot = self.slot(worker.slot);
        slot.blocks += 1;
        slot.bytes_read += worker.bytes;
        slot.bytes_written += worker.wrote;
        slot.seconds += (ended - worker.began).as_secs_f64();
    }

    fn slot(&mut self, number: usize) -> &mut Slot {
        let slots = &mut self.report.workers;
        if slots.len() <= number {
            slots.resize(number + 1, Slot::default());
        }
        &mut slots[number]
    }

    fn is_failure(&self, status: ExitStatus) -> bool {
        let accepted = self.options.accept.as_ref();
        !status.success() && !accepted.is_some_and(|codes| codes.contain(code(status)))
    }

    /// Waits until something can go on, and does it.
    fn wait(&mut self) -> Result<(), Stop> {
        let turn = self.queue.turn(&self.memory);
        let has_unsent = self.out.unsent() > 0 || self.is_full;
        let reads = !self.is_failing && self.broken.is_none() && self.ready.len() < self.sizes.jobs;
        let reads = reads && self.input.may_read(&mut self.memory);
        if !reads
            && !self.input.at_end
            && self.input.has_all(&self.memory)
            && self.broken.is_none()
            && !self.is_failing
        {
            self.broken = Some(anyhow::anyhow!(
                "the record at byte {} of the input is longer than the memory: use a larger --memory than {}",
                self.input.position(),
                fullbore_host::size::format(self.sizes.memory as u64)
            ));
            return Ok(());
        }
        let (stdin, stdout, stderr) = (rustix::stdio::stdin(), io::stdout(), stderr_fd());
        let mut on = vec![On::Signals, On::Keeper];
        let (come, go) = (PollFlags::IN, PollFlags::OUT);
        let mut fds = vec![
            PollFd::new(&self.signals, come),
            PollFd::new(self.keeper, come),
        ];
        if reads {
            on.push(On::Input);
            fds.push(PollFd::new(&stdin, come));
        }
        // Without events, it reports that nothing reads any more.
        if has_unsent || is_pipe_or_socket(&stdout) {
            on.push(On::Output);
            fds.push(PollFd::new(
                &stdout,
                if has_unsent { go } else { PollFlags::empty() },
            ));
        }
        if self.messages.wait() {
            on.push(On::Stderr);
            fds.push(PollFd::new(&stderr, go));
        }
        for (at, worker) in self.queue.workers.iter().enumerate() {
            if let Some(feed) = &worker.feed {
                on.push(On::Feed(at));
                fds.push(PollFd::new(feed.pipe(), go));
            }
            let drains = match Some(at) == turn {
                true => !has_unsent,
                false => worker.may_keep(&mut self.memory),
            };
            if let Some(output) = worker
                .output
                .as_ref()
                .filter(|_| drains || self.has_stopped)
            {
                on.push(On::OutputOf(at));
                fds.push(PollFd::new(output, come));
            }
            if let Some(pipe) = worker
                .messages
                .as_ref()
                .filter(|_| self.messages.have_room())
            {
                on.push(On::Messages(at));
                fds.push(PollFd::new(pipe, come));
            }
        }
        if turn.is_none() && self.memory.is_short && !self.queue.workers.is_empty() {
            // In free order, one goes straight to the output when memory is short.
            return Ok(());
        }
        let limit = self.due().and_then(|limit| Timespec::try_from(limit).ok());
        let began = Instant::now();
        // If poll(2) is interrupted, this function is called again.
        let polled = poll(&mut fds, limit.as_ref());
        let came: Vec<(On, PollFlags)> = on
            .into_iter()
            .zip(fds.iter().map(PollFd::revents))
            .collect();
        let waited = began.elapsed().as_secs_f64();
        let running = self.queue.running();
        let waiting_for = match (has_unsent, reads && running < self.sizes.jobs) {
            (true, _) => &mut self.report.waited.output,
            (_, true) => &mut self.report.waited.input,
            _ => &mut self.report.waited.workers,
        };
        *waiting_for += waited;
        match polled {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(anyhow::Error::from(io::Error::from(errno))
                    .context("poll")
                    .into());
            }
        }
        for (on, events) in came.into_iter().filter(|(_, events)| !events.is_empty()) {
            self.react(on, events, turn)?;
        }
        self.show();
        Ok(())
    }

    fn react(&mut self, on: On, events: PollFlags, turn: Option<usize>) -> Result<(), Stop> {
        match on {
            On::Signals => {
                while let Some(came) = self.signals.next() {
                    self.obey(came)?;
                }
            }
            // The keeper never writes, so this is the end of the file.
            On::Keeper => return Err(Stop::Signal(Signal::TERM)),
            On::Input => match self.input.read(&mut self.memory) {
                Ok(()) => {}
                Err(Errno::NOMEM) if !self.queue.workers.is_empty() => self.memory.refuse(),
                Err(errno) => {
                    let after = after(self.input.read);
                    let error = Err::<(), _>(io::Error::from(errno))
                        .failed(format_args!("read from stdin{after}"));
                    self.broken = error.err();
                }
            },
            On::Output
                if events.intersects(PollFlags::ERR | PollFlags::HUP)
                    && is_pipe_or_socket(io::stdout()) =>
            {
                return Err(Stop::Closed);
            }
            On::Output => {}
            On::Stderr => self.messages.write(),
            On::Feed(at) => {
                let worker = &mut self.queue.workers[at];
                let given = worker.give(&mut self.memory);
                given.failed(format_args!(
                    "write to the worker of block {}",
                    worker.number
                ))?;
            }
            On::OutputOf(at) => {
                if turn != Some(at) && !self.has_stopped {
                    let worker = &mut self.queue.workers[at];
                    worker
                        .keep(&mut self.memory)
                        .map_err(|errno| of_worker(worker.number, errno))?;
                    self.note_end(at);
                }
            }
            On::Messages(at) => {
                let worker = &mut self.queue.workers[at];
                self.messages
                    .read(worker)
                    .map_err(|errno| of_worker(worker.number, errno))?;
                self.note_end(at);
            }
        }
        Ok(())
    }

    /// Notes when a worker has ended.
    fn note_end(&mut self, at: usize) {
        let worker = &mut self.queue.workers[at];
        if worker.has_ended() {
            worker.ended.get_or_insert_with(Instant::now);
            self.is_starved = false;
        }
    }

    fn obey(&mut self, came: Came) -> Result<(), Stop> {
        match came.signal {
            Signal::CHILD => {
                self.reap();
                Ok(())
            }
            // The terminal has stopped the workers too.
            Signal::TSTP => {
                if let Some((footer, ..)) = &mut self.progress {
                    footer.clear();
                }
                stop();
                Ok(())
            }
            Signal::CONT => Ok(()),
            signal => Err(Stop::Signal(signal)),
        }
    }

    /// Waits for all children that have ended.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let cpu = cpu_seconds(UsageWho::RUSAGE_CHILDREN);
            let took = cpu - std::mem::replace(&mut self.cpu_of_children, cpu);
            let status = ExitStatus::from_raw(status.as_raw());
            if let Some(worker) = self.queue.of(pid) {
                worker.status = Some(status);
                let slot = worker.slot;
                self.slot(slot).cpu_seconds += took;
                self.is_failing |= self.is_failure(status) && !self.options.keep_going;
            }
        }
        for at in 0..self.queue.workers.len() {
            self.note_end(at);
        }
        // A process is free, and its memory.
        self.is_starved = false;
        self.memory.try_again();
    }

    /// Draws the progress, and writes the line of the log, when they are due.
    fn show(&mut self) {
        if self.log.as_mut().is_some_and(|(_, due)| due.is_due()) {
            self.log(false);
        }
        let at = self.progress_now();
        let Some((footer, line, due)) = &mut self.progress else {
            return;
        };
        if Instant::now() < *due {
            return;
        }
        *due = Instant::now() + DRAW_EVERY;
        if !footer.is_in_the_way() {
            let text = line.line(at, None, footer.room().0);
            footer.draw(&[text]);
        }
    }

    /// Writes a line of the log, if it was asked for.
    fn log(&mut self, ended: bool) {
        let at = self.progress_now();
        if let Some((line, _)) = &mut self.log {
            say_line(line.log_line(at, None, ended));
        }
    }

    fn progress_now(&self) -> Progress {
        Progress {
            passed: Some(self.input.read),
            total: self.total,
        }
    }

    /// Returns the time until something is due.
    fn due(&self) -> Option<Duration> {
        let drawing = self.progress.as_ref().map(|(.., at)| *at);
        let line = self.log.as_ref().map(|(_, due)| due.at());
        let next = drawing.into_iter().chain(line).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Says which blocks have failed.
    fn say_failed(&self) {
        let Some(first) = self.failed.iter().min_by_key(|failed| failed.number) else {
            return;
        };
        let how = match first.status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("failed with exit code {}", code(first.status)),
        };
        let others = match (self.options.keep_going, self.failed.len()) {
            (false, _) => "; the output ends with what it has written".to_owned(),
            (true, failed) => format!(
                "; {} of {} failed",
                failed,
                counted(self.report.blocks as usize, "block", "blocks")
            ),
        };
        say(&format!("{} {how}{others}", first.text));
    }

    /// Prints the report and writes its JSON, if they were asked for.
    fn say_report(&mut self) -> Result<()> {
        let report = &mut self.report;
        report.seconds = self.began.elapsed().as_secs_f64();
        report.memory_peak_bytes = self.memory.peak;
        report.bytes_read = self.input.read;
        report.failed_blocks = self.failed.len() as u64;
        report.own_cpu_seconds = cpu_seconds(UsageWho::RUSAGE_SELF);
        report.conclude();
        if self.options.report {
            say_line(report.lines().join("\n"));
        }
        if let Some(mut file) = self.json.take() {
            let text = serde_json::to_string_pretty(report)?;
            writeln!(file, "{text}").context("write the JSON")?;
            fullbore::close(file).context("close the JSON")?;
        }
        Ok(())
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

/// Returns whether a pipe has enough to move its pages. With fewer bytes they can be mostly empty, and a pipe has only so
/// many.
fn has_spliceable(output: &OwnedFd) -> bool {
    rustix::io::ioctl_fionread(output).is_ok_and(|queued| queued >= SPLICED)
}

/// Returns whether a process or a pipe could not be made because there are too many.
fn is_shortage(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE)
    )
}

/// Returns how much was done before an error, if it was something.
fn after(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(" (after {})", amount(bytes as f64)),
    }
}

fn of_worker(number: u64, errno: Errno) -> Stop {
    let failed = Err::<(), _>(io::Error::from(errno))
        .failed(format_args!("read the output of block {number}"));
    Stop::Failed(failed.unwrap_err())
}

fn cpu_seconds(who: UsageWho) -> f64 {
    // getrusage(2) fails only for an invalid argument.
    getrusage(who).map_or(0.0, |usage| {
        (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
    })
}

fn size_of_stdin() -> Option<u64> {
    let stat = rustix::fs::fstat(rustix::stdio::stdin()).ok()?;
    (rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile)
        .then_some(stat.st_size as u64)
}

fn say(text: &str) {
    say_line(format_args!("fullbore parallel: {text}"));
}
