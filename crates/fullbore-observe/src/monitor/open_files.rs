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

/// Returns how many files this process may open now. A library does not change that: a program may use select(2), which
/// supports no more than 1024 files, and its children inherit the limit.
pub fn files_allowed() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(1 << 20, |files| files as usize)
}

/// Raises the limit of this process on open files as far as possible, so that a monitor that is created afterwards can
/// watch more pipelines. The process must not use select(2) with more than 1024 files, and its children inherit the
/// limit.
pub fn allow_all_files() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    // Where that is refused, the monitor watches fewer pipelines.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}
