//! Turns a command line into the stages to start, and records how their exit codes count.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Result, bail};
use rustix::fs::{Access, access};

use super::argv;
use super::command_line::{self, BLANKS, CommandLine, StageSource};
use super::failure::Failure;
use super::scan::Dialect;
use super::start::Command;
use crate::error_text::shown;
use fullbore_host::refusal::Usage;
use fullbore_host::text::{clean, is_plain_word};

/// The stages of a pipeline, and what else is known about them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The stages, at least one.
    pub stages: Vec<Command>,
    /// The names of their programs as they were written, where a stage is one simple command.
    pub names: Vec<Option<OsString>>,
    /// Whether a `!` inverts the exit code.
    pub negated: bool,
    /// Whether the shell inverts the exit code of a single command.
    pub shell_negates: bool,
    /// Why a line with pipes was not split.
    pub unsplit: Option<Unsplit>,
}

/// The reason why a shell runs a line with pipes as a whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsplit {
    why: &'static str,
    /// A note for the user.
    pub note: String,
}

impl Plan {
    /// Makes a plan from words, without a shell.
    ///
    /// # Errors
    /// Returns [`Usage`] if a stage is empty.
    pub fn of_words(words: &[OsString]) -> Result<Self, Usage> {
        let stages = argv::stages(words)?;
        let names = stages.iter().map(|stage| Some(stage.program.clone()));
        Ok(Self {
            names: names.collect(),
            stages,
            ..Self::default()
        })
    }

    /// Returns the one command that these words are. It is looked for in PATH now, and not again.
    ///
    /// # Errors
    /// Returns [`Usage`] if a word is a pipe.
    pub fn one_of_words(words: &[OsString]) -> Result<Command, Usage> {
        let mut stages = argv::stages(words)?;
        match (stages.pop(), stages.pop()) {
            (Some(command), None) => Ok(found_now(command)),
            _ => {
                let text =
                    "words after '--' are one command: give a pipeline as one argument in quotes";
                Err(Usage(text.into()))
            }
        }
    }

    /// Returns the one command that runs a line: the program, if the line is nothing else, or sh. The program is looked
    /// for in PATH now, and not again.
    ///
    /// # Errors
    /// Returns [`Usage`] if the shell does not understand the line.
    pub fn one_of_line(line: &OsStr) -> Result<Command> {
        let shell = OsStr::new("sh");
        Self::of_line(line, shell)?;
        Ok(match command_line::cut(line, Dialect::Posix) {
            CommandLine::Other {
                stage: Some(stage),
                negated: false,
                ..
            } => found_now(stage_by_shell(shell, &stage)),
            _ => by_shell(shell, line),
        })
    }

