//! Rejects options of an endpoint that contradict each other, or that have no effect, with a one-line error.

use fullbore::Wait;
use fullbore_linux::page_size;

use super::options::{Data, Options, WayName};
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// The longest line of `--lines`, in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// Fails with the first of these options that is given.
fn no_effect(options: &[(bool, &str, &str)]) -> Result<(), String> {
    let given = options.iter().find(|(is_given, ..)| *is_given);
    given.map_or(Ok(()), |(_, option, why)| {
        Err(format!("{option} has no effect {why}"))
    })
}

impl Options {
    fn check_both(&self) -> Result<(), String> {
        let by_flags = match (self.busy_loop, self.poll) {
            (true, _) => Some((Wait::Spin, "spin")),
            (false, true) => Some((Wait::Poll, "poll")),
            (false, false) => None,
        };
        if let (Some(name), Some((wait, other))) = (self.wait, by_flags)
            && Wait::from(name) != wait
        {
            return Err(format!(
                "--wait contradicts --busy-loop or --poll, which mean --wait {other}: give one of \
                 them"
            ));
        }
        if self.buf_size == Some(0) || self.chunk == Some(0) {
            return Err("--buf-size and --chunk must be above 0".into());
        }
        if self.period == Some(0) {
            return Err("--period must be above 0".into());
        }
        if self.dont_touch_pages && self.check_huge_page {
            return Err(
                "--check-huge-page cannot be used with --dont-touch-pages: pages that were not \
                 touched cannot be checked"
                    .into(),
            );
        }
        if self.check_huge_page && !self.huge_page {
            return Err("--check-huge-page requires --huge-page".into());
        }
        Ok(())
    }

    /// Rejects options that no writer can follow, on any machine.
    pub fn check_writer(&self) -> Result<(), Usage> {
        if self.json == Some(None) {
            return Err(Usage(
                "--json needs a file, because stdout is the pipe: --json=FILE, or --json=/dev/stderr".into(),
            ));
        }
        self.check_both()
            .and_then(|()| self.check_double_buffering())
            .and_then(|()| self.check_way())
            .and_then(|()| self.check_effects_at_the_writer())
            .and_then(|()| {
                if self.verify && self.data == Some(Data::Constant) {
                    Err("--verify requires --data words".into())
                } else if self.dont_touch_pages && self.data() == Data::Words {
                    Err(
                        "--dont-touch-pages cannot be used with --data words: pages that were not \
                     touched hold zeros"
                            .into(),
                    )
                } else {
                    Ok(())
                }
            })
            .map_err(Usage)
    }

    fn check_double_buffering(&self) -> Result<(), String> {
        if !self.double_buffers() {
            return if self.same_buffer {
                Err("--same-buffer requires --write-with-vmsplice".into())
            } else {
                Ok(())
            };
        }
        if self.chunk.is_some() {
            return Err(
                "--chunk cannot be used with --write-with-vmsplice: --buf-size sets the size of \
                 its buffers"
                    .into(),
            );
        }
        let size = self.chunk();
        let half = size / 2;
        if self.pipe_size != 0 && self.pipe_size != half {
            return Err(format!(
                "--pipe-size {} cannot be used with --write-with-vmsplice: its two buffers are \
                 safe only in a pipe with the capacity of half a buffer. Omit it, or use --memory",
                size::typed(self.pipe_size as u64)
            ));
        }
        if !size.is_multiple_of(2) {
            return Err(format!(
                "--write-with-vmsplice needs an even --buf-size, and {size} is odd"
            ));
        }
        if !half.is_multiple_of(page_size()) || !(half / page_size()).is_power_of_two() {
            return Err(format!(
                "--write-with-vmsplice needs a --buf-size of two times a power of two of {}-byte \
                 pages, because the pipe gets half of it as its capacity; {size} bytes is not",
                page_size()
            ));
        }
        Ok(())
    }

    fn check_way(&self) -> Result<(), String> {
        if let Some(memory) = self.memory {
            if self.way.is_some_and(|way| way != WayName::Recycle) {
                return Err("--memory can be used only with --way recycle".into());
            }
            let chunk = self.chunk();
            if memory < 2 * chunk {
                return Err(format!(
                    "--memory {} is too small: it must hold two chunks of {}",
                    size::typed(memory as u64),
                    size::format(chunk as u64)
                ));
            }
        }
        if self
            .lines
            .is_some_and(|len| !(1..=LONGEST_LINE).contains(&len))
        {
            let most = size::typed(LONGEST_LINE as u64);
            return Err(format!("--lines must be above 0, and {most} at most"));
        }
        if self.lines.is_some() && (self.write_with_vmsplice || self.way == Some(WayName::Repeat)) {
            return Err("--lines can be used only alone, or with another --way than repeat".into());
        }
        if self.way == Some(WayName::Socket) && self.chunk() < 32 * 1024 {
            return Err("--way socket requires chunks of 32K or more".into());
        }
        let Some(way) = self.way() else {
            return Ok(());
        };
        if way == WayName::Repeat && self.verify && self.period.is_none() {
            return Err(
                "--way repeat writes the same words again and again, and --verify cannot know after \
                 how many bytes; give --period SIZE here and the same to 'fullbore read'"
                    .into(),
            );
        }
        Ok(())
    }

