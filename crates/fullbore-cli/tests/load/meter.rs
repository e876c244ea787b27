//! Tests of `fullbore meter` that depend on chance: it finds the slow side by sampling 50 times a second, and
//! when it draws or writes bytes depends on when it gets a CPU.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::meter::*;
use crate::common::terminal::{Terminal, below_each_other};
use crate::common::*;

#[test]
fn under_load_the_line_names_the_limit_while_it_runs() {
    let files = Files::new();
    let (path, _) = files.file("a", 100_000);
    at_least(16, 20, "an estimate, and nobody but the limit", |_| {
        let output = finish(start(&mut meter("-f -i 0.2 -L 100000", &[&path])));
        let drawn: Vec<&str> = stderr(&output).split('\r').collect();
        let slow = |words| drawn.iter().filter(|line| line.contains(words)).count();
        match drawn.len() >= 3
            && drawn[0].contains("% ETA 0:00:0")
            && slow("slow: limit") == slow("slow:")
        {
            true => Ok(()),
            false => Err(said(&output)),
        }
    });
}

#[test]
fn under_load_what_is_limited_comes_in_small_pieces() {
    at_least(16, 20, "a tenth of a second's bytes within 0.9 s", |_| {
        let mut child = start(&mut meter("-q -L 100K", &[Path::new("/dev/zero")]));
        let out = child.stdout.as_mut().unwrap();
        let began = Instant::now();
        let mut first = vec![0; 10 << 10];
        out.read_exact(&mut first).unwrap();
        let took = began.elapsed();
        child.kill().unwrap();
        child.wait().unwrap();
        match took < Duration::from_millis(900) {
            true => Ok(()),
            false => Err(format!("{took:?}")),
        }
    });
}

/// Tests that the slow side is found. This depends on sampling, 50 times a second.
fn found_out(script: &str, words: &str) {
    at_least(16, 20, words, |_| {
        let output = finish(start(&mut sh(script)));
        match output.status.success() && stderr(&output).contains(words) {
            true => Ok(()),
            false => Err(said(&output)),
        }
    });
}

#[test]
fn under_load_a_slow_writer_is_found_out() {
    found_out(
        "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.15; done | $F meter -f | cat",
        "the writer is slow: its pipe was empty ",
    );
}

#[test]
fn under_load_a_slow_reader_is_found_out_behind_a_pipe_and_behind_a_file() {
    for script in [
        "$F write --bytes-to-pipe 40M | $F meter -f | $F read --bytes-to-pipe 40M --chunk 64K --pause 3ms",
        "$F meter -f /dev/zero | (sleep 1.5; head -c 100 >/dev/null)",
    ] {
        found_out(script, "the reader is slow: its pipe was full ");
    }
}

#[test]
fn under_load_a_limit_is_named() {
    found_out(
        "head -c 100K /dev/zero | $F meter -f -L 100K | cat >/dev/null",
        "the rate limit is the bottleneck",
    );
}

#[test]
fn under_load_a_short_run_is_no_proof() {
    at_least(16, 20, "too short to tell", |_| {
        let output = fed(&mut meter("-f", &[]), b"short");
        match verdict(&output).ends_with("too short to tell which side is slow") {
            true => Ok(()),
            false => Err(said(&output)),
        }
    });
}

/// A line that is drawn between the moment in which the terminal changes its width and the one in which the
/// program can know it has other rows than the program thinks, and is left behind.
#[test]
fn under_load_no_line_is_left_behind_when_the_width_changes() {
    at_least(14, 20, "no line is left behind", |_| {
        let Some(terminal) = Terminal::wide("the width", 80) else {
            return Ok(());
        };
        terminal.types(&format!(
            "{FULLBORE} meter -cN one -i 0.1 -L 20M /dev/zero | {FULLBORE} meter -cN two -rb -i 0.1 | \
             {FULLBORE} meter -cN three -i 0.1 > /dev/null"
        ));
        let is_drawn = |screen: &str| {
            below_each_other(screen, &["one:", "two:", "three:"])
                .is_some_and(|lines| lines.iter().all(|line| line.contains("iB/s]")))
        };
        terminal.shows_what("three lines", is_drawn);
        for columns in ["50", "120"] {
            terminal.tmux(&["resize-window", "-x", columns]);
            let screen = terminal.shows_what("three lines", is_drawn);
            if screen.matches("one: ").count() != 1 {
                return Err(screen);
            }
        }
        Ok(())
    });
}
