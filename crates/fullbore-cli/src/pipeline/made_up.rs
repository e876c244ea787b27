//! Pipelines whose slow stage is known, and what the verdict says of them.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;

use fullbore::Pipe;
use rustix::fs::{Mode, OFlags};

use super::*;

/// Starts the stages by `sh -c`, with pipes of so many bytes between them.
fn start(stages: &[&str], capacity: usize) -> (Vec<Child>, Watch) {
    let mut children = Vec::new();
    let mut links = Vec::new();
    let mut input: Option<OwnedFd> = None;
    for (at, text) in stages.iter().enumerate() {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stderr(Stdio::inherit());
        command.stdin(input.take().map_or_else(Stdio::null, Stdio::from));
        if at + 1 < stages.len() {
            let (pipe, growth) = Pipe::with_capacity(capacity).unwrap();
            let path = format!("/proc/self/fd/{}", pipe.writer.as_fd().as_raw_fd());
            links.push(Link {
                writer: at,
                reader: at + 1,
                handle: rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                    .unwrap(),
                capacity: growth.after,
                wanted: capacity,
            });
            command.stdout(pipe.writer);
            input = Some(pipe.reader);
        } else {
            command.stdout(Stdio::null());
        }
        children.push(command.spawn().unwrap());
    }
    let stages = (stages.iter().zip(&children))
        .map(|(text, child)| Stage {
            text: (*text).to_owned(),
            pid: child.id(),
        })
        .collect();
    (children, Watch::new(stages, links))
}

/// Runs them to their end.
fn watch(stages: &[&str], capacity: usize) -> Findings {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let (children, mut watch) = start(stages, capacity);
    let mut running: Vec<(usize, Child)> = children.into_iter().enumerate().collect();
    while !running.is_empty() {
        thread::sleep(watch.next_look());
        running.retain_mut(|(at, child)| {
            let pid = Pid::from_child(child);
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(pid), options).unwrap() {
                None => true,
                Some(_) => {
                    watch.ended(*at);
                    watch.status(*at, child.wait().unwrap());
                    false
                }
            }
        });
        watch.look();
    }
    watch.findings()
}

#[test]
fn try_it() {
    let line =
        std::env::var("LINE").unwrap_or_else(|_| "cat /dev/zero | head -c 1G | wc -l".into());
    let stages: Vec<&str> = line.split('|').map(str::trim).collect();
    let capacity = std::env::var("CAP").map_or(1 << 20, |cap| cap.parse().unwrap());
    let findings = watch(&stages, capacity);
    println!("{}", serde_json::to_string_pretty(&findings).unwrap());
    println!("{findings}");
}
