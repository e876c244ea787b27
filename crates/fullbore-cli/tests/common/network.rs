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
                None => is_listened_at(port, child.id()).then_some(true),
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

/// Whether this process listens at this port. To connect would be taken for the sender. Another process may listen there
/// for a moment, while it looks for a free port.
pub fn is_listened_at(port: u16, by: u32) -> bool {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(fs::read_to_string);
    let local = format!(":{port:04X}");
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let sockets: Vec<String> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        // TCP_LISTEN of include/net/tcp_states.h.
        .filter(|words| words.len() > 9 && words[1].ends_with(&local) && words[3] == "0A")
        .map(|words| format!("socket:[{}]", words[9]))
        .collect();
    let Ok(open) = fs::read_dir(format!("/proc/{by}/fd")) else {
        return false;
    };
    let mut targets = open.flatten().flat_map(|fd| fs::read_link(fd.path()));
    targets.any(|target| {
        sockets
            .iter()
            .any(|socket| target.as_os_str() == socket.as_str())
    })
}
