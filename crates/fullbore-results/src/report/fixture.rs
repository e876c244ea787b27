//! A run for the tests of all reports.

use fullbore_host::machine::{Cache, CacheKind, CpuPair, Machine, PipeLimits, Relation};

use crate::run::{Apart, Cost, EndpointReport, Limit, Outcome, Run, SCHEMA, Settings};
use crate::statistics::Spread;

/// Returns a run with one outcome of each kind: the base, a noisy one, one with a note, one
/// skipped, one failed.
pub(crate) fn fixture() -> Run {
    let outcome = |group: &str, name: &str, rounds: &[f64], published: Option<f64>| Outcome {
        group: group.to_owned(),
        name: name.to_owned(),
        shows: format!("what {name} shows"),
        published,
        figure: Spread::of(rounds),
        ratio: Spread::of(rounds).map(|spread| (spread.median / 0.93 * 100.0).round() / 100.0),
        writer: (!rounds.is_empty()).then(|| EndpointReport {
            options: "--way copy --size 128K".to_owned(),
            cpu_seconds: 0.5,
            ..EndpointReport::default()
        }),
        ..Outcome::default()
    };
    let mut run = Run {
        schema: SCHEMA,
        taken_at: "2026-03-01T12:00:00Z".to_owned(),
        machine: fixture_machine(),
        line_round_trip_ns: Spread::of(&[55.0, 54.0, 330.0]),
        apart: Apart {
            repeated: 1,
            taken: 0,
        },
        other_work: None,
        settings: Settings {
            seed: 42,
            ..Settings::new(3, 0.5, 0.1)
        },
        limit: Spread::of(&[20.0, 19.0, 18.0]).map(|handed_over| Limit { handed_over }),
        overall: Vec::new(),
        remarks: Vec::new(),
        experiments: vec![
            outcome("ladder", "write_read", &[0.92, 0.93, 0.95], Some(3.7)),
            outcome(
                "ladder",
                "vmsplice_splice_same_buffer",
                &[80.0, 104.0, 120.0],
                None,
            ),
            outcome("ladder", "write_read_huge", &[12.4, 12.3, 12.5], Some(13.4)),
            outcome("ladder", "hugetlb", &[], Some(62.5)),
            outcome("more <&> \"others\"", "breaks", &[], None),
        ],
    };
    for (outcome, seconds) in run.experiments.iter_mut().zip([[0.25, 0.5], [0.5, 0.75]]) {
        let spread = |seconds| Spread::of(&[seconds; 3]).unwrap();
        outcome.cost = Some(Cost {
            total: spread(seconds[0] + seconds[1]),
            user: spread(seconds[0]),
            system: spread(seconds[1]),
        });
    }
    run.experiments[2].notes = vec!["the kernel backs the buffer with base pages".to_owned()];
    run.experiments[3].skipped = Some("no hugetlb page is free here".to_owned());
    run.experiments[4].failed =
        Some("the reader ended with status 1:\n\tread from 'stdin': input/output error".to_owned());
    run
}

/// Returns a machine whose every fact is known, and whose CPU has a name that XML must escape.
fn fixture_machine() -> Machine {
    let last_level = Cache {
        level: 3,
        kind: CacheKind::Unified,
        size: Some(32 << 20),
        shared_cpu_list: Some("0-3".to_owned()),
    };
    Machine {
        kernel: Some("6.12.30".to_owned()),
        architecture: "x86_64".to_owned(),
        cpu_model: Some("Intel(R) Xeon(R) <Platinum> 8375C CPU @ 2.90GHz".to_owned()),
        cpus_online: 4,
        cpus_allowed: 2,
        caches: vec![last_level.clone()],
        hypervisor: Some("KVM (Amazon EC2 m7a.large)".to_owned()),
        memory: Some(8 << 30),
        page_size: 4096,
        huge_page_size: Some(2 << 20),
        transparent_huge_pages: Some("madvise".to_owned()),
        hugetlb_pages_free: Some(0),
        pipe_limits: PipeLimits {
            max_size: Some(1 << 20),
            user_pages_soft: Some(16384),
            user_pages_hard: Some(0),
            privileged: false,
            exempt_from_user_pages: false,
        },
        cpus: CpuPair {
            writer: 0,
            reader: 1,
            relation: Relation::SharedCache,
            shared_cache: Some(last_level),
        },
    }
}
