//! How large the pipes of a pipeline may be.

/// The capacity that the kernel gives a pipe by default (pipe(7)), with pages of 4 KiB.
pub const USUAL: usize = 64 << 10;

/// Returns the capacity that each of `pipes` pipes may have if memory is limited. All pipes together get a
/// sixteenth of what the cgroup allows, because the bytes in pipes count as its memory, and each pipe gets at
/// least the kernel's default.
pub fn affordable(pipes: usize, wanted: usize, memory: Option<u64>) -> usize {
    let Some(memory) = memory else {
        return wanted;
    };
    let each = memory / 16 / pipes.max(1) as u64;
    // The kernel rounds a capacity up to a power of two.
    let each = 1 << each.max(1).ilog2();
    wanted.min(each.max(USUAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_take_a_small_part_of_the_memory_that_the_cgroup_allows() {
        const MIB: u64 = 1 << 20;
        for (pipes, memory, expected) in [
            (1, None, 1 << 20),
            (1, Some(1024 * MIB), 1 << 20),
            (1, Some(8 * MIB), 512 << 10),
            (3, Some(8 * MIB), 128 << 10),
            (3, Some(MIB), 64 << 10),
            (0, Some(0), 64 << 10),
        ] {
            assert_eq!(
                affordable(pipes, 1 << 20, memory),
                expected,
                "{pipes} in {memory:?}"
            );
        }
        assert_eq!(
            affordable(1, 4096, Some(MIB)),
            4096,
            "no more than is asked for"
        );
    }
}
