//! Defines the group `services`: a proxy between clients and a server, by several ways.
//!
//! There is a table for each load, over TCP and over Unix sockets, with a row for each way. The proxy is a process of
//! its own: haproxy, or one of the examples `ways` and `proxy` of `fullbore-tokio`, which stand beside the executable
//! of the command in `examples/`, so that the command does not contain tokio. The column `proxy` has the CPU time of
//! the proxy alone, and the cost that of all processes.

mod load;
mod table;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use fullbore::Pipe;
use rustix::net::listen;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cpu_time::CpuTime;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::process::{self, Process};
use crate::task::{Part, Timing};
use crate::work::{Bench, Work};
use fullbore_results::run::Unit;
use load::{BACKLOG, Carried, LoadTask};
use table::{JOBS, Job, Program, WAYS, Way};

/// Descriptors of a proxy or of the process at its ends, for each connection and besides.
const DESCRIPTORS: (u64, u64) = (4, 200);

/// Returns the group.
pub fn group() -> Group {
    let shows =
        "a proxy between sockets: fullbore-tokio compared with tokio, tokio-splice2 and haproxy";
    Group::new("services", shows, PARTS, rows())
}

/// The tasks of this group's processes.
const PARTS: &[Part] = &[Part::of::<LoadTask>()];

fn rows() -> Vec<Experiment> {
    let mut rows = Vec::new();
    for (is_tcp, transport) in [(true, "tcp"), (false, "unix")] {
        for job in &JOBS {
            let over = if is_tcp { "TCP" } else { "Unix sockets" };
            let title: &'static str = format!("{over}: {}", job.title).leak();
            let goes_over = |way: &&Way| is_tcp || way.program != Program::Proxy;
            for way in WAYS.iter().filter(goes_over) {
                let name = format!("{transport}_{}_{}", job.name, way.name);
                let shows = format!("{title}, by {}", way.shows);
                let work = Proxying { way, job, is_tcp };
                let unit = match job.messages.0 {
                    0 => Unit::GibPerS,
                    _ => Unit::Microseconds,
                };
                rows.push(Experiment {
                    unit,
                    table: Some(title),
                    compared_as: Some(way.name),
                    runs_anywhere: true,
                    ..Experiment::new(name, shows, work)
                });
            }
        }
    }
    rows
}

/// The work of a proxy.
#[derive(Debug)]
struct Proxying {
    way: &'static Way,
    job: &'static Job,
    is_tcp: bool,
}

impl Work for Proxying {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let timing = Timing::of(bench.settings);
        allow_descriptors((self.job.streams + self.job.messages.0) as u64)?;
        let directory = tempfile::tempdir().context("a directory for sockets")?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        let task = LoadTask {
            path: (!self.is_tcp).then(|| path("server")),
            streams: self.job.streams,
            messages: self.job.messages,
            timing,
        };
        let printed = Pipe::new()?;
        let mut load = (bench.program).start(&task, None, Stdio::piped(), printed.writer)?;
        let server = line(&mut File::from(printed.reader), "load")?;
        let mut command = Command::new(match self.way.program {
            Program::Ways(_) => example("ways")?,
            Program::Proxy => example("proxy")?,
            Program::Haproxy { .. } => haproxy()?,
        });
        let printed = Pipe::new()?;
        let mut of_proxy = File::from(printed.reader);
        command.stdin(Stdio::null()).stdout(printed.writer);
        let mut address = match self.is_tcp {
            true => "127.0.0.1:0".to_owned(),
            false => path("proxy"),
        };
        match self.way.program {
            Program::Ways(way) => command.args([way, &address, &server]),
            Program::Proxy => command.args([&address, &server, "--by-reference"]),
            Program::Haproxy { splices } => {
                let configuration = path("haproxy.cfg");
                std::fs::write(&configuration, configured(&server, splices))?;
                let listener = self.listen(&mut address)?;
                // With -q it would close its stdin.
                let options = ["-db", "-f", &configuration];
                command.args(options).stdin(listener)
            }
        }
        .stderr(Stdio::null());
        let proxy = Process::start(command)?;
        if !matches!(self.way.program, Program::Haproxy { .. }) {
            address = line(&mut of_proxy, "proxy")?;
        }
        let mut stdin = load.take_stdin().context("the stdin of a process")?;
        writeln!(stdin, "{} {address}", proxy.id())?;
        let ended = load.end_within(timing.patience())?;
        match ended.report("load") {
            // That is no fault of ours: of tokio-splice2 with 1,000 connections, one run in a hundred hangs, and no
            // connection was dropped.
            Err(Stop::Failed(reason)) if self.way.is_of_others() => Err(Stop::Skipped(format!(
                "{} did not carry everything: {reason}",
                self.way.shows
            ))
            .into()),
            carried => self.measured(&carried?),
        }
    }
}

