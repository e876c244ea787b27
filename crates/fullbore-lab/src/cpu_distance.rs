//! Repeats measurements that were taken while the two CPUs were not near each other.

use anyhow::Result;

use crate::measurement::{Measured, Measurement, until_bytes_arrive};
use fullbore_host::distance::are_near;
use fullbore_host::machine::CpuPair;
use fullbore_results::run::Apart;

/// Takes measurements while the two CPUs are near each other, as far as possible.
///
/// The distance before and after a measurement decides whether it counts, never its figure. The distance after one
/// measurement is that before the next.
pub struct Near {
    /// The distances that were measured, in nanoseconds.
    pub distances: Vec<f64>,
    /// Whether the CPUs were near each other when their distance was last measured.
    is_near: bool,
    pub apart: Apart,
    /// The number of measurements that may still be repeated. It is limited so that a run does not
    /// take much longer than planned.
    left: u32,
}

impl Near {
    /// How often the distance is measured before a run, to know the usual distance of these two CPUs.
    const FIRST_LOOKS: u32 = 5;

    /// The percentage of a run's measurements that may be repeated.
    const REPEATED_AT_MOST: u32 = 30;

    /// Creates the state for a run of `measurements` measurements.
    pub fn new(cpus: &CpuPair, measurements: u32) -> Self {
        let (mut distances, mut is_near) = (Vec::new(), true);
        for _ in 0..Self::FIRST_LOOKS {
            is_near = are_near(&mut distances, cpus);
        }
        Self {
            distances,
            is_near,
            apart: Apart::default(),
            left: measurements
                .saturating_mul(Self::REPEATED_AT_MOST)
                .div_ceil(100),
        }
    }

    /// Measures, and repeats the measurement if the CPUs were not near each other or no bytes
    /// arrived.
    ///
    /// # Errors
    /// Fails as `measure` does.
    pub fn measure(
        &mut self,
        cpus: &CpuPair,
        mut measure: impl FnMut() -> Result<Measured>,
    ) -> Result<Measurement> {
        loop {
            let was_near = self.is_near;
            let measurement = until_bytes_arrive(&mut measure)?;
            self.is_near = are_near(&mut self.distances, cpus);
            if was_near && self.is_near || measurement.is_err() {
                return Ok(measurement);
            }
            if self.left == 0 {
                self.apart.taken += 1;
                return Ok(measurement);
            }
            self.left -= 1;
            self.apart.repeated += 1;
        }
    }
}
