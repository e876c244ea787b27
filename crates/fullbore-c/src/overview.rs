//! The results of watching, as structures for C.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use fullbore_observe::Cause;
use fullbore_observe::census::Process;
use fullbore_observe::census::chains::PipeKind;
use fullbore_observe::overview::{ChainState, Overview, PipeState, Side, Slow, StageState};
use fullbore_observe::verdict::numbers::Certainty;
use fullbore_observe::verdict::{Bound, Sureness, VerdictKind};

use crate::call::{Failure, number, status};
use crate::handle::{Handle, free, given, some};

/// There is no verdict: the pipeline is not watched.
pub const FULLBORE_VERDICT_NONE: i32 = 0;
/// One stage is slow; `bound` says what it spends its time on.
pub const FULLBORE_VERDICT_STAGE: i32 = 1;
/// Several stages are slow together, at the same time.
pub const FULLBORE_VERDICT_SHARED: i32 = 2;
/// Several stages are slow at different times.
pub const FULLBORE_VERDICT_BY_TURNS: i32 = 3;
/// There are too few CPUs for all stages that could run.
pub const FULLBORE_VERDICT_CPUS: i32 = 4;
/// No stage is slow: the time is spent on wakeups.
pub const FULLBORE_VERDICT_WAKING: i32 = 5;
/// No stage is clearly slow.
pub const FULLBORE_VERDICT_NOBODY: i32 = 6;
/// The time of observation was too short.
pub const FULLBORE_VERDICT_TOO_SHORT: i32 = 7;
/// There is only one stage.
pub const FULLBORE_VERDICT_ALONE: i32 = 8;

/// A verdict may be wrong.
pub const FULLBORE_SURENESS_NOT_SURE: i32 = 0;
/// Most observations agree with a verdict.
pub const FULLBORE_SURENESS_LIKELY: i32 = 1;
/// All observations agree with a verdict.
pub const FULLBORE_SURENESS_SURE: i32 = 2;

/// No slow stage is named.
pub const FULLBORE_BOUND_NONE: i32 = 0;
/// The slow stage runs.
pub const FULLBORE_BOUND_CPU: i32 = 1;
/// The slow stage waits for a CPU.
pub const FULLBORE_BOUND_QUEUE: i32 = 2;
/// The slow stage waits for a file or a device.
pub const FULLBORE_BOUND_DISK: i32 = 3;
/// The slow stage waits for a socket.
pub const FULLBORE_BOUND_NETWORK: i32 = 4;
/// The slow stage waits for a terminal.
pub const FULLBORE_BOUND_TERMINAL: i32 = 5;
/// The slow stage waits for one of several descriptors, in poll(2) or a similar call.
pub const FULLBORE_BOUND_SEVERAL: i32 = 6;
/// The slow stage waits for a timer.
pub const FULLBORE_BOUND_TIMER: i32 = 7;
/// The slow stage was stopped.
pub const FULLBORE_BOUND_STOPPED: i32 = 8;
/// The slow stage waits for a pipe that is not between two stages.
pub const FULLBORE_BOUND_OTHER_PIPE: i32 = 9;
/// The slow stage waits for a lock.
pub const FULLBORE_BOUND_LOCK: i32 = 10;
/// The slow stage waits for a signal.
pub const FULLBORE_BOUND_SIGNAL: i32 = 11;
/// The slow stage waits for a process that it started.
pub const FULLBORE_BOUND_CHILD: i32 = 12;
/// It is unknown what the slow stage waits for.
pub const FULLBORE_BOUND_UNKNOWN: i32 = 13;

/// A pipe leads from one process to another, as the stdin, stdout or stderr of one of them.
pub const FULLBORE_USE_LINK: i32 = 1;
/// A pipe leads from one process to another, and is not the stdin, stdout or stderr of either.
pub const FULLBORE_USE_PRIVATE: i32 = 2;
/// Every process that has the pipe open has both of its ends.
pub const FULLBORE_USE_OWN: i32 = 3;
/// No visible process has the other end of the pipe open.
pub const FULLBORE_USE_ONE_SIDED: i32 = 4;

