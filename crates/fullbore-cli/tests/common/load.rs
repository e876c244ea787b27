//! Other work on the machine.

use std::process::{Child, Command};

use super::start;

/// As many processes that compute as there are CPUs, and as many again.
pub struct Load(Vec<Child>);

impl Load {
    pub fn new() -> Self {
        let count = 2 * std::thread::available_parallelism().unwrap().get();
        let compute = |_| {
            let mut shell = Command::new("sh");
            start(shell.args(["-c", "while :; do :; done"]))
        };
        Self((0..count).map(compute).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
