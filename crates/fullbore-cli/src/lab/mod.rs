//! The laboratory: experiments as data, run in interleaved rounds on two CPUs, and reported.

pub mod catalogue;
pub mod endpoint;
pub mod experiment;
pub mod latency;
pub mod middleman;
pub mod movers;
pub mod overall;
pub mod page_lookup;
pub mod part;
pub mod parts;
pub mod peers;
pub mod pipelines;
pub mod process;
pub mod program;
pub mod runner;
pub mod soundness;
pub mod sweep;
pub mod taken;
pub mod transports;
pub mod unix_copy;
pub mod work;