/// A number is not known.
pub const FULLBORE_CERTAINTY_UNKNOWN: i32 = 0;
/// A number may include other files.
pub const FULLBORE_CERTAINTY_ABOUT: i32 = 1;
/// Both sides counted the same number.
pub const FULLBORE_CERTAINTY_COUNTED: i32 = 2;

/// It is unknown which side of a pipe is slow.
pub const FULLBORE_SLOW_UNKNOWN: i32 = 0;
/// The writer of a pipe is slow, or a stage before it.
pub const FULLBORE_SLOW_WRITER: i32 = 1;
/// The reader of a pipe is slow, or a stage after it.
pub const FULLBORE_SLOW_READER: i32 = 2;
/// Both sides are about equally slow, or take turns in being slow.
pub const FULLBORE_SLOW_BOTH: i32 = 3;
/// Neither side is slow: there are too few CPUs.
pub const FULLBORE_SLOW_CPUS: i32 = 4;

/// A pipeline without branches. Later versions may add to its end.
#[repr(C)]
pub struct fullbore_chain {
    /// The number of stages, for fullbore_overview_stage.
    pub stages: usize,
    /// The number of pipes, for fullbore_overview_chain_pipe: one less than the number of stages.
    pub pipes: usize,
    /// The number of stages that the verdict names, for fullbore_overview_slow_stage.
    pub slow_stages: usize,
    /// The verdict in words, as one line of UTF-8; NULL if there is none.
    pub words: *const c_char,
    /// Which stage is slow: FULLBORE_VERDICT_...
    pub verdict: i32,
    /// How sure the verdict is: FULLBORE_SURENESS_NOT_SURE, FULLBORE_SURENESS_LIKELY or FULLBORE_SURENESS_SURE.
    pub sure: i32,
    /// What the slow stage of FULLBORE_VERDICT_STAGE spends its time on: FULLBORE_BOUND_...
    pub bound: i32,
    /// 1 if its last stage writes to its first, otherwise 0.
    pub is_circle: i32,
}

/// A stage of a chain, and its activity in the last seconds. Shares are from 0 to 1, and NAN if they are unknown. Later
/// versions may add to its end.
#[repr(C)]
pub struct fullbore_stage {
    /// The number of processes, for fullbore_overview_stage_process. It is 0 if no process has both pipes open any
    /// more.
    pub processes: usize,
    /// The number of CPUs that it kept busy.
    pub cpus: f64,
    /// The share of the time in which the other stages waited for it.
    pub blame: f64,
    /// The share in which at least one of its threads ran.
    pub ran: f64,
    /// The share in which it waited for a CPU.
    pub waited_for_cpu: f64,
    /// The share in which it waited for the stage before it.
    pub waited_for_input: f64,
    /// The share in which it waited for the stage after it.
    pub waited_for_output: f64,
    /// The share in which it waited for anything else.
    pub waited_elsewhere: f64,
}

/// A process. Later versions may add to its end.
#[repr(C)]
pub struct fullbore_process {
    /// When it started, in clock ticks since boot: with `pid` this identifies it.
    pub start: u64,
    /// Its name, at most 15 bytes.
    pub name: *const c_char,
    /// Its arguments, truncated to 200 characters, as one line that is safe to print.
    pub command: *const c_char,
    /// Its process id.
    pub pid: u32,
    /// The user id of its owner.
    pub uid: u32,
}

