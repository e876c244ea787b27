//! A process: what its threads do at this moment, and the resources that it has used.
//!
//! The files that are read often stay open, which makes a sample three times cheaper. Because they
//! do, another process that gets the same id is never mistaken for this one.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fullbore_process::proc_directory;
use procfs::process::{Io, Schedstat, Stat};
use rustix::fs::CWD;

use crate::census::ProcessId;
use crate::census::proc_files::pipe_at;
use crate::sampling::attribution::Part;
use crate::sampling::process_files::{call, cpu_time, parsed, read};
use crate::sampling::resources::{Activity, Used};
use crate::sampling::waiting::{self, Doing, Object, On};

/// The most threads that are sampled; a process may have thousands.
pub const THREADS: usize = 32;

/// Returns whether all threads of a process wait for the end of a child, or for a signal, at this
/// moment.
pub fn awaits_a_child(pid: u32) -> bool {
    let mut part = Part::Ended;
    let Some(mut process) = Watched::new(pid) else {
        return false;
    };
    process.sample(|doing| {
        part = part.max(Part::of(doing));
        part <= Part::AwaitsChild
    });
    part == Part::AwaitsChild
}

/// A process that is sampled repeatedly.
#[derive(Debug)]
pub struct Watched {
    pub id: ProcessId,
    /// The process id of its parent.
    pub parent: u32,
    stat: File,
    io: Option<File>,
    threads: Vec<Thread>,
    /// Some of its threads have ended since they were listed.
    changed: bool,
    stopped: bool,
    /// It has more threads than are sampled.
    pub has_hidden_threads: bool,
    /// The kinds of its fds, as far as they were determined recently.
    objects: Vec<(i32, Object)>,
    /// The resources that it had used when it was last [refreshed](Self::refresh).
    pub used: Used,
    /// CPU time of its own, without its children, and the part of it that
    /// [`own_growth`](Self::own_growth) has not returned yet.
    own: Duration,
    growth: Duration,
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    syscall: Option<File>,
    schedstat: Option<File>,
    children: Option<File>,
    last: Option<Schedstat>,
    /// Whether the last check found that it has not run since the check before.
    has_slept: bool,
}

impl Watched {
    /// Opens the process, if it exists.
    pub fn new(pid: u32) -> Option<Self> {
        let mut watched = Self {
            id: ProcessId { pid, start: 0 },
            parent: 0,
            stat: File::open(format!("/proc/{pid}/stat")).ok()?,
            io: File::open(proc_directory(pid).join("io")).ok(),
            threads: Vec::new(),
            changed: true,
            stopped: false,
            has_hidden_threads: false,
            objects: Vec::new(),
            used: Used::NOTHING,
            own: Duration::ZERO,
            growth: Duration::ZERO,
        };
        if watched.io.is_none() {
            watched.used = Used::UNCOUNTED;
        }
        watched.refresh().then_some(watched)
    }

    /// Calls `each` with what each of its threads does, until `each` returns false.
    pub fn sample(&mut self, mut each: impl FnMut(Doing) -> bool) {
        for at in 0..self.threads.len() {
            let doing = self.doing(at);
            self.changed |= doing == Doing::Ended;
            if !each(doing) {
                return;
            }
        }
    }

    fn doing(&mut self, at: usize) -> Doing {
        if self.stopped {
            return Doing::Stopped;
        }
        let mut buffer = [0; 256];
        let said = match &self.threads[at].syscall {
            Some(file) => read(file, &mut buffer),
            None => Err(io::ErrorKind::PermissionDenied.into()),
        };
        match said {
            Ok("running\n") => Doing::Runs,
            Ok(line) => {
                let (number, arguments) = call(line);
                let tid = self.threads[at].tid;
                match waiting::in_call(number, &arguments, |fd| self.object(fd)) {
                    None => self.by_state(tid),
                    // The function shows which side it waits for.
                    Some(on @ On::Move { .. }) => {
                        let function = self.in_function(tid);
                        Doing::Waits(function.map_or(on, |function| on.in_function_too(function)))
                    }
                    Some(on) => Doing::Waits(on),
                }
            }
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Doing::Ended,
            Err(_) => self.by_state(self.threads[at].tid),
        }
    }

