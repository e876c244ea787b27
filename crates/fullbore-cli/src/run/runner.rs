//! The process that runs the pipeline: it starts the stages, waits for them, and forwards signals to them.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fullbore_linux::memory_limit;
use rustix::fs::fstat;
use rustix::process::{Pid, Signal, getpid, set_child_subreaper, set_parent_process_death_signal};

use super::accept::{Accept, Codes, Outcome};
use super::enlarge::keep_enlarging;
use super::failure::Failure;
use super::holder::Others;
use super::left::{self, say};
use super::observer::{self, Observer};
use super::options::Options;
use super::place::on_cpus;
use super::plan::Plan;
use super::shelf::STDIN;
use super::signals::{Came, Signals, is_stopped, stop};
use super::start::{self, Starting};
use super::whole::Whole;
use crate::inherited;
use crate::processes::ending;
use crate::processes::guard::number as number_of;
use crate::processes::interrupt::die_of;
use crate::processes::waiting::wait_for;
use fullbore_host::machine::format_cpu_list;
use fullbore_host::size;
use fullbore_host::text::clean;
use fullbore_observe::StartedStage;
use fullbore_observe::census::link::Link;

/// How long programs may take to stop when the terminal asks them to: a program that draws restores the
/// terminal first. Some programs never stop.
pub const TO_STOP: Duration = Duration::from_secs(1);

/// The way in which `run` ends.
pub(super) enum Ending {
    Code(u8),
    Signal(i32),
}

/// Runs a pipeline for the keeper, which is at the other end of the socket.
///
/// # Errors
/// Returns [`Usage`](fullbore_host::refusal::Usage) or [`Failure`]; fails if there are too many open files,
/// pipes or processes.
pub fn run(
    others: Others<'_>,
    signals: Signals,
    plan: impl FnOnce() -> Result<Plan>,
    options: &Options,
) -> Result<ExitCode> {
    let ended = Runner::begin(&others, signals, plan, options).and_then(Runner::finish);
    // No process is left that could be ended.
    others.tell(&[1]);
    match ended? {
        Ending::Code(code) => Ok(ExitCode::from(code)),
        Ending::Signal(signal) => die_of(signal),
    }
}

/// A running pipeline.
pub(super) struct Runner<'a> {
    pub(super) others: &'a Others<'a>,
    pub(super) options: &'a Options,
    pub(super) signals: Signals,
    /// Whose other end is closed when the program that wants the pipeline is gone.
    lifeline: Option<File>,
    pub(super) stages: Vec<Started>,
    /// What `--whole` needs, if it was asked for.
    pub(super) whole: Option<Whole<'a>>,
    /// The failures of each stage that are accepted, and the write ends that are kept open to judge that.
    pub(super) accepted: Vec<Codes>,
    pub(super) held: Vec<Option<OwnedFd>>,
    pub(super) negated: bool,
    /// `None` if no report was asked for.
    pub(super) observer: Option<Observer>,
    /// The time until which to wait for the stages to stop, before this process stops as well.
    pub(super) stop_by: Option<Instant>,
    /// A signal that the stages have received, and that may or may not end them.
    pub(super) noted: Option<Signal>,
    /// The signal that ended the pipeline.
    pub(super) ended_by: Option<Signal>,
    /// Whether this process is ending or has ended the whole pipeline, so that the statuses of its processes count no
    /// more, and no stage is to see the end of its input.
    pub(super) is_ended: bool,
}

/// The first process of a stage.
pub(super) struct Started {
    /// The source of the stage, as it is printed.
    pub(super) text: String,
    pub(super) pid: Pid,
    /// The device and the inode of the pipe that it writes to.
    pub(super) pipe: Option<(u64, u64)>,
    pub(super) status: Option<ExitStatus>,
    /// What it was, once that is clear.
    pub(super) outcome: Option<Outcome>,
}

