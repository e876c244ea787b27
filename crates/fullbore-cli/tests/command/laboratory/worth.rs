//! Tests of the group `worth`: every way brings the right bytes to every reader, what a table shows is said in a
//! sentence, and a way that this machine does not have is skipped by name.

use crate::common::refusing::*;
use crate::common::*;
use fullbore_results::run::{Remark, Run};
use rustix::io::Errno;

const WAYS: [&str; 7] = [
    "write", "roomy", "socket", "fresh", "recycle", "ring", "shared",
];

const READERS: [&str; 11] = [
    "drop", "sum", "sha256", "crc32", "lines", "zstd", "file", "tcp", "cat", "grep", "wc",
];

/// The ways to this reader: programs read from pipes only.
fn ways(reader: &str) -> &'static [&'static str] {
    match reader {
        "cat" | "grep" | "wc" => &WAYS[..5],
        _ => &WAYS,
    }
}

fn measured() -> Run {
    let output = run("bench --json --rounds 1 --seconds 0.01 worth");
    assert_code(&output, 0);
    bench_json(&output)
}

#[test]
fn every_way_reaches_every_reader_and_every_table_is_summed_up() {
    let run = measured();
    let expected: Vec<String> = READERS
        .iter()
        .flat_map(|reader| {
            ways(reader)
                .iter()
                .map(move |way| format!("{way}_to_{reader}"))
        })
        .collect();
    let names: Vec<&str> = run.experiments.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, expected);
    for experiment in &run.experiments {
        if let Some(reason) = &experiment.skipped {
            skipped(&format!("{}: {reason}", experiment.name));
            continue;
        }
        assert!(has_figure(experiment), "{experiment:#?}");
        let cost = experiment.cost.as_ref().unwrap();
        assert!(cost.total.median > 0.0, "{experiment:#?}");
    }
    for reader in READERS {
        let table = experiment(&run, &format!("write_to_{reader}"))
            .table
            .as_ref();
        let is_measured = |way| has_figure(experiment(&run, &format!("{way}_to_{reader}")));
        let of_table = |remark: &&Remark| remark.table.as_ref() == table;
        let remark = run.remarks.iter().find(of_table);
        assert_eq!(
            remark.is_some(),
            is_measured("fresh") && is_measured("roomy")
        );
        if let Some(remark) = remark {
            assert!(remark.text.contains("fresh pages are "), "{remark:?}");
            assert!(remark.text.contains("CPU time"), "{remark:?}");
        }
    }
}

#[test]
fn without_vmsplice_the_other_ways_are_measured() {
    let filter = refusing(&[(call::VMSPLICE, &[])], Errno::NOSYS);
    let words = "bench --json --rounds 1 --seconds 0.01 *_to_sum";
    let output = run_under(&filter, words);
    assert_skipped(&output, &["fresh_to_sum", "recycle_to_sum"], "vmsplice");
    assert_eq!(bench_json(&output).remarks, []);
}