    /// Refuses a line that was not split, for an option that needs its stages.
    ///
    /// # Errors
    /// Returns [`Usage`] if the line has pipes that only the shell makes.
    pub fn require_stages(&self, option: &str) -> Result<(), Usage> {
        match &self.unsplit {
            Some(Unsplit { why, .. }) => Err(Usage(format!(
                "{option} needs one pipeline that can be split into its stages: {why}; put a stage that is more than \
                 one command into parentheses or a script, and run each pipeline by itself"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a line whose success the shell inverts, where a file is to be replaced only after a success.
    ///
    /// # Errors
    /// Returns [`Usage`].
    pub fn require_success(&self) -> Result<(), Usage> {
        match self.shell_negates {
            true => Err(Usage(
                "-o needs to know whether the command succeeds, and the shell inverts that of a single command after \
                 '!': omit the '!'"
                    .into(),
            )),
            false => Ok(()),
        }
    }

    /// Makes a plan from a line for a shell.
    ///
    /// # Errors
    /// Returns [`Usage`] if the shell does not understand the line, and [`Failure`] if the shell is not
    /// found.
    pub fn of_line(line: &OsStr, shell: &OsStr) -> Result<Self> {
        let shown = shown(shell);
        // Perhaps no stage needs the shell, but a wrong name is an error in any case.
        if shell != "sh" && !is_found(shell) {
            let error = ErrorKind::NotFound.into();
            bail!(Failure::not_started(&by_shell(shell, line), 1, &error));
        }
        let cut = dialect(shell).map(|dialect| match dialect {
            // The command before `|&` is a coprocess in ksh.
            Dialect::Posix if shown.contains("ksh") && contains(line, "|&") => CommandLine::Unclear,
            dialect => command_line::cut(line, dialect),
        });
        let in_background = matches!(cut, Some(CommandLine::Background));
        let (mut names, mut shell_negates) = (Vec::new(), false);
        let why = match cut {
            Some(CommandLine::Pipeline { stages, negated }) => {
                let planned = stages.iter().map(|stage| stage_by_shell(shell, stage));
                let planned: Vec<Command> = planned.collect();
                match refused_stage(&stages, &planned, shell)? {
                    None => {
                        return Ok(Self {
                            stages: planned,
                            names: stages.into_iter().map(|stage| stage.name).collect(),
                            negated,
                            ..Self::default()
                        });
                    }
                    Some(said) if refusal(line, shell)?.is_some() => bail!(Usage(said)),
                    // Only the shell knows where the line is to be cut.
                    Some(_) => Some("the line may be more than one pipeline"),
                }
            }
            Some(CommandLine::Background) => Some("the line ends with '&'"),
            Some(CommandLine::Other {
                has_pipes,
                stage,
                negated,
            }) => {
                names.push(stage.and_then(|stage| stage.name));
                shell_negates = negated;
                has_pipes.then_some("the line is more than one pipeline")
            }
            Some(CommandLine::Unclear) => {
                if let Some(said) = refusal(line, shell)? {
                    bail!(Usage(said));
                }
                contains(line, "|").then_some(NOT_SPLIT)
            }
            None => contains(line, "|").then_some(NOT_KNOWN),
        };
        let unsplit = why.map(|why| Unsplit {
            why,
            note: match in_background {
                true => format!(
                    "{why}, so {shown} runs it in its background, and this command waits for it; put the '&' after \
                     this command: fullbore run 'a | b' &"
                ),
                false => format!(
                    "{why}, so {shown} runs it unchanged; pipes behind programs that are known to be safe grow while it \
                     runs. To start with larger pipes, run each pipeline separately: fullbore run 'a | b'; fullbore run 'c | d'"
                ),
            },
        });
        Ok(Self {
            stages: vec![by_shell(shell, line)],
            names,
            shell_negates,
            unsplit,
            ..Self::default()
        })
    }
}

const NOT_SPLIT: &str = "the line has syntax that only a shell can split, such as a here-document";
const NOT_KNOWN: &str = "only lines for sh, bash, dash, ksh and zsh are split";

fn contains(line: &OsStr, part: &str) -> bool {
    memchr::memmem::find(line.as_bytes(), part.as_bytes()).is_some()
}

/// Returns the dialect of a shell, by its name; `None` if it may not even have the quotes of POSIX.
fn dialect(shell: &OsStr) -> Option<Dialect> {
    let name = Path::new(shell).file_name()?.to_string_lossy();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || "-.".contains(c));
    match name {
        "bash" => Some(Dialect::Bash),
        "sh" | "ash" | "dash" | "ksh" | "loksh" | "mksh" | "oksh" | "pdksh" | "posh" | "yash"
        | "zsh" => Some(Dialect::Posix),
        _ => None,
    }
}

/// Returns what the shell says about the first stage that it does not understand. A program with plain words and a
/// plain line need no check. In the others, the parser may have missed something: it does not read the text in
/// `$(…)`, for example.
fn refused_stage(
    stages: &[StageSource],
    planned: &[Command],
    shell: &OsStr,
) -> Result<Option<String>> {
    let is_unknown = |(stage, planned): &(&StageSource, &Command)| {
        planned.or_else.is_none() && !command_line::is_plain(&stage.text)
    };
    let unknown = stages.iter().zip(planned).filter(is_unknown);
    let mut refused = unknown.map(|(stage, _)| refusal(&stage.text, shell));
    refused.find_map(Result::transpose).transpose()
}

/// Returns the command that runs a stage. It is the shell, unless the shell would only start a program and
/// wait for it. Then the program takes the place of the shell, as it does by itself with bash and some
/// others: Ctrl-C would end a waiting shell, which would not wait for the last output of the program. If the shell would
/// only remove quotes, none is started at all.
fn stage_by_shell(shell: &OsStr, stage: &StageSource) -> Command {
    let by_shell_alone = Command {
        text: stage.shown.clone(),
        ..by_shell(shell, &stage.text)
    };
    match &stage.program {
        Some((name, text)) if is_a_program(name, shell) => match plain_words(&stage.text) {
            Some(words) => Command {
                text: stage.shown.clone(),
                program: name.clone(),
                words,
                or_else: Some(Box::new(by_shell_alone)),
            },
            // With the word before it, the line may be longer than the kernel allows (execve(2), `MAX_ARG_STRLEN`).
            None if text.len() >= 32 * fullbore_linux::page_size() => by_shell_alone,
            None => Command {
                text: by_shell_alone.text,
                ..by_shell(shell, text)
            },
        },
        _ => by_shell_alone,
    }
}

/// Returns the words, if all of them are plain, or in quotes in which every byte stands for itself.
fn plain_words(text: &OsStr) -> Option<Vec<OsString>> {
    let text = text.as_bytes();
    let ended = text.iter().rev().take_while(|byte| BLANKS.contains(byte));
    let mut rest = &text[..text.len() - ended.count()];
    let (mut words, mut word) = (Vec::new(), None::<Vec<u8>>);
    while let [first, after @ ..] = rest {
        match first {
            b' ' | b'\t' => {
                words.extend(word.take());
                rest = after;
            }
            b'\'' | b'"' => {
                let end = after.iter().position(|byte| byte == first)?;
                let quoted = &after[..end];
                let is_special = |byte: &u8| *first == b'"' && b"$`\\!".contains(byte);
                if !quoted.is_ascii() || quoted.iter().any(is_special) {
                    return None;
                }
                word.get_or_insert_default().extend_from_slice(quoted);
                rest = &after[end + 1..];
            }
            _ => {
                let is_border = |byte: &u8| b" \t'\"".contains(byte);
                let end = rest.iter().position(is_border).unwrap_or(rest.len());
                if !is_plain_word(&rest[..end]) {
                    return None;
                }
                word.get_or_insert_default().extend_from_slice(&rest[..end]);
                rest = &rest[end..];
            }
        }
    }
    words.extend(word);
    Some(words.into_iter().map(OsString::from_vec).collect())
}

/// Returns whether a name can only refer to a program: it is found, and no shell has a built-in of this name.
fn is_a_program(name: &OsStr, shell: &OsStr) -> bool {
    let mut built_in = BUILT_IN.split_ascii_whitespace();
    !built_in.any(|built_in| name == built_in) && !has_functions(shell) && is_found(name)
}

/// Returns the command with the path of its program.
fn found_now(mut command: Command) -> Command {
    if let Some(path) = found(&command.program) {
        command.program = path.into();
    }
    command
}

/// Returns whether there is a program with this name in PATH, or at this path.
fn is_found(name: &OsStr) -> bool {
    found(name).is_some()
}

/// Returns the path of the program with this name in PATH, or at this path.
fn found(name: &OsStr) -> Option<PathBuf> {
    let may_be_run = |path: &PathBuf| access(path, Access::EXEC_OK).is_ok() && path.is_file();
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(may_be_run);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(may_be_run)
}

/// Returns whether the shell that runs the stages may find functions: bash in its environment or in the file that
/// BASH_ENV names (bash(1): FUNCTIONS, BASH_ENV), zsh in .zshenv (zsh(1): STARTUP/SHUTDOWN FILES).
fn has_functions(shell: &OsStr) -> bool {
    let is_of_bash =
        |name: &OsStr| name == "BASH_ENV" || name.as_bytes().starts_with(b"BASH_FUNC_");
    contains(shell, "zsh") || std::env::vars_os().any(|(name, _)| is_of_bash(&name))
}

/// The names that some shell does not look up as programs, even if there is such a program: the special and
/// the regular built-ins of POSIX, and the additional ones of dash, bash, ksh, mksh and zsh.
const BUILT_IN: &str = "
    . : [ alias autoload bg bind break builtin bye caller case cd chdir command compgen complete compopt
    continue coproc declare dirs disable disown do done echo elif else emulate enable esac eval exec exit
    export false fc fg fi float for function functions getconf getopts hash help hist history if in
    integer jobs kill let limit local log logout mapfile nameref newgrp noglob nocorrect popd print printf
    pushd pwd pushln r read readarray readonly rehash rename repeat return sched select set setopt shift
    shopt source stop suspend test then time times trap true ttyctl type typeset ulimit umask unalias
    unfunction unlimit unset unsetopt until vared wait whence where which while zle zmodload";

fn by_shell(shell: &OsStr, text: &OsStr) -> Command {
    // system(3) runs /bin/sh too, and not the first sh in PATH.
    let program = if shell == "sh" {
        "/bin/sh".into()
    } else {
        shell.to_owned()
    };
    // Without the blank, the shell would read the line as an option.
    let is_like_an_option = matches!(text.as_bytes(), [b'-' | b'+', ..]);
    let mut line = OsString::from(if is_like_an_option { " " } else { "" });
    line.push(text);
    Command {
        text: text.to_owned(),
        program,
        words: vec![shell.to_owned(), "-c".into(), line],
        or_else: None,
    }
}

/// Has the shell check the syntax of a line, without running anything, and returns what it says if it does not
/// understand the line.
fn refusal(line: &OsStr, shell: &OsStr) -> Result<Option<String>> {
    // A line may change how the shell reads what follows: `shopt -s extglob`, for example.
    let grammar = ["shopt", "setopt", "emulate", "alias"];
    if grammar.iter().any(|word| contains(line, word)) {
        return Ok(None);
    }
    let command = by_shell(shell, line);
    let checked = without_running(&command);
    let checked = checked.map_err(|error| Failure::not_started(&command, 1, &error))?;
    if checked.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&checked.stderr);
    let mut said = clean(said.lines().next().unwrap_or("syntax error"));
    // bash accepts more than sh does, such as `<(…)` and `<<<`.
    let by_bash = without_running(&by_shell("bash".as_ref(), line));
    if shell != "bash" && by_bash.is_ok_and(|checked| checked.status.success()) {
        let shell = shown(shell);
        said += &format!("; bash understands this line, and {shell} does not: add --shell bash");
    }
    Ok(Some(said))
}

/// Returns what the shell prints on stderr about its line under the option `-n`, which runs nothing.
fn without_running(command: &Command) -> std::io::Result<Output> {
    let mut shell = std::process::Command::new(&command.program);
    shell
        .arg0(&command.words[0])
        .arg("-n")
        .args(&command.words[1..]);
    // With one pipe, std reads it to its end. With two, it needs ioctl(2), and panics where that is refused.
    // A container may have no /dev/null. The shell reads and prints nothing there.
    let null = File::options().read(true).write(true).open("/dev/null");
    let end = || {
        null.as_ref().map_or(Ok(Stdio::inherit()), |null| {
            null.try_clone().map(Stdio::from)
        })
    };
    shell.stdin(end()?).stdout(end()?).output()
}

#[cfg(test)]
mod tests;