/// A pipe. Shares and rates are those of the last seconds, and NAN if they are unknown; whole numbers are then -1.
/// Later versions may add to its end.
#[repr(C)]
pub struct fullbore_pipe_state {
    /// The device number of its inode, which with `inode` identifies it.
    pub device: u64,
    /// The number of its inode.
    pub inode: u64,
    /// The path of a FIFO; NULL for another pipe.
    pub path: *const c_char,
    /// Why its capacity and its queued bytes could not be read; NULL if they were read.
    pub closed: *const c_char,
    /// The index of the chain that it is part of, or -1.
    pub chain: i64,
    /// The number of processes that write to it, for fullbore_overview_pipe_writer.
    pub writers: usize,
    /// The number of processes that read from it, for fullbore_overview_pipe_reader.
    pub readers: usize,
    /// Its capacity in bytes.
    pub capacity: i64,
    /// Bytes that are queued in it.
    pub queued: i64,
    /// Bytes that went through it since it was first seen.
    pub bytes: i64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// The share of the time in which it was empty.
    pub empty: f64,
    /// The share in which it was full, or its writer waited for room in it.
    pub full: f64,
    /// The share in which its writer waited for room in it.
    pub writer_waits: f64,
    /// The share in which its reader waited for bytes.
    pub reader_waits: f64,
    /// For how many seconds, at least, its writer has been waiting; NAN if it is not waiting.
    pub writer_blocked: f64,
    /// For how many seconds, at least, its reader has been waiting; NAN if it is not waiting.
    pub reader_blocked: f64,
    /// Its use: FULLBORE_USE_...
    pub use_of: i32,
    /// The certainty of `bytes`: FULLBORE_CERTAINTY_...
    pub bytes_are: i32,
    /// The certainty of `bytes_per_second`: FULLBORE_CERTAINTY_...
    pub rate_is: i32,
    /// The slow side, according to the verdict of its chain: FULLBORE_SLOW_...
    pub slow: i32,
    /// The user id of its creator.
    pub owner: u32,
}

/// The state of all pipelines and pipes at one scan. It is immutable.
pub struct fullbore_overview {
    overview: Overview,
    chains: Vec<Chain>,
    pipes: Vec<PipeParts>,
    json: CString,
    /// The text that the structures point to.
    _text: Vec<CString>,
}

struct Chain {
    shown: fullbore_chain,
    stages: Vec<Stage>,
    /// The indexes of the slow stages, from 0.
    slow: Vec<usize>,
}

struct Stage {
    shown: fullbore_stage,
    processes: Vec<fullbore_process>,
}

struct PipeParts {
    shown: fullbore_pipe_state,
    writers: Vec<fullbore_process>,
    readers: Vec<fullbore_process>,
}

// SAFETY: the pointers are to text of the overview itself, which is immutable.
unsafe impl Send for fullbore_overview {}
// SAFETY: as above.
unsafe impl Sync for fullbore_overview {}

impl Handle for fullbore_overview {
    const NAME: &str = "overview";

