//! Decides from what is observed which placement a pipeline gets next, and for how long. It calls no system
//! function and reads no clock, so every decision can be tested with made-up observations.
//!
//! It *watches* until it knows what the stages do, *tries* the placements that could pay, one after the other
//! and each by turns with the placement before, and then *rests* until the pipeline behaves differently.
//! What trials may cost is limited to a share of the pipeline's age.

use std::collections::VecDeque;

use super::candidates::{Untried, candidates};
use super::layout::Layout;
use super::placement::Placement;
use super::report::{Placed, Tried};
use super::trial::{Goal, Outcome, Trial, spread};
use super::window::{Score, Usage, Window, median};

/// The age in seconds before which nothing is tried.
const YOUNG: f64 = 0.5;

/// How long the first window is: it includes the start of the programs, and is forgotten.
const START: f64 = 0.2;

/// The shortest and the longest window while it watches, in seconds.
const WATCH: f64 = 0.05;
const WATCH_LONG: f64 = 0.8;

/// The number of windows that an average needs.
const ENOUGH: usize = 5;

/// The least and the most seconds of a window in a trial.
const TRY: f64 = 0.01;
const TRY_LONG: f64 = 0.05;

/// The number of windows after which a trial without a verdict ends.
const TOO_MANY: usize = 40;

/// The wake-ups that a window of a trial should contain.
const TURNS: f64 = 20.0;

/// Seconds after a change of the placement that are not counted, because the stages move to their CPUs.
const SETTLE: f64 = 0.002;

/// The share of the pipeline's age that trials may cost.
const BUDGET: f64 = 0.01;

/// The part of the rate that a placement is expected to lose if nothing is known about it.
const LOSS: f64 = 0.5;

/// The shortest and the longest window while it rests, and the part of the age that one is.
const REST: f64 = 0.1;
const REST_LONG: f64 = 0.5;
const REST_PART: f64 = 0.05;

/// The number of windows in a row that have to differ before the pipeline counts as changed.
const ODD: usize = 3;

/// How much the rate, and the load of a stage, must differ for that.
const RATE_CHANGED: f64 = 1.2;
const LOAD_CHANGED: f64 = 1.5;
const LOAD_DIFFERENCE: f64 = 0.25;

/// The spread of the rate above which windows are too short for a comparison.
const IRREGULAR: f64 = 0.3;

/// The factor by which the age must have grown since the last trial before the next one.
const SELDOM: f64 = 1.3;

/// The factor for trying again what was tried before although the pipeline has not changed.
const AGAIN: f64 = 2.0;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The placement that the pipeline is to have.
    pub placement: Placement,
    /// Seconds to wait after a change of the placement before the window begins.
    pub settle: f64,
    /// The length of the next window in seconds.
    pub seconds: f64,
}

/// Decides about one pipeline.
#[derive(Debug)]
pub struct Placer {
    layout: Layout,
    goal: Goal,
    /// The placement that is kept.
    current: Placement,
    phase: Phase,
    /// The placements that are still to be tried; `None` before they are known.
    queue: Option<VecDeque<Placement>>,
    /// The age before which nothing is tried, and the age at the last trial.
    not_before: f64,
    last_trial: f64,
    /// The rate and the CPU time per byte of the current placement, compared with the scheduler's.
    gained: Option<(f64, f64)>,
    trials: Vec<Tried>,
    changes: usize,
    lost: f64,
    untried: Option<Untried>,
}

#[derive(Debug)]
enum Phase {
    /// It observes the current placement.
    Watching(Vec<Window>, f64),
    /// It compares this placement with the current one.
    Trying(Box<Trying>),
    /// It waits for a change.
    Resting(Option<Usual>),
    /// It does nothing any more.
    Over,
}

#[derive(Debug)]
struct Trying {
    placement: Placement,
    trial: Trial,
    usage: Usage,
    /// Whether the pipeline has the new placement at this moment.
    is_new: bool,
    /// Seconds that were lost before this trial, and seconds of the new placement in it.
    lost_before: f64,
    seconds: f64,
}

