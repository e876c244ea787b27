//! An option that is refused is named in the error, with the value that it had.

use std::fs::File;

use fullbore::tee::Policy;
use fullbore::{Buffer, ConsumerOptions, Error, Pipe, ProducerOptions, Tee, Transfer, Way};

#[test]
fn the_error_about_an_option_names_it_and_its_value() {
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let appended = tempfile::NamedTempFile::new().unwrap();
    let appended = File::options().append(true).open(appended.path()).unwrap();
    let produce = |options: ProducerOptions| options.open(&sink.writer).err();
    let produces = ProducerOptions::new;
    let transfers = || Transfer::new(&source.reader, &sink.writer);
    let transfer = |mut transfer: Transfer<_, _>| Some(transfer.run().unwrap_err().error);
    let tee = Tee::new(&source.reader).sink(&sink.writer, Policy::DROP);
    let buffer = |with: fn(Buffer<_, _>) -> Buffer<_, _>| {
        let buffer = Buffer::new(&source.reader).sink(&sink.writer, Policy::DROP);
        Some(with(buffer).run().unwrap_err().error)
    };
    let too_long = isize::MAX as usize;
    let cases: [(Option<Error>, &str, &str); 18] = [
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
        (transfer(transfers().chunk(0)), "chunk", "0"),
        (
            transfer(transfers().after(*b"ahead").limit(4)),
            "limit",
            "4",
        ),
        (
            Some(
                Transfer::new(&source.reader, &appended)
                    .sink_offset(77)
                    .run()
                    .unwrap_err()
                    .error,
            ),
            "offset",
            "77",
        ),
        (Some(tee.chunk(0).run().unwrap_err().error), "chunk", "0"),
        (buffer(|buffer| buffer.chunk(0)), "chunk", "0"),
        (buffer(|buffer| buffer.memory(99)), "memory", "99"),
        (buffer(|buffer| buffer.start_at(101.5)), "start at", "101.5"),
        (
            buffer(|buffer| buffer.start_at(f64::NAN)),
            "start at",
            "NaN",
        ),
        (buffer(|buffer| buffer.resume_at(-1.0)), "resume at", "-1"),
        (
            buffer(|buffer| buffer.start_at(50.0).resume_at(f64::INFINITY)),
            "resume at",
            "inf",
        ),
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
