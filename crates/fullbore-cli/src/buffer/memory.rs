//! How much memory a buffer may use: what was asked for, or as mbuffer does, 2% of the total memory.

use std::str::FromStr;

use fullbore_host::refusal::Usage;
use fullbore_host::size;
use fullbore_linux as linux;
use procfs::Current;

/// Percent of the memory by default.
const DEFAULT: f64 = 2.0;

/// The most percent of the memory that a buffer may use: other programs need some too.
const MOST: f64 = 90.0;

/// A size in bytes, or in percent of the memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Asked {
    Bytes(u64),
    Percent(f64),
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(number) = text.strip_suffix('%') else {
            return match size::parse(text)? {
                0 => Err("a buffer of 0 bytes holds nothing".into()),
                bytes => Ok(Self::Bytes(bytes)),
            };
        };
        match number.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= MOST => Ok(Self::Percent(percent)),
            _ => Err(format!(
                "invalid size '{text}': expected more than 0% and at most {MOST}%"
            )),
        }
    }
}

/// The total memory.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Bytes of this machine.
    pub machine: u64,
    /// Bytes that the cgroup allows, if it has a limit.
    pub cgroup: Option<u64>,
}

impl Memory {
    /// Returns the memory of this machine: what /proc/meminfo says, which a container may have of its own, or
    /// sysinfo(2) where that is missing.
    pub fn here() -> Self {
        let of_kernel = || {
            let found = rustix::system::sysinfo();
            found.totalram as u64 * u64::from(found.mem_unit)
        };
        let found = procfs::Meminfo::current().map(|found| found.mem_total);
        Self {
            machine: found.unwrap_or_else(|_| of_kernel()),
            cgroup: linux::memory_limit(),
        }
    }

    /// Returns how many bytes a buffer gets. If it is `in_memory`, and not on a disk, they have to be there.
    ///
    /// # Errors
    /// [`Usage`] if that is more than there is.
    pub fn bytes(self, asked: Option<Asked>, in_memory: bool) -> Result<usize, Usage> {
        let least = self.machine.min(self.cgroup.unwrap_or(u64::MAX)) as f64;
        let bytes = match asked.unwrap_or(Asked::Percent(DEFAULT)) {
            Asked::Bytes(bytes) => bytes,
            // A small machine has room for some pages nevertheless.
            Asked::Percent(percent) => ((least * percent / 100.0) as u64).max(128 << 10),
        };
        if in_memory && bytes as f64 > least * MOST / 100.0 {
            let least = match self.cgroup.filter(|&bytes| bytes < self.machine) {
                Some(bytes) => format!("the {} that its cgroup allows", size::format(bytes)),
                None => format!("the {} of this machine", size::format(self.machine)),
            };
            return Err(Usage(format!(
                "a buffer of {} does not fit into {least}: at most {MOST}% of that can be used; \
                 -t has a buffer on the disk instead",
                size::format(bytes)
            )));
        }
        let too_large = "the buffer is larger than the address space";
        usize::try_from(bytes).map_err(|_| Usage(too_large.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_large_as_was_asked_or_2_percent() {
        let memory = Memory {
            machine: 10 << 30,
            cgroup: Some(1 << 30),
        };
        let bytes = |text: &str| memory.bytes(Some(text.parse().unwrap()), true);
        assert_eq!(bytes("64M").unwrap(), 64 << 20);
        assert_eq!(bytes("50%").unwrap(), 512 << 20);
        assert_eq!(memory.bytes(None, true).unwrap(), (1 << 30) / 50);
        let error = bytes("2G").unwrap_err().to_string();
        assert!(error.contains("1 GiB that its cgroup allows"), "{error}");
        let on_disk = memory.bytes(Some(Asked::Bytes(2 << 30)), false);
        assert_eq!(on_disk.unwrap(), 2 << 30);
        let machine = Memory {
            cgroup: None,
            ..memory
        };
        let error = machine.bytes(Some(Asked::Bytes(10 << 30)), true);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("10 GiB of this machine"), "{error}");
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["0", "0%", "91%", "-1%", "x%", "%", "1x", "", "nan%", "inf%"] {
            assert!(text.parse::<Asked>().is_err(), "{text}");
        }
    }
}
