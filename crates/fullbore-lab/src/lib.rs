//! Measures Linux pipes: experiments as data, run in interleaved rounds on two CPUs, and trials of what a
//! machine allows.
//!
//! It is for programs that measure as `fullbore bench` does and show the figures in their own way:
//!
//! ```no_run
//! use fullbore_host::machine::{CpuPair, Topology};
//! use fullbore_lab::catalogue::Catalogue;
//! use fullbore_lab::{program::Program, runner};
//! use fullbore_results::run::Settings;
//!
//! # fn main() -> anyhow::Result<()> {
//! let experiments = Catalogue::default().select(&["write_read".into()])?;
//! let settings = Settings::new(7, 0.25, 0.1);
//! let cpus = CpuPair::wanted(None, &Topology::read())?;
//! let fullbore = Program::at("/usr/local/bin/fullbore");
//! let run = runner::run(&experiments, settings, cpus, &fullbore, None, &mut ())?;
//! for outcome in run.experiments {
//!     println!("{}: {:?}", outcome.name, outcome.figure);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The processes of an experiment are started from an executable that accepts the command lines of [`program`].
//! `fullbore` is one; `examples/embedding.rs` is a program that starts itself.
//!
//! | module | holds |
//! |---|---|
//! | [`catalogue`] | the experiments, a folder for each group |
//! | [`experiment`], [`work`], [`measurement`] | what an experiment is and does, and one measurement's result |
//! | [`runner`] | shuffled rounds of experiments |
//! | [`program`], [`parent`] | how processes of an experiment are started, and how they end |
//! | [`endpoint`], [`task`], [`middleman`] | what these processes do |
//! | [`peers`] | programs in C that do the same, measured next to an experiment |
//! | [`trials`] | each technique that a machine may refuse, tried |
//! | [`one_cpu`] | a writer and a reader on two CPUs, and both on one |
//! | [`other_work`] | how much CPU time other processes use meanwhile |

#![deny(unsafe_code)]

mod backed_by;
pub mod catalogue;
mod cpu_distance;
mod cpu_time;
pub mod endpoint;
pub mod experiment;
mod limit;
pub mod measurement;
mod memory;
pub mod middleman;
pub mod one_cpu;
pub mod other_work;
mod overall;
pub mod parent;
pub mod peers;
mod process;
pub mod program;
mod rounds;
pub mod runner;
mod soundness;
pub mod task;
pub mod trials;
pub mod work;
