//! Points in time as text, in the format of RFC 3339.

use std::time::SystemTime;

use jiff::Timestamp;

/// Returns `time` as RFC 3339 writes it, in UTC: `2026-03-01T12:00:00Z`. Fractions of a second are
/// cut off. A time that is not in the years -9999 to 9999 is the beginning of 1970.
pub fn rfc3339(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn points_in_time_are_those_of_date() {
        // `date -u -d @N +%FT%TZ`
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        let before = UNIX_EPOCH - Duration::from_millis(500);
        assert_eq!(rfc3339(before), "1969-12-31T23:59:59Z");
    }
}
