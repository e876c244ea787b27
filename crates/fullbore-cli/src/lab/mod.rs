//! The laboratory: experiments as data, run in interleaved rounds on two CPUs, and reported.

pub mod catalogue;
pub mod compare;
pub mod date;
pub mod distance;
pub mod endpoint;
pub mod latency;
pub mod machine;
pub mod middleman;
pub mod movers;
pub mod overall;
pub mod page_lookup;
pub mod part;
pub mod peers;
pub mod pipelines;
pub mod process;
pub mod rank_sum;
pub mod report;
pub mod result;
pub mod runner;
pub mod soundness;
pub mod statistics;
pub mod sweep;
pub mod transports;
pub mod unix_copy;
pub mod work;
