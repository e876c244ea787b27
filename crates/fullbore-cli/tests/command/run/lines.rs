//! Tests of `fullbore run`: the same lines are run by bash and by `run`, and compared.
//!
//! bash runs with pipefail, which `run` has by default, except if `run` passes a whole line to the shell.
//! Each line is run three times, each time in a directory of its own: by bash, by `run` with sh, and by
//! `run` with bash for the stages. stdout, the exit code and the files must be the same each time. stderr
//! must also be the same with bash for the stages. The messages of sh (`sh: 1: nosuch: not found`) differ
//! from those of bash, so with sh only the lines of other programs are compared.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};

use crate::common::users::{ForEverybody, nobody_else};
use crate::common::*;
use fullbore_observe::Findings;
use tempfile::TempDir;

/// A line, and how it is run.
struct Case {
    line: String,
    given: Given,
    /// Whether it is not a single pipeline, so that the shell gets the whole line.
    whole: bool,
    /// Whether bash reports that a child was killed, which `run` does not report.
    bash_says_more: bool,
    /// Whether sh behaves differently from bash, so that only the run with bash for the stages is
    /// compared.
    only_bash: bool,
}

/// The stdin of the shell, or a wrapper around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    /// An empty stdin.
    Nothing,
    /// Three lines on stdin.
    Lines,
    /// The file `words` on stdin.
    File,
    /// A line of sh, which gets the command as its arguments.
    Wrapped(&'static str),
}

fn case(line: impl Into<String>) -> Case {
    Case {
        line: line.into(),
        given: Given::Nothing,
        whole: false,
        bash_says_more: false,
        only_bash: false,
    }
}

impl Case {
    fn given(mut self, given: Given) -> Self {
        self.given = given;
        self
    }

    fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    fn bash_says_more(mut self) -> Self {
        self.bash_says_more = true;
        self
    }

    fn only_bash(mut self) -> Self {
        self.only_bash = true;
        self
    }

    /// Runs it, and returns its output and the files in the directory.
    fn run(&self, words: &[&str]) -> (Output, BTreeMap<String, Vec<u8>>) {
        let directory = directory();
        let mut command = match self.given {
            Given::Wrapped(line) => {
                let mut command = Command::new("sh");
                command.args(["-c", line, "sh"]).args(words);
                command
            }
            _ => {
                let mut command = Command::new(words[0]);
                command.args(&words[1..]);
                command
            }
        };
        let stdin = match self.given {
            Given::Lines => Stdio::piped(),
            Given::File => std::fs::File::open(directory.path().join("words"))
                .unwrap()
                .into(),
            _ => Stdio::null(),
        };
        command
            .arg(&self.line)
            .current_dir(directory.path())
            .env("A", "a word  and 'more' | $HOME")
            .env("LC_ALL", "C")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = start(&mut command);
        if let Some(mut stdin) = child.stdin.take() {
            // Not every command reads its stdin.
            let _ = stdin.write_all(b"one\ntwo\nthree\n");
        }
        let output = finish(child);
        let files = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read(path).unwrap_or_default())
            })
            .collect();
        (output, files)
    }
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let words = "pear\napple\nfig\nplum\napple\n";
    std::fs::write(directory.path().join("words"), words).unwrap();
    std::fs::write(directory.path().join("a b"), "in a b\n").unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "echo script $#; cat\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(directory.path().join("binary"), numbers(150_000)).unwrap();
    // A process that another test is starting has the script open for writing until it executes its program.
    wait_for_starts();
    directory
}

