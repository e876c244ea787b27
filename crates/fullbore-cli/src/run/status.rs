//! Computes the status of a pipeline from the statuses of its stages.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

use super::options::Options;

/// Returns the status of the last stage or, with pipefail, of the last stage that failed.
pub fn whole(statuses: &[ExitStatus], options: &Options) -> ExitStatus {
    let Some((&last, before)) = statuses.split_last() else {
        return ExitStatus::default();
    };
    if options.no_pipefail || !last.success() {
        return last;
    }
    let failed = before.iter().rfind(|status| !status.success());
    failed.copied().unwrap_or(last)
}

/// Returns whether SIGPIPE ended the stage. A shell exits with this code if SIGPIPE has ended the program that it
/// started.
pub fn was_ended_by_sigpipe(status: ExitStatus) -> bool {
    code(status) == 128 + Signal::PIPE.as_raw() as u8
}

/// Returns the exit code as a shell does: the code of the process, or 128 plus the number of the signal.
pub fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128u8.wrapping_add(signal.unwrap_or(0) as u8),
    }
}

/// Returns how a process has failed, in words.
pub fn how_it_failed(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("failed with exit code {}", code(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a status as wait(2) encodes it.
    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn with_pipefail_the_last_that_failed_counts_and_otherwise_the_last() {
        let killed = ExitStatus::from_raw(9);
        let by_sigpipe = ExitStatus::from_raw(13);
        for (statuses, no_pipefail, expected) in [
            (vec![exited(0), exited(0)], false, 0),
            (vec![exited(1), exited(2), exited(0)], false, 2),
            (vec![exited(1), exited(2), exited(0)], true, 0),
            (vec![exited(0), killed], false, 137),
            (vec![killed, exited(0)], false, 137),
            (vec![killed, exited(3)], true, 3),
            (vec![by_sigpipe, exited(0)], false, 141),
            (vec![exited(0), by_sigpipe], false, 141),
            (vec![by_sigpipe, exited(3)], false, 3),
        ] {
            let options = Options {
                no_pipefail,
                ..Options::default()
            };
            assert_eq!(code(whole(&statuses, &options)), expected, "{statuses:?}");
        }
    }
}
