//! The memory that the two ends of a pipe share instead of using the pipe, if both use the library of
//! fullbore and allow it (`fullbore_ring`). The bytes in it are in no counter of the kernel, and not in the
//! pipe; the words of the ring tell how many they are, and which side sleeps.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use fullbore_process::proc_directory;
use fullbore_ring::{RingState, RingView};

use crate::census::fill::Fill;

/// The most fds of a process that are looked at.
const MOST: usize = 4096;

/// The rings of a pipe. A new writer makes another one, and the last writer may have been killed.
#[derive(Debug, Default)]
pub struct Rings {
    /// Those that are open, by the inode of their file, each with the bytes that are counted already.
    open: BTreeMap<u64, (RingView, u64)>,
    /// Bytes that went through those that are closed.
    gone: u64,
    /// Whether it has looked before.
    has_looked: bool,
}

/// A ring that is used at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// How full it is.
    pub fill: Fill,
    /// Whether its writer sleeps until there is room.
    pub writer_sleeps: bool,
    /// Whether its reader sleeps until there are bytes.
    pub reader_sleeps: bool,
}

impl Rings {
    /// Looks for rings of the pipe with this inode among the files of its writers. If the pipeline is older
    /// than the observation, the bytes that have gone through before the first look do not count.
    pub fn look(&mut self, pipe: u64, writers: impl Iterator<Item = u32>, is_older: bool) {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let mut found = Vec::new();
        for pid in writers {
            let fds = fs::read_dir(proc_directory(pid).join("fd"));
            for fd in fds.into_iter().flatten().flatten().take(MOST) {
                let link = fs::read_link(fd.path());
                if link
                    .is_ok_and(|link| RingView::pipe_of(link.as_os_str().as_bytes()) == Some(pipe))
                {
                    if let Ok(Some(view)) = RingView::open(&fd.path()) {
                        found.push(view.inode());
                        let before = view.state().filter(|_| is_older && is_first);
                        let before = before.map_or(0, |state| state.claimed);
                        self.open.entry(view.inode()).or_insert((view, before));
                    }
                }
            }
        }
        // What was closed stays until its writer has closed the file, so that it is not counted again.
        let gone = &mut self.gone;
        self.open.retain(|inode, (view, before)| {
            let last = view.state().filter(|state| state.is_closed);
            match last.filter(|_| !found.contains(inode)) {
                Some(last) => {
                    *gone += last.claimed.saturating_sub(*before);
                    false
                }
                None => true,
            }
        });
    }

    /// Returns the bytes that went through shared memory so far.
    pub fn bytes(&self) -> u64 {
        let of = |(view, before): &(RingView, u64)| {
            let state = view.state();
            state.map_or(0, |state| state.claimed.saturating_sub(*before))
        };
        self.gone + self.open.values().map(of).sum::<u64>()
    }

    /// Returns the ring that is used instead of the pipe at this moment, if there is one.
    pub fn in_use(&self) -> Option<InUse> {
        let states = self.open.values().map(|(view, _)| (view, view.state()));
        let is_open = |state: &RingState| !state.is_closed;
        let (view, state) = states
            .filter_map(|(view, state)| Some((view, state.filter(is_open)?)))
            .next_back()?;
        Some(InUse {
            fill: Fill {
                queued: (state.published - state.claimed) as usize,
                capacity: view.size() as usize,
                no_slot_is_free: Some(state.producer_sleeps),
            },
            writer_sleeps: state.producer_sleeps,
            reader_sleeps: state.consumer_sleeps,
        })
    }
}
