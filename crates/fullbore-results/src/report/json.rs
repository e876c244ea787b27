//! A run or a comparison as JSON: everything that was found, for programs. docs/methodology.md says what each
//! field means. Figures have every digit that tells them apart from their neighbours.

use std::io;

use serde::Serialize;

use super::Report;

/// A run or a comparison as indented JSON with a final newline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl<Of: Serialize> Report<Of> for Json {
    fn write(&self, result: &Of, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, result)?;
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::run::Run;

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
