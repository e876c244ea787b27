//! Tests of `fullbore top`: what it reports about pipelines whose slow side is known, and that it does
//! not change how they run. `terminal/top.rs` tests what it draws.

use std::fs::{self, File};
use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::terminal::{READS, WIDE_NAMES, assert_equally_wide, wide_line};
use crate::common::top::*;
use crate::common::users::ForEverybody;
use crate::common::*;
use fullbore_observe::census::chains::PipeKind;
use fullbore_observe::overview::{Overview, PipeState, Side, Slow, StageState};
use fullbore_observe::verdict::numbers::Certainty;
use rustix::fs::{CWD, FileType, Mode, fstat, mknodat};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// A user id that no other program here uses.
const SOMEBODY: u32 = 54_323;

#[test]
fn the_slow_side_of_pipelines_is_named() {
    let slow_reader = format!("yes | {FULLBORE} read --chunk 4K --pause 5ms");
    the_slow_side_is_named(&[
        // The reader sleeps between small reads.
        (
            slow_reader.as_str(),
            &[("yes", "fullbore", Slow::Reader)][..],
        ),
        // The writer sleeps between small writes.
        (
            "while :; do echo x; sleep 0.02; done | cat >/dev/null",
            &[("sh", "cat", Slow::Writer)],
        ),
        // The last stage does not read.
        (
            "cat /dev/zero | sleep 600",
            &[("cat", "sleep", Slow::Reader)],
        ),
    ]);
}

/// Packets of one byte use up the slots of a pipe.
#[test]
fn a_pipe_without_a_free_slot_is_full_however_few_bytes_it_holds() {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    let reader = Line::with(
        Command::new("sleep")
            .arg("600")
            .stdin(reader)
            .stdout(Stdio::null()),
    );
    // It sleeps in write(2) when all slots are used.
    let write = format!("exec {FULLBORE} copy --by-reference");
    let (packets, to) = rustix::pipe::pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    let line = Line::with(
        Command::new("sh")
            .args(["-c", &write])
            .stdin(packets)
            .stdout(writer),
    );
    let feeding = std::thread::spawn(move || while rustix::io::write(&to, b"x").is_ok() {});
    let mut overviews = Overviews::new(&format!("--interval 200ms --pipeline {}", line.pid()));
    let found = overviews.until("a full pipe", |overview| {
        let pipe = pipe_between(overview, "fullbore", "sleep")?;
        (pipe.full? == 1.0 && pipe.filled? == 1.0).then(|| pipe.clone())
    });
    assert!(
        found.queued.unwrap() < found.capacity.unwrap() / 100,
        "{found:#?}"
    );
    assert_eq!(found.fills.last(), Some(&1.0), "{found:#?}");
    let table = finish(start(&mut fullbore(&format!(
        "top --once --pipeline {}",
        line.pid()
    ))));
    let row = stdout(&table)
        .lines()
        .find(|line| line.contains("sleep"))
        .unwrap()
        .to_owned();
    assert!(row.contains(" 100% "), "{row}");
    drop((overviews, line, reader));
    feeding.join().unwrap();
}

#[test]
fn who_waits_is_said_with_how_long_and_rates_only_where_they_are_counted() {
    let line = Line::new("cat /dev/zero | sleep 600; exit 3");
    let mut overviews = Overviews::new(&format!("--interval 200ms --pipeline {}", line.pid()));
    let found = overviews.until("a long wait", |overview| {
        let pipe = pipe_between(overview, "cat", "sleep")?;
        let blocked = pipe.blocked.first()?;
        (blocked.seconds > 1.0 && pipe.fills.len() > 3).then(|| pipe.clone())
    });
    assert_eq!(found.blocked[0].side, Side::Writer, "{found:#?}");
    assert!(found.queued.is_some(), "{found:#?}");
    assert_eq!(found.queued, found.capacity, "{found:#?}");
    assert_eq!(found.kind, PipeKind::Link);
    assert_eq!(found.fills.last(), Some(&1.0), "{found:#?}");
    drop((overviews, line));
    // Both count the same number of bytes in the end: on a busy machine, the counter of one may have been
    // read much later than the counter of the other. Bytes that are spliced are not counted at all.
    let line = Line::new("head -c 100G /dev/zero | wc -c; exit 3");
    let mut overviews = Overviews::new(&format!("--interval 300ms --pipeline {}", line.pid()));
    overviews.until("a rate that is counted", |overview| {
        let pipe = pipe_between(overview, "head", "wc")?;
        let is_one = pipe.bytes_per_second? > 0.0;
        (is_one && pipe.rate_is == Certainty::Counted).then_some(())
    });
    drop((overviews, line));
    let splices = format!(
        "{FULLBORE} write --way repeat --bytes-to-pipe 1000G | {FULLBORE} copy --by-reference >/dev/null; exit 3"
    );
    let line = Line::new(&splices);
    let mut overviews = Overviews::new(&format!("--interval 300ms --pipeline {}", line.pid()));
    for _ in 0..8 {
        let overview = overviews.next();
        let Some(pipe) = pipe_between(&overview, "fullbore", "fullbore") else {
            continue;
        };
        // What both read and write when they start is counted: a few KiB.
        let rate = pipe.bytes_per_second;
        assert!(rate.is_none_or(|rate| rate < 1e6), "invented: {pipe:#?}");
    }
}

