//! What the options of cat do to lines. The state lasts from one file to the next, as in cat.

/// What is done to lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Number the lines (`-n`).
    pub number: bool,
    /// Number those that are not empty (`-b`).
    pub number_nonblank: bool,
    /// Leave out all but the first of several empty lines (`-s`).
    pub squeeze: bool,
    /// Mark the ends (`-E`).
    pub ends: bool,
    /// Show tabs (`-T`).
    pub tabs: bool,
    /// Show other control characters and bytes above 127 (`-v`).
    pub nonprinting: bool,
}

/// Changes lines.
#[derive(Debug, Default)]
pub struct Lines {
    options: Options,
    number: u64,
    /// Whether a line has begun and not ended.
    within: bool,
    /// The empty lines just before.
    empty: u64,
    /// Whether the last byte is a carriage return that is to be written yet: before the end of a line it is shown.
    carriage_return: bool,
}

impl Lines {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Appends to `out` what becomes of these bytes.
    pub fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            self.byte(byte, out);
        }
    }

    /// Appends what is left at the end of all files.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.carriage_return) {
            out.push(b'\r');
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        let options = self.options;
        if std::mem::take(&mut self.carriage_return) {
            match byte {
                b'\n' => out.extend_from_slice(b"^M"),
                _ => out.push(b'\r'),
            }
        }
        if byte == b'\n' {
            if !std::mem::take(&mut self.within) {
                self.empty += 1;
                if options.squeeze && self.empty > 1 {
                    return;
                }
                if options.number && !options.number_nonblank {
                    self.count(out);
                }
            }
            if options.ends {
                out.push(b'$');
            }
            return out.push(b'\n');
        }
        if !std::mem::replace(&mut self.within, true) {
            self.empty = 0;
            if options.number || options.number_nonblank {
                self.count(out);
            }
        }
        match byte {
            b'\t' if options.tabs => out.extend_from_slice(b"^I"),
            b'\r' if options.ends && !options.nonprinting => self.carriage_return = true,
            byte if !options.nonprinting || byte == b'\t' => out.push(byte),
            byte => {
                let low = byte & 0x7f;
                if byte >= 128 {
                    out.extend_from_slice(b"M-");
                }
                match low {
                    0..32 => out.extend_from_slice(&[b'^', low + 64]),
                    127 => out.extend_from_slice(b"^?"),
                    low => out.push(low),
                }
            }
        }
    }

    fn count(&mut self, out: &mut Vec<u8>) {
        self.number += 1;
        out.extend_from_slice(format!("{:>6}\t", self.number).as_bytes());
    }
}
