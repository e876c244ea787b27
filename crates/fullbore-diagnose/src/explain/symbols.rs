//! Finds the names of the kernel's functions. /proc/kallsyms lists them, with addresses of zero for users
//! without the permission (`kptr_restrict`).

use std::fs;

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct Kernel {
    /// The addresses and names, in ascending order.
    functions: Vec<(u64, Box<str>)>,
}

impl Kernel {
    /// Reads the functions of the running kernel; there are none if they are hidden.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// Parses lines such as `ffffffff81612ed5 t find_mergeable_anon_vma`, with a module's name at the
    /// end.
    pub(super) fn parse(text: &str) -> Self {
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        functions.sort_unstable();
        functions.dedup_by_key(|function| function.0);
        Self { functions }
    }

    /// Returns whether no function is known.
    pub fn is_hidden(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the function that contains `address`.
    pub fn name(&self, address: u64) -> Option<&str> {
        let functions = &self.functions;
        let after = functions.partition_point(|(start, _)| *start <= address);
        let (_, name) = functions.get(after.checked_sub(1)?)?;
        Some(name)
    }
}

fn function(line: &str) -> Option<(u64, Box<str>)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    // A symbol with the prefix '__pfx_' is no function, but the padding before one (6.2).
    (address != 0 && is_code && !name.starts_with("__pfx_")).then(|| (address, name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list as root sees it, and as other users see it.
    const SEEN: &str = "\
ffffffff81000000 T _stext
ffffffff81402000 t __pfx_pipe_lock
ffffffff81402010 t pipe_lock
ffffffff81402050 T pipe_unlock
ffffffff81402090 d pipe_ops
ffffffffc0001000 t ext4_read\t[ext4]
";

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let kernel = Kernel::parse(SEEN);
        assert_eq!(kernel.name(0xffff_ffff_8140_2010), Some("pipe_lock"));
        assert_eq!(kernel.name(0xffff_ffff_8140_204f), Some("pipe_lock"));
        assert_eq!(kernel.name(0xffff_ffff_8140_2099), Some("pipe_unlock"));
        assert_eq!(kernel.name(0xffff_ffff_c000_1001), Some("ext4_read"));
        assert_eq!(kernel.name(0x1000), None);
        assert!(!kernel.is_hidden());
    }

    #[test]
    fn addresses_of_zero_are_hidden_ones() {
        let hidden: String = SEEN
            .lines()
            .map(|line| format!("0000000000000000{}\n", &line[16..]))
            .collect();
        let kernel = Kernel::parse(&hidden);
        assert!(kernel.is_hidden());
        assert_eq!(kernel.name(0xffff_ffff_8140_2010), None);
        assert!(Kernel::parse("").is_hidden());
    }
}
