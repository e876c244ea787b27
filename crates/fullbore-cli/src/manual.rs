//! The manual pages: what clap_mangen writes, and the end of a verb's help in sections of its own.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::exit;

/// What clap_mangen writes before each section, and a page needs once: the apostrophe of this formatter.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// Returns the commands that have a page: fullbore itself, and the verbs that its help lists.
pub fn commands(parser: Command) -> Vec<Command> {
    let mut parser = parser.disable_help_subcommand(true);
    parser.build();
    let verbs = parser.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs: Vec<Command> = verbs.cloned().collect();
    [parser].into_iter().chain(verbs).collect()
}

/// Returns the name of the file of a page, such as `fullbore-copy.1`.
pub fn file_name(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or(command.get_name());
    format!("{name}.1")
}

/// Returns a page, in the language of roff.
///
/// # Errors
/// None: memory takes all bytes.
pub fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(concat!("fullbore ", env!("CARGO_PKG_VERSION")))
        .manual("Manual of fullbore");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // Words are not broken: a search would not find an option in two parts. Spaces are not stretched.
    page.write_all(b".nh\n.ad l\n")?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let end = command.get_after_help().map(ToString::to_string);
    ending(&end.unwrap_or_default()).to_writer(&mut page)?;
    let page = String::from_utf8_lossy(&page).replace(PREAMBLE, "");
    Ok([PREAMBLE, &page].concat().into_bytes())
}

/// Returns the sections for the end of a help: examples, which are indented, exit codes, and notes.
fn ending(text: &str) -> Roff {
    let mut roff = Roff::new();
    for line in text.lines() {
        if line == "Examples:" {
            roff.control("SH", ["EXAMPLES"]);
        } else if let Some(example) = line.strip_prefix("  ") {
            roff.control("nf", []).text([bold(example)]);
            roff.control("fi", []);
        } else if let Some(codes) = line.strip_prefix(exit::PREFIX) {
            roff.control("SH", ["EXIT STATUS"]).text([roman(codes)]);
        } else if !line.is_empty() {
            roff.control("PP", []).text([roman(line)]);
        }
    }
    roff
}
