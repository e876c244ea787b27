//! The line of a meter that is running, shown by another process.

use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::display::Display;
use super::look::Look;
use super::options::Options;
use super::remote::{Request, State, ask};
use crate::interrupt::Interrupt;
use crate::terminal::line::Reading;
use crate::terminal::lines::say;
use fullbore_observe::Rate;

/// A signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(50);

/// Shows how far the meter with this PID is, until it ends or a signal comes.
///
/// # Errors
/// If it cannot be asked even once.
pub fn query(pid: Pid, mut options: Options, display: Option<Display>) -> anyhow::Result<()> {
    let mut display = display;
    let interrupt = Interrupt::noted();
    let mut state = ask(pid, &Request::Progress)?;
    let mut rate = Rate::new(state.passed, Instant::now());
    for tick in 0.. {
        show(&mut options, &state, &rate, tick, false, display.as_mut());
        let due = Instant::now() + options.interval;
        while Instant::now() < due && !interrupt.came() {
            let left = due.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(NOTICE));
        }
        match ask(pid, &Request::Progress) {
            Ok(now) if !interrupt.came() => state = now,
            _ => break,
        }
        rate.update(state.passed, Instant::now());
    }
    if display.is_some() {
        show(&mut options, &state, &rate, 0, true, display.as_mut());
    }
    interrupt.obey();
    Ok(())
}

fn show(
    options: &mut Options,
    state: &State,
    rate: &Rate,
    tick: u64,
    ended: bool,
    display: Option<&mut Display>,
) {
    let total = options.total.or(state.total);
    let seconds = state.elapsed.as_secs_f64();
    let reading = Reading {
        name: options.name.clone().or(state.name.clone()),
        unit: state.unit,
        passed: state.passed,
        total,
        elapsed: state.elapsed,
        now: rate.now(),
        average: if seconds > 0.0 {
            state.passed as f64 / seconds
        } else {
            0.0
        },
        left: total.and_then(|total| rate.left(total)),
        tick,
        ended,
        ..Reading::default()
    };
    match display {
        Some(display) => {
            display.set_height(options.height);
            let columns = display.columns();
            let line = vec![options.line(&reading, columns)];
            match ended {
                true => display.leave(line),
                false => display.draw(line),
            }
        }
        None if matches!(options.look, Look::Number(_)) => {
            say(&format!("{}\n", options.line(&reading, 0)));
        }
        None => {}
    }
}
