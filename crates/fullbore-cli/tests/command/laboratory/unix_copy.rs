//! Tests of the group `unix_copy`: every row runs or says why it does not, options have their effect
//! or are refused, and on a machine without one of the ways the others are measured.

use std::thread;

use crate::common::refusing::*;
use crate::common::*;
use fullbore_results::run::{Also, Outcome, Run, Sizes, Unit};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use seccompiler::SeccompCmpOp;

/// Options for the shortest possible run.
const SHORT: &str = "--rounds 1 --seconds 0.01";

/// include/linux/socket.h, fs/pipe.c and include/uapi/asm-generic/socket.h.
const AF_INET: u64 = 2;
const SO_SNDBUFFORCE: u64 = 32;

const ROWS: [&str; 10] = [
    "copy_normal",
    "copy_ntcopy",
    "copy_zero_copy",
    "copy_sendfile",
    "estimate_normal",
    "estimate_ntcopy",
    "chain_normal",
    "chain_ntcopy",
    "chain_zero_copy",
    "chain_sendfile",
];

/// All rows except those with the flag, which hardly any kernel has.
const ANYWHERE: &str = "copy_normal copy_zero_copy copy_sendfile chain_normal chain_zero_copy \
                        chain_sendfile";

/// Asserts that every row has a figure, except those with the flag if the kernel does not have it.
#[track_caller]
fn assert_measured(run: &Run) {
    for experiment in &run.experiments {
        let name = experiment.name.as_str();
        match experiment.skipped.as_deref() {
            Some(reason) => {
                assert!(name.ends_with("_ntcopy"), "{experiment:#?}");
                assert!(reason.contains("MSG_NTCOPY"), "{reason}");
                skipped(&format!("{name}: {reason}"));
            }
            None => assert!(has_figure(experiment), "{experiment:#?}"),
        }
    }
}

fn also<'a>(experiment: &'a Outcome, name: &str) -> Option<&'a Also> {
    experiment.also.iter().find(|figure| figure.name == name)
}

#[test]
fn every_row_is_measured_or_skipped_by_name() {
    let output = run(&format!("bench --json {SHORT} unix_copy"));
    assert_code(&output, 0);
    let run = bench_json(&output);
    let names: Vec<&str> = run
        .experiments
        .iter()
        .map(|experiment| experiment.name.as_str())
        .collect();
    assert_eq!(names, ROWS);
    assert_measured(&run);
    for experiment in run.experiments.iter().filter(|e| has_figure(e)) {
        // This is the same figure in the RFC's unit.
        let network = also(experiment, "network").unwrap();
        assert_eq!(network.unit, Unit::MbitPerS);
        let times = network.figure.median / median(experiment);
        assert!((times / 8589.934592 - 1.0).abs() < 1e-6, "{experiment:#?}");
        // Caches are checked if the sender measures.
        let is_copy = !experiment.name.as_str().starts_with("chain_");
        let hot = also(experiment, "hot").map(|hot| (hot.figure.median > 0.0, hot.unit));
        assert_eq!(hot, is_copy.then_some((true, Unit::Times)));
    }
    // There is one table for the socket, one for the estimate, and one for the chain.
    for base in ["copy_normal", "estimate_normal", "chain_normal"] {
        assert_eq!(experiment(&run, base).ratio, Some(1.0));
    }
    for published in ["copy_normal", "copy_ntcopy"] {
        assert!(experiment(&run, published).published.is_some());
    }
}

#[test]
fn the_rfcs_command_line_works_as_typed() {
    let cpus = match thread::available_parallelism() {
        Ok(n) if n.get() > 1 => "--cpus 0,1",
        _ => "",
    };
    let output = run(&format!(
        "bench --json --rounds 1 unix_copy --object 1M --count 100 --sndbuf 512K --pipe-size 512K {cpus}"
    ));
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_measured(&run);
    let sizes = Sizes {
        object: 1 << 20,
        count: Some(100),
        sndbuf: 512 << 10,
        pipe_size: 512 << 10,
        ..Sizes::default()
    };
    assert_eq!(run.settings.unix_copy, Some(sizes));
}

#[test]
fn sizes_that_fit_nothing_are_measured_all_the_same() {
    for sizes in [
        "--object 1",
        "--object 12345 --sndbuf 1 --pipe-size 4K --hot 64",
        "--object 3000001 --sndbuf 5000 --pipe-size 12K --hot 100",
    ] {
        let output = run(&format!("bench --json {SHORT} {sizes} {ANYWHERE}"));
        assert_code(&output, 0);
        assert_measured(&bench_json(&output));
    }
}

#[test]
fn every_object_is_checked_where_that_is_asked_for() {
    let output = run(&format!(
        "bench --json {SHORT} unix_copy --object 123457 --check-every-object {ANYWHERE}"
    ));
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_measured(&run);
    assert!(run.settings.unix_copy.unwrap().check_every_object);
}

#[test]
fn what_was_not_chosen_is_not_in_the_settings() {
    let output = run(&format!("bench --json {SHORT} write_read"));
    assert_code(&output, 0);
    assert!(bench_json(&output).settings.unix_copy.is_none());
}

