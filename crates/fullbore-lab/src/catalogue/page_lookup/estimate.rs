//! Estimates the cost of a page's lookup from vmsplice(2): the time of each *further* page of a call.
//!
//! One vmsplice puts a window of pages into a private pipe, and another one puts a single page into it.
//! The costs that do not depend on the number of pages (the system call, the pipe's lock) cancel out in
//! the difference. What remains is the lookup (get_user_pages_fast(), 16 pages at a time; `iter_to_pipe`,
//! fs/splice.c) and the filling of a slot: the estimate is therefore larger than the lookup alone, by the
//! same amount in every row.
//!
//! The single page is always present before the call, so that a page fault counts only among the window's
//! pages. The figures are medians of many calls, also for the single page, since a call is sometimes
//! interrupted.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fullbore::{Pipe, Wait};
use fullbore_linux::{Calls, Pages, Ready, page_size};
use rustix::pipe::SpliceFlags;

use super::memory::{Found, Memory, WINDOW, Which};
use crate::endpoint::prepare::{dev_null, failed, splice_all};
use crate::task::Timing;
use fullbore_host::refusal::Unsupported;
use fullbore_results::statistics::Spread;

/// The size of the memory whose pages are looked up.
const REGION: usize = 64 << 20;

/// The smallest window, which is the number of slots of a default pipe: the time of a smaller one is too
/// close to that of one page.
const FEWEST: usize = 16;

/// The fewest spans that are measured, however long they take, so that no single interruption decides the
/// median.
const FEWEST_SPANS: usize = 5;

/// Measures one window of the memory after the other. `why` says why this is only an estimate.
pub(super) fn measure(which: Which, timing: Timing, why: &str) -> Result<Found> {
    let mut memory = Memory::map(which, REGION)?;
    let mut one_page = Pages::new(page_size())?;
    one_page.fill(1);
    let (pipe, growth) = fullbore_linux::pipe::with_capacity(WINDOW * page_size())?;
    if growth.after < FEWEST * page_size() {
        bail!(Unsupported(format!(
            "an estimate needs a pipe with {FEWEST} slots, and the kernel allows {}{}",
            growth.after / page_size(),
            growth
                .limit
                .map_or_else(String::new, |limit| format!(": {limit}")),
        )));
    }
    let mut pipe = Drained {
        pipe,
        calls: Calls::new(Wait::Block),
        null: dev_null()?,
    };
    // Both sizes are powers of two, so windows fill a span exactly.
    let window = growth.after.min(WINDOW * page_size());
    let span = Memory::span(which);
    let (warm, end) = timing.ends();
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    let is_done = |spans: usize| spans >= FEWEST_SPANS && Instant::now() >= end;
    while !is_done(together.len()) {
        for start in (0..memory.pages.len()).step_by(span) {
            memory.prepare(start..start + span)?;
            let one = pipe.time(&one_page)?;
            let windows = memory.pages[start..start + span].chunks(window);
            let all = windows.map(|window| pipe.time(window)).sum::<Result<_>>()?;
            if Instant::now() >= warm {
                alone.push(nanoseconds(one));
                together.push(nanoseconds(all));
            }
            if is_done(together.len()) {
                break;
            }
        }
    }
    let median = |times: &[f64]| Spread::of(times).map_or(f64::NAN, |spread| spread.median);
    let (together, alone) = (median(&together), median(&alone));
    let pages = window / page_size();
    Ok(Found {
        ns_per_page: per_page(together, alone, span / window, span / page_size()),
        notes: vec![format!(
            "an estimate of looking up a page and filling a slot: the time of vmsplice(2) of \
             {pages} pages minus that of one page. The kernel's own benchmark is not available \
            ({why})"
        )],
    })
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Returns the time per further page, if `calls` calls put `pages` pages into a pipe in the time
/// `together`, and the first page of each call takes as long as a call of one page, `alone`.
fn per_page(together: f64, alone: f64, calls: usize, pages: usize) -> f64 {
    (together - calls as f64 * alone) / (pages - calls) as f64
}

/// A private pipe that is empty between calls.
struct Drained {
    pipe: Pipe,
    calls: Calls,
    null: File,
}

impl Drained {
    /// Returns how long vmsplice takes to put all of `pages` into the pipe.
    fn time(&mut self, pages: &[u8]) -> Result<Duration> {
        let sink = self.pipe.writer.as_fd();
        let began = Instant::now();
        // SAFETY: the pipe is ours, no other process has its ends, and it releases the pages before this
        // returns or is dropped. They are not written to meanwhile.
        let answer = unsafe { self.calls.vmsplice(sink, pages, SpliceFlags::empty()) };
        let time = began.elapsed();
        let taken = answer.map_err(|errno| failed("vmsplice(2)", errno))?;
        let (source, null) = (self.pipe.reader.as_fd(), self.null.as_fd());
        splice_all(&mut self.calls, source, null, taken, Ready::ToRead)
            .map_err(|errno| failed("splice(2)", errno))?;
        if taken != pages.len() {
            bail!("vmsplice(2) accepted {taken} of {} bytes", pages.len());
        }
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_call_costs_falls_out() {
        // The example has two calls of 256 pages in total: 500 ns per call, and 20 ns per page.
        let (call, page) = (500.0, 20.0);
        let together = 2.0 * call + 512.0 * page;
        assert_eq!(per_page(together, call + page, 2, 512), page);
    }

    #[test]
    fn a_window_goes_into_the_pipe_whole_and_out_again() {
        let (pipe, growth) = fullbore_linux::pipe::with_capacity(16 * page_size()).unwrap();
        let mut pipe = Drained {
            pipe,
            calls: Calls::new(Wait::Block),
            null: dev_null().unwrap(),
        };
        let mut pages = Pages::new(growth.after).unwrap();
        pages.fill(0);
        for _ in 0..3 {
            match pipe.time(&pages) {
                Ok(time) => assert!(time > Duration::ZERO),
                // A sandbox may lack vmsplice(2).
                Err(error) => assert!(error.is::<Unsupported>(), "{error:#}"),
            }
        }
    }
}
