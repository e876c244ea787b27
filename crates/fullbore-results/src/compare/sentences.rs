//! What the reports of a comparison say in the same words.

use std::ops::Range;

use super::comparison::{
    Change, ComparedFigure, ComparedRun, Comparison, P_BELOW, ROUNDS_AT_LEAST, TIMES_ABOVE,
};
use crate::report::fields::Field;
use crate::report::{figure, one_line};
use fullbore_host::text::counted;

/// Returns the file, the date, the kernel and the CPU of a run.
pub fn described(run: &ComparedRun) -> String {
    format!(
        "{}: taken {}, Linux {}, {}",
        run.file,
        run.taken_at,
        run.kernel.as_deref().unwrap_or("of unknown release"),
        run.cpu_model.as_deref().unwrap_or("CPU unknown"),
    )
}

/// Returns the figures of each group, or of each table of a group.
pub fn tables(comparison: &Comparison) -> impl Iterator<Item = &[ComparedFigure]> {
    comparison
        .rows
        .chunk_by(|one, other| one.group == other.group && one.table == other.table)
}

/// Returns the name of a group, or of one table of it.
pub fn name(row: &ComparedFigure) -> String {
    match &row.table {
        None => row.group.clone(),
        Some(table) => format!("{}: {table}", row.group),
    }
}

/// Returns the unit of a figure; `mixed` where the runs do not agree.
fn unit(row: &ComparedFigure) -> &'static str {
    let mut units = row.runs.iter().filter_map(|run| run.unit);
    match units.next() {
        None => "",
        Some(first) if units.all(|unit| unit == first) => first.name(),
        Some(_) => "mixed",
    }
}

/// Returns the name of the experiment, and which of its figures this is.
fn row_name(row: &ComparedFigure) -> String {
    one_line(&format!(
        "{} {}",
        row.name,
        row.figure.as_deref().unwrap_or_default()
    ))
}

/// Returns the columns of a table: the figures of the first run and of these further ones, and their comparison.
pub fn fields(
    runs: &[ComparedRun],
    rows: &[&ComparedFigure],
    further: Range<usize>,
    verdict: fn(Change) -> String,
) -> Vec<Field> {
    let first = &runs[0].label;
    let medians = [0].into_iter().chain(further.clone()).map(|at| {
        Field::of((&runs[at].label, true, 1), rows, |row| {
            let median = row.runs[at].median?;
            Some((number(median), Some(median)))
        })
    });
    let names = Field::words(("experiment", 2), rows, row_name);
    let units = Field::words(("unit", 1), rows, |row| unit(row).to_owned());
    let mut fields: Vec<Field> = [names, units].into_iter().chain(medians).collect();
    for at in further {
        let label = &runs[at].label;
        let ratio = format!("{label} to {first}");
        fields.push(Field::of((&ratio, true, 2), rows, |row| {
            let ratio = row.to_first[at - 1].ratio?;
            Some((format!("{}×", number(ratio)), Some(ratio)))
        }));
        let is = format!("{label} is");
        fields.push(Field::words((&is, 2), rows, |row| {
            verdict(row.to_first[at - 1].verdict)
        }));
    }
    fields
}

/// Returns why figures are missing, a sentence each.
pub fn missing(rows: &[ComparedFigure]) -> impl Iterator<Item = String> {
    rows.iter().flat_map(|row| {
        let reasons = row.runs.iter().filter_map(|run| run.reason());
        reasons.map(|reason| format!("{}: {reason}", row.name))
    })
}

/// Returns a number as in all tables; one that is very large or small in scientific notation.
fn number(number: f64) -> String {
    match number.abs() {
        n if n >= 1e7 || (n > 0.0 && n < 0.005) => format!("{number:.2e}"),
        _ => figure(number),
    }
}

/// Returns what ratios and verdicts mean, a sentence each.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    let pairs = || comparison.rows.iter().flat_map(|row| &row.to_first);
    let tested = pairs().filter(|pair| pair.p.is_some()).count();
    let percent = (TIMES_ABOVE - 1.0) * 100.0;
    let mut lines = vec![
        format!(
            "ratio: how many times as fast as {} (of the medians). Above 1 is better in every unit",
            comparison.runs[0].label
        ),
        format!(
            "faster, slower: the medians differ by more than {percent:.0}%, and rounds of equally fast runs \
             would differ as much in fewer than {} of 100 comparisons (rank-sum test, p < {})",
            P_BELOW * 100.0,
            P_BELOW
        ),
    ];
    if pairs().any(|pair| pair.verdict == Change::TooFewRounds) {
        lines.push(format!(
            "too few rounds: no difference can be significant. Each run needs at least {} rounds, \
             and 10 are better (--rounds)",
            ROUNDS_AT_LEAST
        ));
    }
    if tested > 0 {
        lines.push(format!(
            "{} tested: up to {} of them may be significant by chance",
            counted(tested, "pair of figures was", "pairs of figures were"),
            number(tested as f64 * P_BELOW)
        ));
    }
    lines.push(
        "rounds of one run do not show how much the result changes from run to run: first compare two \
         runs with the same settings"
            .to_owned(),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_are_short() {
        for (shown, expected) in [
            (1.5, "1.50"),
            (1e300, "1.00e300"),
            (0.0001, "1.00e-4"),
            (0.0, "0.00"),
        ] {
            assert_eq!(number(shown), expected);
        }
    }
}
