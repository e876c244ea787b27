//! The comparison as JSON, with everything that it holds, for programs.

use std::io;

use super::comparison::Comparison;
use crate::report::Report;
use crate::report::json::{Json, write_indented};

impl Report<Comparison> for Json {
    fn write(&self, comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
        write_indented(comparison, out)
    }
}
