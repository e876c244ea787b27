//! Tests of a source with bytes that cannot be read.

// A list of one range is meant.
#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;

use super::server::{Nature, Served};
use super::*;

/// The tests' disk: 60 blocks and a bit. Each byte that cannot be read is a request to the server.
const LEN: usize = 60 * 512 + 77;

/// Returns the contents with zeros for what cannot be read.
fn with_zeros(content: &[u8], bad: &[Range<usize>]) -> Vec<u8> {
    let mut content = content.to_vec();
    for range in bad {
        content[range.clone()].fill(0);
    }
    content
}

#[test]
fn zeros_are_in_the_place_of_what_cannot_be_read_and_every_other_byte_is_right() {
    let content: Vec<u8> = bytes(LEN).iter().map(|byte| byte | 1).collect();
    let block = |first: usize, last: usize| first * 512..(last + 1) * 512;
    for bad in [
        vec![0..1],
        vec![14_000..14_001, 14_003..14_004],
        vec![block(0, 0)],
        vec![block(7, 7), block(10, 40)],
        vec![60 * 512..LEN],
        vec![0..LEN],
    ] {
        for (options, stdin, stdout) in [
            ("meter -E IN", Nothing, Pipe),
            ("meter -E", ToFile, Pipe),
            ("meter -E IN", Nothing, ToFile),
            ("meter -EE IN", Nothing, Pipe),
            ("meter -E -L 100M IN", Nothing, Pipe),
        ] {
            let mut nature = Nature::source(&content);
            nature.bad = bad.clone();
            let Some(served) = Served::new(nature) else {
                return;
            };
            let mut files = Files::new(Vec::new());
            files.input = served.path();
            let (output, outputs) = files.run((options, stdin, stdout), "", |command| command);
            let what = format!("{options} {stdout:?} {bad:?}");
            assert_eq!(
                output.status.code(),
                Some(1),
                "{what}: {}",
                said_short(&output)
            );
            for out in outputs {
                assert!(
                    out == with_zeros(&content, &bad),
                    "{what}: {}",
                    said_short(&output)
                );
            }
            let said: Vec<&str> = stderr(&output).lines().collect();
            if options.contains("-EE") {
                assert_eq!(said.len(), 1, "{said:?}");
            } else {
                let ranges: Vec<String> = (bad.iter())
                    .map(|range| format!("bytes {} to {} (", range.start, range.end - 1))
                    .collect();
                let all = said.len() == ranges.len()
                    && said
                        .iter()
                        .zip(&ranges)
                        .all(|(line, range)| line.contains(range));
                assert!(all, "{what}: {said:?}");
            }
        }
    }
}

#[test]
fn without_the_option_the_first_bad_byte_ends_it() {
    let content = bytes(LEN);
    let mut nature = Nature::source(&content);
    nature.bad = vec![20_000..20_001];
    let Some(served) = Served::new(nature) else {
        return;
    };
    let mut files = Files::new(Vec::new());
    files.input = served.path();
    let (output, outputs) = files.run(("meter -q IN", Nothing, Pipe), "", |command| command);
    assert_eq!(output.status.code(), Some(1));
    assert!(content.starts_with(&outputs[0]));
}

#[test]
fn a_pipe_that_fails_cannot_be_gone_on_behind() {
    let files = Files::new(bytes(1000));
    let (output, outputs) = files.run(("meter -E", Pipe, Pipe), "", |command| command);
    assert_eq!(output.status.code(), Some(0));
    assert!(outputs[0] == files.bytes);
}
