//! The warning of `--whole` about a last stage that passes its input to another machine or container. `run` can end such
//! a client, but the program on the other side takes that for an ordinary end of its input.

use std::ffi::OsStr;
use std::path::Path;

use super::left::say;
use super::plan::Plan;
use super::start::Command;

/// The clients.
const CLIENTS: [&str; 7] = ["ssh", "docker", "podman", "kubectl", "nc", "ncat", "socat"];

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
    // Variables may be set before the name.
    let is_setting = |word: &&str| *word == "exec" || word.contains('=');
    let of_text = text.split_whitespace().find(|word| !is_setting(word));
    let of_text = of_text.map(|word| word.trim_matches(['"', '\'', '\\']));
    let names = [Some(stage.program.as_os_str()), of_text.map(OsStr::new)];
    let name = |path: &OsStr| {
        let name = Path::new(path).file_name()?;
        CLIENTS.into_iter().find(|client| name == *client)
    };
    names.into_iter().flatten().find_map(name)
}