/// Returns the exit code as the calling shell sees it.
fn code(output: &Output) -> i32 {
    let status = output.status;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Returns the lines of stderr that the shell itself did not print.
fn of_programs(stderr: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(stderr)
        .lines()
        .filter(|line| {
            !["sh: ", "/bin/sh: ", "bash: "]
                .iter()
                .any(|shell| line.starts_with(shell))
        })
        .map(str::to_owned)
        .collect()
}

/// Runs each case, and fails with a description of all differences.
#[track_caller]
fn assert_as_bash(cases: Vec<Case>) {
    let mut differences = String::new();
    for case in &cases {
        let pipefail: &[&str] = match case.whole {
            true => &["bash", "-c"],
            false => &["bash", "-o", "pipefail", "-c"],
        };
        let (theirs, files) = case.run(pipefail);
        for ours in [
            &[FULLBORE, "run", "--quiet", "--sigpipe-fails"][..],
            &[
                FULLBORE,
                "run",
                "--quiet",
                "--sigpipe-fails",
                "--shell",
                "bash",
            ],
        ] {
            let by_bash = ours.len() > 4;
            if case.only_bash && !by_bash {
                continue;
            }
            let (output, written) = case.run(ours);
            let says_the_same = match by_bash && !case.bash_says_more {
                true => output.stderr == theirs.stderr,
                false => of_programs(&output.stderr) == of_programs(&theirs.stderr),
            };
            if output.stdout != theirs.stdout
                || code(&output) != code(&theirs)
                || written != files
                || !(says_the_same || case.bash_says_more)
            {
                let names = |files: &BTreeMap<String, Vec<u8>>| {
                    let known = ["words", "a b", "binary", "script"];
                    let mut text = String::new();
                    for (name, content) in files.iter().filter(|f| !known.contains(&f.0.as_str())) {
                        let content = String::from_utf8_lossy(&content[..content.len().min(200)]);
                        text += &format!("{name}: {content:?} ");
                    }
                    text
                };
                differences += &format!(
                    "\n{}\n--- bash: {}files: {}\n--- {ours:?}: {}files: {}\n",
                    case.line,
                    said(&theirs),
                    names(&files),
                    said(&output),
                    names(&written)
                );
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn quotes_and_expansions_are_what_they_are_to_a_shell() {
    assert_as_bash(vec![
        case("echo one two | cat"),
        case("echo 'a | b' | cat"),
        case("echo \"a | b\" | tr ' ' _"),
        case("echo a \\| b | cat"),
        case("echo 'it'\\''s' | cat"),
        case("echo \"'\" '\"' | cat"),
        case("printf '[%s]' '' \"\" x '' | cat"),
        case("printf '[%s]' \"$A\" $A | cat"),
        case("echo 'first\nsecond | third' | wc -l"),
        case("echo one \\\n two \\\n | cat"),
        case("echo x\\ | cat"),
        case("echo * | cat"),
        case("cat 'a b' a\\ b \"a b\" | sort"),
        case("echo ~ | grep -c /"),
        case("echo '~' \"~\" \\~ | cut -c 3-"),
        case("echo $((1 | 2)) $((7 >> 1)) | cat"),
        case("echo $(echo a | tr a b) `echo c | tr c d` | cat"),
        case("echo x | cat - words\r"),
        case("echo x | \rcat").bash_says_more(),
        case("echo \"$(echo \"$(echo 'deep | er')\")\" | cat"),
        case("echo ${A#a word} ${B:-none | x} ${A:+set} | cat"),
        case("A=changed; echo $A | cat").whole(),
        case("A=changed sh -c 'echo $A' | cat"),
        case("echo $# $? \"$@\" | cat"),
        case("echo a#b '#' \\# # | comment"),
        case("echo ä ö € | cat"),
        case("IFS=o; x=foobar; echo $x | cat").whole(),
        case("{ IFS=o; x=foobar; echo $x; } | cat"),
        case(" -x | cat").bash_says_more(),
        case("echo 'a\tb' | cut -f 2"),
        case("env | grep -v '^_=\\|SHLVL\\|PWD' | sort"),
    ]);
}

#[test]
fn redirections_go_where_they_go_under_a_shell() {
    assert_as_bash(vec![
        case("echo x > out | cat"),
        case("echo x | cat > out"),
        case("> out | cat"),
        case("cat < words | sort > out"),
        case("< words sort | > out uniq -c"),
        case("true | sort < words"),
        case("echo more | cat >> words"),
        case("ls nosuch words 2>&1 | sort"),
        case("ls nosuch 2> err | cat"),
        case("ls nosuch | cat"),
        case("{ echo out; echo err >&2; } 2>&1 | sort"),
        case("{ echo out; echo err >&2; } 2>&1 >out | sort"),
        case("{ echo out; echo err >&2; } 3>&1 >&2 2>&3 3>&- | sed s/^/in-pipe:/"),
        case("{ echo three >&3; } 3>&1 | cat"),
        case("{ echo x; } >&- | cat"),
        case("cat <&- | cat"),
        case("echo x 1<>out | cat"),
        case("echo 99999999999999999999>out | cat").whole(),
        case("{ set -C; echo x > words; } | cat").only_bash(),
        case("cat /dev/stdin < words | wc -l"),
        case("echo x | tee /dev/stderr | cat"),
        case("echo x | cat > /dev/full"),
        case("echo x | cat < nosuch").only_bash(),
        case("echo x | cat > no/where").only_bash(),
        case("exec 4> out; echo x >&4 | cat").whole(),
        case("{ exec 4> out; echo x >&4; } | cat"),
        case("ls nosuch words |& sort"),
        case("ls nosuch 2> err |& cat"),
        case("{ echo a; echo b >&2; } |& cat |& sort"),
    ]);
}

#[test]
fn a_line_with_a_here_document_is_left_to_the_shell() {
    assert_as_bash(vec![
        case("cat << E | tr a-z A-Z\nhome | $A\nE").whole(),
        case("cat << 'E' | tr a-z A-Z\nhome | $A\nE\n").whole(),
        case("cat <<- E | cat\n\t\ttabs\n\tE\n").whole(),
        case("cat << E |\nbody\nE\ntr a-z A-Z").whole(),
        case("cat << E - | cat - 3<< F\nbody\nE\nunread\nF\n").whole(),
        case("cat << ONE << TWO | sort\n1\nONE\n2\nTWO\n").whole(),
        case("cat | cat << E\nsecond\nE\n").whole(),
        case("cat << E | cat - /dev/fd/3 3<< F\nfirst | x\nE\nsecond | y\nF\n").whole(),
        case("{ cat << E; echo after; } | sort\nz\nE\n").whole(),
        case("{ cat << E\nz\nE\necho after; } | sort\n").whole(),
        case("while read x; do cat << E; done < words | sort\n<$x>\nE\n").whole(),
        case("cat << E | cat\n$(echo a | tr a b)\nE").whole(),
        case("cat << E |& tr a-z A-Z\nbody\nE\n")
            .whole()
            .only_bash(),
        case("cat << '' | cat\nuntil an empty line\n\n").whole(),
        case("cat << E | cat\n\nE").whole(),
        case("cat << E | cat\njoin\\\nE\nE\n").whole(),
    ]);
}

#[test]
fn whatever_a_shell_takes_for_a_command_can_be_a_stage() {
    assert_as_bash(vec![
        case("{ echo a; echo b; } | cat -n"),
        case("( echo a; echo b ) | cat -n"),
        case("{ echo b; echo a; } | { sort; echo end; }"),
        case("echo x y | { read a b; echo \"$b $a\"; }"),
        case("seq 5 | while read n; do echo $((n * n)); done | tail -n 1"),
        case("for x in a b c; do echo $x | tr a-z A-Z; done | cat -n"),
        case("case x in (x|y) echo yes | cat;; *) echo no;; esac | cat -n"),
        case("if true | false; then echo yes; else echo no | cat; fi | cat -n"),
        case("until [ -e made ]; do touch made; echo x; done | cat"),
        case("f() { echo f \"$1\" | cat; }; f x | cat").whole(),
        case("{ f() { echo f \"$1\" | cat; }; f x; } | cat -n"),
        case("cd / | pwd | sed 's|.*/|/|' | grep -c ."),
        case("(cd / && pwd) | cat"),
        case("x=1 | echo \"<$x>\""),
        case("echo x | read y | echo \"<$y>\""),
        case("true && echo a | cat").whole(),
        case("{ true && echo a || echo b; } | cat"),
        case("test -e words && echo there; echo x | cat").whole(),
        case("eval 'echo a | tr a b' | cat -n"),
        case("exec echo x | exec cat"),
        case("cat words | ./script a b | cat"),
        case("./script 'a  b' | cat"),
        case(". ./nosuch | cat").only_bash(),
        case("set -e; false | true; echo on | cat").whole(),
        case("{ set -e; false; echo never; } | cat"),
        case("command echo x | command cat"),
        case("umask 027; umask | cat").whole(),
        case("{ umask 027; echo x > out; umask; } | cat"),
        case("printf '%s\\n' a b | xargs -n 1 echo | cat"),
        case("trap 'echo bye' EXIT; echo x | cat").whole(),
        case("{ trap 'echo bye' EXIT; echo x; } | cat"),
        case("echo a |\n\n  # a comment | with a pipe\n  cat | # and another\n cat -n"),
        case("# only a comment | really"),
        case(""),
        case("\n\n echo x | cat ;\n"),
        case("echo $(cat << E\nin | side\nE\n) | cat").whole(),
    ]);
}

#[test]
fn exit_codes_are_those_of_a_shell_with_pipefail() {
    assert_as_bash(vec![
        case("true | true"),
        case("false | true"),
        case("true | false"),
        case("exit 3 | exit 4 | exit 0"),
        case("exit 3 | exit 0 | exit 5"),
        case("exit 256 | true"),
        case("! false | true"),
        case("! true | true"),
        case("! exit 7"),
        case("nosuch-program | cat").bash_says_more(),
        case("echo x | nosuch-program").bash_says_more(),
        case("./words | cat").bash_says_more(),
        case("/ | cat").bash_says_more(),
        case("grep zzz words | cat"),
        case("cat nosuch | wc -l"),
        case("false; true | true").whole(),
        case("false | true || echo failed").whole(),
        case("true | false && echo well").whole(),
        case("(exit 9) | { exit 8; } | cat"),
    ]);
}

#[test]
fn stages_that_die_take_with_them_what_they_do_under_a_shell() {
    assert_as_bash(vec![
        case("kill -9 $$ | cat").whole().bash_says_more(),
        case("sh -c 'kill -9 $$' | cat").bash_says_more(),
        case("echo x | sh -c 'kill -TERM $$'").bash_says_more(),
        case("echo x | sh -c 'kill -SEGV $$; cat' | cat").bash_says_more(),
        case("sh -c 'kill -USR1 $$' | sh -c 'kill -HUP $$' | true").bash_says_more(),
        case("yes | head -n 2"),
        case("seq 1000000 | head -n 1"),
        case("seq 1000000 | true"),
        case("yes | head -c 5 | wc -c"),
        case("seq 300000 | (read x; echo $x; exit 3)"),
        case("(trap '' PIPE; seq 1000000 2> err; echo $? > code) | head -n 1"),
        case("(trap 'echo caught > caught' PIPE; seq 1000000; echo $? > code) 2> err | head -n 1"),
        case("(trap 'echo caught' TERM; sh -c 'kill -TERM $PPID'; echo on) | cat"),
        case("sleep 0.05 | exit 2"),
        case("exit 2 | sleep 0.05"),
    ]);
}

#[test]
fn order_and_data_are_kept() {
    assert_as_bash(vec![
        case("(echo 1; sleep 0.1; echo 3) | (read a; echo $a; echo 2; cat)"),
        case("cat binary | cat | cat | cksum"),
        case("cat binary | tee copy | cmp - binary"),
        case("cat binary | gzip -c | gzip -dc | cmp - binary"),
        case(format!("cat words {} | sort", "| cat ".repeat(40))),
        case("seq 100000 | sort -n | tail -n 1"),
        case("dd if=binary bs=1000 2> /dev/null | dd bs=7777 2> /dev/null | cksum"),
        case("{ until test -e go; do sleep 0.01; done; echo late > late; echo late; } & echo now; : > go; wait")
            .whole(),
        case("{ { until test -e go; do sleep 0.01; done; echo late; } & echo now; : > go; } | cat"),
        case(
            "{ (until test -e go; do sleep 0.01; done; echo late > late; echo x) & echo now; : > go; } | \
             { read x; echo $x; cat; }",
        ),
        case("echo a | { cat & wait; }").only_bash(),
        case("echo a | (cat & wait) > out | cat").only_bash(),
        case("echo a | { cat > out & wait; } <&0").only_bash(),
        case("cat words | while read x; do cat & wait; done; # rest").only_bash(),
        case("echo a | { cat <&3 & wait; } 3<&0"),
        case("cat & echo x | cat; wait").whole(),
        case(format!("echo {} | wc -c", "x".repeat(100_000))),
        case(format!("echo '{}' | wc -l", "y\n".repeat(30_000))),
        case("echo $(seq 20000) | wc -w"),
        case("seq 20000 | xargs echo | wc -w"),
        case("printf '\\000\\377|\\n' | od -c"),
        case("seq 3 | paste - - -"),
    ]);
}

#[test]
fn stdin_is_the_first_stages_as_under_a_shell() {
    assert_as_bash(vec![
        case("cat | tr a-z A-Z").given(Given::Lines),
        case("{ read x; echo \"got $x\"; } | cat").given(Given::Lines),
        case("head -n 1 | cat").given(Given::Lines),
        case("echo x | cat - /dev/null").given(Given::Lines),
        case("true | true").given(Given::Lines),
        case("cat | cat; cat").whole().given(Given::Lines),
        case("sort | uniq -c").given(Given::File),
        case("{ read x; read y; echo $y; } | cat").given(Given::File),
        case("{ head -c 5 > /dev/null; cat; } | cat").given(Given::File),
        case("cat | cat").given(Given::Wrapped("\"$@\" <&-")),
        case("echo x | cat").given(Given::Wrapped("\"$@\" >&-")),
        case("echo x | cat; echo y >&2")
            .whole()
            .only_bash()
            .given(Given::Wrapped("\"$@\" 2>&-")),
        case("echo x | cat >&2")
            .only_bash()
            .given(Given::Wrapped("\"$@\" 2>&-")),
        case("echo x | cat").given(Given::Wrapped("\"$@\" <&- >&- 2>&-")),
        case("ls /proc/self/fd | wc -l").given(Given::Wrapped("\"$@\" <&-")),
        case("ls -l /proc/self/fd | wc -l"),
        case("cat <&3 | cat").given(Given::Wrapped("\"$@\" 3< words")),
        case("echo x | cat >&5").given(Given::Wrapped("\"$@\" 5> out")),
        case("ls /proc/self/fd | tr '\\n' ' '").given(Given::Wrapped("\"$@\" 7< words 9> out")),
    ]);
}

#[test]
fn a_stage_finds_signals_limits_and_groups_as_a_shell_leaves_them() {
    let signals = "grep -E 'Sig(Blk|Ign)|ShdPnd' /proc/self/status | cat";
    let mut cases = vec![
        case("cut -d ' ' -f 5,6,7 /proc/self/stat | cat"),
        case("ulimit -n | cat"),
        case("nice | cat").given(Given::Wrapped("nice -n 3 \"$@\"")),
        case("ulimit -v | cat").given(Given::Wrapped("ulimit -v 8000000; \"$@\"")),
        case("umask | cat").given(Given::Wrapped("umask 027; \"$@\"")),
        case("pwd -P | sed 's|.*/||' | grep -c .").given(Given::Wrapped("cd /; \"$@\"")),
        case("tty | cat").given(Given::Wrapped("setsid -w \"$@\"")),
        case("ps -o sid= -p $$ | wc -l").given(Given::Wrapped("setsid -w \"$@\"")),
        case("sh -c 'kill -INT $$; echo survived' | cat")
            .given(Given::Wrapped("trap '' INT; \"$@\"")),
    ];
    for given in [
        "\"$@\"",
        "trap '' INT QUIT; \"$@\"",
        "trap '' HUP TERM; \"$@\"",
        "trap '' USR1 TSTP; \"$@\"",
    ] {
        cases.push(case(signals).given(Given::Wrapped(given)));
    }
    assert_as_bash(cases);
}

/// What is put beside a stage for the shell is in no message.
#[test]
fn messages_have_the_source_of_a_stage_as_it_was_written() {
    for (line, source) in [
        ("sh -c 'exit 3' |& cat", "sh -c 'exit 3'"),
        ("true | { false & wait $!; }", "{ false & wait $!; }"),
        ("! sh -c 'exit\t3' | cat", "sh -c 'exit 3'"),
        ("false  2>/dev/null | cat", "false  2>/dev/null"),
    ] {
        let mut command = fullbore("run --whole --verbose --shell bash");
        let output = finish(start(command.arg(line)));
        let said = stderr(&output);
        let failed = said
            .lines()
            .find(|line| line.contains("failed with exit code"))
            .unwrap();
        assert!(failed.contains(&format!(", {source}, failed")), "{said}");
        assert!(
            said.lines()
                .any(|line| line.ends_with(&format!(": {source}"))),
            "{said}"
        );
    }
}

/// A limit is named by its own name, and no other is guessed.
#[test]
fn the_limit_that_was_hit_is_named() {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    if !traced.is_ok_and(|output| output.status.success()) {
        return skipped("calls that fail: strace is not there or may not trace");
    }
    let hard = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-hard").unwrap();
    let hard = match hard.trim() {
        "0" => "Too many open files in system\n".to_owned(),
        pages => format!(
            "system (fs.pipe-user-pages-hard is {pages} pages for all pipes of this user)\n"
        ),
    };
    // A call of vfork(2) or clone(2) makes a stage, depending on the C library.
    let call = "pipe2:error=ENFILE:when=1+ -e trace=pipe2";
    for (inject, expected) in [
        (call.to_owned(), hard),
        (
            call.replace("ENFILE", "EMFILE"),
            "Too many open files ('ulimit -n' is ".to_owned(),
        ),
    ] {
        let line =
            format!("exec strace -f -o /dev/null -e inject={inject} {FULLBORE} run 'true | cat'");
        let output = output_of(Command::new("sh").args(["-c", &line])).unwrap();
        let said = stderr(&output);
        assert!(
            said.contains("create pipe 1 of 1: ") && said.contains(&expected),
            "{said}"
        );
        assert!(
            expected.contains("ulimit") || !said.contains("ulimit"),
            "{said}"
        );
    }
    if !rustix::process::geteuid().is_root() {
        return skipped("a limit of processes: another user needs root");
    }
    let fullbore = ForEverybody::new();
    let user = nobody_else(7);
    for options in ["", "--whole"] {
        let mut command = Command::new("bash");
        let line = format!(
            "ulimit -u 2; exec {} run {options} 'true | cat | cat | cat | cat'",
            fullbore.path().display()
        );
        let output = output_of(command.args(["-c", &line]).uid(user).gid(user)).unwrap();
        let said = stderr(&output);
        assert!(
            said.contains("Resource temporarily unavailable ('ulimit -u' is 2)"),
            "{said}"
        );
    }
}

#[test]
fn many_stages_need_few_open_files() {
    let line = format!("printf hi{}", " | cat".repeat(60));
    let wrapped = [
        "sh",
        "-c",
        "ulimit -n 20; exec \"$@\"",
        "sh",
        FULLBORE,
        "run",
        &line,
    ];
    let output = output_of(Command::new(wrapped[0]).args(&wrapped[1..])).unwrap();
    assert_eq!((code(&output), output.stdout), (0, b"hi".to_vec()));
}

#[test]
fn a_line_as_long_as_the_kernel_allows_is_run() {
    let longest = 32 * rustix::param::page_size() - 1;
    for line in ["echo $((1 + 1)) '", "printf %s\\\\n 2 '"] {
        let end = "' | head -n 1 | cut -c 1";
        let line = format!(
            "{line}{}{end}",
            "x".repeat(longest - line.len() - end.len())
        );
        let output = output_of(Command::new(FULLBORE).args(["run", &line])).unwrap();
        assert_eq!(
            (code(&output), &output.stdout[..]),
            (0, &b"2\n"[..]),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn a_line_may_switch_on_what_its_rest_needs() {
    let line = "shopt -s extglob\necho @(wor|x)ds | cat";
    assert_as_bash(vec![case(line).whole().only_bash()]);
}

#[test]
fn lines_that_no_shell_understands_start_nothing() {
    for line in [
        "touch made |",
        "| touch made",
        "touch made | | cat",
        "touch made || | cat",
        "touch made | 'unmatched",
        "touch made | \"unmatched",
        "touch made | $(unmatched",
        "touch made | echo $(cat |; cat)",
        "touch made |& echo $(cat |; cat)",
        "touch made | { cat |& cat; }",
        "touch made | ( cat",
        "touch made | cat )",
        "touch made | { cat",
        "touch made | while true; do cat",
        "touch made | cat >",
        "touch made ; | cat",
        "touch made | ;",
        "touch made | &",
        "touch made | if",
    ] {
        let directory = directory();
        let mut command = fullbore("run");
        let output = finish(start(command.arg(line).current_dir(directory.path())));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        assert!(
            one_line(stderr(&output)).contains("yntax error"),
            "{}",
            said(&output)
        );
        assert!(!directory.path().join("made").exists(), "{line}");
    }
}

#[test]
fn what_is_no_single_pipeline_runs_as_it_is_and_that_is_said_where_it_has_a_pipe() {
    let line =
        |line: &str, option: &str| finish(start(fullbore(&format!("run {option}")).arg(line)));
    let output = line("echo a; echo b | cat", "");
    assert_eq!(stdout(&output), "a\nb\n");
    let said = one_line(stderr(&output));
    assert!(
        said.contains("known to be safe grow while it runs") && said.contains("fullbore run"),
        "{said}"
    );
    assert_quiet_success(&line("echo a; echo b | cat", "--quiet"));
    assert_quiet_success(&line("echo a; echo b", ""));
    assert_quiet_success(&line("echo 'a; b' | cat", ""));
}

#[test]
fn the_pipes_of_a_line_that_a_shell_runs_are_enlarged_while_it_runs_and_no_others() {
    let (reader, writer) = std::io::pipe().unwrap();
    let before = rustix::pipe::fcntl_getpipe_size(&reader).unwrap();
    let mut command = fullbore("run --quiet");
    let line = "cat /dev/zero | sh -c 'exec sleep 600' > /dev/null; exec sleep 600";
    let mut child = start(command.arg(line).stdout(writer));
    // cat(1) is in the table of programs whose pipes may grow.
    wait_for("a larger pipe", || {
        let below = fullbore_observe::descendants(child.id());
        let cat = below.into_iter().find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "cat\n")
        })?;
        let pipe = std::fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/{cat}/fd/1"))
            .ok()?;
        (rustix::pipe::fcntl_getpipe_size(&pipe).ok()? > 64 << 10).then_some(())
    });
    assert_eq!(rustix::pipe::fcntl_getpipe_size(&reader).unwrap(), before);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.id() as i32).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    child.wait().unwrap();
}

#[test]
fn a_shell_with_another_grammar_gets_the_line_whole() {
    let directory = tempfile::tempdir().unwrap();
    let shell = directory.path().join("fish");
    std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
    let run = |shell: &std::ffi::OsStr, line: &str| {
        let mut command = fullbore("run --shell");
        finish(start(command.arg(shell).arg(line)))
    };
    let output = run(shell.as_os_str(), "echo 'a b' | cat");
    assert_eq!(stdout(&output), "a b\n");
    assert!(one_line(stderr(&output)).contains("only lines for sh"));
    if output_of(Command::new("zsh").args(["-c", ":"])).is_err() {
        return skipped("loops of zsh: there is no zsh here");
    }
    let output = run("zsh".as_ref(), "repeat 3 { echo a | cat } | wc -l");
    assert_code(&output, 0);
    assert_eq!(stdout(&output).trim(), "3", "{}", said(&output));
    // It has to find functions of this name in .zshenv.
    std::fs::write(directory.path().join(".zshenv"), "seq() { echo mine }\n").unwrap();
    let mut command = fullbore("run --shell zsh");
    command.arg("seq 5 | cat").env("ZDOTDIR", directory.path());
    assert_eq!(stdout(&finish(start(&mut command))), "mine\n");
}

#[test]
fn a_program_that_the_kernel_does_not_execute_is_one_for_the_shell() {
    let directory = directory();
    let run = |words: &[&str]| {
        let mut command = fullbore("run");
        finish(start(command.args(words).current_dir(directory.path())))
    };
    // A script without '#!', as with env(1).
    let output = run(&["--", "./script", "a  b", "|", "cat", "-n"]);
    assert_quiet_success(&output);
    assert_eq!(stdout(&output).trim(), "1\tscript 1");
    // The other stages run, as under a shell.
    let bad = directory.path().join("bad");
    std::fs::write(&bad, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&bad, std::fs::Permissions::from_mode(0o755)).unwrap();
    wait_for_starts();
    let by_shell = output_of(
        Command::new("sh")
            .args(["-c", "./bad; exit $?"])
            .current_dir(directory.path()),
    );
    let output = run(&["./bad | echo on"]);
    assert_eq!(stdout(&output), "on\n", "{}", said(&output));
    assert_code(&output, code(&by_shell.unwrap()));
    assert!(one_line(stderr(&output)).contains("./bad"));
}

#[test]
fn words_are_run_without_a_shell() {
    let words = |words: &[&str]| finish(start(fullbore("run --").args(words)));
    let output = words(&[
        "printf", "[%s]", "a b", "$HOME", "*", "'", "", "||", "|", "tr", "b", "c",
    ]);
    assert_quiet_success(&output);
    assert_eq!(stdout(&output), "[a c][$HOME][*]['][][||]");
    let output = words(&["sh", "-c", "exit 3", "|", "cat", "|", "true"]);
    assert_code(&output, 3);
    for empty in [&["|", "cat"][..], &["cat", "|"], &["cat", "|", "|", "cat"]] {
        let output = words(empty);
        assert_code(&output, 2);
        assert!(
            one_line(stderr(&output)).contains("is empty"),
            "{}",
            said(&output)
        );
    }
    assert_code(&finish(start(&mut fullbore("run"))), 2);
    assert_code(&finish(start(&mut fullbore("run cat cat"))), 2);
    assert_code(&finish(start(&mut fullbore("run cat -- cat"))), 2);
}

#[test]
fn a_program_that_cannot_be_started_is_named_and_the_others_are_ended() {
    let directory = directory();
    let run = |words: &[&str]| {
        let mut command = fullbore("run --");
        // If this user may not search a directory on PATH, the exit code is 126, as with env(1).
        command.env("PATH", "/usr/bin:/bin").args(words);
        finish(start(command.current_dir(directory.path())))
    };
    for (words, code, stage) in [
        (&["no-such-program"][..], 127, "stage 1"),
        (
            &["sleep", "1000", "|", "no-such-program", "|", "cat"],
            127,
            "stage 2",
        ),
        (&["yes", "|", "cat", "|", "./words"], 126, "stage 3"),
        (&["sleep", "1000", "|", "/"], 126, "stage 2"),
    ] {
        let output = run(words);
        assert_code(&output, code);
        let line = one_line(stderr(&output));
        let program = words
            .iter()
            .rfind(|word| word.starts_with(['n', '.', '/']))
            .unwrap();
        assert!(line.contains(stage) && line.contains(program), "{line}");
    }
    let output = finish(start(
        fullbore("run --shell no-such-shell").arg("cat | cat"),
    ));
    assert_code(&output, 127);
    assert!(one_line(stderr(&output)).contains("no-such-shell"));
}

#[test]
fn names_that_are_no_utf_8_reach_the_programs_byte_for_byte() {
    let line = OsString::from_vec(b"printf '%s|' \xff\xfe 'a | \xe4' | cat".to_vec());
    let output = finish(start(fullbore("run").arg(&line)));
    assert_quiet_success(&output);
    assert_eq!(output.stdout, b"\xff\xfe|a | \xe4|");
    let word = OsString::from_vec(b"\xff".to_vec());
    let words = ["printf", "%s"].map(OsString::from);
    let output = finish(start(
        fullbore("run --").args(words).arg(&word).args(["|", "cat"]),
    ));
    assert_eq!(output.stdout, b"\xff");
}

#[test]
fn without_pipefail_the_last_stage_counts() {
    for (line, code) in [
        ("false | true", 0),
        ("true | exit 7", 7),
        ("! false | true", 1),
    ] {
        let output = finish(start(fullbore("run --no-pipefail").arg(line)));
        assert_code(&output, code);
    }
}

/// Returns the capacity of the pipe on stdin of the last stage.
fn capacity(options: &str) -> (usize, Output) {
    let line = "true | python3 -c 'import fcntl; print(fcntl.fcntl(0, 1032))'";
    let output = finish(start(fullbore(&format!("run {options}")).arg(line)));
    (stdout(&output).trim().parse().unwrap_or(0), output)
}

#[test]
fn pipes_are_as_roomy_as_asked_for_or_a_line_says_why_not() {
    if output_of(Command::new("python3").arg("-c").arg("")).is_err() {
        return skipped("the capacity of a stage's pipe: there is no python3 here");
    }
    let limit: usize = std::fs::read_to_string("/proc/sys/fs/pipe-max-size")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap();
    for (options, wanted) in [
        ("", 1 << 20),
        ("--pipe-size 256K", 256 << 10),
        ("--pipe-size 1", fullbore_linux::page_size()),
    ] {
        let (found, output) = capacity(options);
        assert!(
            found == wanted || !output.stderr.is_empty(),
            "{}",
            said(&output)
        );
    }
    // No user may have a pipe of 2 GiB.
    let (found, output) = capacity("--pipe-size 2G");
    let line = one_line(stderr(&output));
    assert!(
        line.contains("pipe-max-size") || line.contains("pipe-user-pages"),
        "{line}"
    );
    assert!(found >= (64 << 10).min(limit), "{}", said(&output));
    let (_, output) = capacity("--quiet --pipe-size 2G");
    assert_quiet_success(&output);
    let (_, output) = capacity("--pipe-size 0");
    assert_code(&output, 2);
    assert!(stderr(&output).contains("invalid capacity 0"));
}

#[test]
fn run_says_nothing_of_its_own_unless_asked() {
    let run =
        |option: &str, line: &str| finish(start(fullbore(&format!("run {option}")).arg(line)));
    assert_quiet_success(&run("", "seq 5 | cat"));
    let output = run("--verbose", "seq 5 | cat");
    assert_eq!(stdout(&output), "1\n2\n3\n4\n5\n");
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert!(lines.len() == 2 && lines[1].contains("stage 2") && lines[1].ends_with("cat"));
}

#[test]
fn json_goes_to_a_file_and_never_into_the_pipelines_output() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("how.json");
    let mut command = fullbore(&format!("run --json={}", path.display()));
    let output = finish(start(command.arg("seq 100000 | tail -n 1")));
    assert_quiet_success(&output);
    assert_eq!(stdout(&output), "100000\n");
    let found: Findings = json(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(found.numbers.stages.len(), 2, "{found:#?}");
    // What is refused leaves the file of an earlier run alone.
    let before = std::fs::read(&path).unwrap();
    for bad in ["--place 0/0/0", "--place 0", "--place 99999/"] {
        let mut command = fullbore(&format!("run {bad} --json={}", path.display()));
        assert_code(&finish(start(command.arg("true | cat"))), 2);
        assert!(std::fs::read(&path).unwrap() == before, "{bad}");
    }
    for json in ["--json", "--json=-", "--json=/dev/stdout"] {
        let output = finish(start(fullbore(&format!("run {json}")).arg("echo x")));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty());
        let error = one_line(stderr(&output));
        assert!(error.contains("--json needs a file") && error.contains("--json=FILE"));
    }
    let output = finish(start(fullbore("run --json=no/where").arg("echo x")));
    assert_code(&output, 125);
    assert!(output.stdout.is_empty() && one_line(stderr(&output)).contains("no/where"));
}

#[test]
fn a_closed_pipe_behind_it_ends_it_as_it_ends_a_shell() {
    let mut command = fullbore("run");
    let output = finish(start(command.arg("yes | cat").stdout(nobody_reads())));
    assert_code(&output, 128 + 13);
}

fn run_line(options: &str, line: &str) -> Output {
    finish(start(fullbore(&format!("run {options}")).arg(line)))
}

#[test]
fn a_stage_that_sigpipe_ended_has_failed_only_where_that_is_asked_for() {
    for line in [
        "yes | head -n 1",
        "{ yes; } | head -n 1",
        "yes | cat | head -n 1",
    ] {
        let output = run_line("", line);
        assert_quiet_success(&output);
        assert_eq!(stdout(&output), "y\n");
        assert_code(&run_line("--sigpipe-fails", line), 128 + 13);
        assert_code(&run_line("--no-pipefail", line), 0);
    }
    assert_code(&run_line("", "yes | exit 3"), 3);
    assert_code(&run_line("", "exit 3 | yes | head -n 1"), 3);
    assert_code(&run_line("", "! yes | head -n 1"), 1);
    assert_code(&run_line("--sigpipe-fails --no-pipefail", "true"), 2);
}

#[test]
fn sigpipe_while_the_next_stage_still_reads_is_a_failure() {
    for dies in ["kill -PIPE $$", "exit 141"] {
        let place = tempfile::tempdir().unwrap();
        // It ends once `run` has said what it saw.
        let stays = "for i in $(seq 30000); do test -e go && exit; sleep 0.01; done";
        let line = format!("sh -c '{dies}' | sh -c 'cat; {stays}'");
        let mut command = fullbore("run");
        let mut child = start(command.arg(&line).current_dir(place.path()));
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        said.read_line(&mut first).unwrap();
        fs::write(place.path().join("go"), "").unwrap();
        assert_code(&finish(child), 141);
        assert!(
            first.contains("another pipe than that to stage 2"),
            "{first}"
        );
        let nothing_more = said.lines().next().is_none();
        assert!(nothing_more, "{dies}");
    }
    // What is accepted is no failure.
    let line = "sh -c 'exit 141' | sh -c 'cat; sleep 0.3'";
    assert_quiet_success(&run_line("--accept 1=141", line));
}

#[test]
fn what_a_stage_left_in_the_background_is_waited_for() {
    let job = "(sleep 0.3; echo late > late) > /dev/null 2>&1 < /dev/null";
    for line in [
        format!("{{ {job} & echo now; }} | cat"),
        format!("{{ ({job} &) ; echo now; }} | cat"),
        format!("{job} & sleep 0.01 | cat; echo now"),
        format!("echo now; {job} &"),
        format!("{{ {job}; echo now; }} | cat &"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = fullbore("run -q");
        let output = finish(start(command.arg(&line).current_dir(directory.path())));
        assert_quiet_success(&output);
        assert_eq!(stdout(&output), "now\n", "{line}");
        let late = std::fs::read_to_string(directory.path().join("late"));
        assert_eq!(late.unwrap(), "late\n", "{line}");
    }
}

#[test]
fn what_bash_writes_to_by_process_substitution_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let line = "seq 1000 | tee >(sleep 0.3; wc -l > lines) > /dev/null";
    let mut command = fullbore("run --shell bash");
    let output = finish(start(command.arg(line).current_dir(directory.path())));
    assert_quiet_success(&output);
    let lines = std::fs::read_to_string(directory.path().join("lines")).unwrap();
    assert_eq!(lines.trim(), "1000");
}

#[test]
fn a_daemon_is_ended_with_the_pipeline_and_named() {
    for line in [
        "setsid -f sleep 1000 > /dev/null | cat",
        "{ (setsid setsid sleep 1000 &); sleep 0.2 & } > /dev/null 2>&1 | cat",
        "setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' > /dev/null 2>&1 & true | cat",
    ] {
        let output = run_line("", line);
        assert_code(&output, 0);
        let said = stderr(&output);
        let ended = said
            .lines()
            .find(|line| line.contains("sessions of their own"));
        let ended = ended.unwrap_or_else(|| panic!("{line}: {said}"));
        for number in ended.split(['(', ')']).filter_map(|word| word.parse().ok()) {
            let pid = rustix::process::Pid::from_raw(number).unwrap();
            assert!(!is_running(pid), "{line}: {said}");
        }
        assert_quiet_success(&run_line("--quiet", line));
    }
}

#[test]
fn a_line_that_asks_for_something_else_is_told_what_to_write() {
    let output = run_line("", "seq 3 | cat &");
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "1\n2\n3\n");
    assert!(
        stderr(&output).contains("fullbore run 'a | b' &"),
        "{}",
        said(&output)
    );
    if !output_of(Command::new("sh").args(["-n", "-c", "cat <(true)"]))
        .unwrap()
        .status
        .success()
    {
        for line in ["cat <(seq 3) | wc -l", "seq 3 | tee >(wc -l)"] {
            let output = run_line("", line);
            assert_code(&output, 2);
            assert!(
                one_line(stderr(&output)).contains("add --shell bash"),
                "{}",
                said(&output)
            );
        }
    }
}

#[test]
fn words_are_shown_as_they_would_stand_in_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("how.json");
    let mut command = fullbore(&format!("run --verbose --json={}", path.display()));
    let words = ["seq", "2", "|", "tr", "\\n", " "];
    let output = finish(start(command.arg("--").args(words)));
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "1 2 ");
    assert!(
        stderr(&output).ends_with(": tr '\\n' ' '\n"),
        "{}",
        said(&output)
    );
    let found: Findings = json(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(found.numbers.stages[1].text, "tr '\\n' ' '", "{found:#?}");
}

#[test]
fn no_stage_with_one_thread_keeps_more_than_one_cpu_busy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("how.json");
    // The last stage is started long after the first, which has used its CPU time by then.
    let line = format!(
        "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'{}",
        " | true".repeat(150)
    );
    let mut command = fullbore(&format!("run -q --pipe-size 64K --json={}", path.display()));
    let output = finish(start(command.arg(line)));
    assert_code(&output, 0);
    let found: Findings = json(&std::fs::read_to_string(&path).unwrap());
    for stage in &found.numbers.stages {
        // The CPU time of children that were waited for is counted in clock ticks of up to 10 ms.
        assert!(stage.cpu_seconds <= stage.seconds + 0.02, "{stage:#?}");
    }
}

