//! A relay between a sender and a receiver that cuts the connection after some bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Where and how a connection is cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Bytes from the sender to the receiver, or from the receiver to the sender, that pass before the next one cuts.
    pub forward: usize,
    pub backward: usize,
    /// By a reset, or as a program that ends.
    pub resets: bool,
}

impl Cut {
    pub const NEVER: Self = Self {
        forward: usize::MAX,
        backward: usize::MAX,
        resets: false,
    };
}

/// Relays one connection to this port, and returns its own port.
pub fn relay(to: u16, cut: Cut) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let relay = thread::spawn(move || {
        let (sender, _) = listener.accept().unwrap();
        // The receiver may have been killed.
        let Ok(receiver) = TcpStream::connect(("127.0.0.1", to)) else {
            return;
        };
        thread::scope(|scope| {
            scope.spawn(|| pass(&sender, &receiver, cut.forward, cut.resets));
            pass(&receiver, &sender, cut.backward, cut.resets);
        });
    });
    (port, relay)
}

/// Passes bytes on. An end is passed on as an end, and an error or the cut as a reset or an end of both.
fn pass(mut from: &TcpStream, mut to: &TcpStream, most: usize, resets: bool) {
    let mut room = [0; 4096];
    let mut passed = 0;
    loop {
        match from.read(&mut room) {
            Ok(0) => return drop(to.shutdown(Shutdown::Write)),
            Ok(n) => {
                let n_passed = n.min(most - passed);
                passed += n_passed;
                if to.write_all(&room[..n_passed]).is_ok() && n_passed == n {
                    continue;
                }
            }
            Err(_) => {}
        }
        for side in [from, to] {
            if resets {
                let _ = set_socket_linger(side, Some(Duration::ZERO));
            }
            let _ = side.shutdown(Shutdown::Both);
        }
        return;
    }
}
