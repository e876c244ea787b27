//! A TCP proxy: `proxy LISTEN TO [--by-reference]`, as in `proxy 127.0.0.1:8080 127.0.0.1:80`.
//!
//! At SIGINT or SIGTERM it stops listening, lets connections finish for a minute, and prints its totals.

use std::{error::Error, io, time::Duration};

use fullbore_tokio::{Ended, Guarantee, Options};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio::time;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (listen, to, guarantee) = match arguments.as_slice() {
        [listen, to] => (listen, to, Guarantee::Snapshot),
        [listen, to, option] if option == "--by-reference" => (listen, to, Guarantee::Reference),
        _ => return Err("usage: proxy LISTEN TO [--by-reference]".into()),
    };
    let options = Options::new()
        .guarantee(guarantee)
        .idle_timeout(Duration::from_secs(600));
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(listen).await?;
    // The 128 of `bind` are too few: the kernel drops what is more, and clients try again after 1, 3, 7 seconds.
    rustix::net::listen(&listener, 4096)?;
    println!("{}", listener.local_addr()?);
    let (mut connections, mut failed, mut bytes) = (JoinSet::new(), 0, 0);
    let mut count =
        |ended: Result<io::Result<u64>, JoinError>| match ended.unwrap_or_else(|e| Err(e.into())) {
            Ok(moved) => bytes += moved,
            Err(error) => {
                failed += 1;
                eprintln!("proxy: {error}");
            }
        };
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => drop(connections.spawn(relay(client, to.clone(), options.clone()))),
                // Too many open files, or a client that has already closed.
                Err(_) => time::sleep(Duration::from_millis(10)).await,
            },
            Some(ended) = connections.join_next() => count(ended),
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    drop(listener);
    let minute = time::Instant::now() + Duration::from_secs(60);
    while let Ok(Some(ended)) = time::timeout_at(minute, connections.join_next()).await {
        count(ended);
    }
    let open = connections.len();
    println!("{bytes} bytes; {failed} connections failed, {open} were cut off");
    Ok(())
}

/// Moves the bytes of a connection, and returns their number. Unless both peers have ended it, closing it resets both,
/// because an end would look like success.
async fn relay(mut client: TcpStream, to: String, options: Options) -> io::Result<u64> {
    client.set_zero_linger()?;
    let mut server = TcpStream::connect(to).await?;
    server.set_zero_linger()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut transfer = options.copy_bidirectional(&mut client, &mut server);
    let both = transfer.run().await?;
    if (both.a_to_b.ended, both.b_to_a.ended) == (Ended::AtEnd, Ended::AtEnd) {
        #[allow(deprecated, reason = "only a time to linger makes a close block")]
        for socket in [&client, &server] {
            socket.set_linger(None)?;
        }
    }
    Ok(both.a_to_b.bytes + both.b_to_a.bytes)
}
