//! The example `proxy`, run as a program.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

/// The number of concurrent connections.
const CONNECTIONS: usize = 32;

/// Bytes that each connection sends.
const SENT: usize = 400_000;

/// Bytes that each connection gets back, after a checksum of 8 bytes.
const REPLIED: usize = 300_000;

/// Returns bytes that depend on a number.
fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    });
    words.flatten().take(len).collect()
}

/// FNV-1a, which also detects reordered bytes.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Reads everything from a connection, and replies with its checksum and bytes that depend on that.
fn reply(mut connection: TcpStream) {
    let mut all = Vec::new();
    connection.read_to_end(&mut all).unwrap();
    let sum = checksum(&all);
    connection.write_all(&sum.to_le_bytes()).unwrap();
    connection.write_all(&bytes_of(sum, REPLIED)).unwrap();
}

#[test]
fn the_proxy_moves_every_byte_of_many_connections_at_once_and_finishes_them_when_it_is_ended() {
    for option in [None, Some("--by-reference")] {
        moves_every_byte(option);
    }
}

/// A running proxy, its output, and its address.
struct Proxy {
    program: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Proxy {
    /// Returns `None` if the example is not built.
    fn start(to: &str, option: Option<&str>) -> Option<Self> {
        let test = std::env::current_exe().unwrap();
        let program = test.parent().unwrap().with_file_name("examples/proxy");
        if !program.exists() {
            fullbore_tests::skipped(
                "the examples are not built; `cargo build --examples` does that",
            );
            return None;
        }
        let mut program = Command::new(program)
            .args(["127.0.0.1:0", to])
            .args(option)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let mut stdout = BufReader::new(program.stdout.take().unwrap());
        stdout.read_line(&mut address).unwrap();
        Some(Self {
            program,
            stdout,
            address: address.trim().to_owned(),
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

/// Returns a listening server and its address; `None` without a network.
fn server() -> Option<(TcpListener, String)> {
    match TcpListener::bind("127.0.0.1:0") {
        Ok(server) => {
            let address = server.local_addr().unwrap().to_string();
            Some((server, address))
        }
        Err(error) => {
            fullbore_tests::skipped(&format!("no network here: {error}"));
            None
        }
    }
}

#[test]
fn peers_see_a_reset_and_not_an_end_when_the_proxy_goes() {
    let Some((server, to)) = server() else { return };
    let Some(proxy) = Proxy::start(&to, None) else {
        return;
    };
    let mut client = TcpStream::connect(&proxy.address).unwrap();
    client.write_all(b"?").unwrap();
    let (mut connection, _) = server.accept().unwrap();
    connection.read_exact(&mut [0]).unwrap();
    drop(proxy);
    for mut peer in [client, connection] {
        let read = peer.read(&mut [0]);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_client_sees_a_reset_and_not_an_end_when_the_server_cannot_be_reached() {
    if server().is_none() {
        return;
    }
    let Some(proxy) = Proxy::start("nowhere", None) else {
        return;
    };
    let read = TcpStream::connect(&proxy.address).and_then(|mut client| client.read(&mut [0]));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

fn moves_every_byte(option: Option<&str>) {
    let Some((server, to)) = server() else { return };
    let Some(mut proxy) = Proxy::start(&to, option) else {
        return;
    };
    let serving = thread::spawn(move || {
        for _ in 0..CONNECTIONS {
            let (connection, _) = server.accept().unwrap();
            thread::spawn(|| reply(connection));
        }
    });
    let all_are_connected = Arc::new(Barrier::new(CONNECTIONS + 1));
    let clients: Vec<_> = (0..CONNECTIONS as u64)
        .map(|number| {
            let (address, barrier) = (proxy.address.clone(), all_are_connected.clone());
            thread::spawn(move || {
                let bytes = bytes_of(number, SENT);
                let mut connection = TcpStream::connect(address).unwrap();
                barrier.wait();
                connection.write_all(&bytes).unwrap();
                connection.shutdown(Shutdown::Write).unwrap();
                let mut replied = Vec::new();
                connection.read_to_end(&mut replied).unwrap();
                let sum = checksum(&bytes);
                assert_eq!(replied.len(), 8 + REPLIED, "connection {number}");
                assert_eq!(replied[..8], sum.to_le_bytes(), "connection {number}");
                assert!(
                    replied[8..] == bytes_of(sum, REPLIED),
                    "connection {number}"
                );
            })
        })
        .collect();
    all_are_connected.wait();
    // Each connection has reached the server, or the proxy has accepted it.
    serving.join().unwrap();
    kill_process(Pid::from_child(&proxy.program), Signal::TERM).unwrap();
    let outcomes: Vec<_> = clients.into_iter().map(thread::JoinHandle::join).collect();
    let mut figures = String::new();
    proxy.stdout.read_to_string(&mut figures).unwrap();
    let status = proxy.program.wait().unwrap();
    for outcome in outcomes {
        outcome.unwrap();
    }
    assert!(status.success(), "{figures}");
    let bytes = CONNECTIONS * (SENT + 8 + REPLIED);
    let expected = format!("{bytes} bytes; 0 connections failed, 0 were cut off\n");
    assert_eq!(figures, expected);
}
