//! The example of the crate's documentation, on a pipeline that runs.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../examples/slow_stage.rs"]
#[expect(dead_code, reason = "its `main` is for the command line")]
mod slow_stage;

/// Programs that are ended with the test.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn the_example_names_the_slow_stage_of_a_pipeline() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut running = Running(Vec::new());
    let mut start = |command: &mut Command| {
        // The stderr of the tests may be a pipe, which would be another pipeline of theirs.
        running
            .0
            .push(command.stderr(Stdio::null()).spawn().unwrap());
    };
    start(Command::new("yes").stdin(Stdio::null()).stdout(writer));
    let mut sleep = Command::new("sleep");
    start(sleep.arg("600").stdin(reader).stdout(Stdio::null()));
    drop(sleep);
    let pid = running.0[0].id();
    let until = Instant::now() + Duration::from_secs(300);
    loop {
        let found = slow_stage::slow_stages(pid).unwrap();
        // Whatever the tests were started with may have other pipes open in these processes too.
        let slow = found.iter().find(|(names, _)| names == &["sleep"]);
        if slow.is_some_and(|(_, verdict)| verdict.contains("limited by a timer")) {
            return;
        }
        assert!(Instant::now() < until, "{found:?}");
    }
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let error = slow_stage::slow_stages(child.id()).unwrap_err();
    assert!(error.to_string().contains("no such process"), "{error}");
}
