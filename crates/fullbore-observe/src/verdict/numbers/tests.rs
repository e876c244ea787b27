//! Tests of the numbers of a verdict.

use super::*;

#[test]
fn a_number_of_bytes_is_only_given_where_a_side_has_counted_it() {
    let unseen = Ways::default();
    let splices = Ways {
        takes_pages: true,
        gives_pages: true,
        ..unseen
    };
    let reads = Ways {
        reads: true,
        ..unseen
    };
    let writes = Ways {
        writes: true,
        ..unseen
    };
    let gib = 1 << 30;
    for (writer, written, reader, read, bytes, known) in [
        // The counts are the same except for what the reader has read while starting.
        (
            unseen,
            Some(gib),
            unseen,
            Some(gib + 9000),
            Some(gib),
            Certainty::Counted,
        ),
        (
            unseen,
            Some(10),
            unseen,
            Some(9000),
            Some(10),
            Certainty::Counted,
        ),
        (
            unseen,
            Some(gib),
            unseen,
            Some(gib / 10 * 9),
            Some(gib / 10 * 9),
            Certainty::About,
        ),
        // The writer also writes to two files, or has moved most of its bytes as pages without being
        // seen; and the same for the reader.
        (
            unseen,
            Some(3 * gib),
            unseen,
            Some(gib),
            None,
            Certainty::Unknown,
        ),
        (
            unseen,
            Some(67_175),
            unseen,
            Some(gib),
            None,
            Certainty::Unknown,
        ),
        // The reader may have used splice(2) without being seen in it.
        (
            unseen,
            Some(gib),
            unseen,
            Some(9000),
            None,
            Certainty::Unknown,
        ),
        (
            unseen,
            Some(gib),
            splices,
            Some(9000),
            Some(gib),
            Certainty::About,
        ),
        (
            splices,
            Some(0),
            unseen,
            Some(gib),
            Some(gib),
            Certainty::About,
        ),
        (splices, Some(0), splices, Some(0), None, Certainty::Unknown),
        // Both may move pages without being seen.
        (unseen, Some(0), unseen, Some(0), None, Certainty::Unknown),
        (
            unseen,
            Some(0),
            unseen,
            Some(9000),
            None,
            Certainty::Unknown,
        ),
        (splices, Some(0), unseen, Some(0), None, Certainty::Unknown),
        (unseen, Some(0), reads, Some(0), Some(0), Certainty::Counted),
        (
            writes,
            Some(0),
            unseen,
            Some(9000),
            Some(0),
            Certainty::Counted,
        ),
        (unseen, None, unseen, Some(gib), Some(gib), Certainty::About),
        (unseen, None, unseen, None, None, Certainty::Unknown),
    ] {
        let found = Bytes::of(&writer, written, &reader, read, BESIDES).known();
        let bytes_are = known;
        assert_eq!(found, Bytes { bytes, bytes_are }, "{written:?} {read:?}");
    }
}