/// Makes a process whose parent has ended a child of this process, and has it notice that its keeper is gone: the socket
/// reports that, and the signal only continues a process that is stopped at that moment, so that it reads the socket.
///
/// # Errors
/// If the kernel refuses it.
pub fn stay_below_the_keeper() -> Result<()> {
    set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
    set_parent_process_death_signal(Some(Signal::CONT)).context("PR_SET_PDEATHSIG")
}

impl<'a> Runner<'a> {
    /// Starts all stages.
    fn begin(
        others: &'a Others<'a>,
        signals: Signals,
        plan: impl FnOnce() -> Result<Plan>,
        options: &'a Options,
    ) -> Result<Self> {
        stay_below_the_keeper()?;
        let plan = plan()?;
        let cpus = options.place.cpus(plan.stages.len())?;
        let accepted = Accept::of_stages(&options.accept, &plan)?;
        if options.is_whole() {
            plan.require_stages(if options.whole { "--whole" } else { "-o" })?;
        }
        if options.output.is_some() {
            plan.require_success()?;
        }
        let whole = || Whole::new(others.shelf, plan.stages.len(), options);
        let whole = options.is_whole().then(whole).transpose()?;
        let json = observer::prepare(options)?;
        let lifeline = options.lifeline.map(inherited::reader).transpose()?;
        let mut runner = Self {
            others,
            options,
            signals,
            lifeline,
            stages: Vec::with_capacity(plan.stages.len()),
            whole,
            held: accepted.iter().map(|_| None).collect(),
            accepted,
            negated: plan.negated,
            observer: None,
            stop_by: None,
            noted: None,
            ended_by: None,
            is_ended: false,
        };
        let unsplit = plan.unsplit.as_ref().map(|unsplit| unsplit.note.as_str());
        for note in unsplit.into_iter().chain(without_proc()) {
            runner.say_unless_quiet(note);
        }
        if let Err(error) = runner.start(&plan, &cpus, json) {
            // The write ends stay on the shelf.
            runner.whole = None;
            runner.end_left();
            return Err(error);
        }
        if plan.unsplit.is_some() {
            keep_enlarging(options.pipe_size);
        }
        Ok(runner)
    }

