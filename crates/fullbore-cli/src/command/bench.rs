//! `fullbore bench`: measures experiments, compares runs, and writes reports.

mod line;
mod progress;

use std::io::{self, IsTerminal, Write, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::completion::groups_and_experiments;
use clap::Args;
use clap_complete::ArgValueCandidates;
use fullbore_host::number::within;

use super::json;
use super::{output, reports};
use crate::terminal::stderr;
use fullbore_host::machine::{CpuPair, Topology};
use fullbore_host::proc::{self, Need};
use fullbore_host::refusal::Usage;
use fullbore_host::seconds;
use fullbore_lab::catalogue::Catalogue;
use fullbore_lab::catalogue::unix_copy;
use fullbore_lab::endpoint;
use fullbore_lab::experiment::Experiment;
use fullbore_lab::peers::Peers;
use fullbore_lab::runner;
use fullbore_results::compare;
use fullbore_results::names;
use fullbore_results::report::{Report, html::Html, json::Json, svg::Svg, table::Table};
use fullbore_results::run::Settings;
use progress::BenchProgress;
use serde::Serialize;

/// Measure how fast pipes are on this machine, and how much each technique gains
///
/// Without a NAME, it runs the group 'ladder': the techniques of the article 'How fast are Linux
/// pipes anyway?', and some that are faster. This takes about 50 seconds. Each experiment runs two
/// processes on two CPUs; all experiments are repeated in several rounds, each in a random order.
/// The table on stdout shows medians. During the run, stderr shows the last measurement: in the
/// progress bar or, if stderr is not a terminal and the run takes more than 10 seconds, as one line
/// per experiment of the first round.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore bench
  fullbore bench --quick 'vmsplice_*'
  fullbore bench --cost --limit           CPU time, and what the CPUs could do at most
  fullbore bench move                     copy and tee compared with cat, tee, pv
  fullbore bench 'pipe_pipe_*'            one job of the group 'move'
  fullbore bench between --cost           the same between ordinary programs
  fullbore bench pipelines --seconds 1    fullbore run compared with bash
  fullbore bench sweep --svg sweep.svg    a heat map of call and pipe sizes
  fullbore bench unix_copy --object 256K --sndbuf 1M
  fullbore bench write_read deep_ring --rounds 20 --seconds 1 --cpus 0,1
  fullbore bench all --peers peers/bin    also measure equivalent C programs
  fullbore bench --json --svg ladder.svg > ladder.json
  fullbore bench ladder latency sweep --html report.html
  fullbore bench --compare old.json new.json
  fullbore bench 'vmsplice_*' --compare old.json new.json third.json
  fullbore bench --html new.html --compare old.json new.json
  fullbore bench -- 'zcat access.log.gz | sort | uniq -c'

Exit codes: 0 done, even if an experiment was skipped because this machine does not allow it, \
and for --compare whatever the verdicts are; 1 an experiment or LINE failed, or the shell and run \
gave different outputs of LINE; 2 the command line is \
invalid, a report cannot be written to its file, or a file of --compare does not hold a run; \
3 /proc is not mounted.")]
pub struct Bench {
    /// Experiments to measure, by name, group or glob pattern [default: ladder; with --compare,
    /// all]
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(groups_and_experiments))]
    names: Vec<String>,

    /// List the experiments, and exit
    #[arg(long, conflicts_with_all = MEASURING.split(' '), conflicts_with_all = ["json", "html"])]
    list: bool,

    /// Compare runs instead of measuring. Each FILE holds the output of --json; '-' is stdin.
    ///
    /// Ratios are relative to the first file. Give names of experiments before this option, or
    /// after '--'.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    #[arg(conflicts_with_all = MEASURING.split(' '), conflicts_with = "list")]
    compare: Vec<PathBuf>,

    /// How many times to measure each experiment [default: 7; with --count, 1]
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=10_000))]
    rounds: Option<u32>,

    /// How long one measurement takes, in seconds [default: 0.25]
    #[arg(long, value_name = "SECONDS", value_parser = seconds::within(0.01..=3600.0))]
    seconds: Option<Duration>,

    /// Measure briefly: 10 seconds for the ladder, about 7 minutes for all groups. The figures are
    /// less reliable
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,

    /// CPUs for the writer and the reader [default: chosen from the topology]
    #[arg(long, value_name = "A,B", value_parser = cpu_pair)]
    cpus: Option<(usize, usize)>,

    /// Capacity of the pipe, for experiments that do not set their own
    #[arg(long, value_name = "SIZE", value_parser = endpoint::pipe_size)]
    pipe_size: Option<usize>,

    /// Also measure the equivalent C programs in DIR; 'make -C peers' builds them in peers/bin
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,

    /// Print one JSON object, and the table on stderr; or write the object to FILE
    #[arg(long, value_name = "FILE", require_equals = true)]
    #[arg(help_heading = "Reports")]
    json: Option<Option<PathBuf>>,

    /// Add a column: CPU seconds per GiB, of all processes
    #[arg(long, help_heading = "Reports")]
    cost: bool,

    /// Add a column: each figure in percent of the measured core-to-core bandwidth
    #[arg(long, help_heading = "Reports")]
    limit: bool,

    /// Write the chart as SVG; '-' for stdout, with the table on stderr
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    svg: Option<PathBuf>,

    /// Write a self-contained HTML page with charts, sortable tables and the method; '-' for stdout
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    html: Option<PathBuf>,

    /// Seed for the order within rounds [default: random]
    #[arg(long, value_name = "N", value_parser = within::<u64>(0..=u64::MAX))]
    seed: Option<u64>,

    #[command(flatten)]
    unix_copy: unix_copy::CopyOptions,

    #[command(flatten)]
    own: line::Options,
}

