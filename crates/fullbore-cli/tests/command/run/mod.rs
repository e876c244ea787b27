//! Pipelines: `run` and `parallel`, which start them, and `top` and `tune`, which watch and change those that run already.

mod accept;
mod lines;
mod parallel;
mod place;
mod signals;
mod stalled;
mod summary;
mod top;
mod top_metrics;
mod tune;
mod verdict;
mod whole;
mod whole_others;