    fn start(
        &mut self,
        plan: &Plan,
        cpus: &[Option<Vec<usize>>],
        json: Option<File>,
    ) -> Result<()> {
        let last = plan.stages.len() - 1;
        let wanted = self.pipe_size(last);
        let began = Instant::now();
        let (mut growths, mut links) = (Vec::new(), Vec::new());
        let mut starting = Starting::new(&self.signals.before)?;
        if self.whole.is_some() {
            starting.tell_whole();
        }
        let mut stdin = None;
        // The stages start from the first to the last. Each pipe is made when its writer is started, and each end of
        // it is closed here as soon as its stage has it, so many stages need no more open files than a few.
        for (number, command) in plan.stages.iter().enumerate() {
            let pipe = (number < last).then(|| start::pipe(number + 1, last, wanted));
            let pipe = pipe.transpose()?;
            let mut identity = None;
            if let Some((pipe, growth)) = &pipe {
                let stat = fstat(&pipe.writer).context("fstat")?;
                identity = Some((stat.st_dev, stat.st_ino));
                if self.whole.is_some() {
                    self.others.shelf.put(number as u32, pipe.writer.as_fd())?;
                }
                self.hold_for_early(number, &pipe.writer)?;
                if self.options.watched() {
                    let fd = pipe.writer.as_raw_fd();
                    let link = Link::open(fd, number, growth.after, wanted);
                    links.push(link.context("open a pipe in /proc/self/fd")?);
                }
                growths.push(*growth);
            }
            let (next, stdout) = pipe.map(|(pipe, _)| (pipe.reader, pipe.writer)).unzip();
            let output = self.whole.as_ref().and_then(Whole::output);
            let ends = [&stdin, &stdout].map(|end| end.as_ref().map(AsFd::as_fd));
            let ends = [ends[0], ends[1].or(output)];
            let cpus = cpus[number].as_deref();
            let pid = on_cpus(cpus, || starting.start(command, [ends[0], ends[1], None]))
                .with_context(|| format!("place stage {} on its CPUs", number + 1))?
                .map_err(|error| Failure::not_started(command, number + 1, &error))?;
            ending::note_started(number_of(pid));
            let text = command.text.to_string_lossy().replace(['\n', '\t'], " ");
            let text = clean(text.trim());
            if self.options.verbose {
                let on = cpus.map(|cpus| format!(", on CPU {}", format_cpu_list(cpus)));
                let (number, on) = (number + 1, on.unwrap_or_default());
                say(&format!("stage {number}, process {pid}{on}: {text}"));
            }
            let (status, outcome) = (None, None);
            self.stages.push(Started {
                text,
                pid,
                pipe: identity,
                status,
                outcome,
            });
            stdin = next;
        }
        // Without /proc, the others cannot find them.
        let pids = self.stages.iter().map(|stage| stage.pid.as_raw_nonzero());
        let pids: Vec<u8> = pids.flat_map(|pid| pid.get().to_ne_bytes()).collect();
        self.others.tell(&pids);
        if let Some(note) = start::too_small(&growths, wanted) {
            self.say_unless_quiet(&note);
        }
        if self.options.watched() {
            let stages = plan.stages.iter().zip(&self.stages);
            let stages = stages.map(|(command, started)| {
                let text = command.text.to_string_lossy().trim().to_owned();
                StartedStage {
                    command: text.clone(),
                    text,
                    pid: number_of(started.pid),
                }
            });
            let output = self.whole.as_ref().and_then(Whole::output);
            let stages = stages.collect();
            let observer = Observer::new(self.options, json, stages, links, began, output)?;
            self.observer = Some(observer);
        }
        // A signal that came before all stages were started may not have reached all of them.
        while let Some(came) = self.signals.next() {
            self.obey(Came {
                by_a_process: true,
                ..came
            });
        }
        Ok(())
    }

    /// Returns the capacity that each of `pipes` pipes is to have.
    fn pipe_size(&self, pipes: usize) -> usize {
        let wanted = self.options.pipe_size;
        let memory = memory_limit();
        let affordable = fullbore_observe::affordable(pipes, wanted, memory);
        if pipes > 0 && affordable < wanted {
            let [has, wanted] = [affordable, wanted].map(|bytes| size::format(bytes as u64));
            let memory = size::format(memory.unwrap_or_default());
            self.say_unless_quiet(&format!(
"pipes of {has} instead of {wanted}: the cgroup of this process may use {memory} of memory"
));
        }
        affordable
    }

    /// Waits for all stages, and for what they have left behind.
    fn finish(mut self) -> Result<Ending> {
        self.wait_for_the_stages();
        if let Some(why) = self.stalled() {
            return self.end_stalled(&why);
        }
        let reported = match self.observer.take() {
            Some(observer) => observer.report(self.options),
            None => Ok(()),
        };
        if !self.has_failed() {
            self.wait_for_the_background();
        }
        if self.has_failed() {
            self.wait_for_the_stages();
            self.say_failures();
        }
        reported?;
        let ending = self.ending();
        // A '!' inverts the code, and not what became of the stages.
        let all_succeeded = matches!(ending, Ending::Code(_)) && self.status().success();
        if let Some(whole) = self.whole.as_mut().filter(|_| all_succeeded) {
            whole.put_in_place(self.options.at_least)?;
        }
        Ok(ending)
    }

