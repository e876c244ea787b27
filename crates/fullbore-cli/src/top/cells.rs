//! A pipe in words: the text of each column, for the table and for the screen.

use crate::terminal::report::about;
use fullbore_host::size;
use fullbore_host::size::amount;
use fullbore_host::text::{Percent, counted};
use fullbore_observe::Cause;
use fullbore_observe::census::Process;
use fullbore_observe::overview::{ChainState, Overview, PipeState, Side, Slow};
use fullbore_observe::verdict::Bound;

/// The length of a single wait, in seconds, from which its duration is shown instead of the share of the
/// time.
const LONG: f64 = 1.0;

/// The least share of the time for which waiting is shown.
const OFTEN: f64 = 0.05;

/// Returns a symbol for the position of a pipe in its chain.
pub fn branch(overview: &Overview, row: &PipeState) -> &'static str {
    let Some(chain) = row.chain.map(|chain| &overview.chains[chain]) else {
        return "";
    };
    let is_at = |pipe: Option<&usize>| {
        pipe.is_some_and(|&pipe| overview.pipes[pipe].identity() == row.identity())
    };
    match (is_at(chain.pipes.first()), is_at(chain.pipes.last())) {
        (true, true) => "",
        (true, false) => "┌ ",
        (false, true) => "└ ",
        (false, false) => "│ ",
    }
}

/// Returns the processes that write and the processes that read: `tar 12 → zstd 13`.
pub fn ends(row: &PipeState) -> String {
    let ends = format!("{} → {}", people(&row.writers), people(&row.readers));
    match &row.path {
        Some(path) => format!("{ends} by {path}"),
        None => ends,
    }
}

fn people(all: &[Process]) -> String {
    match all {
        [] => "?".to_owned(),
        [one] => format!("{} {}", one.name, one.id.pid),
        [one, others @ ..] => format!("{} {} +{}", one.name, one.id.pid, others.len()),
    }
}

/// Returns the capacity of the pipe.
pub fn capacity(row: &PipeState) -> String {
    or_unknown(row.capacity.map(|size| size::format(size as u64)))
}

/// Returns how full the pipe is, in percent.
pub fn filled(row: &PipeState) -> String {
    or_unknown(row.filled.map(|share| Percent(share).to_string()))
}

fn or_unknown(text: Option<String>) -> String {
    text.unwrap_or_else(|| "?".to_owned())
}

/// Returns the rate in bytes per second.
pub fn rate(row: &PipeState) -> String {
    about(row.bytes_per_second, row.rate_is, "/s")
}

/// Returns which side waits, and for how long so far or for what share of the time.
pub fn waits(row: &PipeState) -> String {
    let blocked = row.blocked.iter().map(|one| (one.side, one.seconds));
    if let Some((side, seconds)) = longest(blocked, LONG) {
        return format!("{} {}", side_name(side), time(seconds));
    }
    let writer = row.writer_waits.map(|share| (Side::Writer, share));
    let reader = row.reader_waits.map(|share| (Side::Reader, share));
    match longest(writer.into_iter().chain(reader), OFTEN) {
        Some((side, share)) => format!("{} {}", side_name(side), Percent(share)),
        None if writer.or(reader).is_none() => "?".to_owned(),
        None => "-".to_owned(),
    }
}

/// Returns the longest wait, if one is at least so long.
fn longest(waits: impl Iterator<Item = (Side, f64)>, least: f64) -> Option<(Side, f64)> {
    let long = waits.filter(|&(_, time)| time >= least);
    long.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Returns how far a pipeline is in its input, in a line below its verdict.
pub fn progress(chain: &ChainState) -> Option<String> {
    let progress = chain.progress?;
    let share = progress.passed as f64 / progress.total.max(1) as f64;
    let mut text = format!(
        "progress: {:.0}% of {}",
        share * 100.0,
        amount(progress.total as f64)
    );
    if let Some(rate) = progress.bytes_per_second {
        text += &format!(", {}/s", amount(rate));
    }
    if let Some(left) = progress.seconds_left {
        text += &format!(", {} left", time(left));
    }
    Some(text)
}

/// Returns which side is slow, and why.
pub fn slow(overview: &Overview, row: &PipeState) -> String {
    let chain = row.chain.map(|chain| &overview.chains[chain]);
    let why = chain.and_then(why).unwrap_or_default();
    match row.slow {
        Slow::Writer => format!("writer{why}"),
        Slow::Reader => format!("reader{why}"),
        Slow::Both => "both".to_owned(),
        Slow::Cpus => "CPUs".to_owned(),
        Slow::Unknown => "?".to_owned(),
    }
}

/// Returns what the slow stage spends its time on.
fn why(chain: &ChainState) -> Option<String> {
    let bound = match chain.verdict.as_ref()?.bound_by? {
        Bound::Cpu => "CPU",
        Bound::Queue => "queue",
        Bound::Cause(Cause::Unknown) => "?",
        Bound::Cause(cause) => cause.in_short(),
    };
    Some(format!(" {bound}"))
}

/// Formats a time in the largest unit that leaves about two digits.
pub fn time(seconds: f64) -> String {
    match seconds {
        ..9.95 => format!("{seconds:.1}s"),
        ..119.5 => format!("{seconds:.0}s"),
        ..7170.0 => format!("{:.0}min", seconds / 60.0),
        _ => format!("{:.0}h", seconds / 3600.0),
    }
}

/// Returns notes about what is not shown, and why.
pub fn notes(overview: &Overview) -> Vec<String> {
    let unseen = &overview.unseen;
    let left_out = &overview.left_out;
    let processes = |count| counted(count, "process", "processes");
    let pipes = |count| counted(count, "pipe", "pipes");
    #[rustfmt::skip]
    let notes = [
        (unseen.of_others, processes(unseen.of_others) + " of other users may not be inspected"),
        (unseen.of_this_user, processes(unseen.of_this_user) + " of this user may not be inspected"),
        (unseen.others_hidden.into(), "processes of other users are hidden from this one (hidepid)".to_owned()),
        (unseen.too_many_fds, processes(unseen.too_many_fds) + " with too many file descriptors to inspect"),
        (left_out.own, pipes(left_out.own) + " with both ends in the same processes (--all shows them)"),
        (left_out.not_watched, format!(
            "waiting is not shown for {}, because of the limit of open files (ulimit -n)",
            pipes(left_out.not_watched)
        )),
    ];
    let any = notes.into_iter().filter(|(count, _)| *count > 0);
    any.map(|(_, note)| note).collect()
}

/// Returns the name of a side.
pub fn side_name(side: Side) -> &'static str {
    match side {
        Side::Writer => "writer",
        Side::Reader => "reader",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_few_columns() {
        let words = [0.04, 9.94, 9.96, 119.0, 120.0, 7200.0, 86_400.0].map(time);
        assert_eq!(words, ["0.0s", "9.9s", "10s", "119s", "2min", "2h", "24h"]);
    }
}
