//! Deadlines at a FIFO beside another process, which takes bytes and gives them back at any time.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fullbore::ConsumerOptions;

use crate::common::under_load;

/// A call that sleeps in the kernel would never return. Of those that do not, one in a hundred may be late for another
/// reason than that it waits for a CPU: the host of a virtual machine can take that away.
#[test]
fn under_load_a_thousand_deadlines_at_a_fifo_are_kept_beside_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let both = File::options().read(true).write(true).open(&path).unwrap();
    rustix::io::write(&both, b"x").unwrap();
    // It reads the byte and writes it again, as fast as it can.
    let mut other = Command::new("sh")
        .args(["-c", "exec dd bs=1 <&0 >&0 2> /dev/null"])
        .stdin(Stdio::from(both.try_clone().unwrap()))
        .spawn()
        .unwrap();
    let tries = under_load(1000);
    let (mut late, mut got) = (0, 0);
    for _ in 0..tries {
        let queued = waited_for_cpu();
        let at = Instant::now() + Duration::from_millis(2);
        let mut consumer = ConsumerOptions::new()
            .buffer(1)
            .deadline(at)
            .open(&both)
            .unwrap();
        loop {
            match consumer.read(&mut [0; 1]) {
                Ok(_) => {
                    got += 1;
                    rustix::io::write(&both, b"x").unwrap();
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                    break;
                }
            }
        }
        let by = at.elapsed().saturating_sub(waited_for_cpu() - queued);
        late += u64::from(by > Duration::from_millis(50));
    }
    other.kill().unwrap();
    other.wait().unwrap();
    println!("{late} of {tries} deadlines were late; {got} bytes were read");
    assert!(late * 100 <= tries, "{late} of {tries}");
}

/// Returns how long this thread has waited for a CPU, if the kernel counts it (`proc_pid_schedstat`, fs/proc/base.c).
fn waited_for_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}
