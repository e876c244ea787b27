//! The report on a pipeline for people: two tables that fit into 80 columns, and the verdict.
//!
//! The text of a stage and the name of a process are cleaned before they get to a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use fullbore_host::size::amount;
use fullbore_host::text::Percent;
use fullbore_host::text::{one_line, wrapped};
use fullbore_observe::Findings;
use fullbore_observe::verdict::numbers::{Certainty, PipeNumbers, StageNumbers};

/// The most columns that the text of a stage takes.
const TEXT: usize = 27;

/// Returns the tables, and the verdict in lines of at most `columns` columns.
pub fn parts(findings: &Findings, columns: usize) -> (Vec<String>, Vec<String>) {
    let mut tables = stages(&findings.numbers.stages);
    if !findings.numbers.pipes.is_empty() {
        tables.extend(pipes(&findings.numbers.pipes));
    }
    (tables, wrapped(&findings.verdict.to_string(), columns))
}

fn stages(stages: &[StageNumbers]) -> Vec<String> {
    let mut table = table(&["stage", "CPU", "ran", "for CPU", "input", "output", "else"]);
    for stage in stages {
        let time = &stage.time;
        let (cause, share) = stage.main_cause();
        table.add_row([
            format!("{} {}", stage.number, one_line(&stage.text, TEXT)),
            Percent(stage.cpus).to_string(),
            Percent(time.ran).to_string(),
            Percent(time.waited_for_cpu).to_string(),
            Percent(time.waited_for_input).to_string(),
            Percent(time.waited_for_output).to_string(),
            match share >= 0.005 {
                true => format!("{} {}", Percent(time.waited_elsewhere), cause.in_short()),
                false => Percent(time.waited_elsewhere).to_string(),
            },
        ]);
    }
    lines(&table)
}

fn pipes(pipes: &[PipeNumbers]) -> Vec<String> {
    let mut table = table(&["pipe", "bytes", "rate", "holds", "filled", "empty", "full"]);
    for pipe in pipes {
        let bytes = pipe.bytes.bytes.map(|bytes| bytes as f64);
        let limited = if pipe.capacity < pipe.wanted { "*" } else { "" };
        table.add_row([
            format!("{} > {}", pipe.writer, pipe.reader),
            about(bytes, pipe.bytes.bytes_are, ""),
            about(pipe.bytes_per_second, pipe.bytes.bytes_are, "/s"),
            format!("{}{limited}", amount(pipe.capacity as f64)),
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

/// Returns a number of bytes, or a rate, with a mark if it may include others.
pub fn about(count: Option<f64>, certainty: Certainty, unit: &str) -> String {
    let mark = match certainty {
        Certainty::About => "~",
        Certainty::Counted | Certainty::Unknown => "",
    };
    let amount = count.map(|count| format!("{mark}{}{unit}", amount(count)));
    amount.unwrap_or_else(|| "unknown".to_owned())
}

/// Creates a table without borders.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

/// Returns the lines of a table, with the first column aligned to the left and the others to the right.
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
