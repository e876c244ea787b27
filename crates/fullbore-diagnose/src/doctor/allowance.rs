//! Estimates how much of a user's allowance for pipes is in use: the pages of all pipes that the user made,
//! which the kernel counts and does not report (`account_pipe_buffers`, fs/pipe.c).
//!
//! The sum is therefore that of the pipes in a census of all processes that are visible. A pipe belongs to the user
//! who made it, who is the owner of its inode. Its capacity is only available to processes that have it open: so each
//! pipe is opened for a moment ([`Census::fill`]).

use fullbore_linux::page_size;
use fullbore_observe::census::{Census, Pipe};
use fullbore_results::doctor::Allowance;

/// Adds up the pipes of this user.
pub fn read() -> Allowance {
    let uid = rustix::process::geteuid().as_raw();
    let census = Census::take().unwrap_or_default();
    let own = census.pipes.iter().filter(|pipe| pipe.owner == uid);
    let capacities: Vec<Option<u64>> = own.map(|pipe| capacity(&census, pipe)).collect();
    let bytes: u64 = capacities.iter().flatten().sum();
    Allowance {
        uid,
        pipes: capacities.len(),
        bytes,
        pages: bytes / page_size() as u64,
        pipes_closed: capacities.iter().filter(|known| known.is_none()).count(),
        processes_seen: census.processes.len(),
        processes_closed: census.unseen.of_this_user,
        ..Allowance::default()
    }
}

fn capacity(census: &Census, pipe: &Pipe) -> Option<u64> {
    Some(census.fill(pipe).ok()??.capacity as u64)
}

/// Formats the report for the terminal.
pub fn lines(allowance: &Allowance) -> Vec<String> {
    let Allowance {
        uid, pipes, pages, ..
    } = allowance;
    let of = match allowance.soft_limit {
        Some(0) => " (no limit)".into(),
        Some(limit) => format!(" of {limit} ({:.0}%)", *pages as f64 * 100.0 / limit as f64),
        None => String::new(),
    };
    let size = fullbore_host::size::format(allowance.bytes);
    let exempt = match allowance.exempt {
        true => "; the limit does not apply to this process",
        false => "",
    };
    vec![
        format!(
            "user {uid} has {pipes} pipes with a total capacity of {size}: {pages} pages{of}{exempt}"
        ),
        format!(
            "not seen: pipes of {} processes of this user that may not be inspected, {} that could not be \
             opened, those of other PID namespaces, and those that are being passed over sockets",
            allowance.processes_closed, allowance.pipes_closed
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use fullbore_linux::Pipe;

    use super::*;

    #[test]
    fn a_pipe_counts_once_however_often_it_is_open() {
        let pipe = Pipe::new().unwrap();
        let end = fullbore_linux::pipe::of(&pipe.reader).unwrap().unwrap();
        let (identity, size) = (end.identity().unwrap(), end.capacity().unwrap());
        // The census is of other processes.
        let mut sleeper = Command::new("sleep")
            .arg("600")
            .stdin(pipe.reader.try_clone().unwrap())
            .stdout(pipe.writer.try_clone().unwrap())
            .spawn()
            .unwrap();
        let census = Census::take().unwrap();
        let mut found = census.pipes.iter().filter(|pipe| pipe.identity == identity);
        let own = found.next().unwrap();
        assert_eq!(found.next(), None);
        assert_eq!(capacity(&census, own), Some(size as u64));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn looking_at_a_pipe_leaves_its_ends_as_they_were() {
        let pipe = Pipe::new().unwrap();
        rustix::io::write(&pipe.writer, b"hello").unwrap();
        read();
        drop(pipe.writer);
        let mut came = [0; 16];
        assert_eq!(rustix::io::read(&pipe.reader, &mut came), Ok(5));
        assert_eq!(rustix::io::read(&pipe.reader, &mut came), Ok(0));
    }

    #[test]
    fn what_is_used_is_said_beside_what_is_allowed() {
        let some = Allowance {
            uid: 1000,
            pipes: 3,
            bytes: 3 << 16,
            pages: 48,
            soft_limit: Some(16384),
            ..Allowance::default()
        };
        let lines = lines(&some);
        assert_eq!(
            lines[0],
            "user 1000 has 3 pipes with a total capacity of 192 KiB: 48 pages of 16384 (0%)"
        );
        assert!(
            lines[1].contains("those of other PID namespaces"),
            "{lines:?}"
        );
    }
}