#[test]
fn the_progress_is_that_of_the_whole_pipeline() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("million"), [0; 1_000_000]).unwrap();
    let start = |script: &str| {
        Line::start(
            Command::new("sh")
                .current_dir(directory.path())
                .args(["-c", script]),
        )
    };
    // Half of the file has been read, and has come out of the last pipe.
    let line = start("(head -c 500000; exec sleep 600) < million | cat | cat > /dev/null");
    let words = format!("--interval 200ms --pipeline {}", line.pid());
    Overviews::new(&words).until("half of the file", |overview| {
        let progress = overview.chains.first()?.progress?;
        assert!(progress.total == 1_000_000 && progress.passed <= 500_000);
        (progress.passed == 500_000).then_some(())
    });
    let once = run(&format!("top --once --pipeline {}", line.pid()));
    assert!(
        stdout(&once).contains("\nprogress: 50% of 977 KiB"),
        "{}",
        said(&once)
    );
    drop(line);
    // What lies unread in a pipe has not come out.
    let line = start(
        "(head -c 40000; exec sleep 600) < million | (head -c 20000 > /dev/null; exec sleep 600)",
    );
    let words = format!("--interval 200ms --pipeline {}", line.pid());
    Overviews::new(&words).until("a half of what was read", |overview| {
        let progress = overview.chains.first()?.progress?;
        assert_eq!(progress.total, 1_000_000);
        // The reader has also read its libraries.
        (20_000..30_000).contains(&progress.passed).then_some(())
    });
    drop(line);
    // A program that reads no file that it was given.
    let line = start("(cat /dev/zero | cat | cat > /dev/null); :");
    let words = format!("--interval 200ms --pipeline {}", line.pid());
    let mut overviews = Overviews::new(&words);
    for _ in 0..3 {
        let overview = overviews.next();
        assert!(overview.chains.iter().all(|chain| chain.progress.is_none()));
    }
    drop((overviews, line));
}

#[test]
fn a_pipeline_is_one_chain_in_the_order_of_its_bytes() {
    let line = Line::new("sleep 600 | tr a b | cat | sort; exit 3");
    let mut overviews = Overviews::new(&format!("--interval 100ms --pipeline {}", line.pid()));
    let names = overviews.until("a chain", |overview| {
        let mut chains = overview.chains.iter();
        let stages = &chains.find(|chain| chain.pipes.len() == 3)?.stages;
        let name = |stage: &StageState| Some(stage.processes.first()?.name.clone());
        stages.iter().map(name).collect::<Option<Vec<String>>>()
    });
    assert_eq!(names, ["sleep", "tr", "cat", "sort"]);
}

