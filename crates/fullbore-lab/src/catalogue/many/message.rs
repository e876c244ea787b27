//! The messages: each says who sent it and when, and can be checked as a whole.
//!
//! A message is not longer than PIPE_BUF, so write(2) never mixes it with those of other writers (pipe(7)). All have
//! the same length, so a read of this length finds one whole message, however many processes read.

use serde::{Deserialize, Serialize};

use crate::endpoint::words;

/// The bytes of a message: PIPE_BUF on Linux.
pub const MESSAGE: usize = 4096;

/// The bytes of the stamp, at the beginning of a message.
const STAMP: usize = 24;

/// What distinguishes a message from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The number of its writer.
    pub writer: u64,
    /// How many messages its writer has sent before.
    pub number: u64,
    /// When it was made, in nanoseconds of the monotonic clock.
    pub made_at: u64,
}

impl Stamp {
    /// Fills a message. The bytes behind the stamp depend on the writer and the number.
    pub fn fill(&self, message: &mut [u8]) {
        let (stamp, body) = message.split_at_mut(STAMP);
        let values = [self.writer, self.number, self.made_at];
        for (bytes, value) in stamp.chunks_exact_mut(8).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        words::fill(body, self.position());
    }

    /// Returns the stamp of a message, or `None` if the bytes behind it are not those of this message.
    pub fn of(message: &[u8]) -> Option<Self> {
        let (stamp, body) = message.split_at_checked(STAMP)?;
        let (values, _) = stamp.as_chunks();
        let [writer, number, made_at] = values else {
            return None;
        };
        let stamp = Self {
            writer: u64::from_le_bytes(*writer),
            number: u64::from_le_bytes(*number),
            made_at: u64::from_le_bytes(*made_at),
        };
        words::first_wrong(body, stamp.position())
            .is_none()
            .then_some(stamp)
    }

    /// Returns where the bytes behind the stamp begin in the pattern of `words`.
    fn position(&self) -> u64 {
        let message = (self.writer << 40).wrapping_add(self.number);
        message.wrapping_mul(MESSAGE as u64)
    }
}

/// A sum of messages, in whatever order they are added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many there were.
    pub count: u64,
    /// The sum of a checksum of each one's stamp.
    sum: u64,
}

impl Tally {
    /// Adds a message.
    #[inline]
    pub fn add(&mut self, stamp: &Stamp) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(checksum(stamp));
    }

    /// Adds what another process has counted.
    pub fn add_all(&mut self, other: &Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// Mixes the bits of a stamp, so that sums of different messages differ (the finalizer of SplitMix64: Steele, Lea and
/// Flood, Fast splittable pseudorandom number generators, OOPSLA 2014).
fn checksum(stamp: &Stamp) -> u64 {
    let mut bits = stamp.made_at ^ stamp.number.rotate_left(32) ^ stamp.writer.rotate_left(56);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Checks that what was read of each writer is what it has sent.
///
/// # Errors
/// Says what is missing.
pub fn compare(sent: &[Tally], read: &[Tally]) -> Result<(), String> {
    for (writer, (sent, read)) in sent.iter().zip(read).enumerate() {
        if sent.count != read.count {
            return Err(format!(
                "wrong bytes: writer {writer} sent {} messages, and {} were read",
                sent.count, read.count
            ));
        }
        if sent != read {
            return Err(format!(
                "wrong bytes: as many messages of writer {writer} were read as it had sent, but others"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: [Stamp; 3] = [
        Stamp {
            writer: 0,
            number: 0,
            made_at: 5,
        },
        Stamp {
            writer: 0,
            number: 1,
            made_at: 6,
        },
        Stamp {
            writer: 0,
            number: 2,
            made_at: 7,
        },
    ];

    fn tally(stamps: &[Stamp]) -> Tally {
        let mut tally = Tally::default();
        stamps.iter().for_each(|stamp| tally.add(stamp));
        tally
    }

    #[test]
    fn a_message_is_read_as_it_was_made_and_a_torn_one_is_found() {
        let (mut one, mut other) = ([0; MESSAGE], [0; MESSAGE]);
        STAMPS[1].fill(&mut one);
        assert_eq!(Stamp::of(&one), Some(STAMPS[1]));
        Stamp {
            writer: 63,
            ..STAMPS[1]
        }
        .fill(&mut other);
        for cut in [16, 24, 100, MESSAGE - 8] {
            let torn = [&one[..cut], &other[cut..]].concat();
            assert_eq!(Stamp::of(&torn), None, "{cut}");
        }
        assert_eq!(Stamp::of(&one[..7]), None);
    }

    #[test]
    fn messages_that_are_lost_or_doubled_are_found_in_any_order() {
        let [first, second, third] = STAMPS;
        let sent = [tally(&STAMPS)];
        compare(&sent, &[tally(&[third, first, second])]).unwrap();
        let mut parts = tally(&[second]);
        parts.add_all(&tally(&[third, first]));
        compare(&sent, &[parts]).unwrap();
        let lost = compare(&sent, &[tally(&[first, third])]).unwrap_err();
        assert!(lost.contains("sent 3 messages, and 2"), "{lost}");
        let doubled = compare(&sent, &[tally(&[first, first, third])]).unwrap_err();
        assert!(doubled.contains("but others"), "{doubled}");
    }
}
