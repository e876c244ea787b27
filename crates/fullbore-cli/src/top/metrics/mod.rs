//! `fullbore top --prometheus ADDR`: serves what top finds to a Prometheus server.
//!
//! | file | holds |
//! |---|---|
//! | `address.rs` | the address at which it is served, and which hosts can reach it |
//! | `server.rs` | a server of one page |
//! | `request.rs` | the answer to a request |
//! | `families.rs` | the metrics, as tables |
//! | `encoding.rs` | their text, in the format of OpenMetrics |
//!
//! Pipes are scanned when a client asks, and all clients that ask within a moment get the result of one scan.
//! As long as clients keep asking, samples are taken in between, on which the verdicts are based; when no
//! client asks any more, no work is done.

pub mod address;
mod encoding;
mod families;
mod request;
mod server;

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::io::Errno;

use crate::processes::interrupt::Interrupt;
use crate::terminal::lines::say_line;
use families::PageData;
use fullbore_host::refusal::Unsupported;
use fullbore_observe::Monitor;
use request::{Answer, OK, UNAVAILABLE, text};
use server::LIMITS;

/// How long the result of a scan is served: there are at most four scans per second.
const FRESH_FOR: Duration = Duration::from_millis(250);

/// Scans take at most one part in `REST` of the time.
const REST: u32 = 10;

/// How long samples are taken after the last request: a client that asks once a minute may miss one request.
const WATCHED_FOR: Duration = Duration::from_secs(150);

/// Serves metrics until a signal ends this process.
///
/// # Errors
/// Fails if it cannot listen at the address, or if pipes cannot be scanned.
pub fn serve(address: SocketAddr, mut monitor: Monitor) -> Result<()> {
    let listener = listen(address)?;
    let local = listener.local_addr()?;
    // The figures of the second scan are counted from the first scan.
    monitor.outlive_process();
    let mut page = Page::new(monitor);
    page.scan()?;
    let interrupt = Interrupt::noted();
    let mut wakes = interrupt.wakes()?;
    let readers = address::open_to(local).unwrap_or("every process on this machine");
    say_line(format_args!(
        "fullbore top: serving metrics at http://{local}/metrics to {readers}"
    ));
    let shared = SharedPage::with_samples(page)?;
    let page = move || shared.answer();
    server::serve(listener, LIMITS, page).with_context(|| format!("serving at {local}"))?;
    // A signal may have come before `wakes` existed. A read that a signal has interrupted is repeated.
    if !interrupt.came() {
        wakes.read_exact(&mut [0])?;
    }
    interrupt.obey();
    Ok(())
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let hint = match Errno::from_io_error(&error) {
            Some(Errno::ADDRINUSE) => {
                return anyhow!(
                    "--prometheus {address}: the address is already in use; choose another port"
                );
            }
            Some(Errno::ACCESS | Errno::PERM) => {
                "this user may not use this port; choose a port from 1024 on"
            }
            Some(Errno::ADDRNOTAVAIL) => "this machine has no such address",
            Some(Errno::AFNOSUPPORT) => "this machine does not support this kind of address",
            _ => return anyhow::Error::new(error).context(format!("--prometheus {address}")),
        };
        Unsupported(format!("--prometheus {address}: {hint}")).into()
    })
}

/// The page, with the result of the last scan.
struct Page {
    monitor: Monitor,
    /// The time until which the last scan is served.
    fresh_until: Instant,
    /// The result of the last scan in the OpenMetrics format, or why it failed.
    seen: Result<Arc<str>, String>,
    scrapes: u64,
    /// The time of the last request, or of the start before the first request.
    last_scrape: Option<Instant>,
    last_sample: Instant,
}

impl Page {
    fn new(monitor: Monitor) -> Self {
        let now = Instant::now();
        Self {
            monitor,
            fresh_until: now,
            seen: Err("no scan has been made yet".to_owned()),
            scrapes: 0,
            last_scrape: Some(now),
            last_sample: now,
        }
    }

    fn scan(&mut self) -> Result<()> {
        let began = Instant::now();
        let scanned = self.monitor.scan().map_err(anyhow::Error::from);
        let scanned = scanned.and_then(|overview| {
            let scrapes = self.scrapes;
            Ok(encoding::open_metrics(PageData { overview, scrapes })?)
        });
        let ended = Instant::now();
        self.last_sample = ended;
        self.fresh_until = ended + FRESH_FOR.max((ended - began) * REST);
        let why = |error: &anyhow::Error| format!("{error:#}");
        self.seen = scanned.as_deref().map(Into::into).map_err(why);
        scanned.map(drop)
    }

    fn answer(&mut self) -> Answer {
        let now = Instant::now();
        if self.fresh_until <= now {
            // If the scan fails, the answer says why.
            let _ = self.scan();
        }
        self.scrapes += 1;
        self.last_scrape = Some(now);
        match &self.seen {
            Ok(page) => Answer {
                status: OK,
                content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
                body: Arc::clone(page),
            },
            Err(why) => text(UNAVAILABLE, why),
        }
    }

    /// Returns when the next sample is due, if there has been a request lately.
    fn next_sample(&self) -> Option<Instant> {
        self.last_scrape?
            .checked_add(WATCHED_FOR)
            .filter(|&until| until > self.last_sample)
            .map(|_| self.last_sample + self.monitor.next_sample())
    }

    fn sample(&mut self) {
        self.monitor.sample();
        self.last_sample = Instant::now();
        if self.next_sample().is_none() {
            self.monitor.forget();
        }
    }
}

/// The page, which the thread that serves it shares with the one that takes samples.
#[derive(Clone)]
struct SharedPage(Arc<(Mutex<Page>, Condvar)>);

impl SharedPage {
    /// Begins a thread that takes the samples for which requests ask.
    fn with_samples(page: Page) -> io::Result<Self> {
        let shared = Self(Arc::new((Mutex::new(page), Condvar::new())));
        let sampled = shared.clone();
        thread::Builder::new().spawn(move || sampled.sample())?;
        Ok(shared)
    }

    /// Locks the page. If a scan has panicked, which has been printed, this process exits: without its
    /// thread of samples it could serve nobody.
    fn lock(&self) -> MutexGuard<'_, Page> {
        (self.0.0.lock()).unwrap_or_else(|_| std::process::exit(101))
    }

    fn answer(&self) -> Answer {
        let answer = self.lock().answer();
        self.0.1.notify_one();
        answer
    }

    fn sample(&self) -> ! {
        let asked = &self.0.1;
        let mut page = self.lock();
        loop {
            let now = Instant::now();
            page = match page.next_sample() {
                None => asked.wait(page).expect("no scan panics"),
                Some(when) if now < when => {
                    let waited = asked.wait_timeout(page, when - now);
                    waited.expect("no scan panics").0
                }
                Some(_) => {
                    page.sample();
                    page
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use fullbore_observe::census::scope::{Scope, Whose};

    use super::*;

    #[test]
    fn samples_begin_with_a_request() {
        let scope = Scope {
            whose: Whose::Tree(std::process::id()),
            all: true,
        };
        let mut page = Page::new(Monitor::new(scope).unwrap());
        page.last_scrape = None;
        let first = page.last_sample;
        let shared = SharedPage::with_samples(page).unwrap();
        shared.answer();
        let began = Instant::now();
        let answered = shared.lock().last_sample;
        assert!(answered > first, "the request made a scan");
        while shared.lock().last_sample == answered {
            assert!(began.elapsed() < Duration::from_secs(60), "no sample");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
