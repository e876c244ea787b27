//! A thousand connections through one proxy, at once.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use fullbore_tokio::{Both, Guarantee, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::common::ends::{content, same_bytes};
use crate::common::watch;

const CONNECTIONS: usize = 1000;

/// Returns the descriptors of this process that are pipes.
fn pipes() -> HashSet<String> {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let names = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    names
        .filter_map(|name| name.to_str().map(str::to_owned))
        .filter(|name| name.starts_with("pipe:"))
        .collect()
}

/// Echoes everything until the end.
async fn echo(listener: TcpListener) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let (mut from, mut to) = socket.split();
            tokio::io::copy(&mut from, &mut to).await
        });
    }
}

/// Connects, and waits for an answer of the server: the backlog of a listener is short.
async fn connected(proxy: std::net::SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(proxy).await.unwrap();
    socket.write_all(b"?").await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), b'?');
    socket
}

/// Sends bytes that differ between connections, and compares the reply.
async fn ask(mut socket: TcpStream, number: usize) -> TcpStream {
    let len = 20_000 + number * 97;
    let bytes = &content()[number * 1009..][..len];
    {
        let (mut from, mut to) = socket.split();
        let sending = async {
            for piece in bytes.chunks(1 + number * 31 % 50_000) {
                to.write_all(piece).await.unwrap();
            }
        };
        let mut got = vec![0; len];
        let ((), read) = tokio::join!(sending, from.read_exact(&mut got));
        read.unwrap();
        same_bytes(&got, bytes, &format!("connection {number}"));
    }
    socket
}

#[test]
fn a_thousand_connections_get_their_own_bytes_and_idle_ones_hold_no_pipes() {
    let _watch = watch("a thousand connections");
    let wanted = CONNECTIONS as u64 * 6 + 500;
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum;
    if maximum.is_some_and(|maximum| maximum < wanted) {
        return fullbore_tests::skipped("a process may not have enough descriptors here");
    }
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(wanted);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
            let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = server.local_addr().unwrap();
            let echoing = tokio::spawn(echo(server));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let proxy = listener.local_addr().unwrap();
            let options = Options::new().guarantee(guarantee);
            let proxying = tokio::spawn(async move {
                let mut relays = JoinSet::<Both>::new();
                for _ in 0..CONNECTIONS {
                    let (mut client, _) = listener.accept().await.unwrap();
                    let options = options.clone();
                    relays.spawn(async move {
                        let mut server = TcpStream::connect(to).await.unwrap();
                        let mut transfer = options.copy_bidirectional(&mut client, &mut server);
                        transfer.run().await.unwrap()
                    });
                }
                relays.join_all().await
            });
            let mut sockets = Vec::new();
            for _ in 0..CONNECTIONS {
                sockets.push(connected(proxy).await);
            }
            let mut asking = JoinSet::new();
            for (number, socket) in sockets.into_iter().enumerate() {
                asking.spawn(ask(socket, number));
            }
            let idle = asking.join_all().await;
            // The proxy may not have been notified yet that its last bytes were read. Other tests create pipes, too.
            let began = Instant::now();
            while pipes().len() > 100 {
                let waited = began.elapsed();
                assert!(waited < Duration::from_secs(300), "{} pipes", pipes().len());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            drop(idle);
            let both = proxying.await.unwrap();
            let sum: u64 = (0..CONNECTIONS as u64)
                .map(|number| 1 + 20_000 + number * 97)
                .sum();
            assert_eq!(both.iter().map(|both| both.a_to_b.bytes).sum::<u64>(), sum);
            assert_eq!(both.iter().map(|both| both.b_to_a.bytes).sum::<u64>(), sum);
            echoing.abort();
        }
    });
}
