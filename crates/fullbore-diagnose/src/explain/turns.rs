//! Decides whether the sides could share one CPU, and says what that gains.
//!
//! Sides that wait for each other run one after the other, also on two CPUs. Then one CPU loses nothing, and
//! saves waking another CPU at each turn. Sides that compute at the same time lose their parallelism there, so
//! the decision rests on the kernel's accounts: how long the sides together ran or were ready to run, how often
//! they slept, and which CPUs they may use.

use std::collections::BTreeSet;

use super::profile::SideProfile;
use super::verdict::LEAST;
use fullbore_results::explain::Class;
use fullbore_results::placement::{Gain, LEAST_RATIO, PRICE, Placement, PlacementAdvice};
use fullbore_results::report::figure;

/// The use of CPUs by sides that wait for each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turns {
    /// How many CPUs they use together, with the time that they waited for a CPU.
    cpus: f64,
    /// How many CPUs their own code uses, which placement does not change.
    own: f64,
}

/// The most CPUs that sides may use together. If they use 1.2, one CPU costs at most a sixth of the speed,
/// even if it saves nothing.
const MOST_CPUS: f64 = 1.2;

/// The fewest sleeps a second of a side that takes turns with another one. A pipe of 64 KiB is filled so often
/// at 30 MiB/s.
const FEWEST_SLEEPS: f64 = 500.0;

/// The smallest share of sleeping and waking in the samples. Where waking is slow, it takes several times that;
/// the time until the other CPU answers is on no CPU, and in no sample.
const LEAST_WAKING: f64 = 0.05;

impl Turns {
    /// Returns how sides take turns; `None` if they do not, if they compute at the same time, or if all of them
    /// are on one CPU already. `named` says whether the samples name the kernel's functions.
    pub fn of(sides: &[SideProfile], named: bool) -> Option<Self> {
        let used = |of: fn(&SideProfile) -> f64| -> f64 {
            let of_side = |side| of(side) * f64::max(1.0, side.processes as f64);
            sides.iter().map(of_side).sum()
        };
        let turns = Self {
            cpus: used(|side| side.accounts.ran() + side.accounts.waited()),
            own: used(|side| side.accounts.user_seconds / side.accounts.seconds.max(1e-9)),
        };
        let is_waiting = |side: &&SideProfile| {
            let sleeps = side.accounts.voluntary_switches;
            sleeps > 0 && sleeps as f64 >= FEWEST_SLEEPS * side.accounts.seconds
        };
        let waiting: Vec<&SideProfile> = sides.iter().filter(is_waiting).collect();
        let processes: usize = waiting.iter().map(|side| side.processes).sum();
        let cpus: BTreeSet<u32> = waiting
            .iter()
            .flat_map(|side| &side.cpus)
            .copied()
            .collect();
        let take_turns = processes >= 2 && cpus.len() >= 2 && turns.cpus <= MOST_CPUS;
        (take_turns && (!named || is_waking(sides))).then_some(turns)
    }

    /// Says what a measurement of the experiment itself shows.
    pub fn measured(self, figures: Placement) -> PlacementAdvice {
        let medians = medians(&figures);
        let words = match figures.verdict {
            Gain::Gains => format!(
                "The largest gain that was measured is placement: with both sides on one CPU \
                 (--cpus {cpu},{cpu}) it is {:.1} times as fast, {medians}. {} {PRICE}",
                figures.ratio,
                self.reason(&figures),
                cpu = figures.cpu,
            ),
            Gain::Unclear => format!(
                "Whether it is faster with both sides on one CPU is unclear: {medians}, but the \
                 rounds overlap."
            ),
            Gain::Busy => format!(
                "The machine was too busy to tell whether it is faster with both sides on one CPU: \
                 {medians}."
            ),
            Gain::GainsNothing => {
                format!("With both sides on one CPU it is not faster: {medians}.")
            }
        };
        PlacementAdvice {
            advised: figures.gains(),
            worth: figures.ratio,
            estimated: false,
            cpus_used: self.cpus,
            figures,
            words,
        }
    }

    /// Estimates from a measurement of an ordinary pipe what a command gains; `None` if that is too little.
    pub fn estimated(self, figures: Placement) -> Option<PlacementAdvice> {
        let worth = figures.estimate(self.own);
        if !figures.gains() || worth < LEAST_RATIO {
            return None;
        }
        let words = format!(
            "The largest gain may be placement: on one CPU, with 'fullbore run --place together', it \
             could be up to {worth:.1} times as fast. {} An ordinary pipe carries {:.1} \
             times as much there, {}, and the programs' own code takes {:.0}% of a CPU. {PRICE}",
            self.reason(&figures),
            figures.ratio,
            medians(&figures),
            self.own * 100.0
        );
        Some(PlacementAdvice {
            advised: true,
            worth,
            estimated: true,
            cpus_used: self.cpus,
            figures,
            words,
        })
    }

    /// Says why one CPU is enough.
    fn reason(self, figures: &Placement) -> String {
        let wake_up = figures.wake_up_us.map_or(String::new(), |us| {
            format!(", and each wake-up of another CPU takes {} µs", figure(us))
        });
        let cpus = self.cpus;
        format!("The sides take turns: together they use {cpus:.2} CPUs{wake_up}.")
    }
}

fn medians(figures: &Placement) -> String {
    format!(
        "{} GiB/s on one CPU and {} on two (medians of {})",
        figure(figures.one_cpu.median),
        figure(figures.two_cpus.median),
        figures.one_cpu.rounds.len()
    )
}

