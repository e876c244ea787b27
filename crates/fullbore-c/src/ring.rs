//! The producer and the consumer of this build: those of `fullbore`, or, with the feature `ring`, those of `fullbore-ring`,
//! which can share memory. That crate is experimental, so its part of the interface is not in the default build.

#[cfg(feature = "ring")]
pub use fullbore_ring::{Consumer, Producer};

#[cfg(not(feature = "ring"))]
pub use fullbore::{Consumer, Producer};

/// A flag of fullbore_producer_options, with FULLBORE_WAY_AUTO, and of fullbore_consumer_options: bypass the pipe by
/// memory shared with its other end, if that end uses this library, has this flag too, and has the same user, and if no
/// other process has the pipe open. The bytes arrive as through the pipe, but poll(2) does not see them. It has no
/// effect with FULLBORE_FLAG_NONBLOCKING.
pub const FULLBORE_FLAG_SHARED: u32 = 128;

/// The consumer reads the bytes from memory shared with the producer, with FULLBORE_FLAG_SHARED. This is a result, and
/// not an option.
pub const FULLBORE_WAY_RING: i32 = 7;

/// The flag, if this build has it.
pub(crate) const SHARED: u32 = if cfg!(feature = "ring") {
    FULLBORE_FLAG_SHARED
} else {
    0
};

/// Returns a waiter with these options.
#[cfg(feature = "ring")]
pub fn waiter(
    wait: i32,
    deadline: i64,
    cancel: *const crate::cancel::fullbore_cancel,
) -> Result<fullbore_linux::Waiter, crate::call::Failure> {
    let mut waiter = fullbore_linux::Waiter::new(crate::arguments::wait(wait)?);
    waiter.deadline = crate::arguments::deadline(deadline)?;
    waiter.cancel = crate::cancel::named(cancel);
    Ok(waiter)
}

/// Methods of the producer that only a ring needs.
#[cfg(not(feature = "ring"))]
pub trait NoRingOfProducer {
    fn is_sharing(&self) -> bool {
        false
    }

    fn inner(&self) -> &Self {
        self
    }

    fn sent(&self) -> u64;
}

#[cfg(not(feature = "ring"))]
impl<Fd: std::os::fd::AsFd> NoRingOfProducer for Producer<Fd> {
    fn sent(&self) -> u64 {
        self.report().bytes
    }
}

/// Methods of the consumer that only a ring needs.
#[cfg(not(feature = "ring"))]
pub trait NoRingOfConsumer {
    fn taken(&self) -> u64;
}

#[cfg(not(feature = "ring"))]
impl<Fd: std::os::fd::AsFd> NoRingOfConsumer for Consumer<Fd> {
    fn taken(&self) -> u64 {
        self.report().taken
    }
}