/// The options of measurements.
const MEASURING: &str = "rounds seconds quick cpus pipe_size peers seed cost limit svg CopyOptions";

impl Bench {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.compare.is_empty() {
            self.compare()?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.own.is_given() {
            return self.own.run(self.rounds, self.seed, &self.json);
        }
        let catalogue = Catalogue::default();
        let experiments = match self.list && self.names.is_empty() {
            true => catalogue.select(&[names::ALL.into()])?,
            false => catalogue.select(&self.names)?,
        };
        self.check_options_of_groups(&experiments)?;
        if self.list {
            output::print(&|out| Ok(list(&catalogue, &experiments, out)?))?;
            return Ok(ExitCode::SUCCESS);
        }
        let settings = self.settings(&experiments)?;
        self.check_options_of_experiments(&experiments, &settings)?;
        self.report_on_stdout()?;
        let why = "the processes of an experiment are started through it";
        proc::check(Need::Program, why)?;
        let files = self.files().map(|(_, path)| path);
        for path in files.chain(self.json.iter().flatten().map(PathBuf::as_path)) {
            reports::check_path(path)?;
        }
        let topology = Topology::read();
        let cpus = CpuPair::wanted(self.cpus, &topology)?;
        let peers = self.peers.as_deref().map(Peers::of).transpose()?;
        let mut progress = BenchProgress::new(experiments.len(), &settings);
        let (program, peers) = (super::program(), peers.as_ref());
        let run = runner::run(&experiments, settings, cpus, &program, peers, &mut progress)?;
        // This removes the progress bar before the table is printed.
        drop(progress);
        self.show(&run, &[(&self.svg, &Svg), (&self.html, &Html)])?;
        let has_failed = run.experiments.iter().any(|e| e.failed.is_some());
        Ok(ExitCode::from(u8::from(has_failed)))
    }

    /// Refuses options that would have no effect.
    fn check_options_of_groups(&self, experiments: &[Experiment]) -> Result<(), Usage> {
        let group = unix_copy::GROUP;
        if !self.unix_copy.is_given() || experiments.iter().any(|e| e.group == group) {
            return Ok(());
        }
        Err(Usage(format!(
            "--object, --count, --sndbuf, --hot and --check-every-object apply only to the group '{group}', which \
             was not selected: add '{group}' to the names"
        )))
    }

