//! Several meters of one pipeline that draw below each other.
//!
//! One of them, the leader, draws the lines of all, in one write; the others send it theirs. Whoever binds
//! the name of the group, which is a socket in the abstract namespace (unix(7)), leads. The name is gone with
//! its process, whatever ends it. Then another one leads and goes on below what was drawn last, because the
//! leader has told it to all. So nothing is left behind, and nobody asks the terminal where its cursor is.
//!
//! Nothing here waits while bytes pass: all sockets are nonblocking until the last line of this process.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_linux::{Ready, is_ready};
use fullbore_process::{live_thread, peer_of};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, getpgrp, pidfd_open};
use serde::{Deserialize, Serialize};

use super::lines::{Screen, say_line};
use super::stderr;

/// How long the last line of this process may take to be drawn by another one.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest text that another process may send.
const LONGEST: usize = 1 << 20;

/// The lines of a member. They are shown in the order of PIDs, which is that of most pipelines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Drawn {
    lines: Vec<String>,
    ended: bool,
    /// The number of lines that are to stay above all others.
    said: u64,
}

/// What is on the screen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Picture {
    members: BTreeMap<u32, Drawn>,
    /// The columns of each line that was drawn.
    drawn: Vec<usize>,
}

/// What a member tells.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    pid: u32,
    drawn: Drawn,
    /// The last of the lines that are to stay above all others.
    above: Vec<String>,
}

/// The meters of a process group on one terminal.
#[derive(Debug, Default)]
pub struct Group {
    name: String,
    role: Role,
    picture: Picture,
    /// The number of lines of this process that are to stay, and those that are perhaps not on the screen yet.
    said: u64,
    unsaid: Vec<String>,
}

#[derive(Debug, Default)]
enum Role {
    Leader {
        listener: UnixListener,
        members: Vec<Peer>,
    },
    Member(Peer),
    /// Not decided yet, or not possible.
    #[default]
    Alone,
}

impl Group {
    /// Returns the group of this process on the terminal on stderr; `None` if that is no terminal.
    pub fn new() -> Option<Self> {
        let stat = rustix::fs::fstat(stderr()).ok()?;
        if !rustix::termios::isatty(stderr()) {
            return None;
        }
        let (user, group) = (geteuid().as_raw(), getpgrp().as_raw_nonzero());
        let mut this = Self {
            name: format!("fullbore-meters-{user}-{:x}-{group}", stat.st_rdev),
            ..Self::default()
        };
        this.join();
        Some(this)
    }

