//! A FUSE file system with one file in it, which misbehaves as the test specifies.
//!
//! It is served by a thread of the test. Nothing of the file is cached (`FOPEN_DIRECT_IO`), so each
//! read(2) and write(2) of a program is a request that this server answers.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

use crate::common::{is_root, output_of, skipped};

/// What the server does with one request.
#[derive(Clone, Copy)]
pub enum Answer {
    /// The server answers with all bytes that were asked for.
    All,
    /// The server reads or writes at most this many bytes, which may be 0.
    AtMost(usize),
    Fail(Errno),
    /// The server does not answer until [`Served::release`].
    Stall,
}

/// How the file behaves. Requests are counted from 1.
#[derive(Clone)]
pub struct Nature {
    /// The contents of the file.
    pub content: Vec<u8>,
    /// The size that stat(2) returns.
    pub size: u64,
    pub read: fn(u32) -> Answer,
    pub write: fn(u32) -> Answer,
    /// The bytes that cannot be read: a read of any of them fails with EIO.
    pub bad: Vec<Range<usize>>,
    /// The error of close(2), if it fails.
    pub flush: Option<Errno>,
}

impl Nature {
    /// Returns a file that behaves correctly.
    pub fn source(content: &[u8]) -> Self {
        Self {
            content: content.to_vec(),
            size: content.len() as u64,
            read: |_| Answer::All,
            write: |_| Answer::All,
            bad: Vec::new(),
            flush: None,
        }
    }

    /// Returns an empty file that behaves correctly.
    pub fn sink() -> Self {
        Self::source(&[])
    }
}

/// A mounted file system.
pub struct Served {
    session: Option<BackgroundSession>,
    state: Arc<State>,
    directory: TempDir,
}

struct State {
    nature: Nature,
    reads: AtomicU32,
    writes: AtomicU32,
    written: Mutex<Vec<u8>>,
    attributes_stall: AtomicBool,
    held: Mutex<Vec<Held>>,
}

enum Held {
    Data(ReplyData),
    Written(ReplyWrite),
    Attributes(ReplyAttr),
}

impl Served {
    /// Mounts the file system; returns `None` and prints a line if that is not possible.
    pub fn new(nature: Nature) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let state = Arc::new(State {
            nature,
            reads: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            written: Mutex::default(),
            attributes_stall: AtomicBool::new(false),
            held: Mutex::default(),
        });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("fullbore-test".to_owned())];
        let server = Server(Arc::clone(&state));
        let session = Session::new(server, directory.path(), &config).and_then(Session::spawn);
        match session {
            Ok(session) => Some(Self {
                session: Some(session),
                state,
                directory,
            }),
            Err(error) => {
                skipped(&format!("a FUSE file system cannot be mounted: {error}"));
                None
            }
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(NAME)
    }

    /// Returns the bytes that were written to the file.
    pub fn written(&self) -> Vec<u8> {
        self.state.written.lock().unwrap().clone()
    }

    /// Makes the server stop answering stat(2) of the file.
    pub fn stall_attributes(&self) {
        self.state.attributes_stall.store(true, Ordering::SeqCst);
    }

    /// Returns whether a request waits for its answer.
    pub fn has_stalled(&self) -> bool {
        !self.state.held.lock().unwrap().is_empty()
    }

    /// Answers all waiting requests with EIO, and answers stat(2) again.
    pub fn release(&self) {
        self.state.attributes_stall.store(false, Ordering::SeqCst);
        for held in self.state.held.lock().unwrap().drain(..) {
            match held {
                Held::Data(reply) => reply.error(Errno::EIO),
                Held::Written(reply) => reply.error(Errno::EIO),
                Held::Attributes(reply) => reply.error(Errno::EIO),
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.release();
        if let Some(session) = self.session.take() {
            // umount(2) without MNT_DETACH fails while somebody still has the file open, and leaves the mount.
            if is_root() {
                let mut umount = Command::new("umount");
                umount.arg("-l").arg(self.directory.path());
                let _ = output_of(&mut umount);
            }
            let _ = session.umount_and_join();
        }
    }
}

const NAME: &str = "file";
const FILE: INodeNo = INodeNo(2);

struct Server(Arc<State>);

impl Server {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let (kind, perm, size) = match inode {
            FILE => {
                let written = self.0.written.lock().unwrap().len() as u64;
                (
                    FileType::RegularFile,
                    0o666,
                    self.0.nature.size.max(written),
                )
            }
            _ => (FileType::Directory, 0o755, 0),
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// Attributes expire at once, so that the kernel does not cache them and each stat(2) is a request.
const AT_ONCE: Duration = Duration::ZERO;

impl Filesystem for Server {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match Path::new(name) == Path::new(NAME) {
            true => reply.entry(&AT_ONCE, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if inode == FILE && self.0.attributes_stall.load(Ordering::SeqCst) {
            self.0.held.lock().unwrap().push(Held::Attributes(reply));
        } else {
            reply.attr(&AT_ONCE, &self.attributes(inode));
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let Some(size) = size {
            self.0.written.lock().unwrap().resize(size as usize, 0);
        }
        reply.attr(&AT_ONCE, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let rest = self.0.nature.content.get(offset as usize..);
        let rest = rest.unwrap_or_default();
        let rest = &rest[..rest.len().min(size as usize)];
        let (begin, end) = (offset as usize, offset as usize + rest.len());
        if (self.0.nature.bad.iter()).any(|bad| bad.start < end && begin < bad.end) {
            return reply.error(Errno::EIO);
        }
        let nth = self.0.reads.fetch_add(1, Ordering::SeqCst) + 1;
        match (self.0.nature.read)(nth) {
            Answer::All => reply.data(rest),
            Answer::AtMost(most) => reply.data(&rest[..rest.len().min(most)]),
            Answer::Fail(errno) => reply.error(errno),
            Answer::Stall => self.0.held.lock().unwrap().push(Held::Data(reply)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let nth = self.0.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let most = match (self.0.nature.write)(nth) {
            Answer::All => data.len(),
            Answer::AtMost(most) => data.len().min(most),
            Answer::Fail(errno) => return reply.error(errno),
            Answer::Stall => return self.0.held.lock().unwrap().push(Held::Written(reply)),
        };
        let (offset, end) = (offset as usize, offset as usize + most);
        let mut written = self.0.written.lock().unwrap();
        if most > 0 && written.len() < end {
            written.resize(end, 0);
        }
        if most > 0 {
            written[offset..end].copy_from_slice(&data[..most]);
        }
        drop(written);
        reply.written(most as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        match self.0.nature.flush {
            Some(errno) => reply.error(errno),
            None => reply.ok(),
        }
    }
}
