//! Writes bytes that depend on their position, to check what other programs do with them; or checks such bytes.
//!
//! `pattern 1000000 | some program | pattern --check` says where the first wrong byte is. Word i of the stream (8
//! bytes, little-endian) is i times an odd constant. `--recycle` reuses pages, which is right only for a reader that
//! copies.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, ErrorKind};
use std::os::fd::AsFd;

use fullbore::{Consumer, Producer, ProducerOptions, Way};

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--check"] => check(),
        [count] => write(Producer::new(io::stdout())?, count.parse()?),
        ["--recycle", count] => {
            // This way is right only for readers that copy.
            let producer = ProducerOptions::new()
                .way(Way::Recycle)
                .open(io::stdout())?;
            write(producer, count.parse()?)
        }
        _ => Err("usage: pattern [--recycle] COUNT | pattern --check".into()),
    }
}

fn write<Fd: AsFd>(mut out: Producer<Fd>, count: u64) -> Result<(), Box<dyn Error>> {
    let chunk = out.chunk() as u64;
    let mut at = 0;
    while at < count {
        let len = chunk.min(count - at) as usize;
        let buffer = out.reserve(len)?;
        let mut word = (at / 8).wrapping_mul(STEP);
        let mut words = buffer.chunks_exact_mut(8);
        for bytes in &mut words {
            bytes.copy_from_slice(&word.to_le_bytes());
            word = word.wrapping_add(STEP);
        }
        let rest = words.into_remainder();
        rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
        match out.commit(len) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            done => done?,
        }
        at += len as u64;
    }
    match out.finish().map_err(fullbore::Error::from) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map(drop).map_err(Into::into),
    }
}

fn check() -> Result<(), Box<dyn Error>> {
    let mut input = Consumer::new(io::stdin())?;
    let mut at = 0u64;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            println!("{at} bytes, all right");
            return Ok(());
        }
        for &byte in buffer {
            let word = (at / 8).wrapping_mul(STEP);
            if byte != word.to_le_bytes()[(at % 8) as usize] {
                return Err(format!("wrong byte at position {at}").into());
            }
            at += 1;
        }
        let len = buffer.len();
        input.consume(len);
    }
}
