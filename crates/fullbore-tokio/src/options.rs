//! The options of all transfers.

use std::num::NonZero;
use std::time::{Duration, Instant};

use fullbore::Guarantee;

use crate::pool::Pool;

/// The options of a transfer. They can be reused for any number of transfers.
///
/// ```
/// # async fn example(mut a: tokio::net::TcpStream, mut b: tokio::net::UnixStream) -> std::io::Result<()> {
/// use std::time::Duration;
/// let options = fullbore_tokio::Options::new().idle_timeout(Duration::from_secs(60));
/// let report = options.copy(&mut a, &mut b).run().await?;
/// println!("{report}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) guarantee: Guarantee,
    pub(crate) limit: Option<u64>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) rate: Option<NonZero<u64>>,
    pub(crate) pool: Option<Pool>,
}

impl Options {
    /// Creates the default options: [`Guarantee::Snapshot`], and no limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the guarantee for the bytes that are moved. The default is [`Guarantee::Snapshot`].
    pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
        self.guarantee = guarantee;
        self
    }

    /// Sets the maximum number of bytes to take from a source. Each direction of a connection has this limit.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// Ends the transfer with [`Ended::Idle`](crate::Ended::Idle) when no byte has arrived in either direction for this
    /// time.
    ///
    /// It needs tokio's timer (`enable_time`), as do `deadline` and `rate`.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Ends the transfer with [`Ended::TimedOut`](crate::Ended::TimedOut) at this time.
    ///
    /// It waits for a read or a write of a file that has begun, because that cannot be cancelled. The same holds for
    /// `idle_timeout`.
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// Sets the maximum number of bytes per second that are taken from a source. Unused rate accumulates, up to the
    /// bytes of 50 ms. Each direction of a connection has this rate. From a pipe, up to a page (4096 bytes) is taken at a
    /// time, because its writer may use packet mode (pipe(7)).
    pub fn rate(mut self, bytes_per_second: NonZero<u64>) -> Self {
        self.rate = Some(bytes_per_second);
        self
    }

    /// Sets the pool that private pipes and buffers are borrowed from. The default is the pool of this process.
    pub fn pool(mut self, pool: &Pool) -> Self {
        self.pool = Some(pool.clone());
        self
    }
}
