//! The files of a process in /proc that are read often.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use procfs::FromRead;

/// Reads the start of a file of /proc.
pub fn read<'a>(file: &File, buffer: &'a mut [u8]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    std::str::from_utf8(&buffer[..length]).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Reads what /proc/PID/stat, io or schedstat says from a file that is open; `None` if the process has gone.
pub fn parsed<T: FromRead>(file: &File) -> Option<T> {
    let mut buffer = [0; 1024];
    let length = file.read_at(&mut buffer, 0).ok()?;
    T::from_read(&buffer[..length]).ok()
}

/// Parses a line of /proc/PID/task/TID/syscall into the number of the call and its arguments; the number is
/// -1 outside of calls.
pub fn call(line: &str) -> (i64, Vec<u64>) {
    let mut words = line.split_whitespace();
    let number = words.next().and_then(|word| word.parse().ok());
    let arguments = words
        .take(6)
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    (number.unwrap_or(-1), arguments.collect())
}

/// Returns the CPU time of a process or zombie in nanoseconds, including threads that have ended
/// (clock_getcpuclockid(3); `thread_group_cputime`, kernel/sched/cputime.c).
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid as i32)).ok()?;
    clock_gettime(clock).ok().map(Duration::from)
}
