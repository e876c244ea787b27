//! Accepts connections and moves the bytes of each to a connection of its own to another address, and
//! back: `relay LISTEN TO`, as in `relay 127.0.0.1:8080 127.0.0.1:80`.
//!
//! One thread serves all connections, by tokio: a [`Transfer`] that never waits moves what there is, and
//! an [`AsyncFd`] says when there is more.

#![allow(unsafe_code)]

use std::error::Error;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};

use fullbore::{EndReason, Transfer, TransferSide};
use tokio::io::unix::AsyncFd;

/// Bytes after which a connection lets the others run, even if there is more to move.
const TURN: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, to] = arguments.as_slice() else {
        return Err("usage: relay LISTEN TO".into());
    };
    let listener = TcpListener::bind(listen)?;
    let to: SocketAddr = to.parse()?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?
        .block_on(accept(listener, to))?;
    Ok(())
}

async fn accept(listener: TcpListener, to: SocketAddr) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = registered(listener)?;
    loop {
        let mut ready = listener.readable().await?;
        match ready.try_io(|listener| listener.get_ref().accept()) {
            Ok(accepted) => {
                let (here, _) = accepted?;
                tokio::spawn(async move {
                    if let Err(error) = relay(here, to).await {
                        eprintln!("relay: {error}");
                    }
                });
            }
            Err(_would_block) => {}
        }
    }
}

/// Registers a socket of std with tokio, which says when it is ready.
fn registered<Socket: AsFd + AsRawFd>(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: the sockets of this file own their descriptor: it is the same one until it is closed,
    // which it is when the `AsyncFd` that owns the socket is dropped.
    Ok(unsafe { AsyncFd::register(socket) }?)
}

/// Moves bytes both ways, until both sides have ended.
async fn relay(here: TcpStream, to: SocketAddr) -> io::Result<()> {
    let there = tokio::net::TcpStream::connect(to).await?.into_std()?;
    // Each direction waits for both sockets, so each has descriptors of its own.
    let back = tokio::spawn(pass_on(there.try_clone()?, here.try_clone()?));
    pass_on(here, there).await?;
    back.await??;
    Ok(())
}

/// Moves all bytes from one socket to another, and then shuts down writing there.
async fn pass_on(from: TcpStream, to: TcpStream) -> io::Result<u64> {
    from.set_nonblocking(true)?;
    let (from, to) = (registered(from)?, registered(to)?);
    let mut transfer = Transfer::new(from.get_ref(), to.get_ref()).nonblocking();
    let mut waits_for = TransferSide::Source;
    loop {
        // Taken before the try, so that readiness that comes during it is not cleared afterwards.
        let mut ready = match waits_for {
            TransferSide::Source => from.readable().await?,
            TransferSide::Sink => to.writable().await?,
        };
        let mut moved = 0;
        let report = transfer.run_with(|progress| {
            moved += progress.step;
            match moved < TURN {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        match report.ended {
            EndReason::WouldBlock(side) if side == waits_for => ready.clear_ready(),
            EndReason::WouldBlock(side) => waits_for = side,
            // Its turn is over.
            EndReason::Cancelled => tokio::task::yield_now().await,
            _ => {
                // The peer may have closed it already.
                let _ = to.get_ref().shutdown(Shutdown::Write);
                return Ok(report.bytes);
            }
        }
    }
}
