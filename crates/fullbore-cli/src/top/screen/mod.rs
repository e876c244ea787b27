//! The live table.

use std::time::Duration;

use super::Top;

pub fn run(_top: &mut Top, _interval: Duration) -> anyhow::Result<()> {
    Ok(())
}
