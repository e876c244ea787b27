//! Moves bytes with Rust's standard library and nothing else.

use std::fs::File;
use std::io::{self, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::Context;

/// Runs `std::io::copy` from stdin to stdout, and to the files if there are any.
///
/// Both are `File`s, because `Stdout` would search all data for line breaks.
pub fn run(files: &[PathBuf]) -> anyhow::Result<()> {
    let mut source = File::from(stdin().as_fd().try_clone_to_owned()?);
    let mut sink = File::from(stdout().as_fd().try_clone_to_owned()?);
    if files.is_empty() {
        io::copy(&mut source, &mut sink)?;
        return Ok(());
    }
    let mut sinks = vec![sink];
    for path in files {
        let file = File::options().write(true).open(path);
        sinks.push(file.with_context(|| format!("open '{}'", path.display()))?);
    }
    io::copy(&mut source, &mut Everywhere(sinks))?;
    Ok(())
}

/// A writer that writes everything to each of these files.
struct Everywhere(Vec<File>);

impl Write for Everywhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for sink in &mut self.0 {
            sink.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
