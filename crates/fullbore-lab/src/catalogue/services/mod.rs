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
use std::sync::LazyLock;

use anyhow::{Context, Result};
use fullbore::Pipe;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cpu_time::CpuTime;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::part::{Part, Timing};
use crate::process::{self, Process};
use crate::work::{Bench, Work};
use fullbore_results::run::Unit;
use load::{Carried, LoadTask};
use table::{JOBS, Job, Load, Program, WAYS, Way};

/// The group's name.
const GROUP: &str = "services";

/// Descriptors of a proxy or of the process at its ends, for each connection and besides.
const DESCRIPTORS: (u64, u64) = (4, 200);

/// Returns the group.
pub fn group() -> Group {
    Group {
        name: GROUP,
        shows: "a proxy between sockets: fullbore-tokio compared with tokio, tokio-splice2 and haproxy",
        experiments: &EXPERIMENTS,
        parts: PARTS,
    }
}

/// The tasks of this group's processes.
const PARTS: &[Part] = &[Part::of::<LoadTask>()];

/// The rows.
static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let mut rows = Vec::new();
    for (is_tcp, transport) in [(true, "tcp"), (false, "unix")] {
        for job in &JOBS {
            let over = if is_tcp { "TCP" } else { "Unix sockets" };
            let title: &str = format!("{over}: {}", job.title).leak();
            let goes_over = |way: &&Way| is_tcp || way.program != Program::Proxy;
            for way in WAYS.iter().filter(goes_over) {
                rows.push(Experiment {
                    group: GROUP,
                    name: format!("{transport}_{}_{}", job.name, way.name).leak(),
                    shows: format!("{title}, by {}", way.shows).leak(),
                    unit: match job.load {
                        Load::Streams => Unit::GibPerS,
                        _ => Unit::Microseconds,
                    },
                    published: None,
                    work: Box::leak(Box::new(Proxying {
                        way,
                        job,
                        is_tcp,
                        title,
                    })),
                });
            }
        }
    }
    rows
});

/// The work of a proxy.
#[derive(Debug)]
struct Proxying {
    way: &'static Way,
    job: &'static Job,
    is_tcp: bool,
    title: &'static str,
}

impl Work for Proxying {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let timing = Timing::of(bench.settings);
        allow_descriptors(self.job.connections as u64)?;
        let directory = tempfile::tempdir().context("a directory for sockets")?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (streams, messages) = match self.job.load {
            Load::Streams => (self.job.connections, (0, 0)),
            Load::Messages(len) => (0, (self.job.connections, len)),
            Load::Beside(len) => (self.job.connections - 1, (1, len)),
        };
        let task = LoadTask {
            path: (!self.is_tcp).then(|| path("server")),
            streams,
            messages,
            timing,
        };
        let mut command = bench.program.part(&task, None)?;
        let (mut said, out) = printed()?;
        command.stdin(Stdio::piped()).stdout(out);
        let mut load = Process::start(command)?;
        let server = said.line("load")?;
        let (mut command, address) = match self.way.program {
            Program::Ways(way) => {
                let mut command = Command::new(example("ways")?);
                let listen = if self.is_tcp {
                    "127.0.0.1:0".into()
                } else {
                    path("proxy")
                };
                command.args([way, &listen, &server]).stdin(Stdio::null());
                (command, None)
            }
            Program::Proxy => {
                let mut command = Command::new(example("proxy")?);
                command
                    .args(["127.0.0.1:0", &server, "--by-reference"])
                    .stdin(Stdio::null());
                (command, None)
            }
            Program::Haproxy { splices } => {
                let (listener, address) = self.listener(&path("proxy"))?;
                let configuration = directory.path().join("haproxy.cfg");
                std::fs::write(&configuration, configured(&server, splices))?;
                let mut command = Command::new(haproxy()?);
                // With -q it would close its stdin.
                command
                    .args(["-db", "-f"])
                    .arg(configuration)
                    .stdin(listener);
                (command, Some(address))
            }
        };
        let (mut said, out) = printed()?;
        command.stdout(out).stderr(Stdio::null());
        let proxy = Process::start(command)?;
        let address = match address {
            Some(address) => address,
            None => said.line("proxy")?,
        };
        let mut stdin = load.take_stdin().context("the stdin of a process")?;
        writeln!(
            stdin,
            "{} {address}",
            proxy.id().context("a process that runs")?
        )?;
        let ended = load.end_within(timing.patience())?;
        ended.went_well("load")?;
        self.measured(&process::report::<Carried>(&ended.output.stderr)?)
    }

    fn table(&self) -> Option<&'static str> {
        Some(self.title)
    }

    fn compared_as(&self) -> Option<&'static str> {
        Some(self.way.name)
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        Some("the capacity is part of the way")
    }

    fn runs_anywhere(&self) -> bool {
        true
    }
}

impl Proxying {
    fn measured(&self, carried: &Carried) -> Result<Measured> {
        if carried.bytes == 0 {
            return Err(Stop::NothingCame.into());
        }
        let gib = carried.bytes as f64 / (1u64 << 30) as f64;
        let measured = Measured {
            figure: gib / carried.seconds,
            arrived: Some(carried.bytes),
            spent: Some(CpuTime {
                user: 0.0,
                system: carried.cpu + carried.cpu_of_ends,
            }),
            ..Measured::default()
        };
        let cost = ("proxy", Unit::SecondsPerGib, carried.cpu / gib);
        if self.job.load == Load::Streams {
            return Ok(Measured {
                also: vec![cost],
                ..measured
            });
        }
        let rate = ("rate", Unit::GibPerS, measured.figure);
        let times = carried.times.checked()?.taken(vec![cost, rate]);
        Ok(Measured {
            arrived: measured.arrived,
            spent: measured.spent,
            ..times
        })
    }

    /// A listening socket for a proxy that gets it as stdin, and its address.
    fn listener(&self, path: &str) -> Result<(OwnedFd, String)> {
        if self.is_tcp {
            let listener = TcpListener::bind("127.0.0.1:0").context("bind")?;
            let address = listener.local_addr()?.to_string();
            return Ok((listener.into(), address));
        }
        Ok((
            UnixListener::bind(path).context("bind")?.into(),
            path.to_owned(),
        ))
    }
}

/// What a process prints.
struct Printed(BufReader<File>);

/// Makes a pipe for what a process prints.
fn printed() -> Result<(Printed, OwnedFd)> {
    let pipe = Pipe::new()?;
    Ok((
        Printed(BufReader::new(File::from(pipe.reader))),
        pipe.writer,
    ))
}

impl Printed {
    /// Reads one line; the process must not hold more than its own end of the pipe.
    fn line(&mut self, role: &str) -> Result<String, Stop> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        match read {
            Ok(1..) => Ok(line.trim().to_owned()),
            _ => Err(Stop::Failed(format!("the {role} printed no address"))),
        }
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
    let server = match server.contains('/') {
        true => format!("unix@{server}"),
        false => server.to_owned(),
    };
    let (global, options) = match splices {
        true => ("", "  option splice-request\n  option splice-response\n"),
        false => ("  nosplice\n", ""),
    };
    format!(
        "global\n  maxconn 2000\n{global}defaults\n  mode tcp\n  timeout client 60s\n  timeout server 60s\n  \
         timeout connect 10s\n{options}listen proxy\n  bind fd@0\n  server server {server}\n"
    )
}
