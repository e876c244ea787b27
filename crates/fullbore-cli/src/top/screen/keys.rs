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

/// What bytes begin with, and its length.
enum First {
    Key(Key, usize),
    /// A key that does nothing here, or what is no key.
    Unknown(usize),
    /// A part: the rest has not come.
    Part,
}

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
                First::Key(key, len) => (Some(key), len),
                First::Unknown(len) => (None, len),
                First::Part if !is_all => return None,
                First::Part if self.0 == [ESC] => (Some(Key::Esc), 1),
                First::Part => (None, self.0.len()),
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

fn first(bytes: &[u8]) -> First {
    match *bytes {
        [] | [ESC] => First::Part,
        [ESC, b'[', ref rest @ ..] => sequence(rest),
        [ESC, b'O'] => First::Part,
        [ESC, b'O', last, ..] => named(last).map_or(First::Unknown(3), |key| First::Key(key, 3)),
        [ESC, ..] => First::Key(Key::Esc, 1),
        [b'\r' | b'\n', ..] => First::Key(Key::Enter, 1),
        [0x7f | 0x08, ..] => First::Key(Key::Backspace, 1),
        [control @ ..0x20, ..] => First::Key(Key::Ctrl((control | 0x60).into()), 1),
        _ => letter(bytes),
    }
}

/// What a control sequence means, by what follows ESC and `[`: parameters, and a final byte.
fn sequence(rest: &[u8]) -> First {
    let Some(end) = rest.iter().position(|byte| !matches!(byte, 0x20..=0x3f)) else {
        return First::Part;
    };
    let number = rest[..end].split(|&byte| byte == b';').next();
    let key = match (rest[end], number) {
        (b'~', Some(b"1" | b"7")) => Some(Key::Home),
        (b'~', Some(b"4" | b"8")) => Some(Key::End),
        (b'~', Some(b"5")) => Some(Key::PageUp),
        (b'~', Some(b"6")) => Some(Key::PageDown),
        (last, _) => named(last),
    };
    match (key, rest[end]) {
        (Some(key), _) => First::Key(key, end + 3),
        (None, 0x40..=0x7e) => First::Unknown(end + 3),
        // It is broken off: what follows is something else.
        (None, _) => First::Unknown(end + 2),
    }
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

fn letter(bytes: &[u8]) -> First {
    let (text, error) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            (
                std::str::from_utf8(valid).unwrap_or_default(),
                error.error_len(),
            )
        }
    };
    match (text.chars().next(), error) {
        (Some(letter), _) => First::Key(Key::Char(letter), letter.len_utf8()),
        (None, Some(invalid)) => First::Unknown(invalid),
        (None, None) => First::Part,
    }
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
