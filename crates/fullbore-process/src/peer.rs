//! The process and the user at the other end of a Unix socket.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// The process and the user that connected a socket or listened on it.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The PID; 0 for a process outside this PID namespace.
    pub process: u32,
    /// The effective user ID.
    pub user: u32,
}

/// `struct ucred` of unix(7). rustix has a type for it, but does not allow a PID of 0.
#[repr(C)]
#[derive(Default)]
struct Credentials {
    process: c_int,
    user: c_uint,
    group: c_uint,
}

/// `SO_PEERCRED` (include/uapi/asm-generic/socket.h), which is the same on x86-64 and aarch64.
const SO_PEERCRED: c_int = 17;
const SOL_SOCKET: c_int = 1;

unsafe extern "C" {
    fn getsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut c_uint,
    ) -> c_int;
}

/// Returns the peer of a connected Unix socket (`SO_PEERCRED`, unix(7)).
///
/// # Errors
/// As getsockopt(2).
pub fn peer_of(socket: impl AsFd) -> Result<Peer, Errno> {
    let mut found = Credentials::default();
    let mut len = size_of::<Credentials>() as c_uint;
    // SAFETY: the kernel writes at most `len` bytes to `found`, for which all values are valid.
    let answer = unsafe {
        getsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_SOCKET,
            SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    if answer != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    Ok(Peer {
        process: u32::try_from(found.process).unwrap_or(0),
        user: found.user,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_of_a_socket_pair_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = peer_of(&one).unwrap();
        assert_eq!(peer.process, std::process::id());
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
    }

    #[test]
    fn the_numbers_are_those_of_the_c_library() {
        assert_eq!(
            (SOL_SOCKET, SO_PEERCRED),
            (libc::SOL_SOCKET, libc::SO_PEERCRED)
        );
        assert_eq!(size_of::<Credentials>(), size_of::<libc::ucred>());
    }

    #[test]
    fn a_file_has_no_peer() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(peer_of(&file).unwrap_err(), Errno::NOTSOCK);
    }
}
