//! The pipe on stdin: a small one limits both its writer and the buffer, so it is enlarged.

use std::os::fd::AsFd;
use std::sync::Arc;

use fullbore::BufferOptions;
use fullbore_linux as linux;
use fullbore_observe::census::fill::Fill;
use fullbore_observe::tune::{self, outcome, target::Target};

use super::opening::Ends;

/// The capacity that the pipe gets.
const ROOMY: usize = 1 << 20;

/// The memory limit of a cgroup that leaves room for such a pipe.
const MEMORY: u64 = 64 << 20;

/// Makes the buffer enlarge the pipe that it reads from, if that is small, as `fullbore tune` does: before any byte is
/// read, because looking through /proc for the program that writes takes a while, and only if that has filled the pipe
/// by then. A short stream, or a slow one, gains nothing.
pub fn enlarge(options: BufferOptions, ends: &Ends) -> BufferOptions {
    let source = Arc::clone(&ends.source);
    let Ok(Some(pipe)) = linux::pipe::of(&ends.source) else {
        return options;
    };
    let is_small = pipe.capacity().is_ok_and(|size| size < ROOMY);
    let Some(pipe) = pipe.identity().ok().filter(|_| is_small) else {
        return options;
    };
    options.before_reading(move || {
        let has_room = || linux::memory_limit().is_none_or(|limit| limit >= MEMORY);
        let is_full = Fill::at(&*source).is_ok_and(Fill::is_full);
        if is_full && !linux::is_closed(source.as_fd()).unwrap_or(true) && has_room() {
            // Without it, reading is only slower.
            let _ = tune::tune(&Target::Pipe(pipe), outcome::Options::growing(ROOMY));
        }
    })
}
