//! Random pipelines under `run --whole` with a stage in several processes, which fail before it, in it or behind it: no
//! stage behind a failure ever sees an end, and no worker a part of a block. Every one of 1,000 has to succeed.

use std::fs;
use std::process::Stdio;

use crate::common::parallel::{calls_that_fail, random_runs};
use crate::common::{FULLBORE, finish, fullbore, said, start, under_load};

#[test]
fn under_load_a_failure_reaches_no_worker_and_no_stage_as_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut random = fastrand::Rng::new();
    for round in 0..under_load(1000) {
        let lines = random.usize(1..3_000);
        let per_block = random.usize(1..400);
        let place = random.usize(0..4);
        let at = random.usize(1..=lines);
        let first = match place {
            0 => format!("seq {at}; exit 9"),
            _ => format!("seq {lines}"),
        };
        // A worker notes how many lines it got.
        let fails = match place {
            1 => format!("grep -qx {at} block.$$ && exit 9; "),
            _ => String::new(),
        };
        let worker =
            format!("cat > block.$$; {fails}wc -l < block.$$ >> got; cat block.$$; rm block.$$");
        let last = match place {
            2 => format!("head -n {at} > /dev/null; exit 9"),
            _ => "cat > /dev/null && echo end >> seen".to_owned(),
        };
        let (jobs, per) = (random.usize(1..=8).to_string(), per_block.to_string());
        let words = [
            "sh", "-c", &first, "|", FULLBORE, "parallel", "-j", &jobs, "--lines", &per, &worker,
            "|", "sh", "-c", &last,
        ];
        let mut command = fullbore("run --whole --grace 5 --");
        command
            .args(words)
            .current_dir(directory.path())
            .stdout(Stdio::null());
        let output = finish(start(&mut command));
        let got = fs::read_to_string(path("got")).unwrap_or_default();
        let what = format!("{round}: {words:?}: {got:?}, {}", said(&output));
        assert_eq!(output.status.success(), place == 3, "{what}");
        assert_eq!(path("seen").exists(), place == 3, "{what}");
        // Only the last block of an input that has ended well is shorter.
        let short = got.lines().filter(|count| count.trim() != per).count();
        assert!(short == 0 || place != 0 && short == 1, "{what}");
        for name in ["got", "seen"] {
            let _ = fs::remove_file(path(name));
        }
    }
}

#[test]
fn under_load_the_output_is_that_of_the_command_alone() {
    random_runs(fastrand::u64(..), under_load(2000));
}

#[test]
fn under_load_a_call_that_fails_loses_nothing_silently() {
    let all: Vec<u32> = (1..=under_load(24) as u32).collect();
    calls_that_fail(&all);
}
