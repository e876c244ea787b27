//! Counts the lines and bytes of stdin.
//!
//! `cat big | cargo run --release --example wc`

use std::error::Error;
use std::io::{self, BufRead};

use fullbore::Consumer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut input = Consumer::new(io::stdin())?;
    let (mut lines, mut bytes) = (0, 0);
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        lines += memchr::memchr_iter(b'\n', buffer).count();
        bytes += buffer.len();
        let len = buffer.len();
        input.consume(len);
    }
    println!("{lines} {bytes}");
    Ok(())
}