/// Returns whether the samples show sleeping and waking; too few samples do not speak against it.
fn is_waking(sides: &[SideProfile]) -> bool {
    let all: u64 = sides.iter().map(SideProfile::samples).sum();
    let stacks = sides.iter().flat_map(|side| &side.stacks);
    let waking = stacks.filter(|(stack, _)| stack.class() == Class::Sleeping);
    let waking: u64 = waking.map(|(_, count)| count).sum();
    all < LEAST || waking as f64 >= LEAST_WAKING * all as f64
}

#[cfg(test)]
mod tests {
    use super::super::profile::Stack;
    use super::*;
    use fullbore_results::explain::Accounts;

    /// Returns a side of one process that was watched for a second, on these CPUs.
    fn side(user: f64, system: f64, waited: f64, sleeps: u64, cpus: &[u32]) -> SideProfile {
        SideProfile {
            name: "side".to_owned(),
            processes: 1,
            accounts: Accounts {
                seconds: 1.0,
                user_seconds: user,
                system_seconds: system,
                waited_seconds: waited,
                voluntary_switches: sleeps,
                ..Accounts::default()
            },
            cpus: cpus.iter().copied().collect(),
            ..SideProfile::default()
        }
    }

    fn turns(sides: &[SideProfile]) -> Option<Turns> {
        Turns::of(sides, true)
    }

    fn figures(two_cpus: f64, one_cpu: f64) -> Placement {
        Placement::of("write_read", 1, &[two_cpus], &[one_cpu], Some(25.0)).unwrap()
    }

    #[test]
    fn sides_that_wait_for_each_other_on_two_cpus_take_turns() {
        let sides = [
            side(0.0, 0.5, 0.0, 20_000, &[0]),
            side(0.25, 0.25, 0.0, 20_000, &[1]),
        ];
        let turns = turns(&sides).unwrap();
        assert_eq!((turns.cpus, turns.own), (1.0, 0.25));
    }

    #[test]
    fn sides_that_compute_at_the_same_time_do_not() {
        let both = [0, 1];
        for sides in [
            // They run at the same time.
            [
                side(0.9, 0.0, 0.0, 900, &both),
                side(0.4, 0.0, 0.0, 900, &both),
            ],
            // They would, if other programs left them the CPUs.
            [
                side(0.3, 0.2, 0.4, 900, &both),
                side(0.3, 0.2, 0.4, 900, &both),
            ],
            // Neither waits for the other.
            [
                side(0.0, 0.5, 0.0, 100, &both),
                side(0.0, 0.5, 0.0, 100, &both),
            ],
            [
                side(0.0, 0.5, 0.0, 900, &both),
                side(0.0, 0.5, 0.0, 100, &both),
            ],
        ] {
            assert_eq!(turns(&sides), None, "{sides:?}");
        }
    }

    #[test]
    fn sides_on_one_cpu_are_placed_already() {
        let one = |cpu| side(0.0, 0.5, 0.0, 900, &[cpu]);
        assert_eq!(turns(&[one(3), one(3)]), None);
        assert!(turns(&[one(3), one(4)]).is_some());
        assert_eq!(turns(&[]), None);
    }

    #[test]
    fn samples_without_sleeping_and_waking_speak_against_it_if_they_have_names() {
        let mut sides = [
            side(0.0, 0.5, 0.0, 900, &[0]),
            side(0.0, 0.5, 0.0, 900, &[1]),
        ];
        let stack = |line| {
            Stack::unfold(line)
                .map(|(_, stack, count)| (stack, count))
                .unwrap()
        };
        let copying = "side;do_syscall_64_[k];pipe_read_[k];copy_page_to_iter_[k] 100";
        sides[0].stacks.extend([stack(copying)]);
        assert_eq!(Turns::of(&sides, true), None);
        assert!(Turns::of(&sides, false).is_some());
        let waking = "side;do_syscall_64_[k];pipe_read_[k];schedule_[k] 10";
        sides[1].stacks.extend([stack(waking)]);
        assert!(Turns::of(&sides, true).is_some());
    }

    const TURNS: Turns = Turns {
        cpus: 0.95,
        own: 0.25,
    };

    #[test]
    fn a_measured_gain_is_advised_with_its_reason_and_its_price() {
        let advice = TURNS.measured(figures(0.9, 2.7));
        assert!(advice.advised && !advice.estimated);
        assert_eq!(
            advice.words,
            "The largest gain that was measured is placement: with both sides on one CPU (--cpus \
             1,1) it is 3.0 times as fast, 2.70 GiB/s on one CPU and 0.90 on two (medians of 1). \
             The sides take turns: together they use 0.95 CPUs, and each wake-up of another CPU \
             takes 25.0 µs. The price is that nothing runs in parallel, so it pays only where the \
             stages compute little."
        );
        let advice = TURNS.measured(figures(1.0, 1.1));
        assert!(
            !advice.advised && !advice.words.contains("price"),
            "{advice:?}"
        );
    }

    #[test]
    fn a_commands_gain_is_estimated_and_too_little_is_none() {
        let advice = TURNS.estimated(figures(0.9, 2.7)).unwrap();
        assert!(advice.advised && advice.estimated);
        assert!((advice.worth - 2.0).abs() < 1e-9, "{advice:?}");
        assert!(advice.words.contains("up to 2.0 times"), "{advice:?}");
        assert!(advice.words.contains("25% of a CPU"), "{advice:?}");
        assert!(TURNS.estimated(figures(1.0, 1.1)).is_none());
        let own = Turns { own: 0.9, ..TURNS };
        assert!(own.estimated(figures(0.9, 2.7)).is_none());
    }
}
