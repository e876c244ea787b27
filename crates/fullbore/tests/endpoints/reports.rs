//! What calls return: reports of the same form, and one convention for a call that would have to wait.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};

use fullbore::tee::Policy;
use fullbore::{
    BufferOptions, Consumer, ConsumerOptions, EndReason, Error, Pipe, Producer, ProducerOptions,
    Stopped, Tee, TeeOptions, Transfer, TransferOptions, TransferSide,
};

/// As the errors of std, a call of a nonblocking object says that it would have to wait, and nothing has failed.
#[track_caller]
fn assert_would_block(error: Error, moved: u64) {
    assert!(
        matches!(error, Error::Stopped { by: Stopped::WouldBlock, moved: n } if n == moved),
        "{error:?}"
    );
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
}

#[test]
fn one_that_would_have_to_wait_has_not_failed() {
    let pipe = Pipe::new().unwrap();
    let options = ConsumerOptions::new().nonblocking(true);
    let mut consumer = options.open(&pipe.reader).unwrap();
    assert_would_block(consumer.discard(1).unwrap_err(), 0);
    let error = consumer.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    let options = ProducerOptions::new().nonblocking(true).pipe_size(0);
    let mut repeat = options.clone().repeat(&pipe.writer, b"full").unwrap();
    let error = repeat.send(u64::MAX).unwrap_err();
    assert_would_block(error, repeat.report().bytes);
    let mut producer = options.open(&pipe.writer).unwrap();
    producer.reserve(4).unwrap();
    assert_would_block(producer.commit(4).unwrap_err(), 0);
    assert_eq!(producer.unsent(), 4);
    let unfinished = producer.finish().unwrap_err();
    assert_would_block(unfinished.error, 0);

    // A run has a report instead.
    let empty = Pipe::new().unwrap();
    let options = TransferOptions::new().nonblocking(true);
    let report = options.open(&empty.reader, &pipe.writer).run().unwrap();
    assert_eq!(report.ended, EndReason::WouldBlock(TransferSide::Source));
    let sinks = [(&pipe.writer, Policy::FAIL_ALL)];
    let options = TeeOptions::new().nonblocking(true);
    let report = options.open(&empty.reader, sinks).run().unwrap();
    assert_eq!(report.ended, EndReason::WouldBlock(TransferSide::Source));
}

#[test]
fn every_report_is_a_line_with_what_was_taken_and_what_arrived() {
    let (source, sink) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    let put = || rustix::io::write(&source.writer, b"seven\nb").unwrap();
    put();
    let mut consumer = Consumer::new(&source.reader).unwrap();
    consumer.fill_buf().unwrap();
    consumer.consume(5);
    let report = consumer.report();
    assert_eq!((report.bytes, report.taken), (5, 7));
    assert_eq!(report.to_string(), "5 bytes, and 2 in the buffer");
    let mut producer = Producer::new(&sink.writer).unwrap();
    producer.write_all(b"seven\nb").unwrap();
    let report = producer.finish().unwrap();
    assert!(report.to_string().starts_with("7 bytes by "), "{report}");
    put();
    let report = TransferOptions::new()
        .limit(7)
        .open(&source.reader, &sink.writer)
        .run();
    let report = report.unwrap();
    assert_eq!((report.bytes, report.taken), (7, 7));
    let text = report.to_string();
    assert!(
        text.starts_with("7 bytes in ") && text.ends_with(" by copy"),
        "{text}"
    );
    put();
    let sinks = || [(&sink.writer, Policy::DROP)];
    let report = TeeOptions::new()
        .limit(7)
        .open(&source.reader, sinks())
        .run()
        .unwrap();
    assert_eq!((report.taken, report.sinks[0].bytes), (7, 7));
    let text = report.to_string();
    assert!(
        text.starts_with("7 bytes taken in ") && text.ends_with("; sinks: 7"),
        "{text}"
    );
    put();
    let options = BufferOptions::new().memory(1 << 20).limit(7);
    let report = options.open(&source.reader, sinks()).run().unwrap();
    assert_eq!((report.taken, report.sinks[0].bytes), (7, 7));
    let text = report.to_string();
    assert!(
        text.starts_with("7 bytes taken in ") && text.ends_with("; sinks: 7"),
        "{text}"
    );
}

#[test]
fn what_failed_is_in_the_failure_with_the_index_of_the_sink() {
    let (source, gone) = (Pipe::new().unwrap(), Pipe::new().unwrap());
    drop(gone.reader);
    rustix::io::write(&source.writer, b"bytes").unwrap();
    let failure = Transfer::new(&source.reader, &gone.writer)
        .run()
        .unwrap_err();
    assert_eq!((failure.sink, failure.report.taken), (Some(0), 5));
    assert_eq!(failure.to_string(), failure.error.to_string());
    rustix::io::write(&source.writer, b"bytes").unwrap();
    let sinks = [(&gone.writer, Policy::FAIL_ALL)];
    let failure = Tee::new(&source.reader, sinks).run().unwrap_err();
    assert_eq!((failure.sink, failure.report.taken), (Some(0), 5));
}

#[test]
fn a_producer_a_repeat_and_a_consumer_have_a_descriptor() {
    let pipe = Pipe::new().unwrap();
    let consumer = Consumer::new(&pipe.reader).unwrap();
    assert_eq!(consumer.as_fd().as_raw_fd(), pipe.reader.as_raw_fd());
    let of = |fd| fullbore::PipeEnd::new(fd).unwrap().identity().unwrap();
    let producer = Producer::new(&pipe.writer).unwrap();
    assert_eq!(of(producer.as_fd()), of(pipe.writer.as_fd()));
    let repeat = ProducerOptions::new().repeat(&pipe.writer, b"y").unwrap();
    assert_eq!(of(repeat.as_fd()), of(pipe.writer.as_fd()));
}