/// A new memory cgroup with a limit.
struct Cgroup(std::path::PathBuf);

impl Cgroup {
    /// Creates the cgroup; returns `None` if this user may not do that.
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("fullbore-test-run-{}", std::process::id());
        ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
            .into_iter()
            .find_map(|hierarchy| {
                let path = std::path::Path::new(hierarchy).join(&name);
                std::fs::create_dir(&path).ok()?;
                let cgroup = Self(path);
                let limits = ["memory.limit_in_bytes", "memory.max"];
                let is_limited = limits.iter().any(|file| {
                    let file = cgroup.0.join(file);
                    file.exists() && std::fs::write(file, bytes.to_string()).is_ok()
                });
                is_limited.then_some(cgroup)
            })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_small_cgroup_has_small_pipes_and_kills_nobody() {
    let Some(cgroup) = Cgroup::new(8 << 20) else {
        return skipped("a small cgroup: this user may make none with a memory limit");
    };
    // All pipes fill up until the last stage reads.
    let line = format!(
        "head -c 30000000 /dev/zero{} | {{ sleep 2; wc -c; }}",
        " | cat".repeat(8)
    );
    let enter = format!(
        "echo $$ > {}/cgroup.procs && exec \"$@\"",
        cgroup.0.display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &enter, "sh", FULLBORE, "run"])
        .arg(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(start(&mut command));
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "30000000\n");
    assert!(stderr(&output).contains("cgroup"), "{}", said(&output));
}

