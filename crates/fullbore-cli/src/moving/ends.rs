//! The files, pipes and terminals that bytes come from and go to, under the names that a person gave
//! them.

use std::fmt;
use std::fs::File;
use std::io::{self, Stdin, Stdout, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::{BadInput, Usage};

/// An input as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Stdin,
    File(PathBuf),
}

/// An input that is open.
pub enum Source {
    Stdin(Stdin),
    File(File),
}

impl Input {
    /// The inputs that these names mean: stdin if there are none, and for each `-`.
    pub fn all(names: &[PathBuf]) -> Vec<Self> {
        if names.is_empty() {
            return vec![Input::Stdin];
        }
        names
            .iter()
            .map(|name| match name.as_os_str() == "-" {
                true => Input::Stdin,
                false => Input::File(name.clone()),
            })
            .collect()
    }

    /// Opens it.
    ///
    /// # Errors
    /// With its name.
    pub fn open(&self) -> anyhow::Result<Source> {
        match self {
            Input::Stdin => Ok(Source::Stdin(stdin())),
            Input::File(path) => File::open(path)
                .map(Source::File)
                .map_err(|error| BadInput(format!("open {self}: {}", said(&error))).into()),
        }
    }

    /// Bytes that all of them have, as far as that can be known.
    pub fn size_of_all(inputs: &[Self]) -> Option<u64> {
        inputs.iter().map(Self::size).sum()
    }

    fn size(&self) -> Option<u64> {
        let stat = match self {
            Input::Stdin => rustix::fs::fstat(stdin()).ok()?,
            Input::File(path) => rustix::fs::stat(path).ok()?,
        };
        let regular =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        let size = u64::try_from(stat.st_size).ok().filter(|_| regular)?;
        match self {
            // Somebody may have read from it before.
            Input::Stdin => Some(size.saturating_sub(rustix::fs::tell(stdin()).unwrap_or(0))),
            Input::File(_) => Some(size),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Stdin => f.write_str("stdin"),
            Input::File(path) => write!(f, "'{}'", path.display()),
        }
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Source::Stdin(stdin) => stdin.as_fd(),
            Source::File(file) => file.as_fd(),
        }
    }
}

/// Where the bytes go. A file is opened, and what it held dropped, only when the first input is
/// open too.
pub enum Output {
    Stdout(Stdout),
    Named { path: PathBuf, append: bool },
    File { path: PathBuf, file: File },
}

impl Output {
    /// Stdout, or the file of that name.
    pub fn new(path: Option<PathBuf>, append: bool) -> Self {
        match path {
            None => Output::Stdout(stdout()),
            Some(path) => Output::Named { path, append },
        }
    }

    /// Opens it, if that has not been done.
    ///
    /// # Errors
    /// [`Usage`] where one of the inputs is the same file: then it is left as it was.
    pub fn open(&mut self, inputs: &[Input]) -> anyhow::Result<()> {
        if let Output::Named { path, append } = self {
            let file = open_output(path, *append, inputs)?;
            *self = Output::File {
                path: std::mem::take(path),
                file,
            };
        }
        Ok(())
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Output::File { file, .. } => file.as_fd(),
            Output::Stdout(stdout) => stdout.as_fd(),
            Output::Named { .. } => unreachable!("an output is opened before it is written to"),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Output::Stdout(_) => f.write_str("stdout"),
            Output::Named { path, .. } | Output::File { path, .. } => {
                write!(f, "'{}'", path.display())
            }
        }
    }
}

fn open_output(path: &Path, append: bool, inputs: &[Input]) -> anyhow::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(!append)
        .append(append)
        .open(path)
        .map_err(|error| anyhow::anyhow!("open '{}': {}", path.display(), said(&error)))?;
    let metadata = file.metadata().context("fstat")?;
    if metadata.is_file() {
        for input in inputs {
            let same = match input {
                Input::Stdin => rustix::fs::fstat(stdin())
                    .is_ok_and(|s| (s.st_dev, s.st_ino) == (metadata.dev(), metadata.ino())),
                Input::File(path) => std::fs::metadata(path)
                    .is_ok_and(|m| (m.dev(), m.ino()) == (metadata.dev(), metadata.ino())),
            };
            if same {
                return Err(both_ends(input).into());
            }
        }
        if !append && metadata.len() > 0 {
            file.set_len(0).map_err(|error| {
                anyhow::anyhow!("truncate '{}': {}", path.display(), said(&error))
            })?;
        }
    }
    Ok(file)
}

/// The error of an input that is the output too.
pub fn both_ends(input: &Input) -> Usage {
    Usage(format!("{input} is both input and output"))
}

/// The kernel's words without the number behind them.
pub fn said(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
