//! The pipe on stdin: a small one limits both its writer and the buffer, so it is enlarged.

use std::sync::Arc;

use fullbore::BufferOptions;
use fullbore_observe::census::fill::Fill;

use super::opening::Ends;
use crate::copying;

/// Makes the buffer enlarge the pipe that it reads from: before any byte is read, because looking through /proc for the
/// program that writes takes a while, and only if that has filled the pipe by then. A short stream, or a slow one, gains
/// nothing.
pub fn enlarge(options: BufferOptions, ends: &Ends) -> BufferOptions {
    let source = Arc::clone(&ends.source);
    options.before_reading(move || {
        if Fill::at(&*source).is_ok_and(Fill::is_full) {
            copying::enlarge(&*source, None);
        }
    })
}
