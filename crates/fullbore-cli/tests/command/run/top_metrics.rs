//! Tests of `fullbore top --prometheus`: parsers of OpenMetrics accept its pages, the pages
//! agree with `top --json`, and no request harms it or a pipeline that it observes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::users::ForEverybody;
use crate::common::*;
use fullbore_observe::overview::{Overview, Side, Slow};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `fullbore top --prometheus`, on a port that the kernel has chosen.
struct Served {
    child: Child,
    /// The message that it printed when it started.
    said: String,
    address: String,
    stderr: BufReader<ChildStderr>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(words: &str) -> Self {
        Self::of(&mut fullbore(&format!("top --prometheus {words}")))
    }

    /// Serves the pipelines of one process.
    fn of_process(pid: u32) -> Self {
        Self::start(&format!("0 --pipeline {pid}"))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = start(command);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        let address = said
            .split_once("http://")
            .and_then(|(_, rest)| rest.split_once("/metrics"))
            .map(|(address, _)| address.to_owned())
            .unwrap_or_else(|| panic!("no address: {said:?}"));
        Self {
            child,
            said,
            address,
            stderr,
        }
    }

    fn connect(&self) -> TcpStream {
        self.try_to_connect().unwrap()
    }

    fn try_to_connect(&self) -> std::io::Result<TcpStream> {
        let client = TcpStream::connect(&self.address)?;
        // The timeout keeps a failing test from hanging.
        client.set_read_timeout(Some(Duration::from_secs(180)))?;
        Ok(client)
    }

    /// Sends a request, and returns the head and the body of the response.
    fn ask(&self, request: &str) -> (String, String) {
        self.try_to_ask(request).unwrap()
    }

    fn try_to_ask(&self, request: &str) -> std::io::Result<(String, String)> {
        let mut client = self.try_to_connect()?;
        write!(client, "{request}\r\nHost: {}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        let whole = answer.split_once("\r\n\r\n");
        let (head, body) = whole.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        Ok((head.to_owned(), body.to_owned()))
    }

    fn page(&self) -> String {
        let (head, body) = self.ask("GET /metrics HTTP/1.1");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}\n{body}");
        body
    }

    /// Returns a page of a scan that is newer than all before.
    fn fresh_page(&self) -> Page {
        let before = self.scans();
        wait_for("another look", || {
            let page = Page::of(&self.page());
            (page.number("fullbore_looks_total") > before).then_some(page)
        })
    }

    fn scans(&self) -> f64 {
        Page::of(&self.page()).number("fullbore_looks_total")
    }

    /// Returns how many sockets it has, and how many threads.
    fn sockets_and_threads(&self) -> (usize, usize) {
        let process = Path::new("/proc").join(self.child.id().to_string());
        let entries = |name: &str| fs::read_dir(process.join(name)).unwrap().flatten();
        let is_socket = |path: &Path| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
        };
        let sockets = entries("fd").filter(|fd| is_socket(&fd.path())).count();
        (sockets, entries("task").count())
    }
}

