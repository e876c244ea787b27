//! Many transfers at once, and many short ones in sequence: each byte is in its place, and no resource is leaked.

use std::thread;

use crate::common::ends::{From, SINKS, SOURCES, To, content};
use crate::common::*;
use fullbore::{Cancel, Guarantee, TransferOptions, TransferReport, Wait};

/// The pairs of kinds, except for those that are slow or scarce.
fn kinds() -> Vec<(From, To)> {
    let mut pairs = Vec::new();
    for from in SOURCES {
        for to in SINKS {
            let slow = [From::Terminal, From::Block, From::Proc].contains(&from)
                || [To::Terminal, To::Block].contains(&to);
            if !slow {
                pairs.push((from, to));
            }
        }
    }
    pairs
}

#[track_caller]
fn one(from: From, to: To, len: usize, guarantee: Guarantee, wait: Wait, cancel: Option<&Cancel>) {
    let (Some(source), Some(sink)) = (from.open(len), to.open()) else {
        return;
    };
    let mut transfer = TransferOptions::new()
        .guarantee(guarantee)
        .wait(wait)
        .open(&source.fd, &sink.fd);
    if let Some(cancel) = cancel {
        transfer.set_cancel(Some(cancel));
    }
    if source.endless {
        transfer.set_limit(len as u64);
    }
    let what = format!("{from:?} → {to:?}, {len} bytes, {guarantee:?}, {wait:?}");
    let report: TransferReport = transfer.run().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(
        (report.bytes, report.taken),
        (len as u64, len as u64),
        "{what}"
    );
    sink.close_and_compare(source.expected, &what);
    source.close();
}

#[test]
fn a_hundred_transfers_at_once_do_not_mix_their_bytes() {
    let _watch = watch("a_hundred_transfers_at_once_do_not_mix_their_bytes");
    content();
    let kinds = kinds();
    let cancel = Cancel::new().unwrap();
    thread::scope(|scope| {
        for number in 0..100_u64 {
            let (kinds, cancel) = (&kinds, &cancel);
            scope.spawn(move || {
                let mut random = Random::new(1000 + number);
                for round in 0..10 {
                    let (from, to) = kinds[random.up_to(kinds.len()) - 1];
                    let len = random.up_to([100, 100_000, 5 * MIB][round % 3]);
                    let guarantee = [Guarantee::Snapshot, Guarantee::Reference][round % 2];
                    // Spinning threads would block a hundred others.
                    let wait = [Wait::Block, Wait::Poll, Wait::Adaptive][random.up_to(3) - 1];
                    let cancel = (random.next() % 4 == 0).then_some(cancel);
                    one(from, to, len, guarantee, wait, cancel);
                }
            });
        }
    });
}

#[test]
fn thousands_of_short_transfers_of_every_kind_are_right() {
    let _watch = watch("thousands_of_short_transfers_of_every_kind_are_right");
    let mut random = Random::new(5);
    for _ in 0..15 {
        for (from, to) in kinds() {
            let len = random.up_to(3000);
            one(from, to, len, Guarantee::Snapshot, Wait::Block, None);
            one(from, to, len, Guarantee::Reference, Wait::Poll, None);
        }
    }
}
