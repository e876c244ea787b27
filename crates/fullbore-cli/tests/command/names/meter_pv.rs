//! Tests of `fullbore meter` beside pv: the same options, the same line.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use super::links::links;
use crate::common::meter::*;
use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};

/// Returns whether pv 1.6.20 or later is installed, and prints a line if it is not.
fn has_pv() -> bool {
    let there = output_of(Command::new("pv").arg("--version")).is_ok();
    if !there {
        skipped("pv is not installed");
    }
    there
}

/// Runs a program with these options and this file as its stdin, and returns its stderr.
fn shown(program: &[&str], options: &str, input: &Path) -> String {
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(
            options
                .split_whitespace()
                .map(|word| word.replace('_', " ")),
        )
        .stdin(File::open(input).unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env_remove("COLUMNS");
    let output = finish(start(&mut command));
    assert_code(&output, 0);
    stderr(&output).to_owned()
}

/// Returns the last line, with stars for what depends on the time that it took.
fn last_line(text: &str) -> String {
    let line = text
        .trim_end()
        .rsplit(['\r', '\n'])
        .next()
        .unwrap_or_default();
    let mut masked = String::new();
    let mut rest = line;
    while let Some(end) = rest.find("/s]").or_else(|| rest.find("/s)")) {
        let begin = rest[..end].rfind(['[', '(']).unwrap();
        masked += &rest[..begin];
        masked += &"*".repeat(end - begin);
        masked += "/s]";
        rest = &rest[end + "/s]".len()..];
    }
    // The times too, which may be some seconds longer.
    let mut words = (masked + rest).trim_end().to_owned();
    for second in 1..60 {
        words = words.replace(&format!("0:00:{second:02}"), "0:00:00");
    }
    words
}

#[test]
fn every_option_of_pv_is_taken() {
    if !has_pv() {
        return;
    }
    let of_pv = finish(start(
        Command::new("pv")
            .arg("--help")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    ));
    let help = finish(start(&mut fullbore("meter --help")));
    let mut seen = 0;
    for line in stdout(&of_pv).lines() {
        let words: Vec<&str> = line
            .split([' ', ','])
            .filter(|word| !word.is_empty())
            .collect();
        let [short, long, ..] = words[..] else {
            continue;
        };
        if short.len() != 2 || !short.starts_with('-') || !long.starts_with("--") {
            continue;
        }
        seen += 1;
        let is_listed = stdout(&help).lines().any(|line| {
            let mut words = line.split([' ', ',', '.']).filter(|word| !word.is_empty());
            words.next() == Some(short) && (words.next() == Some(long) || line.contains(long))
        });
        assert!(is_listed || short == "-d", "{short} {long}");
    }
    assert!(seen > 30, "{}", said(&of_pv));
}

/// Makes a line of pv 1.6.20 and one of pv 1.9 alike: since then, a count without a prefix has two blanks before its
/// unit, a percentage three columns, and an average rate round brackets. So the bar of a file that is not complete is
/// of another length.
fn alike(line: &str) -> String {
    let line = line
        .replace("  B", " B")
        .replace('(', "[")
        .replace(')', "]");
    match line.split_once("%") {
        Some((before, after)) if !before.ends_with("100") && before.contains(['=', '>']) => {
            let digits = before.rsplit(' ').next().unwrap();
            let bar = before.find(['[']).unwrap();
            format!("{}[bar] {digits}%{after}", &before[..bar])
        }
        _ => line,
    }
}

#[test]
fn the_line_is_that_of_pv() {
    if !has_pv() {
        return;
    }
    let files = Files::new();
    let links = links(&["pv"]);
    let path = files.0.path().join("text");
    std::fs::write(&path, "line of text\n".repeat(46_000)).unwrap();
    for options in [
        "-b",
        "-t",
        "-pb",
        "-pterb",
        "-pterab",
        "-l -b",
        "-0 -b",
        "-N name -b",
        "-N name -pterb -w 60",
        "-pter -w 33",
        "-p -w 12",
        "-p -w 3",
        "-b -w 200 -p",
        "-e -s 4M",
        "-pe -s 4M",
        "-pbs 1000000 -w 79",
        "-pb -s 10",
        "-l -p -s 92000 -b",
        "-C -b",
        "-B 1000 -b",
        "-L 100M -tb",
        "-F %b",
        "-F %b_%t|%p",
        "-F a%%b%zz%",
        "-F %N%b -N x",
        "-F %N%b",
        "-F %p%e -s 2M -w 50",
        "-tb -S -s 123456",
        "-W -b",
        "-D 0 -b",
        "-H 10 -b",
        "-Eb",
        "-EEb",
    ] {
        let options = format!("-f -i 5 {options}");
        let theirs = last_line(&shown(&["pv"], &options, &path));
        let link = links.path().join("pv");
        for ours in [&[FULLBORE, "meter"][..], &[link.to_str().unwrap()]] {
            let ours = last_line(&shown(ours, &options, &path));
            assert_eq!(alike(&ours), alike(&theirs), "{options}: {ours}");
        }
    }
}

#[test]
fn the_last_bytes_are_shown() {
    let files = Files::new();
    let path = files.0.path().join("text");
    std::fs::write(&path, "line of\ttext\n".repeat(50_000)).unwrap();
    for (options, line) in [
        ("-A 12", "ne of.text."),
        ("-C -F <%4A|%L>", "ext.|line of?text"),
    ] {
        let shown = last_line(&shown(
            &[FULLBORE, "meter"],
            &format!("-f {options}"),
            &path,
        ));
        assert!(shown.contains(line), "{options}: {shown}");
    }
}

#[test]
fn numbers_are_those_of_pv() {
    if !has_pv() {
        return;
    }
    let files = Files::new();
    let path = files.0.path().join("text");
    std::fs::write(&path, "line of\n".repeat(10_000)).unwrap();
    for options in [
        "-n",
        "-nb",
        "-nl -s 40000",
        "-nlb",
        "-n0b",
        "-n -s 900000",
        "-nbs 5",
        "-nt",
        "-ntb",
        "-n -N name",
    ] {
        let options = format!("{options} -i 60");
        let last = |program: &[&str]| -> Vec<String> {
            let text = shown(program, &options, &path);
            let line = text.lines().last().unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            // The time is in seconds, with four places.
            words
                .iter()
                .map(|word| match word.split_once('.') {
                    Some((_, places)) => "#".repeat(places.len()),
                    None => (*word).to_owned(),
                })
                .collect()
        };
        assert_eq!(last(&[FULLBORE, "meter"]), last(&["pv"]), "{options}");
    }
}

#[test]
fn as_much_passes_as_with_pv() {
    let files = Files::new();
    let (path, bytes) = files.file("a", 300_000);
    for (options, expected) in [
        ("-q -S -s 1000", &bytes[..1000]),
        ("-q -S -s 1K", &bytes[..1024]),
        ("-q -S -s 1M", &bytes[..]),
        ("-q -C -S -s 70000 -B 999", &bytes[..70_000]),
        ("-q -L 0", &bytes[..]),
        ("-q -S -s 0", &[]),
        ("-q -s 5 -f -S -q -s 1000 -f", &bytes[..1000]),
        ("-q -E", &bytes[..]),
        ("-X", &[]),
        ("-W -D 5 -f", &bytes[..]),
    ] {
        let output = finish(start(&mut meter(options, &[&path])));
        assert_quiet_success(&output);
        assert!(output.stdout == expected, "{options}");
    }
    let out = files.0.path().join("out");
    let output = finish(start(&mut meter("-q -o", &[&out, &path])));
    assert_quiet_success(&output);
    assert_eq!(std::fs::read(&out).unwrap(), bytes);
    // Nothing is lost for an input that is not there.
    let missing = finish(start(&mut meter("-q -o", &[&out, Path::new("/missing")])));
    assert_code(&missing, 1);
    assert_eq!(std::fs::read(&out).unwrap(), bytes);
    // From a second file, only what is missing.
    let twice = finish(start(&mut meter("-q -S -s 400000", &[&path, &path])));
    assert_eq!(twice.stdout, [&bytes[..], &bytes[..100_000]].concat());
}

#[test]
fn with_lines_it_stops_after_so_many_lines_as_pv_does() {
    let files = Files::new();
    let has_pv = has_pv();
    let path = files.0.path().join("text");
    // Longer than a pipe can hold, and without a line feed at the end.
    let text: String = (0..70_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(&path, format!("{text}rest")).unwrap();
    let first =
        |lines: usize| -> usize { text.split_inclusive('\n').take(lines).map(str::len).sum() };
    for (options, bytes) in [
        ("-l -S -s 1", first(1)),
        ("-l -S -s 1000", first(1000)),
        ("-l -S -s 60000", first(60_000)),
        ("-l -S -s 70000", text.len()),
        ("-l -S -s 70001", text.len() + 4),
        ("-l -S -s 10000 -B 7", first(10_000)),
        ("-l -S -s 10000 -C -E", first(10_000)),
        ("-0 -S -s 5", text.len() + 4),
        ("-l -S -s 0", 0),
    ] {
        let whole = std::fs::read(&path).unwrap();
        let ours = finish(start(&mut meter(&format!("-q {options}"), &[&path])));
        assert_quiet_success(&ours);
        assert!(
            ours.stdout == whole[..bytes],
            "{options}: {}",
            ours.stdout.len()
        );
        let piped = fed(&mut meter(&format!("-q {options}"), &[]), &whole);
        assert!(
            piped.stdout == whole[..bytes],
            "{options}: {}",
            piped.stdout.len()
        );
        // Before 1.9.42, pv took a size of 0 for one that is not known.
        if has_pv && bytes > 0 {
            let mut pv = Command::new("pv");
            pv.arg("-q").args(options.split(' ')).arg(&path);
            pv.stdout(Stdio::piped()).stderr(Stdio::piped());
            let theirs = finish(start(&mut pv));
            assert!(
                theirs.stdout == ours.stdout,
                "{options}: {}",
                theirs.stdout.len()
            );
        }
    }
    // What is counted goes on in the second input.
    let twice = finish(start(&mut meter("-q -l -S -s 70001", &[&path, &path])));
    assert_eq!(twice.stdout.len(), text.len() + "rest0\n".len());
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for (options, words) in [
        ("-u dotted", "invalid value 'dotted'"),
        ("-x nowhere", "invalid place 'nowhere'"),
        ("-S", "--size"),
        ("-R 1 -c", "--cursor"),
        ("-R 1 -q", "--quiet"),
        ("-R 0", "invalid PID '0'"),
        ("-Q x", "invalid PID 'x'"),
        ("-B 0", "invalid size 0"),
        ("-A 0", "0"),
        ("-d 1 -L 5", "--rate-limit"),
        ("-Z 512", "--skip-errors"),
    ] {
        let output = finish(start(&mut meter(options, &[])));
        assert_code(&output, 2);
        let line = one_line(stderr(&output));
        assert!(line.contains(words), "{options}: {line}");
    }
}

// Tests of a meter that is told and asked by another one.

/// Starts a meter of /dev/zero, which passes until it is killed, and waits until it can be told something.
fn endless(words: &str, report: &Path) -> std::process::Child {
    let mut command = meter(words, &[Path::new("/dev/zero")]);
    let child = start(
        command
            .stdout(Stdio::null())
            .stderr(File::create(report).unwrap()),
    );
    wait_for("a meter that answers", || {
        let output = finish(start(&mut meter(&format!("-R {}", child.id()), &[])));
        output.status.success().then_some(())
    });
    child
}

fn wait_for_words(path: &Path, words: &str) {
    wait_for(words, || {
        std::fs::read_to_string(path)
            .ok()?
            .contains(words)
            .then_some(())
    });
}

#[test]
fn a_running_meter_can_be_changed_and_asked() {
    let files = Files::new();
    let report = files.0.path().join("said");
    let mut child = endless("-f -i 0.05 -L 1K", &report);
    let pid = child.id();
    let tell = |words: &str| {
        assert_quiet_success(&finish(start(&mut meter(
            &format!("-R {pid} {words}"),
            &[],
        ))));
    };
    tell("-F <%t_%N> -N first");
    wait_for_words(&report, ":>");
    tell("-N second");
    wait_for_words(&report, "second:>");
    tell("-s 1G -pb -w 40");
    wait_for_words(&report, "] ");
    // What its line shows is changed, and the name stays.
    wait_for_words(&report, "second: ");
    tell("-L 1G");
    let asked = || {
        let words = format!("-Q {pid} -n -i 0.01 -b");
        let mut child = start(&mut meter(&words, &[]));
        let mut line = String::new();
        use std::io::BufRead;
        let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
        err.read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    // At the old limit this would take five days.
    wait_for("more than 400 MiB", || (asked() > 400 << 20).then_some(()));
    let output = finish(start(&mut meter(&format!("-R {pid} -n"), &[])));
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("--numeric cannot be changed"));
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = finish(start(&mut meter(&format!("-R {pid} -L 1"), &[])));
    assert_code(&gone, 1);
    let line = one_line(stderr(&gone));
    assert!(
        line.contains(&format!("no running fullbore meter has PID {pid}")),
        "{line}"
    );
}

#[test]
fn the_file_with_the_pid_is_gone_whatever_ends_the_meter() {
    let files = Files::new();
    let (report, file) = (files.0.path().join("said"), files.0.path().join("pid"));
    for signal in [Signal::KILL, Signal::HUP, Signal::INT, Signal::TERM] {
        let words = format!("-q -L 1K -P {}", file.display());
        let mut child = endless(&words, &report);
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            format!("{}\n", child.id())
        );
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        wait_for("the end of the file", || (!file.exists()).then_some(()));
    }
    let done = fed(&mut meter(&format!("-q -P {}", file.display()), &[]), b"x");
    assert_quiet_success(&done);
    assert!(!file.exists());
    let output = finish(start(&mut meter("-P /missing/pid", &[])));
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("write '/missing/pid': No such file"));
}

#[test]
fn quiet_and_force_and_once_and_json_go_together() {
    let output = fed(&mut meter("-q -f -c -pterb", &[]), b"x");
    assert_quiet_success(&output);
    let top = finish(start(&mut fullbore("top --once --json")));
    assert!(
        top.stdout.starts_with(b"{") || !top.status.success(),
        "{}",
        said(&top)
    );
}
