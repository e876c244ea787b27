//! What ps(1) and similar programs show of this process: its name, and its command line.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use procfs::process::Process;
use rustix::thread::set_name;

/// Gives this process a name of 15 bytes at most, and a command line. Nothing may use the arguments and the environment
/// of this process afterwards.
pub fn rename(name: &CStr, command: &str) {
    let _ = set_name(name);
    let _ = overwrite(command, true);
}

/// Shows a text in place of the command line, as far as there is room. The environment stays as it is.
pub fn set_command_line(text: &str) {
    let _ = overwrite(text, false);
}

/// The kernel shows the memory of the arguments as the command line, and goes on into the environment, which follows it,
/// if there is no zero byte at the end of the arguments (`get_mm_cmdline` in fs/proc/base.c). That memory lies beyond
/// what Rust knows, so it is written as a file.
fn overwrite(text: &str, and_environment: bool) -> io::Result<()> {
    let stat = Process::myself().and_then(|process| process.stat());
    let stat = stat.map_err(io::Error::other)?;
    let (Some(start), Some(end), Some(last)) = (stat.arg_start, stat.arg_end, stat.env_end) else {
        return Ok(());
    };
    let size = |end: u64| end.saturating_sub(start) as usize;
    let room = size(if and_environment { last.max(end) } else { end });
    let length = text.len().min(room.saturating_sub(1));
    let mut bytes = vec![0; size(end).max(length + 1).min(room)];
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    let memory = File::options().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&bytes, start)
}
