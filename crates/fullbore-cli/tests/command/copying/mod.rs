//! The verbs that copy: `copy`, `tee`, `meter` and `buffer`. Every byte arrives, or an error says which did not.

mod at_least;
mod atomic;
mod backups;
mod buffer;
mod copy;
mod descriptors;
mod every_mover;
mod faults;
mod fifo;
mod freeze;
mod meter;
mod network;
mod network_seal;
mod plain;
mod ring;
mod seal;
mod sync;
mod tee;
