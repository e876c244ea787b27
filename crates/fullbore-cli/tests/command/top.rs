//! Tests of `fullbore top`: what it reports about pipelines whose slow side is known, and that it does
//! not change how they run. `terminal/top.rs` tests what it draws.

use std::fs::{self, File};
use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::top::*;
use crate::common::users::ForEverybody;
use crate::common::*;
use rustix::fs::{CWD, FileType, Mode, fstat, mknodat};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;

/// A user id that no other program here uses.
const SOMEBODY: u32 = 54_323;

#[test]
fn the_slow_side_of_pipelines_is_named() {
    let slow_reader = format!("yes | {FULLBORE} read --chunk 4K --pause 5000");
    the_slow_side_is_named(&[
        // The reader sleeps between small reads.
        (slow_reader.as_str(), &[("yes", "fullbore", "reader")][..]),
        // The writer sleeps between small writes.
        (
            "while :; do echo x; sleep 0.02; done | cat >/dev/null",
            &[("sh", "cat", "writer")],
        ),
        // The last stage does not read.
        ("cat /dev/zero | sleep 600", &[("cat", "sleep", "reader")]),
    ]);
}

#[test]
fn who_waits_is_said_with_how_long_and_rates_only_where_they_are_counted() {
    let line = Line::new("cat /dev/zero | sleep 600; exit 3");
    let mut looks = Looks::new(&format!("--interval 200ms --pid {}", line.pid()));
    let found = looks.until("a long wait", |look| {
        let row = row(look, "cat", "sleep")?;
        let blocked = &row["blocked"][0];
        let looks = row["fills"].as_array()?.len();
        (blocked["seconds"].as_f64()? > 1.0 && looks > 3).then(|| row.clone())
    });
    assert_eq!(found["blocked"][0]["side"], "writer", "{found:#}");
    assert_eq!(found["queued"], found["capacity"], "{found:#}");
    assert_eq!(found["kind"], "link");
    let fills = found["fills"].as_array().unwrap();
    assert!(fills.last().unwrap() == 1.0, "{found:#}");
    drop((looks, line));
    // Both count the same number of bytes in the end: on a busy machine, the counter of one may have been
    // read much later than the counter of the other. Bytes that are spliced are not counted at all.
    let line = Line::new("head -c 100G /dev/zero | wc -c; exit 3");
    let mut looks = Looks::new(&format!("--interval 300ms --pid {}", line.pid()));
    looks.until("a rate that is counted", |look| {
        let row = row(look, "head", "wc")?;
        let is_one = row["bytes_per_second"].as_f64()? > 0.0;
        (is_one && row["rate_is"] == "counted").then_some(())
    });
    drop((looks, line));
    let splices = format!(
        "{FULLBORE} write --way repeat --bytes-to-pipe 1000G | {FULLBORE} copy --by-reference >/dev/null; exit 3"
    );
    let line = Line::new(&splices);
    let mut looks = Looks::new(&format!("--interval 300ms --pid {}", line.pid()));
    for _ in 0..8 {
        let look = looks.next();
        let Some(row) = row(&look, "fullbore", "fullbore") else {
            continue;
        };
        let rate = row["bytes_per_second"].as_f64();
        assert!(rate.is_none_or(|rate| rate == 0.0), "invented: {row:#}");
    }
}