/// Returns how long pipelines are run beside it; an environment variable can make this longer.
fn a_while() -> Duration {
    let seconds = std::env::var("FULLBORE_TEST_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(4))
}

#[test]
fn pipelines_end_as_they_would_without_it_at_a_hundred_scans_a_second() {
    let mut top = fullbore("top --json --interval 10ms");
    // It is killed at the end of this test, in its own process group.
    let mut top = Line(start(top.stdout(Stdio::null()).process_group(0)));
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let fifo = fifo.display();
    let shell = |script: &str| {
        let output = output_of(Command::new("sh").args(["-c", script])).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let began = Instant::now();
    let mut rounds = 0;
    while rounds <= 5 || began.elapsed() < a_while() {
        // The reader gets all bytes and then the end of file.
        assert_eq!(shell("head -c 300000 /dev/zero | cat | wc -c"), "300000\n");
        // This also holds if the pipe is empty when the reader starts, and if the writer ends
        // first.
        assert_eq!(shell("(sleep 0.01; echo x) | cat"), "x\n");
        assert_eq!(shell("echo x | (sleep 0.01; cat)"), "x\n");
        // A writer without a reader is ended by SIGPIPE at its next byte.
        let (reader, writer) = pipe();
        let mut yes = start(Command::new("yes").stdout(writer));
        let head = output_of(Command::new("head").arg("-n1").stdin(reader));
        assert_eq!(head.unwrap().stdout, b"y\n");
        assert_eq!(yes.wait().unwrap().signal(), Some(13));
        let alone = Alone::wait();
        let (reader, mut writer) = pipe();
        let mut goes = start(Command::new("sleep").arg("0.01").stdin(reader));
        goes.wait().unwrap();
        let told = writer.write_all(b"x").map_err(|error| error.kind());
        drop(alone);
        assert_eq!(told, Err(std::io::ErrorKind::BrokenPipe));
        // The open(2) of a FIFO must not return too early, because the reader would then find no
        // bytes.
        let script = format!("cat {fifo} | wc -c & head -c 70000 /dev/zero > {fifo}; wait");
        assert_eq!(shell(&script), "70000\n");
        rounds += 1;
        assert!(top.0.try_wait().unwrap().is_none(), "it still runs");
    }
    let _ = writeln!(std::io::stderr(), "{rounds} rounds beside top");
    top.0.kill().unwrap();
    let said = std::io::read_to_string(top.0.stderr.take().unwrap()).unwrap();
    assert_eq!(said, "");
}

#[test]
fn no_end_of_a_pipe_is_open_between_scans() {
    let line = Line::new("cat /dev/zero | sleep 600; exit 3");
    let mut overviews = Overviews::new(&format!("--interval 300ms --pipeline {}", line.pid()));
    let inode = overviews.until("the pipeline", |overview| {
        Some(pipe_between(overview, "cat", "sleep")?.inode)
    });
    let fds = format!("/proc/{}/fd", overviews.child.id());
    // It may lose the CPU while it has a pipe open; then it is watched again.
    let few = (0..10).any(|_| {
        let (open, names) = ends_and_names(&fds, inode);
        assert!(names + open > 500, "it is watched: {names}");
        open < 100
    });
    assert!(few, "an end is open most of the time");
}

/// Returns how many fds of a process are ends of a pipe, and how many are O_PATH fds of it.
fn ends_and_names(fds: &str, inode: u64) -> (usize, usize) {
    let (mut open, mut names) = (0, 0);
    for _ in 0..1000 {
        for fd in fs::read_dir(fds).unwrap().flatten() {
            let target = fs::read_link(fd.path()).unwrap_or_default();
            if target.to_string_lossy() != format!("pipe:[{inode}]") {
                continue;
            }
            // The mode of the link distinguishes an O_PATH fd from an end.
            let mode = fs::symlink_metadata(fd.path()).map(|link| link.permissions().mode());
            match mode {
                Ok(mode) if mode & 0o600 == 0 => names += 1,
                Ok(_) => open += 1,
                Err(_) => {}
            }
        }
    }
    (open, names)
}

/// Stops a process as Ctrl-Z would, and waits until it is stopped.
fn stop(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::TSTP).unwrap();
    wait_for("a stop", || (state(child.id())? == 'T').then_some(()));
}

#[test]
fn ctrl_z_leaves_no_end_of_a_pipe_open() {
    let own: Vec<_> = (0..200).map(|_| pipe()).collect();
    let names: Vec<String> = own
        .iter()
        .map(|(_, writer)| format!("pipe:[{}]", fstat(writer).unwrap().st_ino))
        .collect();
    let me = std::process::id();
    let mut command = fullbore(&format!("top --json --interval 1ms --all --pipeline {me}"));
    // The kernel does not stop a process in an orphaned process group. So it gets its own group,
    // and its parent is in another group of the same session.
    let mut top = start(command.process_group(0).stdout(Stdio::null()));
    let pid = Pid::from_child(&top);
    wait_for("scans", || {
        let fds = fs::read_dir(format!("/proc/{}/fd", top.id())).ok()?;
        (fds.count() > 10).then_some(())
    });
    for round in 0..60 {
        std::thread::sleep(Duration::from_millis(1 + round % 7));
        stop(&top);
        for fd in fs::read_dir(format!("/proc/{}/fd", top.id()))
            .unwrap()
            .flatten()
        {
            let target = fs::read_link(fd.path()).unwrap();
            let mode = fs::symlink_metadata(fd.path())
                .unwrap()
                .permissions()
                .mode();
            let is_one = names.iter().any(|name| target.as_os_str() == name.as_str());
            assert!(
                !is_one || mode & 0o200 == 0,
                "round {round}: {target:?} is open"
            );
        }
        kill_process(pid, Signal::CONT).unwrap();
    }
    top.kill().unwrap();
    top.wait().unwrap();
}

#[test]
fn when_the_process_that_it_is_about_has_ended_it_leaves() {
    let line = Line::new("sleep 600 | cat; exit 3");
    let pid = line.pid();
    let mut overviews = Overviews::new(&format!("--interval 50ms --pipeline {pid}"));
    overviews.until("the pipeline", |overview| {
        pipe_between(overview, "sleep", "cat").map(|_| ())
    });
    drop(line);
    let status = wait_for("its end", || {
        let mut line = String::new();
        overviews.lines.read_line(&mut line).unwrap();
        overviews.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(1));
    let said = std::io::read_to_string(overviews.child.stderr.take().unwrap()).unwrap();
    assert!(
        one_line(&said).contains(&format!("process {pid} has ended")),
        "{said}"
    );
}

#[test]
fn a_one_sided_pipe_is_asked_once() {
    let (reader, writer) = pipe();
    drop(writer);
    let mut cat = Command::new("sleep");
    let reads = Line::with(cat.arg("600").stdin(reader).stdout(Stdio::null()));
    let mut overviews = Overviews::new(&format!("--interval 50ms --pipeline {}", reads.pid()));
    overviews.until("its end", |overview| {
        let mut pipes = overview.pipes.iter();
        let pipe = pipes.find(|pipe| pipe.kind == PipeKind::OneSided)?;
        assert!(pipe.capacity.is_some(), "{pipe:#?}");
        pipe.queued.is_none().then_some(())
    });
}

#[test]
fn processes_may_vanish_during_a_scan() {
    let storms: Vec<Line> = (0..2)
        .map(|_| Line::new("while :; do true | sh -c : | true; done"))
        .collect();
    let output = finish(start(&mut fullbore(
        "top --json --interval 10ms --count 20 --all",
    )));
    assert_quiet_success(&output);
    let overviews: Vec<Overview> = stdout(&output).lines().map(json).collect();
    assert_eq!(overviews.len(), 20);
    assert!(overviews.iter().any(|overview| !overview.pipes.is_empty()));
    for (at, overview) in overviews.iter().enumerate() {
        assert_eq!(overview.scan, at as u64 + 1);
    }
    drop(storms);
}

#[test]
fn a_pipe_that_passes_to_another_process_keeps_its_history() {
    let (reader, writer) = pipe();
    let give = |end: &dyn Fn() -> OwnedFd| Stdio::from(end());
    let reads = || OwnedFd::from(reader.try_clone().unwrap());
    let mut feeds = Command::new("sh");
    feeds.args(["-c", "while :; do echo x; sleep 0.01; done"]);
    let feeding = Line::with(feeds.stdin(Stdio::null()).stdout(writer));
    let drains = |program: &str| {
        let mut command = Command::new(program);
        Line::with(command.stdin(give(&reads)).stdout(Stdio::null()))
    };
    let mut overviews = Overviews::new("--interval 100ms");
    let first = drains("cat");
    // Other programs may run 'sh | cat' too.
    let inode = fstat(&reader).unwrap().st_ino;
    let its_state = move |overview: &Overview, name: &str| {
        let pipe = overview.pipes.iter().find(|pipe| pipe.inode == inode)?;
        is_among(name, &pipe.readers).then(|| pipe.clone())
    };
    let sees = |name: &'static str| {
        move |overview: &Overview| {
            let pipe = its_state(overview, name)?;
            let is_alone = !is_among("cat", &pipe.readers) || name == "cat";
            (pipe.bytes.bytes? > 20 && is_alone).then_some(pipe)
        }
    };
    let before = overviews.until("the first reader", sees("cat"));
    let second = drains("sort");
    overviews.until("both", |overview| its_state(overview, "sort"));
    drop(first);
    let after = overviews.until("the second reader", sees("sort"));
    assert_eq!(before.identity(), after.identity());
    assert_eq!(before.first_seen, after.first_seen);
    let is_more = after.bytes.bytes >= before.bytes.bytes;
    assert!(is_more, "{before:#?} {after:#?}");
    let scans = |pipe: &PipeState| pipe.fills.len();
    assert!(scans(&after) > scans(&before).min(50), "{after:#?}");
    drop((feeding, second));
}

#[test]
fn without_privilege_it_shows_what_it_may_and_says_what_it_may_not() {
    if !is_root() {
        return skipped("looking as another user: this is not root");
    }
    let copy = ForEverybody::new();
    let of_root = Line::new("cat /dev/zero | sleep 600; exit 3");
    let mut command = Command::new("sh");
    let mine = Line::start(
        command
            .args(["-c", "cat /dev/zero | sleep 600; exit 3"])
            .uid(SOMEBODY)
            .gid(SOMEBODY),
    );
    let overview = wait_for("its own pipeline", || {
        let output = finish(start(&mut copy.command(SOMEBODY, "top --json")));
        assert_quiet_success(&output);
        let overview: Overview = json(stdout(&output));
        let pipe = pipe_between(&overview, "cat", "sleep")?;
        (pipe.slow == Slow::Reader).then(|| overview.clone())
    });
    let writers = overview.pipes.iter().flat_map(|pipe| &pipe.writers);
    let pids: Vec<u32> = writers.map(|process| process.id.pid).collect();
    let of = |line: &Line| -> Vec<u32> {
        let all = children(line.pid());
        all.iter()
            .map(|(pid, _)| pid.as_raw_nonzero().get() as u32)
            .collect()
    };
    assert!(
        of(&mine).iter().any(|pid| pids.contains(pid)),
        "{overview:#?}"
    );
    assert!(
        !of(&of_root).iter().any(|pid| pids.contains(pid)),
        "{overview:#?}"
    );
    // If /proc hides processes of other users (proc(5), `hidepid`), they cannot be counted.
    let is_hidden = overview.unseen.others_hidden;
    let is_counted = overview.unseen.of_others > 0;
    assert!(is_counted != is_hidden, "{overview:#?}");
    let output = finish(start(&mut copy.command(SOMEBODY, "top --once")));
    assert_quiet_success(&output);
    let text = stdout(&output);
    let says = match is_hidden {
        true => "are hidden from this one (hidepid)",
        false => "of other users may not be inspected",
    };
    assert!(text.contains(says), "{text}");
    // A pipe that another user created may be seen, but not opened.
    let (reader, writer) = pipe();
    let mut cat = Command::new("cat");
    cat.arg("/dev/zero")
        .uid(SOMEBODY)
        .gid(SOMEBODY)
        .stdin(Stdio::null());
    let cat = Line::with(cat.stdout(writer));
    let output = finish(start(
        &mut copy.command(SOMEBODY, &format!("top --json --pipeline {}", cat.pid())),
    ));
    let overview: Overview = json(stdout(&output));
    let mut pipes = overview.pipes.iter();
    let pipe = pipes.find(|pipe| is_among("cat", &pipe.writers)).unwrap();
    let closed = pipe.closed.as_deref();
    assert_eq!(closed, Some("Permission denied"), "{pipe:#?}");
    assert_eq!(pipe.queued, None);
    drop(reader);
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_harmless() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("a\n\u{1b}[2J\u{202e}b");
    fs::write(&script, "#!/bin/sh\nwhile :; do sleep 0.1; done\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let fifo = place.path().join("f\n\u{1b}]0;x\u{7}\u{2067}");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let both = File::options().read(true).write(true).open(&fifo).unwrap();
    let (reader, writer) = pipe();
    let mut command = Command::new(&script);
    command
        .arg("\u{1b}[31m\n\u{202e}")
        .stdin(both)
        .stdout(writer)
        .stderr(Stdio::null());
    let hostile = Line::with(&mut command);
    let mut cat = Command::new("cat");
    let cat = Line::with(cat.stdin(reader).stdout(Stdio::null()));
    let is_harmless = |text: &str| {
        let bad = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!text.chars().any(bad), "{text:?}");
    };
    for pid in [hostile.pid(), cat.pid()] {
        let table = wait_for("its name", || {
            let output = run(&format!("top --once --all --pipeline {pid}"));
            assert_quiet_success(&output);
            let text = stdout(&output).to_owned();
            text.contains("a??[2J").then_some(text)
        });
        is_harmless(&table);
        let output = run(&format!("top --json --all --pipeline {pid}"));
        is_harmless(one_line(stdout(&output)));
        for pipe in json::<Overview>(stdout(&output)).pipes {
            let names = pipe
                .writers
                .iter()
                .flat_map(|one| [&one.name, &one.command]);
            for text in pipe.path.iter().chain(names) {
                is_harmless(&text.replace('\n', "\u{1b}"));
            }
        }
    }
}

