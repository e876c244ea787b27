//! Random pipelines with `--whole` of which a stage fails or is killed at a random moment: no stage behind it ever sees
//! an end. Every one of 2,000 pipelines has to succeed.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{children, finish, fullbore, holder_and_runner, said, start, under_load};

#[test]
fn under_load_no_stage_behind_a_failure_sees_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let mut random = fastrand::Rng::new();
    let mut failed = 0;
    for round in 0..under_load(2000) {
        let stages = random.usize(2..=6);
        let failing = random.usize(..stages);
        let bytes = random.usize(..400_000);
        let is_killed = random.bool();
        let scripts: Vec<String> = (0..stages)
            .map(|stage| match (stage, stage == failing && !is_killed) {
                (0, true) => format!("head -c {bytes} /dev/zero; exit 9"),
                (0, false) => format!("head -c {bytes} /dev/zero && sleep 0.01"),
                (_, true) => format!("head -c {}; exit 9", random.usize(..=bytes)),
                (_, false) => format!("cat && echo {stage} >> seen"),
            })
            .collect();
        // As words, so that no shell checks them first.
        let words = scripts
            .iter()
            .flat_map(|script| ["|", "sh", "-c", script])
            .skip(1);
        let mut command = fullbore("run --whole --grace 1 --");
        command
            .args(words)
            .current_dir(directory.path())
            .stdout(Stdio::null());
        let child = start(&mut command);
        let mut victim = None;
        if is_killed {
            thread::sleep(Duration::from_micros(random.u64(..30_000)));
            let stages = holder_and_runner(child.id())
                .map(|(_, runner)| children(runner.as_raw_nonzero().get() as u32))
                .unwrap_or_default();
            // The stages are in the order in which they were started, if all are there.
            if let Some(&(pid, _)) = stages.get(failing) {
                victim = Some(pid);
                kill(pid);
            }
        }
        let output = finish(child);
        let text = fs::read_to_string(&seen).unwrap_or_default();
        let _ = fs::remove_file(&seen);
        let what = format!(
            "{round}: {scripts:?}, killed: {victim:?}: {text:?}, {}",
            said(&output)
        );
        // A stage before the failed one may have seen its end.
        match broken(&output.stderr) {
            Some(broken) => {
                failed += 1;
                let seen = text.lines().map(|line| line.parse::<usize>().unwrap());
                assert!(seen.max().is_none_or(|last| last < broken), "{what}");
                assert!(!output.status.success(), "{what}");
            }
            None => assert!(
                output.status.success() && text.lines().count() == stages - 1,
                "{what}"
            ),
        }
    }
    assert!(failed > 0);
}

fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
}

/// Returns the first stage, from 0, that is said to have failed.
fn broken(stderr: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(stderr);
    text.lines()
        .filter_map(|line| {
            line.strip_prefix("fullbore run: stage ")?
                .split(',')
                .next()?
                .parse::<usize>()
                .ok()
        })
        .map(|number| number - 1)
        .min()
}
