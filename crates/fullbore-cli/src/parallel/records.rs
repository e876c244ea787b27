//! Where records end. Bytes come in pieces of any size; what is known of the last piece decides about the next one.
//! Nothing here reads or waits.

use memchr::{memchr, memchr_iter, memchr2, memmem, memrchr, memrchr2};

/// What ends a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// These bytes, at least one.
    Delimiter(Vec<u8>),
    /// A newline outside of quotes (RFC 4180, section 2). Two quotes in a field are one of its bytes.
    Csv,
    /// So many bytes, at least one.
    Every(u64),
}

/// Finds the ends of records.
#[derive(Debug)]
pub struct Records {
    ends: Ends,
    /// Whether the next byte is in quotes.
    quoted: bool,
    /// The last bytes since the end of a record that can be the start of a delimiter.
    begun: Vec<u8>,
    /// The bytes since the end of a record.
    passed: u64,
}

impl Records {
    pub fn new(ends: Ends) -> Self {
        Self {
            ends,
            quoted: false,
            begun: Vec::new(),
            passed: 0,
        }
    }

    /// Returns where the first record ends in the next bytes. Those up to there, or all, are past then.
    pub fn first(&mut self, bytes: &[u8]) -> Option<usize> {
        match &self.ends {
            Ends::Delimiter(delimiter) => match delimiter.as_slice() {
                [byte] => memchr(*byte, bytes).map(|at| at + 1),
                delimiter => first_of(delimiter, &mut self.begun, bytes),
            },
            Ends::Csv => {
                let mut from = 0;
                while let Some(at) = memchr2(b'"', b'\n', &bytes[from..]) {
                    from += at + 1;
                    match bytes[from - 1] {
                        b'"' => self.quoted = !self.quoted,
                        _ if !self.quoted => return Some(from),
                        _ => {}
                    }
                }
                None
            }
            Ends::Every(size) => {
                let left = size - self.passed;
                match usize::try_from(left)
                    .ok()
                    .filter(|&left| left <= bytes.len())
                {
                    Some(left) => {
                        self.passed = 0;
                        Some(left)
                    }
                    None => {
                        self.passed += bytes.len() as u64;
                        None
                    }
                }
            }
        }
    }

    /// Returns where the last record ends in the next bytes. All of them are past then.
    pub fn last(&mut self, bytes: &[u8]) -> Option<usize> {
        match &self.ends {
            Ends::Delimiter(delimiter) if delimiter.len() == 1 => {
                memrchr(delimiter[0], bytes).map(|at| at + 1)
            }
            Ends::Delimiter(_) => {
                let mut last = None;
                while let Some(at) = self.first(&bytes[last.unwrap_or(0)..]) {
                    last = Some(last.unwrap_or(0) + at);
                }
                last
            }
            Ends::Csv => {
                self.quoted ^= memchr_iter(b'"', bytes).count() % 2 == 1;
                let (mut quoted, mut to) = (self.quoted, bytes.len());
                while let Some(at) = memrchr2(b'"', b'\n', &bytes[..to]) {
                    to = at;
                    match bytes[at] {
                        b'"' => quoted = !quoted,
                        _ if !quoted => return Some(at + 1),
                        _ => {}
                    }
                }
                None
            }
            Ends::Every(size) => {
                let total = self.passed + bytes.len() as u64;
                self.passed = total % size;
                (total >= *size).then(|| bytes.len() - self.passed as usize)
            }
        }
    }
}

/// Returns where a delimiter of at least two bytes ends first. `begun` are the last bytes before, which do not contain
/// it.
fn first_of(delimiter: &[u8], begun: &mut Vec<u8>, bytes: &[u8]) -> Option<usize> {
    let most = delimiter.len() - 1;
    let before = begun.len();
    // The delimiter can lie on both sides of the border.
    begun.extend_from_slice(&bytes[..bytes.len().min(most)]);
    let found = match memmem::find(begun, delimiter) {
        Some(at) => Some(at + delimiter.len() - before),
        None => memmem::find(bytes, delimiter).map(|at| at + delimiter.len()),
    };
    match found {
        Some(_) => begun.clear(),
        None if bytes.len() >= most => *begun = bytes[bytes.len() - most..].to_vec(),
        None => drop(begun.drain(..begun.len().saturating_sub(most))),
    }
    found
}