    /// Returns what a thread does as far as this can be known without permission to trace it, or
    /// without a known call.
    fn by_state(&self, tid: i32) -> Doing {
        let path = format!("/proc/{}/task/{tid}/stat", self.id.pid);
        let stat = match File::open(path) {
            Ok(file) => parsed::<Stat>(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // This process may have too many files open.
            Err(_) => return Doing::Waits(On::Unknown),
        };
        let Some(stat) = stat else {
            return Doing::Ended;
        };
        match stat.state {
            'R' => Doing::Runs,
            'Z' | 'X' | 'x' => Doing::Ended,
            'T' | 't' => Doing::Stopped,
            state => Doing::Waits(match (self.in_function(tid), state) {
                (Some(on), _) => on,
                (None, 'D') => On::Disk,
                (None, _) => On::Unknown,
            }),
        }
    }

    /// Returns what a thread waits for in the kernel function that it sleeps in.
    fn in_function(&self, tid: i32) -> Option<On> {
        let name = std::fs::read_to_string(format!("/proc/{}/task/{tid}/wchan", self.id.pid));
        waiting::in_function(&name.ok()?)
    }

    fn object(&mut self, fd: i32) -> Object {
        if let Some((_, object)) = self.objects.iter().find(|(known, _)| *known == fd) {
            return *object;
        }
        let path = proc_directory(self.id.pid).join(format!("fd/{fd}"));
        let object = rustix::fs::readlink(&path, Vec::new())
            .map_or(Object::Other, |link| waiting::object(link.as_bytes()));
        let object = match object {
            // The link of a FIFO is its path.
            Object::File => fifo(path).map_or(Object::File, Object::Pipe),
            other => other,
        };
        self.objects.push((fd, object));
        object
    }

    /// Reads the resources that it has used, and forgets the kinds of its fds. Returns whether it still
    /// exists, even as a zombie.
    pub fn refresh(&mut self) -> bool {
        self.objects.clear();
        let Some(stat) = parsed::<Stat>(&self.stat) else {
            return false;
        };
        self.id.start = stat.starttime;
        self.parent = stat.ppid.max(0) as u32;
        self.stopped = matches!(stat.state, 'T' | 't');
        let had_hidden_threads = self.has_hidden_threads;
        self.has_hidden_threads = stat.num_threads > THREADS as i64;
        if self.changed || stat.num_threads.min(THREADS as i64) != self.threads.len() as i64 {
            self.list_threads(had_hidden_threads);
        }
        let tick = 1.0 / procfs::ticks_per_second() as f64;
        let of_children = (stat.cutime + stat.cstime).max(0) as f64 * tick;
        let own = cpu_time(self.id.pid)
            .unwrap_or_else(|| Duration::from_secs_f64((stat.utime + stat.stime) as f64 * tick));
        self.growth += own.saturating_sub(self.own);
        self.own = own;
        let io = self.io.as_ref().and_then(parsed::<Io>);
        self.used = Used {
            cpu: own + Duration::from_secs_f64(of_children),
            read: io.map(|io| io.rchar).or(self.used.read),
            written: io.map(|io| io.wchar).or(self.used.written),
        };
        true
    }

    /// Returns whether it no longer exists, not even as a zombie.
    pub fn has_ended(&self) -> bool {
        parsed::<Stat>(&self.stat).is_none()
    }

    /// Returns its children, if the kernel lists them (CONFIG_PROC_CHILDREN).
    pub fn children(&self) -> Vec<u32> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        for file in (self.threads.iter()).filter_map(|thread| thread.children.as_ref()) {
            if let Ok(line) = read(file, &mut buffer) {
                // The last number may be cut off.
                let whole = line.rfind(' ').map_or("", |end| &line[..end]);
                all.extend(whole.split(' ').filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        all
    }

    /// Returns the CPU time of its own that it has used since the last call, as of when it was last
    /// [refreshed](Self::refresh).
    pub fn own_growth(&mut self) -> Duration {
        std::mem::take(&mut self.growth)
    }

    /// Returns how long its threads ran and waited for a CPU since the last call; `None` if this kernel
    /// does not report it.
    pub fn activity(&mut self) -> Option<Activity> {
        let mut all: Option<Activity> = None;
        for thread in &mut self.threads {
            if std::mem::take(&mut thread.has_slept) {
                all.get_or_insert_default();
                continue;
            }
            let Some(now) = thread.schedule() else {
                continue;
            };
            // The times of a new thread began with 0.
            let last = thread.last.replace(now.clone());
            let since =
                |of: fn(&Schedstat) -> u64| of(&now).saturating_sub(last.as_ref().map_or(0, of));
            let ran = Duration::from_nanos(since(|times| times.sum_exec_runtime));
            let queued = Duration::from_nanos(since(|times| times.run_delay));
            let all = all.get_or_insert_default();
            all.queued += queued;
            all.turns += since(|times| times.pcount);
            all.busiest = all.busiest.max(ran + queued);
        }
        all
    }

    /// Lists its threads. `had_hidden_threads` says whether a thread that is new in the list may be an old
    /// one, whose times did not begin with 0.
    fn list_threads(&mut self, had_hidden_threads: bool) {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.id.pid)) else {
            return;
        };
        self.changed = false;
        let mut before = std::mem::take(&mut self.threads);
        self.threads = tasks
            .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
            .take(THREADS)
            .map(|tid: i32| {
                let known = before.iter().position(|thread| thread.tid == tid);
                let known = known.map(|at| before.swap_remove(at));
                known.unwrap_or_else(|| {
                    let mut thread = Thread::new(self.id.pid, tid);
                    thread.last = thread.schedule().filter(|_| had_hidden_threads);
                    thread
                })
            })
            .collect();
    }

    /// Returns whether no thread of it has run since its activity was last read. If so, nothing that it
    /// does has changed, and [`activity`](Self::activity) need not read it again.
    pub fn has_slept(&mut self) -> bool {
        if self.changed || self.threads.is_empty() {
            return false;
        }
        for thread in &mut self.threads {
            thread.has_slept = match (&thread.last, thread.schedule()) {
                (Some(last), Some(now)) => {
                    let times = |of: &Schedstat| (of.pcount, of.run_delay, of.sum_exec_runtime);
                    times(last) == times(&now)
                }
                _ => false,
            };
        }
        self.threads.iter().all(|thread| thread.has_slept)
    }

    /// Returns the number of files that it keeps open.
    pub fn files(&self) -> usize {
        let of = |thread: &Thread| {
            let files = [&thread.syscall, &thread.schedstat, &thread.children];
            files.into_iter().flatten().count()
        };
        1 + usize::from(self.io.is_some()) + self.threads.iter().map(of).sum::<usize>()
    }
}

impl Thread {
    fn new(pid: u32, tid: i32) -> Self {
        let open = |name| File::open(format!("/proc/{pid}/task/{tid}/{name}")).ok();
        Self {
            tid,
            syscall: open("syscall"),
            schedstat: open("schedstat"),
            children: open("children"),
            last: None,
            has_slept: false,
        }
    }

    fn schedule(&self) -> Option<Schedstat> {
        parsed(self.schedstat.as_ref()?)
    }
}

/// Returns the inode of the FIFO that this path refers to; `None` if it is another file.
fn fifo(path: PathBuf) -> Option<u64> {
    let path = CString::new(path.into_os_string().into_encoded_bytes()).ok()?;
    let (identity, _) = pipe_at(CWD, &path)?;
    Some(identity.inode)
}

#[cfg(test)]
mod tests;
