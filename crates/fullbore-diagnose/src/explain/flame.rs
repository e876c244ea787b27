//! Draws the flame graph: each side as a tower, and every chain of calls as a flame on it.

use std::io::Write;

use anyhow::Result;

use super::profile::Side;
use fullbore_host::text::clean;

/// Draws the flame graph as SVG.
pub fn draw(sides: &[Side], title: &str, out: &mut dyn Write) -> Result<()> {
    let mut lines: Vec<String> = sides.iter().flat_map(Side::folded).collect();
    lines.sort_unstable();
    draw_lines(&lines, clean(title), out)
}

#[cfg(feature = "flame")]
fn draw_lines(lines: &[String], title: String, out: &mut dyn Write) -> Result<()> {
    use anyhow::Context;
    use inferno::flamegraph::{self, Options, color::MultiPalette, color::Palette};

    let mut options = Options::default();
    options.title = title;
    options.subtitle = Some("time on CPU; functions of the kernel are orange".to_owned());
    options.count_name = "samples".to_owned();
    // This palette recognizes the suffix `_[k]`.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.deterministic = true;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
        .context("draw the flame graph")
}

#[cfg(not(feature = "flame"))]
fn draw_lines(_: &[String], _: String, _: &mut dyn Write) -> Result<()> {
    can_draw()
}

/// Checks that this build can draw flame graphs.
///
/// # Errors
/// Returns [`Unsupported`](fullbore_host::refusal::Unsupported) if it was built without the feature `flame`.
pub fn can_draw() -> Result<()> {
    #[cfg(not(feature = "flame"))]
    anyhow::bail!(fullbore_host::refusal::Unsupported(
        "--flame: this build draws no flame graphs; build it with 'cargo install --path crates/fullbore-cli \
         --features flame', or install a package"
            .into()
    ));
    #[cfg(feature = "flame")]
    Ok(())
}
