//! Tests that `fullbore explain` agrees with perf, and with what is known about programs and experiments, as
//! far as samples can show it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use fullbore_results::explain::{Class, Explanation};

use crate::common::explain::*;
use crate::common::*;

/// Experiments whose main cost is known, each with its CPUs and that cost: on one CPU, waking is
/// cheap everywhere.
const KNOWN: [(&str, Option<&str>, Class); 4] = [
    ("busy_loop_huge", None, Class::Lock),
    ("vmsplice_read", None, Class::Copying),
    ("vmsplice_read", Some("0,0"), Class::Copying),
    ("write_read", None, Class::Sleeping),
];

/// The kinds of cost that perf's own names show without the table of classes.
const KINDS: [Class; 3] = [Class::Lock, Class::Copying, Class::Sleeping];

/// Shares that differ by less than this are considered the same.
const SAME: f64 = 0.15;

#[test]
fn under_load_what_is_computed_and_what_is_moved_are_told_apart() {
    at_least(16, 20, "a side's largest share", |at| {
        let (line, name, class) = [
            ("sha256sum /dev/zero", "sha256sum", Class::User),
            ("gzip -9 </dev/zero >/dev/null", "gzip", Class::User),
            ("while :; do :; done", "sh", Class::User),
            ("cat /dev/zero >/dev/null", "cat", Class::Faults),
        ][at % 4];
        let mut command = fullbore("explain --json=/dev/stderr -o /dev/null --seconds 1 --");
        let explanation: Explanation = json(stderr(&finish(start(command.arg(line)))));
        if !is_whole(&explanation) {
            return Ok(());
        }
        let largest = side(&explanation, name).shares.first();
        match largest.is_some_and(|largest| largest.class == class) {
            true => Ok(()),
            false => Err(format!("{line}: {largest:?}")),
        }
    });
}

#[test]
fn under_load_what_is_known_of_an_experiment_is_seen_in_it() {
    at_least(14, 20, "shares of write_read", |_| {
        let explanation = explained(&run("explain write_read --rounds 1 --seconds 2 --json"));
        for name in ["writer", "reader"] {
            let side = side(&explanation, name);
            let all = side.ran + side.slept + side.waited;
            if !(0.9..1.5).contains(&all) {
                return Err(format!("{name}: {all} of its time is accounted for"));
            }
        }
        if !is_whole(&explanation) {
            return Ok(());
        }
        let copying = side(&explanation, "writer").share(Class::Copying);
        let unknown = share_of_all(&explanation, Class::NotClassified);
        match copying > 0.01 && unknown < 0.1 {
            true => Ok(()),
            false => Err(format!("copying {copying:.3}, not classified {unknown:.3}")),
        }
    });
}

#[test]
fn under_load_it_agrees_with_perf_about_the_same_run() {
    if Command::new("perf").arg("--version").output().is_err() {
        return skipped("there is no perf here");
    }
    let dir = tempfile::tempdir().unwrap();
    if let Err(reason) = seen_by_both(dir.path(), KNOWN[0].0, KNOWN[0].1) {
        return skipped(reason);
    }
    at_least(14, 20, "agrees with perf", |at| {
        agrees_with_perf(dir.path(), KNOWN[at % KNOWN.len()])
    });
}