/// What is usual for a pipeline that rests.
#[derive(Debug)]
struct Usual {
    usage: Usage,
    /// How much its rate varies.
    spread: f64,
    /// The number of windows in a row that differ from it.
    odd: usize,
}

impl Placer {
    /// Creates a placer for a pipeline of this number of stages, which may use the CPUs of the layout.
    pub fn new(stages: usize, layout: Layout, goal: Goal) -> Self {
        Self {
            layout,
            goal,
            current: Placement::none(stages),
            phase: Phase::Watching(Vec::new(), WATCH),
            queue: None,
            not_before: YOUNG,
            last_trial: 0.0,
            gained: None,
            trials: Vec::new(),
            changes: 0,
            lost: 0.0,
            untried: Some(Untried::TooShort),
        }
    }

    /// Returns the first step.
    pub fn first(&self) -> Step {
        self.step(START)
    }

    /// Takes what was observed in the window of the last step, and returns the next step.
    pub fn next(&mut self, window: Window) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Watching(windows, length) => self.watch(windows, length, window),
            Phase::Trying(trying) => self.compare(trying, window),
            Phase::Resting(usual) => self.rest(usual, window),
            Phase::Over => self.give_up(),
        }
    }

    /// Begins to observe anew, because the last window cannot be used: the pipeline was stopped, for example.
    pub fn skip(&mut self) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Trying(trying) => {
                // It is tried again later.
                if let Some(queue) = &mut self.queue {
                    queue.push_front(trying.placement);
                }
                self.watch_on(Vec::new(), WATCH)
            }
            Phase::Watching(_, length) => self.watch_on(Vec::new(), length),
            other => {
                self.phase = other;
                self.step(WATCH)
            }
        }
    }

    /// Takes that the CPUs of the pipeline cannot be changed. It tries nothing any more.
    pub fn refused(&mut self) -> Step {
        self.untried = Some(Untried::NotAllowed);
        self.current = Placement::none(self.current.stages.len());
        self.gained = None;
        self.phase = Phase::Over;
        self.give_up()
    }

    /// Returns what was done so far.
    pub fn report(&self) -> Placed {
        let (rate, cost) = self.gained.unzip();
        Placed {
            rate,
            cost,
            trials: self.trials.clone(),
            changes: self.changes,
            lost_seconds: self.lost,
            untried: self.untried.filter(|_| self.trials.is_empty()),
            ..Placed::given(self.current.clone())
        }
        .with_words()
    }

    /// Returns whether all that was to be tried has been tried.
    pub fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting(_) | Phase::Over)
    }

    fn step(&self, seconds: f64) -> Step {
        Step {
            placement: self.current.clone(),
            settle: SETTLE,
            seconds,
        }
    }

    fn give_up(&mut self) -> Step {
        self.phase = Phase::Over;
        self.step(f64::INFINITY)
    }

    fn watch(&mut self, mut windows: Vec<Window>, length: f64, window: Window) -> Step {
        let age = window.age;
        let is_same = |last: &Window| existing(last).eq(existing(&window));
        if !windows.last().is_none_or(is_same) {
            windows.clear();
            self.queue = None;
        }
        windows.push(window);
        if windows.len() > ENOUGH {
            windows.remove(0);
        }
        if windows.len() < ENOUGH || age < self.not_before {
            return self.watch_on(windows, length);
        }
        let Some(usage) = Usage::of(windows.iter()) else {
            return self.watch_on(windows, length);
        };
        let scores: Vec<Score> = windows.iter().filter_map(|one| usage.score(one)).collect();
        let rates: Vec<f64> = scores.iter().map(|score| score.rate).collect();
        let queue = match self.queue.take() {
            Some(queue) => queue,
            None => match candidates(&usage, &self.layout) {
                Ok(found) => found.into(),
                Err(why) => {
                    self.untried = Some(why);
                    // The pipeline may begin to move later, or an ended stage may have been the last hindrance.
                    let usual = (why != Untried::BytesUnknown).then(|| Usual::new(usage, &rates));
                    return self.begin_rest(usual, age);
                }
            },
        };
        let spread = spread(&rates);
        if queue.is_empty() {
            return self.begin_rest(Some(Usual::new(usage, &rates)), age);
        }
        if spread > IRREGULAR && length < WATCH_LONG {
            self.queue = Some(queue);
            return self.watch_on(Vec::new(), length * 2.0);
        }
        if spread > IRREGULAR {
            self.untried = Some(Untried::Irregular);
            return self.begin_rest(Some(Usual::new(usage, &rates)), age);
        }
        let before = Score {
            rate: median(rates),
            cost: median(scores.iter().map(|score| score.cost).collect()),
        };
        let trial = Trial::new(before, spread);
        let Some(seconds) = self.affordable(&trial, &usage, age) else {
            self.queue = Some(queue);
            return self.watch_on(windows, length);
        };
        let mut queue = queue;
        let placement = queue.pop_front().unwrap_or_else(|| self.current.clone());
        self.queue = Some(queue);
        self.last_trial = age;
        let step = Step {
            placement: placement.clone(),
            settle: SETTLE,
            seconds,
        };
        self.phase = Phase::Trying(Box::new(Trying {
            placement,
            trial,
            usage,
            is_new: true,
            lost_before: self.lost,
            seconds: 0.0,
        }));
        step
    }

    fn watch_on(&mut self, windows: Vec<Window>, length: f64) -> Step {
        self.phase = Phase::Watching(windows, length);
        self.step(length)
    }

    /// Returns the length of the next window of the new placement; `None` if the budget does not allow one.
    fn affordable(&self, trial: &Trial, usage: &Usage, age: f64) -> Option<f64> {
        let turns: f64 = usage.turns.iter().sum();
        let least = (TURNS / turns.max(1.0)).clamp(TRY, WATCH_LONG);
        let left = BUDGET * age - self.lost;
        // The budget is measured in time, and the clock of a busy machine is late.
        let is_affordable = |loss: f64| left >= (least * 0.9 + SETTLE) * loss;
        match trial.loss() {
            // Nothing is known about a placement before its first window, which is short therefore. What is
            // known is how much the current placement has gained over the scheduler's.
            None => {
                let gained = self
                    .gained
                    .map_or(0.0, |(rate, _)| 1.0 - 1.0 / rate.max(1.0));
                is_affordable(LOSS.max(gained)).then_some(least)
            }
            Some(loss) if loss > 0.0 => is_affordable(loss)
                .then(|| (left / loss - SETTLE).clamp(least, TRY_LONG.max(least))),
            Some(_) => Some(TRY_LONG.max(least)),
        }
    }

    fn compare(&mut self, mut trying: Box<Trying>, window: Window) -> Step {
        let age = window.age;
        let is_same = existing(&window).eq(trying.usage.existing.iter().copied());
        let Some(score) = trying.usage.score(&window).filter(|_| is_same) else {
            return self.end_trial(&trying, Outcome::Interrupted, age);
        };
        if trying.is_new {
            trying.trial.add_new(score);
            trying.seconds += window.seconds + SETTLE;
            let part = 1.0 - trying.trial.rate().unwrap_or(1.0);
            self.lost = trying.lost_before + trying.seconds * part.clamp(0.0, 1.0);
        } else {
            trying.trial.add_old(score);
        }
        if let Some(outcome) = trying.trial.outcome(self.goal) {
            return self.end_trial(&trying, outcome, age);
        }
        if trying.trial.windows() > TOO_MANY {
            return self.end_trial(&trying, Outcome::NoDifference, age);
        }
        // After a window of the new placement, or while the budget allows no other, the old one has its turn.
        let affordable = (!trying.is_new)
            .then(|| self.affordable(&trying.trial, &trying.usage, age))
            .flatten();
        trying.is_new = affordable.is_some();
        let (placement, seconds) = match affordable {
            Some(seconds) => (trying.placement.clone(), seconds),
            None => (
                self.current.clone(),
                WATCH.max(window.seconds.min(WATCH_LONG)),
            ),
        };
        self.phase = Phase::Trying(trying);
        Step {
            placement,
            settle: SETTLE,
            seconds,
        }
    }

    fn end_trial(&mut self, trying: &Trying, outcome: Outcome, age: f64) -> Step {
        let (rate, cost) = (trying.trial.rate(), trying.trial.cost());
        let (rate, cost) = (rate.unwrap_or(1.0), cost.unwrap_or(1.0));
        self.trials.push(Tried {
            at: age,
            placement: trying.placement.clone(),
            windows: trying.trial.windows(),
            rate,
            cost,
            outcome,
        });
        if outcome.is_won() {
            self.current = trying.placement.clone();
            let (before, spent) = self.gained.unwrap_or((1.0, 1.0));
            self.gained = (!self.current.is_none()).then_some((before * rate, spent * cost));
        }
        if outcome == Outcome::Interrupted {
            self.not_before = age + YOUNG;
            self.queue = None;
            if !self.current.is_none() {
                self.give_back();
            }
        }
        self.watch_on(Vec::new(), WATCH)
    }

    fn begin_rest(&mut self, usual: Option<Usual>, age: f64) -> Step {
        self.queue = Some(VecDeque::new());
        self.phase = Phase::Resting(usual);
        self.step((age * REST_PART).clamp(REST, REST_LONG))
    }

    fn rest(&mut self, usual: Option<Usual>, window: Window) -> Step {
        let age = window.age;
        let Some(mut usual) = usual else {
            // Nothing is known about it yet.
            return match window.pipes.iter().flatten().any(|&bytes| bytes > 0.0) {
                true => self.begin_round(age),
                false => self.begin_rest(None, age),
            };
        };
        let has_ended = !existing(&window).eq(usual.usage.existing.iter().copied());
        usual.odd = match usual.is_odd(&window) {
            true => usual.odd + 1,
            false => 0,
        };
        if has_ended || usual.odd >= ODD {
            if !self.current.is_none() {
                self.changes += 1;
                self.give_back();
            }
            return self.begin_round(age);
        }
        if !self.current.is_none() && age >= AGAIN * self.last_trial {
            // What was slower then may be faster now, for example because other programs have ended.
            self.queue = Some([Placement::none(self.current.stages.len())].into());
            return self.watch_on(Vec::new(), WATCH);
        }
        self.begin_rest(Some(usual), age)
    }

    /// Watches again, and tries again what could pay.
    fn begin_round(&mut self, age: f64) -> Step {
        self.queue = None;
        self.not_before = (age + WATCH).max(self.last_trial * SELDOM);
        self.watch_on(Vec::new(), WATCH)
    }

    fn give_back(&mut self) {
        self.current = Placement::none(self.current.stages.len());
        self.gained = None;
    }
}

impl Usual {
    fn new(usage: Usage, rates: &[f64]) -> Self {
        Self {
            usage,
            spread: spread(rates),
            odd: 0,
        }
    }

    /// Returns whether a window differs by more than these windows differ from each other.
    fn is_odd(&self, window: &Window) -> bool {
        let noise = 1.0 + 4.0 * self.spread;
        let differs = |now: f64, usual: f64, factor: f64| {
            now > usual * factor * noise || now * factor * noise < usual
        };
        let rate = self.usage.score(window).map_or(1.0, |score| score.rate);
        let loads = window.stages.iter().zip(&self.usage.loads);
        let mut loads = loads.map(|(stage, usual)| (stage.cpu / window.seconds.max(1e-9), usual));
        differs(rate, 1.0, RATE_CHANGED)
            || loads.any(|(now, &usual)| {
                (now - usual).abs() > LOAD_DIFFERENCE && differs(now, usual, LOAD_CHANGED)
            })
    }
}

/// Returns which stages existed at the end of a window.
fn existing(window: &Window) -> impl Iterator<Item = bool> {
    window.stages.iter().map(|stage| stage.exists)
}
