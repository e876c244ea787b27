//! One page, in the language of roff: the sections that clap_mangen writes, and text of our own.

use std::io;

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use super::help::Example;

/// The columns that a line of an example has on a terminal of 80: man(1) indents it by 7.
const COLUMNS: usize = 72;

/// A page that is being written.
pub struct Text {
    /// Sections before the last text of our own.
    done: String,
    roff: Roff,
}

impl Text {
    /// Begins a page: its title, its name and its synopsis.
    pub fn new(command: &Command, name: &str) -> Self {
        let mut text = Self {
            done: String::new(),
            roff: Roff::new(),
        };
        let version = concat!("fullbore ", env!("CARGO_PKG_VERSION"));
        let about = command.get_about().map(ToString::to_string);
        text.roff
            .control("TH", [name, "1", "\"\"", version, "Manual of fullbore"]);
        // Words are not broken, because an option in two parts is not found by a search; and so spaces are not
        // stretched either.
        text.roff.control("nh", []).control("ad", ["l"]);
        text.section("NAME");
        text.roff
            .text([roman(format!("{name} - {}", about.unwrap_or_default()))]);
        text.section("SYNOPSIS");
        text.synopsis(command);
        text
    }

    /// Writes how the command is called, as the help says it.
    fn synopsis(&mut self, command: &Command) {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let called = command.get_bin_name().unwrap_or(command.get_name());
        for (number, line) in usage.lines().map(str::trim).enumerate() {
            if number > 0 {
                self.roff.control("br", []);
            }
            let rest = line.strip_prefix(called).unwrap_or(line);
            self.roff.text([bold(called), roman(rest)]);
        }
    }

    pub fn section(&mut self, heading: &str) {
        self.roff.control("SH", [heading]);
    }

    pub fn paragraph(&mut self, text: &str) {
        self.roff.control("PP", []);
        self.roff.text([roman(text)]);
    }

    /// Writes a term and what it means.
    pub fn item(&mut self, term: &str, meaning: &str) {
        self.roff.control("TP", []);
        self.roff.text([bold(term)]);
        self.roff.text([roman(meaning)]);
    }

    /// Writes what the verb does: the long text of its help.
    pub fn description(&mut self, verb: &Command) {
        self.section("DESCRIPTION");
        let about = verb.get_long_about().or(verb.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        // The first paragraph is the line that the section NAME has.
        for (number, paragraph) in about.split("\n\n").enumerate() {
            match number {
                0 if paragraph.contains(". ") => self.paragraph(paragraph),
                0 => self.paragraph(&format!("{}.", paragraph.trim_end_matches('.'))),
                _ => self.paragraph(paragraph),
            }
        }
    }

    /// Writes what clap knows of the options. Their headings are headings within that section.
    pub fn options(&mut self, command: &Command) {
        let render = |out: &mut Vec<u8>| -> io::Result<()> {
            Man::new(command.clone()).render_options_section(out)
        };
        let mut text = Vec::new();
        render(&mut text).expect("a Vec takes all");
        let text = String::from_utf8(text).expect("the help is text");
        self.close();
        let mut is_first = true;
        for line in without_preamble(&text) {
            match line.strip_prefix(".SH ") {
                Some(heading) if !std::mem::take(&mut is_first) => {
                    self.push(&format!(".SS {heading}"));
                }
                Some(heading) if heading != "OPTIONS" => {
                    self.push(".SH OPTIONS");
                    self.push(&format!(".SS {heading}"));
                }
                _ => self.push(line),
            }
        }
    }

    /// Writes a command as it is typed, after what it is for.
    pub fn example(&mut self, example: &Example) {
        self.roff.control("PP", []);
        if !example.comment.is_empty() {
            let mut comment = example.comment.clone();
            if let Some(first) = comment.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            self.roff.text([roman(format!("{comment}:"))]);
            self.roff.control("PP", []);
        }
        self.roff.control("nf", []);
        for (number, line) in example.command.iter().enumerate() {
            let indent = if number > 0 { "    " } else { "" };
            for line in broken(&format!("{indent}{line}")) {
                self.roff.text([bold(line)]);
            }
        }
        self.roff.control("fi", []);
    }

    /// Writes references to other pages.
    pub fn references<'a>(&mut self, pages: impl IntoIterator<Item = &'a str>) {
        let mut words = Vec::new();
        for page in pages {
            if !words.is_empty() {
                words.push(roman(", "));
            }
            let (name, section) = page.split_at(page.find('(').unwrap_or(page.len()));
            words.extend([bold(name), roman(section)]);
        }
        self.roff.text(words);
    }

    /// Moves what was written by ourselves to the end of the page.
    fn close(&mut self) {
        let text = std::mem::take(&mut self.roff).render();
        for line in without_preamble(&text) {
            self.push(line);
        }
    }

    fn push(&mut self, line: &str) {
        self.done.push_str(line);
        self.done.push('\n');
    }

    /// Returns the page.
    pub fn finish(mut self) -> String {
        self.close();
        // groff replaces these by characters that a shell does not know.
        let text = self.done.replace('~', "\\(ti").replace('^', "\\(ha");
        let text = text.replace('`', "\\(ga");
        format!("{PREAMBLE}{text}")
    }
}

/// Defines the apostrophe that roff writes as `\*(Aq`. Each rendered part begins with it.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

fn without_preamble(text: &str) -> impl Iterator<Item = &str> {
    text.strip_prefix(PREAMBLE).unwrap_or(text).lines()
}

/// Breaks a command that is too long for a terminal at a space outside of quotes, as a shell accepts it.
fn broken(line: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = line.to_owned();
    while rest.chars().count() > COLUMNS {
        let Some(at) = last_space(&rest) else { break };
        lines.push(format!("{} \\", &rest[..at]));
        rest = format!("    {}", &rest[at + 1..]);
    }
    lines.push(rest);
    lines
}

/// Returns the last space outside of quotes, and after the first word, where a line may be broken.
fn last_space(line: &str) -> Option<usize> {
    let (mut quote, mut found) = (None, None);
    let indent = line.len() - line.trim_start().len();
    for (place, (at, character)) in line.char_indices().enumerate() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ' ') if at > indent && place + 2 <= COLUMNS => found = Some(at),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_broken_where_the_shell_continues_it() {
        let line = format!("fullbore run '{0} {0}' --report {0}", "word ".repeat(8));
        let lines = broken(&line);
        assert!(lines.len() > 1, "{lines:?}");
        let joined: String = lines
            .iter()
            .map(|line| line.strip_suffix('\\').unwrap_or(line))
            .collect();
        let words = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(words(&joined), words(&line));
        for line in &lines {
            assert_eq!(line.matches('\'').count() % 2, 0, "{line}");
        }
        assert_eq!(broken("short"), ["short"]);
    }
}
