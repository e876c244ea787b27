//! Looks at a pipeline from its start to its end, each standing for the time since the last.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::findings::{self, Findings};
use super::{Link, Stage};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// A pipeline that is watched.
#[derive(Debug)]
pub struct Watch {
    stages: Vec<Stage>,
    links: Vec<Link>,
    began: Instant,
}

impl Watch {
    /// Of a pipeline whose processes have just been started.
    pub fn new(stages: Vec<Stage>, links: Vec<Link>) -> Self {
        Self {
            stages,
            links,
            began: Instant::now(),
        }
    }

    /// One look at everything.
    pub fn look(&mut self) {
        for link in &self.links {
            let _ = link.fill();
        }
    }

    /// How long until the next one.
    pub fn next_look(&self) -> Duration {
        INTERVAL
    }

    /// The first process of a stage has ended and is still a zombie: the last that /proc says about it.
    pub fn ended(&mut self, _stage: usize) {}

    /// It has been waited for.
    pub fn status(&mut self, _stage: usize, _status: ExitStatus) {}

    /// The whole pipeline was stopped, and goes on now: that time does not count.
    pub fn paused(&mut self) {}

    /// What has been found out so far.
    pub fn findings(&self) -> Findings {
        Findings {
            seconds: self.began.elapsed().as_secs_f64(),
            stages: self
                .stages
                .iter()
                .map(|stage| findings::Stage {
                    text: stage.text.clone(),
                    cpu_seconds: 0.0,
                })
                .collect(),
            pipes: self
                .links
                .iter()
                .map(|link| findings::Pipe {
                    capacity: link.capacity,
                    wanted: link.wanted,
                })
                .collect(),
        }
    }
}
