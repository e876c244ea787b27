//! What the kernel tells about a file descriptor of another process.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use fullbore::PipeEnd;
use fullbore_linux::proc_directory;
use procfs::process::Process;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, statx};

/// What an fd is open on.
pub struct Found<'a> {
    process: &'a Process,
    pub fd: i32,
    pub kind: FileType,
    /// Device and inode.
    pub identity: (u32, u32, u64),
    size: u64,
}

impl<'a> Found<'a> {
    /// Looks at what the kernel knows. The server of a file system that hangs (FUSE, a network) is not
    /// asked (`AT_STATX_DONT_SYNC`, statx(2)); the kernel has kept what it told the process itself
    /// when that opened the file and read from it.
    pub fn at(process: &'a Process, fd: i32) -> io::Result<Self> {
        let asked = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE;
        let path = path_of(process, "fd", fd);
        let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, asked)?;
        Ok(Self {
            process,
            fd,
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            identity: (found.stx_dev_major, found.stx_dev_minor, found.stx_ino),
            size: found.stx_size,
        })
    }

    pub fn path(&self) -> PathBuf {
        path_of(self.process, "fd", self.fd)
    }

    /// Where the fd stands, and how much there is, where that can be known: of a file that is only written
    /// to, nobody knows how long it will be.
    pub fn position(&self, total: Option<u64>) -> io::Result<(u64, Option<u64>)> {
        let text = std::fs::read_to_string(path_of(self.process, "fdinfo", self.fd))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim)
        };
        let position = field("pos:").and_then(|position| position.parse().ok());
        let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
        let mode = flags.map(|flags| OFlags::from_bits_retain(flags) & OFlags::RWMODE);
        let (position, only_written) = (position.unwrap_or(0), mode == Some(OFlags::WRONLY));
        // A file that was truncated is shorter than what was written to it or read from it.
        let size = Some(self.size).filter(|&size| size > 0 && size >= position && !only_written);
        Ok((position, total.or(size)))
    }

    /// Returns how many bytes the pipe holds, and how many it can hold. It is opened for writing for that, for some
    /// microseconds: an additional writer can only delay the end of file for that time, while an additional reader
    /// could keep a writer from learning that its last reader has gone.
    ///
    /// # Errors
    /// `ENXIO` if it is a FIFO without a reader.
    pub fn fullness(&self) -> io::Result<(usize, usize)> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let end = rustix::fs::open(self.path(), flags, Mode::empty())?;
        let pipe = PipeEnd::new(end.as_fd())?;
        Ok((pipe.queued()?, pipe.capacity()?))
    }
}

/// Returns whether a thread of the process lives, perhaps not the first one. The open directory of the process never
/// shows another one that has got its number since.
pub fn lives(process: &Process) -> bool {
    let stat = process.stat();
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X') || stat.num_threads > 1)
}

fn path_of(process: &Process, directory: &str, fd: i32) -> PathBuf {
    proc_directory(process.pid().unsigned_abs()).join(format!("{directory}/{fd}"))
}
