//! How the rate differed from one update to the next: what `--stats` prints at the end.

/// The sums over all updates.
#[derive(Debug, Default)]
pub struct Stats {
    count: u64,
    least: f64,
    /// The highest rate.
    pub most: f64,
    sum: f64,
    squares: f64,
}

impl Stats {
    /// Adds the rate of an update.
    pub fn note(&mut self, rate: f64) {
        self.least = match self.count {
            0 => rate,
            _ => self.least.min(rate),
        };
        self.most = self.most.max(rate);
        self.count += 1;
        self.sum += rate;
        self.squares += rate * rate;
    }

    /// Returns the line of pv, in bytes per second or bits.
    pub fn line(&self, bits: bool) -> String {
        if self.count == 0 {
            return "rate not measured".to_owned();
        }
        let (factor, unit) = if bits { (8.0, "b/s") } else { (1.0, "B/s") };
        let mean = self.sum / self.count as f64;
        let variance = self.squares / self.count as f64 - mean * mean;
        let deviation = variance.max(0.0).sqrt();
        let [least, mean, most, deviation] =
            [self.least, mean, self.most, deviation].map(|rate| rate * factor);
        format!("rate min/avg/max/mdev = {least:.3}/{mean:.3}/{most:.3}/{deviation:.3} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_least_the_mean_the_highest_and_the_deviation() {
        let mut stats = Stats::default();
        assert_eq!(stats.line(false), "rate not measured");
        for rate in [2.0, 4.0, 6.0, 4.0] {
            stats.note(rate);
        }
        let line = "rate min/avg/max/mdev = 2.000/4.000/6.000/1.414 B/s";
        assert_eq!(stats.line(false), line);
        assert!(
            stats
                .line(true)
                .ends_with(" = 16.000/32.000/48.000/11.314 b/s")
        );
    }
}
