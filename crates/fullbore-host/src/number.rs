//! Whole numbers as text, as options take them.

use std::ops::RangeInclusive;

/// Returns a reader of whole numbers in a range, for the options of a command line.
///
/// # Errors
///
/// The reader fails, with a sentence for the user, where a text is not a whole number, or is out of the range.
pub fn within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number: Option<u64> = text.parse().ok();
        let number = number.filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| match (range.start(), range.end()) {
            (least, &u64::MAX) => format!("expected a whole number, at least {least}"),
            (least, most) => format!("expected a whole number from {least} to {most}"),
        })
    }
}

/// Reads the number of a process.
///
/// # Errors
///
/// A sentence for the user where `text` is none.
pub fn pid(text: &str) -> Result<u32, String> {
    let number: Option<i32> = text.parse().ok().filter(|_| !text.starts_with('+'));
    let pid = number.and_then(|number| u32::try_from(number).ok());
    pid.filter(|&pid| pid > 0)
        .ok_or_else(|| format!("invalid PID '{text}': expected the number of a process"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_range_is_told_the_range_in_words() {
        let blocks = within::<u64>(5..=u64::MAX);
        assert_eq!(blocks("5"), Ok(5));
        for text in ["4", "-5", "x", "1.5", ""] {
            assert_eq!(
                blocks(text).unwrap_err(),
                "expected a whole number, at least 5"
            );
        }
        let rows = within::<u8>(0..=6);
        assert_eq!(rows("6"), Ok(6));
        assert_eq!(
            rows("7").unwrap_err(),
            "expected a whole number from 0 to 6"
        );
    }

    #[test]
    fn a_pid_is_a_number_above_0() {
        assert_eq!(pid("4711"), Ok(4711));
        for text in ["0", "-1", "+1", "x", "4294967296", ""] {
            assert!(pid(text).is_err(), "{text}");
        }
    }
}