/// A sample of a page: `name{label="value",…} number`. Whether the page is well-formed is for [`python`] to say.
struct Sample {
    metric: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Sample {
    fn of(line: &str) -> Self {
        let (metric, mut rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let mut labels = BTreeMap::new();
        while let Some(more) = rest.strip_prefix(['{', ',']) {
            let (label, quoted) = more.split_once("=\"").unwrap();
            let (mut value, mut chars) = (String::new(), quoted.chars());
            loop {
                value.push(match chars.next().unwrap() {
                    '"' => break,
                    '\\' => match chars.next().unwrap() {
                        'n' => '\n',
                        escaped => escaped,
                    },
                    other => other,
                });
            }
            labels.insert(label.to_owned(), value);
            rest = chars.as_str();
        }
        Self {
            metric: metric.to_owned(),
            labels,
            value: rest.trim_start_matches('}').trim().parse().unwrap(),
        }
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

/// The samples of a page.
struct Page(Vec<Sample>);

impl Page {
    #[track_caller]
    fn of(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        Self(samples.map(Sample::of).collect())
    }

    fn samples<'a>(&'a self, metric: &str) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |sample| sample.metric == metric)
    }

    fn find(&self, metric: &str, label: &str, value: &str) -> Option<f64> {
        self.samples(metric)
            .find(|sample| sample.label(label) == Some(value))
            .map(|sample| sample.value)
    }

    #[track_caller]
    fn number(&self, metric: &str) -> f64 {
        let found = self.samples(metric).next();
        found.unwrap_or_else(|| panic!("no {metric}")).value
    }

    fn names(&self) -> BTreeSet<String> {
        self.0.iter().map(|sample| sample.metric.clone()).collect()
    }
}

/// Programs that run at the same time and are killed at the end of the test.
struct Pipeline(Vec<Child>);

impl Drop for Pipeline {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Pipeline {
    /// Starts each program with its arguments, as a pipeline without input and output.
    fn start(programs: &[&[&OsStr]]) -> Self {
        let mut children = Vec::new();
        let mut stdin = Stdio::null();
        for (at, words) in programs.iter().enumerate() {
            let (reader, writer) = pipe();
            let is_last = at + 1 == programs.len();
            let stdout = match is_last {
                true => Stdio::null(),
                false => writer.into(),
            };
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).stdin(stdin).stdout(stdout);
            // The stderr of the tests may be a pipe.
            command.stderr(Stdio::null());
            children.push(start(&mut command));
            stdin = reader.into();
        }
        drop(stdin);
        wait_for_starts();
        Self(children)
    }

    fn of_words(programs: &[&str]) -> Self {
        let words: Vec<Vec<&OsStr>> = programs
            .iter()
            .map(|words| words.split(' ').map(OsStr::new).collect())
            .collect();
        let words: Vec<&[&OsStr]> = words.iter().map(Vec::as_slice).collect();
        Self::start(&words)
    }

    fn pid(&self) -> u32 {
        self.0[0].id()
    }

