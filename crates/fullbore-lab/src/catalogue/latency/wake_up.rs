//! Measures a single wake-up: from the call that wakes a sleeping process until that process runs on
//! another CPU, with no data moved between the two.

use std::io::stdin;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use fullbore_linux::page_size;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::percentiles::Times;
use crate::catalogue::transports::shared;
use crate::task::{self, Task, Timing};

/// The pause after the sleeper has announced its sleep, so that it does sleep, and its CPU becomes idle.
const PAUSE: Duration = Duration::from_micros(50);

/// The number of the counter on which the sleeper sleeps: how often it has been woken.
const WOKEN: usize = 0;
/// The counter of the sleeper's announcements that it is about to sleep.
const ABOUT_TO_SLEEP: usize = 1;
/// The time when the sleeper last ran again, in nanoseconds of the monotonic clock.
const RAN_AT: usize = 2;
/// The counter of how often the sleeper has run again.
const RAN: usize = 3;

/// The role of a process of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Sleeper,
    Waker,
}

/// The task of waking, or of being woken.
#[derive(Debug, Serialize, Deserialize)]
pub struct WakeUpTask {
    pub role: Role,
    pub timing: Timing,
}

impl Task for WakeUpTask {
    const NAME: &'static str = "wakeup";

    fn play(self) -> Result<()> {
        let memory = shared::Shared::map(stdin().as_fd(), page_size())?;
        match self.role {
            Role::Sleeper => sleep(&memory),
            Role::Waker => wake(&memory, self.timing),
        }
    }
}

/// Sleeps, reports when it ran again, and repeats this until it is killed.
fn sleep(memory: &shared::Shared) -> Result<()> {
    let [woken, about_to_sleep, ran] = [WOKEN, ABOUT_TO_SLEEP, RAN].map(|at| memory.counter(at));
    for turn in 0u32.. {
        let next = turn.wrapping_add(1);
        about_to_sleep.store(next, Ordering::Release);
        while woken.load(Ordering::Acquire) == turn {
            shared::sleep_while(woken, turn)?;
        }
        memory.long(RAN_AT).store(now(), Ordering::Relaxed);
        ran.store(next, Ordering::Release);
    }
    Ok(())
}

fn wake(memory: &shared::Shared, timing: Timing) -> Result<()> {
    let (mut to_running, mut waker) = (Times::default(), Times::default());
    let warm_up = Duration::from_secs_f64(timing.warm_up_seconds);
    let end = warm_up + Duration::from_secs_f64(timing.seconds);
    let wait_for = |number: usize, value: u32| {
        while memory.counter(number).load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    let began = Instant::now();
    for turn in 1u32.. {
        wait_for(ABOUT_TO_SLEEP, turn);
        let pause = Instant::now();
        while pause.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
        let called = now();
        memory.counter(WOKEN).store(turn, Ordering::Release);
        shared::wake(memory.counter(WOKEN));
        let returned = now();
        wait_for(RAN, turn);
        let passed = began.elapsed();
        if passed >= warm_up {
            let ran = memory.long(RAN_AT).load(Ordering::Relaxed);
            to_running.add(ran.saturating_sub(called));
            waker.add(returned - called);
        }
        if passed >= end {
            break;
        }
    }
    task::say(&(to_running.percentiles(), waker.percentiles()))
}

/// Returns nanoseconds of a clock that is the same on all CPUs and in all processes.
#[inline]
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
