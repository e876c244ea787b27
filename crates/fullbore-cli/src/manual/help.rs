//! Reads the end of a verb's help: its examples, its exit codes, and notes.

use std::collections::BTreeMap;

use clap::Command;

use crate::exit;

/// The end of a verb's help.
pub struct Help {
    pub examples: Vec<Example>,
    pub exit_status: ExitStatus,
    /// Lines about neither.
    pub notes: Vec<String>,
}

/// A command, which may have several lines, and what it is for.
#[derive(Default)]
pub struct Example {
    pub command: Vec<String>,
    pub comment: String,
}

/// What a verb's exit codes mean.
pub struct ExitStatus {
    /// What cannot be said code by code.
    pub prose: String,
    pub codes: BTreeMap<u8, String>,
}

impl Help {
    pub fn of(verb: &Command) -> Self {
        let text = verb.get_after_help().map(ToString::to_string);
        Self::read(&text.unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let mut help = Self {
            examples: Vec::new(),
            exit_status: ExitStatus::general(exit::CODES),
            notes: Vec::new(),
        };
        let mut open = Example::default();
        for line in text.lines() {
            if let Some(code) = line.strip_prefix("  ") {
                let (command, comment) = code.trim().split_once("  ").unwrap_or((code.trim(), ""));
                open.command.push(command.to_owned());
                if !command.ends_with('|') {
                    open.comment = comment.trim().to_owned();
                    help.examples.push(std::mem::take(&mut open));
                }
            } else if line.starts_with(exit::PREFIX) {
                help.exit_status = ExitStatus::read(line);
            } else if !line.is_empty() && line != "Examples:" {
                help.notes.push(line.to_owned());
            }
        }
        help
    }
}

impl ExitStatus {
    /// What the codes mean if a verb does not say otherwise.
    pub fn general(text: &str) -> Self {
        let list = text.strip_prefix(exit::PREFIX).unwrap_or(text);
        Self {
            prose: String::new(),
            codes: codes(list),
        }
    }

    /// Reads `Exit codes: 0 done; 1 …`, or a text in front of such a list: `Exit codes: the code of …. Also:
    /// 2 for …`.
    fn read(text: &str) -> Self {
        let text = text.strip_prefix(exit::PREFIX).unwrap_or(text);
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let mut status = Self::general(exit::CODES);
            status.codes.extend(codes(text));
            return status;
        }
        let (prose, list) = text.split_once(" Also: ").unwrap_or((text, ""));
        let mut prose = prose.to_owned();
        if let Some(first) = prose.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Self {
            prose,
            codes: codes(list),
        }
    }
}

/// Reads a list of codes. What does not begin with a code continues the one before.
fn codes(list: &str) -> BTreeMap<u8, String> {
    let mut codes: Vec<(u8, String)> = Vec::new();
    for part in list.trim_end_matches('.').split("; ") {
        let code = part.split_once(' ');
        let code = code.and_then(|(code, meaning)| Some((code.parse().ok()?, meaning.to_owned())));
        match (code, codes.last_mut()) {
            (Some(code), _) => codes.push(code),
            (None, Some((_, meaning))) => {
                meaning.push_str("; ");
                meaning.push_str(part);
            }
            (None, None) => {}
        }
    }
    codes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_a_verb_does_not_explain_have_their_general_meaning() {
        let status = ExitStatus::read("Exit codes: 0 done; in time; 1 not opened, or 2 failed.");
        let meanings: Vec<&str> = status.codes.values().map(String::as_str).collect();
        assert_eq!(meanings[..2], ["done; in time", "not opened, or 2 failed"]);
        assert_eq!(status.codes[&2], "the command line is invalid");
        assert_eq!(status.codes.len(), 4);
    }

    #[test]
    fn a_text_before_the_list_is_kept() {
        let status = ExitStatus::read("Exit codes: that of the last stage. Also: 125 it failed.");
        assert_eq!(status.prose, "That of the last stage.");
        assert_eq!(
            status.codes,
            BTreeMap::from([(125, "it failed".to_owned())])
        );
    }

    #[test]
    fn an_example_ends_where_its_command_ends() {
        let help = Help::read("Examples:\n  a |\n    b   does it\n  c\n\nSee d.");
        let commands: Vec<String> = help.examples.iter().map(|e| e.command.join("/")).collect();
        assert_eq!(commands, ["a |/b", "c"]);
        assert_eq!(help.examples[0].comment, "does it");
        assert_eq!(help.notes, ["See d."]);
    }
}