    /// Refuses options that would have an effect only on experiments which were not selected.
    fn check_options_of_experiments(
        &self,
        experiments: &[Experiment],
        settings: &Settings,
    ) -> Result<(), Usage> {
        let counted = |e: &Experiment| e.group == unix_copy::GROUP && self.unix_copy.is_counted();
        let has_pipe = |e: &Experiment| e.takes_pipe_size;
        let has_peer = |e: &Experiment| e.work.peer(settings).is_some();
        let useless = if self.pipe_size.is_some() && !experiments.iter().any(has_pipe) {
            "--pipe-size has no effect: each selected experiment sets its own, or has no pipe"
        } else if self.cpus.is_some() && experiments.iter().all(|e| e.runs_anywhere) {
            "--cpus has no effect: the selected experiments run on all CPUs"
        } else if self.peers.is_some() && !experiments.iter().any(has_peer) {
            "--peers has no effect: no selected experiment has a C program"
        } else if self.seconds.is_some() && experiments.iter().all(counted) {
            "--seconds has no effect: --count ends the measurements"
        } else {
            return Ok(());
        };
        Err(Usage(useless.into()))
    }

    /// Returns the forms of which a file was named, and the files.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [("svg", &self.svg), ("html", &self.html)].into_iter();
        files.filter_map(|(form, path)| Some((form, path.as_deref()?)))
    }

    /// Returns the option whose report goes to stdout in place of the table, if there is one.
    ///
    /// # Errors
    /// Fails if there are two.
    fn report_on_stdout(&self) -> Result<Option<String>, Usage> {
        let files = self.files().filter(|(_, path)| output::is_stdout(path));
        let json = json::is_on_stdout(&self.json).then(|| "--json".to_owned());
        let files = files.map(|(form, _)| format!("--{form} -"));
        let mut given = json.into_iter().chain(files);
        match (given.next(), given.next()) {
            (Some(one), Some(other)) => Err(Usage(format!(
                "{one} and {other} would both write to stdout: give a file for one of them"
            ))),
            (first, _) => Ok(first),
        }
    }

    fn settings(&self, experiments: &[Experiment]) -> Result<Settings, Usage> {
        let (rounds, seconds, warm_up_seconds) = if self.quick {
            (3, 0.15, 0.03)
        } else {
            // Transferring a given number of objects takes long, so one round is the default.
            let otherwise = if self.unix_copy.is_counted() { 1 } else { 7 };
            let seconds = self.seconds.map_or(0.25, |time| time.as_secs_f64());
            (self.rounds.unwrap_or(otherwise), seconds, 0.1)
        };
        Ok(Settings {
            rounds,
            seconds,
            warm_up_seconds,
            // 0 leaves pipes as they are.
            pipe_size: self.pipe_size.filter(|&size| size > 0),
            unix_copy: self.unix_copy.settle(experiments, self.pipe_size)?,
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
        })
    }

    /// Compares runs, and writes the comparison.
    fn compare(&self) -> anyhow::Result<()> {
        self.report_on_stdout()?;
        let runs = compare::read(&self.compare)?;
        let names = [self.names.as_slice(), &self.own.line].concat();
        let compared = compare::compare(&runs, &names)?;
        self.show(&compared, &[(&self.html, &Html)])
    }

    /// Writes the files that were asked for, and prints the table on stdout, or on stderr if another report goes to
    /// stdout. With --json, that report is the JSON object.
    fn show<Of: Serialize>(
        &self,
        result: &Of,
        reports: &[(&Option<PathBuf>, &dyn Report<Of>)],
    ) -> anyhow::Result<()>
    where
        Table: Report<Of>,
    {
        // The files are written first, so that they are written even if the reader of the table goes away.
        let json = self.json.clone().flatten();
        let json: [(&Option<PathBuf>, &dyn Report<Of>); 1] = [(&json, &Json)];
        let mut written = Ok(());
        // All files are written, even if the first one fails.
        for (path, report) in reports.iter().chain(&json) {
            if let Some(path) = path {
                let write = |out: &mut dyn Write| Ok(report.write(result, out)?);
                written = written.and(output::write_to_file(&write, path));
            }
        }
        let print = || {
            if self.report_on_stdout()?.is_none() {
                let table = self.table_on(&stdout());
                return output::print(&|out| Ok(table.write(result, out)?));
            }
            if json::is_on_stdout(&self.json) {
                output::print(&|out| Ok(Json.write(result, out)?))?;
            }
            let table = self.table_on(&io::stderr());
            output::write_to(&|out| Ok(table.write(result, out)?), &mut stderr())
        };
        // If a file cannot be written, the table is printed nevertheless.
        written.and(print())
    }

    fn table_on(&self, out: &(impl AsFd + IsTerminal)) -> Table {
        Table {
            cost: self.cost,
            limit: self.limit,
            ..reports::table_on(out)
        }
    }
}