    /// Returns the name in the metrics of the pipe that its first program writes to.
    fn pipe(&self) -> String {
        let target = fs::read_link(format!("/proc/{}/fd/1", self.pid())).unwrap();
        let target = target.to_string_lossy();
        let inode = target.strip_prefix("pipe:[").unwrap();
        inode.strip_suffix(']').unwrap().to_owned()
    }
}

/// Passes a page to a program, and returns its output; `None` if the program is not installed.
fn read_by(program: &mut Command, page: &str) -> Option<std::process::Output> {
    program.stdin(Stdio::piped());
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(program).ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let page = page.to_owned();
    let feeder = thread::spawn(move || {
        let _ = stdin.write_all(page.as_bytes());
    });
    let output = finish(child);
    feeder.join().unwrap();
    Some(output)
}

/// A sample as Prometheus' own client for Python reads it: its name, the type of its family, and its labels.
type PythonSample = (String, String, BTreeMap<String, String>);

/// Parses a page with the OpenMetrics parser of Prometheus' own client for Python, which accepts only correct pages, and
/// returns its samples; `None` if it is not installed.
fn python(page: &str) -> Option<Vec<PythonSample>> {
    let program = "import sys, json\n\
         try: from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
         except ImportError: sys.exit(77)\n\
         for family in parse(sys.stdin.buffer.read().decode()):\n  \
           for sample in family.samples: print(json.dumps([sample.name, family.type, sample.labels]))";
    for python in ["/usr/bin/python3", "python3"] {
        match read_by(Command::new(python).args(["-c", program]), page) {
            Some(output) if output.status.code() != Some(77) => {
                assert!(output.status.success(), "{}", said(&output));
                return Some(stdout(&output).lines().map(json).collect());
            }
            _ => {}
        }
    }
    None
}

#[test]
fn the_page_is_open_metrics() {
    let pipeline = Pipeline::of_words(&["yes", "cat", "sleep 600"]);
    let served = Served::of_process(pipeline.pid());
    let pipe = pipeline.pipe();

    let (head, text) = served.ask("GET /metrics HTTP/1.1");
    assert!(
        head.contains(&format!("Content-Type: {OPEN_METRICS}")),
        "{head}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    let page = Page::of(&text);
    let info = page.samples("fullbore_pipe_info");
    let info = info.filter(|sample| sample.label("pipe") == Some(&pipe));
    let info: Vec<_> = info.collect();
    assert_eq!(info.len(), 1, "{text}");
    let pid = pipeline.pid().to_string();
    for (label, value) in [
        ("writer", "yes"),
        ("reader", "cat"),
        ("writer_pid", pid.as_str()),
        ("kind", "link"),
        ("chain", &pipe),
        ("place", "1"),
    ] {
        assert_eq!(info[0].label(label), Some(value), "{label} in {text}");
    }
    assert_eq!(page.find("fullbore_pipes", "kind", "link"), Some(2.0));
    match python(&text) {
        Some(samples) => {
            let is_counter = |(_, family, _): &&PythonSample| family == "counter";
            assert!(
                samples.iter().filter(is_counter).count() >= 2,
                "{samples:?}"
            );
            assert!(
                samples.iter().all(|(_, family, _)| family != "unknown"),
                "{samples:?}"
            );
        }
        None => skipped("prometheus_client is not installed for python3"),
    }
    let promtool = output_of(Command::new("promtool").args(["check", "metrics"]));
    match promtool
        .ok()
        .and_then(|_| read_by(Command::new("promtool").args(["check", "metrics"]), &text))
    {
        Some(output) => assert_quiet_success(&output),
        None => skipped("promtool is not installed"),
    }
}

#[test]
fn a_hundred_scrapes_at_once_do_no_harm() {
    let pipeline = Pipeline::of_words(&["yes", "cat", "cat"]);
    let served = Served::of_process(pipeline.pid());
    served.page();
    let pipe = pipeline.pipe();
    // Each client has a thread of its own.
    let threads = 3;
    let resting = wait_for("connections to close", || {
        let (sockets, now) = served.sockets_and_threads();
        (now == threads).then_some(sockets)
    });

    let before = served.scans();
    let began = Instant::now();
    let done = AtomicBool::new(false);
    let together = Barrier::new(100);
    let (asked, most) = thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = served.sockets_and_threads().0.max(most);
                thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let scrapers: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    let mut pages = Vec::new();
                    for _ in 0..5 {
                        // A thread that fails must not keep the others waiting.
                        together.wait();
                        pages.push(served.try_to_ask("GET /metrics HTTP/1.1"));
                    }
                    pages
                })
            })
            .collect();
        let asked: Vec<_> = (scrapers.into_iter())
            .flat_map(|scraper| scraper.join().unwrap())
            .collect();
        done.store(true, Ordering::Relaxed);
        (asked, watching.join().unwrap())
    });
    let pages: Vec<String> = (asked.into_iter())
        .map(|asked| {
            let (head, body) = asked.unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}\n{body}");
            body
        })
        .collect();
    let after = served.scans();
    let seconds = began.elapsed().as_secs_f64();

    // All responses from one scan are the same.
    let mut by_look: BTreeMap<u64, &str> = BTreeMap::new();
    for text in &pages {
        let page = Page::of(text);
        let look = page.number("fullbore_looks_total") as u64;
        let same = by_look.entry(look).or_insert(text);
        assert_eq!(same, text, "look {look}");
        assert!(
            page.find("fullbore_pipe_capacity_bytes", "pipe", &pipe)
                .is_some(),
            "{text}"
        );
    }
    assert_eq!(pages.len(), 500);
    assert!(
        after - before <= seconds * 4.0 + 2.0,
        "{before}, {after} in {seconds} s"
    );
    // As many as it serves at once, and some that were closed while they were counted.
    assert!(most <= resting + 200, "{most} and {resting} at rest");
    wait_for("sockets to be closed and threads to end", || {
        (served.sockets_and_threads() == (resting, threads)).then_some(())
    });
}

