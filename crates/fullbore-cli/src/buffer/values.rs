//! The values of options, as mbuffer has them.

use std::time::Duration;

use fullbore_host::size;

pub fn positive(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err("0 bytes: nothing would ever pass".to_owned()),
        size => Ok(size),
    }
}

pub fn percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!(
            "invalid percentage '{text}': expected a number from 0 to 100"
        )),
    }
}

pub fn start_percent(text: &str) -> Result<f64, String> {
    match percent(text)? {
        0.0 => Err("0% is the default: leave -P out to write at once".to_owned()),
        percent => Ok(percent),
    }
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    fullbore_host::seconds::parse(text, 0.1..=31_536_000.0).map(Duration::from_secs_f64)
}
