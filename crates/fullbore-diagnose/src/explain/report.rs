//! Writes an explanation as text.

use std::io::{self, Write};

use fullbore_host::text::{Percent, clean, thousands};
use fullbore_results::explain::{Class, ClassShare, Explanation, MEANINGS, MainCost, SideReport};
use fullbore_results::statistics::Spread;

/// The fraction of the time below which sides are not shown one by one.
const SMALL: f64 = 0.01;

/// The share of a side below which it is not shown.
const TINY: f64 = 0.005;

/// Writes the explanation as text.
pub fn write(explanation: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    match (&explanation.experiment, &explanation.shows) {
        (Some(name), Some(shows)) => writeln!(out, "{name}: {shows}")?,
        _ => writeln!(out, "{}", clean(&explanation.command.join(" ")))?,
    }
    let sides = explanation.sides.iter();
    let all: f64 = sides.clone().map(|side| weight(explanation, side)).sum();
    let is_small = |side: &&SideReport| weight(explanation, side) < SMALL * all;
    for side in sides.clone().filter(|side| !is_small(side)) {
        writeln!(out)?;
        write_side(side, out)?;
    }
    let small: Vec<&str> = sides
        .filter(is_small)
        .map(|side| side.name.as_str())
        .collect();
    if !small.is_empty() {
        let of = match has_samples_of_all(explanation) {
            true => "the samples",
            false => "the time on CPU",
        };
        let small = clean(&small.join(", "));
        writeln!(out, "\nNot shown, with less than 1% of {of}: {small}")?;
    }
    writeln!(out)?;
    match &explanation.verdict {
        None => writeln!(
            out,
            "It did not run long enough to say where its time went."
        )?,
        Some(verdict) => {
            writeln!(out, "{}", clean(&verdict.words))?;
            let meaning = verdict.class.meaning();
            writeln!(out, "{}: {}.", capital(meaning.name), meaning.means)?;
            write_advice(verdict, out)?;
        }
    }
    if let Some(placement) = &explanation.placement {
        writeln!(out, "{}", placement.words)?;
    }
    writeln!(out)?;
    write_how(explanation, out)
}

/// Returns whether samples were taken of user code and of the kernel.
fn has_samples_of_all(explanation: &Explanation) -> bool {
    let sampling = explanation.sampling.as_ref();
    sampling.is_some_and(|sampling| sampling.of_kernel)
}

/// Returns the side's weight in the time on CPU. Without samples of the kernel, a side that ran
/// only in the kernel has no samples, so the kernel's accounts are used.
fn weight(explanation: &Explanation, side: &SideReport) -> f64 {
    match has_samples_of_all(explanation) {
        true => side.samples as f64,
        false => side.accounts.user_seconds + side.accounts.system_seconds,
    }
}

fn write_how(explanation: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    if let Some(sampling) = &explanation.sampling {
        writeln!(
            out,
            "{} samples, {} times a second with {}; {} lost. Shares are of time on CPU.",
            sampling.samples, sampling.frequency, sampling.clock, sampling.lost
        )?;
        match &explanation.disturbance {
            Some(disturbance) => {
                let [with, without] =
                    [&disturbance.with, &disturbance.without].map(|all| figures(all));
                writeln!(
                    out,
                    "Sampling changed the figure by {:+.1}%: {with} with it, {without} without, {}.",
                    disturbance.change * 100.0,
                    disturbance.unit
                )?;
                let noisy = Spread::of(&disturbance.without).filter(Spread::is_noisy);
                if let Some(spread) = noisy.filter(|_| disturbance.without.len() > 1) {
                    writeln!(
                        out,
                        "This is only a guess: the runs without sampling differ by {:.0}% from each other.",
                        spread.disagreement() * 100.0
                    )?;
                }
            }
            None => writeln!(out, "It is unknown how much sampling slowed it down.")?,
        }
    }
    for note in &explanation.notes {
        writeln!(out, "Note: {}", clean(note))?;
    }
    Ok(())
}