    /// Rejects the options of a writer that would have no effect. Those of the article's programs are
    /// accepted as they are there, unless one of ours is the reason.
    fn check_effects_at_the_writer(&self) -> Result<(), String> {
        const AT_WRITE: &str = "for 'fullbore write'";
        let way = self.way();
        let only_lines = self.lines.is_some() && way.is_none();
        let repeats = way == Some(WayName::Repeat);
        let buffer_is_its_own = only_lines || repeats;
        let its_own = match repeats {
            true => "with --way repeat",
            false => "with --lines without --way",
        };
        let library = "with --way or --memory";
        no_effect(&[
            (self.sum, "--sum", AT_WRITE),
            (self.pause.is_some(), "--pause", AT_WRITE),
            (
                self.period.is_some() && !repeats,
                "--period",
                "without --way repeat",
            ),
            (
                self.period.is_some() && self.data() == Data::Constant,
                "--period",
                "without --verify or --data words",
            ),
            (
                self.through_pipe && !self.double_buffers(),
                "--through-pipe",
                "without --write-with-vmsplice",
            ),
            (
                self.gift && self.through_pipe,
                "--gift",
                "with --through-pipe",
            ),
            (
                self.write_with_vmsplice && self.memory.is_some(),
                "--write-with-vmsplice",
                "with --memory",
            ),
            (
                buffer_is_its_own && self.buf_size.is_some(),
                "--buf-size",
                its_own,
            ),
            (
                buffer_is_its_own && self.chunk.is_some(),
                "--chunk",
                its_own,
            ),
            (buffer_is_its_own && self.huge_page, "--huge-page", its_own),
            (only_lines && self.lock_memory, "--lock-memory", its_own),
            (
                only_lines && self.dont_touch_pages,
                "--dont-touch-pages",
                its_own,
            ),
            (only_lines && self.gift, "--gift", its_own),
            (only_lines && self.wait.is_some(), "--wait", its_own),
            (only_lines && self.busy_loop, "--busy-loop", its_own),
            (only_lines && self.poll, "--poll", its_own),
            (
                self.huge_page && way == Some(WayName::Auto),
                "--huge-page",
                "with --way auto",
            ),
            (self.gift && way.is_some(), "--gift", library),
            (self.same_buffer && way.is_some(), "--same-buffer", library),
            (
                self.dont_touch_pages && way.is_some(),
                "--dont-touch-pages",
                library,
            ),
            (self.lock_memory && way.is_some(), "--lock-memory", library),
        ])
    }

    /// Rejects the options of a reader that would have no effect, as for a writer.
    fn check_effects_at_the_reader(&self) -> Result<(), String> {
        const AT_READ: &str = "for 'fullbore read'";
        let library = "with --way, which reads with the library's Consumer";
        no_effect(&[
            (self.memory.is_some(), "--memory", AT_READ),
            (self.lines.is_some(), "--lines", AT_READ),
            (self.data.is_some(), "--data", AT_READ),
            (
                self.way.is_some() && !self.consumes(),
                "--way",
                "for 'fullbore read', unless it is auto or ring",
            ),
            (
                self.period.is_some() && !self.verify,
                "--period",
                "without --verify",
            ),
            (
                self.pause.is_some() && self.read_with_splice,
                "--pause",
                "with --read-with-splice",
            ),
            (
                self.through_pipe && !self.read_with_splice,
                "--through-pipe",
                "without --read-with-splice",
            ),
            (
                self.gift && self.through_pipe,
                "--gift",
                "with --through-pipe",
            ),
            (self.consumes() && self.huge_page, "--huge-page", library),
            (
                self.consumes() && self.lock_memory,
                "--lock-memory",
                library,
            ),
            (
                self.consumes() && self.dont_touch_pages,
                "--dont-touch-pages",
                library,
            ),
            (self.consumes() && self.gift, "--gift", library),
        ])
    }

    /// Rejects options that no reader can follow, on any machine.
    pub fn check_reader(&self) -> Result<(), Usage> {
        self.check_both()
            .and_then(|()| self.check_effects_at_the_reader())
            .and_then(|()| {
                if self.read_with_splice && self.consumes() {
                    Err(
                        "--read-with-splice cannot be used with --way auto or --way ring, which read \
                         with the library's Consumer: omit one of them"
                            .into(),
                    )
                } else if self.read_with_splice && self.sum {
                    Err(
                        "--sum cannot be used with --read-with-splice, which does not read the \
                         data: use --verify"
                            .into(),
                    )
                } else if self.splices_through_a_pipe() && self.verify {
                    Err(
                        "--verify cannot be used with --read-with-splice and --through-pipe: omit \
                         those two"
                            .into(),
                    )
                } else {
                    Ok(())
                }
            })
            .map_err(Usage)
    }
}
