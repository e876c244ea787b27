//! The warning of `--whole` about a last stage that passes its input to another machine or container. `run` can end such
//! a client, but the program on the other side takes that for an ordinary end of its input.

use super::left::say;
use super::plan::Plan;
use super::start::Command;

/// The clients.
const CLIENTS: [&str; 7] = ["ssh", "docker", "podman", "kubectl", "nc", "ncat", "socat"];

/// Programs that start another one, which is named behind their options.
const STARTERS: [&str; 9] = [
    "command", "doas", "env", "exec", "ionice", "nice", "nohup", "sudo", "timeout",
];

impl Plan {
    /// Warns if the last stage is such a client, and no stage seals the stream.
    pub fn warn_of_another_machine(&self) {
        let Some(client) = self.stages.last().and_then(client) else {
            return;
        };
        let is_sealed = |stage: &Command| stage.text.to_string_lossy().contains("--seal");
        if !self.stages.iter().any(is_sealed) {
            say(&format!(
                "--whole ends on this machine: if a stage fails, what {client} passes its input to sees an ordinary end. \
                 Seal the stream: '… | fullbore copy --seal | {client} …', and 'fullbore copy --unseal --atomic -o FILE' \
                 on the other side (docs/seal.md)"
            ));
        }
    }
}

/// Returns the client that a stage is, by the name of its program.
fn client(stage: &Command) -> Option<&'static str> {
    let text = stage.text.to_string_lossy();
    let words = text.split(|c: char| c.is_whitespace() || "\"'\\()".contains(c));
    // Variables may be set before the name, and programs may start it: `A=b timeout -k 5 1m ssh host`.
    let is_before = |word: &&str| {
        STARTERS.contains(&file_name(word))
            || word.contains('=')
            || word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
    };
    let of_text = words
        .filter(|word| !word.is_empty())
        .find(|word| !is_before(word));
    let names = [stage.program.to_str(), of_text];
    let name = |path| {
        CLIENTS
            .into_iter()
            .find(|&client| file_name(path) == client)
    };
    names.into_iter().flatten().find_map(name)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