#[test]
fn names_of_others_are_labels_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    // The name has at most fifteen bytes, because the kernel truncates longer ones.
    let name = OsStr::from_bytes(b"e\"v\\i\nl\x1b} 1,=\xff");
    let program = directory.path().join(name);
    copy_program("/bin/sleep", &program);
    let words = [program.as_os_str(), OsStr::new("600")];
    let pipeline = Pipeline::start(&[&[OsStr::new("yes")], &words]);
    let pipe = pipeline.pipe();
    let served = Served::of_process(pipeline.pid());
    let text = served.page();
    let escaped = r#"reader="e\"v\\i?l?} 1,="#.to_owned() + "\u{fffd}\"";
    assert!(text.contains(&escaped), "{text}");
    for line in text.lines() {
        assert!(
            line.starts_with("# ") || line.starts_with("fullbore_"),
            "{line:?}"
        );
        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
    }
    let Some(samples) = python(&text) else {
        return skipped("prometheus_client is not installed for python3");
    };
    let labels = samples.iter().map(|(_, _, labels)| labels);
    let of_pipe = labels.filter(|labels| labels.get("pipe") == Some(&pipe));
    let readers: BTreeSet<&str> = of_pipe
        .filter_map(|labels| Some(labels.get("reader")?.as_str()))
        .collect();
    assert_eq!(
        readers,
        BTreeSet::from(["e\"v\\i?l?} 1,=\u{fffd}"]),
        "{samples:?}"
    );
}

#[test]
fn whoever_asks_for_something_else_gets_it_refused_and_changes_nothing() {
    let pipeline = Pipeline::of_words(&["yes", "sleep 600"]);
    let served = Served::of_process(pipeline.pid());
    let pipe = pipeline.pipe();
    for (request, status) in [
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 0",
            "405 Method Not Allowed",
        ),
        ("PUT /metrics HTTP/1.1", "405 Method Not Allowed"),
        ("GET / HTTP/1.1", "404 Not Found"),
        ("GET /-/reload HTTP/1.1", "404 Not Found"),
        ("GET metrics HTTP/1.1\r\n\u{1}", "400 Bad Request"),
        ("SSH-2.0-OpenSSH_9.2", "400 Bad Request"),
    ] {
        let (head, _) = served.ask(request);
        let first = head.lines().next().unwrap_or_default();
        assert_eq!(first, format!("HTTP/1.1 {status}"), "{request}");
        let allows = head.contains("\r\nAllow: GET, HEAD\r\n");
        assert_eq!(allows, status.starts_with("405"), "{head}");
    }
    let (head, body) = served.ask("HEAD /metrics HTTP/1.1");
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && body.is_empty(),
        "{head}"
    );
    let page = served.fresh_page();
    let capacity = page.find("fullbore_pipe_capacity_bytes", "pipe", &pipe);
    assert_eq!(capacity, Some(65536.0));
}

