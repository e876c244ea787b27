//! `fullbore doctor`: what this machine allows, and what holds it back.

use std::io::{BufWriter, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use clap::Args;

use crate::doctor::{Report, text};
use crate::lab::report::table::WIDTH_WITHOUT_A_TERMINAL;

/// Say what this machine allows, and what holds pipes back on it
///
/// Every technique is tried for real: bytes are moved and compared, memory is looked at, samples are
/// taken. What is refused comes with the cause, as far as it can be known, and the command that would
/// change it. Then settings, CPUs, and how much of this user's allowance for pipes is in use; the last
/// line is the biggest win left. Nothing is changed, and nothing is left behind.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore doctor
  fullbore doctor | tail -n 1             the biggest win left
  fullbore doctor --json > before.json    to compare with another kernel or container

Exit codes: 0 done, whatever was refused; 1 a trial moved wrong bytes; 2 the command line is wrong.")]
pub struct Doctor {
    /// Print one JSON object; docs/doctor.md says what is in it
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let report = Report::new();
        let mut out = BufWriter::new(stdout().lock());
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report)?;
            out.write_all(b"\n")?;
        } else {
            let is_terminal = stdout().is_terminal();
            let color = is_terminal && std::env::var_os("NO_COLOR").is_none();
            text::write(&report, width(is_terminal), color, &mut out)?;
        }
        // Dropping the writer would flush too, and lose the error.
        out.flush()?;
        Ok(ExitCode::from(u8::from(report.is_wrong())))
    }
}

/// The columns of the terminal, if it goes to one.
fn width(is_terminal: bool) -> u16 {
    is_terminal
        .then(|| rustix::termios::tcgetwinsize(stderr()).ok())
        .flatten()
        .map(|size| size.ws_col)
        .filter(|&columns| columns > 0)
        .unwrap_or(WIDTH_WITHOUT_A_TERMINAL)
}
