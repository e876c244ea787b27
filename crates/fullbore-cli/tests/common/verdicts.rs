//! Tests of the verdict on pipelines whose slow stage is known, because it was made slow.
//!
//! Stages that compute or sleep are a few lines of perl: how much slower one of them is than the others
//! does not depend on the machine. The verdict still depends on the machine: if other processes use the
//! CPUs, 'the CPUs' is a correct answer too. A verdict that is sure of the wrong stage is never correct.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fullbore_observe::Findings;
use fullbore_observe::verdict::numbers::Certainty;
use fullbore_observe::verdict::{Bound, Sureness, Verdict, VerdictKind};

use super::*;

/// Copies stdin to stdout in chunks of 64 KiB, after a number of rounds of a loop and a number of
/// milliseconds of sleep for each.
const WORK: &str = r#"
my ($rounds, $ms) = @ARGV;
while (my $got = sysread(STDIN, my $bytes, 65536)) {
    my $sum = 0; $sum += $_ for 1..$rounds;
    select(undef, undef, undef, $ms / 1000) if $ms;
    for (my $at = 0; $at < $got;) { $at += syswrite(STDOUT, $bytes, $got - $at, $at) // die $! }
}
"#;

/// Works in one way for a number of chunks, and then in another way.
const TWICE: &str = r#"
my ($chunks, $first, $then) = @ARGV;
my $count = 0;
while (my $got = read(STDIN, my $bytes, 65536)) {
    my $ms = $count++ < $chunks ? $first : $then;
    select(undef, undef, undef, $ms / 1000) if $ms;
    for (my $at = 0; $at < $got;) { $at += syswrite(STDOUT, $bytes, $got - $at, $at) // die $! }
}
"#;

/// Copies from stdin to a TCP port of this machine, or from there to stdout.
const NET: &str = r#"
use IO::Socket::INET;
my ($way, $port) = @ARGV;
my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die $!;
my ($from, $to) = $way eq "send" ? (\*STDIN, $socket) : ($socket, \*STDOUT);
while (my $got = sysread($from, my $bytes, 65536)) {
    for (my $at = 0; $at < $got;) { $at += syswrite($to, $bytes, $got - $at, $at) // die $! }
}
"#;

/// What the verdict should say.
#[derive(Debug, Clone, Copy)]
enum Slow {
    /// This stage.
    Stage(usize),
    /// These stages and no others.
    All(&'static [usize]),
    /// The CPUs.
    Cpus,
}

/// How the verdict compares to the right answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Right,
    NotSure,
    Wrong,
    /// The verdict is wrong, and sure.
    Misled,
}

struct Case {
    kind: &'static str,
    line: String,
    slow: Slow,
    /// The capacity of each pipe.
    pipe_size: &'static str,
    /// Bytes that go through every pipe.
    bytes: Option<u64>,
}

fn judge(slow: Slow, verdict: &Verdict) -> Outcome {
    use VerdictKind::{ByTurns, Cpus, Shared, Stage};
    let stages = &verdict.stages;
    let named = match (slow, verdict.kind) {
        (Slow::Stage(slow), Stage) => Some(stages[0] == slow),
        (Slow::All(all), Shared | ByTurns) => Some(stages == all),
        // One of several that compute can get less of CPUs that others use, and is the slowest then.
        (Slow::All(all), Stage)
            if verdict.bound_by == Some(Bound::Queue) && all.contains(&stages[0]) =>
        {
            None
        }
        (Slow::All(_), Stage) => Some(false),
        // The verdict names several stages, but one is slow: it is not wrong if that one is among
        // them, but it is no answer.
        (Slow::Stage(slow), Shared | ByTurns) if stages.contains(&slow) => None,
        (Slow::Stage(_), Shared | ByTurns) => Some(false),
        (Slow::Cpus, Cpus) => Some(true),
        (Slow::Cpus, Stage) => Some(false),
        _ => None,
    };
    match (named, verdict.sure) {
        (Some(true), Sureness::Sure | Sureness::Likely) => Outcome::Right,
        (Some(false), Sureness::Sure) => Outcome::Misled,
        (Some(false), Sureness::Likely) => Outcome::Wrong,
        _ => Outcome::NotSure,
    }
}

/// Asserts that the reported bytes are right to a few percent, and almost exact if they are reported as
/// counted.
fn check_bytes(case: &Case, findings: &Findings) {
    let Some(right) = case.bytes else { return };
    for pipe in &findings.numbers.pipes {
        let Some(bytes) = pipe.bytes.bytes else {
            let known = pipe.bytes.bytes_are;
            assert_eq!(known, Certainty::Unknown, "{}: {pipe:?}", case.line);
            continue;
        };
        let off = bytes.abs_diff(right);
        assert!(off <= right / 20 + (256 << 10), "{}: {pipe:?}", case.line);
    }
}

/// Starts a listener that reads or writes 64 KiB every `ms` milliseconds.
fn slow_peer(gives: bool, ms: u64, bytes: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move |mut stream: TcpStream| {
        let mut buffer = vec![0; 65536];
        let mut left = bytes;
        while left > 0 {
            thread::sleep(Duration::from_millis(ms));
            let done = match gives {
                true => stream.write(&buffer[..left.min(65536)]),
                false => stream.read(&mut buffer),
            };
            match done {
                Ok(0) | Err(_) => return,
                Ok(done) => left -= done,
            }
        }
    };
    thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            serve(stream);
        }
    });
    port
}

