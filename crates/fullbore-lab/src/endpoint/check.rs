//! Rejects options of an endpoint that it cannot follow on any machine, or that have no effect, with a one-line error.
//! What two options exclude at both endpoints stands at the options; the options of the article's programs are accepted
//! as they are there.

use fullbore::Wait;
use fullbore_linux::page_size;

use super::options::{Data, Options, WayName};
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// The longest line of `--lines`, in bytes.
const LONGEST_LINE: usize = 1 << 20;

fn refused(reason: &str) -> Result<(), Usage> {
    Err(Usage(reason.into()))
}

impl Options {
    fn check_both(&self) -> Result<(), Usage> {
        let is_other = |wait| self.wait.is_some_and(|name| Wait::from(name) != wait);
        refused(if self.busy_loop && is_other(Wait::Spin) {
            "--wait contradicts --busy-loop, which means --wait spin: give one of them"
        } else if self.poll && !self.busy_loop && is_other(Wait::Poll) {
            "--wait contradicts --poll, which means --wait poll: give one of them"
        } else if self.buf_size == Some(0) || self.chunk == Some(0) {
            "--buf-size and --chunk must be above 0"
        } else if self.period == Some(0) {
            "--period must be above 0"
        } else if self.check_huge_page && !self.huge_page {
            "--check-huge-page has no effect without --huge-page"
        } else {
            return Ok(());
        })
    }

    /// Rejects options that no writer can follow, on any machine.
    pub fn check_writer(&self) -> Result<(), Usage> {
        self.check_both()?;
        self.check_double_buffering()?;
        self.check_way()?;
        refused(if self.sum {
            "--sum has no effect for 'fullbore write'"
        } else if self.same_buffer && !self.write_with_vmsplice {
            "--same-buffer has no effect without --write-with-vmsplice"
        } else if self.pause.is_some() {
            "--pause has no effect for 'fullbore write'"
        } else if self.through_pipe && !self.double_buffers() {
            "--through-pipe has no effect without --write-with-vmsplice"
        } else if self.verify && self.data == Some(Data::Constant) {
            "--verify requires --data words"
        } else if self.dont_touch_pages && self.data() == Data::Words {
            "--dont-touch-pages cannot be used with --data words: pages that were not touched hold zeros"
        } else {
            return Ok(());
        })
    }

    fn check_double_buffering(&self) -> Result<(), Usage> {
        if !self.double_buffers() {
            return Ok(());
        }
        let half = self.chunk() / 2;
        if self.pipe_size != 0 && self.pipe_size != half {
            return Err(Usage(format!(
                "--pipe-size {} cannot be used with --write-with-vmsplice: its two buffers are \
                 safe only in a pipe with the capacity of half a buffer. Omit it, or use --memory",
                size::typed(self.pipe_size as u64)
            )));
        }
        let pages = half / page_size();
        if pages * 2 * page_size() != self.chunk() || !pages.is_power_of_two() {
            return Err(Usage(format!(
                "--write-with-vmsplice needs a --buf-size of two times a power of two of {}-byte \
                 pages, because the pipe gets half of it as its capacity; {} bytes is not",
                page_size(),
                self.chunk()
            )));
        }
        Ok(())
    }

    fn check_way(&self) -> Result<(), Usage> {
        let chunk = self.chunk();
        if let Some(memory) = self.memory.filter(|memory| *memory < 2 * chunk) {
            return Err(Usage(format!(
                "--memory {} is too small: it must hold two chunks of {}",
                size::typed(memory as u64),
                size::format(chunk as u64)
            )));
        }
        let repeats = self.way() == Some(WayName::Repeat);
        let is_line = |len: usize| (1..=LONGEST_LINE).contains(&len);
        refused(
            if self.memory.is_some() && self.way.is_some_and(|way| way != WayName::Recycle) {
                "--memory can be used only with --way recycle"
            } else if self.lines.is_some_and(|len| !is_line(len)) {
                "--lines must be above 0, and 1M at most"
            } else if self.lines.is_some() && repeats {
                "--lines cannot be used with --way repeat"
            } else if self.way == Some(WayName::Socket) && chunk < 32 * 1024 {
                "--way socket requires chunks of 32K or more"
            } else if repeats && self.verify && self.period.is_none() {
                "--way repeat writes the same words again and again, and --verify cannot know after \
                 how many bytes; give --period SIZE here and the same to 'fullbore read'"
            } else if self.period.is_some() && !(repeats && self.data() == Data::Words) {
                "--period has no effect without --way repeat, and --verify or --data words"
            } else {
                return Ok(());
            },
        )
    }

    /// Rejects options that no reader can follow, on any machine.
    pub fn check_reader(&self) -> Result<(), Usage> {
        self.check_both()?;
        refused(if self.memory.is_some() {
            "--memory has no effect for 'fullbore read'"
        } else if self.lines.is_some() {
            "--lines has no effect for 'fullbore read'"
        } else if self.data.is_some() {
            "--data has no effect for 'fullbore read'"
        } else if self.way.is_some() && !self.consumes() {
            "--way has no effect for 'fullbore read', unless it is auto or ring"
        } else if self.period.is_some() && !self.verify {
            "--period has no effect without --verify"
        } else if self.through_pipe && !self.read_with_splice {
            "--through-pipe has no effect without --read-with-splice"
        } else if self.splices_through_a_pipe() && self.verify {
            "--verify cannot be used with --read-with-splice and --through-pipe: omit those two"
        } else if self.read_with_splice && self.consumes() {
            "--read-with-splice cannot be used with --way auto or --way ring, which read with the \
                 library's Consumer: omit one of them"
        } else {
            return Ok(());
        })
    }
}
