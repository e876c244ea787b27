//! The line of a meter that is running, shown by another process.

use std::time::{Duration, Instant};

use super::display::{Display, show};
use super::line_options::LineOptions;
use super::remote::{Request, State, ask};
use crate::processes::interrupt::Interrupt;
use crate::terminal::line::Reading;
use fullbore_observe::Rate;

/// A signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(50);

/// Shows how far the meter with this PID is, until it ends or a signal comes.
///
/// # Errors
/// If it cannot be asked even once.
pub fn query(pid: u32, options: &LineOptions, mut display: Option<Display>) -> anyhow::Result<()> {
    let interrupt = Interrupt::noted();
    let mut state = ask(pid, &Request::Progress)?;
    let mut rate = Rate::new(state.passed, Instant::now());
    for tick in 0.. {
        let reading = reading(options, &state, &rate, tick);
        show(display.as_mut(), options, &reading, None);
        let due = Instant::now() + options.interval();
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
        let last = Reading {
            ended: true,
            ..reading(options, &state, &rate, 0)
        };
        show(display.as_mut(), options, &last, None);
    }
    interrupt.obey();
    Ok(())
}

fn reading(options: &LineOptions, state: &State, rate: &Rate, tick: u64) -> Reading {
    let seconds = state.elapsed.as_secs_f64();
    Reading {
        name: options.name.clone().or(state.name.clone()),
        unit: state.unit,
        elapsed: state.elapsed,
        average: match seconds > 0.0 {
            true => state.passed as f64 / seconds,
            false => 0.0,
        },
        tick,
        ..Reading::of(rate, options.size.or(state.total))
    }
}
