//! What was found out, for people: two tables that fit into 80 columns, and the verdict.
//!
//! Nothing that a person wrote, or a process is called, gets to a terminal as it is.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::findings::{Findings, Known, Pipe, Stage};
use super::verdict::Percent;
use crate::meter::bytes;
use fullbore_host::text::clean;

/// Columns that the text of a stage takes at most.
const TEXT: usize = 27;

/// A text in one line of at most so many columns, with nothing in it that a terminal obeys.
pub fn shown(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let clean: Vec<char> = clean(&words.join(" ")).chars().collect();
    if clean.len() <= most {
        return clean.into_iter().collect();
    }
    let mut short: String = clean[..most.saturating_sub(1)].iter().collect();
    short.push('…');
    short
}

impl Findings {
    /// The tables, and the verdict in lines of at most so many columns.
    pub fn lines(&self, columns: usize) -> (Vec<String>, Vec<String>) {
        let mut tables = stages(&self.numbers.stages);
        if !self.numbers.pipes.is_empty() {
            tables.extend(pipes(&self.numbers.pipes));
        }
        (tables, wrapped(&self.verdict.to_string(), columns))
    }
}

/// The lines of a text, cut between words.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.extend(word.chars().take(columns));
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.chars().take(columns).collect());
        }
    }
    lines
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tables, verdict) = self.lines(usize::MAX);
        f.write_str(&[tables, verdict].concat().join("\n"))
    }
}

fn stages(stages: &[Stage]) -> Vec<String> {
    let mut table = table(&["stage", "CPU", "ran", "for CPU", "input", "output", "else"]);
    for stage in stages {
        let time = &stage.time;
        let (cause, share) = stage.main_cause();
        table.add_row([
            format!("{} {}", stage.number, shown(&stage.text, TEXT)),
            Percent(stage.cpus).to_string(),
            Percent(time.ran).to_string(),
            Percent(time.waited_for_cpu).to_string(),
            Percent(time.waited_for_input).to_string(),
            Percent(time.waited_for_output).to_string(),
            match share {
                share if share >= 0.005 => {
                    format!("{} {}", Percent(time.waited_elsewhere), cause.in_short())
                }
                _ => Percent(time.waited_elsewhere).to_string(),
            },
        ]);
    }
    lines(&table)
}

fn pipes(pipes: &[Pipe]) -> Vec<String> {
    let mut table = table(&["pipe", "bytes", "rate", "holds", "filled", "empty", "full"]);
    for pipe in pipes {
        let about = match pipe.bytes.bytes_are {
            Known::About => "~",
            Known::Counted | Known::Unknown => "",
        };
        let amount = |count: Option<f64>, unit: &str| {
            count.map_or_else(
                || "unknown".to_owned(),
                |count| format!("{about}{}{unit}", bytes(count)),
            )
        };
        let limited = if pipe.capacity < pipe.wanted { "*" } else { "" };
        table.add_row([
            format!("{} > {}", pipe.writer, pipe.reader),
            amount(pipe.bytes.bytes.map(|bytes| bytes as f64), ""),
            amount(pipe.bytes_per_second, "/s"),
            format!("{}{limited}", bytes(pipe.capacity as f64)),
            format!(
                "{}..{}..{}",
                Percent(pipe.filled_10),
                Percent(pipe.filled_50),
                Percent(pipe.filled_90)
            ),
            Percent(pipe.empty).to_string(),
            Percent(pipe.full).to_string(),
        ]);
    }
    lines(&table)
}

/// One without lines.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

/// Its lines, the first column to the left and the others to the right.
pub fn lines(table: &Table) -> Vec<String> {
    let mut table = table.clone();
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if at == 0 { 0 } else { 2 }, 0));
        column.set_cell_alignment(match at {
            0 => CellAlignment::Left,
            _ => CellAlignment::Right,
        });
    }
    (table.lines())
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_moves_the_cursor_and_it_is_one_line() {
        assert_eq!(
            shown("sed -n\n 's/\u{1b}[2J//'\t| x", 40),
            "sed -n 's/?[2J//' | x"
        );
        assert_eq!(shown("zstd -T0 --long", 8), "zstd -T…");
        assert_eq!(shown("zstd -T0", 8), "zstd -T0");
        assert_eq!(shown("", 8), "");
    }

    #[test]
    fn lines_are_cut_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one abcdefghij two", 7), ["one", "abcdefg", "two"]);
        assert_eq!(wrapped("", 7), [""]);
    }
}