#[test]
fn who_asks_half_or_nothing_holds_nobody_up_and_is_let_go() {
    let served = Served::of_process(std::process::id());
    // These are more connections than are accepted at a time.
    let mut silent: Vec<TcpStream> = (0..200).map(|_| served.connect()).collect();
    for client in silent.iter_mut().step_by(2) {
        // Some connections have been closed by now.
        let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nHost:");
    }
    let mut gone = served.connect();
    gone.write_all(b"GET /met").unwrap();
    gone.shutdown(Shutdown::Both).unwrap();
    for _ in 0..5 {
        served.page();
    }
    for client in &mut silent {
        // The connection must end or be reset; a read that times out is neither.
        match client.read(&mut [0; 1]) {
            Ok(read) => assert_eq!(read, 0),
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    served.page();
}

#[test]
fn pipelines_see_end_of_file_and_sigpipe_while_they_are_scraped() {
    let served = Served::of_process(std::process::id());
    let done = AtomicBool::new(false);
    let pages = AtomicUsize::new(0);
    thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                served.page();
                pages.fetch_add(1, Ordering::Relaxed);
            }
        });
        let lines: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut rounds = 0;
                    while rounds < 20 || pages.load(Ordering::Relaxed) < 20 {
                        rounds += 1;
                        let ended = in_own_group("head -c 200000 /dev/zero | cat | wc -c");
                        assert_eq!(stdout(&ended).trim(), "200000", "{}", said(&ended));
                        let piped = in_own_group("{ yes; echo $? >&2; } | head -n 1");
                        assert_eq!(stdout(&piped), "y\n", "{}", said(&piped));
                        // 141 is 128 plus the number of SIGPIPE.
                        assert_eq!(stderr(&piped).trim(), "141", "{}", said(&piped));
                    }
                })
            })
            .collect();
        let results: Vec<_> = lines.into_iter().map(|line| line.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
        scraper.join().unwrap();
    });
}

fn in_own_group(line: &str) -> std::process::Output {
    use std::os::unix::process::CommandExt;
    // It gets its own group, so that a signal to this test's group is not mistaken for SIGPIPE.
    finish(start(bash(".", line).process_group(0)))
}

#[test]
fn figures_agree_with_the_json_of_the_same_moment() {
    let pipeline = Pipeline::of_words(&["yes", "sleep 600"]);
    let pipe = pipeline.pipe();
    let pid = pipeline.pid();
    let served = Served::of_process(pid);
    // The test waits until the pipe is full, the slow side is known, and the writer does nothing but wait.
    let waiting = |page: &Page| page.find("fullbore_pipe_writer_waiting_ratio", "pipe", &pipe);
    let page = wait_for("a full pipe and its slow side", || {
        let page = Page::of(&served.page());
        let is_full = page.find("fullbore_pipe_queued_bytes", "pipe", &pipe) == Some(65536.0);
        let is_told = page.find("fullbore_pipe_slow_reader", "pipe", &pipe) == Some(1.0);
        (is_full && is_told && waiting(&page) > Some(0.9)).then_some(page)
    });
    // On a busy machine, its looks may be too late for a verdict.
    let state = wait_for("the slow side in JSON", || {
        let output = run(&format!("top --json --pipeline {pid}"));
        assert_quiet_success(&output);
        let overview: Overview = json(stdout(&output));
        let mut pipes = overview.pipes.into_iter();
        let state = pipes.find(|state| state.inode.to_string() == pipe).unwrap();
        (state.slow != Slow::Unknown).then_some(state)
    });
    for (metric, bytes) in [
        ("fullbore_pipe_capacity_bytes", state.capacity),
        ("fullbore_pipe_queued_bytes", state.queued),
    ] {
        let served = page.find(metric, "pipe", &pipe);
        let bytes = bytes.map(|bytes| bytes as f64);
        assert_eq!(served, bytes, "{metric}: {state:#?}");
    }
    assert_eq!(state.slow, Slow::Reader, "{state:#?}");
    assert_eq!(
        page.find("fullbore_pipe_slow_writer", "pipe", &pipe),
        Some(0.0)
    );
    assert_eq!(state.blocked[0].side, Side::Writer, "{state:#?}");
    let blocked = page.find("fullbore_pipe_writer_blocked_seconds", "pipe", &pipe);
    assert!(blocked > Some(0.0), "{blocked:?}");
    let reader = page.find("fullbore_pipe_reader_blocked_seconds", "pipe", &pipe);
    assert_eq!(reader, Some(0.0));
    let waits = waiting(&page);
    let waits_too = state.writer_waits.unwrap();
    assert!(
        (waits.unwrap() - waits_too).abs() < 0.25,
        "{waits:?}, {state:#?}"
    );
    for reason in ["of_others", "of_this_user"] {
        let served = page.find("fullbore_processes_unseen", "reason", reason);
        assert!(served.is_some(), "{reason}");
    }
}