#[test]
fn where_a_call_is_refused_it_runs_or_says_so_in_a_line() {
    use crate::common::refusing::{F_SETPIPE_SZ, call, refusing, under};
    use rustix::io::Errno;
    use seccompiler::SeccompCmpOp::Eq;

    let grow: &[_] = &[(1, Eq, F_SETPIPE_SZ)];
    for (name, number, conditions, errno) in [
        ("pidfd_open", call::PIDFD_OPEN, &[][..], Errno::NOSYS),
        ("pidfd_open", call::PIDFD_OPEN, &[], Errno::PERM),
        ("clone3", call::CLONE3, &[], Errno::NOSYS),
        ("F_SETPIPE_SZ", call::FCNTL, grow, Errno::PERM),
        ("prctl", call::PRCTL, &[], Errno::PERM),
        ("signalfd", call::SIGNALFD4, &[], Errno::NOSYS),
        ("socketpair", call::SOCKETPAIR, &[], Errno::PERM),
        ("wait4", call::WAIT4, &[], Errno::PERM),
        ("waitid", call::WAITID, &[], Errno::NOSYS),
    ] {
        let filter = refusing(&[(number, conditions)], errno);
        let mut command = fullbore("run");
        command.arg("seq 3 | (setsid -f sleep 1000 > /dev/null 2>&1; cat)");
        let output = finish(start(under(filter, &mut command)));
        match output.status.code() {
            Some(0) => assert_eq!(stdout(&output), "1\n2\n3\n", "{name}"),
            Some(125) => {
                assert!(output.stdout.is_empty(), "{name}: {}", said(&output));
                let line = one_line(stderr(&output));
                assert!(
                    line.to_lowercase().contains(name) || name == "prctl",
                    "{name}: {line}"
                );
            }
            _ => panic!("{name}: {}", said(&output)),
        }
    }
}

