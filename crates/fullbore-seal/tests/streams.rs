//! Tests that a sealed stream returns its content, and that all damage is detected.

use std::io::{self, ErrorKind, Read, Write};

use fullbore_seal::{Damage, Sealer, Unsealer};

/// Writes a stream as specified in docs/seal.md, without the code under test.
fn stream(frames: &[&[u8]]) -> Vec<u8> {
    let mut stream = b"\x8Ffbseal\x01".to_vec();
    let mut content = Vec::new();
    for frame in frames {
        content.extend_from_slice(frame);
        stream.extend((frame.len() as u32).to_le_bytes());
        stream.extend_from_slice(frame);
        stream.extend(&blake3::hash(&content).as_bytes()[..8]);
    }
    stream.extend([0; 4]);
    stream.extend((content.len() as u64).to_le_bytes());
    stream.extend(blake3::hash(&content).as_bytes());
    stream
}

fn sealed(frames: &[&[u8]]) -> Vec<u8> {
    let mut sealer = Sealer::new(Vec::new()).unwrap();
    for frame in frames {
        sealer.write_all(frame).unwrap();
    }
    sealer.finish().unwrap()
}

/// Returns the content that is read before the end or an error, and the damage.
fn unsealed(stream: impl Read) -> (Vec<u8>, Result<(), Damage>) {
    let mut content = Vec::new();
    let mut unsealer = Unsealer::new(stream);
    let read = unsealer.read_to_end(&mut content);
    if let Err(error) = &read {
        let again = unsealer.read(&mut [0]).unwrap_err();
        assert_eq!(Damage::of(&again), Damage::of(error));
    }
    let damage = read.map(drop).map_err(|error| Damage::of(&error).unwrap());
    (content, damage)
}

/// Returns content of this length in which no two positions are equal.
fn content(len: usize) -> Vec<u8> {
    (0..len.div_ceil(8) as u64)
        .flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
        .take(len)
        .collect()
}

/// Splits content into frames of random lengths.
fn random_frames(content: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut frames) = (content, Vec::new());
    while !rest.is_empty() {
        let (frame, others) = rest.split_at(fastrand::usize(1..=rest.len().min(300_000)));
        frames.push(frame);
        rest = others;
    }
    frames
}

const SMALL: &[&[u8]] = &[b"h", b"ello, ", b"world", b"!\n"];

#[test]
fn a_stream_is_what_the_page_specifies_and_gives_back_its_content() {
    let big = content(3 << 20);
    let frames = random_frames(&big);
    for frames in [&[][..], SMALL, &frames] {
        let made = sealed(frames);
        assert!(made == stream(frames));
        let (content, damage) = unsealed(&made[..]);
        assert!(content == frames.concat());
        assert_eq!(damage, Ok(()));
    }
    // A longer write becomes several frames.
    let expected: Vec<&[u8]> = big.chunks(1 << 20).collect();
    assert!(sealed(&[&big]) == stream(&expected));
    assert_eq!(sealed(&[b"a", b"", b"b"]), stream(&[b"a", b"b"]));
}

#[test]
fn the_test_vectors_of_the_page_are_right() {
    let page = include_str!("../../../docs/seal.md");
    let (_, vectors) = page.split_once("## Test vectors").unwrap();
    let rows = vectors
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("frames"));
    let mut count = 0;
    for row in rows {
        let (frames, stream) = row.trim_matches('|').split_once('|').unwrap();
        let bytes = |text: &str| -> Vec<u8> {
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
            digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
        };
        let frames: Vec<Vec<u8>> = match frames.trim() {
            "none" => Vec::new(),
            frames => frames.split(',').map(bytes).collect(),
        };
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        assert_eq!(sealed(&frames), bytes(stream), "{row}");
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn a_small_stream_that_is_cut_off_at_any_byte_is_told() {
    let (whole, content) = (sealed(SMALL), SMALL.concat());
    for len in 0..whole.len() {
        let (read, damage) = unsealed(&whole[..len]);
        assert_eq!(damage, Err(Damage::NoSeal { after: len as u64 }));
        assert!(content.starts_with(&read), "{len}");
        let text = damage.unwrap_err().to_string();
        assert_eq!(
            text,
            format!("the stream ends after {len} bytes, without its seal")
        );
    }
}

#[test]
fn a_large_stream_that_is_cut_off_at_1000_random_places_is_told() {
    let content = content(2 << 20);
    let whole = sealed(&random_frames(&content));
    for _ in 0..1000 {
        let len = fastrand::usize(..whole.len());
        let (read, damage) = unsealed(&whole[..len]);
        assert_eq!(damage, Err(Damage::NoSeal { after: len as u64 }));
        assert!(content.starts_with(&read), "{len}");
    }
}

#[test]
fn every_flipped_bit_is_told_and_no_wrong_byte_is_returned() {
    let (whole, content) = (sealed(SMALL), SMALL.concat());
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (read, damage) = unsealed(&changed[..]);
        assert!(damage.is_err(), "bit {bit}");
        assert!(content.starts_with(&read), "bit {bit}");
    }
}

