//! Transfers into and out of files that share an open file description, and so its position.

use std::io::{Read, Seek};

use fullbore_tokio::{Guarantee, Options};

use crate::common::ends::{From, To, content};
use crate::common::{MIB, watch};
use crate::kinds::*;

#[test]
fn transfers_at_one_open_file_neither_lose_nor_double_a_byte() {
    let _watch = watch("shared position");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        let (mut out, mut input) = (
            tempfile::tempfile().unwrap(),
            crate::common::targets::stored(content()),
        );
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let source = From::Unix.open(2 * MIB).unwrap();
                let sink = To::Unix.open().unwrap();
                let (from, to) = (source.fd.try_clone().unwrap(), sink.fd.try_clone().unwrap());
                let files = (out.try_clone().unwrap(), input.try_clone().unwrap());
                let task = runtime.spawn(async move {
                    let options = Options::new().guarantee(guarantee);
                    let mut both = (
                        options.clone().copy(unix(from), files.0),
                        options.copy(files.1, unix(to)),
                    );
                    let (into, from) = tokio::join!(both.0.run(), both.1.run());
                    assert_eq!(into.unwrap().bytes, 2 * MIB as u64);
                    from.unwrap().bytes
                });
                (task, source, sink)
            })
            .collect();
        let mut taken = 0;
        for (task, source, _sink) in tasks {
            taken += runtime.block_on(task).unwrap();
            source.close();
        }
        assert_eq!(taken, content().len() as u64, "{guarantee:?}");
        // Two that look for its end at the same time may both claim what is behind it.
        assert!(input.stream_position().unwrap() >= content().len() as u64);
        let (mut got, mut expected) = (Vec::new(), content()[..2 * MIB].repeat(4));
        out.rewind().unwrap();
        out.read_to_end(&mut got).unwrap();
        // The order of the pieces is not determined.
        got.sort_unstable();
        expected.sort_unstable();
        assert!(got == expected, "{guarantee:?}: {} bytes", got.len());
    }
}