/// Prints one line for each group and for each experiment: the name, and what it shows.
fn list(catalogue: &Catalogue, experiments: &[Experiment], out: &mut dyn Write) -> io::Result<()> {
    let width = experiments.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for group in &catalogue.groups {
        let within = experiments.iter().filter(|e| e.group == group.name);
        let mut within = within.peekable();
        if within.peek().is_some() {
            writeln!(out, "{:<1$}  {2}", group.name, width + 2, group.shows)?;
        }
        for experiment in within {
            writeln!(out, "  {:width$}  {}", experiment.name, experiment.shows)?;
        }
    }
    Ok(())
}

pub fn cpu_pair(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once(',');
    let numbers = numbers.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    numbers.ok_or_else(|| format!("invalid CPUs '{text}': expected two CPU numbers such as 0,1"))
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    /// Returns the options that `words` are parsed into.
    fn parsed(words: &[&str]) -> Bench {
        let command = Bench::augment_args(Command::new("bench"));
        let words = ["bench"].iter().chain(words);
        Bench::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn a_run_without_options_is_planned_for_less_than_a_minute_and_its_first_round_for_10_seconds()
    {
        /// The seconds that a measurement takes in addition, to start two processes and to measure the
        /// distance of the CPUs twice.
        const AROUND: f64 = 0.06;
        let bench = parsed(&[]);
        let experiments = Catalogue::default().select(&bench.names).unwrap();
        let settings = bench.settings(&experiments).unwrap();
        let round =
            experiments.len() as f64 * (settings.warm_up_seconds + settings.seconds + AROUND);
        assert!(round < 10.0, "{round} s");
        // This includes as many repeated measurements as are allowed, because the CPUs were far apart.
        let all = round * f64::from(settings.rounds) * 1.3;
        assert!(all < 60.0, "{all} s");
        // Fewer rounds could not show a difference between two runs.
        assert!(settings.rounds >= 5);
    }

    #[test]
    fn a_capacity_that_no_pipe_can_have_is_refused() {
        let command = Bench::augment_args(Command::new("bench"));
        let given = |size| {
            command
                .clone()
                .try_get_matches_from(["bench", "--pipe-size", size])
        };
        assert!(given("2G").is_ok());
        for size in ["3G", "1000T"] {
            let error = given(size).unwrap_err().to_string();
            assert!(
                error.contains(size) && error.contains("at most 2G"),
                "{error}"
            );
        }
    }

    #[test]
    fn one_report_at_most_goes_to_stdout() {
        for (words, expected) in [
            (&["--svg", "a.svg"] as &[&str], Some(None)),
            (&["--json", "--svg", "a.svg"], Some(Some("--json"))),
            (&["--svg", "-"], Some(Some("--svg -"))),
            (&["--json", "--html", "-"], None),
            (&["--svg", "-", "--html", "-"], None),
        ] {
            let expected = expected.map(|one| one.map(str::to_owned));
            assert_eq!(parsed(words).report_on_stdout().ok(), expected, "{words:?}");
        }
    }
}
