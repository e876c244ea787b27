//! Defines the options of `fullbore bench` for this group, and the sizes that follow from them.

use clap::Args;

use super::hot::LINE;
use crate::experiment::Experiment;
use fullbore_host::number::within;
use fullbore_host::refusal::Usage;
use fullbore_host::size;
use fullbore_results::run::Sizes;

/// The group's name.
pub const GROUP: &str = "unix_copy";

/// A limit above the size of any object, buffer or pipe of these experiments: without it, a size
/// that does not fit into memory would be noticed too late.
const LARGEST: usize = 1 << 30;

/// As they are typed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of the group 'unix_copy'")]
pub struct CopyOptions {
    /// Size of the object that is sent repeatedly [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    object: Option<usize>,

    /// Number of objects per measurement, instead of measuring for --seconds
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=u64::MAX))]
    count: Option<u64>,

    /// Size of the Unix socket's send buffer (SO_SNDBUF) [default: 512K]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    sndbuf: Option<usize>,

    /// Size of the memory that the sender walks between sends, to measure how a send affects its
    /// caches [default: 256K]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    hot: Option<usize>,

    /// Let the receiver read every object and check each byte, not only those of the first object;
    /// the figures include the time that this takes
    #[arg(long)]
    check_every_object: bool,
}

impl CopyOptions {
    /// Returns the sizes that follow from the options and the requested pipe size; `None` if none of the
    /// experiments is of this group.
    ///
    /// # Errors
    /// Fails if a size makes no sense.
    pub fn settle(
        &self,
        experiments: &[Experiment],
        pipe_size: Option<usize>,
    ) -> Result<Option<Sizes>, Usage> {
        let is_of_group = |one: &Experiment| one.group == GROUP;
        let sizes = || self.sizes(pipe_size);
        experiments.iter().any(is_of_group).then(sizes).transpose()
    }

    fn sizes(&self, pipe_size: Option<usize>) -> Result<Sizes, Usage> {
        let default = Sizes::default();
        let sizes = Sizes {
            object: self.object.unwrap_or(default.object),
            count: self.count,
            sndbuf: self.sndbuf.unwrap_or(default.sndbuf),
            pipe_size: pipe_size.unwrap_or(default.pipe_size),
            hot: self.hot.unwrap_or(default.hot),
            check_every_object: self.check_every_object,
        };
        for (option, size, least) in [
            ("--object", sizes.object, 1),
            ("--sndbuf", sizes.sndbuf, 1),
            ("--pipe-size", sizes.pipe_size, 1),
            ("--hot", sizes.hot, LINE),
        ] {
            if !(least..=LARGEST).contains(&size) {
                return Err(Usage(format!(
                    "invalid {option} {} for the group {GROUP}: expected {least} to {}",
                    size::typed(size as u64),
                    size::typed(LARGEST as u64)
                )));
            }
        }
        Ok(sizes)
    }

    /// Returns whether a measurement ends after a number of objects.
    pub fn is_counted(&self) -> bool {
        self.count.is_some()
    }

    /// Returns whether any of these options was given.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_options_it_is_the_rfcs_benchmark() {
        let sizes = CopyOptions::default().sizes(None).unwrap();
        assert_eq!(sizes, Sizes::default());
        assert_eq!((sizes.object, sizes.bytes()), (1_048_576, None));
        assert_eq!((sizes.sndbuf, sizes.pipe_size), (524_288, 524_288));
    }

    #[test]
    fn what_was_typed_is_what_is_measured() {
        let options = CopyOptions {
            object: Some(4096),
            count: Some(100_000),
            sndbuf: Some(128 << 10),
            hot: Some(64),
            check_every_object: true,
        };
        let sizes = options.sizes(Some(65536)).unwrap();
        let expected = Sizes {
            object: 4096,
            count: Some(100_000),
            sndbuf: 128 << 10,
            pipe_size: 65536,
            hot: 64,
            check_every_object: true,
        };
        assert_eq!(sizes, expected);
        assert_eq!(sizes.bytes(), Some(409_600_000));
        let endless = Sizes {
            count: Some(u64::MAX),
            ..sizes
        };
        assert_eq!(endless.bytes(), Some(u64::MAX));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name_in_one_line() {
        let with = |change: fn(&mut CopyOptions), pipe_size| {
            let mut options = CopyOptions::default();
            change(&mut options);
            let Usage(reason) = options.sizes(pipe_size).unwrap_err();
            assert!(!reason.contains('\n'), "{reason}");
            reason
        };
        assert!(with(|o| o.object = Some(0), None).contains("--object 0 "));
        assert!(with(|o| o.object = Some(2 << 30), None).contains("--object 2G "));
        assert!(with(|o| o.sndbuf = Some(0), None).contains("--sndbuf"));
        assert!(with(|o| o.hot = Some(0), None).contains("--hot"));
        assert!(with(|o| o.hot = Some(63), None).contains("--hot"));
        assert!(with(|_| {}, Some(0)).contains("--pipe-size"));
    }
}
