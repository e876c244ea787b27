//! What the laboratory of fullbore finds out besides figures.
//!
//! | module | for |
//! |---|---|
//! | [`doctor`] | what this machine allows, what slows it down, and which setting changes that |
//! | [`explain`] | where an experiment or a command spends its time, by sampling |
//!
//! Both fill in types of `fullbore_results`, and write them as text for people.

pub mod doctor;
pub mod explain;
