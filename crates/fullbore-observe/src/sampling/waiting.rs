//! What a sleeping thread waits for, according to /proc: two tables.
//!
//! The system call that it is in, with its arguments, says most (/proc/PID/syscall in
//! proc_pid_syscall(5)), but it can only be read with permission to trace the process. The kernel
//! function that it sleeps in (proc_pid_wchan(5)) does not show the fd, and its name may change between
//! kernel versions.

use nix::libc::{self, c_long};

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// It waits for bytes to read.
    Read(Object),
    /// It waits for room to write.
    Write(Object),
    /// It waits for either side of a splice(2) or a similar call.
    Move {
        /// The file that bytes are read from.
        from: Object,
        /// The file that bytes are written to.
        to: Object,
        /// The side that it waits for.
        side: Direction,
    },
    /// It waits in open(2) for a process that opens the other side of a FIFO (fifo(7)).
    Partner,
    /// It waits for any of several things, in poll(2) or a similar call.
    Any,
    /// It waits for a timer.
    Timer,
    /// It waits for a lock that another thread or process holds.
    Lock,
    /// It waits for a lock, but no longer than a certain time, which may be all that it waits for.
    LockOrTimer,
    /// It waits for the end of a child.
    Child,
    /// It waits for a signal.
    Signal,
    /// It waits for a disk, or for another uninterruptible operation: state D.
    Disk,
    /// It is unknown, because this user may not read it, or because it is not in this table.
    Unknown,
}

/// The side that a call that moves bytes waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The file that bytes are read from.
    From,
    /// The file that bytes are written to.
    To,
    /// It is unknown: the call and its arguments do not tell.
    Unknown,
}

/// The kind of file that an fd refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// A pipe, by its inode on pipefs, or a FIFO, by its inode.
    Pipe(u64),
    /// A pipe, without knowing which.
    SomePipe,
    /// A socket.
    Socket,
    /// A terminal.
    Terminal,
    /// A file, or a device.
    File,
    /// Memory, and no fd.
    Memory,
    /// Another kind of file, or an fd that has been closed since.
    Other,
}

/// How a system call uses its arguments.
#[derive(Debug, Clone, Copy)]
enum Call {
    /// It reads from the fd that is its first argument.
    Reads,
    /// It writes to the fd that is its first argument.
    Writes,
    /// It gives pages of its memory to the pipe that is its first argument.
    Gives,
    /// It moves from and to the fds that are these arguments.
    Moves(usize, usize),
    /// It waits for any of several fds, whose number is this argument; if the number is 0, for a
    /// timer.
    Polls(usize),
    /// It waits for a lock, and if this argument is not 0, no longer than that.
    Locks(usize),
    /// It waits for this.
    Waits(On),
}

/// The system calls that a thread sleeps in. open(2) is not among them, because it may wait for a disk, or
/// for the other side of a FIFO.
#[rustfmt::skip]
const CALLS: &[(Call, &[c_long])] = &[
    (Call::Reads, &[
        libc::SYS_read, libc::SYS_readv, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2,
        libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_accept, libc::SYS_accept4,
        libc::SYS_getdents64,
    ]),
    (Call::Writes, &[
        libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2,
        libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_connect,
    ]),
    (Call::Gives, &[libc::SYS_vmsplice]),
    (Call::Moves(0, 2), &[libc::SYS_splice, libc::SYS_copy_file_range]),
    (Call::Moves(0, 1), &[libc::SYS_tee]),
    (Call::Moves(1, 0), &[libc::SYS_sendfile]),
    (Call::Polls(0), &[libc::SYS_pselect6]),
    (Call::Polls(1), &[libc::SYS_ppoll]),
    #[cfg(target_arch = "x86_64")]
    (Call::Polls(0), &[libc::SYS_select]),
    #[cfg(target_arch = "x86_64")]
    (Call::Polls(1), &[libc::SYS_poll]),
    (Call::Waits(On::Any), &[
        libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_io_uring_enter,
        libc::SYS_io_getevents,
    ]),
    #[cfg(target_arch = "x86_64")]
    (Call::Waits(On::Any), &[libc::SYS_epoll_wait]),
    (Call::Waits(On::Timer), &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep]),
    (Call::Locks(3), &[libc::SYS_futex]),
    (Call::Waits(On::Lock), &[libc::SYS_flock, libc::SYS_fcntl]),
    // The parent of a new process may wait until the child runs another program (vfork(2)).
    (Call::Waits(On::Child), &[
        libc::SYS_wait4, libc::SYS_waitid, libc::SYS_clone, libc::SYS_clone3,
    ]),
    #[cfg(target_arch = "x86_64")]
    (Call::Waits(On::Child), &[libc::SYS_vfork]),
    (Call::Waits(On::Signal), &[libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait]),
    #[cfg(target_arch = "x86_64")]
    (Call::Waits(On::Signal), &[libc::SYS_pause]),
    (Call::Waits(On::Disk), &[
        libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range, libc::SYS_execve,
        libc::SYS_execveat,
    ]),
];

