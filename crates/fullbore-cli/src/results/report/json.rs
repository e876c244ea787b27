//! The run as JSON: everything that was found, for programs. docs/methodology.md says what each
//! field means. Figures have every digit that tells them apart from their neighbours.

use std::io;

use anyhow::Result;

use super::Report;
use crate::results::run::Run;

/// The run as indented JSON with a final newline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Report for Json {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> Result<()> {
        serde_json::to_writer_pretty(&mut *out, run)?;
        Ok(out.write_all(b"\n")?)
    }
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
        let read: Run = serde_json::from_slice(&text).unwrap();
        // Run has no equality of its own: its JSON stands for it.
        assert_eq!(
            serde_json::to_value(&read).unwrap(),
            serde_json::to_value(&run).unwrap()
        );
        assert_eq!(read.machine, run.machine);
        assert_eq!(read.experiments[1].figure, run.experiments[1].figure);
    }
}
