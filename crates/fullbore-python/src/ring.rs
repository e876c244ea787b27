//! The producer and the consumer of this build: those of `fullbore`, or, with the feature `ring`, those of `fullbore-ring`,
//! which can share memory. That crate is experimental, so its part of the interface is not in the default build.

use std::os::fd::OwnedFd;

use pyo3::prelude::*;

#[cfg(feature = "ring")]
pub use fullbore_ring::{Consumer, Producer};

#[cfg(not(feature = "ring"))]
pub use fullbore::{Consumer, Producer};

/// Returns the producer, which shares memory if that is asked for. It looks for the pipe in /proc, which may take long,
/// so it does not hold the interpreter's lock.
///
/// # Errors
/// `ValueError` if this build cannot share memory.
pub fn producer(
    py: Python<'_>,
    inner: fullbore::Producer<OwnedFd>,
    shared: bool,
) -> PyResult<Producer<OwnedFd>> {
    #[cfg(feature = "ring")]
    return Ok(py.detach(|| match shared {
        true => Producer::new(inner, interruptible()),
        false => inner.into(),
    }));
    #[cfg(not(feature = "ring"))]
    return not_in_this_build(py, shared).map(|()| inner);
}

/// As [`producer`].
pub fn consumer(
    py: Python<'_>,
    inner: fullbore::Consumer<OwnedFd>,
    shared: bool,
    buffer: Option<usize>,
) -> PyResult<Consumer<OwnedFd>> {
    #[cfg(feature = "ring")]
    return Ok(py.detach(|| {
        let consumer = match shared {
            true => Consumer::new(inner, interruptible()),
            false => inner.into(),
        };
        match buffer {
            Some(bytes) => consumer.buffer_size(bytes),
            None => consumer,
        }
    }));
    #[cfg(not(feature = "ring"))]
    {
        // `inner` has a buffer of this size.
        let _ = buffer;
        not_in_this_build(py, shared).map(|()| inner)
    }
}

#[cfg(feature = "ring")]
fn interruptible() -> fullbore_linux::Waiter {
    let mut waiter = fullbore_linux::Waiter::new(fullbore::Wait::Block);
    waiter.interruptible = true;
    waiter
}

#[cfg(not(feature = "ring"))]
fn not_in_this_build(_: Python<'_>, shared: bool) -> PyResult<()> {
    let text = "this build of fullbore cannot share memory: build it with the feature `ring`";
    match shared {
        true => Err(pyo3::exceptions::PyValueError::new_err(text)),
        false => Ok(()),
    }
}

/// Methods of the producer that only a ring needs.
#[cfg(not(feature = "ring"))]
pub trait NoRingOfProducer: Sized {
    fn is_sharing(&self) -> bool {
        false
    }

    fn inner(&self) -> &Self {
        self
    }

    fn sent(&self) -> u64;

    fn into_inner(self) -> Result<OwnedFd, fullbore::Unfinished<Self>>;
}

#[cfg(not(feature = "ring"))]
impl NoRingOfProducer for Producer<OwnedFd> {
    fn sent(&self) -> u64 {
        self.report().bytes
    }

    fn into_inner(mut self) -> Result<OwnedFd, fullbore::Unfinished<Self>> {
        match std::io::Write::flush(&mut self) {
            Ok(()) => Ok(self.into_parts().0),
            Err(error) => Err(fullbore::Unfinished {
                error: crate::errors::inner(error),
                producer: Box::new(self),
            }),
        }
    }
}

/// Methods of the consumer that only a ring needs.
#[cfg(not(feature = "ring"))]
pub trait NoRingOfConsumer {
    fn is_sharing(&self) -> bool {
        false
    }

    fn taken(&self) -> u64;
}

#[cfg(not(feature = "ring"))]
impl NoRingOfConsumer for Consumer<OwnedFd> {
    fn taken(&self) -> u64 {
        self.report().taken
    }
}
