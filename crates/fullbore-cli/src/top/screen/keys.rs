//! The keys of a terminal in raw mode, taken out of the bytes that it sends (ECMA-48, 5.4; xterm's ctlseqs, "Alt and
//! Meta Keys" and "PC-Style Function Keys").

/// A key. Of those that no letter stands for, only the ones that do something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Ctrl(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Esc,
    Backspace,
}

/// The bytes that have come, as far as no key was taken out of them.
#[derive(Debug, Default)]
pub struct Keys(Vec<u8>);

/// What bytes begin with, and its length: a key, or `None` for one that does nothing here, or for what is no key.
type First = (Option<Key>, usize);

impl Keys {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Whether more bytes may complete a key.
    pub fn has_part(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the next key. If no more bytes are to be expected, an ESC alone is the key of that name.
    pub fn next(&mut self, is_all: bool) -> Option<Key> {
        while !self.0.is_empty() {
            let (key, len) = match first(&self.0) {
                Some(first) => first,
                None if !is_all => return None,
                None if self.0 == [ESC] => (Some(Key::Esc), 1),
                None => (None, self.0.len()),
            };
            self.0.drain(..len);
            if key.is_some() {
                return key;
            }
        }
        None
    }
}

const ESC: u8 = 0x1b;

/// Returns what bytes begin with; `None` for a part, of which the rest has not come.
fn first(bytes: &[u8]) -> Option<First> {
    let key = match *bytes {
        [] | [ESC] | [ESC, b'O'] => return None,
        [ESC, b'[', ref rest @ ..] => return sequence(rest),
        [ESC, b'O', last, ..] => return Some((named(last), 3)),
        [ESC, ..] => Key::Esc,
        [b'\r' | b'\n', ..] => Key::Enter,
        [0x7f | 0x08, ..] => Key::Backspace,
        [control @ ..0x20, ..] => Key::Ctrl((control | 0x60).into()),
        _ => return letter(bytes),
    };
    Some((Some(key), 1))
}

/// What a control sequence means, by what follows ESC and `[`: parameters, and a final byte.
fn sequence(rest: &[u8]) -> Option<First> {
    let end = rest.iter().position(|byte| !matches!(byte, 0x20..=0x3f))?;
    let number = rest[..end].split(|&byte| byte == b';').next();
    let key = match (rest[end], number) {
        (b'~', Some(b"1" | b"7")) => Some(Key::Home),
        (b'~', Some(b"4" | b"8")) => Some(Key::End),
        (b'~', Some(b"5")) => Some(Key::PageUp),
        (b'~', Some(b"6")) => Some(Key::PageDown),
        (last, _) => named(last),
    };
    // Otherwise it is broken off, and what follows is something else.
    let is_whole = matches!(rest[end], 0x40..=0x7e);
    Some((key, end + 2 + usize::from(is_whole)))
}

fn named(last: u8) -> Option<Key> {
    match last {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        b'M' => Some(Key::Enter),
        _ => None,
    }
}

fn letter(bytes: &[u8]) -> Option<First> {
    let valid = bytes.utf8_chunks().next()?.valid();
    if let Some(letter) = valid.chars().next() {
        return Some((Some(Key::Char(letter)), letter.len_utf8()));
    }
    // What is cut off may go on.
    let invalid = std::str::from_utf8(bytes).err()?.error_len()?;
    Some((None, invalid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(parts: &[&[u8]]) -> Vec<Key> {
        let mut keys = Keys::default();
        let mut found = Vec::new();
        for part in parts {
            keys.add(part);
            found.extend(std::iter::from_fn(|| keys.next(false)));
        }
        found.extend(std::iter::from_fn(|| keys.next(true)));
        assert!(!keys.has_part());
        found
    }

    #[test]
    fn keys_are_taken_out_of_what_a_terminal_sends() {
        for (bytes, expected) in [
            (
                &b"a+ "[..],
                vec![Key::Char('a'), Key::Char('+'), Key::Char(' ')],
            ),
            ("ü日".as_bytes(), vec![Key::Char('ü'), Key::Char('日')]),
            (
                b"\x03\x1a\x00",
                vec![Key::Ctrl('c'), Key::Ctrl('z'), Key::Ctrl('`')],
            ),
            (
                b"\r\n\x7f\x08",
                vec![Key::Enter, Key::Enter, Key::Backspace, Key::Backspace],
            ),
            (
                b"\x1b[A\x1b[B\x1bOA\x1bOB",
                vec![Key::Up, Key::Down, Key::Up, Key::Down],
            ),
            (
                b"\x1b[H\x1b[F\x1b[1~\x1b[4~",
                vec![Key::Home, Key::End, Key::Home, Key::End],
            ),
            (
                b"\x1b[5~\x1b[6~\x1b[1;5A",
                vec![Key::PageUp, Key::PageDown, Key::Up],
            ),
            (b"\x1b", vec![Key::Esc]),
            (b"\x1b\x1b", vec![Key::Esc, Key::Esc]),
            (b"\x1bq", vec![Key::Esc, Key::Char('q')]),
            // A key that does nothing here, the answer to a question, and what is no key.
            (
                b"\x1b[15~\x1bOP\x1b[12;40R\x1b[?1;2cq",
                vec![Key::Char('q')],
            ),
            (b"\xff\xc3q", vec![Key::Char('q')]),
            (b"\x1b[1;\x03", vec![Key::Ctrl('c')]),
            (b"\x1b[", vec![]),
            (b"\xe6\x97", vec![]),
        ] {
            assert_eq!(keys(&[bytes]), expected, "{bytes:?}");
            // An ESC that is alone for a while is a key, and so is one that another key follows.
            let each: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(keys(&each), expected, "{bytes:?} one by one");
        }
    }
}
