//! Tests with processes that wait, end and start others.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::fs::{FileType, Mode};

use super::*;

fn start(program: &str, arguments: &[&str]) -> (Child, Watched) {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let watched = Watched::new(child.id()).unwrap();
    (child, watched)
}

fn doings(watched: &mut Watched) -> Vec<Doing> {
    let mut all = Vec::new();
    watched.sample(|doing| {
        all.push(doing);
        true
    });
    all
}

fn wait_until(what: &str, mut seen: impl FnMut() -> bool) {
    let began = Instant::now();
    while !seen() {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "{what}: not seen"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_wait_is_seen_with_tracing_rights_and_without() {
    let (child, mut watched) = start("cat", &[]);
    wait_until("a read", || {
        matches!(
            doings(&mut watched)[..],
            [Doing::Waits(On::Read(Object::Pipe(_)))]
        )
    });
    // Without the call, only the kernel function is known, and without that, only that the
    // thread sleeps.
    watched.threads[0].syscall = None;
    let said = doings(&mut watched);
    let known = [On::Read(Object::SomePipe), On::Unknown].map(Doing::Waits);
    assert!(
        matches!(said[..], [doing] if known.contains(&doing)),
        "{said:?}"
    );
    end(child);
}

#[test]
fn a_wait_for_a_fifo_is_no_wait_for_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    // Nobody opens the other side.
    let (child, mut watched) = start("cat", &[path.to_str().unwrap()]);
    let opens = [On::Partner, On::Unknown].map(Doing::Waits);
    wait_until(
        "a wait in open(2)",
        || matches!(doings(&mut watched)[..], [doing] if opens.contains(&doing)),
    );
    let inode = rustix::fs::stat(&path).unwrap().st_ino;
    let _writer = File::options().read(true).write(true).open(&path).unwrap();
    wait_until("a wait for bytes", || {
        doings(&mut watched) == [Doing::Waits(On::Read(Object::Pipe(inode)))]
    });
    end(child);
}

#[test]
fn a_zombie_has_ended_and_has_its_last_word() {
    let burn = "i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done";
    let (child, mut watched) = start("sh", &["-c", burn]);
    wait_until("its end", || doings(&mut watched) == [Doing::Ended]);
    assert!(watched.refresh());
    assert!(watched.used.cpu > Duration::from_millis(1));
    assert!(watched.used.read.is_some_and(|read| read > 0));
    assert!(
        watched
            .activity()
            .is_some_and(|activity| activity.turns > 0)
    );
    end(child);
    assert!(!watched.refresh());
    assert_eq!(doings(&mut watched), [Doing::Ended]);
}

#[test]
fn the_past_of_a_thread_that_was_hidden_does_not_count() {
    let barrier = std::sync::Barrier::new(THREADS + 9);
    let (hidden, watched) = thread::scope(|scope| {
        for _ in 0..THREADS + 8 {
            scope.spawn(|| barrier.wait());
        }
        let watched = Watched::new(std::process::id());
        let listed = watched.map(|mut watched| {
            // As if threads had been hidden until now.
            let hidden = watched.threads.split_off(THREADS - 8);
            watched.changed = true;
            watched.refresh();
            (hidden, watched)
        });
        barrier.wait();
        listed
    })
    .unwrap();
    assert!(hidden.iter().all(|thread| thread.last.is_none()));
    let is_new = |thread: &&Thread| hidden.iter().any(|hidden| hidden.tid == thread.tid);
    let mut new = watched.threads.iter().filter(is_new);
    assert!(new.all(|thread| thread.last.is_some()));
}

#[test]
fn whoever_was_not_there_is_not_watched() {
    let (child, _) = start("true", &[]);
    let pid = child.id();
    end(child);
    assert!(Watched::new(pid).is_none());
}

#[test]
fn children_are_found() {
    let (child, mut watched) = start("sh", &["-c", "sleep 600; :"]);
    wait_until("a child", || {
        watched.refresh() && watched.children().len() == 1
    });
    let sleeps = Watched::new(watched.children()[0]).unwrap();
    end(child);
    let pid = rustix::process::Pid::from_raw(sleeps.id.pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_call_is_read_from_its_line() {
    assert_eq!(
        call("0 0x3 0x7f 0x0 0x0 0x0 0x0 0x7ff 0x7fe\n"),
        (0, vec![3, 127, 0, 0, 0, 0])
    );
    assert_eq!(call("-1 0x7ff 0x7fe\n").0, -1);
    assert_eq!(call(""), (-1, vec![]));
}
