//! The digest of what was written, printed as sha256sum prints it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use fullbore_bytes::md5::Md5;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3Default;

/// What a digest is computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// As md5sum: easily forged
    Md5,
    /// As sha256sum
    Sha256,
    /// As b3sum
    Blake3,
    /// XXH3 of 64 bits: fast, but easily forged
    Xxh3,
    /// CRC-32C (Castagnoli): for accidental changes only
    Crc32c,
}

/// A digest that is being computed.
pub enum Digest {
    Md5(Md5),
    Sha256(Sha256),
    Blake3(Box<blake3::Hasher>),
    Xxh3(Box<Xxh3Default>),
    Crc32c(u32),
}

impl Digest {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Md5 => Digest::Md5(Md5::default()),
            Algorithm::Sha256 => Digest::Sha256(Sha256::new()),
            Algorithm::Blake3 => Digest::Blake3(Box::default()),
            Algorithm::Xxh3 => Digest::Xxh3(Box::default()),
            Algorithm::Crc32c => Digest::Crc32c(0),
        }
    }

    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Digest::Md5(hash) => hash.update(bytes),
            Digest::Sha256(hash) => hash.update(bytes),
            Digest::Blake3(hash) => {
                hash.update(bytes);
            }
            Digest::Xxh3(hash) => hash.update(bytes),
            Digest::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
        }
    }

    /// Returns the digest in hexadecimal digits.
    pub fn text(self) -> String {
        match self {
            Digest::Md5(hash) => hex(&hash.finalize()),
            Digest::Sha256(hash) => hex(&hash.finalize()),
            Digest::Blake3(hash) => hash.finalize().to_string(),
            Digest::Xxh3(hash) => hex(&hash.digest().to_be_bytes()),
            Digest::Crc32c(sum) => hex(&sum.to_be_bytes()),
        }
    }

    /// Returns the line about `name` that `sha256sum --check` and its like read: two spaces, and a name that
    /// begins after a backslash if it has characters that had to be escaped.
    pub fn line(self, name: &OsStr) -> Vec<u8> {
        let digest = self.text();
        let mut escaped = Vec::new();
        for &byte in name.as_bytes() {
            match byte {
                b'\\' => escaped.extend(b"\\\\"),
                b'\n' => escaped.extend(b"\\n"),
                b'\r' => escaped.extend(b"\\r"),
                byte => escaped.push(byte),
            }
        }
        let mark = if escaped.len() > name.len() { "\\" } else { "" };
        [mark.as_bytes(), digest.as_bytes(), b"  ", &escaped, b"\n"].concat()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_their_specifications() {
        // "123456789" is the check value of catalogues of CRCs; the others are known answers for "abc" and "".
        for (algorithm, bytes, expected) in [
            (Algorithm::Md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                Algorithm::Sha256,
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                Algorithm::Blake3,
                "",
                "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            ),
            (Algorithm::Xxh3, "", "2d06800538d394c2"),
            (Algorithm::Crc32c, "123456789", "e3069283"),
        ] {
            let mut digest = Digest::new(algorithm);
            for piece in bytes.as_bytes().chunks(2) {
                digest.add(piece);
            }
            let line = String::from_utf8(digest.line(OsStr::new("a b"))).unwrap();
            assert_eq!(line, format!("{expected}  a b\n"));
        }
    }

    #[test]
    fn names_are_escaped_as_sha256sum_does() {
        let line = |name| {
            let line = Digest::new(Algorithm::Crc32c).line(OsStr::new(name));
            String::from_utf8(line).unwrap()
        };
        assert_eq!(line("a\\b\nc\rd"), "\\00000000  a\\\\b\\nc\\rd\n");
        assert_eq!(line("\u{e4} b"), "00000000  \u{e4} b\n");
    }
}
