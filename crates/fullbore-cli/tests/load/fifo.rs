//! Deadlines at a FIFO beside another process, which takes bytes and gives them back at any time.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fullbore::ConsumerOptions;

use crate::common::under_load;

/// A call that sleeps in the kernel would never return. Of those that do not, one in a hundred may be late, because
/// the scheduler gives the CPU to others.
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
        late += u64::from(at.elapsed() > Duration::from_millis(50));
    }
    other.kill().unwrap();
    other.wait().unwrap();
    println!("{late} of {tries} deadlines were late; {got} bytes were read");
    assert!(late * 100 <= tries, "{late} of {tries}");
}
