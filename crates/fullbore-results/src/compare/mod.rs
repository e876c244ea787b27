//! Several runs compared: the figures of each experiment in all runs, how many times as fast the further
//! runs are as the first, and whether that is more than noise.
//!
//! A [`Comparison`] is data, as a [`Run`](crate::run::Run) is. What it says is decided here; the reports
//! (`table.rs`, `html.rs`, and the JSON) only show it. Experiments are identified by group and
//! name, so that a file may have some that this version does not know.

mod comparison;
mod facts;
mod figures;
mod html;
mod read;
mod select;
mod sentences;
mod table;

use comparison::label;
use facts::{differences, warnings};
use figures::rows;
use fullbore_host::refusal::Usage;
use select::meant;

pub use comparison::{
    COMPARISON_SCHEMA, Change, ComparedFigure, ComparedRun, Comparison, Difference, Measured,
    P_BELOW, Pair, ROUNDS_AT_LEAST, TIMES_ABOVE,
};
pub use figures::seconds;
pub use read::{LoadedRun, MOST_RUNS, read};

/// Compares the experiments of `runs` that `patterns` mean; all of them without patterns.
///
/// # Errors
///
/// Where a pattern is invalid, or means no experiment of any run.
pub fn compare(runs: &[LoadedRun], patterns: &[String]) -> Result<Comparison, Usage> {
    let meant = meant(runs, patterns)?;
    let rows: Vec<ComparedFigure> = meant.iter().flat_map(rows).collect();
    Ok(Comparison {
        comparison_schema: COMPARISON_SCHEMA,
        runs: runs.iter().enumerate().map(named).collect(),
        differences: differences(runs),
        warnings: warnings(runs),
        rows,
    })
}

