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
    let splice = |carrier: &mut Carrier| carrier.splice((source, shape), pool, most);
    let Some(spliced) = splices.then(|| splice(carrier)).flatten() else {
        return moved(read(carrier)?, false, false);
    };
    let outcome = outcome::of(Call::Splice, (shape, Kind::Own), spliced, None);
    match (outcome, spliced) {
        (Outcome::Moved(bytes), _) => moved(bytes, true, false),
        // Only read(2) shows whether this is the end, and only read(2) passes the mark of urgent data. poll(2) is not
        // asked first, because it costs as much as the read(2).
        (Outcome::ReadOnce | Outcome::Ask, _) => {
            read(carrier).and_then(|bytes| moved(bytes, false, false))
        }
        (Outcome::Refused | Outcome::RefusedOrPending(_), Err(errno)) => match read(carrier) {
            // It may have been the pending error of the socket (`EACCES` of ICMPv6), which is followed by an end. A
            // refusal would be repeated.
            Ok(0) if is_reported_once(shape, errno) => {
                let again = splice(carrier).unwrap_or(Ok(0));
                match outcome::of_repeated(shape, errno, again) {
                    Outcome::Moved(bytes) => moved(bytes, true, false),
                    Outcome::Refused => moved(0, false, true),
                    _ => Err(("splice", errno)),
                }
            }
            read => read.and_then(|bytes| moved(bytes, false, true)),
        },
        (_, spliced) => Err(("splice", spliced.err().unwrap_or(Errno::AGAIN))),
    }
}
