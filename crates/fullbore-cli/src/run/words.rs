//! A pipeline as words, without any shell: `a x y '|' b z`.

use std::ffi::OsString;

use super::start::Command;
use crate::host::refusal::Usage;

/// What stands between two stages.
const PIPE: &str = "|";

/// The stages: a program and its arguments each, as they are.
///
/// # Errors
/// [`Usage`] where there is nothing between two pipes, before the first or after the last.
pub fn stages(words: &[OsString]) -> Result<Vec<Command>, Usage> {
    words
        .split(|word| word == PIPE)
        .enumerate()
        .map(|(number, words)| match words {
            [] => Err(Usage(format!(
                "stage {} is empty: a program belongs before each '|' and after it",
                number + 1
            ))),
            [program, ..] => Ok(Command {
                text: words.join(" ".as_ref()),
                program: program.clone(),
                words: words.to_vec(),
                or_else: None,
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(words: &[&str]) -> Result<Vec<Vec<OsString>>, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        stages(&words)
            .map(|stages| stages.into_iter().map(|stage| stage.words).collect())
            .map_err(|Usage(text)| text)
    }

    #[test]
    fn only_a_word_that_is_nothing_but_a_bar_is_a_pipe() {
        let stages = cut(&["a", "x y", "|", "b", "||", "'|'", "|x"]).unwrap();
        assert_eq!(stages, [&["a", "x y"][..], &["b", "||", "'|'", "|x"]]);
    }

    #[test]
    fn an_empty_stage_is_refused_by_its_number() {
        for (words, number) in [
            (&["|", "a"][..], 1),
            (&["a", "|"], 2),
            (&["a", "|", "|", "b"], 2),
            (&["|"], 1),
        ] {
            let error = cut(words).unwrap_err();
            assert!(
                error.contains(&format!("stage {number} is empty")),
                "{error}"
            );
        }
    }
}
