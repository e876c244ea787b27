//! What the tables show, in sentences.

use super::shortage::while_short;
use super::table::{ONE_PIPE, WayName, one_pipe, side_by_side};
use fullbore_results::run::Outcome;

/// The table of one pipe compares these writers and readers with one of each.
const MANY: (usize, usize) = (5, 10);

/// The table of pipelines compares this number of them with one.
const PIPES: usize = 64;

/// Returns what a table shows; `None` if nothing of that was measured.
pub fn remark(title: &str, table: &[&Outcome]) -> Option<String> {
    let sentences = match title == ONE_PIPE {
        true => [of_one_pipe(table), of_one_pipe_short(table)],
        false => [of_pipelines(table), of_pipelines_short(table)],
    };
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn find<'a>(table: &[&'a Outcome], name: &str) -> Option<&'a Outcome> {
    table.iter().copied().find(|outcome| outcome.name == name)
}

/// Returns how many times as much one experiment carries as another one.
fn times(table: &[&Outcome], name: &str, base: &str) -> Option<f64> {
    let speed = |name| Some(find(table, name)?.figure.as_ref()?.median);
    Some(speed(name)? / speed(base)?)
}

/// Returns how many times as long the 99th percentile of messages takes.
fn times_as_long(table: &[&Outcome], name: &str, base: &str) -> Option<f64> {
    let p99 = |name| {
        let mut also = find(table, name)?.also.iter();
        Some(also.find(|also| also.name == "p99")?.figure.median)
    };
    Some(p99(name)? / p99(base)?)
}

fn of_one_pipe(table: &[&Outcome]) -> Option<String> {
    let (writers, readers) = MANY;
    let (many, one) = (one_pipe(writers, readers, false), one_pipe(1, 1, false));
    let (much, long) = (
        times(table, &many, &one)?,
        times_as_long(table, &many, &one)?,
    );
    Some(format!(
        "with {writers} writers and {readers} readers, one pipe carries {much:.2} times as much as with one of each, \
         and the 99th percentile of the time that messages are under way is {} times as long",
        rounded(long)
    ))
}

fn of_one_pipe_short(table: &[&Outcome]) -> Option<String> {
    let (writers, readers) = MANY;
    let keeps = |writers, readers| {
        let (short, base) = (
            one_pipe(writers, readers, true),
            one_pipe(writers, readers, false),
        );
        times(table, &short, &base)
    };
    let notes = &find(table, &one_pipe(1, 1, true))?.notes;
    Some(format!(
        "{}, one writer and one reader keep {:.2} of their speed, and {writers} writers and {readers} readers keep {:.2}",
        while_short(notes)?,
        keeps(1, 1)?,
        keeps(writers, readers)?
    ))
}

fn of_pipelines(table: &[&Outcome]) -> Option<String> {
    let carries = |way| {
        let (many, one) = (side_by_side(PIPES, way, false), side_by_side(1, way, false));
        times(table, &many, &one)
    };
    let written = carries(WayName::Write)?;
    let fresh =
        carries(WayName::Fresh).map(|times| format!(", and {times:.2} times by fresh pages"));
    Some(format!(
        "{PIPES} pipelines side by side carry in all {written:.2} times as much as one by write(2){}",
        fresh.unwrap_or_default()
    ))
}

fn of_pipelines_short(table: &[&Outcome]) -> Option<String> {
    let keeps = |way| {
        let (short, base) = (
            side_by_side(PIPES, way, true),
            side_by_side(PIPES, way, false),
        );
        times(table, &short, &base)
    };
    let notes = &find(table, &side_by_side(PIPES, WayName::Write, true))?.notes;
    let written = keeps(WayName::Write)?;
    let fresh = keeps(WayName::Fresh).map(|share| format!(", and {share:.2} by fresh pages"));
    Some(format!(
        "{}, {PIPES} pipelines keep {written:.2} of their speed by write(2){}",
        while_short(notes)?,
        fresh.unwrap_or_default()
    ))
}

/// Returns a number of times with one decimal, or with none from 10 on.
fn rounded(times: f64) -> String {
    match times < 9.95 {
        true => format!("{times:.1}"),
        false => format!("{times:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::SIDE_BY_SIDE;
    use super::*;
    use fullbore_results::run::{Also, Unit};
    use fullbore_results::statistics::Spread;

    fn outcome(name: &str, gib_per_s: f64, p99: f64) -> Outcome {
        Outcome {
            figure: Spread::of(&[gib_per_s]),
            also: vec![Also {
                name: "p99".into(),
                unit: Unit::Microseconds,
                figure: Spread::of(&[p99]).unwrap(),
            }],
            notes: vec!["memory is short: in a cgroup with a limit of 194 MiB".into()],
            name: name.into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn one_pipe_with_many_is_compared_with_one_of_each() {
        let all = [
            outcome("w1_r1", 2.0, 10.0),
            outcome("w5_r10", 0.62, 120.0),
            outcome("w1_r1_reclaim", 1.6, 20.0),
            outcome("w5_r10_reclaim", 0.31, 300.0),
        ];
        let table: Vec<&Outcome> = all.iter().collect();
        let first = "with 5 writers and 10 readers, one pipe carries 0.31 times as much as with one of each, and the \
                     99th percentile of the time that messages are under way is 12 times as long";
        let second = "while memory has to be reclaimed in a cgroup with a limit, one writer and one reader keep 0.80 \
                      of their speed, and 5 writers and 10 readers keep 0.50";
        assert_eq!(
            remark(ONE_PIPE, &table).unwrap(),
            format!("{first}; {second}")
        );
        assert_eq!(remark(ONE_PIPE, &table[..2]).unwrap(), first);
        assert_eq!(remark(ONE_PIPE, &table[..1]), None);
    }

    #[test]
    fn many_pipelines_are_compared_with_one() {
        let all = [
            outcome("pipes_1_write", 2.0, 10.0),
            outcome("pipes_64_write", 1.8, 10.0),
            outcome("pipes_64_write_reclaim", 0.9, 10.0),
            outcome("pipes_1_fresh", 1.0, 10.0),
            outcome("pipes_64_fresh", 1.5, 10.0),
            outcome("pipes_64_fresh_reclaim", 1.2, 10.0),
        ];
        let table: Vec<&Outcome> = all.iter().collect();
        let expected = "64 pipelines side by side carry in all 0.90 times as much as one by write(2), and 1.50 times by \
                        fresh pages; while memory has to be reclaimed in a cgroup with a limit, 64 pipelines keep \
                        0.50 of their speed by write(2), and 0.80 by fresh pages";
        assert_eq!(remark(SIDE_BY_SIDE, &table).unwrap(), expected);
        let expected = "64 pipelines side by side carry in all 0.90 times as much as one by write(2); while memory has \
                        to be reclaimed in a cgroup with a limit, 64 pipelines keep 0.50 of their speed by write(2)";
        assert_eq!(remark(SIDE_BY_SIDE, &table[..3]).unwrap(), expected);
        assert_eq!([1.26, 9.96].map(rounded), ["1.3", "10"]);
    }
}