#[test]
fn options_that_make_no_sense_or_do_nothing_are_refused_in_one_line() {
    for (words, named) in [
        ("unix_copy --object 0", "--object"),
        ("unix_copy --object 8G", "--object"),
        ("unix_copy --count 0", "--count"),
        ("unix_copy --sndbuf 0", "--sndbuf"),
        ("unix_copy --pipe-size 0", "--pipe-size"),
        ("unix_copy --hot 0", "--hot"),
        ("unix_copy --hot 63", "--hot"),
        ("ladder --object 1M", "--object"),
        ("transports latency --count 5", "--count"),
        ("--sndbuf 1M", "--sndbuf"),
        ("write_read --hot 4K", "--hot"),
    ] {
        let output = run(&format!("bench {SHORT} {words}"));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        assert!(one_line(stderr(&output)).contains(named), "{words}");
    }
    // Together with other experiments, the options apply to those of the group.
    let output = run(&format!("bench {SHORT} write_read copy_normal --object 4K"));
    assert_code(&output, 0);
}

#[test]
fn what_is_less_than_was_asked_for_is_noted() {
    let force: Conditions = &[(2, SeccompCmpOp::Eq, SO_SNDBUFFORCE)];
    let resize: Conditions = &[(1, SeccompCmpOp::Eq, F_SETPIPE_SZ)];
    let calls = [(call::SETSOCKOPT, force), (call::FCNTL, resize)];
    let filter = refusing(&calls, Errno::PERM);
    let words = format!("bench --json {SHORT} --sndbuf 1G copy_normal copy_zero_copy chain_normal");
    let output = run_under(&filter, &words);
    assert_code(&output, 0);
    let run = bench_json(&output);
    assert_measured(&run);
    for experiment in &run.experiments {
        let notes = experiment.notes.concat();
        for word in [
            "net.core.wmem_max",
            "the receiving pipe has a capacity of 64 KiB",
        ] {
            assert!(notes.contains(word), "{experiment:#?}");
        }
    }
}

#[test]
fn without_files_in_memory_the_others_are_measured() {
    let filter = refusing(&[(call::MEMFD_CREATE, &[])], Errno::NOSYS);
    let output = run_under(&filter, &format!("bench --json {SHORT} {ANYWHERE}"));
    assert_skipped(
        &output,
        &["copy_sendfile", "chain_sendfile"],
        "memfd_create",
    );
}

#[test]
fn without_tcp_the_single_sockets_are_measured() {
    let inet: Conditions = &[(0, SeccompCmpOp::Eq, AF_INET)];
    let filter = refusing(&[(call::SOCKET, inet)], Errno::AFNOSUPPORT);
    let output = run_under(&filter, &format!("bench --json {SHORT} {ANYWHERE}"));
    let chain = ["chain_normal", "chain_zero_copy", "chain_sendfile"];
    assert_skipped(&output, &chain, "TCP over the loopback");
}

#[test]
fn without_vmsplice_the_others_are_measured() {
    let filter = refusing(&[(call::VMSPLICE, &[])], Errno::NOSYS);
    let output = run_under(&filter, &format!("bench --json {SHORT} {ANYWHERE}"));
    assert_skipped(
        &output,
        &["copy_zero_copy", "chain_zero_copy"],
        "vmsplice(2)",
    );
}

#[test]
fn without_splice_every_row_is_skipped_by_name() {
    let filter = refusing(&[(call::SPLICE, &[])], Errno::PERM);
    let output = run_under(&filter, &format!("bench --json {SHORT} {ANYWHERE}"));
    let rows: Vec<&str> = ANYWHERE.split_whitespace().collect();
    assert_skipped(&output, &rows, "splice(2)");
}

#[test]
fn without_unix_sockets_every_row_is_skipped_by_name() {
    let filter = refusing(&[(call::SOCKETPAIR, &[])], Errno::ACCESS);
    let output = run_under(
        &filter,
        &format!("bench --json {SHORT} copy_normal chain_zero_copy"),
    );
    assert_skipped(&output, &["copy_normal", "chain_zero_copy"], "socketpair");
}

#[test]
fn who_is_killed_fails_its_row_and_no_other() {
    let bench = start(&mut fullbore(
        "bench --json --rounds 1 --seconds 1 copy_normal chain_normal",
    ));
    let victim = wait_for("the front", || {
        let mut started = children(bench.id()).into_iter();
        started
            .find(|(_, line)| line.iter().any(|word| word.contains("Front")))
            .map(|(pid, _)| pid)
    });
    kill_process(victim, Signal::KILL).unwrap();
    let output = finish(bench);
    assert_code(&output, 1);
    let run = bench_json(&output);
    assert!(has_figure(experiment(&run, "copy_normal")));
    let failed = experiment(&run, "chain_normal").failed.as_deref().unwrap();
    assert!(
        failed.contains("the front was killed by signal 9"),
        "{failed}"
    );
}