#[test]
fn a_pipeline_is_one_chain_in_the_order_of_its_bytes() {
    let line = Line::new("sleep 600 | tr a b | cat | sort; exit 3");
    let mut looks = Looks::new(&format!("--interval 100ms --pid {}", line.pid()));
    let names = looks.until("a chain", |look| {
        let chains = look["chains"].as_array()?;
        let chain = chains
            .iter()
            .find(|chain| chain["pipes"].as_array().unwrap().len() == 3)?;
        let stages = chain["stages"].as_array()?;
        let name = |stage: &Value| stage["processes"][0]["name"].as_str().map(str::to_owned);
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
fn pipelines_end_as_they_would_without_it_at_a_hundred_looks_a_second() {
    let mut looking = fullbore("top --json --interval 10ms");
    // It is killed at the end of this test, in its own process group.
    let mut looking = Line(start(looking.stdout(Stdio::null()).process_group(0)));
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
        assert!(began.elapsed() < a_while() * 30, "{rounds} rounds");
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
        assert!(looking.0.try_wait().unwrap().is_none(), "it still looks");
    }
    let _ = writeln!(std::io::stderr(), "{rounds} rounds beside top");
    looking.0.kill().unwrap();
    let said = std::io::read_to_string(looking.0.stderr.take().unwrap()).unwrap();
    assert_eq!(said, "");
}

#[test]
fn no_end_of_a_pipe_is_open_between_looks() {
    let line = Line::new("cat /dev/zero | sleep 600; exit 3");
    let mut looks = Looks::new(&format!("--interval 300ms --pid {}", line.pid()));
    let inode = looks.until("the pipeline", |look| {
        row(look, "cat", "sleep")?["inode"].as_u64()
    });
    let fds = format!("/proc/{}/fd", looks.child.id());
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
    wait_for("a stop", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.rsplit_once(") ")?.1.starts_with('T').then_some(())
    });
}

#[test]
fn ctrl_z_leaves_no_end_of_a_pipe_open() {
    let own: Vec<_> = (0..200).map(|_| pipe()).collect();
    let names: Vec<String> = own
        .iter()
        .map(|(_, writer)| format!("pipe:[{}]", fstat(writer).unwrap().st_ino))
        .collect();
    let me = std::process::id();
    let mut command = fullbore(&format!("top --json --interval 1ms --all --pid {me}"));
    // The kernel does not stop a process in an orphaned process group. So it gets its own group,
    // and its parent is in another group of the same session.
    let mut top = start(command.process_group(0).stdout(Stdio::null()));
    let pid = Pid::from_child(&top);
    wait_for("looks", || {
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
    let mut looks = Looks::new(&format!("--interval 50ms --pid {pid}"));
    looks.until("the pipeline", |look| row(look, "sleep", "cat").map(|_| ()));
    drop(line);
    let status = wait_for("its end", || {
        let mut line = String::new();
        looks.lines.read_line(&mut line).unwrap();
        looks.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(1));
    let said = std::io::read_to_string(looks.child.stderr.take().unwrap()).unwrap();
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
    let mut looks = Looks::new(&format!("--interval 50ms --pid {}", reads.pid()));
    looks.until("its end", |look| {
        let row = rows(look).iter().find(|row| row["kind"] == "one_sided")?;
        assert!(row["capacity"].is_u64(), "{row:#}");
        row["queued"].is_null().then_some(())
    });
}

#[test]
fn processes_may_vanish_in_mid_look() {
    let storms: Vec<Line> = (0..2)
        .map(|_| Line::new("while :; do true | sh -c : | true; done"))
        .collect();
    let output = finish(start(&mut fullbore(
        "top --json --interval 10ms --count 50 --all",
    )));
    assert_quiet_success(&output);
    let looks: Vec<Value> = stdout(&output).lines().map(json).collect();
    assert_eq!(looks.len(), 50);
    assert!(looks.iter().any(|look| !rows(look).is_empty()));
    for (at, look) in looks.iter().enumerate() {
        assert_eq!(look["look"], at + 1);
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
    let mut looks = Looks::new("--interval 100ms");
    let first = drains("cat");
    // Other programs may run 'sh | cat' too.
    let inode = fstat(&reader).unwrap().st_ino;
    let its_row = move |look: &Value, name: &str| {
        let row = rows(look).iter().find(|row| row["inode"] == inode)?;
        let mut readers = row["readers"].as_array()?.iter();
        readers.any(|who| who["name"] == name).then(|| row.clone())
    };
    let sees = |name: &'static str| {
        move |look: &Value| {
            let row = its_row(look, name)?;
            let bytes = row["bytes"].as_u64()?;
            let is_alone = row["readers"]
                .as_array()?
                .iter()
                .all(|who| who["name"] != "cat")
                || name == "cat";
            (bytes > 20 && is_alone).then_some(row)
        }
    };
    let before = looks.until("the first reader", sees("cat"));
    let second = drains("sort");
    looks.until("both", |look| its_row(look, "sort"));
    drop(first);
    let after = looks.until("the second reader", sees("sort"));
    for field in ["device", "inode", "first_seen"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    let of = |row: &Value, field: &str| row[field].as_f64().unwrap();
    assert!(
        of(&after, "bytes") >= of(&before, "bytes"),
        "{before:#} {after:#}"
    );
    assert!(of(&after, "last_seen") > of(&before, "last_seen"));
    let looks = |row: &Value| row["fills"].as_array().unwrap().len();
    assert!(looks(&after) > looks(&before).min(50), "{after:#}");
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
    let look = wait_for("its own pipeline", || {
        let output = finish(start(&mut copy.command(SOMEBODY, "top --json")));
        assert_quiet_success(&output);
        let look = json(stdout(&output));
        let row = row(&look, "cat", "sleep")?;
        (row["slow"] == "reader").then(|| look.clone())
    });
    let pids: Vec<u64> = rows(&look)
        .iter()
        .flat_map(|row| row["writers"].as_array().unwrap())
        .filter_map(|who| who["pid"].as_u64())
        .collect();
    let of = |line: &Line| -> Vec<u64> {
        let all = children(line.pid());
        all.iter()
            .map(|(pid, _)| pid.as_raw_nonzero().get() as u64)
            .collect()
    };
    assert!(of(&mine).iter().any(|pid| pids.contains(pid)), "{look:#}");
    assert!(
        !of(&of_root).iter().any(|pid| pids.contains(pid)),
        "{look:#}"
    );
    // If /proc hides processes of other users (proc(5), `hidepid`), they cannot be counted.
    let is_hidden = look["unseen"]["others_hidden"] == true;
    let is_counted = look["unseen"]["of_others"].as_u64() > Some(0);
    assert!(is_counted != is_hidden, "{look:#}");
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
    let look = finish(start(
        &mut copy.command(SOMEBODY, &format!("top --json --pid {}", cat.pid())),
    ));
    let look = json(stdout(&look));
    let row = rows(&look)
        .iter()
        .find(|row| row["writers"][0]["name"] == "cat")
        .unwrap();
    assert_eq!(row["closed"], "Permission denied", "{row:#}");
    assert!(row["queued"].is_null());
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
            let output = run(&format!("top --once --all --pid {pid}"));
            assert_quiet_success(&output);
            let text = stdout(&output).to_owned();
            text.contains("a??[2J").then_some(text)
        });
        is_harmless(&table);
        let output = run(&format!("top --json --all --pid {pid}"));
        is_harmless(one_line(stdout(&output)));
        for row in rows(&json(stdout(&output))) {
            for text in [
                &row["path"],
                &row["writers"][0]["name"],
                &row["writers"][0]["command"],
            ] {
                is_harmless(&text.as_str().unwrap_or_default().replace('\n', "\u{1b}"));
            }
        }
    }
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
    let last = json(stdout(&output).lines().last().unwrap());
    assert!(
        last["unseen"]["too_many_fds"].as_u64() > Some(0),
        "{}",
        last["unseen"]
    );
    drop(holder);
}

#[test]
fn only_what_was_asked_for_is_shown() {
    let line = Line::new("sleep 600 | tr a b; exit 3");
    let mut looks = Looks::new(&format!("--interval 100ms --pid {}", line.pid()));
    looks.until("the pipeline", |look| row(look, "sleep", "tr").map(|_| ()));
    let look = looks.next();
    assert_eq!(look["chains"].as_array().unwrap().len(), 1, "{look:#}");
    assert!(look["left_out"]["of_others"].is_u64());
    let output = run("top --json tr");
    assert_quiet_success(&output);
    let look = json(stdout(&output));
    assert!(row(&look, "sleep", "tr").is_some(), "{look:#}");
    let output = run("top --once --json no-such-program");
    assert_code(&output, 1);
    assert!(rows(&json(stdout(&output))).is_empty());
    let line = one_line(stderr(&output));
    assert!(line.contains("is named 'no-such-program'"), "{line}");
    let own = |words: &str| {
        let look = json(stdout(&run(words)));
        rows(&look)
            .iter()
            .filter(|row| row["kind"] == "own")
            .count()
    };
    let (_reader, _writer) = pipe();
    let me = std::process::id();
    assert_eq!(own(&format!("top --json --pid {me}")), 0);
    assert!(own(&format!("top --json --all --pid {me}")) > 0);
}

#[test]
fn a_command_line_that_makes_no_sense_is_one_line_and_code_2() {
    for words in [
        "top",
        "top --interval 1s",
        "top --interval 0 --json",
        "top --interval nan --json",
        "top --pid 0 --once",
        "top --count 3 --once",
        "top x --pid 1 --once",
    ] {
        let output = run(words);
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{words}: {}", said(&output));
        one_line(stderr(&output));
    }
    let output = run("top --once --pid 4194305");
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("no such process"));
}

#[test]
fn one_look_for_machines_has_looked_for_as_long_as_one_for_people() {
    let line = Line::new("cat /dev/zero | sleep 600; exit 3");
    let mut looks = Looks::new(&format!("--interval 100ms --pid {}", line.pid()));
    looks.until("the pipeline", |look| row(look, "cat", "sleep").map(|_| ()));
    for words in ["--json --count 1", "--json", "--once --json"] {
        let output = run(&format!("top {words} --pid {}", line.pid()));
        assert_quiet_success(&output);
        let look = json(one_line(stdout(&output)));
        assert_eq!(look["look"], 1, "{words}");
        assert!(look["seconds"].as_f64() > Some(0.5), "{words}: {look:#}");
        let found = row(&look, "cat", "sleep").expect("the pipe");
        assert!(
            found["writer_waits"].as_f64() > Some(0.0),
            "{words}: {found:#}"
        );
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
        for words in 'top --once --pid 1' 'tune 1' 'meter --watch 1' 'tune 999999999'; do
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
