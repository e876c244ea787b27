//! `fullbore top --prometheus ADDR`: what top knows, for a Prometheus server to read.
//!
//! | file | holds |
//! |---|---|
//! | `address.rs` | where it is served, and who can read it there |
//! | `server.rs` | a server of one page |
//! | `families.rs` | the metrics, as tables |
//!
//! Nothing is looked at until somebody asks, and all who ask within a moment get what one look has seen.

mod address;
mod families;
mod server;

use std::collections::HashMap;
use std::io::{self, Write, stderr};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::picture::Picture;
use crate::exit::Unsupported;
use crate::meter::interrupt::Interrupt;
pub use address::Address;
use families::Told;
use server::{Answer, Format};

/// How long a look is good for: there are four a second at most.
const FRESH_FOR: Duration = Duration::from_millis(250);

/// And at most one part in so many of the time is spent in looks.
const REST: u32 = 10;

/// Serves metrics until a signal ends this process.
///
/// # Errors
/// Where it cannot listen at the address, or nothing can be looked at.
pub fn serve(address: Address, look: impl FnMut() -> Result<Picture>) -> Result<()> {
    let listener = listen(address)?;
    let local = Address(listener.local_addr()?);
    // The first look is what the figures of the second are counted from.
    let mut page = Page::new(look);
    page.look()?;
    let interrupt = Interrupt::noted();
    let readers = local
        .open_to()
        .unwrap_or("every process of this machine, and nobody else");
    let _ = writeln!(
        stderr(),
        "fullbore top: metrics are at http://{local}/metrics, for {readers}"
    );
    server::serve(&listener, &interrupt, |format| page.answer(format))
        .with_context(|| format!("serving at {local}"))?;
    interrupt.obey();
    Ok(())
}

fn listen(address: Address) -> Result<TcpListener> {
    TcpListener::bind(address.0).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                return anyhow::anyhow!(
                    "--prometheus {address}: another program listens there; choose another port"
                );
            }
            io::ErrorKind::PermissionDenied => {
                "this user may not listen there; ports from 1024 on are for everybody"
            }
            io::ErrorKind::AddrNotAvailable => "this machine has no such address",
            _ if is_no_such_family(&error) => "this machine has no addresses of that kind",
            _ => return anyhow::Error::new(error).context(format!("--prometheus {address}")),
        };
        Unsupported(format!("--prometheus {address}: {hint}")).into()
    })
}

fn is_no_such_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// The page, as of the last look.
struct Page<Look> {
    look: Look,
    /// Until when the last look is good.
    fresh_until: Option<Instant>,
    /// What it saw, or why it could not.
    seen: Result<Seen, String>,
    /// Bytes that were told of each pipe, by its identity, and when it was first seen: a counter never goes
    /// back.
    bytes: HashMap<(u64, u64), (f64, u64)>,
    scrapes: u64,
}

/// A look, as it is served.
struct Seen {
    open_metrics: Arc<str>,
    /// Once somebody has asked for it.
    text: Option<Arc<str>>,
}

impl<Look: FnMut() -> Result<Picture>> Page<Look> {
    fn new(look: Look) -> Self {
        Self {
            look,
            fresh_until: None,
            seen: Err(String::new()),
            bytes: HashMap::new(),
            scrapes: 0,
        }
    }

    fn look(&mut self) -> Result<()> {
        let began = Instant::now();
        let looked = (self.look)().and_then(|mut picture| {
            self.only_up(&mut picture);
            let scrapes = self.scrapes;
            Ok(families::open_metrics(Told { picture, scrapes })?)
        });
        let ended = Instant::now();
        self.fresh_until = Some(ended + FRESH_FOR.max((ended - began) * REST));
        match looked {
            Ok(page) => {
                self.seen = Ok(Seen {
                    open_metrics: page.into(),
                    text: None,
                });
                Ok(())
            }
            Err(error) => {
                self.seen = Err(format!("{error:#}"));
                Err(error)
            }
        }
    }

    /// What a pipe's processes have counted may turn out to be less than it seemed; what was told of it
    /// stays.
    fn only_up(&mut self, picture: &mut Picture) {
        let before = std::mem::take(&mut self.bytes);
        for row in &mut picture.pipes {
            let identity = (row.device, row.inode);
            let told = before.get(&identity);
            let told = told.filter(|(first_seen, _)| *first_seen == row.first_seen);
            let told = told.map(|&(_, bytes)| bytes);
            if let Some(bytes) = row.bytes.bytes.max(told) {
                self.bytes.insert(identity, (row.first_seen, bytes));
                row.bytes.bytes = row.bytes.bytes.and(Some(bytes));
            }
        }
    }

    fn answer(&mut self, format: Format) -> Answer {
        let now = Instant::now();
        if self.fresh_until.is_none_or(|until| until <= now) {
            // Why it failed is told to whoever asks.
            let _ = self.look();
        }
        self.scrapes += 1;
        let seen = match &mut self.seen {
            Ok(seen) => seen,
            Err(why) => {
                return Answer {
                    status: "503 Service Unavailable",
                    content_type: "text/plain; charset=utf-8",
                    body: Arc::from(format!("{why}\n").into_bytes()),
                };
            }
        };
        let (page, content_type) = match format {
            Format::OpenMetrics => (
                &seen.open_metrics,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
            Format::Text => (
                &*seen
                    .text
                    .get_or_insert_with(|| families::text(&seen.open_metrics).into()),
                "text/plain; version=0.0.4; charset=utf-8",
            ),
        };
        Answer {
            status: "200 OK",
            content_type,
            body: Arc::from(Arc::clone(page)),
        }
    }
}
