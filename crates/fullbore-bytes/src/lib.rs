//! Loops over bytes that must be fast in every build, also in that of the tests: the pattern that shows whether a stream
//! is right, and MD5.

#![forbid(unsafe_code)]

pub mod md5;
pub mod pattern;