#[test]
fn names_in_wide_and_combining_characters_are_in_their_columns() {
    let place = tempfile::tempdir().unwrap();
    for name in WIDE_NAMES {
        let program = place.path().join(name);
        fs::write(&program, format!("#!/bin/sh\n{READS}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    }
    wait_for_starts();
    let script = format!("sleep 600 | {}; exit 3", wide_line());
    let mut command = Command::new("sh");
    let line = Line::start(command.args(["-c", &script]).current_dir(place.path()));
    let table = wait_for("all names", || {
        let output = run(&format!("top --once --pipeline {}", line.pid()));
        assert_quiet_success(&output);
        let text = stdout(&output).to_owned();
        // A process has 15 bytes of its name.
        let names = [WIDE_NAMES[0], WIDE_NAMES[1], WIDE_NAMES[2], "a日本語日"];
        let has = |name: &&str| text.contains(&format!("→ {name}"));
        names.iter().all(has).then_some(text)
    });
    let rows: Vec<&str> = table.lines().filter(|line| line.contains('→')).collect();
    assert_eq!(rows.len(), 1 + WIDE_NAMES.len(), "{table}");
    assert_equally_wide(&rows);
}

#[test]
fn a_process_with_tens_of_thousands_of_fds_is_looked_at_as_far_as_that_is_quick() {
    let limit = getrlimit(Resource::Nofile);
    let many = limit.maximum.unwrap_or(1 << 20).min(20_000);
    if many < 10_000 {
        return skipped("a process with many fds: it may not have as many");
    }
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let mut sleep = Command::new("sleep");
    sleep.arg("600").stdin(Stdio::null()).process_group(0);
    let open_many = move || {
        setrlimit(Resource::Nofile, all)?;
        for _ in 0..many - 1000 {
            // The fd stays open when the process executes another program.
            std::mem::forget(rustix::io::dup(rustix::stdio::stdin())?);
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls and allocates nothing.
    unsafe { sleep.pre_exec(open_many) };
    let holder = Line(start(&mut sleep));
    // It has to end in time; otherwise it is killed.
    let output = run("top --json --interval 10ms --count 3");
    assert_quiet_success(&output);
    let last: Overview = json(stdout(&output).lines().last().unwrap());
    assert!(last.unseen.too_many_fds > 0, "{:?}", last.unseen);
    drop(holder);
}

#[test]
fn only_what_was_asked_for_is_shown() {
    let line = Line::new("sleep 600 | tr a b; exit 3");
    let mut overviews = Overviews::new(&format!("--interval 100ms --pipeline {}", line.pid()));
    overviews.until("the pipeline", |overview| {
        pipe_between(overview, "sleep", "tr").map(|_| ())
    });
    let overview = overviews.next();
    assert_eq!(overview.chains.len(), 1, "{overview:#?}");
    let output = run("top --json tr");
    assert_quiet_success(&output);
    let overview: Overview = json(stdout(&output));
    let found = pipe_between(&overview, "sleep", "tr");
    assert!(found.is_some(), "{overview:#?}");
    let output = run("top --once --json no-such-program");
    assert_code(&output, 1);
    assert!(json::<Overview>(stdout(&output)).pipes.is_empty());
    let line = one_line(stderr(&output));
    assert!(line.contains("is named 'no-such-program'"), "{line}");
    let own = |words: &str| {
        let overview: Overview = json(stdout(&run(words)));
        let pipes = overview.pipes.iter();
        pipes.filter(|pipe| pipe.kind == PipeKind::Own).count()
    };
    let (_reader, _writer) = pipe();
    let me = std::process::id();
    assert_eq!(own(&format!("top --json --pipeline {me}")), 0);
    assert!(own(&format!("top --json --all --pipeline {me}")) > 0);
}

#[test]
fn a_command_line_that_makes_no_sense_is_one_line_and_code_2() {
    for words in [
        "top",
        "top --interval 1s",
        "top --interval 0 --json",
        "top --interval nan --json",
        "top --pipeline 0 --once",
        "top --count 3 --once",
        "top x --pipeline 1 --once",
    ] {
        let output = run(words);
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{words}: {}", said(&output));
        one_line(stderr(&output));
    }
    let output = run("top --once --pipeline 4194305");
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("no such process"));
}

#[test]
fn one_overview_for_machines_takes_as_long_as_one_for_people() {
    let line = Line::new("cat /dev/zero | sleep 600; exit 3");
    let mut overviews = Overviews::new(&format!("--interval 100ms --pipeline {}", line.pid()));
    overviews.until("a writer that waits", |overview| {
        let pipe = pipe_between(overview, "cat", "sleep")?;
        (pipe.slow == Slow::Reader).then_some(())
    });
    for words in ["--json --count 1", "--json", "--once --json"] {
        let output = run(&format!("top {words} --pipeline {}", line.pid()));
        assert_quiet_success(&output);
        let overview: Overview = json(one_line(stdout(&output)));
        assert_eq!(overview.scan, 1, "{words}");
        assert!(overview.seconds > 0.5, "{words}: {overview:#?}");
        let found = pipe_between(&overview, "cat", "sleep").expect("the pipe");
        assert!(found.writer_waits > Some(0.0), "{words}: {found:#?}");
    }
}

#[test]
fn without_proc_it_says_so() {
    let script = format!(
        "umount -l /proc && for words in 'top --once' 'top --json' 'tune 1'; do {FULLBORE} $words; echo $?; done"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]);
    let output = finish(start(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
    if !stdout(&output).contains('3') {
        return skipped(&format!("no /proc: {}", stderr(&output).trim()));
    }
    assert_eq!(stdout(&output), "3\n3\n3\n", "{}", said(&output));
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in lines {
        assert!(line.contains("/proc is not mounted here"), "{line}");
    }
}

#[test]
fn a_hidden_process_is_not_said_to_be_missing() {
    if !is_root() {
        return skipped("a hidden process: mounting /proc needs root");
    }
    let copy = ForEverybody::new();
    let script = format!(
        "umount -l /proc && mount -t proc -o hidepid=2 proc /proc || exit 9
        for words in 'top --once --pipeline 1' 'tune 1' 'meter --watch 1' 'tune 999999999'; do
            setpriv --reuid {SOMEBODY} --regid {SOMEBODY} --clear-groups {} $words; echo $?
        done",
        copy.path().display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]);
    let output = finish(start(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
    if output.status.code() == Some(9) {
        return skipped(&format!("a hidden process: {}", stderr(&output).trim()));
    }
    assert_eq!(stdout(&output), "3\n3\n1\n1\n", "{}", said(&output));
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in &lines[..3] {
        assert!(
            line.contains("process 1: ") && line.contains("hidepid"),
            "{line}"
        );
    }
    assert!(lines[3].contains("no such process"), "{lines:?}");
}

#[test]
fn output_to_a_closed_pipe_ends_quietly() {
    for words in ["top --once", "top --json", "top --json --interval 10ms"] {
        let output = finish(start(fullbore(words).stdout(nobody_reads())));
        assert_quiet_success(&output);
    }
}

#[test]
fn json_in_a_file_is_beside_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("top.json");
    let mut command = fullbore("top --once");
    let output = finish(start(command.arg(format!("--json={}", file.display()))));
    assert_code(&output, 0);
    assert!(stdout(&output).contains("pipe") || stdout(&output).contains("writer"));
    json::<Overview>(&fs::read_to_string(file).unwrap());
}
