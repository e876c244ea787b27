//! Closes the outputs of a buffer, and says what became of each.

use std::io;

use fullbore::tee::SinkReport;
use fullbore_results::buffer::Destination;

use super::file::Holding;
use super::messages::Messages;
use super::network;
use super::opening::{Ends, Sink};
use super::running::Ended;
use crate::moving::Input;
use crate::moving::failure::Broken;
use crate::words::Failed;

/// Closes outputs.
pub struct Closing<'a> {
    pub ended: &'a Ended,
    pub holding: &'a Holding,
    pub messages: &'a Messages,
    pub is_synced: bool,
}

impl Closing<'_> {
    /// Closes the outputs, and reports errors. Returns what became of each, and whether nothing went wrong.
    pub fn close(&self, ends: Ends) -> (Vec<Destination>, bool) {
        let mut all_well = ends.all_opened;
        // All of them before one is waited for: its reader may wait for the end of another.
        let told = ends.sinks.iter().zip(&self.ended.report.sinks);
        let told: Vec<_> = told.map(|(sink, report)| self.end(sink, report)).collect();
        let told = told.into_iter().chain(std::iter::repeat_with(|| None));
        let destinations = (ends.sinks.into_iter().zip(told).enumerate())
            .map(|(at, (sink, told))| {
                let (destination, is_well) = self.close_one(at, sink, told, &ends.input);
                all_well &= is_well;
                destination
            })
            .collect();
        (destinations, all_well)
    }

    /// Tells the other side of a connection that it has got everything, if it has.
    fn end(&self, sink: &Sink, report: &SinkReport) -> Option<io::Result<()>> {
        let is_whole = self.ended.failure.is_none() && report.error.is_none();
        let connection = sink.connection.as_ref().filter(|_| is_whole);
        connection.map(network::end)
    }

    fn close_one(
        &self,
        at: usize,
        Sink { output, connection }: Sink,
        told: Option<io::Result<()>>,
        input: &Input,
    ) -> (Destination, bool) {
        let report = self.ended.report.sinks.get(at);
        let error = report.and_then(|sink| sink.error.as_ref());
        let broken = error.and_then(|error| Broken::moving(error, input, &output));
        let is_ignored = report.is_some_and(|sink| sink.ignored);
        let mut is_well = broken.is_none() || is_ignored;
        if let Some(broken) = broken.as_ref().filter(|_| !is_ignored) {
            match error.and_then(|error| self.holding.fault(error)) {
                Some(fault) => self.messages.error(&fault),
                None => self.messages.text(&broken.to_string()),
            }
        }
        let name = output.to_string();
        let is_last = self.ended.failed_at == Some(at);
        let has_failed = broken.is_some() || is_last;
        let is_complete = self.ended.failure.is_none() && !has_failed;
        let finished = match (connection, told) {
            (Some(stream), Some(told)) => told
                .and_then(|()| network::wait(&stream))
                .failed(format_args!("write to {name}")),
            _ => Ok(()),
        };
        let closed = finished.and_then(|()| output.close(is_complete, self.is_synced));
        if let Some(error) = closed.as_ref().err().filter(|_| !has_failed) {
            self.messages.error(error);
            is_well = false;
        }
        let last = self.ended.failure.as_ref().filter(|_| is_last);
        let error = match (last, broken) {
            (Some(failure), _) => Some(format!("{failure:#}")),
            (None, Some(broken)) => Some(broken.to_string()),
            (None, None) => closed.err().map(|error| format!("{error:#}")),
        };
        let bytes = report.map_or(0, |sink| sink.bytes);
        (Destination { name, bytes, error }, is_well)
    }
}