    fn is_unused(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Text for C. The bytes of a `CString` do not move with it.
#[derive(Default)]
struct Texts(Vec<CString>);

impl Texts {
    fn add(&mut self, text: &str) -> *const c_char {
        let text = c_text(text);
        let at = text.as_ptr();
        self.0.push(text);
        at
    }

    fn add_some(&mut self, text: Option<&str>) -> *const c_char {
        text.map_or(ptr::null(), |text| self.add(text))
    }

    fn process(&mut self, process: &Process) -> fullbore_process {
        fullbore_process {
            start: process.id.start,
            name: self.add(&process.name),
            command: self.add(&process.command),
            pid: process.id.pid,
            uid: process.uid,
        }
    }

    fn processes(&mut self, processes: &[Process]) -> Vec<fullbore_process> {
        processes
            .iter()
            .map(|process| self.process(process))
            .collect()
    }

    fn stage(&mut self, stage: &StageState) -> Stage {
        let share = |which: fn(&fullbore_observe::verdict::numbers::Shares) -> f64| {
            stage.time.as_ref().map_or(f64::NAN, which)
        };
        Stage {
            shown: fullbore_stage {
                processes: stage.processes.len(),
                cpus: stage.cpus.unwrap_or(f64::NAN),
                blame: stage.blame.unwrap_or(f64::NAN),
                ran: share(|time| time.ran),
                waited_for_cpu: share(|time| time.waited_for_cpu),
                waited_for_input: share(|time| time.waited_for_input),
                waited_for_output: share(|time| time.waited_for_output),
                waited_elsewhere: share(|time| time.waited_elsewhere),
            },
            processes: self.processes(&stage.processes),
        }
    }

    fn chain(&mut self, chain: &ChainState) -> Chain {
        let verdict = chain.verdict.as_ref();
        let slow: Vec<usize> = verdict.map_or_else(Vec::new, |verdict| {
            // A verdict counts stages from 1.
            verdict.stages.iter().map(|number| number - 1).collect()
        });
        Chain {
            shown: fullbore_chain {
                stages: chain.stages.len(),
                pipes: chain.pipes.len(),
                slow_stages: slow.len(),
                words: self.add_some(verdict.map(|verdict| verdict.words.as_str())),
                verdict: verdict.map_or(FULLBORE_VERDICT_NONE, |it| number_of_verdict(it.kind)),
                sure: verdict.map_or(FULLBORE_SURENESS_NOT_SURE, |verdict| match verdict.sure {
                    Sureness::NotSure => FULLBORE_SURENESS_NOT_SURE,
                    Sureness::Likely => FULLBORE_SURENESS_LIKELY,
                    Sureness::Sure => FULLBORE_SURENESS_SURE,
                }),
                bound: (verdict.and_then(|verdict| verdict.bound_by))
                    .map_or(FULLBORE_BOUND_NONE, number_of_bound),
                is_circle: chain.is_circle.into(),
            },
            stages: chain.stages.iter().map(|stage| self.stage(stage)).collect(),
            slow,
        }
    }

    fn pipe(&mut self, pipe: &PipeState) -> PipeParts {
        let blocked = |side: Side| {
            let waiting = pipe.blocked.iter().find(|blocked| blocked.side == side);
            waiting.map_or(f64::NAN, |blocked| blocked.seconds)
        };
        PipeParts {
            shown: fullbore_pipe_state {
                device: pipe.device,
                inode: pipe.inode,
                path: self.add_some(pipe.path.as_deref()),
                closed: self.add_some(pipe.closed.as_deref()),
                chain: whole(pipe.chain),
                writers: pipe.writers.len(),
                readers: pipe.readers.len(),
                capacity: whole(pipe.capacity),
                queued: whole(pipe.queued),
                bytes: whole(pipe.bytes.bytes),
                bytes_per_second: pipe.bytes_per_second.unwrap_or(f64::NAN),
                empty: pipe.empty.unwrap_or(f64::NAN),
                full: pipe.full.unwrap_or(f64::NAN),
                writer_waits: pipe.writer_waits.unwrap_or(f64::NAN),
                reader_waits: pipe.reader_waits.unwrap_or(f64::NAN),
                writer_blocked: blocked(Side::Writer),
                reader_blocked: blocked(Side::Reader),
                use_of: match pipe.kind {
                    PipeKind::Link => FULLBORE_USE_LINK,
                    PipeKind::Private => FULLBORE_USE_PRIVATE,
                    PipeKind::Own => FULLBORE_USE_OWN,
                    PipeKind::OneSided => FULLBORE_USE_ONE_SIDED,
                },
                bytes_are: number_of_certainty(pipe.bytes.bytes_are),
                rate_is: number_of_certainty(pipe.rate_is),
                slow: match pipe.slow {
                    Slow::Unknown => FULLBORE_SLOW_UNKNOWN,
                    Slow::Writer => FULLBORE_SLOW_WRITER,
                    Slow::Reader => FULLBORE_SLOW_READER,
                    Slow::Both => FULLBORE_SLOW_BOTH,
                    Slow::Cpus => FULLBORE_SLOW_CPUS,
                },
                owner: pipe.owner,
            },
            writers: self.processes(&pipe.writers),
            readers: self.processes(&pipe.readers),
        }
    }
}

fn c_text(text: &str) -> CString {
    // A NUL would truncate the text.
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Returns a whole number, or -1 if it is unknown.
fn whole<N: TryInto<i64>>(number: Option<N>) -> i64 {
    number.map_or(-1, |number| number.try_into().unwrap_or(i64::MAX))
}

fn number_of_verdict(kind: VerdictKind) -> i32 {
    match kind {
        VerdictKind::Stage => FULLBORE_VERDICT_STAGE,
        VerdictKind::Shared => FULLBORE_VERDICT_SHARED,
        VerdictKind::ByTurns => FULLBORE_VERDICT_BY_TURNS,
        VerdictKind::Cpus => FULLBORE_VERDICT_CPUS,
        VerdictKind::Waking => FULLBORE_VERDICT_WAKING,
        VerdictKind::Nobody => FULLBORE_VERDICT_NOBODY,
        VerdictKind::TooShort => FULLBORE_VERDICT_TOO_SHORT,
        VerdictKind::Alone => FULLBORE_VERDICT_ALONE,
    }
}

fn number_of_bound(bound: Bound) -> i32 {
    match bound {
        Bound::Cpu => FULLBORE_BOUND_CPU,
        Bound::Queue => FULLBORE_BOUND_QUEUE,
        Bound::Cause(cause) => match cause {
            Cause::Disk => FULLBORE_BOUND_DISK,
            Cause::Network => FULLBORE_BOUND_NETWORK,
            Cause::Terminal => FULLBORE_BOUND_TERMINAL,
            Cause::Several => FULLBORE_BOUND_SEVERAL,
            Cause::Timer => FULLBORE_BOUND_TIMER,
            Cause::Stopped => FULLBORE_BOUND_STOPPED,
            Cause::OtherPipe => FULLBORE_BOUND_OTHER_PIPE,
            Cause::Lock => FULLBORE_BOUND_LOCK,
            Cause::Signal => FULLBORE_BOUND_SIGNAL,
            Cause::Child => FULLBORE_BOUND_CHILD,
            Cause::Unknown => FULLBORE_BOUND_UNKNOWN,
        },
    }
}

fn number_of_certainty(certainty: Certainty) -> i32 {
    match certainty {
        Certainty::Unknown => FULLBORE_CERTAINTY_UNKNOWN,
        Certainty::About => FULLBORE_CERTAINTY_ABOUT,
        Certainty::Counted => FULLBORE_CERTAINTY_COUNTED,
    }
}

impl fullbore_overview {
    pub fn of(overview: Overview) -> Self {
        let mut texts = Texts::default();
        let json = serde_json::to_string(&overview).unwrap_or_default();
        Self {
            chains: overview
                .chains
                .iter()
                .map(|chain| texts.chain(chain))
                .collect(),
            pipes: overview.pipes.iter().map(|pipe| texts.pipe(pipe)).collect(),
            json: c_text(&json),
            _text: texts.0,
            overview,
        }
    }

    fn stage(&self, chain: usize, stage: usize) -> Option<&Stage> {
        self.chains.get(chain)?.stages.get(stage)
    }
}

/// Returns a pointer to a part, or null if it does not exist.
fn part<T>(part: Option<&T>) -> *const T {
    part.map_or(ptr::null(), ptr::from_ref)
}

/// Returns the number of chains; -EINVAL if `overview` is NULL.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_chains(overview: *const fullbore_overview) -> i64 {
    number(None, || Ok(given(overview)?.chains.len() as u64))
}

/// Returns the number of pipes; -EINVAL if `overview` is NULL.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_pipes(overview: *const fullbore_overview) -> i64 {
    number(None, || Ok(given(overview)?.pipes.len() as u64))
}

/// Returns the number of processes that could not be examined, because this user lacks the permission, or because they
/// have too many files open; -EINVAL if `overview` is NULL.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_unseen(overview: *const fullbore_overview) -> i64 {
    number(None, || {
        let unseen = given(overview)?.overview.unseen;
        Ok((unseen.of_others + unseen.of_this_user + unseen.too_many_fds) as u64)
    })
}

