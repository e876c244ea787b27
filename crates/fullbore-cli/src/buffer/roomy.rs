//! The pipe on stdin: a small one limits both its writer and the buffer, so it is enlarged.

use std::os::fd::AsFd;
use std::sync::Arc;

use fullbore::BufferOptions;
use fullbore_linux as linux;
use fullbore_observe::tune::{self, outcome, target::Target};

use super::opening::Ends;

/// The capacity that the pipe gets.
const ROOMY: usize = 1 << 20;

/// The memory limit of a cgroup that leaves room for such a pipe.
const MEMORY: u64 = 64 << 20;

/// The bytes that show that a stream is long: looking for the program that writes takes the time of some megabytes.
const LONG: u64 = 16 << 20;

/// Makes the buffer enlarge the pipe that it reads from, if that is small and the stream is long, as `fullbore tune`
/// does. Where the stream ends already, it does nothing.
pub fn enlarge(options: BufferOptions, ends: &Ends) -> BufferOptions {
    let source = Arc::clone(&ends.source);
    let Ok(Some(pipe)) = linux::pipe::of(&ends.source) else {
        return options;
    };
    let is_small = pipe.capacity().is_ok_and(|size| size < ROOMY);
    let Some(pipe) = pipe.identity().ok().filter(|_| is_small) else {
        return options;
    };
    options.after_reading(LONG, move || {
        let has_room = linux::memory_limit().is_none_or(|limit| limit >= MEMORY);
        if has_room && !linux::is_closed(source.as_fd()).unwrap_or(true) {
            // Without it, reading is only slower.
            let _ = tune::tune(&Target::Pipe(pipe), outcome::Options::growing(ROOMY));
        }
    })
}