#[test]
fn nothing_is_started_where_other_processes_cannot_be_waited_for() {
    use crate::common::refusing::{call, refusing, under};

    let verbs = [
        ("run", 125),
        ("run --whole", 125),
        ("parallel", 3),
        ("explain", 3),
    ];
    for (name, number) in [
        ("wait4", call::WAIT4),
        ("ppoll", call::PPOLL),
        ("sendto", call::SENDTO),
        ("rt_sigprocmask", call::RT_SIGPROCMASK),
    ] {
        // Elsewhere, Rust's runtime needs it before main().
        if number == call::PPOLL && !cfg!(target_arch = "x86_64") {
            continue;
        }
        let filter = refusing(&[(number, &[])], rustix::io::Errno::PERM);
        for (verb, code) in verbs {
            let code = match (name, verb) {
                ("sendto" | "rt_sigprocmask", "explain") => continue,
                ("sendto" | "rt_sigprocmask", "parallel") => 1,
                _ => code,
            };
            let mut command = fullbore(&format!("{verb} -- echo started"));
            let output = finish(start(under(filter.clone(), &mut command)));
            assert_code(&output, code);
            assert_eq!(stdout(&output), "", "{name}, {verb}");
            let line = one_line(stderr(&output));
            let said = format!("{name}: Operation not permitted");
            assert!(line.ends_with(&said), "{line}");
        }
    }
}