#[rustfmt::skip]
fn cases(dir: &Path, part: usize) -> Vec<Case> {
    let perl = |name: &str, program: &str| {
        let path = dir.join(name);
        std::fs::write(&path, program).unwrap();
        format!("perl {}", path.display())
    };
    let (work, twice, net) = (perl("work", WORK), perl("twice", TWICE), perl("net", NET));
    let zeros = |chunks: usize| format!("head -c {} /dev/zero", chunks << 16);
    let mut cases = Vec::new();
    let mut add = |kind, line: String, slow, pipe_size, chunks: usize| cases.push(Case {
        kind, line, slow, pipe_size, bytes: (chunks > 0).then_some((chunks as u64) << 16),
    });
    use Slow::{All, Cpus, Stage};

    for pipe_size in ["64K", "1M"] {
        add("slow reader", format!("{} | {work} 0 4 > /dev/null", zeros(250)), Stage(2), pipe_size, 250);
        add("slow reader", format!("{} | cat | cat | {work} 0 4 > /dev/null", zeros(250)), Stage(4), pipe_size, 250);
        add("slow writer", format!("{work} 0 4 < /dev/zero | head -c 15M | cat | wc -c", ), Stage(1), pipe_size, 0);
        add("slow middle, asleep", format!("{} | {work} 0 4 | wc -c", zeros(250)), Stage(2), pipe_size, 250);
        add("CPU-bound middle", format!("{} | {work} 40000 0 | cat | wc -c", zeros(1200 / part)), Stage(2), pipe_size, 1200 / part);
    }

    add("CPU-bound first", format!("{work} 40000 0 < /dev/zero | head -c {}M | md5sum", 70 / part), Stage(1), "1M", 0);
    add("CPU-bound last", format!("{} | cat | {work} 40000 0 > /dev/null", zeros(1200 / part)), Stage(3), "1M", 1200 / part);
    add("CPU-bound last of five", format!("{} | cat | cat | cat | {work} 40000 0 > /dev/null", zeros(1200 / part)), Stage(5), "1M", 1200 / part);
    add("bursty writer", "(for i in 1 2 3 4 5; do sleep .2; head -c 3M /dev/zero; done) | cat | wc -c".into(), Stage(1), "1M", 240);
    add("bursty reader", format!("{} | cat | (for i in 1 2 3 4 5; do sleep .2; head -c 3M > /dev/null; done)", zeros(240)), Stage(3), "1M", 0);
    add("bursty middle", format!("{} | (for i in 1 2 3 4 5; do sleep .2; head -c 3M; done) | wc -c", zeros(240)), Stage(2), "1M", 0);
    add("two equal, asleep", format!("{} | {work} 0 4 | {work} 0 4 | wc -c", zeros(250)), All(&[2, 3]), "64K", 250);
    add("two equal, CPU-bound", format!("{} | {work} 40000 0 | {work} 40000 0 | wc -c", zeros(800 / part)), All(&[2, 3]), "1M", 800 / part);
    add("by turns", format!("{} | {twice} 100 6 0 | {twice} 100 0 4 | wc -c", zeros(250)), All(&[2, 3]), "64K", 250);
    add("to a slow network", format!("{} | cat | {net} send {}", zeros(600), slow_peer(false, 4, 600 << 16)), Stage(3), "1M", 600);
    add("from a slow network", format!("{net} receive {} | cat | wc -c", slow_peer(true, 4, 250 << 16)), Stage(1), "1M", 250);
    add("through a rate limit", format!("{} | {FULLBORE} meter -q -L 12M | wc -c", zeros(200)), Stage(2), "1M", 200);
    add("a multi-threaded middle", format!("{} | xz -T2 -6 --block-size=1MiB | wc -c", "head -c 8M /dev/urandom"), Stage(2), "1M", 0);
    add("a shell with several commands", format!("{} | (cat | {work} 0 4 | cat) | wc -c", zeros(250)), Stage(2), "1M", 250);
    add("a shell that reads by itself", "seq 60000 | while read -r n; do echo $n; done | wc -l".into(), Stage(2), "1M", 0);
    add("a shell that starts many", "seq 300 | while read -r n; do expr $n + 1; done | wc -l".into(), Stage(2), "1M", 0);
    add("splicing middle", format!("{} | {FULLBORE} copy - | {work} 0 4 > /dev/null", zeros(250)), Stage(3), "1M", 250);
    add("splicing middle", format!("{work} 0 4 < /dev/zero | head -c 15M | {FULLBORE} copy - | wc -c"), Stage(1), "1M", 0);
    add("few bytes that are much work", "for i in $(seq 200); do sleep .01; echo $i; done | while read -r n; do sleep .03; done".into(), Stage(2), "1M", 0);
    add("behind a stage that rests", format!("{} | {FULLBORE} copy | {work} 40000 0 > /dev/null", zeros(1200 / part)), Stage(3), "1M", 1200 / part);
    add("splicing ends", format!("{FULLBORE} write --way fresh --bytes-to-pipe 16M | {work} 0 4 | {FULLBORE} read --read-with-splice --bytes-to-pipe 16M"), Stage(2), "1M", 256);
    add("a reader that never sleeps", format!("{} | {work} 0 4 | {FULLBORE} read --busy-loop --bytes-to-pipe 16M", zeros(256)), Stage(2), "1M", 256);
    add("a first stage that ends at once", format!("head -c 900K /dev/zero | {work} 0 60 | wc -c"), Stage(2), "1M", 0);
    add("all at the end", "seq 400000 | sort -R | tail -n 1".into(), Stage(2), "1M", 0);
    if let Some(cpu) = first_cpu() {
        let line = format!("{} | {work} 40000 0 | {work} 40000 0 | {work} 40000 0 > /dev/null", zeros(300 / part));
        add("starved for CPUs", format!("taskset -c {cpu} {line}").replace("| perl", &format!("| taskset -c {cpu} perl")), Cpus, "1M", 0);
    }
    cases
}

