//! Seconds as text, as options take them.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Reads a number of seconds in a range, such as `1`, `0.5`, `1s`, `500ms` or `300us`.
///
/// # Errors
///
/// A sentence for the user where `text` is not a time, or is out of the range.
pub fn parse(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let mut units = units.into_iter();
    let with_unit = units.find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, unit) = with_unit.unwrap_or((text, 1.0));
    let number: Option<f64> = number.trim().parse().ok();
    let seconds = number.map(|number| number * unit);
    let seconds = seconds.filter(|seconds| range.contains(seconds));
    let (least, most) = range.into_inner();
    let refused = "expected seconds from";
    seconds.ok_or_else(|| {
        format!("invalid time '{text}': {refused} {least} to {most}, such as 1, 0.5 or 500ms")
    })
}

/// Returns a reader of times in a range of seconds, for the options of a command line.
///
/// # Errors
///
/// The reader fails as [`parse`] does.
pub fn within(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| parse(text, range.clone()).map(Duration::from_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_unit_and_have_to_be_in_range() {
        let range = 0.01..=3600.0;
        for (text, seconds) in [
            ("1", Some(1.0)),
            ("0.5", Some(0.5)),
            ("500ms", Some(0.5)),
            ("20000us", Some(0.02)),
            ("2s", Some(2.0)),
            ("0.01", Some(0.01)),
            ("3600", Some(3600.0)),
            ("3600.1", None),
            ("9ms", None),
            ("0", None),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("", None),
            ("s", None),
            ("1h", None),
        ] {
            assert_eq!(parse(text, range.clone()).ok(), seconds, "{text}");
        }
        let error = parse("0", range).unwrap_err();
        let words = "invalid time '0': expected seconds from 0.01 to 3600, such as 1, 0.5 or 500ms";
        assert_eq!(error, words);
    }
}
