//! How many files a monitor has open, and how many it may.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The files that are open, and how many may be.
#[derive(Debug)]
pub struct Files {
    pub open: usize,
    pub most: usize,
}

impl Files {
    /// Returns whether this many more may be opened.
    pub fn have_room(&self, more: usize) -> bool {
        self.open + more <= self.most
    }

    /// Counts the files of a pipeline, which had others before. A process with many threads has more than
    /// were expected. Returns false if there are too many files now, and does not count these any more,
    /// because the pipeline must not be watched.
    pub fn replace(&mut self, had: usize, has: usize) -> bool {
        self.open = self.open.saturating_sub(had);
        let is_room = self.have_room(has);
        self.open += if is_room { has } else { 0 };
        is_room
    }
}

/// Raises the limit on open files as far as possible, and returns it.
pub fn all_files_allowed() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // This process does not use select(2), which supports no more than 1024 files.
    let limit = match setrlimit(Resource::Nofile, all) {
        Ok(()) => all,
        Err(_) => limit,
    };
    limit.current.map_or(1 << 20, |files| files as usize)
}