fn write_advice(verdict: &MainCost, out: &mut dyn Write) -> io::Result<()> {
    let advice = &verdict.advice;
    match &advice.instead {
        Some(command) if command.starts_with("fullbore bench") => {
            writeln!(
                out,
                "To measure the gain, run '{command}': {}.",
                advice.words
            )
        }
        Some(command) => writeln!(out, "Try '{command}': {}.", advice.words),
        None => writeln!(out, "{}.", capital(&advice.words)),
    }
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

fn figures(figures: &[f64]) -> String {
    let words = figures.iter().map(|figure| format!("{figure:.2}"));
    words.collect::<Vec<_>>().join(" / ")
}

fn write_side(side: &SideReport, out: &mut dyn Write) -> io::Result<()> {
    let many = match side.processes {
        0 | 1 => String::new(),
        n => format!(" ({n} processes)"),
    };
    writeln!(out, "{}{many}: {}", clean(&side.name), time(side))?;
    let width = MEANINGS.iter().map(|m| m.name.len()).max().unwrap_or(0);
    for share in side.shares.iter().filter(|share| share.share >= TINY) {
        let class = match (share.class, share.symbols.is_empty()) {
            (Class::NotClassified, true) => "in the kernel",
            (class, _) => class.name(),
        };
        let (percent, symbols) = (Percent(share.share), symbols(share));
        writeln!(out, "  {percent:>4}  {class:width$}  {symbols}")?;
    }
    Ok(())
}

/// Formats a line such as `on CPU 42% of the time, slept 55%, …`.
fn time(side: &SideReport) -> String {
    let accounts = &side.accounts;
    if accounts.seconds <= 0.0 {
        return "its processes ended too soon to see how long they ran and slept".to_owned();
    }
    let mut words = format!("on CPU {} of the time", Percent(side.ran));
    words += &format!(", slept {}", Percent(side.slept));
    if side.waited >= 0.01 {
        words += &format!(", waited {} for a CPU", Percent(side.waited));
    }
    let a_second = |count: u64| thousands((count as f64 / accounts.seconds).round() as u64);
    words += &format!(
        "; {} sleeps, {} preemptions and {} page faults a second",
        a_second(accounts.voluntary_switches),
        a_second(accounts.involuntary_switches),
        a_second(accounts.minor_faults + accounts.major_faults)
    );
    words
}

fn symbols(share: &ClassShare) -> String {
    const SHOWN: usize = 4;
    let symbols = share.symbols.iter().enumerate();
    // The largest function of a share is shown even if it is small.
    let symbols = symbols
        .filter(|(at, symbol)| *at == 0 || symbol.share >= TINY)
        .take(SHOWN);
    let words = symbols.map(|(_, symbol)| format!("{} {}", symbol.name, Percent(symbol.share)));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_results::explain::{Accounts, SCHEMA, SamplingReport};

    /// Returns a side that ran for a second, in which `samples` were taken.
    fn side(name: &str, samples: u64, user_seconds: f64, class: Class) -> SideReport {
        SideReport {
            name: name.to_owned(),
            processes: 1,
            samples,
            ran: 1.0,
            slept: 0.0,
            waited: 0.0,
            accounts: Accounts {
                seconds: 1.0,
                user_seconds,
                system_seconds: 1.0 - user_seconds,
                ..Accounts::default()
            },
            shares: vec![ClassShare {
                class,
                share: 1.0,
                symbols: Vec::new(),
            }],
        }
    }

    fn text(of_kernel: bool, sides: Vec<SideReport>) -> String {
        let explanation = Explanation {
            schema: SCHEMA,
            experiment: None,
            shows: None,
            command: vec!["gzip".to_owned()],
            kernel: "6.1".to_owned(),
            sampling: Some(SamplingReport {
                clock: "the software clock".to_owned(),
                whole_cpus: false,
                frequency: 1000,
                of_kernel,
                kernel_names: of_kernel,
                samples: sides.iter().map(|side| side.samples).sum(),
                lost: 0,
            }),
            disturbance: None,
            sides,
            verdict: None,
            placement: None,
            notes: Vec::new(),
        };
        let mut out = Vec::new();
        write(&explanation, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn without_samples_of_the_kernel_a_side_that_ran_only_there_is_shown() {
        let sides = || {
            vec![
                side("gzip", 1000, 1.0, Class::User),
                side("cat", 0, 0.0, Class::NotClassified),
            ]
        };
        let text_of_user = text(false, sides());
        assert!(
            text_of_user.contains("cat: on CPU 100% of the time")
                && text_of_user.contains("100%  in the kernel"),
            "{text_of_user}"
        );
        assert!(!text_of_user.contains("Not shown"), "{text_of_user}");
        let text_of_all = text(true, sides());
        let hidden = "Not shown, with less than 1% of the samples: cat\n";
        assert!(text_of_all.contains(hidden), "{text_of_all}");
    }

    #[test]
    fn what_was_seen_only_once_is_not_said_to_have_slept() {
        let mut once = side("cat", 100, 0.0, Class::User);
        once.accounts = Accounts::default();
        (once.ran, once.slept) = (once.accounts.ran(), once.accounts.slept());
        assert_eq!((once.ran, once.slept), (0.0, 0.0));
        let text = text(true, vec![once]);
        assert!(text.contains("cat: its processes ended too soon"), "{text}");
        assert!(!text.contains("slept 100%"), "{text}");
    }
}
