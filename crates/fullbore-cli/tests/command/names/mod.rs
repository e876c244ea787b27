//! The names `pv`, `mbuffer`, `tee` and `cat`, beside the programs of these names.

mod links;
mod mbuffer;
mod meter_pv;
mod pv;
