//! `fullbore bench -- LINE`: the user's own pipeline, run by the shell and by `fullbore run` in interleaved rounds.
//!
//! Each run is a process of its own, so that its CPU time and its memory are those of the line alone. This process reads
//! the output and keeps its digest. Before the rounds, each way runs once while it is observed: that round says which
//! stage is slow, and is not measured.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use fullbore::Pipe;
use fullbore_host::number::within;
use fullbore_host::proc::{self, Need};
use fullbore_host::refusal::Usage;
use fullbore_host::size::amount;
use fullbore_host::text::{counted, table_lines};
use fullbore_lab::catalogue::pipelines::once::{self, Process, Ran};
use fullbore_lab::catalogue::pipelines::table::Way;

use fullbore_observe::Monitor;
use fullbore_observe::census::scope::{Scope, Whose};
use fullbore_observe::overview::StageState;
use fullbore_observe::verdict::Verdict;
use fullbore_results::compare::{Change, P_BELOW, Pair, ROUNDS_AT_LEAST, TIMES_ABOVE, seconds};
use fullbore_results::statistics::Spread;
use serde::Serialize;

use crate::command::{json, output, program};
use crate::copying::hash::{Algorithm, Digest};
use crate::terminal::lines::say_line;
use crate::terminal::stderr;

/// The ways; the last one only with `--all`.
#[rustfmt::skip]
const WAYS: &[Way] = &[
    Way { name: "sh", title: "sh -c", program: Some("/bin/sh"), options: &["-c"] },
    Way { name: "run", title: "fullbore run", program: None, options: &["run", "--quiet"] },
    Way { name: "together", title: "fullbore run --place together", program: None, options: &["run", "--quiet", "--place", "together"] },
];

/// The longest that one run of a line may take.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// How often the observed run is scanned.
const INTERVAL: Duration = Duration::from_millis(30);

/// The options of a measurement of the user's own pipeline.
#[derive(Args)]
#[command(next_help_heading = "Your own pipeline")]
pub struct Options {
    /// Run the pipeline LINE, in quotes, by 'sh -c' and by 'fullbore run', and compare the time, the CPU time, the memory
    /// and the output, of which neither may fail. Its stdin is empty
    #[arg(last = true, value_name = "LINE")]
    #[arg(conflicts_with_all = "names list seconds quick cpus pipe_size peers cost limit svg html CopyOptions".split(' '))]
    pub line: Vec<String>,

    /// Run LINE N times in each way before the first round
    #[arg(long, value_name = "N", default_value = "0", value_parser = within::<u32>(0..=10_000))]
    warmup: u32,

    /// Let the shell run COMMAND before each run of LINE: to remove an output file, for example
    #[arg(long, value_name = "COMMAND")]
    prepare: Option<String>,

    /// Also run LINE by 'fullbore run --place together'
    #[arg(long)]
    all: bool,
}

/// What the rounds showed; docs/bench.md describes the fields.
#[derive(Serialize)]
struct Report {
    line: String,
    rounds: u32,
    outputs_are_the_same: bool,
    ways: Vec<Measured>,
}

/// What the rounds of one way showed.
#[derive(Serialize)]
struct Measured {
    way: &'static str,
    seconds: Spread,
    cpu_seconds: Spread,
    largest_process_bytes: u64,
    /// Each output that came: one, if the line repeats its output.
    outputs: BTreeSet<Seen>,
    slow: Option<Verdict>,
    /// Compared with the first way.
    to_first: Option<Pair>,
}

/// An output.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Seen {
    bytes: u64,
    blake3: String,
}

impl Options {
    /// Whether a pipeline was given, not experiments.
    pub fn is_given(&self) -> bool {
        !self.line.is_empty() || self.all || self.warmup > 0 || self.prepare.is_some()
    }

