//! Measures whether both ends of a pipe on one CPU carry more than on two, and says what to do about it.

use fullbore_host::machine::{CpuPair, Relation};
use fullbore_lab::one_cpu::{self, plain_pipe};
use fullbore_lab::program::Program;
use fullbore_results::placement::{Gain, PRICE, Placement, PlacementReport};
use fullbore_results::report::figure;

/// Measures on these CPUs, which this process may use.
pub fn measure(cpus: &CpuPair, program: &Program) -> PlacementReport {
    let without = |words| PlacementReport {
        figures: None,
        words,
    };
    if cpus.relation == Relation::OneCpu {
        return without(format!(
            "There is nothing to choose: CPU {} is the only one that this process may use.",
            cpus.writer
        ));
    }
    match one_cpu::measure(plain_pipe(), cpus, program) {
        Ok(figures) => report(figures),
        Err(error) => without(format!("It could not be measured: {error:#}.")),
    }
}

/// Says what these figures mean.
pub fn report(figures: Placement) -> PlacementReport {
    PlacementReport {
        words: words(&figures),
        figures: Some(figures),
    }
}

/// Returns the figures, if one CPU is clearly faster.
pub fn gain(report: &PlacementReport) -> Option<&Placement> {
    report.figures.as_ref().filter(|figures| figures.gains())
}

/// The command that starts a pipeline on one CPU.
pub const COMMAND: &str = "fullbore run --place together 'A | B'";

fn words(placement: &Placement) -> String {
    let (one, two) = (&placement.one_cpu, &placement.two_cpus);
    let medians = format!("{} and {} GiB/s", figure(one.median), figure(two.median));
    let [a, b, c, d] = [one.min, one.max, two.min, two.max].map(figure);
    let wake_up = placement.wake_up_us.map_or(String::new(), |us| {
        format!(" Waking a process on another CPU takes {} µs.", figure(us))
    });
    match placement.verdict {
        Gain::Gains => format!(
            "Both ends of a pipe on one CPU carry {:.1} times as much as on two CPUs here \
             ({medians}), because nothing has to be woken on another CPU.{wake_up} Start light \
             stages with 'fullbore run --place together'. {PRICE}",
            placement.ratio
        ),
        Gain::Unclear => format!(
            "It is unclear whether one CPU for both ends of a pipe gains anything here: the medians \
on one CPU and on two are {medians}, but the rounds overlap ({a} to {b} and {c} to {d}).\
             {wake_up}"
        ),
        Gain::Busy => format!(
            "The machine was too busy to tell whether one CPU for both ends of a pipe gains \
             anything: the medians on one CPU and on two are {medians}. Run 'fullbore doctor' again \
             when it is idle."
        ),
        Gain::GainsNothing => format!(
            "Placement gains nothing here: both ends of a pipe carry {medians} on one CPU and on \
             two.{wake_up}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(two_cpus: &[f64], one_cpu: &[f64], wake_up_us: Option<f64>) -> PlacementReport {
        let figures = Placement::of("write_read", 1, two_cpus, one_cpu, wake_up_us);
        report(figures.unwrap())
    }

    #[test]
    fn a_gain_is_said_with_its_figures_its_command_and_its_price() {
        let report = report_of(&[0.9, 0.9, 1.0], &[2.9, 2.8, 3.0], Some(25.0));
        assert!(gain(&report).is_some());
        assert_eq!(
            report.words,
            "Both ends of a pipe on one CPU carry 3.2 times as much as on two CPUs here (2.90 and \
             0.90 GiB/s), because nothing has to be woken on another CPU. Waking a process on \
             another CPU takes 25.0 µs. Start light stages with 'fullbore run --place together'. The \
             price is that nothing runs in parallel, so it pays only where the stages compute \
             little."
        );
    }

    #[test]
    fn on_a_busy_machine_nothing_is_advised() {
        let mut figures =
            Placement::of("write_read", 1, &[0.2; 3], &[2.9, 2.8, 3.0], Some(49.0)).unwrap();
        figures.verdict = Gain::Busy;
        let report = report(figures);
        assert!(gain(&report).is_none());
        assert!(report.words.starts_with("The machine was too busy to tell"));
        assert!(report.words.contains("2.90 and 0.20 GiB/s"), "{report:?}");
    }

    #[test]
    fn where_there_is_no_clear_gain_there_is_no_advice() {
        for (one_cpu, words) in [
            ([1.0, 1.1, 0.9], "Placement gains nothing here"),
            ([2.9, 0.9, 2.9], "It is unclear whether"),
        ] {
            let report = report_of(&[0.9, 1.0, 1.0], &one_cpu, None);
            assert!(gain(&report).is_none());
            assert!(report.words.starts_with(words), "{}", report.words);
            assert!(!report.words.contains("--place"), "{}", report.words);
        }
    }

    #[test]
    fn with_one_cpu_there_is_nothing_to_choose() {
        let cpus = CpuPair {
            writer: 3,
            reader: 3,
            relation: Relation::OneCpu,
            shared_cache: None,
        };
        let report = measure(&cpus, &Program::at("/nowhere"));
        assert!(report.figures.is_none());
        assert_eq!(
            report.words,
            "There is nothing to choose: CPU 3 is the only one that this process may use."
        );
    }
}
