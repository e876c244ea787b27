//! Enlarges the pipes of a line that the shell runs as a whole: once they exist, as `tune` does.

use std::thread;
use std::time::Duration;

use fullbore_observe::tune::outcome::Options;
use fullbore_observe::tune::target::Target;
use fullbore_observe::tune::tune;
use fullbore_observe::{USUAL, proc_is_ours};

/// The first pause between two looks for new pipes, and the longest. A loop may make pipes at any time.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(5);

/// Enlarges the pipes between the descendants of this process from now on, until it ends. Pipes that others have open,
/// such as the stdout of the line, stay as they are, and so do those whose writer may rely on their capacity.
pub fn keep_enlarging(size: usize) {
    // In a /proc of another PID namespace, the PID of this process belongs to another one.
    if size <= USUAL || !proc_is_ours() {
        return;
    }
    let options = Options::growing(size);
    let me = Target::Started(std::process::id());
    // Without the thread, the pipes keep their capacity.
    let _ = thread::Builder::new().spawn(move || {
        let mut pause = FIRST;
        loop {
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
            // A pipe that cannot be enlarged now is tried again.
            let _ = tune(&me, options);
        }
    });
}
