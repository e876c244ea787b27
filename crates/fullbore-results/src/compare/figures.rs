//! The figures of one experiment in all runs, and each further run beside the first.

use super::comparison::{
    Change, ComparedFigure, Measured, P_BELOW, Pair, ROUNDS_AT_LEAST, TIMES_ABOVE, label,
};
use super::select::Like;
use crate::rank_sum::rank_sum;
use crate::run::{Outcome, Unit};
use crate::statistics::Spread;

/// The name of the figure of the program in C.
const IN_C: &str = "in C";

/// Returns the figures of one experiment: the main one, the further ones, and that of the program
/// in C.
pub fn rows(like: &Like<'_>) -> Vec<ComparedFigure> {
    let Some(any) = like.iter().flatten().next() else {
        return Vec::new();
    };
    let row = |figure: Option<&str>| {
        let runs = like.iter().enumerate();
        let runs = runs.map(|(index, outcome)| measured(index, *outcome, figure));
        let pairs = (1..like.len()).map(|index| {
            let spread = |at: usize| like[at].and_then(|outcome| spread_of(outcome, figure));
            pair(label(index), spread(0), spread(index))
        });
        ComparedFigure {
            group: any.group.clone(),
            table: any.table.clone(),
            name: any.name.clone(),
            figure: figure.map(str::to_owned),
            to_first: pairs.collect(),
            runs: runs.collect(),
        }
    };
    let mut names = vec![None];
    for (name, _) in like.iter().flatten().flat_map(|outcome| figures(outcome)) {
        let here = like.iter().flatten();
        let having = here.filter(|outcome| spread_of(outcome, name).is_some());
        // One that a single run has says nothing beside the others.
        if having.count() > 1 && !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(row).collect()
}

/// Returns all figures of an outcome: their names, which the main one does not have, their rounds and their unit.
fn figures(outcome: &Outcome) -> impl Iterator<Item = (Option<&str>, (&Spread, Unit))> {
    let main = outcome.figure.as_ref().map(|spread| (None, spread));
    let peer = outcome.peer.as_ref().and_then(|peer| peer.figure.as_ref());
    let peer = peer.map(|spread| (Some(IN_C), spread));
    let of_its_unit = main.into_iter().chain(peer);
    let also = outcome.also.iter();
    also.filter(|also| !outcome.is_only_converted(also))
        .map(|also| (Some(also.name.as_str()), (&also.figure, also.unit)))
        .chain(of_its_unit.map(|(name, spread)| (name, (spread, outcome.unit))))
}

fn spread_of<'a>(outcome: &'a Outcome, figure: Option<&str>) -> Option<(&'a Spread, Unit)> {
    let found = figures(outcome).find(|(name, _)| *name == figure);
    found.map(|(_, spread)| spread)
}

fn measured(index: usize, outcome: Option<&Outcome>, figure: Option<&str>) -> Measured {
    let spread = outcome.and_then(|outcome| spread_of(outcome, figure));
    let main = outcome.filter(|_| figure.is_none());
    Measured {
        run: label(index),
        unit: spread
            .map(|(_, unit)| unit)
            .or(main.map(|outcome| outcome.unit)),
        median: spread.map(|(spread, _)| spread.median),
        min: spread.map(|(spread, _)| spread.min),
        max: spread.map(|(spread, _)| spread.max),
        rounds: spread.map_or(0, |(spread, _)| spread.rounds.len()),
        skipped: main.and_then(|outcome| outcome.skipped.clone()),
        failed: main.and_then(|outcome| outcome.failed.clone()),
    }
}

/// Compares the seconds that something took with those of the first.
pub fn seconds(run: &str, first: &Spread, further: &Spread) -> Pair {
    // The size of the unit does not matter, only that less is better.
    let with_unit = |spread| Some((spread, Unit::Microseconds));
    pair(run.to_owned(), with_unit(first), with_unit(further))
}

/// Compares a figure of a further run with that of the first.
fn pair(run: String, first: Option<(&Spread, Unit)>, further: Option<(&Spread, Unit)>) -> Pair {
    let untested = |ratio, verdict| Pair {
        run: run.clone(),
        ratio,
        p: None,
        verdict,
    };
    let of_one_unit = first.zip(further).filter(|(a, b)| a.1 == b.1);
    let Some(((first, unit), (further, _))) = of_one_unit else {
        return untested(None, Change::NotComparable);
    };
    let ratio = unit.times_as_fast(further.median, first.median);
    if !(first.median > 0.0 && further.median > 0.0 && ratio.is_normal()) {
        return untested(None, Change::NotComparable);
    }
    if first.rounds.len().min(further.rounds.len()) < ROUNDS_AT_LEAST {
        return untested(Some(ratio), Change::TooFewRounds);
    }
    let test = rank_sum(&further.rounds, &first.rounds);
    // Where medians and ranks point to different sides, neither is shown.
    let ranks_say_faster = (test.lean > 0.0) == unit.more_is_better();
    let verdict = if test.p >= P_BELOW || ranks_say_faster != (ratio > 1.0) {
        Change::WithinNoise
    } else if ratio > TIMES_ABOVE {
        Change::Faster
    } else if 1.0 / ratio > TIMES_ABOVE {
        Change::Slower
    } else {
        Change::WithinNoise
    };
    Pair {
        p: Some(test.p),
        ..untested(Some(ratio), verdict)
    }
}
