//! Prints a line repeatedly, as fast as tee(2) can duplicate it.
//!
//! `cargo run --release --example yes -- any text | head -3`

use std::env;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;

use fullbore::ProducerOptions;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let mut line = match words.is_empty() {
        true => b"y".to_vec(),
        false => words
            .iter()
            .map(|w| w.as_bytes())
            .collect::<Vec<_>>()
            .join(&b' '),
    };
    line.push(b'\n');
    match ProducerOptions::new()
        .repeat(io::stdout(), &line)?
        .send(u64::MAX)
    {
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => unreachable!("an endless run ends with an error"),
    }
}