/// Kernel functions that a thread sleeps in, by prefixes of their names.
#[rustfmt::skip]
const FUNCTIONS: &[(&str, On)] = &[
    ("anon_pipe_read", On::Read(Object::SomePipe)),   // fs/pipe.c, since 6.14
    ("anon_pipe_write", On::Write(Object::SomePipe)),
    ("pipe_read", On::Read(Object::SomePipe)),
    ("pipe_write", On::Write(Object::SomePipe)),
    ("pipe_wait_readable", On::Read(Object::SomePipe)),
    ("pipe_wait_writable", On::Write(Object::SomePipe)),
    ("wait_for_partner", On::Partner),
    ("fifo_open", On::Partner),
    ("wait_for_space", On::Write(Object::SomePipe)),  // fs/splice.c
    ("opipe_prep", On::Write(Object::SomePipe)),
    ("ipipe_prep", On::Read(Object::SomePipe)),
    ("do_poll", On::Any),                             // fs/select.c
    ("do_sys_poll", On::Any),
    ("do_select", On::Any),
    ("poll_schedule_timeout", On::Any),
    ("ep_poll", On::Any),                             // fs/eventpoll.c
    ("io_cqring_wait", On::Any),                      // io_uring/io_uring.c
    ("futex_", On::LockOrTimer),                      // kernel/futex/
    ("do_futex", On::LockOrTimer),
    ("do_wait", On::Child),                           // kernel/exit.c
    ("kernel_wait", On::Child),
    ("hrtimer_nanosleep", On::Timer),                 // kernel/time/hrtimer.c
    ("do_nanosleep", On::Timer),
    ("sigsuspend", On::Signal),                       // kernel/signal.c
    ("do_sigtimedwait", On::Signal),
    ("n_tty_read", On::Read(Object::Terminal)),       // drivers/tty/
    ("n_tty_write", On::Write(Object::Terminal)),
    ("sk_wait_data", On::Read(Object::Socket)),        // net/
    ("sk_stream_wait_memory", On::Write(Object::Socket)),
    ("unix_stream_read", On::Read(Object::Socket)),
    ("unix_stream_data_wait", On::Read(Object::Socket)),
    ("sock_alloc_send", On::Write(Object::Socket)),
    ("__skb_wait_for_more_packets", On::Read(Object::Socket)),
    ("folio_wait", On::Disk),                         // mm/filemap.c
    ("io_schedule", On::Disk),
    ("balance_dirty_pages", On::Disk),
    ("rq_qos_wait", On::Disk),
    ("jbd2_log_wait_commit", On::Disk),               // fs/jbd2/journal.c
    ("request_wait_answer", On::Disk),                // fs/fuse/dev.c
    ("rpc_wait_bit_killable", On::Disk),              // net/sunrpc/sched.c
];

/// Returns what a thread waits for in a system call; `object` returns the kind of an fd. Returns
/// `None` for calls that are not in the table, such as those of another architecture that this kernel
/// also supports.
pub fn in_call(
    number: i64,
    arguments: &[u64],
    mut object: impl FnMut(i32) -> Object,
) -> Option<On> {
    let (call, _) = CALLS
        .iter()
        .find(|(_, numbers)| numbers.contains(&(number as c_long)))?;
    let mut argument = |at: usize| {
        arguments
            .get(at)
            .map_or(Object::Other, |&fd| object(fd as i32))
    };
    Some(match *call {
        Call::Reads => On::Read(argument(0)),
        Call::Writes => On::Write(argument(0)),
        Call::Gives => On::Move {
            from: Object::Memory,
            to: argument(0),
            side: Direction::To,
        },
        Call::Moves(from, to) => On::Move {
            from: argument(from),
            to: argument(to),
            side: Direction::Unknown,
        },
        // Of an argument of type int, only 32 bits are valid.
        Call::Polls(count) => match arguments.get(count) {
            Some(&count) if count as u32 == 0 => On::Timer,
            _ => On::Any,
        },
        Call::Locks(timeout) => match arguments.get(timeout) {
            Some(0) => On::Lock,
            _ => On::LockOrTimer,
        },
        Call::Waits(on) => on,
    })
}

impl On {
    /// Returns the same with the side that a call that moves bytes waits for, according to the kernel
    /// function that the thread sleeps in.
    pub fn in_function_too(self, function: On) -> Self {
        let Self::Move { from, to, side } = self else {
            return self;
        };
        let side = match function {
            Self::Read(Object::SomePipe) => Direction::From,
            Self::Write(Object::SomePipe) => Direction::To,
            Self::Disk if to == Object::File => Direction::To,
            Self::Disk if from == Object::File => Direction::From,
            _ => side,
        };
        Self::Move { from, to, side }
    }
}

