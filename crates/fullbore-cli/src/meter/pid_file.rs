//! The file with the PID of a meter, which is removed when the meter ends, whatever ends it: a small process
//! waits for that.

use std::path::{Path, PathBuf};

use crate::error_text::{Failed, shown};
use crate::processes::guard::Guard;

/// A file that is removed with this value, or with this process.
pub struct PidFile {
    path: PathBuf,
    text: String,
    /// Ended after the file was removed.
    _guard: Guard,
}

impl PidFile {
    /// Writes the file. No other thread may have been started.
    ///
    /// # Errors
    /// If the file cannot be written, or no process can be started.
    pub fn new(path: PathBuf) -> anyhow::Result<Self> {
        let writing = format!("write '{}'", shown(&path));
        let text = format!("{}\n", std::process::id());
        let (theirs, said) = (path.clone(), text.clone());
        let guard = Guard::start(move || remove(&theirs, &said)).failed(&writing)?;
        let file = Self {
            path,
            text,
            _guard: guard,
        };
        std::fs::write(&file.path, &file.text).failed(&writing)?;
        Ok(file)
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        remove(&self.path, &self.text);
    }
}

/// Removes the file, unless another process has written its PID to it. A FIFO is left alone: reading it would wait.
fn remove(path: &Path, text: &str) {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file && std::fs::read_to_string(path).is_ok_and(|found| found == text) {
        let _ = std::fs::remove_file(path);
    }
}
