//! The names of experiments, and of their groups.

use fullbore_lab::catalogue::Catalogue;
use fullbore_lab::catalogue::sweep::Axes;
use fullbore_results::names;

use super::answer::Word;

pub fn experiments() -> Vec<Word> {
    let catalogue = Catalogue::new(&Axes::default());
    let word = |experiment: &fullbore_lab::experiment::Experiment| {
        Word::new(experiment.name, Some(experiment.shows))
    };
    catalogue.iter().map(word).collect()
}

pub fn groups_and_experiments() -> Vec<Word> {
    let catalogue = Catalogue::new(&Axes::default());
    let groups = catalogue.groups().iter();
    let groups = groups.map(|group| Word::new(group.name, Some(group.shows)));
    let all = Word::new(names::ALL, Some("all groups"));
    groups.chain([all]).chain(experiments()).collect()
}
