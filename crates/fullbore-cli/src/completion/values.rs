//! The words that can stand at a place: verbs, options, and values of options.

use clap::{Arg, Command, ValueHint};

use super::answer::{Answer, Word};
use super::line::Value;

/// Where values come from that the parser does not know.
type Source = fn() -> Vec<Word>;

/// The arguments whose values only fullbore knows: verb, argument, source.
const SOURCES: &[(&str, &str, Source)] = &[
    #[cfg(feature = "lab")]
    ("bench", "names", super::experiments::groups_and_experiments),
    #[cfg(feature = "lab")]
    ("explain", "experiment", super::experiments::experiments),
    ("meter", "query", pids),
    ("meter", "remote", pids),
    ("meter", "watch", pids),
    ("top", "name", process_names),
    ("top", "pid", pids),
    ("tune", "pipeline", pids),
    ("tune", "target", pids_and_names),
];

/// Returns the verbs that the help lists.
pub fn verbs(parser: &Command, with_help: bool) -> Vec<Word> {
    let is_listed =
        |verb: &&Command| !verb.is_hide_set() && (with_help || verb.get_name() != "help");
    let word = |verb: &Command| Word::new(verb.get_name(), verb.get_about());
    parser
        .get_subcommands()
        .filter(is_listed)
        .map(word)
        .collect()
}

/// Returns the options of a command that its help lists.
pub fn options(command: &Command) -> Vec<Word> {
    let listed = command.get_arguments().filter(|arg| !arg.is_hide_set());
    listed
        .flat_map(|arg| {
            let long = arg.get_long().map(|name| format!("--{name}"));
            let short = arg.get_short().map(|name| format!("-{name}"));
            let word = |text| Word::new(text, arg.get_help());
            long.into_iter().chain(short).map(word)
        })
        .collect()
}

/// Returns the values of an argument of a verb.
pub fn values(verb: &str, value: Value) -> Answer {
    let of: &Arg = value.of;
    let known = of.get_possible_values();
    if !known.is_empty() {
        let listed = known.iter().filter(|value| !value.is_hide_set());
        return Answer::Words(
            listed
                .map(|value| Word::new(value.get_name(), value.get_help()))
                .collect(),
        );
    }
    let mut sources = SOURCES.iter();
    if let Some((.., source)) =
        sources.find(|(v, arg, _)| (*v, *arg) == (verb, of.get_id().as_str()))
    {
        return Answer::Words(source());
    }
    match of.get_value_hint() {
        ValueHint::CommandName if value.before == 0 => Answer::Commands,
        ValueHint::AnyPath | ValueHint::FilePath | ValueHint::CommandName => Answer::Files,
        ValueHint::DirPath => Answer::Directories,
        _ => Answer::Words(Vec::new()),
    }
}

impl Word {
    pub(super) fn new(text: impl Into<String>, meaning: Option<impl ToString>) -> Self {
        let meaning = meaning.map(|meaning| meaning.to_string());
        let first = meaning
            .as_deref()
            .and_then(|meaning| meaning.lines().next());
        Self {
            text: text.into(),
            meaning: first.unwrap_or_default().replace('\t', " "),
        }
    }
}

/// The processes of this machine that are programs, by number.
fn pids() -> Vec<Word> {
    let mut all: Vec<(i32, String)> = processes().collect();
    all.sort_unstable();
    let word = |(pid, name): (i32, String)| Word::new(pid.to_string(), Some(name));
    all.into_iter().map(word).collect()
}

fn process_names() -> Vec<Word> {
    let mut names: Vec<String> = processes().map(|(_, name)| name).collect();
    names.sort_unstable();
    names.dedup();
    // Others would have to be quoted.
    names.retain(|name| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c))
    });
    let word = |name: String| Word::new(name, None::<String>);
    names.into_iter().map(word).collect()
}

fn pids_and_names() -> Vec<Word> {
    process_names().into_iter().chain(pids()).collect()
}

/// Threads of the kernel, which have no command line, are left out, and so is this process.
fn processes() -> impl Iterator<Item = (i32, String)> {
    let own = std::process::id().cast_signed();
    let all = procfs::process::all_processes()
        .into_iter()
        .flatten()
        .flatten();
    all.filter(move |process| process.pid != own)
        .filter(|process| process.cmdline().is_ok_and(|line| !line.is_empty()))
        .filter_map(|process| Some((process.pid, process.stat().ok()?.comm)))
}