impl Proxying {
    fn measured(&self, carried: &Carried) -> Result<Measured> {
        if carried.bytes == 0 {
            return Err(Stop::NothingCame.into());
        }
        let gib = carried.bytes as f64 / (1u64 << 30) as f64;
        let rate = gib / carried.seconds;
        let cost = ("proxy", Unit::SecondsPerGib, carried.cpu / gib);
        let measured = match self.job.messages.0 {
            0 => Measured {
                figure: rate,
                also: vec![cost],
                ..Measured::default()
            },
            _ => (carried.times).taken(vec![cost, ("rate", Unit::GibPerS, rate)])?,
        };
        Ok(Measured {
            arrived: Some(carried.bytes),
            spent: Some(CpuTime {
                user: 0.0,
                system: carried.cpu + carried.cpu_of_ends,
            }),
            ..measured
        })
    }

    /// Returns a listening socket for a proxy that gets it as stdin, and completes its address.
    fn listen(&self, address: &mut String) -> Result<OwnedFd> {
        let listener: OwnedFd = if self.is_tcp {
            let listener = TcpListener::bind(&*address).context("bind")?;
            *address = listener.local_addr()?.to_string();
            listener.into()
        } else {
            UnixListener::bind(address).context("bind")?.into()
        };
        listen(&listener, BACKLOG).context("listen")?;
        Ok(listener)
    }
}

/// Reads the line that a process prints. This process must have closed the write end, or the end of one that prints nothing
/// goes unnoticed.
fn line(printed: &mut File, role: &str) -> Result<String, Stop> {
    let mut line = String::new();
    match BufReader::new(printed).read_line(&mut line) {
        Ok(1..) => Ok(line.trim().to_owned()),
        _ => Err(Stop::Failed(format!("the {role} printed no address"))),
    }
}

/// Raises the limit of descriptors for the processes that are started.
fn allow_descriptors(connections: u64) -> Result<()> {
    let wanted = DESCRIPTORS.0 * connections + DESCRIPTORS.1;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        let reason = format!("a process may have fewer than {wanted} descriptors (ulimit -Hn)");
        return Err(Stop::Skipped(reason).into());
    }
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(wanted);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).context("setrlimit")?;
    }
    Ok(())
}

/// Returns the path of an example of `fullbore-tokio`.
fn example(name: &str) -> Result<PathBuf, Stop> {
    let program = std::env::current_exe().ok();
    let examples = program.and_then(|program| Some(program.parent()?.join("examples")));
    let example = examples.and_then(|examples| process::in_directory(name, &examples));
    example.ok_or_else(|| {
        Stop::Skipped(format!(
            "the example '{name}' is not beside this program: 'cargo build --release --examples -p fullbore-tokio' \
             builds it"
        ))
    })
}

fn haproxy() -> Result<PathBuf, Stop> {
    process::on_path("haproxy").ok_or_else(|| Stop::Skipped("haproxy is not installed".into()))
}

/// The configuration of haproxy, which listens on stdin.
fn configured(server: &str, splices: bool) -> String {
    let family = if server.contains('/') { "unix@" } else { "" };
    let (global, options) = match splices {
        true => ("", "  option splice-request\n  option splice-response\n"),
        false => ("  nosplice\n", ""),
    };
    format!(
        "global\n  maxconn 2000\n{global}defaults\n  mode tcp\n  timeout client 60s\n  timeout server 60s\n  \
         timeout connect 10s\n{options}listen proxy\n  bind fd@0\n  server server {family}{server}\n"
    )
}
