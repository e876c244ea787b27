//! Computes ratios over several tables: if each table of a group compares the same programs with its
//! first experiment, these ratios say how many times as fast each program is over all tables.
//!
//! The average is the geometric mean: it is the same whichever of two programs is the base, and no
//! table weighs more because its figures are larger (Fleming and Wallace, How not to lie with
//! statistics, Communications of the ACM 29, 1986, 218-221).

use crate::experiment::Experiment;
use fullbore_results::run::{At, Outcome, Overall};

/// Returns the ratios of all programs that were measured in two or more tables, in the order of their
/// first experiments.
pub fn overall(experiments: &[Experiment], outcomes: &[Outcome]) -> Vec<Overall> {
    let mut first: Option<&Experiment> = None;
    // Group, contestant and base, and the ratios.
    let mut all: Vec<([&str; 3], Vec<At>)> = Vec::new();
    for (experiment, outcome) in experiments.iter().zip(outcomes) {
        // The experiments of a table are adjacent.
        let Some(base) = first.filter(|first| experiment.is_like(first)) else {
            first = Some(experiment);
            continue;
        };
        let names = experiment.compared_as.zip(base.compared_as);
        let ratio = outcome.ratio.filter(|ratio| *ratio > 0.0);
        let Some(((contestant, base), ratio)) = names.zip(ratio) else {
            continue;
        };
        let compared = [experiment.group, contestant, base];
        let name = outcome.name.clone();
        let at = At { name, ratio };
        match all.iter_mut().find(|(known, _)| *known == compared) {
            Some((_, tables)) => tables.push(at),
            None => all.push((compared, vec![at])),
        }
    }
    let in_several = all.into_iter().filter(|(_, tables)| tables.len() > 1);
    let by_ratio = |a: &&At, b: &&At| a.ratio.total_cmp(&b.ratio);
    let overall = in_several.filter_map(|([group, contestant, base], tables)| {
        Some(Overall {
            group: group.into(),
            contestant: contestant.into(),
            base: base.into(),
            tables: tables.len(),
            geometric_mean: geometric_mean(tables.iter().map(|at| at.ratio)),
            least: tables.iter().min_by(by_ratio)?.clone(),
            most: tables.iter().max_by(by_ratio)?.clone(),
        })
    });
    overall.collect()
}

fn geometric_mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn the_geometric_mean_is_the_same_whichever_is_the_base() {
        assert!((geometric_mean([2.0, 0.5].into_iter()) - 1.0).abs() < 1e-12);
        assert!((geometric_mean([4.0, 1.0].into_iter()) - 2.0).abs() < 1e-12);
        let ratios = [1.5, 0.9, 2.5];
        let there = geometric_mean(ratios.into_iter());
        let back = geometric_mean(ratios.map(f64::recip).into_iter());
        assert!((there * back - 1.0).abs() < 1e-12);
    }

    /// Returns the overall ratios of the experiments of two pipelines with these ratios.
    fn with_ratios(ratios: [Option<f64>; 6]) -> Vec<Overall> {
        let catalogue = Catalogue::default();
        let of = |pipeline| ["bash", "run", "report"].map(|way| format!("{pipeline}_{way}"));
        let patterns = [of("cat_wc"), of("cat_grep")].concat();
        let experiments = catalogue.select(&patterns).unwrap();
        assert_eq!(experiments.len(), ratios.len());
        let outcomes: Vec<Outcome> = experiments
            .iter()
            .zip(ratios)
            .map(|(experiment, ratio)| Outcome {
                ratio,
                group: experiment.group.into(),
                name: experiment.name.into(),
                unit: experiment.unit,
                ..Outcome::default()
            })
            .collect();
        overall(&experiments, &outcomes)
    }

    #[test]
    fn each_but_the_first_is_summed_up_over_the_tables() {
        let [run, report] = &with_ratios([1.0, 4.0, 3.0, 1.0, 1.0, 0.75].map(Some))[..] else {
            panic!("not two");
        };
        assert_eq!(
            (run.contestant.as_str(), run.base.as_str()),
            ("fullbore run", "bash -c")
        );
        assert_eq!((run.tables, run.geometric_mean), (2, 2.0));
        assert_eq!(
            (run.least.name.as_str(), run.least.ratio),
            ("cat_grep_run", 1.0)
        );
        assert_eq!(
            (run.most.name.as_str(), run.most.ratio),
            ("cat_wc_run", 4.0)
        );
        assert_eq!(report.least.ratio, 0.75);
        assert!((report.geometric_mean - 1.5).abs() < 1e-12);
    }

    #[test]
    fn what_was_not_measured_in_two_tables_has_no_mean() {
        let some = with_ratios([Some(1.0), Some(2.0), Some(2.0), Some(1.0), None, Some(0.5)]);
        assert_eq!(some.len(), 1);
        assert_eq!(some[0].contestant, "fullbore run --report");
        assert!(with_ratios([None; 6]).is_empty());
    }
}
