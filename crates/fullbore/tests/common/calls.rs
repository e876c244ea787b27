//! Threads whose system calls fail: all calls of a kind, or the nth one.
//!
//! A seccomp filter applies to the thread that installs it and to the threads that it starts, so each job runs on a
//! separate thread, and its peers are not affected.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::look_up_once;

/// Runs `job` while these calls fail with `errno`; `None` if no filter can be installed.
pub fn refusing<T: Send>(
    calls: &[libc::c_long],
    errno: Errno,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
    refusing_by(rules, errno, job)
}

/// Runs `job` while a call fails with `errno` if its argument with this index (from 0) has one of these values; `None`
/// if no filter can be installed.
pub fn refusing_some<T: Send>(
    call: libc::c_long,
    (index, values): (u8, &[u32]),
    errno: Errno,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    let rule = |&value: &u32| {
        let is = SeccompCondition::new(
            index,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Eq,
            value.into(),
        );
        SeccompRule::new(vec![is.unwrap()]).unwrap()
    };
    let rules = [(call, values.iter().map(rule).collect())].into();
    refusing_by(rules, errno, job)
}

fn refusing_by<T: Send>(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: Errno,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    look_up_once();
    let filter: BpfProgram = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.raw_os_error() as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    )
    .unwrap()
    .try_into()
    .unwrap();
    let worker = move || match seccompiler::apply_filter(&filter) {
        Ok(()) => Some(job()),
        Err(error) => {
            fullbore_tests::skipped(&format!("no seccomp filter here: {error}"));
            None
        }
    };
    thread::scope(|scope| joined(scope.spawn(worker)))
}

/// Runs `job`, and passes the number of each of these calls, from 1, to `verdict`: the call fails with the error that
/// it returns, or is made as usual. `None` if that is impossible.
pub fn judging<T: Send>(
    calls: &[libc::c_long],
    mut verdict: impl FnMut(usize) -> Option<Errno>,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    look_up_once();
    answering(calls, |nth, _, _| verdict(nth).map(Err), job)
}

/// As [`judging`], but the verdict gets the arguments of the call instead of its number.
pub fn judging_by_arguments<T: Send>(
    calls: &[libc::c_long],
    mut verdict: impl FnMut([u64; 6]) -> Option<Errno>,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    look_up_once();
    answering(calls, |_, _, arguments| verdict(arguments).map(Err), job)
}

/// Makes the nth of these calls, and only that one, return 0, as if nothing had been moved.
pub fn moving_nothing_once<T: Send>(
    calls: &[libc::c_long],
    nth: usize,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    look_up_once();
    answering(calls, |count, _, _| (count == nth).then_some(Ok(0)), job)
}

/// Runs `job` while vmsplice(2) copies, as on a kernel that does not share pages; returns its result, and how often
/// that call was made. The library detects first that the kernel copies: while a call is answered here, no other thread
/// of the job gets an answer.
pub fn copying_vmsplice<T: Send>(job: impl FnOnce() -> T + Send) -> Option<(T, usize)> {
    let mut made = 0;
    let job = answering(
        &[libc::SYS_vmsplice],
        |nth, _, [fd, slices, count, flags, ..]| {
            made = nth;
            Some(written(
                fd as i32,
                slices as *const libc::iovec,
                count as i32,
                flags as u32,
            ))
        },
        || {
            let _ = fullbore_linux::vmsplice_shares();
            job()
        },
    );
    Some((job?, made))
}

/// Runs `job`, in a process that does not know yet whether vmsplice(2) shares pages: until `later`, it cannot find out,
/// because no pipe can be made. From then on its trial fails, because its read(2) of one byte returns nothing.
pub fn misjudging_vmsplice<T: Send>(
    later: &AtomicBool,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    let calls = [libc::SYS_pipe2, libc::SYS_read];
    let verdict = |_, call: i32, [_, _, len, ..]: [u64; 6]| {
        let is_later = later.load(Ordering::SeqCst);
        match libc::c_long::from(call) {
            libc::SYS_pipe2 => (!is_later).then_some(Err(Errno::MFILE)),
            _ => (is_later && len == 1).then_some(Ok(0)),
        }
    };
    answering(&calls, verdict, job)
}

/// The calls that move bytes, and the index of the argument with the number of bytes; `None` for that of the first slice
/// of memory.
pub const MOVING: [(libc::c_long, Option<usize>); 11] = [
    (libc::SYS_read, Some(2)),
    (libc::SYS_write, Some(2)),
    (libc::SYS_preadv2, None),
    (libc::SYS_pwritev2, None),
    (libc::SYS_sendto, Some(2)),
    (libc::SYS_recvfrom, Some(2)),
    (libc::SYS_splice, Some(4)),
    (libc::SYS_tee, Some(2)),
    (libc::SYS_vmsplice, None),
    (libc::SYS_sendfile, Some(3)),
    (libc::SYS_copy_file_range, Some(4)),
];

