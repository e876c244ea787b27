//! Moves bytes between sockets, pipes, child processes and files in programs that use tokio, like
//! [`tokio::io::copy_bidirectional`], and, on request, without copying them.
//!
//! [`tokio::io::copy_bidirectional`]: https://docs.rs/tokio/1/tokio/io/fn.copy_bidirectional.html
//!
//! ```
//! # async fn proxy(mut client: tokio::net::TcpStream, mut server: tokio::net::TcpStream) -> std::io::Result<()> {
//! use fullbore_tokio::{Guarantee, Options};
//!
//! let options = Options::new().guarantee(Guarantee::Reference);
//! let both = options.copy_bidirectional(&mut client, &mut server).run().await?;
//! println!("{} bytes there, {} back", both.a_to_b.bytes, both.b_to_a.bytes);
//! # Ok(())
//! # }
//! ```
//!
//! [`copy`] and [`copy_bidirectional`] replace tokio's functions of the same names. They move bytes by read(2) and
//! write(2), which keeps [`Guarantee::Snapshot`]. With [`Guarantee::Reference`], bytes go through a private pipe by
//! splice(2), and are not copied. docs/guarantees.md in the repository says for which sources the two guarantees are
//! the same, and docs/services.md for which services this pays off.
//!
//! # Cost
//! An idle connection costs only memory for its state: a buffer or a private pipe is lent to a connection only while it
//! has bytes in flight. All private pipes together have at most half of the capacity that the pipes of an unprivileged
//! user may have (`/proc/sys/fs/pipe-user-pages-soft`); beyond that, bytes are copied.
//!
//! # What can be moved
//! The traits [`Source`] and [`Sink`] are implemented for types that buffer no bytes before their descriptor:
//!
//! | type | is |
//! |---|---|
//! | `TcpStream`, `UnixStream` | source and sink |
//! | their halves: `ReadHalf`, `OwnedReadHalf`; `WriteHalf`, `OwnedWriteHalf` | source; sink |
//! | `tokio::net::unix::pipe::Receiver`, `Sender` | source; sink |
//! | `tokio::process::ChildStdout`, `ChildStderr`; `ChildStdin` | source; sink |
//! | `tokio::io::unix::AsyncFd<T>` | source and sink |
//! | `std::fs::File`, for regular files and block devices | source and sink |
//!
//! A TLS stream, a `BufReader` and `tokio::io::Stdin` buffer bytes before the descriptor, or change them. The compiler
//! rejects these types:
//!
//! ```compile_fail,E0277
//! async fn refused(reader: tokio::net::TcpStream, mut writer: tokio::net::TcpStream) {
//!     let mut buffered = tokio::io::BufReader::new(reader);
//!     fullbore_tokio::copy(&mut buffered, &mut writer).await;
//! }
//! ```
//!
//! Write the contents of `BufReader::buffer` to the sink, and then copy from `BufReader::into_inner`. With an
//! [`AsyncFd<T>`](tokio::io::unix::AsyncFd), the descriptor of `T` is used, so `T` must not buffer bytes, as std's
//! `Stdin` does.
//!
//! Linux has no readiness for regular files: poll(2) always reports them as ready, and a read then waits for the disk.
//! So reads and writes of files run on tokio's pool of blocking threads, one at a time. A `tokio::fs::File` has a
//! buffer; `into_std` returns the file.
//!
//! # Dropping a future
//! A future of [`Transfer::run`] or [`Bidirectional::run`] can be dropped at any time, as `select!` does. The totals
//! and the bytes in flight stay in the `Transfer`: `run` continues, and `into_parts` returns the bytes that were taken
//! from the source and have not arrived. The futures of [`copy`] and [`copy_bidirectional`] own these bytes, so
//! dropping one loses them.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod alarm;
mod bidirectional;
mod carrier;
mod clock;
mod counters;
mod direction;
mod ends;
mod job;
mod memory;
mod nap;
mod options;
mod pool;
mod report;
mod taking;
mod transfer;

pub use bidirectional::{Bidirectional, Both, UnderWay};
pub use counters::Counters;
pub use ends::{Duplex, Sink, Source};
pub use fullbore::{Error, Guarantee, TransferSide};
pub use memory::{Consumer, Producer};
pub use options::Options;
pub use pool::{Pool, PoolOptions};
pub use report::{Ended, Failure, Report};
pub use transfer::Transfer;

/// Copies all bytes from `source` to `sink`, and returns how many. It is a [`Transfer`] with the default options.
///
/// Like tokio's function of this name, it does not close the sink.
///
/// # Errors
/// As [`Transfer::run`].
pub async fn copy<S: Source, W: Sink>(
    source: &mut S,
    sink: &mut W,
) -> Result<u64, Failure<Report>> {
    let report = Options::new().copy(source, sink).run().await?;
    Ok(report.bytes)
}

/// Copies bytes from `a` to `b` and from `b` to `a` until both have ended, and returns how many went from `a` to `b`
/// and from `b` to `a`. It is a [`Bidirectional`] with the default options.
///
/// # Errors
/// As [`Bidirectional::run`].
pub async fn copy_bidirectional<A: Duplex, B: Duplex>(
    a: &mut A,
    b: &mut B,
) -> Result<(u64, u64), Failure<Both>> {
    let both = Options::new().copy_bidirectional(a, b).run().await?;
    Ok((both.a_to_b.bytes, both.b_to_a.bytes))
}