#[test]
fn bytes_are_a_counter_that_only_grows() {
    let pipeline = Pipeline::of_words(&["yes", "cat"]);
    let pipe = pipeline.pipe();
    let served = Served::of_process(pipeline.pid());
    let bytes = |page: &Page| page.find("fullbore_pipe_bytes_total", "pipe", &pipe);
    let mut last = wait_for("bytes", || {
        bytes(&served.fresh_page()).filter(|&bytes| bytes > 0.0)
    });
    for _ in 0..5 {
        let now = wait_for("more bytes", || {
            let now = bytes(&served.fresh_page())?;
            assert!(now >= last, "{last}, then {now}");
            (now > last).then_some(now)
        });
        last = now;
    }
}

#[test]
fn where_it_cannot_listen_it_says_so_in_a_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for (words, code, says) in [
        (format!("--prometheus {port}"), 1, "already in use"),
        (
            "--prometheus here".to_owned(),
            2,
            "expected PORT or ADDRESS:PORT",
        ),
        (
            "--prometheus 65536".to_owned(),
            2,
            "expected PORT or ADDRESS:PORT",
        ),
        ("--prometheus 0 --once".to_owned(), 2, "cannot be used with"),
        ("--prometheus 0 --json".to_owned(), 2, "cannot be used with"),
        // The address is in a network that is reserved for documentation (RFC 5737).
        (
            "--prometheus 192.0.2.1:9464".to_owned(),
            3,
            "no such address",
        ),
    ] {
        let output = run(&format!("top {words}"));
        assert_code(&output, code);
        assert!(stdout(&output).is_empty(), "{}", said(&output));
        let line = one_line(stderr(&output));
        assert!(line.contains(says), "{words}: {line}");
    }
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let closed = first.is_ok_and(|first| first.trim().parse::<u16>().is_ok_and(|port| port > 81));
    if !is_root() || !closed {
        skipped("ports that not everybody may listen at, and root to become somebody else");
        return;
    }
    let everybody = ForEverybody::new();
    let output = finish(start(&mut everybody.command(54_321, "top --prometheus 81")));
    assert_code(&output, 3);
    let line = one_line(stderr(&output));
    assert!(line.contains("this user may not use this port"), "{line}");
}

#[test]
fn a_table_or_json_that_cannot_be_written_is_an_error() {
    for (redirection, says) in [
        (">&-", "standard output is closed"),
        ("> /dev/full", ": No space left on device"),
    ] {
        for way in ["--once", "--json"] {
            let output = in_own_group(&format!(
                "'{FULLBORE}' top {way} --pipeline $$ {redirection}"
            ));
            assert_code(&output, 1);
            let line = one_line(stderr(&output));
            assert!(line.contains(says), "{way} {redirection}: {line}");
        }
    }
}

#[test]
fn a_name_that_nobody_has_is_named_and_no_looks_at_all_are_refused() {
    let output = run("top --once nobody-is-called-so");
    assert_code(&output, 1);
    let line = one_line(stderr(&output));
    assert!(line.contains("'nobody-is-called-so'"), "{line}");
    let output = run("top --json --count 0");
    assert_code(&output, 2);
    let line = one_line(stderr(&output));
    assert!(line.contains("'fullbore top --help'"), "{line}");
}