    /// Measures the line, and reports.
    ///
    /// # Errors
    /// If the line or `--prepare` fails, or a report cannot be written.
    pub fn run(
        &self,
        rounds: Option<u32>,
        seed: Option<u64>,
        json: &Option<Option<PathBuf>>,
    ) -> Result<ExitCode> {
        let [line] = self.line.as_slice() else {
            let text =
                "give the pipeline as one argument in quotes after '--', such as -- 'a x | b y'";
            bail!(Usage(text.into()));
        };
        proc::check(Need::Program, "the pipeline is started through it")?;
        let report = self.measure(line, rounds.unwrap_or(10), seed)?;
        json::write(json, &report)?;
        let text = report.lines().join("\n") + "\n";
        let print = |out: &mut dyn Write| Ok(out.write_all(text.as_bytes())?);
        match json::is_on_stdout(json) {
            true => output::write_to(&print, &mut stderr())?,
            false => output::print(&print)?,
        }
        Ok(ExitCode::from(u8::from(report.is_wrong())))
    }

    fn measure(&self, line: &str, rounds: u32, seed: Option<u64>) -> Result<Report> {
        let ways = &WAYS[..if self.all { 3 } else { 2 }];
        let mut order = fastrand::Rng::with_seed(seed.unwrap_or_else(|| fastrand::u64(..)));
        let mut all: Vec<(Vec<Ran>, BTreeSet<Seen>, Option<Verdict>)> = Vec::new();
        let began = Instant::now();
        for way in ways {
            let (_, seen, verdict) = self.once(way, line, true)?;
            all.push((Vec::new(), [seen].into(), verdict));
        }
        let left = began.elapsed() * (rounds + self.warmup);
        if left > Duration::from_secs(10) {
            let rounds = counted(rounds as usize, "round", "rounds");
            let (ways, time) = (
                ways.len(),
                counted(left.as_secs() as usize, "second", "seconds"),
            );
            say_line(format_args!(
                "{rounds} of {ways} ways: this takes about {time}"
            ));
        }
        for round in 0..self.warmup + rounds {
            let mut places: Vec<usize> = (0..ways.len()).collect();
            order.shuffle(&mut places);
            for at in places {
                let (ran, seen, _) = self.once(&ways[at], line, false)?;
                all[at].1.insert(seen);
                if round >= self.warmup {
                    all[at].0.push(ran);
                }
            }
        }
        let mut measured: Vec<Measured> = Vec::new();
        for (way, (runs, outputs, slow)) in ways.iter().zip(all) {
            let spread = |of: fn(&Ran) -> f64| {
                let rounds: Vec<f64> = runs.iter().map(of).collect();
                Spread::of(&rounds).context("no round was measured")
            };
            let time = spread(|ran| ran.seconds)?;
            let first = measured.first();
            measured.push(Measured {
                way: way.title,
                to_first: first.map(|first| seconds(way.title, &first.seconds, &time)),
                seconds: time,
                cpu_seconds: spread(|ran| ran.spent.total())?,
                largest_process_bytes: runs.iter().map(|ran| ran.largest).max().unwrap_or(0),
                outputs,
                slow,
            });
        }
        let outputs: BTreeSet<&Seen> = measured.iter().flat_map(|one| &one.outputs).collect();
        Ok(Report {
            line: line.to_owned(),
            rounds,
            outputs_are_the_same: outputs.len() == 1,
            ways: measured,
        })
    }

    /// Runs the line once in this way, observed or not.
    fn once(
        &self,
        way: &'static Way,
        line: &str,
        observed: bool,
    ) -> Result<(Ran, Seen, Option<Verdict>)> {
        if let Some(command) = &self.prepare {
            let status = Command::new("/bin/sh").arg("-c").arg(command).status();
            let status = status.context("start /bin/sh")?;
            if !status.success() {
                bail!("--prepare failed ({status}): {command}");
            }
        }
        // Behind a blank, the line is not taken for an option.
        let Pipe { reader, writer, .. } = Pipe::new()?;
        let mut process = once::start(&program(), format!(" {line}"), way, None, writer)?;
        let reading = thread::spawn(move || seen(reader.into()));
        let verdict = match observed {
            true => observe(&mut process),
            false => None,
        };
        let ran = once::end(process, &format!("'{}'", way.title), PATIENCE)?;
        let seen = reading.join().map_err(|_| anyhow!("the reader ended"))?;
        Ok((ran, seen.context("read the output")?, verdict))
    }
}

/// Reads an output to its end.
fn seen(output: std::fs::File) -> std::io::Result<Seen> {
    let (mut digest, mut bytes) = (Digest::new(Algorithm::Blake3), 0);
    let mut output = BufReader::with_capacity(1 << 20, output);
    while let count @ 1.. = output.fill_buf()?.len() {
        digest.add(output.buffer());
        output.consume(count);
        bytes += count as u64;
    }
    let blake3 = digest.text();
    Ok(Seen { bytes, blake3 })
}

