//! A pipeline that is given as words, without a shell: `a x y '|' b z`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::start::Command;
use fullbore_host::refusal::Usage;
use fullbore_host::text::shell_words;

/// The word between two stages.
const PIPE: &str = "|";

/// Splits the words into stages, each of which is a program and its arguments.
///
/// # Errors
/// Returns [`Usage`] if there is no word between two pipes, before the first or after the last.
pub fn stages(words: &[OsString]) -> Result<Vec<Command>, Usage> {
    let expected = "expected a program before and after each '|'";
    let stage = |(number, words): (usize, &[OsString])| match words {
        [] => Err(Usage(format!("stage {number} is empty: {expected}"))),
        [program, ..] => Ok(Command {
            text: shown(words),
            program: program.clone(),
            words: words.to_vec(),
            or_else: None,
        }),
    };
    let stages = words.split(|word| word == PIPE);
    (1..).zip(stages).map(stage).collect()
}

/// Returns the words as they would be written in a line for a shell.
fn shown(words: &[OsString]) -> OsString {
    OsString::from_vec(shell_words(words.iter().map(|word| word.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_they_would_stand_in_a_line() {
        for (words, expected) in [
            (&["tr", "\\n", " "][..], r"tr '\n' ' '"),
            (&["printf", "it's", "", "a=b"], r"printf 'it'\''s' '' a=b"),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(shown(&words), expected);
        }
    }

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
