//! The fd that a producer sends to, which must remain the one that was checked.
//!
//! vmsplice(2) on the *read* end of a pipe writes into the memory that it is given. It is not enough to check the fd
//! once: an [`AsFd`] may return another fd each time, and any code in the process can replace standard output by
//! another file (dup2(2)). So pages are given only through a private duplicate of the descriptor, which is checked
//! after it was made.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use fullbore_linux::error::{self, Error, Result};
use fullbore_linux::pipe::{is_writable, own_writable};

/// The output that a producer sends to.
#[derive(Debug)]
pub(super) struct Output<Fd> {
    /// The sink that the caller passed in, until it is returned.
    given: Option<Fd>,
    /// A duplicate of it, which no other code can redirect.
    own: Option<OwnedFd>,
}

impl<Fd: AsFd> Output<Fd> {
    /// Creates an output that gets no pages, and is written to through `sink` itself.
    pub(super) fn shared(sink: Fd) -> Self {
        let (given, own) = (Some(sink), None);
        Self { given, own }
    }

    /// Creates an output that accepts pages: a duplicate of `sink`, which has to be the write end of a pipe. If no
    /// descriptor is left, or the pipe is in packet mode, it gets no pages.
    ///
    /// # Errors
    /// [`Error::NotAPipe`]; `EBADF` for the read end.
    pub(super) fn own(sink: Fd) -> Result<Self> {
        let own = match own_writable(sink.as_fd()) {
            Ok(own) => Some(own),
            Err(Error::Unsupported(_)) => None,
            Err(error) if matches!(error::errno(&error), Some(Errno::MFILE | Errno::NFILE)) => {
                is_writable(sink.as_fd())?;
                None
            }
            Err(error) => return Err(error),
        };
        let given = Some(sink);
        Ok(Self { given, own })
    }

    /// Returns whether it accepts pages.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    pub(super) fn given(&self) -> &Fd {
        self.given.as_ref().expect(TAKEN_BACK)
    }

    /// Returns the sink that the caller passed in. The output cannot be used any more.
    pub(super) fn take_back(&mut self) -> Fd {
        self.own = None;
        self.given.take().expect(TAKEN_BACK)
    }
}

/// Taking the output back consumes the producer.
const TAKEN_BACK: &str = "an output is used until it is taken back";

impl<Fd: AsFd> AsFd for Output<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.own {
            Some(own) => own.as_fd(),
            None => self.given().as_fd(),
        }
    }
}