/// Returns what the last scan of a running line that saw its longest pipeline said about it.
fn observe(process: &mut Process) -> Option<Verdict> {
    let whose = Whose::Tree(process.id());
    let mut monitor = Monitor::new(Scope { whose, all: false }).ok()?;
    // The pipe to this process, which the shell has open too, is none of the line.
    let is_own = |stage: &StageState| {
        let mut processes = stage.processes.iter();
        processes.any(|process| process.id.pid == std::process::id())
    };
    let mut best: Option<(usize, Verdict)> = None;
    while !process.ends_within(Duration::ZERO).ok()? {
        monitor.sample_until(Instant::now() + INTERVAL);
        let Ok(overview) = monitor.scan() else {
            break;
        };
        for chain in overview.chains {
            let stages = chain.stages.len();
            let is_best = best.as_ref().is_none_or(|(most, _)| stages >= *most);
            if is_best && !chain.stages.iter().any(is_own) {
                best = chain.verdict.map(|verdict| (stages, verdict)).or(best);
            }
        }
    }
    best.map(|(_, verdict)| verdict)
}

impl Report {
    /// Whether the ways gave different outputs, each of which repeats itself.
    fn is_wrong(&self) -> bool {
        !self.outputs_are_the_same && self.ways.iter().all(|way| way.outputs.len() == 1)
    }

    /// Returns the report for people.
    fn lines(&self) -> Vec<String> {
        let header = "|seconds|least|most|CPU seconds|largest process".split('|');
        let mut rows = vec![header.map(str::to_owned).collect()];
        for way in &self.ways {
            let seconds = |time: f64| format!("{time:.3}");
            rows.push(vec![
                way.way.to_owned(),
                seconds(way.seconds.median),
                seconds(way.seconds.min),
                seconds(way.seconds.max),
                seconds(way.cpu_seconds.median),
                amount(way.largest_process_bytes as f64),
            ]);
        }
        let mut lines = table_lines(&rows, |at| at > 0);
        let first = self.ways[0].way;
        let pairs = self.ways.iter().filter_map(|way| way.to_first.as_ref());
        lines.extend(pairs.map(|pair| in_words(first, pair)));
        lines.push(match self.ways[0].outputs.first() {
            Some(one) if self.outputs_are_the_same => {
                let bytes = counted(one.bytes as usize, "byte", "bytes");
                format!("the outputs are the same: {bytes}")
            }
            _ if self.is_wrong() => "THE OUTPUTS DIFFER between the ways".to_owned(),
            _ => "the output differs from run to run, so the outputs cannot be compared".to_owned(),
        });
        for way in &self.ways {
            let unknown = "unknown, because it ended too soon to be observed";
            let slow = way.slow.as_ref();
            let words = slow.map_or_else(|| unknown.to_owned(), Verdict::to_string);
            lines.push(format!("slow stage with '{}': {words}", way.way));
            let next = slow.and_then(|slow| slow.next.as_ref());
            lines.extend(next.map(|next| format!("next: {next}")));
        }
        lines
    }
}

/// Returns which of two ways is faster, and by what rule there is no difference.
fn in_words(first: &str, pair: &Pair) -> String {
    let (run, ratio) = (&pair.run, pair.ratio.unwrap_or(1.0));
    let p = pair.p.unwrap_or(1.0);
    match pair.verdict {
        Change::Faster => format!("'{run}' is {ratio:.2} times as fast as '{first}' (p = {p:.4})"),
        Change::Slower => {
            let ratio = 1.0 / ratio;
            format!("'{run}' takes {ratio:.2} times as long as '{first}' (p = {p:.4})")
        }
        Change::TooFewRounds => format!(
            "'{run}' and '{first}': too few rounds for a verdict, which needs {ROUNDS_AT_LEAST}"
        ),
        Change::WithinNoise | Change::NotComparable => format!(
            "'{run}' and '{first}': no difference (p = {p:.2}; a difference has p < {P_BELOW}, by the rank-sum test of \
             the rounds, and medians that are {:.0}% apart)",
            (TIMES_ABOVE - 1.0) * 100.0
        ),
    }
}
