//! Sizes as people write them: `64K`, `1M`, `1MiB`, `10G`, always with powers of 1024.

use parse_size::Config;

/// Reads a size in bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    Config::new()
        .with_binary()
        .parse_size(text)
        .map_err(|_| format!("'{text}' is no size; write it as 4096, 64K, 1M or 10GiB"))
}

/// Reads a size that has to fit into memory.
pub fn parse_in_memory(text: &str) -> Result<usize, String> {
    usize::try_from(parse(text)?).map_err(|_| format!("'{text}' is more than memory can hold"))
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
}
