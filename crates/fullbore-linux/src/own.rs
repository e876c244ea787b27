//! Descriptors that the library creates.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;

pub use fullbore_types::not_standard;

/// Creates a memfd that is closed on execve(2) and, if the kernel supports it, cannot be made executable
/// (`MFD_NOEXEC_SEAL`, Linux 6.3; the sysctl vm.memfd_noexec may require it). Its number is at least 3.
pub fn memfd(name: &str, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | MemfdFlags::CLOEXEC;
    let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        answer => answer,
    }?;
    not_standard(file)
}

/// Opens `/dev/null` for writing.
pub fn null() -> Result<OwnedFd, Errno> {
    let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    not_standard(null?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{SealFlags, fchmod, fcntl_get_seals, fstat};

    #[test]
    fn a_memfd_cannot_be_made_executable_if_the_kernel_can_seal_that() {
        /// `F_SEAL_EXEC` (include/uapi/linux/fcntl.h).
        const SEAL_EXEC: SealFlags = SealFlags::from_bits_retain(0x20);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL;
        let can_seal = memfd_create("test", flags).err() != Some(Errno::INVAL);
        for flags in [MemfdFlags::empty(), MemfdFlags::ALLOW_SEALING] {
            let file = memfd("test", flags).unwrap();
            let seals = fcntl_get_seals(&file).unwrap();
            assert_eq!(seals.contains(SEAL_EXEC), can_seal, "{seals:?}");
            if can_seal {
                assert_eq!(fstat(&file).unwrap().st_mode & 0o111, 0);
                assert_eq!(fchmod(&file, Mode::RWXU), Err(Errno::PERM));
            }
        }
    }
}
