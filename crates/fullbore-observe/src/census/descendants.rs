//! The descendants of a process: its children, their children, and so on.

use std::collections::BTreeSet;
use std::fs;
use std::sync::OnceLock;

use procfs::process::Process;

/// Whether /proc is mounted and shows the PID namespace of this process. In another namespace, the same PID can belong to
/// another process, so a PID of such a /proc must not be signalled, and a PID of this namespace not looked up there.
pub fn proc_is_ours() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return false;
    };
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
    // The PIDs from the namespace of this /proc down to that of the process (`task_state` in
    // fs/proc/array.c).
    let numbers = field("NSpid:")
        .or_else(|| field("Pid:"))
        .unwrap_or_default();
    numbers
        .split_whitespace()
        .eq([std::process::id().to_string()])
}

/// Returns the descendants of `pid`.
pub fn descendants(pid: u32) -> BTreeSet<u32> {
    by_ancestry(pid).into_iter().collect()
}

/// Returns the descendants of `pid`, each after its parent. On kernels without /proc/PID/task/TID/children
/// (CONFIG_PROC_CHILDREN) it reads the parent of every process instead.
pub fn by_ancestry(pid: u32) -> Vec<u32> {
    if kernel_lists_children() {
        // It is `None` if the process has gone.
        below(pid, |parent| children(parent).unwrap_or_default())
    } else {
        descendants_by_parents(pid)
    }
}

/// Returns whether /proc/PID/task/TID/children exists.
fn kernel_lists_children() -> bool {
    static LISTED: OnceLock<bool> = OnceLock::new();
    *LISTED.get_or_init(|| children(std::process::id()).is_some())
}

fn below(pid: u32, children: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    let mut next = Some(pid);
    let mut at = 0;
    while let Some(parent) = next {
        found.extend(
            children(parent)
                .into_iter()
                .filter(|&pid| known.insert(pid)),
        );
        next = found.get(at).copied();
        at += 1;
    }
    found
}

/// Returns the children of a process, if the kernel lists them (CONFIG_PROC_CHILDREN).
pub fn children(pid: u32) -> Option<Vec<u32>> {
    let tasks = Process::new(pid as i32).ok()?.tasks().ok()?;
    let mut all = None;
    // A thread may have ended since it was listed; its children belong to another one by then.
    for children in tasks.flatten().filter_map(|task| task.children().ok()) {
        all.get_or_insert_with(Vec::new).extend(children);
    }
    all
}

fn descendants_by_parents(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = procfs::process::all_processes()
        .into_iter()
        .flatten()
        .filter_map(|process| process.ok()?.stat().ok())
        .map(|stat| (stat.pid as u32, stat.ppid as u32))
        .collect();
    below(pid, |parent| {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        children.map(|(child, _)| *child).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn children_and_theirs_are_found_by_either_way() {
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'sleep 600; :' & wait"])
            .spawn()
            .unwrap();
        let began = Instant::now();
        let two = loop {
            let found = descendants_by_parents(child.id());
            if found.len() == 2 || began.elapsed() > Duration::from_secs(300) {
                break found;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(by_ancestry(child.id()), two);
        let two = BTreeSet::from_iter(two);
        assert!(two.is_subset(&descendants(std::process::id())));
        for pid in &two {
            let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(two.len(), 2);
    }
}