/// Returns what a thread waits for in a kernel function.
pub fn in_function(name: &str) -> Option<On> {
    FUNCTIONS
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map(|&(_, on)| on)
}

/// Returns the kind of an fd, from the link /proc/PID/fd/FD. It does not use stat(2), which may never
/// return if a file server does not answer.
pub fn object(link: &[u8]) -> Object {
    let inode = |rest: &[u8]| {
        let number = rest.strip_suffix(b"]")?;
        std::str::from_utf8(number).ok()?.parse().ok()
    };
    if let Some(rest) = link.strip_prefix(b"pipe:[") {
        inode(rest).map_or(Object::SomePipe, Object::Pipe)
    } else if link.starts_with(b"socket:[") {
        Object::Socket
    } else if link.starts_with(b"/dev/pts/") || link.starts_with(b"/dev/tty") {
        Object::Terminal
    } else if link.starts_with(b"/") {
        Object::File
    } else {
        Object::Other
    }
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It runs, or would if it had a CPU.
    Runs,
    /// It sleeps.
    Waits(On),
    /// It was stopped by a signal, or by the process that traces it.
    Stopped,
    /// It has ended.
    Ended,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_tells_which_fd_it_waits_on() {
        let object = |fd| Object::Pipe(fd as u64 + 100);
        let on = |number, arguments: &[u64]| in_call(number, arguments, object);
        assert_eq!(
            on(libc::SYS_read, &[3, 0, 0, 0, 0, 0]),
            Some(On::Read(Object::Pipe(103)))
        );
        assert_eq!(
            on(libc::SYS_splice, &[3, 0, 4, 0, 0, 0]),
            Some(On::Move {
                from: Object::Pipe(103),
                to: Object::Pipe(104),
                side: Direction::Unknown
            })
        );
        assert_eq!(
            on(libc::SYS_sendfile, &[3, 4]),
            Some(On::Move {
                from: Object::Pipe(104),
                to: Object::Pipe(103),
                side: Direction::Unknown
            })
        );
        assert_eq!(on(libc::SYS_wait4, &[]), Some(On::Child));
        assert_eq!(on(libc::SYS_ppoll, &[1, 2, 3]), Some(On::Any));
        assert_eq!(on(libc::SYS_ppoll, &[0, 0, 3]), Some(On::Timer));
        assert_eq!(on(libc::SYS_futex, &[1, 128, 2, 0, 0, 0]), Some(On::Lock));
        let timed = [1, 128, 2, 0x7ffe, 0, 0];
        assert_eq!(on(libc::SYS_futex, &timed), Some(On::LockOrTimer));
        assert_eq!(on(-1, &[]), None);
        // It may wait for a disk, or for the other side of a FIFO.
        assert_eq!(on(libc::SYS_openat, &[3, 0, 0]), None);
    }

    #[test]
    fn a_function_tells_which_side_a_call_that_moves_bytes_waits_for() {
        let (pipe, file) = (Object::Pipe(1), Object::File);
        let side = |from, to, function| {
            let side = Direction::Unknown;
            let on = On::Move { from, to, side }.in_function_too(in_function(function).unwrap());
            let On::Move { side, .. } = on else {
                panic!("{on:?}")
            };
            side
        };
        assert_eq!(side(pipe, file, "pipe_wait_readable"), Direction::From);
        assert_eq!(side(pipe, pipe, "pipe_wait_writable"), Direction::To);
        assert_eq!(side(pipe, file, "balance_dirty_pages"), Direction::To);
        assert_eq!(side(file, pipe, "folio_wait_bit_common"), Direction::From);
        assert_eq!(
            side(pipe, pipe, "folio_wait_bit_common"),
            Direction::Unknown
        );
    }

    #[test]
    fn where_an_fd_points_tells_what_it_is_of() {
        assert_eq!(object(b"pipe:[4711]"), Object::Pipe(4711));
        assert_eq!(object(b"socket:[12]"), Object::Socket);
        assert_eq!(object(b"/dev/pts/3"), Object::Terminal);
        assert_eq!(object(b"/dev/null"), Object::File);
        assert_eq!(object(b"/tmp/pipe:[1]"), Object::File);
        assert_eq!(object(b"anon_inode:[eventfd]"), Object::Other);
        assert_eq!(object(b"pipe:[x"), Object::SomePipe);
    }

    #[test]
    fn functions_are_known_by_how_their_names_begin() {
        let some = |name| in_function(name);
        assert_eq!(some("anon_pipe_read"), Some(On::Read(Object::SomePipe)));
        assert_eq!(some("futex_wait_queue"), Some(On::LockOrTimer));
        assert_eq!(some("poll_schedule_timeout.constprop.0"), Some(On::Any));
        assert_eq!(some("wait_for_partner"), Some(On::Partner));
        assert_eq!(some("0"), None);
    }
}
