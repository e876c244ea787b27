//! The laboratory: `bench`, `write` and `read`, `explain` and `doctor`, and the programs that they stand beside.

mod article_programs;
mod bench;
mod between;
mod compare;
mod doctor;
mod endpoints;
mod explain;
mod html;
mod own_pipeline;
mod page_lookup;
mod peers;
mod pipelines;
mod refused_and_killed;
mod services;
mod sweep;
mod transports;
mod unix_copy;
mod worth;
mod write_read_verify;
