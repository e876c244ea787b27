//! The version.

use std::ffi::{CStr, c_char};

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL"),
    };

/// Returns the version of the loaded library, such as "0.1.0". It is static: do not free it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_version() -> *const c_char {
    VERSION.as_ptr()
}