fn named((index, taken): (usize, &LoadedRun)) -> ComparedRun {
    ComparedRun {
        label: label(index),
        file: taken.file.clone(),
        taken_at: taken.run.taken_at.clone(),
        kernel: taken.run.machine.kernel.clone(),
        cpu_model: taken.run.machine.cpu_model.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::fixture;
    use super::super::run::{Also, Unit};
    use super::super::statistics::Spread;
    use super::*;

    /// The run of the reports' tests with these rounds of `write_read`, and its other figures once.
    pub fn taken(rounds: &[f64]) -> LoadedRun {
        let mut run = fixture();
        run.experiments[0].figure = Spread::of(rounds);
        LoadedRun {
            file: "run.json".to_owned(),
            run,
        }
    }

    fn rounds(times: f64) -> Vec<f64> {
        [1.00, 1.03, 0.97, 1.01, 0.99]
            .map(|round| round * times)
            .to_vec()
    }

    fn compared(runs: &[LoadedRun]) -> Comparison {
        compare(runs, &[]).unwrap()
    }

    fn verdict(first: &[f64], further: &[f64], unit: Unit) -> Change {
        let mut runs = [taken(first), taken(further)];
        for taken in &mut runs {
            taken.run.experiments[0].unit = unit;
        }
        compared(&runs).rows[0].to_first[0].verdict
    }

    #[test]
    fn a_verdict_needs_a_difference_that_is_beyond_chance_and_matters() {
        let base = rounds(1.0);
        for (further, expected) in [
            (rounds(2.0), Change::Faster),
            (rounds(0.5), Change::Slower),
            (rounds(1.0), Change::WithinNoise),
            // Beyond chance, but for the overlap.
            (rounds(1.03), Change::WithinNoise),
            (vec![2.0; 4], Change::TooFewRounds),
            (vec![2.0; 3], Change::TooFewRounds),
            (vec![2.0], Change::TooFewRounds),
        ] {
            assert_eq!(
                verdict(&base, &further, Unit::GibPerS),
                expected,
                "{further:?}"
            );
        }
        // Never chance, and too little to matter.
        assert_eq!(
            verdict(&[1.0; 10], &[1.01; 10], Unit::GibPerS),
            Change::WithinNoise
        );
        assert_eq!(
            verdict(&[1.0; 10], &[1.03; 10], Unit::GibPerS),
            Change::Faster
        );
        assert_eq!(
            verdict(&[1.03; 10], &[1.0; 10], Unit::GibPerS),
            Change::Slower
        );
    }

    #[test]
    fn less_is_faster_where_less_is_better() {
        let (fast, slow) = (rounds(1.0), rounds(2.0));
        for unit in [Unit::Microseconds, Unit::NanosecondsPerPage, Unit::Times] {
            assert_eq!(verdict(&slow, &fast, unit), Change::Faster);
            assert_eq!(verdict(&fast, &slow, unit), Change::Slower);
        }
    }

    #[test]
    fn the_same_run_twice_is_within_noise() {
        let runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        let compared = compared(&runs);
        let pair = &compared.rows[0].to_first[0];
        assert_eq!((pair.ratio, pair.p), (Some(1.0), Some(1.0)));
        assert_eq!((compared.differences, compared.warnings), (vec![], vec![]));
    }

    #[test]
    fn what_only_some_have_is_said() {
        let mut runs = [
            taken(&rounds(1.0)),
            taken(&rounds(1.0)),
            taken(&rounds(1.0)),
        ];
        runs[1].run.experiments.remove(0);
        runs[2].run.experiments[0].figure = None;
        runs[2].run.experiments[0].failed = Some("broke".into());
        runs[0].run.experiments.remove(1);
        let compared = compared(&runs);
        let verdicts = |name: &str| -> Vec<Change> {
            let row = compared.rows.iter().find(|row| row.name == name).unwrap();
            row.to_first.iter().map(|pair| pair.verdict).collect()
        };
        assert_eq!(verdicts("write_read"), [Change::NotComparable; 2]);
        assert_eq!(
            verdicts("vmsplice_splice_same_buffer"),
            [Change::NotComparable; 2]
        );
        assert_eq!(verdicts("hugetlb"), [Change::NotComparable; 2]);
        assert_eq!(
            compared.rows[0].runs[2].reason().unwrap(),
            "failed in C: broke"
        );
        // A further one stands with its group, not behind the last.
        let names: Vec<&str> = compared.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "write_read",
                "write_read_huge",
                "hugetlb",
                "vmsplice_splice_same_buffer",
                "breaks",
            ]
        );
    }

    #[test]
    fn figures_of_different_units_have_no_ratio() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        runs[1].run.experiments[0].unit = Unit::Microseconds;
        let row = &compared(&runs).rows[0];
        assert_eq!(row.to_first[0].verdict, Change::NotComparable);
    }

    #[test]
    fn numbers_that_have_no_ratio_have_none() {
        for (first, further) in [
            (0.0, 1.0),
            (1.0, 0.0),
            (-1.0, 1.0),
            (1e-300, 1e300),
            (1e300, 1e-300),
        ] {
            assert_eq!(
                verdict(&[first; 5], &[further; 5], Unit::GibPerS),
                Change::NotComparable
            );
        }
    }

    #[test]
    fn what_both_measured_besides_has_a_row_of_its_own() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        let besides = [
            ("p99", 0..2, Unit::Microseconds),
            ("p99.9", 0..1, Unit::Microseconds),
            // The figure itself, as others count.
            ("lmbench", 0..2, Unit::MbPerS),
        ];
        for (name, of, unit) in besides {
            for taken in &mut runs[of] {
                taken.run.experiments[0].also.push(Also {
                    name: name.into(),
                    unit,
                    figure: Spread::of(&rounds(10.0)).unwrap(),
                });
            }
        }
        let compared = compared(&runs);
        let figures: Vec<Option<&str>> = compared
            .rows
            .iter()
            .filter(|row| row.name == "write_read")
            .map(|row| row.figure.as_deref())
            .collect();
        assert_eq!(figures, [None, Some("p99")]);
        assert_eq!(compared.rows[1].to_first[0].ratio, Some(1.0));
    }

    #[test]
    fn what_runs_depend_on_is_compared() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        runs[1].run.machine.kernel = Some("6.13.0".into());
        runs[1].run.machine.hypervisor = None;
        runs[1].run.settings.rounds = 5;
        runs[1].run.settings.seed = 7;
        runs[1].run.settings.pipe_size = Some(1 << 20);
        runs[1].run.line_round_trip_ns = Spread::of(&[200.0]);
        runs[1].run.apart.taken = 3;
        let compared = compared(&runs);
        let facts: Vec<&str> = compared
            .differences
            .iter()
            .map(|difference| difference.fact.as_str())
            .collect();
        assert_eq!(facts, ["kernel", "hypervisor", "pipe size", "rounds"]);
        assert_eq!(compared.differences[1].values[1], None);
        let sizes = ["default", "1 MiB"].map(|text| Some(text.to_owned()));
        assert_eq!(compared.differences[2].values, sizes);
        assert_eq!(compared.warnings.len(), 2);
        assert!(compared.warnings[0].contains("A 55 ns, B 200 ns"));
        assert!(
            compared.warnings[1]
                .contains("in B, 3 measurements were kept although the CPUs were farther apart")
        );
    }

    #[test]
    fn patterns_select_also_what_the_catalogue_does_not_have() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        runs[1].run.experiments[1].name = "of_the_future".into();
        let names = |patterns: &[&str]| -> Result<Vec<String>, Usage> {
            let patterns: Vec<String> = patterns.iter().map(|&p| p.to_owned()).collect();
            Ok(compare(&runs, &patterns)?
                .rows
                .into_iter()
                .map(|row| row.name)
                .collect())
        };
        assert_eq!(
            names(&["ladder/of_*", "write_read"]).unwrap(),
            ["write_read", "of_the_future"]
        );
        assert_eq!(names(&["all"]).unwrap().len(), 6);
        assert!(names(&["nothing_*"]).is_err() && names(&["["]).is_err());
    }
}
