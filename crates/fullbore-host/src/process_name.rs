//! How an option names processes: by PID, or by the name of their program.

use crate::number::pid;

/// The processes that a person named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessName {
    /// One process.
    Pid(u32),
    /// All processes with this name.
    Name(String),
}

/// Reads `4711` or `gzip`; `=4711` is a name too.
///
/// # Errors
///
/// A sentence for the user where `text` is neither.
pub fn parse(text: &str) -> Result<ProcessName, String> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match text.strip_prefix('=') {
        None if text.is_empty() => Err("expected a PID or the name of a process".to_owned()),
        Some("") => Err("expected the name of a process after '='".to_owned()),
        Some(name) => Ok(ProcessName::Name(name.to_owned())),
        None if is_number(text) => pid(text).map(ProcessName::Pid),
        None => Ok(ProcessName::Name(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_pid_and_everything_else_a_name() {
        let name = |name: &str| Some(ProcessName::Name(name.to_owned()));
        for (text, expected) in [
            ("4711", Some(ProcessName::Pid(4711))),
            ("gzip", name("gzip")),
            ("7z", name("7z")),
            ("=4711", name("4711")),
            ("=gzip", name("gzip")),
            ("0", None),
            ("99999999999", None),
            ("", None),
            ("=", None),
        ] {
            assert_eq!(parse(text).ok(), expected, "{text}");
        }
    }
}