#[test]
fn who_can_read_it_is_told_and_loopback_is_the_default() {
    for (words, begins, who) in [
        ("0", "127.0.0.1:", "every process on this machine"),
        (":0", "127.0.0.1:", "every process on this machine"),
        (
            "0.0.0.0:0",
            "0.0.0.0:",
            "every host that can reach this machine",
        ),
    ] {
        let served = Served::start(&format!("{words} --pipeline {}", std::process::id()));
        assert!(served.address.starts_with(begins), "{}", served.said);
        assert!(served.said.contains(who), "{}", served.said);
    }
    if Path::new("/proc/net/if_inet6").exists() && TcpListener::bind("[::1]:0").is_ok() {
        let served = Served::start(&format!("[::1]:0 --pipeline {}", std::process::id()));
        assert!(served.address.starts_with("[::1]:"), "{}", served.said);
        served.page();
    } else {
        skipped("IPv6");
    }
}

#[test]
fn it_ends_quietly_by_a_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        for has_asked in [false, true] {
            let mut command = fullbore(&format!(
                "top --prometheus 0 --pipeline {}",
                std::process::id()
            ));
            let mut served = Served::of(&mut command);
            let client = served.connect();
            if has_asked {
                served.page();
            }
            kill_process(Pid::from_child(&served.child), signal).unwrap();
            let status = served.child.wait().unwrap();
            assert_eq!(status.signal(), Some(signal.as_raw()));
            let mut rest = String::new();
            served.stderr.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "");
            drop(client);
        }
    }
}

#[test]
fn who_may_not_see_all_is_told_how_much_is_missing() {
    if !is_root() {
        skipped("root, to become somebody else");
        return;
    }
    let pipeline = Pipeline::of_words(&["yes", "sleep 600"]);
    let pipe = pipeline.pipe();
    let everybody = ForEverybody::new();
    let served = Served::of(&mut everybody.command(54_321, "top --prometheus 0"));
    let page = Page::of(&served.page());
    let unseen = page.find("fullbore_processes_unseen", "reason", "of_others");
    let hidden = page.number("fullbore_processes_of_others_hidden");
    assert!(unseen > Some(0.0) || hidden == 1.0, "{unseen:?}");
    assert_eq!(
        page.find("fullbore_pipe_capacity_bytes", "pipe", &pipe),
        None
    );
}

/// Returns the names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("fullbore_"));
    names.map(str::to_owned).collect()
}

/// The parts of a dashboard of Grafana that matter here.
#[derive(Deserialize)]
struct Dashboard {
    panels: Vec<Panel>,
}

/// A panel of a [`Dashboard`].
#[derive(Deserialize)]
struct Panel {
    targets: Vec<Query>,
}

/// A query of a [`Panel`].
#[derive(Deserialize)]
struct Query {
    expr: String,
}

#[test]
fn the_documentation_and_the_dashboard_name_what_is_served_and_all_of_it() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let manual = fs::read_to_string(docs.join("top.md")).unwrap();
    let dashboard = fs::read_to_string(docs.join("top-dashboard.json")).unwrap();
    let panels = json::<Dashboard>(&dashboard).panels;
    assert!(panels.len() > 3);
    for query in panels.iter().flat_map(|panel| &panel.targets) {
        assert!(!metrics_in(&query.expr).is_empty(), "{}", query.expr);
    }
    let pipeline = Pipeline::of_words(&["yes", "cat", "sleep 600"]);
    let served = Served::of_process(pipeline.pid());
    let named: BTreeSet<String> = metrics_in(&manual)
        .union(&metrics_in(&dashboard))
        .cloned()
        .collect();
    let mut missing = named.clone();
    // Some metrics only appear after several scans.
    wait_for("all that is named", || {
        let names = Page::of(&served.page()).names();
        missing.retain(|name| !names.contains(name));
        let unnamed: Vec<_> = names.difference(&named).collect();
        assert!(unnamed.is_empty(), "not in docs/top.md: {unnamed:?}");
        missing.is_empty().then_some(())
    });
}
