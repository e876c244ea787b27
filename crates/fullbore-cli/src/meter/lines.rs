//! The lines among bytes, and those of whole files.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::copying::Input;

/// The bytes of a file that are read at a time.
const CHUNK: usize = 1 << 20;

/// Returns the lengths of pieces of at most so many lines, and how many lines each has; all together at most `left`
/// lines. The last one may be without its end, if more are wanted.
pub fn pieces_of(seen: &[u8], end: u8, left: u64, most: u64) -> Vec<(u64, u64)> {
    let (mut pieces, mut begin) = (Vec::new(), 0);
    let mut lines = 0;
    let mut ends = memchr::memchr_iter(end, seen);
    while lines < left {
        let wanted = most.min(left - lines);
        // The end of the last of these lines, or how many there are.
        let (mut found, mut last) = (0, None);
        while found < wanted {
            match ends.next() {
                None => break,
                at => (found, last) = (found + 1, at),
            }
        }
        let until = match last {
            Some(at) if found == wanted => at + 1,
            _ => seen.len(),
        };
        if until == begin {
            break;
        }
        pieces.push(((until - begin) as u64, found));
        (begin, lines) = (until, lines + found);
        if until == seen.len() {
            break;
        }
    }
    pieces
}

/// Returns the number of lines in these inputs, if all of them are regular files that can be read.
pub fn lines_of_all(inputs: &[Input], end: u8) -> Option<u64> {
    inputs.iter().map(|input| lines_of(input, end)).sum()
}

fn lines_of(input: &Input, end: u8) -> Option<u64> {
    let Input::File(path) = input else {
        return None;
    };
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = BufReader::with_capacity(CHUNK, File::open(path).ok()?);
    let mut lines = 0;
    loop {
        let bytes = file.fill_buf().ok()?;
        if bytes.is_empty() {
            return Some(lines);
        }
        lines += memchr::memchr_iter(end, bytes).count() as u64;
        let length = bytes.len();
        file.consume(length);
    }
}