/// Returns whether explain agrees with perf about an experiment, or how they differ.
fn agrees_with_perf(
    dir: &Path,
    (name, cpus, class): (&str, Option<&str>, Class),
) -> Result<(), String> {
    let (explanation, perf) = seen_by_both(dir, name, cpus)?;
    let ours = |class| share_of_all(&explanation, class);
    let theirs = |class| perf.get(&class).copied().unwrap_or(0.0);
    let all: Vec<_> = KINDS.map(|kind| (kind, ours(kind), theirs(kind))).into();
    let what = format!("{name} on {cpus:?}: {all:.2?}");
    if ours(class) <= 0.02 || theirs(class) <= 0.02 {
        return Err(format!("no {class:?}: {what}"));
    }
    if let Some((kind, ..)) = all
        .iter()
        .find(|(_, ours, theirs)| (ours - theirs).abs() >= SAME)
    {
        return Err(format!("{kind:?} of {what}"));
    }
    // This is the largest of them, unless two are about equally large.
    let largest_by = |share: fn(&(Class, f64, f64)) -> f64| {
        let mut sorted = all.clone();
        sorted.sort_by(|a, b| share(b).total_cmp(&share(a)));
        (sorted[0].0, share(&sorted[0]) - share(&sorted[1]))
    };
    let (by_us, lead) = largest_by(|kind| kind.1);
    let (by_perf, lead_by_perf) = largest_by(|kind| kind.2);
    if by_us != by_perf && lead.min(lead_by_perf) >= SAME {
        return Err(what);
    }
    // The class that is named as the largest has to be the largest.
    let Some(verdict) = &explanation.verdict else {
        return Err(format!("no verdict: {what}"));
    };
    let named = verdict.class;
    match named == by_us || verdict.next == Some(by_us) || ours(named) > ours(by_us) {
        true => Ok(()),
        false => Err(format!("{what}: {}", verdict.words)),
    }
}

/// Returns the result of explain for an experiment, and the samples that perf took of the same
/// processes at the same time; or why this is not possible here.
fn seen_by_both(
    dir: &Path,
    experiment: &str,
    cpus: Option<&str>,
) -> Result<(Explanation, BTreeMap<Class, f64>), &'static str> {
    let data = dir.join("perf.data");
    let mut both = Command::new("perf");
    both.args(["record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-o"])
        .arg(&data)
        .args([FULLBORE, "explain", experiment, "--rounds", "3", "--json"])
        .args(cpus.map(|cpus| format!("--cpus={cpus}")))
        .stdin(Stdio::null());
    let output = both.output().unwrap();
    if !output.status.success() {
        return Err("perf cannot sample here");
    }
    let explanation = explained(&output);
    if !is_whole(&explanation) {
        return Err("the kernel is not sampled here, or has no names");
    }
    let perf = perf_shares(&data).ok_or("perf cannot sample the kernel here")?;
    Ok((explanation, perf))
}

/// Returns the shares according to perf's own samples and names, by three patterns that are
/// independent of the table; `None` if perf may not sample the kernel.
fn perf_shares(data: &Path) -> Option<BTreeMap<Class, f64>> {
    let script = Command::new("perf")
        .args(["script", "-F", "comm,ip,sym", "-i"])
        .arg(data)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&script.stdout);
    let mut counts: BTreeMap<Option<Class>, u64> = BTreeMap::new();
    for chain in text
        .split("\n\n")
        .filter(|chain| chain.trim_start().starts_with("exe"))
    {
        *counts.entry(kind(chain)).or_default() += 1;
    }
    let all: u64 = counts.values().sum();
    if all < 100 || !text.contains("pipe") {
        return None;
    }
    let share = |(kind, count)| Some((kind?, count as f64 / all as f64));
    Some(counts.into_iter().filter_map(share).collect())
}

/// Returns the kind of a chain, if it is one of [`KINDS`].
fn kind(chain: &str) -> Option<Class> {
    let has = |words: &[&str]| words.iter().any(|word| chain.contains(word));
    let leaf = chain.lines().nth(1).unwrap_or_default();
    if has(&["mutex_", "pipe_lock"]) {
        Some(Class::Lock)
    } else if has(&["page_fault"]) {
        None
    } else if has(&[
        "copy_to_iter",
        "copy_from_iter",
        "copy_page_to",
        "copy_page_from",
    ]) {
        Some(Class::Copying)
    } else if has(&["schedule", "__wake_up", "try_to_wake"])
        || (leaf.contains("_raw_spin_unlock_irqrestore") && !has(&["alloc", "free"]))
    {
        Some(Class::Sleeping)
    } else {
        None
    }
}
