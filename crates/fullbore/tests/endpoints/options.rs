//! An option that is refused is named in the error, with the value that it had.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;

use fullbore::tee::Policy;
use fullbore::{
    BufferOptions, ConsumerOptions, Error, Pipe, ProducerOptions, TeeOptions, TransferOptions, Way,
};

#[test]
fn the_error_about_an_option_names_it_and_its_value() {
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let appended = tempfile::NamedTempFile::new().unwrap();
    let appended = File::options().append(true).open(appended.path()).unwrap();
    let produce = |options: ProducerOptions| options.open(&sink.writer).err();
    let produces = ProducerOptions::new;
    let transfer = |options: TransferOptions| {
        let failed = options.open(&source.reader, &sink.writer).run();
        Some(failed.unwrap_err().error)
    };
    let sinks = || [(&sink.writer, Policy::DROP)];
    let mut tee = TeeOptions::new().chunk(0).open(&source.reader, sinks());
    let buffer = |with: fn(BufferOptions) -> BufferOptions| {
        let options = with(BufferOptions::new());
        let failed = options.open(&source.reader, sinks()).run();
        Some(failed.unwrap_err().error)
    };
    let too_long = isize::MAX as usize;
    let cases: [(Option<Error>, &str, &str); 15] = [
        (produce(produces().chunk(0)), "chunk", "0"),
        (
            produce(produces().chunk(too_long)),
            "chunk",
            &too_long.to_string(),
        ),
        (
            produce(produces().way(Way::Recycle).chunk(8192).memory(8191)),
            "memory",
            "8191",
        ),
        (produce(produces().way(Way::Repeat)), "way", "repeat"),
        (
            ConsumerOptions::new().buffer(0).open(&source.reader).err(),
            "buffer",
            "0",
        ),
        (
            ConsumerOptions::new()
                .buffer(too_long)
                .open(&source.reader)
                .err(),
            "buffer",
            &too_long.to_string(),
        ),
        (transfer(TransferOptions::new().chunk(0)), "chunk", "0"),
        (
            transfer(TransferOptions::new().after(*b"ahead").limit(4)),
            "limit",
            "4",
        ),
        (
            Some(
                TransferOptions::new()
                    .sink_offset(77)
                    .open(&source.reader, &appended)
                    .run()
                    .unwrap_err()
                    .error,
            ),
            "offset",
            "77",
        ),
        (Some(tee.run().unwrap_err().error), "chunk", "0"),
        (buffer(|buffer| buffer.chunk(0)), "chunk", "0"),
        (buffer(|buffer| buffer.memory(99)), "memory", "99"),
        (buffer(|buffer| buffer.read_rate(0)), "read rate", "0"),
        (buffer(|buffer| buffer.write_rate(0)), "write rate", "0"),
        (
            buffer(|buffer| buffer.read_rate(7).write_rate(0)),
            "write rate",
            "0",
        ),
    ];
    for (error, option, value) in cases {
        let text = error
            .unwrap_or_else(|| panic!("{option} {value}"))
            .to_string();
        let words: Vec<&str> = text.split([' ', ',', ':', '\'', '%']).collect();
        assert!(
            text.contains(option) && words.contains(&value),
            "{option} {value}: {text}"
        );
    }
}

/// Sends 200,000 bytes through `job`, and returns whether it accepted its option. If it did, every byte arrives.
fn accepts(what: &str, job: impl FnOnce(&File, &OwnedFd) -> Result<(), Error>) -> bool {
    let mut source = tempfile::tempfile().unwrap();
    source.write_all(&[7; 200_000]).unwrap();
    source.rewind().unwrap();
    let sink = Pipe::new().unwrap();
    let reading = std::thread::spawn(move || {
        let mut got = Vec::new();
        File::from(sink.reader).read_to_end(&mut got).unwrap();
        got.len()
    });
    let accepted = job(&source, &sink.writer).is_ok();
    drop(sink.writer);
    let expected = if accepted { 200_000 } else { 0 };
    assert_eq!(reading.join().unwrap(), expected, "{what}");
    accepted
}

#[test]
fn no_size_is_so_large_that_a_number_overflows() {
    let sizes = [
        usize::MAX,
        usize::MAX - 4095,
        isize::MAX as usize + 1,
        isize::MAX as usize,
    ];
    for size in sizes {
        let what = |option: &str| format!("{option} {size}");
        let consumed = accepts(&what("buffer of a consumer"), |source, sink| {
            let mut consumer = ConsumerOptions::new().buffer(size).open(source)?;
            std::io::copy(&mut consumer, &mut File::from(sink.try_clone().unwrap())).unwrap();
            Ok(())
        });
        assert!(!consumed, "{size}");
        let produce = |options: ProducerOptions| {
            move |_: &File, sink: &OwnedFd| {
                let mut out = options.open(sink)?;
                out.write_all(&[7; 200_000]).map_err(|_| Error::NotAPipe)?;
                out.finish()
                    .map(drop)
                    .map_err(|unfinished| unfinished.error)
            }
        };
        let options = ProducerOptions::new;
        assert!(!accepts(&what("chunk"), produce(options().chunk(size))));
        assert!(accepts(&what("size"), produce(options().pipe_size(size))));
        let recycle = options().way(Way::Recycle).memory(size);
        accepts(&what("memory of a producer"), produce(recycle));
        for (option, chunk, pipe_size) in [("chunk", size, 0), ("size", 1000, size)] {
            assert!(accepts(&what(option), |source, sink| {
                let options = TransferOptions::new().chunk(chunk).pipe_size(pipe_size);
                let run = options.open(source, sink).run();
                run.map(drop).map_err(|failure| failure.error)
            }));
            assert!(accepts(&what(option), |source, sink| {
                let options = TeeOptions::new().chunk(chunk).pipe_size(pipe_size);
                let run = options.open(source, [(sink, Policy::DROP)]).run();
                run.map(drop).map_err(|failure| failure.error)
            }));
            assert!(accepts(&what(option), |source, sink| {
                let options = BufferOptions::new().chunk(chunk).pipe_size(pipe_size);
                let run = options.open(source, [(sink, Policy::DROP)]).run();
                run.map(drop).map_err(|failure| failure.error)
            }));
        }
        for (option, memory, chunk, whole) in [
            ("memory", size, 1000, false),
            ("exactly", 1 << 20, size, true),
        ] {
            assert!(!accepts(&what(option), |source, sink| {
                let options = BufferOptions::new().memory(memory).chunk(chunk);
                let options = options.whole_chunks(whole);
                let run = options.open(source, [(sink, Policy::DROP)]).run();
                run.map(drop).map_err(|failure| failure.error)
            }));
        }
    }
}
