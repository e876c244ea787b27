//! The next step under a verdict: what to type. One table, by what limits the slow stage and by its program.

use crate::sampling::attribution::Attribution;
use crate::sampling::moment::Cause;
use crate::verdict::lines_alone::{Lines, lines, stages};
use crate::verdict::numbers::Numbers;
use crate::verdict::{Bound, Verdict, VerdictKind};

/// What limits a stage, and the programs for which the step is right; none for all of them. The first row that fits
/// counts.
type Step = (Limit, &'static [&'static str], &'static str);

/// What limits a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Cpu,
    Network,
    Disk,
    Timer,
    /// Anything else that it waits for.
    Other,
}

#[rustfmt::skip]
const STEPS: &[Step] = &[
    // One thread does the work, and these programs do the same with one for each CPU.
    (Limit::Cpu, &["gzip"], "'pigz' compresses on all CPUs; 'gzip -1' takes less time and more room"),
    (Limit::Cpu, &["gunzip", "zcat"], "'zstd' in place of gzip: its streams are decompressed several times as fast"),
    (Limit::Cpu, &["bzip2", "bunzip2", "bzcat"], "'lbzip2' works on all CPUs, with the same format"),
    (Limit::Cpu, &["xz"], "'xz -T0' compresses on all CPUs; 'xz -1' takes less time and more room"),
    (Limit::Cpu, &["zstd"], "'zstd -T0' compresses on all CPUs; 'zstd -1' takes less time and more room"),
    // Comparing by the rules of a language takes most of its time (sort(1), LC_ALL).
    (Limit::Cpu, &["sort"], "'LC_ALL=C sort --parallel=4 -S 50%' compares bytes, in more threads and more memory"),
    // In a locale with UTF-8, every character is decoded; with -F no expression is matched.
    (Limit::Cpu, &["grep", "egrep", "fgrep"], "'LC_ALL=C grep' matches bytes; 'grep -F' is for words that are no expression"),
    (Limit::Cpu, &["awk", "gawk", "sed", "tr", "cut"], "'LC_ALL=C' before it works on bytes; for awk, 'mawk' is often faster"),
    // AES with the instructions of the CPU is the fastest cipher where they are there.
    (Limit::Cpu, &["ssh", "sshd", "scp", "sftp"], "'ssh -c aes128-gcm@openssh.com' takes a faster cipher; 'ssh -o Compression=no' does not compress"),
    (Limit::Cpu, &[], "'perf record -g -p PID', with the PID of the slow stage, shows what it does with its time"),
    // What is on its way is limited by the window of the receiver.
    (Limit::Network, &[], "'ss -ti' shows the rate and the window of the connection; over a long way, larger buffers let more be on its way ('sysctl net.ipv4.tcp_rmem')"),
    (Limit::Disk, &[], "'iostat -x 1' shows whether the disk is busy all the time; if it is not, larger reads and writes help ('dd bs=1M', 'fullbore buffer')"),
    (Limit::Timer, &[], "it sleeps by itself: 'strace -f -p PID', with the PID of the slow stage, shows where"),
    (Limit::Other, &[], "'strace -f -p PID', with the PID of the slow stage, shows what it waits for"),
];

/// Returns the steps for a program with this limit, each with whether it is the one for all programs.
fn steps(limit: Limit, program: &str) -> impl Iterator<Item = (&'static str, bool)> {
    let fits = move |names: &[&str]| names.is_empty() || names.contains(&program);
    let steps = STEPS.iter();
    let steps = steps.filter(move |(of, names, _)| *of == limit && fits(names));
    steps.map(|(_, names, text)| (*text, names.is_empty()))
}

/// Returns the next step where a program of this name uses the CPU all the time.
pub fn step_on_cpu(program: &str) -> &'static str {
    let step = steps(Limit::Cpu, program).next();
    step.map_or("", |(text, _)| text)
}

/// Returns the next step under a verdict, if there is one.
pub fn next(verdict: &Verdict, numbers: &Numbers) -> Option<String> {
    let of_all = match verdict.kind {
        VerdictKind::Cpus => {
            "'top' shows what else runs on these CPUs; 'nice' before it gives way to the pipeline"
        }
        VerdictKind::Waking => {
            "'fullbore run --place together' runs the stages on one CPU, where they wake no other"
        }
        _ => "",
    };
    if !of_all.is_empty() {
        return Some(of_all.to_owned());
    }
    let stage = &numbers.stages[verdict.slow_stage()? - 1];
    let limit = match verdict.bound_by? {
        _ if stage.attribution == Attribution::Unclear => return None,
        Bound::Cpu => Limit::Cpu,
        // Its own work is not the problem.
        Bound::Queue => return None,
        Bound::Cause(Cause::Network) => Limit::Network,
        Bound::Cause(Cause::Disk) => Limit::Disk,
        Bound::Cause(Cause::Timer) => Limit::Timer,
        Bound::Cause(Cause::Stopped | Cause::Terminal) => return None,
        Bound::Cause(_) => Limit::Other,
    };
    let steps = steps(limit, program(&stage.text));
    let mut steps = steps.map(|(text, for_all)| (not_done_yet(text, &stage.command), for_all));
    let (text, is_for_all) = steps.find(|(text, _)| !text.is_empty())?;
    let idle = numbers.cpus_offered.zip(numbers.cpus_idle);
    let idle = idle.map_or(0.0, |(all, idle)| all * idle);
    // Several processes of it need CPUs that nothing else uses.
    if limit != Limit::Cpu || idle < IDLE {
        return Some(text);
    }
    let known = match stage.command.as_str() {
        // What its name alone says.
        "" => spread(program(&stage.text), idle).map(|spread| Spread {
            command: None,
            ..spread
        }),
        command => spread(command, idle),
    };
    let Some(Spread { command, why }) = known else {
        return Some(text);
    };
    Some(match command {
        Some(command) if is_for_all => format!("'{command}' {why}"),
        Some(command) => format!("'{command}' {why}; or {text}"),
        None => format!("{}; or {text}", if_alone(idle)),
    })
}

