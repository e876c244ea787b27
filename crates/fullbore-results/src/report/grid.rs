//! A group whose experiments stand in a table of two axes: chunks down, pipe sizes across.
//!
//! The grid on a terminal and the heat maps of SVG and HTML have this in common: where each experiment
//! stands, what its cell says, and which is best.

use super::{figure, marked_median};
use crate::run::{Cell, Outcome};
use fullbore_host::size;

/// What the rows are.
pub const CHUNKS: &str = "bytes per call";
/// What the columns are.
pub const PIPE_SIZES: &str = "capacity of the pipe";

/// The mark before the best figure.
pub const BEST_MARK: &str = "▸";

/// The steps of colour in a heat map; `templates/chart.css` has a class for each.
const STEPS: usize = 8;

/// The experiments of a group, by chunk and pipe size.
pub struct Grid<'a> {
    /// Bytes of one call, ascending.
    pub chunks: Vec<usize>,
    /// Capacities of the pipe in bytes, ascending.
    pub pipe_sizes: Vec<usize>,
    outcomes: Vec<&'a Outcome>,
}

impl<'a> Grid<'a> {
    /// Returns the grid of these experiments; `None` unless all of them have a place in one.
    pub fn of(outcomes: &[&'a Outcome]) -> Option<Grid<'a>> {
        let cells: Option<Vec<_>> = outcomes.iter().map(|outcome| outcome.cell).collect();
        let cells = cells.filter(|cells| !cells.is_empty())?;
        let axis = |mut sizes: Vec<usize>| {
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        Some(Grid {
            chunks: axis(cells.iter().map(|cell| cell.chunk).collect()),
            pipe_sizes: axis(cells.iter().map(|cell| cell.pipe_size).collect()),
            outcomes: outcomes.to_vec(),
        })
    }

    /// Returns the experiment at a place; `None` where that was not chosen.
    pub fn at(&self, chunk: usize, pipe_size: usize) -> Option<&'a Outcome> {
        let cell = Some(Cell { chunk, pipe_size });
        let mut outcomes = self.outcomes.iter().copied();
        outcomes.find(|outcome| outcome.cell == cell)
    }

    /// Returns what a cell says: its median, or in one word why there is none.
    pub fn text(&self, outcome: &Outcome) -> String {
        match outcome.missing() {
            Some((what, _)) => what.to_owned(),
            None if self.is_best(outcome) => BEST_MARK.to_owned() + &marked_median(outcome),
            None => marked_median(outcome),
        }
    }

    /// Returns the rows of a heat map: the chunk, and the class and the text of each cell.
    pub fn rows(&self) -> Vec<(String, Vec<(String, String)>)> {
        let cell = |outcome: Option<&Outcome>| match outcome {
            Some(outcome) => (self.class(outcome), self.text(outcome)),
            None => ("no-step".into(), String::new()),
        };
        let row = |&chunk: &usize| {
            let columns = self.pipe_sizes.iter();
            let cells = columns.map(|&pipe_size| cell(self.at(chunk, pipe_size)));
            (size(chunk), cells.collect())
        };
        self.chunks.iter().map(row).collect()
    }

    /// Returns the headings of the columns.
    pub fn columns(&self) -> Vec<String> {
        self.pipe_sizes.iter().copied().map(size).collect()
    }

    /// Returns the class of a cell's colour: of the step that is proportional to its figure, from 0 on.
    fn class(&self, outcome: &Outcome) -> String {
        let Some(median) = outcome.median() else {
            return "no-step".into();
        };
        let share = (median / self.largest()).clamp(0.0, 1.0);
        let best = if self.is_best(outcome) { " best" } else { "" };
        let step = ((share * STEPS as f64) as usize).min(STEPS - 1);
        format!("step{step}{best}")
    }

    /// Returns the unit of the figures.
    pub fn unit(&self) -> &'static str {
        let first = self.outcomes.first();
        first.map_or("", |outcome| outcome.unit.name())
    }

    /// Returns the experiment with the largest median.
    pub fn best(&self) -> Option<&'a Outcome> {
        let best = self.measured().max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map(|(best, _)| best)
    }

    /// Returns whether an experiment is the best of several.
    pub fn is_best(&self, outcome: &Outcome) -> bool {
        self.measured().count() > 1 && self.best().is_some_and(|best| best.name == outcome.name)
    }

    /// Returns the median of the best experiment; 0 where nothing was measured.
    pub fn largest(&self) -> f64 {
        self.best().and_then(Outcome::median).unwrap_or(0.0)
    }

    /// Returns which experiment is best, and how many times the smallest median it reaches; `None`
    /// where fewer than two were measured.
    pub fn in_words(&self) -> Option<String> {
        let best = self.best()?;
        let (smallest, least) = self.measured().min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let most = best.median().filter(|_| smallest.name != best.name)?;
        Some(format!(
            "best: {}, {} {}, {}× the smallest ({})",
            place(best),
            figure(most),
            self.unit(),
            figure(most / least),
            place(smallest),
        ))
    }
    fn measured(&self) -> impl Iterator<Item = (&'a Outcome, f64)> {
        let outcomes = self.outcomes.iter();
        outcomes.filter_map(|outcome| Some((*outcome, outcome.median()?)))
    }
}

