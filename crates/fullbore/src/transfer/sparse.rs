//! Holes: ranges of a file that have no blocks and read as zeros.
//!
//! Copied as bytes, a hole would take up space in the sink. If the sink ends at the write position, skipping a hole
//! there overwrites nothing, and extending the sink creates the hole.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, SeekFrom, Stat, ftruncate, seek};
use rustix::io::Errno;

use super::direct;
use super::options::Options;
use super::step::Stop;
use fullbore_linux as linux;
use fullbore_linux::error::TransferSide;
use fullbore_linux::wait::uninterrupted;

/// The next part of the source.
pub(super) enum Stretch {
    /// The next bytes have to be copied, at most this many.
    Bytes(u64),
    /// A hole of this many bytes was skipped on both sides.
    Hole(u64),
}

/// Whether to look for holes, and the offset up to which there are none.
#[derive(Debug)]
pub(super) enum Sparse {
    /// There are no holes, or the sink cannot keep them.
    No,
    /// There may be holes from this offset on.
    Until(u64),
}

impl Sparse {
    /// Keeps holes from the current positions on, if the sink is written at its end.
    pub(super) fn of(source: &Stat, sink: &Stat, options: &Options) -> Self {
        let regular = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        // st_blocks counts units of 512 bytes (stat(3type)).
        let has_holes = i128::from(source.st_blocks) * 512 < i128::from(source.st_size);
        let at_positions = options.source_offset.is_none() && options.sink_offset.is_none();
        if regular(source) && regular(sink) && has_holes && at_positions {
            Sparse::Until(0)
        } else {
            Sparse::No
        }
    }

    /// Skips the next hole, of at most `most` bytes, or returns the number of bytes before it.
    pub(super) fn next(
        &mut self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        most: u64,
    ) -> Result<Stretch, Stop> {
        let Sparse::Until(until) = *self else {
            return Ok(Stretch::Bytes(u64::MAX));
        };
        let lost = |side| move |errno| Stop::At(side, "lseek", errno);
        let at = seek(source, SeekFrom::Current(0)).map_err(lost(TransferSide::Source))?;
        if at < until {
            return Ok(Stretch::Bytes(until - at));
        }
        let to = seek(sink, SeekFrom::Current(0)).map_err(lost(TransferSide::Sink))?;
        let end_of_sink = rustix::fs::fstat(sink)
            .map_err(|errno| Stop::At(TransferSide::Sink, "fstat", errno))?
            .st_size;
        if i128::from(end_of_sink) > i128::from(to) || direct::appends(sink) {
            *self = Sparse::No;
            return Ok(Stretch::Bytes(u64::MAX));
        }
        let end = rustix::fs::fstat(source)
            .map_err(|errno| Stop::At(TransferSide::Source, "fstat", errno))?
            .st_size;
        let data = match seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            // There is no more data up to the end.
            Err(Errno::NXIO) => u64::try_from(end).unwrap_or(0).max(at),
            Err(_) => {
                *self = Sparse::No;
                return Ok(Stretch::Bytes(u64::MAX));
            }
        };
        if data > at {
            let hole = (data - at).min(most);
            if let Err(errno) = uninterrupted(|| ftruncate(sink, to + hole)) {
                seek(source, SeekFrom::Start(at)).map_err(lost(TransferSide::Source))?;
                if !linux::is_refusal(errno) {
                    return Err(Stop::At(TransferSide::Sink, "ftruncate", errno));
                }
                // Some file systems cannot extend a file without writing to it (ftruncate(2)).
                *self = Sparse::No;
                return Ok(Stretch::Bytes(u64::MAX));
            }
            seek(sink, SeekFrom::Start(to + hole)).map_err(lost(TransferSide::Sink))?;
            seek(source, SeekFrom::Start(at + hole)).map_err(lost(TransferSide::Source))?;
            return Ok(Stretch::Hole(hole));
        }
        if data >= u64::try_from(end).unwrap_or(0) {
            seek(source, SeekFrom::Start(at)).map_err(lost(TransferSide::Source))?;
            // This is the end, unless the file grows meanwhile.
            return Ok(Stretch::Bytes(u64::MAX));
        }
        let hole = seek(source, SeekFrom::Hole(at)).map_err(lost(TransferSide::Source))?;
        seek(source, SeekFrom::Start(at)).map_err(lost(TransferSide::Source))?;
        if hole <= at {
            // The hole has just been created: copy it as bytes, which are zeros.
            return Ok(Stretch::Bytes(u64::MAX));
        }
        *self = Sparse::Until(hole);
        Ok(Stretch::Bytes(hole - at))
    }
}
