//! Carries bytes with the library's producer and consumer, which share memory instead of using the pipes.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use fullbore::{ConsumerOptions, ProducerOptions, Wait};
use fullbore_linux::Waiter;
use fullbore_ring::{Consumer, Producer};
use rustix::io::Errno;

use super::carry::Carry;
use fullbore_host::refusal::Unsupported;

/// The ends of two pipes. A producer or a consumer is made when it is used for the first time, because one of
/// the pipes may not exist.
pub struct Library<'fd> {
    wait: Wait,
    input: BorrowedFd<'fd>,
    output: BorrowedFd<'fd>,
    consumer: Option<Consumer<BorrowedFd<'fd>>>,
    producer: Option<Producer<BorrowedFd<'fd>>>,
}

impl<'fd> Library<'fd> {
    /// Uses the ends of these pipes.
    pub fn new(wait: Wait, input: BorrowedFd<'fd>, output: BorrowedFd<'fd>) -> Self {
        Self {
            wait,
            input,
            output,
            consumer: None,
            producer: None,
        }
    }
}

impl Carry for Library<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let producer = match &mut self.producer {
            Some(producer) => producer,
            none => {
                // Nothing else writes to the pipes of an experiment.
                let inner = ProducerOptions::new().wait(self.wait).open(self.output);
                let producer = Producer::new(errno(inner)?, Waiter::new(self.wait));
                none.insert(producer.only_writer())
            }
        };
        producer.write_all(bytes).map_err(number)?;
        producer.flush().map_err(number)?;
        Ok(bytes.len())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let consumer = match &mut self.consumer {
            Some(consumer) => consumer,
            none => {
                let inner = ConsumerOptions::new().wait(self.wait).open(self.input);
                none.insert(Consumer::new(errno(inner)?, Waiter::new(self.wait)))
            }
        };
        consumer.read(buffer).map_err(number)
    }

    fn check(&self) -> Result<(), Unsupported> {
        let takes = self.consumer.as_ref().is_none_or(Consumer::is_sharing);
        let gives = self.producer.as_ref().is_none_or(Producer::is_sharing);
        let did_not_meet = || Unsupported("the two ends of the pipe did not meet".into());
        (takes && gives).then_some(()).ok_or_else(did_not_meet)
    }
}

fn errno<T>(opened: fullbore::Result<T>) -> Result<T, Errno> {
    opened.map_err(|error| number(error.into()))
}

fn number(error: io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Errno::PIPE,
        _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    }
}