/// Returns the parts of a step whose command the stage is not yet.
fn not_done_yet(text: &str, stage: &str) -> String {
    let is_done = |part: &&str| {
        let mut words = part.split('\'').nth(1).unwrap_or_default().split(' ');
        words.all(|word| stage.split(' ').any(|one| one == word))
    };
    let parts: Vec<&str> = text.split("; ").filter(|part| !is_done(part)).collect();
    parts.join("; ")
}

/// How a stage runs on all CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// What to type in its place, if it is known to treat every line alone.
    pub command: Option<String>,
    /// What that does, or on which condition.
    pub why: String,
}

/// Returns how the stage of a shell's line that this program runs can use so many CPUs that are idle; `None` if there are
/// too few, or if it is known to see more than one line.
pub fn on_all_cpus(line: &str, name: &str, idle: f64) -> Option<Spread> {
    let mut stages = stages(line).into_iter();
    let text = stages.find(|stage| program(stage) == name)?;
    (idle >= IDLE).then(|| spread(text.trim(), idle))?
}

fn spread(text: &str, idle: f64) -> Option<Spread> {
    match lines(text) {
        Lines::Alone {
            why,
            accepts_1,
            assignments,
        } => {
            let (before, command) = text.trim().split_at(assignments);
            let accept = if accepts_1 { "--accept 1 " } else { "" };
            Some(Spread {
                command: Some(format!("{before}fullbore parallel {accept}-- {command}")),
                why: format!("runs it on all CPUs, of which {idle:.1} were idle: {why}"),
            })
        }
        Lines::Together => None,
        Lines::Unknown => Some(Spread {
            command: None,
            why: if_alone(idle),
        }),
    }
}

fn if_alone(idle: f64) -> String {
    format!(
        "'fullbore parallel' runs it on all CPUs, of which {idle:.1} were idle, if it treats every line alone"
    )
}

/// The CPUs that have to be idle for a stage to gain from more processes.
const IDLE: f64 = 0.7;

/// Returns the name of the program that a stage begins with, behind assignments and programs that start another one.
fn program(text: &str) -> &str {
    const STARTERS: &[&str] = &[
        "command", "env", "exec", "ionice", "nice", "nohup", "stdbuf", "sudo", "time", "(", "{",
        "!",
    ];
    let words = text.split([' ', '\t', '\n', '(']);
    let mut names = words.map(|word| word.rsplit('/').next().unwrap_or(word));
    let begins = |name: &str| name.is_empty() || STARTERS.contains(&name) || name.starts_with('-');
    let name = names.find(|name| !begins(name) && !name.contains('='));
    name.unwrap_or_default().trim_end_matches([';', ')'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_first_word_that_starts_no_other() {
        for (text, expected) in [
            ("gzip -9", "gzip"),
            ("/usr/bin/sort -k 2", "sort"),
            ("LC_ALL=C sort", "sort"),
            ("sudo nice -n 5 zfs send", "5"),
            ("(grep x; cat)", "grep"),
            ("{ cat; }", "cat"),
            ("gzip 4711", "gzip"),
            ("", ""),
        ] {
            assert_eq!(program(text), expected, "{text}");
        }
    }

    #[test]
    fn the_command_on_all_cpus_is_that_of_the_stage_with_the_program() {
        let line = "zcat a | LC_ALL=C grep -E 'a|b' | python3 x.py | sort";
        let spread = |name, idle| on_all_cpus(line, name, idle);
        let grep = spread("grep", 1.0).unwrap();
        let expected = "LC_ALL=C fullbore parallel --accept 1 -- grep -E 'a|b'";
        assert_eq!(grep.command.as_deref(), Some(expected));
        assert!(grep.why.ends_with("1.0 were idle: it matches line by line"));
        assert_eq!(spread("grep", 0.5), None);
        assert_eq!(spread("sort", 1.0), None);
        assert_eq!(spread("awk", 1.0), None);
        let python = spread("python3", 1.0).unwrap();
        assert_eq!(python.command, None);
        assert!(python.why.ends_with("if it treats every line alone"));
    }

    #[test]
    fn what_a_stage_does_already_is_not_advised() {
        for (stage, expected) in [
            ("gzip -1 -c", "'pigz' compresses on all CPUs"),
            (
                "gzip -9",
                "'pigz' compresses on all CPUs; 'gzip -1' takes less time and more room",
            ),
        ] {
            assert_eq!(not_done_yet(step_on_cpu("gzip"), stage), expected);
        }
        assert_eq!(not_done_yet("'xz -T0' a; 'xz -1' b", "xz -1 -T0"), "");
    }

    #[test]
    fn every_limit_has_a_step_for_every_program() {
        for limit in [
            Limit::Cpu,
            Limit::Network,
            Limit::Disk,
            Limit::Timer,
            Limit::Other,
        ] {
            let last = STEPS.iter().rfind(|step| step.0 == limit).unwrap();
            assert!(last.1.is_empty(), "{limit:?}");
            assert!(STEPS.iter().all(|step| step.2.contains('\'')));
        }
    }
}
