//! Examines the two ends of a transfer, and takes bytes from the source by one call.

use std::os::fd::BorrowedFd;

use fullbore::{Error, TransferSide};
use fullbore_linux::outcome::{self, Call, End as Kind, Outcome};
use fullbore_linux::{refuse_the_same, stat_of};
use rustix::io::Errno;

use crate::carrier::{Carrier, Done, moved, waits};
use crate::ends::{End, Side, Unusable};
use crate::pool::Pool;

/// Examines both ends.
///
/// # Errors
/// `Error::Invalid` for descriptors that cannot be used, and for a transfer that would read the bytes that it writes.
pub(crate) fn examine<S: End, W: End>(
    source: &mut Side<S>,
    sink: &mut Side<W>,
) -> Result<(Kind, Kind), Error> {
    let refused = |side: TransferSide| {
        move |(operation, error): Unusable| match error.raw_os_error() {
            Some(_) => Error::Moving {
                side,
                operation,
                errno: error,
                moved: 0,
            },
            None => Error::Invalid(format!("the {side}: {error}")),
        }
    };
    let shapes = (
        source.examine().map_err(refused(TransferSide::Source))?,
        sink.examine().map_err(refused(TransferSide::Sink))?,
    );
    if let (Kind::Pipe, Kind::Pipe) | (Kind::File, Kind::File) = shapes {
        let of_source = stat_of(source.fd(), TransferSide::Source)?;
        refuse_the_same(&of_source, &stat_of(sink.fd(), TransferSide::Sink)?, false)?;
    }
    Ok(shapes)
}

/// Returns whether the kernel may report this error only once, and an end afterwards, as it does with the pending error
/// of a socket. For devices, this is unknown. A lack of memory concerns only one call.
pub(crate) fn is_reported_once(source: Kind, errno: Errno) -> bool {
    !matches!(source, Kind::Pipe | Kind::File) && !matches!(errno, Errno::NOMEM | Errno::NOBUFS)
}

/// Takes at most `most` bytes from the source, by splice(2) if it `splices`.
pub(crate) fn take(
    carrier: &mut Carrier,
    (source, shape): (BorrowedFd<'_>, Kind),
    pool: &Pool,
    splices: bool,
    most: usize,
) -> Done {
    let read = |carrier: &mut Carrier| {
        let read = carrier.read((source, shape), pool, most);
        read.map_err(|errno| ("read", errno))
    };
    let splices = splices && (shape == Kind::Pipe || !waits(source, shape));
    let Some(pipe) = splices.then(|| pool.pipe()).flatten() else {
        return moved(read(carrier)?, false, false);
    };
    let mut pipe = Some(pipe);
    let mut splice = || carrier.splice((source, shape), &mut pipe, pool, most);
    let spliced = splice();
    let outcome = match outcome::of(Call::Splice, (shape, Kind::Own), spliced, None) {
        Outcome::RefusedOrPending(errno) => outcome::of_repeated(shape, errno, splice()),
        known => known,
    };
    let done = match outcome {
        Outcome::Moved(bytes) => moved(bytes, true, false),
        // Only read(2) shows whether this is the end, and only read(2) passes the mark of urgent data. poll(2) is not
        // asked first, because it costs as much as the read(2).
        Outcome::ReadOnce | Outcome::Ask => {
            read(carrier).and_then(|bytes| moved(bytes, false, false))
        }
        Outcome::Refused => read(carrier).and_then(|bytes| moved(bytes, false, true)),
        // It may be the pending error of the socket, which the kernel reports once.
        _ => Err(("splice", spliced.err().unwrap_or(Errno::AGAIN))),
    };
    if let Some(pipe) = pipe {
        pool.give_back(pipe);
    }
    done
}
