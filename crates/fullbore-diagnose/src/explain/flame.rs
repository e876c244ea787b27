//! Draws the flame graph: each side as a tower, and every chain of calls as a flame on it.

use std::io::Write;

use anyhow::{Context, Result};
use inferno::flamegraph::{self, Options, color::MultiPalette, color::Palette};

use super::profile::Side;
use fullbore_host::text::clean;

/// Draws the flame graph as SVG.
pub fn draw(sides: &[Side], title: &str, out: &mut dyn Write) -> Result<()> {
    let mut lines: Vec<String> = sides.iter().flat_map(Side::folded).collect();
    lines.sort_unstable();
    let mut options = Options::default();
    options.title = clean(title);
    options.subtitle = Some("time on CPU; functions of the kernel are orange".to_owned());
    options.count_name = "samples".to_owned();
    // This palette recognizes the suffix `_[k]`.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.deterministic = true;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
        .context("draw the flame graph")
}
