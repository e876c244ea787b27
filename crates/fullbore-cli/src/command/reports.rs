//! What is known about the output of a report before it is made.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;

use fullbore_host::refusal::Usage;
use fullbore_results::report::table::Table;
use rustix::fs::{Access, OFlags, access};
use rustix::io::Errno;

use super::output::{directory_of, is_stdout, place_of, takes_bytes_as_they_come};
use crate::{inherited, terminal};

/// Returns a table with the width and the colours of the terminal, if `out` is one.
pub fn table_on(out: &(impl AsFd + IsTerminal)) -> Table {
    let to_terminal = out.is_terminal();
    let width = to_terminal
        .then(|| rustix::termios::tcgetwinsize(out).ok())
        .flatten()
        .map(|size| size.ws_col)
        .filter(|&columns| columns > 0);
    Table {
        width,
        color: to_terminal && terminal::may_colour(),
        ..Table::default()
    }
}

/// Checks that a report can be written to `path`, without changing what is there.
///
/// # Errors
/// If it cannot, as far as that is known before the report is written. The error names `path`.
pub fn check_path(path: &Path) -> Result<(), Usage> {
    if is_stdout(path) {
        return Ok(());
    }
    let named = inherited::descriptor(path, OFlags::WRONLY);
    let answer = match takes_bytes_as_they_come(path) {
        _ if named.is_some() => named.transpose().map(drop),
        // Opening a FIFO would wait for its reader.
        true => match fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            true => Err(Errno::ISDIR.into()),
            false => access(path, Access::WRITE_OK).map_err(io::Error::from),
        },
        false => tempfile::tempfile_in(directory_of(&place_of(path))).map(drop),
    };
    answer.map_err(|error| {
        Usage(format!(
            "cannot write the report to '{}': {error}",
            path.display()
        ))
    })
}
