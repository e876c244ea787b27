//! Holes: ranges of a file that have no blocks and read as zeros.
//!
//! Copied as bytes, a hole would take up space in the sink. If the sink ends at the write position, skipping a hole
//! there overwrites nothing, and the bytes behind it create the hole. A hole at the end is created by fallocate(2) for
//! its last byte: unlike ftruncate(2), that only ever extends a file, so it cannot delete what another process has
//! appended meanwhile.

use std::os::fd::BorrowedFd;

use rustix::fs::{FallocateFlags, FileType, SeekFrom, Stat, fallocate, fstat, seek};
use rustix::io::Errno;

use super::direct;
use super::options::TransferOptions;
use super::step::Stop;
use fullbore_linux as linux;
use fullbore_linux::{TransferSide, uninterrupted};

/// The next part of the source.
pub(super) enum Stretch {
    /// The next bytes have to be copied, at most [`Holes::before`].
    Bytes,
    /// A hole of this many bytes was skipped on both sides.
    Hole(u64),
}

/// Whether to look for holes, and where.
#[derive(Debug)]
pub(super) struct Holes {
    /// The offset up to which there are none. `None` if there are none at all, or the sink cannot keep them.
    until: Option<u64>,
    /// Bytes before the next hole.
    pub(super) before: usize,
    /// The length of the sink with the holes that were skipped.
    length: Option<u64>,
}

impl Holes {
    /// Keeps holes from the current positions on, if the sink is written at its end.
    pub(super) fn of(source: &Stat, sink: &Stat, options: &TransferOptions) -> Self {
        let regular = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        // st_blocks counts units of 512 bytes (stat(3type)).
        let has_holes = i128::from(source.st_blocks) * 512 < i128::from(source.st_size);
        let at_positions = options.own.source_offset.is_none() && options.own.sink_offset.is_none();
        let keeps = regular(source) && regular(sink) && has_holes && at_positions;
        Self {
            until: keeps.then_some(0),
            before: usize::MAX,
            length: None,
        }
    }

    /// Skips the next hole, of at most `most` bytes, or finds out how many bytes are before it.
    pub(super) fn next(
        &mut self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        most: u64,
    ) -> Result<Stretch, Stop> {
        self.before = usize::MAX;
        let Some(until) = self.until else {
            return Ok(Stretch::Bytes);
        };
        let failed = |side, call| move |errno| Stop::At(side, call, errno);
        let (lost, no_size) = (
            failed(TransferSide::Source, "lseek"),
            failed(TransferSide::Source, "fstat"),
        );
        let at = seek(source, SeekFrom::Current(0)).map_err(lost)?;
        if at < until {
            self.before = usize::try_from(until - at).unwrap_or(usize::MAX);
            return Ok(Stretch::Bytes);
        }
        if !self.is_at_end(sink)? {
            self.until = None;
            return Ok(Stretch::Bytes);
        }
        let end = u64::try_from(fstat(source).map_err(no_size)?.st_size).unwrap_or(0);
        let data = match seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            // There is no more data up to the end.
            Err(Errno::NXIO) => end.max(at),
            Err(_) => {
                self.until = None;
                return Ok(Stretch::Bytes);
            }
        };
        let hole = data.saturating_sub(at).min(most);
        // Where the next hole begins; the end of the file, or a hole that has just been created, is copied as bytes.
        let next = match hole == 0 && data < end {
            true => seek(source, SeekFrom::Hole(at)).map_err(lost)?,
            false => at,
        };
        seek(source, SeekFrom::Start(at + hole)).map_err(lost)?;
        if hole > 0 {
            let skip = i64::try_from(hole).unwrap_or(i64::MAX);
            let length = seek(sink, SeekFrom::Current(skip));
            self.length = Some(length.map_err(failed(TransferSide::Sink, "lseek"))?);
            return Ok(Stretch::Hole(hole));
        }
        if next > at {
            self.until = Some(next);
            self.before = usize::try_from(next - at).unwrap_or(usize::MAX);
        }
        Ok(Stretch::Bytes)
    }

    /// Returns whether the sink is written at its end, or behind it.
    fn is_at_end(&self, sink: BorrowedFd<'_>) -> Result<bool, Stop> {
        let failed = |call| move |errno| Stop::At(TransferSide::Sink, call, errno);
        let to = seek(sink, SeekFrom::Current(0)).map_err(failed("lseek"))?;
        let end = fstat(sink).map_err(failed("fstat"))?.st_size;
        Ok(i128::from(end) <= i128::from(to) && !direct::appends(sink))
    }

    /// Gives the sink the length of the holes that were skipped, unless it is that long already.
    ///
    /// # Errors
    /// As fallocate(2) and pwrite(2), and by how many bytes the sink is too short. Both positions are moved back by as
    /// many.
    pub(super) fn extend(
        &mut self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
    ) -> Result<(), (Errno, u64)> {
        let Some(length) = self.length.take() else {
            return Ok(());
        };
        let size = fstat(sink).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        if size >= length {
            return Ok(());
        }
        let (last, flags) = (length - 1, FallocateFlags::empty());
        let extended = match uninterrupted(|| fallocate(sink, flags, last, 1)) {
            // Not every file system supports it.
            Err(errno) if linux::is_refusal(errno) => {
                uninterrupted(|| rustix::io::pwrite(sink, &[0], last)).map(drop)
            }
            answer => answer,
        };
        extended.map_err(|errno| {
            let missing = length - size;
            for fd in [source, sink] {
                let back = i64::try_from(missing).map_or(i64::MIN, |missing| -missing);
                let _ = seek(fd, SeekFrom::Current(back));
            }
            (errno, missing)
        })
    }
}
