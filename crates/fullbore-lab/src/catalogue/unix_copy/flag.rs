//! Detects whether the running kernel knows MSG_NTCOPY: a flag of send(2) that makes the kernel
//! copy with stores that bypass the caches.
//!
//! Trying the flag does not show it. A kernel that does not know a flag of send(2) ignores it, and
//! Linux 6.12 gave the same bit to MSG_SOCK_DEVMEM (include/linux/socket.h). The flag was never
//! merged: only kernels with the patch series 'Nontemporal copies in unix socket write path' (Joe
//! Damato, netdev, 10 May 2022, RFC, six patches) have it. That series makes unix_stream_sendmsg()
//! call a new function when the flag is given, so the kernel's list of functions shows whether it
//! is applied.
//!
//! The rule is strict: it requires two functions that are global in that series, and that no
//! released kernel has. The second version of the series (12 June 2022) sets a field of the
//! iterator in inline functions and has no function to look for. A kernel with that version is
//! treated as one without the flag.

use std::fs;
use std::sync::LazyLock;

use rustix::net::SendFlags;

/// The flag, which rustix does not define.
pub const MSG_NTCOPY: SendFlags = SendFlags::from_bits_retain(0x200_0000);

/// The function that unix_stream_sendmsg() calls when the flag is given (patches 5 and 6,
/// net/core/datagram.c, exported), and the function that copies for it (patch 3, lib/iov_iter.c).
const FUNCTIONS: [&str; 2] = [
    "skb_copy_datagram_from_iter_nocache",
    "copy_page_from_iter_nocache",
];

const SYMBOLS: &str = "/proc/kallsyms";

/// Returns `Ok` if the flag has an effect here, or else why it is not used.
pub fn find() -> Result<(), String> {
    // The result does not change while this process lives.
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

/// Does the same for a kernel with these symbols, in the format of /proc/kallsyms.
fn find_in(symbols: &str) -> Result<(), String> {
    match FUNCTIONS.iter().find(|name| !has_function(symbols, name)) {
        None => Ok(()),
        Some(missing) => Err(format!(
            "this kernel has no MSG_NTCOPY ({SYMBOLS} names no function {missing}); the flag would \
             be ignored silently, and a normal send measured"
        )),
    }
}

/// Returns whether the kernel itself, not a module, has a global function with this name. A line is
/// an address (zeros for users without the permission), a type as in nm(1), a name, and possibly
/// `[module]`.
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
        // An unprivileged user reads zeros for the addresses.
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
            // Only one of the two functions is present.
            (" T copy_page_from_iter_nocache", " T copy_page_from_iter_x"),
            // A prefix or a suffix makes another name.
            (" T skb_copy", " T __pfx_skb_copy"),
            ("iter_nocache\n", "iter_nocache.cold\n"),
            // These symbols are data, a local function and a weak one.
            (" T skb_copy", " D skb_copy"),
            (" T skb_copy", " t skb_copy"),
            (" T skb_copy", " W skb_copy"),
            // A function of a module does not count, whatever it does.
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
