//! Numbers of bytes as text.
//!
//! | function | example | for |
//! |---|---|---|
//! | [`parse`], [`parse_in_memory`], [`parse_capacity`] | reads `64K`, `1MiB`, `10MB`, `1.5G` | options |
//! | [`format()`], [`amount`] | `64 KiB`, `1.50 MiB` | people |
//! | [`typed`] | `64K` | names and command lines: [`parse`] reads it |

/// The letters of the units, in ascending order.
const LETTERS: &str = "KMGTPE";

/// Reads a size in bytes, with the units of GNU coreutils: `K`, `M`, `G`, `T`, `P` and `E` are powers of
/// 1024, as `KiB`, `MiB` and so on are; `KB`, `MB` and so on are powers of 1000. The number may have a
/// fraction, and fractions of a byte are left out.
///
/// # Errors
///
/// A sentence for the user where `text` is not a size, or is one of 2^64 bytes or more.
pub fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let bytes = factor(unit.trim_start()).and_then(|factor| times(number, factor));
    bytes.ok_or_else(|| {
        format!(
            "invalid size '{text}': expected a number below 2^64 with an optional suffix: K, M or G \
             (KiB, MiB or GiB) for powers of 1024, KB, MB or GB for powers of 1000"
        )
    })
}

/// Returns how many bytes a unit has.
fn factor(unit: &str) -> Option<u64> {
    let mut letters = unit.chars();
    let Some(first) = letters.next() else {
        return Some(1);
    };
    if unit == "B" {
        return Some(1);
    }
    let power = LETTERS.find(first.to_ascii_uppercase())? as u32 + 1;
    match letters.as_str() {
        "" | "iB" => Some(1024_u64.pow(power)),
        "B" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// Multiplies a number, which may have a fraction, with a factor.
fn times(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // The first digits of a fraction decide: a factor has at most 20 digits.
    let fraction = &fraction[..fraction.len().min(18)];
    let parts: u128 = fraction.parse::<u64>().ok()?.into();
    let rest = parts * u128::from(factor) / 10_u128.pow(fraction.len() as u32);
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(factor);
    u64::try_from(whole + rest).ok()
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

/// Reads a size in bytes that is not 0, because nothing would ever pass.
///
/// # Errors
///
/// Those of [`parse`], and a sentence for the user about 0.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err("0 bytes: nothing would ever pass".to_owned()),
        size => Ok(size),
    }
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
        0x8000_0001.. => Err(format!(
            "invalid capacity '{text}': a pipe can have at most 2G"
        )),
        bytes => Ok(bytes),
    }
}

/// Writes a size: `64 KiB`, `1.50 MiB`, `1012 MiB`; see [`amount`].
pub fn format(bytes: u64) -> String {
    amount(bytes as f64)
}

/// Writes an amount of bytes in powers of 1024, in the first unit in which it has at most four digits
/// before the point. A whole number of this unit has no fraction; everything else is rounded to three
/// digits: `4 KiB`, `1.20 GiB`, `12.5 GiB`, `1012 MiB`.
pub fn amount(bytes: f64) -> String {
    // What is computed from rounded figures may be a little less than nothing.
    let (scaled, unit) = scaled(if bytes > 0.0 { bytes } else { 0.0 });
    let places = match scaled {
        _ if unit == "B" => 0,
        s if s.fract() == 0.0 => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.places$} {unit}")
}

/// Returns an amount in the unit that suits it, and that unit.
fn scaled(bytes: f64) -> (f64, &'static str) {
    let mut scaled = bytes;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        // More would be rounded to 1024 of this unit.
        if scaled < 1023.5 {
            return (scaled, unit);
        }
        scaled /= 1024.0;
    }
    (scaled, "PiB")
}

/// Writes a size as one types it, exact to the byte: `64K`, `1000`.
pub fn typed(bytes: u64) -> String {
    let power = (bytes.trailing_zeros() / 10).min(3) as usize;
    match power {
        1.. if bytes > 0 => format!("{}{}", bytes >> (10 * power), &LETTERS[power - 1..power]),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_coreutils() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("1 MiB", 1 << 20),
            ("1MB", 1_000_000),
            ("1kB", 1000),
            ("3GB", 3_000_000_000),
            ("10G", 10 << 30),
            ("1t", 1 << 40),
            ("2TB", 2_000_000_000_000),
            ("15E", 15 << 60),
            ("18EB", 18_000_000_000_000_000_000),
            ("18446744073709551615", u64::MAX),
            ("1.5K", 1536),
            ("1.5KB", 1500),
            ("0.1K", 102),
            ("0.0000000000000000000001E", 0),
            ("1.000000000000000000000", 1),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_in_one_line() {
        for text in [
            "",
            "K",
            "-1",
            "+1",
            "1X",
            "0x10",
            "1Kb",
            "1Mb",
            "1b",
            "1ki",
            "1.5.1",
            ".",
            "1.",
            ".5",
            "1e3",
            "16E",
            "18446744073709551616",
            "99999999999999999999G",
            "\u{e9}",
            "1\u{e9}",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains('\n') && error.contains(text), "{error}");
        }
    }

    #[test]
    fn whole_numbers_have_no_fraction_and_others_three_digits() {
        let cases = [
            (0.0, "0 B"),
            (-0.0, "0 B"),
            (-0.3, "0 B"),
            (0.4, "0 B"),
            (1000.0, "1000 B"),
            (1023.0, "1023 B"),
            (1024.0, "1 KiB"),
            (1536.0, "1.50 KiB"),
            (10230.0, "9.99 KiB"),
            (12.0 * 1024.0, "12 KiB"),
            (12.5 * 1024.0, "12.5 KiB"),
            ((1 << 20) as f64 - 1.0, "1.00 MiB"),
            (1012.0 * 1048576.0, "1012 MiB"),
            (1023.9 * 1048576.0, "1.00 GiB"),
            (251.7 * 1073741824.0, "252 GiB"),
            (1024_f64.powi(4), "1 TiB"),
            (5.0 * 1024_f64.powi(5), "5 PiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(amount(bytes), text);
        }
        assert_eq!(format(64 << 10), "64 KiB");
    }

    #[test]
    fn what_is_typed_is_read_again() {
        let cases = [
            (0, "0"),
            (1000, "1000"),
            (1 << 10, "1K"),
            (1536, "1536"),
            (3 << 20, "3M"),
            (10 << 30, "10G"),
            (3 << 40, "3072G"),
            (u64::MAX, "18446744073709551615"),
        ];
        for (bytes, text) in cases {
            assert_eq!(typed(bytes), text);
            assert_eq!(parse(text), Ok(bytes));
        }
    }
}