    /// Binds the name and becomes the leader, or connects to the leader.
    fn join(&mut self) {
        let Ok(address) = SocketAddr::from_abstract_name(&self.name) else {
            return;
        };
        // The leader may exit between bind and connect, or not be listening yet; retry.
        for _ in 0..500 {
            if let Ok(listener) = UnixListener::bind_addr(&address) {
                if listener.set_nonblocking(true).is_ok() {
                    let members = Vec::new();
                    self.role = Role::Leader { listener, members };
                }
                return;
            }
            if let Some(peer) = UnixStream::connect_addr(&address).ok().and_then(Peer::new) {
                self.role = Role::Member(peer);
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Shows these lines of this process.
    pub fn show(&mut self, screen: &mut Screen, lines: Vec<String>) {
        let (ended, said) = (false, self.said);
        self.tell(screen, Drawn { lines, ended, said });
    }

    /// Prints a line above those that are drawn.
    pub fn say(&mut self, screen: &mut Screen, line: String) {
        self.said += 1;
        self.unsaid.push(line);
        let own = self.picture.members.get(&std::process::id());
        let mut drawn = own.cloned().unwrap_or_default();
        drawn.said = self.said;
        self.tell(screen, drawn);
    }

    fn tell(&mut self, screen: &mut Screen, drawn: Drawn) {
        let pid = std::process::id();
        self.picture.members.insert(pid, drawn.clone());
        match &mut self.role {
            Role::Member(leader) => {
                let above = self.unsaid.clone();
                leader.send(&Told { pid, drawn, above });
            }
            Role::Leader { .. } | Role::Alone => {
                let above = std::mem::take(&mut self.unsaid);
                self.draw(screen, &above);
            }
        }
    }

    /// Returns what the leader has drawn last, if it has told that.
    fn heard(&mut self) -> Option<Picture> {
        let Role::Member(leader) = &mut self.role else {
            return None;
        };
        let picture = leader.hear::<Picture>().pop()?;
        if let Some(own) = picture.members.get(&std::process::id()) {
            let left = self.said.saturating_sub(own.said) as usize;
            let said = self.unsaid.len().saturating_sub(left);
            self.unsaid.drain(..said);
        }
        Some(picture)
    }

    /// Hears what the others have told, and draws it if this process leads.
    pub fn turn(&mut self, screen: &mut Screen) {
        let mut changed = false;
        let mut above = Vec::new();
        let heard = self.heard();
        match &mut self.role {
            Role::Alone => {}
            Role::Leader { listener, members } => {
                while let Ok((stream, _)) = listener.accept() {
                    if let Some(mut peer) = Peer::new(stream) {
                        peer.send(&self.picture);
                        members.push(peer);
                    }
                }
                for peer in members.iter_mut() {
                    for told in peer.hear::<Told>() {
                        peer.pid = Some(told.pid);
                        let before = self.picture.members.insert(told.pid, told.drawn.clone());
                        changed |= before.as_ref() != Some(&told.drawn);
                        let known = before.map_or(0, |before| before.said);
                        let new = told.drawn.said.saturating_sub(known) as usize;
                        let old = told.above.len().saturating_sub(new);
                        above.extend(told.above.into_iter().skip(old));
                    }
                }
                members.retain(|peer| peer.open);
            }
            Role::Member(leader) => {
                let own = self.picture.members.get(&std::process::id()).cloned();
                if let Some(picture) = heard {
                    self.picture = picture;
                }
                if let Some(own) = own {
                    self.picture.members.insert(std::process::id(), own.clone());
                    if !leader.open {
                        // Somebody else has to lead.
                        screen.drawn = self.picture.drawn.clone();
                        self.role = Role::Alone;
                        self.join();
                        self.tell(screen, own);
                    }
                }
            }
        }
        if changed {
            self.draw(screen, &above);
        }
    }

    fn draw(&mut self, screen: &mut Screen, above: &[String]) {
        screen.draw_below(above, &self.lines(screen));
        self.publish(screen);
    }

    fn publish(&mut self, screen: &Screen) {
        self.picture.drawn = screen.drawn.clone();
        if let Role::Leader { members, .. } = &mut self.role {
            for peer in members {
                peer.send(&self.picture);
            }
        }
    }

    /// Returns all lines, the last ones if there are too many for the terminal.
    fn lines(&self, screen: &Screen) -> Vec<String> {
        let (_, rows) = screen.size();
        let all = self.picture.members.values();
        let lines: Vec<String> = all.flat_map(|drawn| drawn.lines.clone()).collect();
        lines[lines.len().saturating_sub(rows - 1)..].to_vec()
    }

    /// Returns whether this process leads and another one that goes on has told it nothing yet.
    fn is_looked_for(&self) -> bool {
        let Role::Leader { members, .. } = &self.role else {
            return false;
        };
        let own = std::process::id();
        let mut others = self.picture.members.iter();
        others.any(|(&pid, drawn)| {
            let has_told = pid == own || members.iter().any(|peer| peer.pid == Some(pid));
            !drawn.ended && !has_told && is_running(pid)
        })
    }

    /// Shows the last lines of this process. The last of the group leaves them all on the screen for good.
    pub fn finish(mut self, screen: &mut Screen, lines: Vec<String>) {
        let (ended, said) = (true, self.said);
        let own = Drawn { lines, ended, said };
        self.turn(screen);
        self.tell(screen, own.clone());
        // An error that the leader draws late would be on the screen twice.
        let times = if self.unsaid.is_empty() { 1 } else { 5 };
        let until = Instant::now() + times * PATIENCE;
        let pid = std::process::id();
        loop {
            // The leader has drawn it when it says so.
            let heard = self.heard();
            let Role::Member(leader) = &self.role else {
                break;
            };
            if heard.is_some_and(|picture| picture.members.get(&pid) == Some(&own)) {
                return;
            }
            if !leader.open {
                self.turn(screen);
                continue;
            }
            if Instant::now() >= until {
                self.unsaid.iter().for_each(say_line);
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.turn(screen);
        // Those that go on may still have to find out that this process leads now. They draw these lines then.
        while self.is_looked_for() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
            self.turn(screen);
        }
        let all_ended = self.picture.members.values().all(|drawn| drawn.ended);
        let nobody = !matches!(&self.role, Role::Leader { members, .. } if !members.is_empty());
        if all_ended || nobody {
            let lines = self.lines(screen);
            screen.leave(&lines);
            self.picture = Picture::default();
            self.publish(screen);
        }
    }
}

/// Returns whether the process has not ended. One that nobody has waited for yet has ended.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return false;
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => is_ready(process.as_fd(), Ready::ToRead) == Ok(false),
        Err(Errno::SRCH) => false,
        // A kernel before 5.3, a filter, or too many open files.
        Err(_) => live_thread(pid.as_raw_nonzero().get() as u32).is_some(),
    }
}

/// Another meter.
#[derive(Debug)]
struct Peer {
    stream: UnixStream,
    /// Its process, once it has told something.
    pid: Option<u32>,
    /// What was received and is no whole line yet.
    heard: Vec<u8>,
    open: bool,
}

impl Peer {
    /// Returns `None` for a process of another user.
    fn new(stream: UnixStream) -> Option<Self> {
        let peer = peer_of(&stream).ok()?;
        let ours = peer.user == geteuid().as_raw() && stream.set_nonblocking(true).is_ok();
        ours.then_some(Self {
            stream,
            pid: None,
            heard: Vec::new(),
            open: true,
        })
    }

    /// Sends a line. A peer that does not take it whole is left: it looks for another leader then.
    fn send(&mut self, what: &impl Serialize) {
        let mut text = serde_json::to_vec(what).unwrap_or_default();
        text.push(b'\n');
        if !matches!(self.stream.write(&text), Ok(n) if n == text.len()) {
            self.open = false;
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Returns what was received since the last time.
    fn hear<T: for<'de> Deserialize<'de>>(&mut self) -> Vec<T> {
        let mut part = [0; 16 << 10];
        while self.heard.len() < LONGEST {
            match self.stream.read(&mut part) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    self.heard.extend(&part[..n]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.open = false,
            }
            break;
        }
        let end = self.heard.iter().rposition(|&byte| byte == b'\n');
        let rest = self.heard.split_off(end.map_or(0, |at| at + 1));
        let whole = std::mem::replace(&mut self.heard, rest);
        let lines = whole.split(|&byte| byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}