/// Reads a delimiter: bytes, in which `\n`, `\t`, `\r`, `\0`, `\\` and `\xHH` stand for one byte each.
pub fn delimiter(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, used) = match rest {
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [b'r', ..] => (b'\r', 1),
            [b'0', ..] => (0, 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', high, low, ..] => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                let byte = u8::from_str_radix(digits, 16);
                let byte = byte.map_err(|_| {
                    format!("invalid delimiter '{text}': expected two hexadecimal digits after \\x")
                })?;
                (byte, 3)
            }
            _ => {
                return Err(format!(
                    "invalid delimiter '{text}': expected \\n, \\t, \\r, \\0, \\\\ or \\xHH"
                ));
            }
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    match bytes.is_empty() {
        true => Err("an empty delimiter ends no record".to_owned()),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where records end in `bytes`, byte by byte.
    fn expected(ends: &Ends, bytes: &[u8]) -> Vec<usize> {
        let (mut found, mut from, mut quoted) = (Vec::new(), 0, false);
        for at in 1..=bytes.len() {
            let record = &bytes[from..at];
            quoted ^= bytes[at - 1] == b'"';
            let is_end = match ends {
                Ends::Delimiter(delimiter) => record.ends_with(delimiter),
                Ends::Csv => !quoted && bytes[at - 1] == b'\n',
                Ends::Every(size) => record.len() as u64 == *size,
            };
            if is_end {
                found.push(at);
                from = at;
            }
        }
        found
    }

    #[test]
    fn the_ends_of_records_do_not_depend_on_the_pieces_in_which_the_bytes_come() {
        let mut random = fastrand::Rng::with_seed(57);
        let all = [
            Ends::Delimiter(b"\n".to_vec()),
            Ends::Delimiter(b"\n\n".to_vec()),
            Ends::Delimiter(b"\"a\"".to_vec()),
            Ends::Csv,
            Ends::Every(1),
            Ends::Every(7),
        ];
        for round in 0..3_000 {
            let ends = &all[round % all.len()];
            let bytes: Vec<u8> = (0..random.usize(0..60))
                .map(|_| *random.choice(b"a\n\"").unwrap())
                .collect();
            let expected = expected(ends, &bytes);
            let (mut firsts, mut lasts) = (Records::new(ends.clone()), Records::new(ends.clone()));
            let (mut found, mut from) = (Vec::new(), 0);
            while from < bytes.len() {
                let to = random.usize(from + 1..=bytes.len());
                let last = lasts.last(&bytes[from..to]).map(|at| from + at);
                let before = expected.iter().rfind(|&&end| end > from && end <= to);
                assert_eq!(last, before.copied(), "{ends:?} {bytes:?} {from} {to}");
                while let Some(at) = firsts.first(&bytes[from..to]) {
                    from += at;
                    found.push(from);
                }
                from = to;
            }
            assert_eq!(found, expected, "{ends:?} {bytes:?}");
        }
    }

    #[test]
    fn a_delimiter_is_bytes_or_what_stands_for_them() {
        for (text, expected) in [
            (";", Ok(&b";"[..])),
            (r"\0", Ok(b"\0")),
            (r"\r\n\t\\", Ok(b"\r\n\t\\")),
            (r"\xff--", Ok(b"\xff--")),
            ("", Err("an empty delimiter ends no record")),
            (
                r"\q",
                Err(r"invalid delimiter '\q': expected \n, \t, \r, \0, \\ or \xHH"),
            ),
            (
                r"\",
                Err(r"invalid delimiter '\': expected \n, \t, \r, \0, \\ or \xHH"),
            ),
            (
                r"\xg0",
                Err(r"invalid delimiter '\xg0': expected two hexadecimal digits after \x"),
            ),
        ] {
            let expected = expected.map(<[u8]>::to_vec).map_err(str::to_owned);
            assert_eq!(delimiter(text), expected);
        }
    }
}
