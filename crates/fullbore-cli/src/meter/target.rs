//! What `--watch` names: a process, one descriptor of it, or all processes with a name.

use std::fmt;
use std::str::FromStr;

use anyhow::anyhow;
use procfs::ProcError;

use fullbore_host::process_name::{self, ProcessName};
use fullbore_host::text::error_text;
use fullbore_observe::census::scope::is_hidden;

/// What is to be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `PID` or `PID:FD`.
    One(One),
    /// `NAME` or, as pv has it, `=NAME`: all processes with this name.
    Named(String),
}

/// A process, or one fd of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct One {
    pub pid: i32,
    pub fd: Option<i32>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (name, fd) = match text.split_once(':') {
            Some((pid, fd)) if is_number(pid) => (pid, Some(fd)),
            _ => (text, None),
        };
        let number = |text: &str| text.parse().ok().filter(|_| is_number(text));
        let read = |fd| number(fd).ok_or_else(|| format!("invalid file descriptor '{fd}'"));
        let fd = fd.map(read).transpose()?;
        Ok(match process_name::parse(name)? {
            ProcessName::Pid(pid) => Self::One(One {
                pid: pid as i32,
                fd,
            }),
            ProcessName::Name(name) => Self::Named(name),
        })
    }
}

impl Target {
    /// Whether the target is one fd, not all regular files of a process.
    pub fn is_one_fd(&self) -> bool {
        matches!(self, Self::One(One { fd: Some(_), .. }))
    }
}

impl One {
    /// Returns the error of a process that cannot be watched.
    pub fn cannot(self, error: ProcError) -> anyhow::Error {
        let why = match error {
            ProcError::NotFound(_) if is_hidden(self.pid.unsigned_abs()) => {
                "Permission denied (/proc is mounted with hidepid)".to_owned()
            }
            ProcError::PermissionDenied(_) => "Permission denied".to_owned(),
            ProcError::NotFound(_) => "No such process".to_owned(),
            ProcError::Io(error, _) => error_text(&error),
            error => error.to_string(),
        };
        anyhow!("{self}: {why}")
    }
}

impl fmt::Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        match self.fd {
            None => Ok(()),
            Some(fd) => write!(f, ", fd {fd}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_pid_or_a_pid_and_an_fd() {
        let read = |text: &str| match text.parse::<Target>() {
            Ok(Target::One(one)) => Some((one.pid, one.fd)),
            _ => None,
        };
        for text in ["a b", "=a b"] {
            assert_eq!(text.parse(), Ok(Target::Named("a b".into())));
        }
        assert_eq!("=12".parse(), Ok(Target::Named("12".into())));
        assert_eq!(read("12"), Some((12, None)));
        assert_eq!(read("12:0"), Some((12, Some(0))));
        for text in [
            "",
            "=",
            "0",
            "99999999999",
            "0:1",
            "12:",
            "12:-1",
            "12:+1",
            "12:3:4",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