/// Runs `job` while every call that moves bytes moves at most about half of what it should; returns its result, and how
/// many calls were cut short.
pub fn cutting_short<T: Send>(job: impl FnOnce() -> T + Send) -> Option<(T, usize)> {
    look_up_once();
    let calls = MOVING.map(|(call, _)| call);
    let mut cut = 0;
    let verdict = |_, call: i32, mut arguments: [u64; 6]| {
        let (_, at) = MOVING.iter().find(|(known, _)| *known == call.into())?;
        // An eventfd takes its eight bytes at once, or none.
        let half = |bytes: u64| if bytes > 8 { bytes / 2 + 1 } else { bytes };
        let mut slice: libc::iovec;
        match at {
            Some(at) => arguments[*at] = half(arguments[*at]),
            None => {
                // SAFETY: the calling thread waits for the answer, and shares its memory with this one.
                slice = unsafe { *(arguments[1] as *const libc::iovec) };
                slice.iov_len = half(slice.iov_len as u64) as usize;
                (arguments[1], arguments[2]) = (&raw const slice as u64, 1);
            }
        }
        cut += 1;
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: as above; the arguments are those of the caller, with fewer bytes.
        let answer = unsafe { libc::syscall(call.into(), a, b, c, d, e, f) };
        Some(match answer {
            0.. => Ok(answer),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap()),
        })
    };
    let done = answering(&calls, verdict, job)?;
    Some((done, cut))
}

/// Emulates a vmsplice(2) of this process by pwritev2(2).
fn written(fd: i32, slices: *const libc::iovec, count: i32, flags: u32) -> Result<i64, Errno> {
    let flags = match flags & libc::SPLICE_F_NONBLOCK {
        0 => 0,
        _ => libc::RWF_NOWAIT,
    };
    // SAFETY: the calling thread waits for the answer, and shares its memory and fds with this one.
    let answer = unsafe { libc::pwritev2(fd, slices, count, -1, flags) };
    match answer {
        0.. => Ok(answer as i64),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap()),
    }
}

/// As [`judging`], but the verdict also gets the arguments of the call, and can return a number instead of making it.
pub fn answering<T: Send>(
    calls: &[libc::c_long],
    mut verdict: impl FnMut(usize, i32, [u64; 6]) -> Option<Result<i64, Errno>>,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    let filter = notify_of(calls);
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let worker = scope.spawn(move || {
            let listener = install_with_listener(&filter);
            let installed = listener.is_ok();
            send.send(listener).unwrap();
            installed.then(job)
        });
        match receive.recv().unwrap() {
            Ok(listener) => {
                let mut count = 0;
                while !worker.is_finished() {
                    if let Some((id, call, arguments)) = next_call(&listener) {
                        count += 1;
                        answer(&listener, id, verdict(count, call, arguments));
                    }
                }
            }
            Err(error) => fullbore_tests::skipped(&format!("no seccomp listener here: {error}")),
        }
        joined(worker)
    })
}

/// Fails the nth of these calls, and only that one.
pub fn failing_once<T: Send>(
    calls: &[libc::c_long],
    nth: usize,
    errno: Errno,
    job: impl FnOnce() -> T + Send,
) -> Option<T> {
    judging(calls, |count| (count == nth).then_some(errno), job)
}

fn joined<T>(worker: thread::ScopedJoinHandle<'_, T>) -> T {
    worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A filter that passes these calls to the listener (seccomp_unotify(2)) and allows others.
fn notify_of(calls: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    // The number of the call is the first word of `struct seccomp_data`.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (i, &call) in calls.iter().enumerate() {
        filter.push(libc::sock_filter {
            jt: (calls.len() - i) as u8,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32)
        });
    }
    filter.push(statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW));
    filter.push(statement(libc::BPF_RET, libc::SECCOMP_RET_USER_NOTIF));
    filter
}

fn install_with_listener(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: sets a flag of this thread.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its instructions live until the call has copied them.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &program,
        )
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it, for this process alone.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

/// Returns the id of the next call, its number and its arguments, or `None` after a timeout.
fn next_call(listener: &OwnedFd) -> Option<(u64, i32, [u64; 6])> {
    let a_while = Timespec::try_from(Duration::from_millis(5)).unwrap();
    let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&a_while)).unwrap();
    if !fds[0].revents().contains(PollFlags::IN) {
        return None;
    }
    // SAFETY: a structure of numbers, which the kernel requires to be zeroed.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    let is_there = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &mut call);
    is_there.then_some((call.id, call.data.nr, call.data.args))
}

fn answer(listener: &OwnedFd, id: u64, answer: Option<Result<i64, Errno>>) {
    let mut response = libc::seccomp_notif_resp {
        id,
        val: answer.and_then(Result::ok).unwrap_or(0),
        error: answer
            .and_then(Result::err)
            .map_or(0, |errno| -errno.raw_os_error()),
        flags: match answer {
            Some(_) => 0,
            None => libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        },
    };
    // A call that was interrupted by a signal meanwhile needs no answer.
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response);
}

fn ioctl<T>(listener: &OwnedFd, request: libc::Ioctl, argument: &mut T) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: each request reads and writes one structure of the type that it is used with here.
    unsafe { libc::ioctl(listener.as_raw_fd(), request, argument) == 0 }
}
