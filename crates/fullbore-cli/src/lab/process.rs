//! The processes that the laboratory starts: this very program, as an endpoint or a middleman.

use std::process::{Command, Output, Stdio};

use super::result::EndpointReport;

/// A verb of this program, also when its file has been replaced since.
pub fn fullbore(verb: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(verb).arg("--die-with-parent");
    command
}

/// An endpoint with the options of an experiment, on one CPU, which reports as JSON.
pub fn endpoint(verb: &str, options: &str, cpu: usize) -> Command {
    let mut command = fullbore(verb);
    command
        .args(options.split_whitespace())
        .arg("--json")
        .arg(format!("--cpu={cpu}"))
        .stderr(Stdio::piped());
    command
}

/// What an endpoint reported: the last line of what it printed.
pub fn report(printed: &[u8]) -> Result<EndpointReport, serde_json::Error> {
    let text = String::from_utf8_lossy(printed);
    serde_json::from_str(text.lines().last().unwrap_or_default())
}

/// The last line an endpoint said, without its name in front.
pub fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("no word why");
    ["fullbore write: ", "fullbore read: "]
        .iter()
        .find_map(|prefix| line.strip_prefix(prefix))
        .unwrap_or(line)
        .to_owned()
}
