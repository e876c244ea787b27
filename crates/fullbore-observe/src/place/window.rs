//! What was observed of a pipeline in a short time (a *window*), and the average of several windows.

/// What was observed in a short time.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// How long it was, in seconds.
    pub seconds: f64,
    /// The age of the pipeline at its end, in seconds.
    pub age: f64,
    /// The bytes that went through each pipe; `None` if that is unknown. They are only compared with each
    /// other, so bytes of other files that a stage reads or writes in proportion do no harm.
    pub pipes: Vec<Option<f64>>,
    /// What each stage used.
    pub stages: Vec<StageUse>,
    /// The share of the time in which each CPU was idle, in the order of the layout; empty if unknown.
    pub idle: Vec<f64>,
}

/// What a stage used in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageUse {
    /// Seconds of CPU time.
    pub cpu: f64,
    /// Seconds in which its threads waited for a CPU, added up.
    pub queued: f64,
    /// How often a thread of it got a CPU, usually because another stage woke it.
    pub turns: f64,
    /// Whether it still existed at the end of the window.
    pub exists: bool,
}

/// The average of several windows, per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Bytes per second of each pipe; `None` if unknown in one of the windows, or if nothing moved.
    pub rates: Vec<Option<f64>>,
    /// The number of CPUs that each stage kept busy.
    pub loads: Vec<f64>,
    /// How often a thread of each stage got a CPU, per second.
    pub turns: Vec<f64>,
    /// The idle share of each CPU.
    pub idle: Vec<f64>,
    /// Which stages existed.
    pub existing: Vec<bool>,
}

impl Usage {
    /// Returns the average of these windows; `None` if there is no window.
    pub fn of<'a>(windows: impl Iterator<Item = &'a Window> + Clone) -> Option<Self> {
        let last = windows.clone().last()?;
        let seconds: f64 = windows.clone().map(|window| window.seconds).sum();
        let per_second = |of: &dyn Fn(&Window) -> f64| {
            let all: f64 = windows.clone().map(of).sum();
            all / seconds.max(1e-9)
        };
        let rates = (0..last.pipes.len()).map(|at| {
            let is_known = windows.clone().all(|window| window.pipes[at].is_some());
            let rate = per_second(&|window| window.pipes[at].unwrap_or(0.0));
            (is_known && rate > 0.0).then_some(rate)
        });
        let loads = (0..last.stages.len()).map(|at| per_second(&|window| window.stages[at].cpu));
        let turns = (0..last.stages.len()).map(|at| per_second(&|window| window.stages[at].turns));
        let idle = (0..last.idle.len()).map(|at| {
            per_second(&|window| window.idle.get(at).copied().unwrap_or(0.0) * window.seconds)
        });
        Some(Self {
            rates: rates.collect(),
            loads: loads.collect(),
            turns: turns.collect(),
            idle: idle.collect(),
            existing: last.stages.iter().map(|stage| stage.exists).collect(),
        })
    }

    /// Returns the number of CPUs that all stages together kept busy.
    pub fn load(&self) -> f64 {
        self.loads.iter().sum()
    }

    /// Returns how fast the pipeline was in a window, as a multiple of this average, and the CPU time that a
    /// second's work of this average cost; `None` if no pipe of this average is known in the window. A pipe
    /// counts as much as bytes go through it, because few bytes come in bursts.
    pub fn score(&self, window: &Window) -> Option<Score> {
        let known = (self.rates.iter().zip(&window.pipes))
            .filter_map(|(rate, bytes)| Some(((*rate)?, (*bytes)?)));
        let (usual, bytes) = known.fold((0.0, 0.0), |(usual, all), (rate, bytes)| {
            (usual + rate, all + bytes)
        });
        let cpu: f64 = window.stages.iter().map(|stage| stage.cpu).sum();
        let seconds = window.seconds.max(1e-9);
        let rate = bytes / seconds / usual;
        (usual > 0.0).then(|| Score {
            rate,
            cost: cpu / seconds / rate.max(1e-9),
        })
    }
}

/// How fast a pipeline was in a window, and what that cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The bytes per second of all pipes together, as a multiple of an average.
    pub rate: f64,
    /// Seconds of CPU time for the work of one second of that average.
    pub cost: f64,
}

/// Returns the median; 0 if there is nothing.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => 0.0,
        even if even % 2 == 0 => (numbers[middle - 1] + numbers[middle]) / 2.0,
        _ => numbers[middle],
    }
}

/// Returns averages for the tests: of stages with these loads that are woken `turns` times a second each, and of
/// pipes that carry `rate` bytes per second each.
#[cfg(test)]
pub(super) fn usage(loads: &[f64], turns: f64, rate: f64) -> Usage {
    Usage {
        rates: vec![Some(rate); loads.len() - 1],
        loads: loads.to_vec(),
        turns: vec![turns; loads.len()],
        idle: Vec::new(),
        existing: vec![true; loads.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(seconds: f64, pipes: &[Option<f64>], cpu: f64) -> Window {
        let stage = StageUse {
            cpu,
            turns: 10.0,
            exists: true,
            ..StageUse::default()
        };
        Window {
            seconds,
            age: 1.0,
            pipes: pipes.to_vec(),
            stages: vec![stage; 2],
            idle: vec![0.5, 1.0],
        }
    }

    #[test]
    fn an_average_is_weighted_by_the_length_of_the_windows() {
        let windows = [
            window(0.1, &[Some(100.0), None], 0.1),
            window(0.3, &[Some(700.0), Some(1.0)], 0.1),
        ];
        let usage = Usage::of(windows.iter()).unwrap();
        assert_eq!(usage.rates, [Some(2000.0), None]);
        assert!((usage.load() - 1.0).abs() < 1e-9, "{usage:?}");
        assert!((usage.turns[0] - 50.0).abs() < 1e-9);
        assert!((usage.idle[0] - 0.5).abs() < 1e-9);
        assert_eq!(Usage::of([].iter()), None);
        let score = usage.score(&window(0.1, &[Some(300.0), Some(9.0)], 0.1));
        let score = score.unwrap();
        assert!((score.rate - 1.5).abs() < 1e-9);
        assert!((score.cost - 2.0 / 1.5).abs() < 1e-9, "{score:?}");
        assert_eq!(usage.score(&window(0.1, &[None, Some(9.0)], 0.1)), None);
    }

    #[test]
    fn the_median_is_the_number_in_the_middle() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![3.0, 1.0]), 2.0);
    }
}
