//! Writes the report as text: lines that fit the terminal, in the style of bench's output.

use std::io::{self, Write};

use super::{allowance, topology};
use fullbore_host::text::{Percent, columns};
use fullbore_results::doctor::{Examination, SECCOMP_FILTER, Setting, TrialOutcome, TrialReport};
use fullbore_results::report::text::{Style, TextPage};

/// The properties of the machine that are not elsewhere in the report.
const MACHINE: [&str; 5] = ["kernel", "CPU", "caches", "memory", "hypervisor"];

/// Writes the report in lines of at most `width` columns.
///
/// # Errors
/// Returns the errors of writing.
pub fn write(report: &Examination, width: u16, color: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut page = TextPage::new(Some(width));
    if let Some(share) = report.other_work.filter(|_| report.is_busy()) {
        let text = format!(
            "the machine was busy: others used {} of its CPU time meanwhile, so the figures are uncertain; run \
             'fullbore doctor' again when it is idle",
            Percent(share)
        );
        page.wrapped(Style::Plain, "warning: ", &text);
        page.blank();
    }
    machine(report, &mut page);
    trials(report, &mut page);
    settings(report, &mut page);
    cpus(report, &mut page);
    heading(&mut page, "placement");
    page.wrapped(Style::Plain, "  ", &report.placement.words);
    heading(&mut page, "pipes in use");
    for line in allowance::lines(&report.allowance) {
        page.wrapped(Style::Plain, "  ", &line);
    }
    page.blank();
    for advice in report.advice.iter().chain(&report.next_advice) {
        let command = advice.command.as_deref().unwrap_or_default();
        let words = advice.text.strip_suffix(command).unwrap_or(&advice.text);
        page.wrapped(Style::Title, "", words);
        if !command.is_empty() {
            page.line(Style::Title, format!("    {command}"));
        }
    }
    page.write(color, out)
}

fn heading(page: &mut TextPage, text: &str) {
    page.blank();
    page.line(Style::Title, text);
}

fn machine(report: &Examination, page: &mut TextPage) {
    let around = &report.circumstances;
    let mut lines = report.machine.lines();
    lines.retain(|(label, _)| MACHINE.contains(label));
    let release = report.machine.kernel.as_deref().unwrap_or_default();
    if let Some(text) = pipes_of(release) {
        lines.push(("its pipes", text.to_owned()));
    }
    let user = match around.uid {
        0 => "root".into(),
        uid => format!("uid {uid}"),
    };
    let filter = match around.seccomp {
        SECCOMP_FILTER => ", under a seccomp filter",
        _ => "",
    };
    let gvisor = if around.gvisor { ", in gVisor" } else { "" };
    lines.push(("user", format!("{user}{filter}{gvisor}")));
    page.labelled(&lines);
}

/// Returns what is different in the pipes of this release of the kernel; docs/kernels.md has all of it.
fn pipes_of(release: &str) -> Option<&'static str> {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
    match (numbers.next()??, numbers.next()??) {
        version if version >= (7_u32, 3_u32) => Some(
            "as of Linux 7.3: a pipe keeps pages for the next write, and one that was polled costs no more wake-ups",
        ),
        version if version >= (7, 2) => Some(
            "as of Linux 7.2: a pipe keeps pages for the next write, and a reader wakes the writer less often",
        ),
        _ => None,
    }
}

fn trials(report: &Examination, page: &mut TextPage) {
    heading(page, "techniques, as tried on this machine");
    let widest = report.trials.iter().map(|trial| trial.name.len()).max();
    let widest = widest.unwrap_or(0);
    for trial in &report.trials {
        let verdict = word(&trial.outcome);
        let label = format!("  {:<widest$}  {verdict:<9}  ", trial.name);
        page.wrapped(Style::Plain, &label, &in_words(trial));
        let indent = " ".repeat(columns(&label));
        if let Some(cause) = &trial.cause {
            page.wrapped(Style::Dim, &format!("{indent}for:    "), &trial.purpose);
            if let Some(remedy) = &cause.remedy {
                page.wrapped(Style::Dim, "    change: ", remedy);
            }
        }
    }
}

fn word(outcome: &TrialOutcome) -> &'static str {
    match outcome {
        TrialOutcome::Works(_) => "works",
        TrialOutcome::Refused(_) => "refused",
        TrialOutcome::Wrong(_) => "WRONG",
        TrialOutcome::NotTried(_) => "not tried",
    }
}

fn in_words(trial: &TrialReport) -> String {
    let refusal = match &trial.outcome {
        TrialOutcome::Works(seen) | TrialOutcome::Wrong(seen) | TrialOutcome::NotTried(seen) => {
            return seen.clone();
        }
        TrialOutcome::Refused(refusal) => refusal,
    };
    let why = trial.cause.as_ref().map_or("", |cause| cause.why.as_str());
    let operation = match refusal.operation.as_str() {
        "" => String::new(),
        operation => format!("{operation}: "),
    };
    let errno = trial.errno_name.as_ref();
    let errno = errno.map_or_else(String::new, |name| format!(" ({name})"));
    format!("{operation}{}{errno}; {why}", refusal.said)
}

