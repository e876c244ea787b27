//! Numbers of bytes as text, always in powers of 1024.
//!
//! | function | example | for |
//! |---|---|---|
//! | [`parse`], [`parse_in_memory`], [`parse_capacity`] | reads `64K`, `1M`, `1MiB`, `10G` | options |
//! | [`format()`] | `64KiB` | a size that was chosen: exact, and [`parse`] reads it |
//! | [`rounded`] | `1.5 MiB` | a fact about the machine: as short as possible |
//! | [`amount`] | `1.50 MiB` | a figure that changes: always about as wide |

use parse_size::Config;

/// Reads a size in bytes.
///
/// # Errors
///
/// A sentence for the user where `text` is not a size, or is one of 2^64 bytes or more.
pub fn parse(text: &str) -> Result<u64, String> {
    Config::new().with_binary().parse_size(text).map_err(|_| {
        format!(
            "invalid size '{text}': expected a number with an optional suffix \
         such as 64K, 1M, 1MiB or 10G"
        )
    })
}

/// Reads a size in bytes that has to fit into memory.
///
/// # Errors
///
/// Those of [`parse`], and a sentence for the user where a `usize` cannot hold the size.
pub fn parse_in_memory(text: &str) -> Result<usize, String> {
    usize::try_from(parse(text)?)
        .map_err(|_| format!("invalid size '{text}': too large for this machine"))
}

/// Reads the capacity of a pipe in bytes: at most 2 GiB, since fcntl(2) accepts no more (`round_pipe_size`,
/// fs/pipe.c).
///
/// # Errors
///
/// Those of [`parse_in_memory`], and a sentence for the user where no pipe can have this capacity.
pub fn parse_capacity(text: &str) -> Result<usize, String> {
    match parse_in_memory(text)? {
        0 => Err("invalid capacity 0: a pipe needs at least one page".to_owned()),
        bytes if bytes > 1 << 31 => Err(format!(
            "invalid capacity '{text}': a pipe can have at most 2G"
        )),
        bytes => Ok(bytes),
    }
}

/// Writes a size in the largest unit that divides it: `256KiB`, `10GiB`, `1000B`.
pub fn format(bytes: u64) -> String {
    [(30, "GiB"), (20, "MiB"), (10, "KiB")]
        .iter()
        .find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(
            || format!("{bytes}B"),
            |(shift, unit)| format!("{}{unit}", bytes >> shift),
        )
}

/// Writes a size in the unit that suits it, rounded to a tenth: `4 KiB`, `1.5 MiB`, `251.7 GiB`.
pub fn rounded(bytes: u64) -> String {
    // Just below 1024, a tenth would be rounded to 1024 of this unit.
    let (scaled, unit) = scaled(bytes as f64, 1023.95);
    let tenths = (scaled * 10.0).round() / 10.0;
    format!("{tenths} {unit}")
}

/// Writes an amount of bytes with three digits, or four before the next unit: `1.20 GiB`,
/// `12.0 GiB`, `1012 MiB`.
pub fn amount(bytes: f64) -> String {
    let (scaled, unit) = scaled(bytes, 1023.5);
    let places = match scaled {
        _ if unit == "B" => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.places$} {unit}")
}

/// Returns an amount in the first unit in which it is less than `limit`, and that unit.
fn scaled(bytes: f64, limit: f64) -> (f64, &'static str) {
    let mut scaled = bytes;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if scaled < limit {
            return (scaled, unit);
        }
        scaled /= 1024.0;
    }
    (scaled, "PiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("1MB", 1 << 20),
            ("10G", 10 << 30),
            ("1.5K", 1536),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_in_one_line() {
        for text in ["", "K", "-1", "1X", "0x10", "99999999999999999999G"] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains('\n') && error.contains(text), "{error}");
        }
    }

    #[test]
    fn sizes_are_written_in_the_largest_whole_unit() {
        for (bytes, text) in [
            (0, "0B"),
            (1000, "1000B"),
            (1 << 10, "1KiB"),
            (1536, "1536B"),
            (3 << 20, "3MiB"),
            (10 << 30, "10GiB"),
        ] {
            assert_eq!(format(bytes), text);
        }
    }

    #[test]
    fn rounded_sizes_are_written_in_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 B"),
            (512, "512 B"),
            (32 << 10, "32 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (1536 << 10, "1.5 MiB"),
            (32 << 20, "32 MiB"),
            (1 << 40, "1 TiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(rounded(bytes), text);
        }
    }

    #[test]
    fn amounts_have_three_digits_and_four_before_the_next_unit() {
        let cases = [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (1024.0, "1.00 KiB"),
            (10230.0, "9.99 KiB"),
            (12.0 * 1024.0, "12.0 KiB"),
            (1012.0 * 1048576.0, "1012 MiB"),
            (1023.9 * 1048576.0, "1.00 GiB"),
            (5.0 * 1024_f64.powi(5), "5.00 PiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(amount(bytes), text);
        }
    }
}