pub fn has(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|path| path.join(program).is_file())
}

fn first_cpu() -> Option<usize> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    has("taskset").then(|| cpus.into_iter().find(|&cpu| set.is_set(cpu)))?
}

fn findings(case: &Case, dir: &Path) -> Findings {
    let path = tempfile::NamedTempFile::new_in(dir).unwrap();
    let path_of_json = path.path().display();
    let options = format!(
        "run --quiet --pipe-size {} --json={path_of_json}",
        case.pipe_size
    );
    let output = finish(start(fullbore(&options).arg(&case.line)));
    // An endless first stage ends when its reader has gone.
    assert!(output.stderr.is_empty(), "{}: {}", case.line, said(&output));
    json(&std::fs::read_to_string(path).unwrap())
}

/// How many pipelines run at the same time.
const TOGETHER: usize = 3;

/// Runs all artificial pipelines, those that compute with only a part of their bytes, and counts the
/// outcomes; returns `None` if a program that they need is missing.
pub fn judged(part: usize) -> Option<[usize; 4]> {
    if !has("perl") {
        skipped("there is no perl here, which the slow stages are made of");
        return None;
    }
    let only = std::env::var("ONLY").unwrap_or_default();
    let dir = tempfile::tempdir().unwrap();
    let mut cases = cases(dir.path(), part);
    cases.retain(|case| case.kind.contains(&only));
    if !has("xz") {
        skipped("there is no xz here");
        cases.retain(|case| !case.line.contains("xz "));
    }
    let next = AtomicUsize::new(0);
    let counts: [AtomicUsize; 4] = Default::default();
    thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = outcome(case, dir.path());
                    counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let counts = counts.map(AtomicUsize::into_inner);
    let [right, not_sure, wrong, misled] = counts;
    println!("right {right}, not sure {not_sure}, wrong {wrong}, misled {misled}");
    Some(counts)
}

/// Runs a pipeline, and returns how the verdict compares to the right answer.
fn outcome(case: &Case, dir: &Path) -> Outcome {
    let findings = findings(case, dir);
    let verdict = &findings.verdict;
    let outcome = judge(case.slow, verdict);
    println!("{outcome:?}: {}, {}: {verdict}", case.kind, case.pipe_size);
    if outcome != Outcome::Right {
        println!("{findings:#?}");
    }
    check_bytes(case, &findings);
    outcome
}