#[test]
fn parts_that_are_missing_doubled_or_in_another_order_are_told() {
    let whole = sealed(SMALL);
    for _ in 0..2000 {
        let mut places = [0; 3].map(|_| fastrand::usize(..=whole.len()));
        places.sort_unstable();
        let [a, b, c] = places;
        let (before, first, second, after) = (&whole[..a], &whole[a..b], &whole[b..c], &whole[c..]);
        for parts in [
            [before, second, first, after],
            [before, first, first, &whole[b..]],
            [before, second, after, &[]],
        ] {
            let changed = parts.concat();
            if changed != whole {
                let (read, damage) = unsealed(&changed[..]);
                assert!(
                    damage.is_err() && SMALL.concat().starts_with(&read),
                    "{places:?}"
                );
            }
        }
    }
}

#[test]
fn bytes_behind_the_seal_are_told() {
    let whole = sealed(SMALL);
    let after = whole.len() as u64;
    for garbage in [&b"\0"[..], b"more", &whole] {
        let (content, damage) = unsealed(&[&whole, garbage].concat()[..]);
        assert_eq!(damage, Err(Damage::GoesOn { after }));
        assert_eq!(content, SMALL.concat());
    }
}

#[test]
fn what_is_no_sealed_stream_is_refused_at_its_first_wrong_byte() {
    /// Fails the test if it is read beyond its end.
    struct NoMore<'a>(&'a [u8]);
    impl Read for NoMore<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "it was read too far");
            self.0.read(room)
        }
    }
    let header = &sealed(&[])[..8];
    for len in 0..7 {
        let text = [&header[..len], b"x"].concat();
        assert_eq!(unsealed(NoMore(&text)).1, Err(Damage::NotSealed));
    }
    let next = [&header[..7], &[2]].concat();
    assert_eq!(unsealed(NoMore(&next)).1, Err(Damage::Version(2)));
    // An impossible length is refused at once, too.
    let long = [header, &[1, 0, 16, 0]].concat();
    assert_eq!(unsealed(NoMore(&long)).1, Err(Damage::Changed { after: 8 }));
}

#[test]
fn content_is_returned_before_the_source_has_more() {
    struct Waits<'a>(&'a [u8]);
    impl Read for Waits<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            match self.0.is_empty() {
                true => Err(ErrorKind::WouldBlock.into()),
                false => self.0.read(room),
            }
        }
    }
    let whole = sealed(SMALL);
    // After the first frame, of one byte.
    let mut unsealer = Unsealer::new(Waits(&whole[..8 + 4 + 1 + 8]));
    let mut byte = [0];
    assert_eq!(unsealer.read(&mut byte).unwrap(), 1);
    assert_eq!(&byte, b"h");
    assert_eq!(
        unsealer.read(&mut byte).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn an_error_of_the_source_loses_nothing() {
    /// Returns a byte, fails, returns the next byte.
    struct Fails<'a>(&'a [u8], bool);
    impl Read for Fails<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match self.1 {
                true => Err(ErrorKind::WouldBlock.into()),
                false => self.0.read(&mut room[..1]),
            }
        }
    }
    let whole = sealed(SMALL);
    let mut unsealer = Unsealer::new(Fails(&whole, false));
    let (mut content, mut byte) = (Vec::new(), [0]);
    loop {
        match unsealer.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => content.push(byte[0]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert_eq!(content, SMALL.concat());
}

#[test]
fn after_an_error_of_the_sink_nothing_more_is_written_and_there_is_no_seal() {
    struct Full(Vec<u8>, usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.1 {
                0 => {
                    self.1 = usize::MAX;
                    Err(ErrorKind::StorageFull.into())
                }
                room => {
                    let n = bytes.len().min(room);
                    self.0.extend_from_slice(&bytes[..n]);
                    self.1 -= n;
                    Ok(n)
                }
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for room in 8..sealed(SMALL).len() {
        let mut sink = Full(Vec::new(), room);
        let mut sealer = Sealer::new(&mut sink).unwrap();
        let wrote = SMALL.iter().try_for_each(|frame| sealer.write_all(frame));
        let finished = sealer.finish().map(drop);
        assert!(finished.is_err(), "{room}");
        if let Err(error) = wrote {
            assert_eq!(error.kind(), ErrorKind::StorageFull);
        }
        assert_eq!(sink.0, sealed(SMALL)[..room]);
    }
}
