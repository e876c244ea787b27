//! The report on a pipeline for people: two tables that fit into 80 columns, and the verdict.
//!
//! The text of a stage and the name of a process are cleaned before they get to a terminal.

use fullbore_host::size::amount;
use fullbore_host::text::{Percent, one_line, table_lines, wrapped};
use fullbore_observe::Findings;
use fullbore_observe::verdict::numbers::{Certainty, PipeNumbers, StageNumbers};

/// The most columns that the text of a stage takes.
const TEXT: usize = 27;

/// Returns the tables, and the verdict in lines of at most `columns` columns.
pub fn parts(findings: &Findings, columns: usize) -> (Vec<String>, Vec<String>) {
    // In 80 columns the longest texts are whole.
    let text = TEXT.min(columns / 3 + 1);
    let mut tables = stages(&findings.numbers.stages, text);
    if !findings.numbers.pipes.is_empty() {
        tables.extend(pipes(&findings.numbers.pipes));
    }
    let accepted = findings.numbers.stages.iter().filter_map(|stage| {
        let what = match stage.accepted.as_deref()? {
            "early" => "failed after the next stage had read enough".to_owned(),
            code => format!("ended with {code}"),
        };
        Some(format!("stage {} {what}: accepted", stage.number))
    });
    tables.extend(accepted);
    let mut verdict = wrapped(&findings.verdict.to_string(), columns);
    let next = findings.verdict.next.as_ref();
    verdict.extend(
        next.iter()
            .flat_map(|next| wrapped(&format!("next: {next}"), columns)),
    );
    (tables, verdict)
}

fn stages(stages: &[StageNumbers], text: usize) -> Vec<String> {
    let header = ["stage", "CPU", "ran", "for CPU", "input", "output", "else"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for stage in stages {
        let time = &stage.time;
        let (cause, share) = stage.main_cause();
        rows.push(vec![
            format!("{} {}", stage.number, one_line(&stage.text, text)),
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
    table_lines(&rows, |at| at > 0)
}

fn pipes(pipes: &[PipeNumbers]) -> Vec<String> {
    let header = ["pipe", "bytes", "rate", "holds", "filled", "empty", "full"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for pipe in pipes {
        let bytes = pipe.bytes.bytes.map(|bytes| bytes as f64);
        let limited = if pipe.capacity < pipe.wanted { "*" } else { "" };
        rows.push(vec![
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
    table_lines(&rows, |at| at > 0)
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
