//! What a run of the laboratory found: the types of its JSON, the statistics, the comparison of runs,
//! and the reports. It builds on `host`, and knows neither how an experiment is run nor any verb.

pub mod compare;
pub mod names;
pub mod rank_sum;
pub mod report;
pub mod run;
pub mod soundness;
pub mod statistics;
