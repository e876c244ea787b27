//! `Pages` where the kernel does not release pages in the usual way.

use std::fs;
use std::io::Read;
use std::os::fd::AsFd;

use crate::common::calls::refusing_some;
use fullbore_linux::Pages;
use rustix::io::Errno;

/// `MADV_DONTNEED_LOCKED`, which the libc crate does not define for every target.
const DONTNEED_LOCKED: u32 = 24;

/// Returns the kernel's flags of the mappings of these pages: `VmFlags` of proc_pid_smaps(5).
fn flags(pages: &Pages) -> Vec<String> {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let first = pages.as_ptr() as usize;
    let most =
        fullbore_linux::huge_page_size().map_or(pages.len(), |h| pages.len().next_multiple_of(h));
    let mut inside = false;
    let mut all = Vec::new();
    for line in smaps.lines() {
        let range = line.split(' ').next().and_then(|w| w.split_once('-'));
        if let Some((from, to)) = range
            && let (Ok(from), Ok(to)) = (
                usize::from_str_radix(from, 16),
                usize::from_str_radix(to, 16),
            )
        {
            inside = first <= from && to <= first + most;
        } else if inside && let Some(flags) = line.strip_prefix("VmFlags: ") {
            all.push(flags.to_owned());
        }
    }
    all
}

#[test]
fn pages_that_are_replaced_keep_what_was_asked_of_them() {
    let page = fullbore_linux::page_size();
    let refused = (2, &[libc::MADV_DONTNEED as u32, DONTNEED_LOCKED][..]);
    for (huge, flag) in [(false, "nh"), (true, "hg")] {
        for locked in [false, true] {
            let pages = match huge {
                true => Pages::huge(8 * page),
                false => Pages::new(8 * page),
            };
            let lock = |mut pages: Pages| match locked {
                true => pages.lock().map(|()| pages),
                false => Ok(pages),
            };
            let mut pages = match pages.and_then(lock) {
                Ok(pages) => pages,
                Err(error) => {
                    println!("skipped huge {huge}, locked {locked}: {error}");
                    continue;
                }
            };
            let has = |pages: &Pages, flag: &str| {
                let flags = flags(pages);
                assert!(!flags.is_empty());
                flags.iter().all(|f| f.split(' ').any(|f| f == flag))
            };
            let advised = has(&pages, flag);
            assert_eq!(has(&pages, "lo"), locked);
            pages.fill(9);
            let answer = refusing_some(libc::SYS_madvise, refused, Errno::INVAL, || {
                pages.give_back(2 * page..6 * page)
            });
            let Some(answer) = answer else { return };
            answer.unwrap();
            assert!(pages[..2 * page].iter().all(|&b| b == 9));
            assert!(pages[2 * page..6 * page].iter().all(|&b| b == 0));
            assert!(pages[6 * page..].iter().all(|&b| b == 9));
            assert_eq!(has(&pages, flag), advised, "{huge} {:?}", flags(&pages));
            assert_eq!(has(&pages, "lo"), locked, "{huge} {:?}", flags(&pages));
        }
    }
}

#[test]
fn truncated_bytes_are_not_accessible() {
    let mut pages = Pages::new(10_000).unwrap();
    pages.truncate(20_000);
    assert_eq!(pages.len(), 10_000);
    pages.truncate(100);
    assert_eq!(pages.len(), 100);
    pages.truncate(0);
    assert!(pages.is_empty());
}

#[test]
fn pages_that_were_sent_can_be_filled_again_while_the_pipe_holds_the_old_ones() {
    let pipe = fullbore::Pipe::new().unwrap();
    let file = tempfile::tempfile().unwrap();
    for huge in [false, true] {
        let new = match huge {
            true => fullbore::Pages::huge,
            false => fullbore::Pages::new,
        };
        for sink in [pipe.writer.as_fd(), file.as_fd()] {
            let mut out = fullbore::ProducerOptions::new()
                .pipe_size(0)
                .open(sink)
                .unwrap();
            assert!(out.reuse_pages().is_none());
            let mut pages = new(2 << 20).unwrap();
            for round in 1..4 {
                pages.fill(round);
                pages.truncate(8192);
                out.send_pages(pages).unwrap();
                pages = out.reuse_pages().expect("they were sent");
                assert_eq!(pages.len(), 2 << 20);
                assert!(out.reuse_pages().is_none());
            }
            out.finish().unwrap();
        }
        let mut got = vec![0; 3 * 8192];
        std::fs::File::from(pipe.reader.try_clone().unwrap())
            .read_exact(&mut got)
            .unwrap();
        let rounds = got
            .chunks(8192)
            .map(|chunk| chunk.iter().all(|&b| b == chunk[0]).then_some(chunk[0]));
        assert_eq!(
            rounds.collect::<Vec<_>>(),
            [Some(1), Some(2), Some(3)],
            "{huge}"
        );
    }
}