    /// Waits until signals come or the keeper is gone, but no longer than `left`, and does what follows from that.
    pub(super) fn wait(&mut self, left: Option<Duration>, obey: impl Fn(&mut Self, Came)) {
        let fds = [self.signals.as_fd(), self.others.keeper.as_fd()];
        let lifeline = self.lifeline.as_ref().map(AsFd::as_fd);
        let fds: Vec<_> = fds.into_iter().chain(lifeline).collect();
        let came = wait_for(&fds, left);
        while let Some(came) = self.signals.next() {
            obey(self, came);
        }
        let is_gone = came[1] || came.get(2) == Some(&true) && !self.has_all_of_stdin();
        if is_gone && self.ended_by.is_none() {
            // The keeper writes nothing, so this is the end of the file.
            self.end_all(Signal::TERM);
        }
        self.stop_with_the_others();
    }

    /// Lets the first stage see the end of its input if a byte has come through the lifeline; otherwise, its other end is
    /// closed.
    fn has_all_of_stdin(&mut self) -> bool {
        let read = self.lifeline.as_mut().map(|file| file.read(&mut [0]));
        matches!(read, Some(Ok(1))) && self.others.shelf.release(STDIN as usize).is_ok()
    }

    pub(super) fn obey(&mut self, came: Came) {
        match came.signal {
            Signal::CHILD => self.reap(),
            Signal::TSTP => {
                if let Some(observer) = &mut self.observer {
                    observer.stops();
                }
                self.stop_by = Some(Instant::now() + TO_STOP);
            }
            Signal::CONT => {
                self.stop_by = None;
                if let Some(observer) = &mut self.observer {
                    observer.continues();
                }
            }
            // Each stage decides what the signal means to it, as under a shell.
            Signal::INT | Signal::QUIT => {
                self.noted = Some(came.signal);
                if came.by_a_process {
                    let is_whole = self.options.is_whole();
                    self.others.shelf.with_all_stopped(is_whole, |stopped| {
                        ending::tell(ending::living, came.signal, stopped);
                    });
                }
            }
            signal => self.end_all(signal),
        }
    }

    /// Stops this process when all stages have stopped, and not before: the shell that waits for this process
    /// then takes the terminal back, and records its settings.
    fn stop_with_the_others(&mut self) {
        let Some(latest) = self.stop_by else {
            return;
        };
        let are_stopped = self.running().all(|(_, pid)| is_stopped(pid));
        if are_stopped || Instant::now() >= latest {
            self.stop_by = None;
            stop();
        }
    }

    pub(super) fn end_all(&mut self, signal: Signal) {
        self.ended_by = Some(signal);
        self.end(signal);
    }

    /// Returns whether all stages were told to end, by a signal or because of a failure.
    pub(super) fn is_over(&self) -> bool {
        self.is_ended || self.ended_by.is_some()
    }

    /// Ends what is still running, and returns when it has ended or cannot be ended. With `--whole`, no stage sees an end
    /// of its input. The statuses of the stages do not count any more: the caller decides the exit code.
    pub(super) fn end_left(&mut self) {
        self.is_ended = true;
        self.end(Signal::TERM);
    }

    /// Ends all processes, and says which could not be ended.
    fn end(&mut self, signal: Signal) {
        let (shelf, grace, is_held) = (
            self.others.shelf,
            self.options.grace,
            self.options.is_held(),
        );
        left::end_all(shelf, is_held, signal, grace, || self.reap());
    }

    /// Returns the stages that are running, by their numbers, and their first processes.
    pub(super) fn running(&self) -> impl Iterator<Item = (usize, Pid)> {
        let stages = self.stages.iter().enumerate();
        let running = stages.filter(|(_, stage)| stage.status.is_none());
        running.map(|(number, stage)| (number, stage.pid))
    }

    pub(super) fn say_unless_quiet(&self, text: &str) {
        if !self.options.quiet {
            say(text);
        }
    }
}

/// Returns a note about what cannot be promised without /proc.
fn without_proc() -> Option<&'static str> {
    (!ending::proc_is_ours()).then_some(
        "/proc is missing or belongs to another PID namespace: fullbore can end only the first process of each stage, \
         and not the processes that it has started",
    )
}
