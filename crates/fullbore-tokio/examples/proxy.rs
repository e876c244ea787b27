//! A TCP proxy: `proxy LISTEN TO [--by-reference]`, as in `proxy 127.0.0.1:8080 127.0.0.1:80`.
//!
//! At SIGINT or SIGTERM it stops listening, lets connections finish for a minute, and prints its totals.

use std::error::Error;
use std::io;
use std::time::Duration;

use fullbore_tokio::{Both, Ended, Guarantee, Options};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

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
    println!("{}", listener.local_addr()?);
    let (mut connections, mut figures) = (JoinSet::new(), Figures::default());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => drop(connections.spawn(relay(client, to.clone(), options))),
                // Too many open files, or a client that has already closed.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(ended) = connections.join_next() => figures.add(ended),
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    drop(listener);
    let finish = async {
        while let Some(ended) = connections.join_next().await {
            figures.add(ended);
        }
    };
    if timeout(Duration::from_secs(60), finish).await.is_err() {
        println!("{} connections were cut off", connections.len());
    }
    println!("{figures:?}");
    Ok(())
}

/// Moves the bytes of a connection. Unless both peers have ended it, closing it resets both, because an end would look
/// like success.
async fn relay(mut client: TcpStream, to: String, options: Options) -> io::Result<Both> {
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
    Ok(both)
}

/// The totals of all connections.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "it is printed")]
struct Figures {
    connections: u64,
    failed: u64,
    bytes: u64,
    spliced: u64,
}

impl Figures {
    fn add(&mut self, ended: Result<io::Result<Both>, JoinError>) {
        self.connections += 1;
        let both = match ended.unwrap_or_else(|panicked| Err(panicked.into())) {
            Ok(both) => both,
            Err(error) => {
                eprintln!("proxy: {error}");
                return self.failed += 1;
            }
        };
        self.bytes += both.a_to_b.bytes + both.b_to_a.bytes;
        self.spliced += both.a_to_b.spliced + both.b_to_a.spliced;
    }
}
