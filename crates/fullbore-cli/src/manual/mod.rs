//! The manual pages: what clap knows of a verb, and the sections that it cannot know.
//!
//! Nothing is written twice: options and description are those of the parser, and the examples and exit
//! codes are those at the end of the verb's help.

mod help;
mod page;
mod tables;

use clap::Command;

use crate::exit;
use help::{ExitStatus, Help};
use page::Text;
use tables::{environment, related};

/// A manual page.
pub struct Page {
    /// The name of its file, such as `fullbore-copy.1`.
    pub file: String,
    /// It, in the language of roff.
    pub text: String,
}

/// Returns the pages of the command and of all verbs that its help lists.
pub fn pages(parser: Command) -> Vec<Page> {
    let mut parser = parser.disable_help_subcommand(true);
    parser.build();
    let mut pages = vec![page(&parser, overview(&parser))];
    pages.extend(verbs(&parser).map(|verb| page(verb, of_verb(verb))));
    pages
}

fn verbs(parser: &Command) -> impl Iterator<Item = &Command> {
    parser.get_subcommands().filter(|verb| !verb.is_hide_set())
}

/// Returns the name of the page about a command: `fullbore-copy`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

fn page(command: &Command, text: Text) -> Page {
    Page {
        file: format!("{}.1", name(command)),
        text: text.finish(),
    }
}

/// The page about the command: what it is for, and which verbs there are.
fn overview(parser: &Command) -> Text {
    let mut text = Text::new(parser, name(parser));
    text.section("DESCRIPTION");
    let about = parser.get_about().expect("main gives it").to_string();
    text.paragraph(&format!(
        "{about}. Each verb has a manual page of its own; 'fullbore VERB --help' prints its options."
    ));
    text.section("VERBS");
    for verb in verbs(parser) {
        let about = verb.get_about().expect("each verb has one").to_string();
        text.item(&format!("{}(1)", name(verb)), &format!("{about}."));
    }
    text.options(parser);
    exit_status(&mut text, &ExitStatus::general(exit::CODES));
    text.paragraph("fullbore-run(1) ends with the exit code of the pipeline instead.");
    text.section("ENVIRONMENT");
    for variable in tables::ENVIRONMENT {
        let verbs = variable.verbs.join(", ");
        text.item(variable.name, &format!("({verbs}) {}", variable.meaning));
    }
    text.section("SEE ALSO");
    text.references(["pipe(7)", "splice(2)", "tee(2)", "vmsplice(2)"]);
    text
}

fn of_verb(verb: &Command) -> Text {
    let help = Help::of(verb);
    let mut text = Text::new(verb, name(verb));
    text.description(verb);
    text.options(verb);
    exit_status(&mut text, &help.exit_status);
    let mut variables = environment(verb.get_name()).peekable();
    if variables.peek().is_some() {
        text.section("ENVIRONMENT");
        for variable in variables {
            text.item(variable.name, variable.meaning);
        }
    }
    if !help.notes.is_empty() {
        text.section("NOTES");
        for note in &help.notes {
            text.paragraph(note);
        }
    }
    text.section("EXAMPLES");
    for example in &help.examples {
        text.example(example);
    }
    text.section("SEE ALSO");
    text.references(["fullbore(1)"].into_iter().chain(related(verb.get_name())));
    text
}

fn exit_status(text: &mut Text, status: &ExitStatus) {
    text.section("EXIT STATUS");
    if !status.prose.is_empty() {
        text.paragraph(&status.prose);
    }
    for (code, meaning) in &status.codes {
        text.item(&code.to_string(), meaning);
    }
}
