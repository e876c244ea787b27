//! Tests of the group `services`: every way of a proxy that is on this machine carries what clients send, over both
//! transports, and one that is not is skipped by name.

use crate::common::*;

#[test]
fn every_way_of_a_proxy_carries_streams_and_messages() {
    let words =
        "bench --json --rounds 1 --seconds 0.02 tcp_stream_1_* unix_1k_64_* unix_1k_beside_*";
    let output = run(words);
    assert_code(&output, 0);
    let measured = bench_json(&output);
    assert_eq!(measured.experiments.len(), 22);
    for experiment in &measured.experiments {
        if let Some(reason) = &experiment.skipped {
            assert!(
                reason.contains("haproxy")
                    || reason.contains("tokio-splice2 did not carry")
                    || reason.contains("'ways'")
                    || reason.contains("'proxy'"),
                "{reason}"
            );
            skipped(&format!("{}: {reason}", experiment.name));
            continue;
        }
        assert!(has_figure(experiment), "{experiment:#?}");
        let cost = experiment.cost.as_ref().unwrap();
        assert!(cost.total.median > 0.0, "{experiment:#?}");
    }
}
