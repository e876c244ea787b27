//! The ways of a proxy, and what its clients do: a new way or another load is a row here.

/// How a proxy moves bytes.
#[derive(Debug)]
pub struct Way {
    pub name: &'static str,
    pub shows: &'static str,
    pub program: Program,
}

/// The program of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The example `ways` of `fullbore-tokio`, with this way.
    Ways(&'static str),
    /// The example `proxy` of `fullbore-tokio`, by reference. It has no Unix sockets.
    Proxy,
    /// haproxy from PATH, with splicing on or off.
    Haproxy { splices: bool },
}

use Program::{Haproxy, Proxy, Ways};

impl Way {
    /// Returns whether it is a proxy that others wrote, which may hang.
    pub fn is_of_others(&self) -> bool {
        matches!(self.program, Ways("splice2") | Haproxy { .. })
    }
}

/// The ways. Ratios are relative to the first.
#[rustfmt::skip]
pub const WAYS: [Way; 8] = [
    Way { name: "tokio_8k", shows: "tokio::io::copy_bidirectional", program: Ways("tokio-8k") },
    Way { name: "tokio_256k", shows: "tokio::io::copy_bidirectional with buffers of 256 KiB", program: Ways("tokio-256k") },
    Way { name: "splice2", shows: "the crate tokio-splice2", program: Ways("splice2") },
    Way { name: "haproxy", shows: "haproxy, mode tcp", program: Haproxy { splices: false } },
    Way { name: "haproxy_splice", shows: "haproxy, mode tcp, splicing", program: Haproxy { splices: true } },
    Way { name: "snapshot", shows: "fullbore-tokio by snapshot", program: Ways("snapshot") },
    Way { name: "reference", shows: "fullbore-tokio by reference", program: Ways("reference") },
    Way { name: "proxy", shows: "the example proxy of fullbore-tokio, by reference", program: Proxy },
];

/// A load, as a table of the group.
#[derive(Debug)]
pub struct Job {
    pub name: &'static str,
    pub title: &'static str,
    /// How many connections send as much as they can.
    pub streams: usize,
    /// How many connections send a message and wait for the same bytes to come back, again and again, and the bytes of
    /// one.
    pub messages: (usize, usize),
}

/// The jobs, for each of the two transports.
#[rustfmt::skip]
pub const JOBS: [Job; 10] = [
    Job { name: "stream_1", title: "a stream over one connection", streams: 1, messages: (0, 0) },
    Job { name: "stream_64", title: "a stream over each of 64 connections", streams: 64, messages: (0, 0) },
    Job { name: "stream_1000", title: "a stream over each of 1,000 connections", streams: 1000, messages: (0, 0) },
    Job { name: "1k_1", title: "messages of 1 KiB over one connection", streams: 0, messages: (1, 1 << 10) },
    Job { name: "1k_64", title: "messages of 1 KiB over each of 64 connections", streams: 0, messages: (64, 1 << 10) },
    Job { name: "1k_1000", title: "messages of 1 KiB over each of 1,000 connections", streams: 0, messages: (1000, 1 << 10) },
    Job { name: "64k_1", title: "messages of 64 KiB over one connection", streams: 0, messages: (1, 64 << 10) },
    Job { name: "64k_64", title: "messages of 64 KiB over each of 64 connections", streams: 0, messages: (64, 64 << 10) },
    Job { name: "64k_1000", title: "messages of 64 KiB over each of 1,000 connections", streams: 0, messages: (1000, 64 << 10) },
    Job { name: "1k_beside", title: "messages of 1 KiB over one connection, beside a stream", streams: 1, messages: (1, 1 << 10) },
];
