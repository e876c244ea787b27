//! How far a whole pipeline is.

use super::Watch;
use crate::sampling::input_file::position;

/// How far a pipeline is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The bytes of the input that have come to the end of the pipeline; those that have gone through the first pipe
    /// if the input is not known.
    pub passed: Option<u64>,
    /// The bytes of the input.
    pub total: Option<u64>,
}

impl Watch {
    /// Returns how far the pipeline is: by the position of the first stage in its input file, or by the bytes in the
    /// first pipe if there are to be `size` of them, less the share of them that lies unread in the pipes.
    pub fn progress(&self, size: Option<u64>) -> Progress {
        let first = self.pipeline.stages.first();
        let position = first.and_then(|stage| position(stage.facts.started.pid));
        let (read, total, passes) = match (size, position) {
            (None, Some(position)) => (Some(position.read), Some(position.total), 0),
            // What was read from the first pipe is not unread in it.
            (size, _) => (self.through(0), size, 1),
        };
        let passed = read.map(|read| {
            let shares = (passes..self.pipeline.links.len()).map(|link| self.share(link));
            (read as f64 * shares.product::<f64>()) as u64
        });
        Progress { passed, total }
    }

    /// Returns the bytes that have gone through a pipe, if there is one and they are known.
    fn through(&self, link: usize) -> Option<u64> {
        self.pipeline.links.get(link)?;
        self.bytes(link).bytes
    }

    /// Returns the share of the bytes in a pipe that has been read.
    fn share(&self, link: usize) -> f64 {
        let of = &self.pipeline.links[link];
        let queued = of.fill().map_or(0, |fill| fill.queued) as f64;
        match self.through(link) {
            Some(read) if queued > 0.0 => {
                // What its reader had read before it was watched went through this pipe, but for a few files.
                let before = self.pipeline.stages[of.reader].before.read;
                let read = (read + before.unwrap_or(0)) as f64;
                read / (read + queued)
            }
            _ => 1.0,
        }
    }
}
