//! Prints which stage is slow in the pipelines of a process and its descendants:
//! `cargo run -p fullbore-observe --example slow_stage -- 4711`.

use std::process::ExitCode;
use std::time::Duration;

use fullbore_observe::census::scope::{Scope, Whose};
use fullbore_observe::{Error, Monitor};

/// Returns for each pipeline of this process the names of its slow stages and the verdict in words.
pub fn slow_stages(pid: u32) -> Result<Vec<(Vec<String>, String)>, Error> {
    let mut monitor = Monitor::new(Scope {
        whose: Whose::Tree(pid),
        all: false,
    })?;
    let overview = monitor.once(Duration::from_secs(2))?;
    let verdicts = overview.chains.iter().filter_map(|chain| {
        let verdict = chain.verdict.as_ref()?;
        let stages = verdict.stages.iter();
        let processes = stages.flat_map(|number| chain.stages[number - 1].processes.first());
        let names = processes.map(|process| process.name.clone());
        Some((names.collect(), verdict.to_string()))
    });
    Ok(verdicts.collect())
}

fn main() -> ExitCode {
    let pid = std::env::args().nth(1).and_then(|pid| pid.parse().ok());
    let Some(pid) = pid else {
        eprintln!("usage: slow_stage PID");
        return ExitCode::from(2);
    };
    match slow_stages(pid) {
        Ok(pipelines) => {
            for (names, verdict) in pipelines {
                println!("slow: {}: {verdict}", names.join(", "));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("slow_stage: {error}");
            ExitCode::FAILURE
        }
    }
}
