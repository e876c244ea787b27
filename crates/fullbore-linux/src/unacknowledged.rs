//! The unacknowledged bytes of a TCP connection.

use std::ffi::c_int;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ` of tcp(7), which is `TIOCOUTQ` (include/uapi/asm-generic/ioctls.h), the same on x86-64 and aarch64.
const SIOCOUTQ: Opcode = 0x5411;

/// Returns how many bytes were sent over a TCP connection and not acknowledged yet (`ioctl(SIOCOUTQ)`, tcp(7)). After
/// shutdown(2), the FIN counts as one: 0 means that the peer has received everything.
///
/// # Errors
/// As ioctl(2).
pub fn unacknowledged(socket: impl AsFd) -> Result<usize, Errno> {
    // SAFETY: the request writes one int, for every kind of file that supports it.
    let bytes = unsafe { ioctl(socket, Getter::<SIOCOUTQ, c_int>::new()) }?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_has_not_got_is_counted() {
        use std::io::Write;
        use std::net::{Shutdown, TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        assert_eq!(unacknowledged(&sender), Ok(0));
        // Bytes that exceed both buffers stay queued here as long as the peer does not read.
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 65536]).is_ok() {}
        assert!(unacknowledged(&sender).unwrap() > 0);
        sender.set_nonblocking(false).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        std::io::copy(&mut &receiver, &mut std::io::sink()).unwrap();
        while unacknowledged(&sender).unwrap() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_number_is_that_of_the_c_library() {
        assert_eq!(SIOCOUTQ, libc::TIOCOUTQ as Opcode);
    }
}
