//! MSG_NTCOPY: a flag of send(2) that makes the kernel copy with stores that bypass the caches.
//!
//! No released kernel has it. It was proposed twice (Joe Damato, 'Nontemporal copies in unix socket write
//! path', netdev, May and June 2022); `kernels/patches/ntcopy` has it for Linux 6.12. A kernel that does
//! not know a flag of send(2) ignores it, so trying it shows nothing. The patches add a file that shows
//! that the flag is known, and how many bytes were copied because of it.

use std::fs;

use fullbore_host::text::error_text;
use rustix::net::SendFlags;

/// The flag, which rustix does not define. The proposal's value has belonged to MSG_SOCK_DEVMEM since
/// Linux 6.12 (include/linux/socket.h); this is the value of our patches.
pub const MSG_NTCOPY: SendFlags = SendFlags::from_bits_retain(0x1000_0000);

/// The file with the number of bytes that were copied past the caches because of the flag since boot.
const COUNTER: &str = "/proc/sys/net/core/ntcopy_bytes";

/// Returns how many bytes the kernel has copied past the caches because of the flag, modulo 2⁶⁴, or why
/// the flag is not used.
pub fn copied() -> Result<u64, String> {
    count_in(&fs::read_to_string(COUNTER).map_err(|error| {
        format!(
            "this kernel has no MSG_NTCOPY ({COUNTER}: {}); the flag would be ignored silently, \
             and a normal send measured",
            error_text(&error)
        )
    })?)
}

fn count_in(text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("{COUNTER} has no number: '{}'", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_a_number_and_a_kernel_without_it_has_no_flag() {
        assert_eq!(count_in("20971520\n"), Ok(20 << 20));
        for text in ["", "many\n", "-1\n"] {
            assert!(count_in(text).unwrap_err().contains(COUNTER), "{text}");
        }
        if let Err(reason) = copied() {
            assert!(
                reason.starts_with(
                    "this kernel has no MSG_NTCOPY (/proc/sys/net/core/ntcopy_bytes: "
                ),
                "{reason}"
            );
        }
    }
}