/// Returns a size on an axis, exact to the byte.
pub fn size(bytes: usize) -> String {
    size::format(bytes as u64)
}

/// Returns the place of an experiment in words.
fn place(outcome: &Outcome) -> String {
    let Some(Cell { chunk, pipe_size }) = outcome.cell else {
        return String::new();
    };
    format!(
        "{} per call, pipe capacity {}",
        size(chunk),
        size(pipe_size)
    )
}

/// Returns a run of one sweep: chunks of 4 and 64 KiB, and pipes of 4 KiB, 64 KiB and 64 MiB, the
/// last of which is refused.
#[cfg(test)]
pub fn fixture() -> crate::run::Run {
    use crate::run::Cell;
    use crate::statistics::Spread;

    let mut run = super::fixture();
    let like = run.experiments[0].clone();
    run.experiments.clear();
    let medians = [(4, [0.25, 0.5]), (64, [0.3, 4.0])];
    for (chunk, medians) in medians {
        for (pipe_size, median) in [(4, Some(medians[0])), (64, Some(medians[1])), (65536, None)] {
            let mut outcome = like.clone();
            outcome.group = "sweep".into();
            outcome.name = format!("chunk_{chunk}K_pipe_{pipe_size}K");
            outcome.table = Some("copy → read, block".into());
            outcome.published = None;
            outcome.figure = median.and_then(|m| Spread::of(&[m, m * 0.9, m * 1.05]));
            outcome.ratio = median.map(|m| m / 0.25);
            outcome.cell = Some(Cell {
                chunk: chunk << 10,
                pipe_size: pipe_size << 10,
            });
            if median.is_none() {
                outcome.skipped = Some("a pipe of 64 MiB is refused".into());
            }
            run.experiments.push(outcome);
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_its_axes_and_its_best() {
        let run = fixture();
        let outcomes: Vec<&Outcome> = run.experiments.iter().rev().collect();
        let grid = Grid::of(&outcomes).unwrap();
        assert_eq!(grid.chunks, [4 << 10, 64 << 10]);
        assert_eq!(grid.pipe_sizes, [4 << 10, 64 << 10, 64 << 20]);
        assert_eq!(grid.best().unwrap().name, "chunk_64K_pipe_64K");
        assert_eq!(
            grid.at(4 << 10, 64 << 10).unwrap().name,
            "chunk_4K_pipe_64K"
        );
        assert!(grid.at(1, 1).is_none());
        assert_eq!(
            grid.in_words().unwrap(),
            "best: 64 KiB per call, pipe capacity 64 KiB, 4.00 GiB/s, 16.0× the smallest \
             (4 KiB per call, pipe capacity 4 KiB)"
        );
    }

    #[test]
    fn the_colour_of_a_cell_is_proportional_to_its_figure() {
        let run = fixture();
        let outcomes: Vec<&Outcome> = run.experiments.iter().collect();
        let cells: Vec<(String, String)> = Grid::of(&outcomes)
            .unwrap()
            .rows()
            .into_iter()
            .flat_map(|(_, cells)| cells)
            .collect();
        let cells: Vec<(&str, &str)> = cells
            .iter()
            .map(|(c, t)| (c.as_str(), t.as_str()))
            .collect();
        let skipped = ("no-step", "skipped");
        assert_eq!(cells[..3], [("step0", "0.25"), ("step1", "0.50"), skipped]);
        assert_eq!(
            cells[3..],
            [("step0", "0.30"), ("step7 best", "▸4.00"), skipped]
        );
    }

    #[test]
    fn what_has_no_place_is_no_grid() {
        let run = super::super::fixture();
        let outcomes: Vec<&Outcome> = run.experiments.iter().collect();
        assert!(Grid::of(&outcomes).is_none());
        assert!(Grid::of(&[]).is_none());
    }

    #[test]
    fn a_grid_without_figures_has_no_best() {
        let mut run = fixture();
        run.experiments.iter_mut().for_each(|o| o.figure = None);
        let outcomes: Vec<&Outcome> = run.experiments.iter().collect();
        let grid = Grid::of(&outcomes).unwrap();
        assert!(grid.best().is_none() && grid.in_words().is_none());
        // And one figure is the best of nothing.
        let mut run = fixture();
        run.experiments[1..]
            .iter_mut()
            .for_each(|o| o.figure = None);
        let outcomes: Vec<&Outcome> = run.experiments.iter().collect();
        let grid = Grid::of(&outcomes).unwrap();
        assert!(!grid.is_best(outcomes[0]) && grid.in_words().is_none());
    }
}
