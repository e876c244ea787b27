//! The fullbore command: one verb, one file in `command/`; the laboratory in `lab/`.

#![deny(unsafe_code)]

mod command;
mod doctor;
mod ending;
mod exit;
mod explain;
mod inherited;
mod interrupt;
mod meter;
mod moving;
mod run;
mod terminal;
mod top;
mod tune;

use std::io::{Write, stderr};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command, CommandFactory, Parser, Subcommand};
use fullbore_host::text::clean;

/// Move bytes through Linux pipes as fast as memory allows, and measure it
///
/// Exit codes: 0 done; 1 something failed; 2 the command line is invalid; 3 this machine does not
/// allow it, or this user lacks permission.
#[derive(Parser)]
#[command(
    name = "fullbore",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Copy(command::copy::Copy),
    Tee(command::tee::Tee),
    Meter(command::meter::Meter),
    Run(command::run::Run),
    Bench(command::bench::Bench),
    Doctor(command::doctor::Doctor),
    Explain(command::explain::Explain),
    Top(command::top::Options),
    Tune(command::tune::Tune),
    Write(command::write::Write),
    Read(command::read::Read),
    #[command(hide = true)]
    Middleman(command::middleman::Middleman),
    #[command(hide = true)]
    Part(command::part::Part),
}

fn main() -> ExitCode {
    let verb = match parse() {
        Ok(verb) => verb,
        Err(error) => return bad_command_line(&error),
    };
    let (name, outcome) = match verb {
        Verb::Copy(verb) => ("copy", verb.run()),
        Verb::Tee(verb) => ("tee", verb.run()),
        Verb::Meter(verb) => ("meter", verb.run()),
        Verb::Run(verb) => ("run", verb.run()),
        Verb::Bench(verb) => ("bench", verb.run()),
        Verb::Doctor(verb) => ("doctor", verb.run()),
        Verb::Explain(verb) => ("explain", verb.run()),
        Verb::Top(verb) => ("top", verb.run()),
        Verb::Tune(verb) => ("tune", verb.run()),
        Verb::Write(verb) => ("write", verb.run()),
        Verb::Read(verb) => ("read", verb.run()),
        Verb::Middleman(verb) => ("middleman", verb.run()),
        Verb::Part(verb) => ("part", verb.run()),
    };
    ended(
        &format!("fullbore {name}"),
        outcome.and_then(|code| exit::close_stdout().map(|()| code)),
    )
}

/// The exit code of what was done, after a line on stderr where it failed.
fn ended(who: &str, outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => match exit::code(&error) {
            Some(code) => {
                // It may name what others have named: files, arguments, programs.
                let words = clean(&format!("{error:#}"));
                let _ = writeln!(stderr(), "{who}: {words}");
                code
            }
            None => ExitCode::SUCCESS,
        },
    }
}

/// Reads the command line. For the verbs that often have only a moment's work to do, no other verb's
/// options are built.
fn parse() -> Result<Verb, clap::Error> {
    match std::env::args_os()
        .nth(1)
        .as_ref()
        .and_then(|verb| verb.to_str())
    {
        Some("copy") => only("copy").map(Verb::Copy),
        Some("tee") => only("tee").map(Verb::Tee),
        Some("meter") => only("meter").map(Verb::Meter),
        Some("run") => only("run").map(Verb::Run),
        _ => Cli::try_parse().map(|cli| cli.verb),
    }
}

fn only<Options: Args>(verb: &'static str) -> Result<Options, clap::Error> {
    let mut command = Command::new("fullbore")
        .max_term_width(100)
        .subcommand(Options::augment_args(Command::new(verb)));
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let (_, mut options) = matches.remove_subcommand().expect("it was named");
    Options::from_arg_matches_mut(&mut options).map_err(|error| error.format(&mut command))
}

/// Help and version go to stdout; everything else is one line on stderr and code 2.
fn bad_command_line(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return ended(&asked_for(), print(error));
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(2);
    }
    let text = error.render().to_string();
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let line = first.join(" ");
    let line = clean(line.strip_prefix("error: ").unwrap_or(&line));
    let _ = writeln!(stderr(), "fullbore: {line} (see '{} --help')", asked_for());
    ExitCode::from(2)
}

/// Prints help or the version on stdout.
fn print(text: &clap::Error) -> anyhow::Result<ExitCode> {
    inherited::stdout()?;
    text.print().context("write to stdout")?;
    exit::close_stdout()?;
    Ok(ExitCode::SUCCESS)
}

/// The command with the verb that was given, if there is such a one: that whose help helps.
fn asked_for() -> String {
    let verb = std::env::args_os().nth(1);
    let known = Cli::command();
    match verb.and_then(|verb| Some(known.find_subcommand(verb)?.get_name())) {
        Some(verb) => format!("fullbore {verb}"),
        None => "fullbore".to_owned(),
    }
}
