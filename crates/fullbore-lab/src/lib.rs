//! The laboratory: experiments as data, run in interleaved rounds on two CPUs, and what it tries of a
//! machine.
//!
//! | module | holds |
//! |---|---|
//! | [`catalogue`] | the experiments, a folder for each group |
//! | [`experiment`], [`work`], [`taken`] | what an experiment is, what it does, and what comes of it |
//! | [`runner`] | shuffled rounds of them |
//! | [`program`] | how processes of an experiment are started: the one contract with who runs it |
//! | [`endpoint`], [`part`], [`middleman`] | what these processes do |
//! | [`trials`] | each technique that a machine may refuse, tried |
//!
//! The laboratory depends on no command: it starts its processes from an executable that it is given
//! ([`program`] says what that must do).

#![deny(unsafe_code)]

pub mod catalogue;
pub mod endpoint;
pub mod experiment;
pub mod middleman;
mod overall;
pub mod parent;
pub mod part;
pub mod peers;
mod process;
pub mod program;
pub mod runner;
mod soundness;
pub mod taken;
pub mod trials;
pub mod work;
