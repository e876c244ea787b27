//! Sealed streams over TCP whose connection is cut, or of which a side is killed, at a random moment. Every one of 1,000 has
//! to deceive nobody.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::network::receiver;
use crate::common::proxy::{Cut, relay};
use crate::common::{finish, fullbore, said, start, under_load};

#[test]
fn under_load_no_file_is_replaced_by_a_part_of_a_stream() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut random = fastrand::Rng::new();
    let mut ends = [0; 3];
    for round in 0..under_load(1000) {
        let most = 1 << random.usize(..22);
        let length = random.usize(..most);
        let mut content = vec![0; length];
        random.fill(&mut content);
        fs::write(path("in"), &content).unwrap();
        fs::write(path("out"), "old\n").unwrap();
        // A quarter of the content goes through whole.
        let mut at = |most: usize| match random.bool() {
            true => random.usize(..=most),
            false => usize::MAX,
        };
        let cut = Cut {
            forward: at(length + 100),
            backward: at(60),
            resets: random.bool(),
        };
        let (receiving, port) = receiver(directory.path(), "--unseal --atomic -f -o out");
        let (port, relaying) = relay(port, cut);
        let words = format!("buffer -q -W 300 --seal -i in -O 127.0.0.1:{port}");
        let sending = start(fullbore(&words).current_dir(directory.path()));
        let victim = [Some(&sending), Some(&receiving), None, None][random.usize(..4)];
        let victim = victim.map(Pid::from_child);
        if let Some(victim) = victim {
            thread::sleep(Duration::from_micros(random.u64(..20_000)));
            // It has not been waited for, so its PID is its own.
            let _ = kill_process(victim, Signal::KILL);
        }
        let sent = finish(sending);
        if victim.is_some() && !sent.status.success() {
            // A sender that was killed before it had connected leaves a receiver that waits for one.
            let _ = std::net::TcpStream::connect(("127.0.0.1", port));
        }
        let received = finish(receiving);
        relaying.join().unwrap();
        let out = fs::read(path("out")).unwrap();
        let what = format!(
            "{round}: {length}, {cut:?}, {victim:?}: {}\n{}",
            said(&sent),
            said(&received)
        );
        assert!(out == content || out == b"old\n", "{what}");
        // The sender's success is that of the receiver, which says so only when the content is in place.
        assert!(!sent.status.success() || out == content, "{what}");
        assert!(!received.status.success() || out == content, "{what}");
        assert!(
            received.status.code() != Some(1) || out == b"old\n" || content == b"old\n",
            "{what}"
        );
        let is_known = sent.status.code() != Some(1) || !received.status.success();
        assert!(
            is_known || String::from_utf8_lossy(&sent.stderr).contains("is not known"),
            "{what}"
        );
        ends[usize::from(sent.status.success()) + usize::from(received.status.success())] += 1;
    }
    assert!(ends.iter().all(|&count| count > 0), "{ends:?}");
}
