//! What a shell can complete and the parser does not know: names of experiments and processes.

use clap_complete::engine::CompletionCandidate;

#[cfg(feature = "lab")]
pub use of_the_lab::{experiments, groups_and_experiments};

#[cfg(feature = "lab")]
mod of_the_lab {
    use super::{CompletionCandidate, candidate};
    use fullbore_lab::catalogue::Catalogue;
    use fullbore_results::names;

    /// Returns the names of the experiments.
    pub fn experiments() -> Vec<CompletionCandidate> {
        let catalogue = Catalogue::default();
        let all = catalogue.iter().map(|one| candidate(one.name, one.shows));
        all.collect()
    }

    /// Returns the names of the groups, and of the experiments.
    pub fn groups_and_experiments() -> Vec<CompletionCandidate> {
        let catalogue = Catalogue::default();
        let groups = catalogue.groups.iter();
        let groups = groups.map(|group| (group.name, group.shows));
        let groups = groups.chain([(names::ALL, "all groups")]);
        let groups = groups.map(|(name, shows)| candidate(name, shows));
        groups.chain(experiments()).collect()
    }
}

fn candidate(word: &str, help: &str) -> CompletionCandidate {
    CompletionCandidate::new(word).help(Some(help.to_owned().into()))
}

/// Returns the numbers of the processes, with their names.
pub fn pids() -> Vec<CompletionCandidate> {
    let mut all: Vec<(i32, String)> = processes().collect();
    all.sort_unstable();
    let all = all
        .iter()
        .map(|(pid, name)| candidate(&pid.to_string(), name));
    all.collect()
}

/// Returns the names of the processes that need no quotes.
fn process_names() -> Vec<CompletionCandidate> {
    let mut names: Vec<String> = processes().map(|(_, name)| name).collect();
    names.sort_unstable();
    names.dedup();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
    names.retain(|name| name.chars().all(is_plain));
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the names and the numbers of the processes.
pub fn pids_and_names() -> Vec<CompletionCandidate> {
    process_names().into_iter().chain(pids()).collect()
}

/// Returns the processes but this one, and without threads of the kernel, which have no command line.
fn processes() -> impl Iterator<Item = (i32, String)> {
    let own = std::process::id() as i32;
    let all = procfs::process::all_processes().into_iter().flatten();
    all.flatten()
        .filter(move |process| process.pid != own)
        .filter(|process| process.cmdline().is_ok_and(|line| !line.is_empty()))
        .filter_map(|process| Some((process.pid, process.stat().ok()?.comm)))
}