fn settings(report: &Examination, page: &mut TextPage) {
    heading(page, "settings");
    let widest = |text: fn(&Setting) -> &str| {
        let widths = report.settings.iter().map(|setting| text(setting).len());
        widths.max().unwrap_or(0)
    };
    let (names, values) = (widest(|s| &s.name), widest(|s| &s.value));
    for setting in &report.settings {
        let label = format!("  {:<names$}  {:>values$}  ", setting.name, setting.value);
        let verdict = if setting.fine { "fine" } else { "not ideal" };
        let text = format!("{verdict}: {}", setting.meaning);
        page.wrapped(Style::Plain, &label, &text);
        if !setting.fine {
            let indent = " ".repeat(columns(&label));
            page.wrapped(Style::Dim, &format!("{indent}for:    "), &setting.purpose);
            page.line(Style::Dim, format!("    change: {}", setting.command));
            page.wrapped(Style::Dim, &format!("{indent}cost:   "), &setting.cost);
        }
    }
}

fn cpus(report: &Examination, page: &mut TextPage) {
    heading(page, "CPUs");
    let cpus = &report.cpus;
    page.line(Style::Plain, format!("  online: {}", cpus.online));
    if !cpus.offline.is_empty() {
        page.line(Style::Plain, format!("  offline: {}", cpus.offline));
    }
    if cpus.allowed != cpus.online {
        let text = format!("{}, by its affinity or a cpuset", cpus.allowed);
        page.wrapped(Style::Plain, "  this process may use only ", &text);
    }
    let pairs = topology::pair_lines(cpus);
    if pairs.is_empty() {
        let text = "only one CPU: writer and reader share it";
        page.wrapped(Style::Plain, "  ", text);
    }
    for line in pairs {
        page.line(Style::Plain, format!("  {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{GOVERNOR_FILE, HALT_POLL_FILE, read};
    use super::super::{advice, fixture, fixture_circumstances};
    use super::*;
    use fullbore_host::fixtures::Fixture;

    fn text(report: &Examination, width: u16) -> String {
        let mut out = Vec::new();
        write(report, width, false, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_new_in_the_pipes_of_a_kernel_is_said_by_its_release() {
        let says = |release| super::pipes_of(release).map(|text| &text[..15]);
        for release in ["", "6.12.30", "7.1.9", "7", "8", "x.y"] {
            assert_eq!(says(release), None, "{release}");
        }
        for release in ["7.2", "7.2.12-amd64"] {
            assert_eq!(says(release), Some("as of Linux 7.2"));
        }
        for release in ["7.3-rc1", "7.10.1", "8.0"] {
            assert_eq!(says(release), Some("as of Linux 7.3"));
        }
    }

    #[test]
    fn what_works_is_one_line_and_what_is_refused_says_why_and_what_to_do() {
        let text = text(&fixture(&["roomy_pipe"]), 200);
        assert!(
            text.contains("\n  splice           works      seen\n"),
            "{text}"
        );
        let refused = "  roomy_pipe       refused    roomy_pipe: Operation not permitted (EPERM); \
                       fs.pipe-max-size is 65536\n";
        assert!(text.contains(refused), "{text}");
        assert!(
            text.contains("change: sudo sysctl -w fs.pipe-max-size=1048576\n"),
            "{text}"
        );
        let end = "about 4.1 times the throughput (measured on another machine):\n    sudo sysctl -w \
                   fs.pipe-max-size=1048576\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_command_that_does_not_fit_is_not_wrapped() {
        let mut report = fixture(&[]);
        let machine = Fixture::new(&[(GOVERNOR_FILE, "haltpoll"), (HALT_POLL_FILE, "0")]);
        report.settings = read(&machine.root(), &fixture_circumstances());
        report.advice = Some(advice::of(&report));
        let text = text(&report, 80);
        let command = "echo 200000 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns\n";
        // The command is part of the setting, and of the advice.
        assert_eq!(text.matches(command).count(), 2, "{text}");
        assert!(text.contains(&format!("\n    {command}")), "{text}");
    }

    #[test]
    fn every_line_fits() {
        let everything: Vec<&str> = fullbore_lab::trials::TRIALS
            .iter()
            .map(|trial| trial.name)
            .collect();
        let text = text(&fixture(&everything), 80);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn without_colour_there_is_none() {
        let report = fixture(&["vmsplice"]);
        assert!(!text(&report, 80).contains('\u{1b}'));
        let mut painted = Vec::new();
        write(&report, 80, true, &mut painted).unwrap();
        assert!(String::from_utf8(painted).unwrap().contains('\u{1b}'));
    }
}
