//! A `fullbore buffer` that listens at a port of this machine.

use std::net::TcpListener;
use std::path::Path;
use std::process::Child;

use super::*;

/// Starts `fullbore buffer -I PORT` with further options in this directory, and returns it with its port once it listens.
pub fn receiver(directory: &Path, options: &str) -> (Child, u16) {
    loop {
        let port = free_port();
        let mut command = fullbore(&format!("buffer -q -I {port} {options}"));
        let mut child = start(command.current_dir(directory));
        let is_up = wait_for("it listens, or has ended", || {
            match child.try_wait().unwrap() {
                Some(_) => Some(false),
                None => is_listened_at(port).then_some(true),
            }
        });
        // Another program may have taken the port first.
        if is_up {
            return (child, port);
        }
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Whether a socket listens at this port. To connect would be taken for the sender.
pub fn is_listened_at(port: u16) -> bool {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(fs::read_to_string);
    let local = format!(":{port:04X}");
    tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines())
        .any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let is_it = words
                .next()
                .is_some_and(|address| address.ends_with(&local));
            // TCP_LISTEN of include/net/tcp_states.h.
            is_it && words.nth(1) == Some("0A")
        })
}
