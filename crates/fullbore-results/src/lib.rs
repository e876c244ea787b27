//! The results of `fullbore bench`: their types, their JSON, the statistics over the rounds, the
//! comparison of runs, and the reports; and the types of what `fullbore explain` and `fullbore doctor` report.
//!
//! Which was the fastest experiment of a run that `fullbore bench --json` printed?
//!
//! ```no_run
//! use std::fs::File;
//!
//! use fullbore_results::run::Run;
//!
//! let run = Run::read(File::open("ladder.json")?)?;
//! let speeds = run.experiments.iter().filter(|outcome| outcome.unit.more_is_better());
//! let fastest = speeds
//!     .filter_map(|outcome| Some((outcome, outcome.figure.as_ref()?.median)))
//!     .max_by(|(_, one), (_, other)| one.total_cmp(other));
//! if let Some((outcome, median)) = fastest {
//!     println!("{}/{}: {median:.2} {}", outcome.group, outcome.name, outcome.unit.name());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | for |
//! |---|---|
//! | [`run`], [`soundness`] | [`Run`](run::Run), the shape of the JSON, and that of the checks of bytes in it |
//! | [`read`] | why a file cannot be read as a run |
//! | [`statistics`], [`rank_sum`] | medians and spreads; whether two samples differ by more than chance |
//! | [`compare`] | [`Comparison`](compare::Comparison): several runs side by side |
//! | [`report`] | [`Report`](report::Report): a run or a comparison as a table, JSON, CSV or HTML, and a run as SVG |
//! | [`explain`], [`doctor`] | [`Explanation`](explain::Explanation) and [`Examination`](doctor::Examination), the shapes of their JSON |
//! | [`summary`] | [`Summary`](summary::Summary): what the reports of many runs of `fullbore run` say together |
//! | [`names`] | which experiments a pattern means |
//! | [`date`] | times as text |
//! | [`placement`] | one CPU for both ends of a pipe compared with two |
//!
//! The crate never exits, and writes only to the writers that it is given. It does not depend on how
//! experiments are run, or on the command.

pub mod compare;
pub mod date;
pub mod doctor;
pub mod explain;
pub mod names;
pub mod placement;
pub mod rank_sum;
pub mod read;
pub mod report;
pub mod run;
pub mod soundness;
pub mod statistics;
pub mod summary;