/// Returns 1 if /proc shows no processes of other users, otherwise 0; -EINVAL if `overview` is NULL.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_others_hidden(overview: *const fullbore_overview) -> c_int {
    status(None, || {
        Ok(given(overview)?.overview.unseen.others_hidden.into())
    })
}

/// Returns a chain, by its index from 0; NULL if there is none, or `overview` is NULL. It is valid until the overview
/// is freed.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_chain(
    overview: *const fullbore_overview,
    chain: usize,
) -> *const fullbore_chain {
    part(some(overview).and_then(|it| Some(&it.chains.get(chain)?.shown)))
}

/// Returns a stage of a chain, by its index from 0; NULL if there is none, or `overview` is NULL. It is valid until the
/// overview is freed.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_stage(
    overview: *const fullbore_overview,
    chain: usize,
    stage: usize,
) -> *const fullbore_stage {
    part(some(overview).and_then(|it| Some(&it.stage(chain, stage)?.shown)))
}

/// Returns a process of a stage, by its index from 0: the first one names the stage. NULL if there is none, or
/// `overview` is NULL. It is valid until the overview is freed.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_stage_process(
    overview: *const fullbore_overview,
    chain: usize,
    stage: usize,
    process: usize,
) -> *const fullbore_process {
    part(some(overview).and_then(|it| it.stage(chain, stage)?.processes.get(process)))
}

