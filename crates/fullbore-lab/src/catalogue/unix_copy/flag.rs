//! Whether the running kernel knows MSG_NTCOPY: a flag of send(2) that makes the kernel copy past
//! the caches.
//!
//! It cannot be found out by trying. A kernel that does not know a flag of send(2) ignores it, and
//! Linux 6.12 gave the same bit to MSG_SOCK_DEVMEM (include/linux/socket.h). The flag was never
//! merged: it is in kernels to which somebody applied the patch series 'Nontemporal copies in unix
//! socket write path' (Joe Damato, netdev, 10 May 2022, RFC, six patches). That series makes
//! unix_stream_sendmsg() call a new function when the flag is given, so the kernel's own list of
//! functions tells.
//!
//! The rule is strict: two functions that are global in that series, and in no released kernel.
//! The second version of the series (12 June 2022) sets a field of the iterator in inline functions
//! and has no function that could be looked for. Kernels with it are taken for kernels without.

use std::fs;
use std::sync::LazyLock;

use rustix::net::SendFlags;

/// The flag; rustix does not know it.
pub const MSG_NTCOPY: SendFlags = SendFlags::from_bits_retain(0x200_0000);

/// What unix_stream_sendmsg() calls when the flag is given (patches 5 and 6, net/core/datagram.c,
/// exported), and what copies for it (patch 3, lib/iov_iter.c).
const FUNCTIONS: [&str; 2] = [
    "skb_copy_datagram_from_iter_nocache",
    "copy_page_from_iter_nocache",
];

const SYMBOLS: &str = "/proc/kallsyms";

/// Whether the flag does something here, or else why it is not used.
pub fn find() -> Result<(), String> {
    // It does not change while this process lives.
    static FOUND: LazyLock<Result<(), String>> = LazyLock::new(|| {
        if !cfg!(target_arch = "x86_64") {
            return Err("MSG_NTCOPY exists for x86-64 only".into());
        }
        let symbols = fs::read(SYMBOLS).map_err(|error| {
            format!(
                "cannot determine whether this kernel has MSG_NTCOPY ({SYMBOLS}: {error}). A \
                 kernel without it ignores the flag silently, and a normal send would be measured"
            )
        })?;
        find_in(&String::from_utf8_lossy(&symbols))
    });
    FOUND.clone()
}

/// The same for a kernel that lists these symbols, in the format of /proc/kallsyms.
fn find_in(symbols: &str) -> Result<(), String> {
    match FUNCTIONS.iter().find(|name| !has_function(symbols, name)) {
        None => Ok(()),
        Some(missing) => Err(format!(
            "this kernel has no MSG_NTCOPY ({SYMBOLS} names no function {missing}); the flag would \
             be ignored silently, and a normal send measured"
        )),
    }
}

/// Whether the kernel itself, no module, has a global function of this name. A line is an address
/// (zeros for those who may not see it), a type as nm(1) has it, a name, and perhaps `[module]`.
fn has_function(symbols: &str, name: &str) -> bool {
    symbols.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next() == Some("T") && fields.next() == Some(name) && fields.next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHOUT: &str = "\
ffffffff81b6b770 T __pfx__copy_from_iter_nocache
ffffffff81b6b780 T _copy_from_iter_nocache
ffffffff81d5a0d0 T skb_copy_datagram_from_iter
ffffffff82001000 t unix_stream_sendmsg
ffffffff821eb7d0 T copy_to_nontemporal
";

    const WITH: &str = "\
ffffffff8162d3a0 T copy_page_from_iter
ffffffff8162d450 T copy_page_from_iter_nocache
ffffffff81a3f1c0 T skb_copy_datagram_from_iter_nocache
ffffffff81a3f1f0 T skb_copy_datagram_from_iter
ffffffff81b90c10 t unix_stream_sendmsg
";

    #[test]
    fn a_kernel_with_both_functions_has_it() {
        assert_eq!(find_in(WITH), Ok(()));
        // As a user without privilege reads it.
        let hidden = WITH.replace("ffffffff81", "0000000000");
        assert_eq!(find_in(&hidden), Ok(()));
    }

    #[test]
    fn a_kernel_without_them_has_not_and_the_reason_says_so() {
        let reason = find_in(WITHOUT).unwrap_err();
        assert!(
            reason.starts_with("this kernel has no MSG_NTCOPY (/proc/kallsyms names no function ")
                && !reason.contains('\n'),
            "{reason}"
        );
        assert!(find_in("").is_err());
        assert!(find_in("nonsense\n\n T\n").is_err());
    }

    #[test]
    fn what_only_looks_like_it_does_not_count() {
        for (change, into) in [
            // One of the two only.
            (" T copy_page_from_iter_nocache", " T copy_page_from_iter_x"),
            // Prefixes and suffixes make another name.
            (" T skb_copy", " T __pfx_skb_copy"),
            ("iter_nocache\n", "iter_nocache.cold\n"),
            // Data, a local function, a weak one.
            (" T skb_copy", " D skb_copy"),
            (" T skb_copy", " t skb_copy"),
            (" T skb_copy", " W skb_copy"),
            // A module's, whatever it does.
            (
                "datagram_from_iter_nocache\n",
                "datagram_from_iter_nocache\t[other]\n",
            ),
        ] {
            assert!(find_in(&WITH.replace(change, into)).is_err(), "{into}");
        }
    }

    #[test]
    fn it_is_found_once_and_always_alike() {
        assert_eq!(find(), find());
    }
}