#[test]
fn a_pipeline_whose_exit_code_is_lost_has_not_succeeded() {
    use crate::common::refusing::{call, refusing, under};
    use seccompiler::SeccompCmpOp::Eq;

    // Only the process that holds the pipes waits without options.
    let blocking: &[_] = &[(2, Eq, 0)];
    let filter = refusing(&[(call::WAIT4, blocking)], rustix::io::Errno::PERM);
    let mut command = fullbore("run --whole");
    let output = finish(start(under(filter, command.arg("false | cat"))));
    // The first process may still find out what the exit code was.
    let is_failure = matches!(output.status.code(), Some(1 | 125));
    assert!(is_failure, "{}", said(&output));
    let text = stderr(&output);
    assert!(
        text.contains("the exit code of the pipeline is lost"),
        "{text}"
    );
}

#[test]
fn without_dev_null_a_line_runs_and_a_closed_stdin_is_said() {
    if let Some(output) = run_without("/dev", "run (echo)|(cat)") {
        assert_quiet_success(&output);
        assert_eq!(stdout(&output), "\n");
        // Rust's runtime aborts there.
        let output = run_without("/dev && exec <&-", "copy").unwrap();
        assert_code(&output, 1);
        let said = one_line(stderr(&output));
        assert_eq!(said, "fullbore copy: stdin: standard input is closed");
        let output = run_without("/dev && exec 2>&-", "copy Cargo.toml").unwrap();
        assert_quiet_success(&output);
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn json_on_stderr_is_added_to_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    std::fs::write(&log, "before\n").unwrap();
    let line = "\"$0\" run --json=/dev/stderr 'true | true' 2>> \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", line, FULLBORE]).arg(&log);
    assert_code(&finish(start(&mut command)), 0);
    let text = std::fs::read_to_string(&log).unwrap();
    let (first, json) = text.split_once('\n').unwrap();
    assert_eq!(first, "before");
    serde_json::from_str::<serde_json::Value>(json).unwrap();
}
