//! The laboratory: experiments as data, run in interleaved rounds on two CPUs, and reported.

pub mod catalogue;
pub mod endpoint;
pub mod latency;
pub mod middleman;
pub mod movers;
pub mod overall;
pub mod page_lookup;
pub mod part;
pub mod peers;
pub mod pipelines;
pub mod process;
pub mod runner;
pub mod soundness;
pub mod sweep;
pub mod transports;
pub mod unix_copy;
pub mod work;
