//! `fullbore complete`: what the scripts of `fullbore completions` ask while a command line is typed.
//!
//! The answer is either one word, which says what the shell completes by itself (`files`, `directories` or
//! `commands`), or one line for each word that can stand there, with a tab and what it means behind it.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};

use crate::completion::answer::Answer;
use crate::completion::complete;
use crate::inherited;

/// Print what can stand in place of the last word
#[derive(Args)]
pub struct Complete {
    /// The words after 'fullbore', up to the one that is being typed, which may be empty
    #[arg(last = true, value_name = "WORD")]
    words: Vec<OsString>,
}

impl Complete {
    pub fn run(self, parser: Command) -> anyhow::Result<ExitCode> {
        // Names that are no text can only be those of files.
        let words = self.words.iter().map(|word| word.to_string_lossy());
        let words: Vec<String> = words.map(String::from).collect();
        let text = match complete(parser, &words) {
            Answer::Files => "files\n".to_owned(),
            Answer::Directories => "directories\n".to_owned(),
            Answer::Commands => "commands\n".to_owned(),
            Answer::Words(words) => words
                .iter()
                .map(|word| format!("{}\t{}\n", word.text, word.meaning))
                .collect(),
        };
        let mut out = inherited::stdout()?.lock();
        out.write_all(text.as_bytes()).context("write to stdout")?;
        Ok(ExitCode::SUCCESS)
    }
}
