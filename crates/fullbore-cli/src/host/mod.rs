//! Facts about this machine and its user, and the words for them: what every other part of the command
//! builds on, and what imports none of them.

pub mod date;
pub mod display;
pub mod distance;
pub mod machine;
pub mod proc;
pub mod refusal;
pub mod size;
pub mod text;