/// Returns the index of a pipe of a chain, for fullbore_overview_pipe, by its position in the chain from 0, in the
/// direction of the bytes; -EINVAL if there is none, or `overview` is NULL.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_chain_pipe(
    overview: *const fullbore_overview,
    chain: usize,
    place: usize,
) -> i64 {
    number(None, || {
        let chains = &given(overview)?.overview.chains;
        let pipe = chains.get(chain).and_then(|chain| chain.pipes.get(place));
        let pipe = pipe.ok_or_else(|| Failure::invalid("there is no such pipe"))?;
        Ok(*pipe as u64)
    })
}

/// Returns the index, from 0, of a stage that the verdict of a chain names, by its position among those stages from 0;
/// -EINVAL if there is none, or `overview` is NULL.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_slow_stage(
    overview: *const fullbore_overview,
    chain: usize,
    place: usize,
) -> i64 {
    number(None, || {
        let chains = &given(overview)?.chains;
        let stage = chains.get(chain).and_then(|chain| chain.slow.get(place));
        let stage = stage.ok_or_else(|| Failure::invalid("there is no such stage"))?;
        Ok(*stage as u64)
    })
}

/// Returns a pipe, by its index from 0; NULL if there is none, or `overview` is NULL. It is valid until the overview is
/// freed.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_pipe(
    overview: *const fullbore_overview,
    pipe: usize,
) -> *const fullbore_pipe_state {
    part(some(overview).and_then(|it| Some(&it.pipes.get(pipe)?.shown)))
}

/// Returns a process that writes to a pipe, by its index from 0; NULL if there is none, or `overview` is NULL. It is
/// valid until the overview is freed.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_pipe_writer(
    overview: *const fullbore_overview,
    pipe: usize,
    process: usize,
) -> *const fullbore_process {
    part(some(overview).and_then(|it| it.pipes.get(pipe)?.writers.get(process)))
}

/// Returns a process that reads from a pipe, by its index from 0; NULL if there is none, or `overview` is NULL. It is
/// valid until the overview is freed.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_pipe_reader(
    overview: *const fullbore_overview,
    pipe: usize,
    process: usize,
) -> *const fullbore_process {
    part(some(overview).and_then(|it| it.pipes.get(pipe)?.readers.get(process)))
}

/// Returns the whole overview as JSON, with the keys of `fullbore top --json`; NULL if `overview` is NULL. It is valid
/// until the overview is freed.
///
/// Threads: any, several at a time.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_json(overview: *const fullbore_overview) -> *const c_char {
    some(overview).map_or(ptr::null(), |overview| overview.json.as_ptr())
}

/// Frees an overview, and everything that was returned from it. NULL is allowed.
///
/// Threads: any, once no other call uses this overview.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_free(overview: *mut fullbore_overview) {
    free(overview);
}
