//! The run as JSON: everything that was found, for programs. docs/methodology.md says what each
//! field means. Figures have every digit that tells them apart from their neighbours.

use std::io;

use serde::Serialize;

use super::Report;
use crate::run::Run;

/// The run as indented JSON with a final newline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Report<Run> for Json {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        write_indented(run, out)
    }
}

/// Writes a value as indented JSON with a final newline.
pub(crate) fn write_indented(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_run_survives_json() {
        let run = fixture();
        let mut text = Vec::new();
        Json.write(&run, &mut text).unwrap();
        assert_eq!(text.last(), Some(&b'\n'));
        let read: Run = Run::from_json(&text).unwrap();
        assert_eq!(read, run);
    }
}
