//! Counters of a direction that can be read while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one direction of a transfer, which any thread can read while it runs. Clones are the same counters,
/// and they stay readable after the transfer has been dropped.
///
/// ```
/// # async fn example(mut a: tokio::net::TcpStream, mut b: tokio::net::UnixStream) -> std::io::Result<()> {
/// let mut transfer = fullbore_tokio::Options::new().copy(&mut a, &mut b);
/// let counters = transfer.counters();
/// let watch = async move {
///     loop {
///         tokio::time::sleep(std::time::Duration::from_secs(1)).await;
///         println!("{} bytes arrived", counters.bytes());
///     }
/// };
/// tokio::select! {
///     report = transfer.run() => println!("{}", report?),
///     () = watch => {}
/// }
/// # Ok(())
/// # }
/// ```
///
/// # fork
/// A child of fork(2) may read its copy, which no longer changes.
#[derive(Debug, Clone, Default)]
pub struct Counters(Arc<[AtomicU64; 3]>);

impl Counters {
    /// Returns how many bytes have arrived at the sink.
    pub fn bytes(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Returns how many bytes were taken from the source.
    pub fn taken(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// Returns how many of the bytes that have arrived were moved by splice(2).
    pub fn spliced(&self) -> u64 {
        self.0[2].load(Ordering::Relaxed)
    }

    pub(crate) fn took(&self, bytes: usize) {
        self.0[1].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn arrived(&self, bytes: usize, spliced: bool) {
        self.0[0].fetch_add(bytes as u64, Ordering::Relaxed);
        if spliced {
            self.0[2].fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}
