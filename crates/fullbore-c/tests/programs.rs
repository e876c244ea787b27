//! Programs in C, C++ and Go with the library: the examples, the promises of the header, and every function with wrong
//! arguments and from two threads. They are linked with the shared and the static library, and also run with
//! AddressSanitizer and UndefinedBehaviorSanitizer, and under valgrind, if these are installed.

mod common;

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::*;
use tempfile::TempDir;

/// Returns the other libraries that the static library needs (`rustc --print native-static-libs`), as pkg-config does.
fn needed() -> impl Iterator<Item = &'static str> {
    let mut lines = include_str!("../fullbore.pc").lines();
    let needed = lines.find_map(|line| line.strip_prefix("Libs.private: "));
    needed.expect("what a static library needs").split(' ')
}

/// How a program is built and run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Shared,
    Static,
    /// AddressSanitizer and UndefinedBehaviorSanitizer, for the C code.
    Sanitized,
    Valgrind,
}

/// The libraries under the names that they are installed with, and a directory for programs.
struct Workshop {
    dir: TempDir,
}

impl Workshop {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let built = libraries();
        for (name, of) in [
            ("libfullbore.so", "libfullbore_c.so"),
            ("libfullbore.so.0.1", "libfullbore_c.so"),
            ("static.a", "libfullbore_c.a"),
        ] {
            symlink(built.join(of), dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Compiles a program; returns `None`, and prints the reason, if that is impossible here.
    fn compile(&self, source: &str, how: How) -> Option<PathBuf> {
        let (compiler, standard) = match source.ends_with(".cc") {
            true => ("c++", "-std=c++11"),
            // The examples define the feature macros that they need beyond C11.
            false if source.starts_with("examples") => ("cc", "-std=c11"),
            false => ("cc", "-std=gnu11"),
        };
        let Some(found) = program(compiler) else {
            skipped(&format!("{source}: no {compiler} here"));
            return None;
        };
        let stem = Path::new(source).file_stem().unwrap().to_str().unwrap();
        let linked = match how {
            How::Valgrind => How::Shared,
            how => how,
        };
        let made = self.path(&format!("{stem}-{linked:?}"));
        if made.exists() {
            return Some(made);
        }
        let mut command = found.command();
        command
            .args([
                "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", standard,
            ])
            .arg(include())
            .args(cfg!(feature = "ring").then_some("-DWITH_RING"))
            .arg(root().join(source))
            .arg("-o")
            .arg(&made);
        match linked {
            How::Static => {
                command.arg(self.path("static.a")).args(needed());
            }
            _ => {
                command
                    .arg(format!("-L{}", self.dir.path().display()))
                    .arg(format!("-Wl,-rpath,{}", self.dir.path().display()))
                    .arg("-lfullbore")
                    .arg("-lm");
            }
        }
        if how == How::Sanitized {
            command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        }
        run(&mut command);
        Some(made)
    }

    /// Returns the command that runs a program; `None`, with a printed reason, if that is impossible here.
    fn command(&self, source: &str, how: How) -> Option<Command> {
        match how {
            How::Sanitized if !has_sanitizers() => {
                skipped(&format!("{source}: no sanitizers here"));
                None
            }
            How::Valgrind => {
                let Some(valgrind) = program("valgrind") else {
                    skipped(&format!("{source}: no valgrind here"));
                    return None;
                };
                let made = self.compile(source, how)?;
                let supp = root().join("tests/c/valgrind.supp");
                let mut command = valgrind.command();
                command
                    .args(["-q", "--error-exitcode=99", "--leak-check=full"])
                    .args([
                        "--errors-for-leak-kinds=definite",
                        "--fair-sched=try",
                        "--vgdb=no",
                    ])
                    .arg(format!("--suppressions={}", supp.display()))
                    .arg(made);
                Some(command)
            }
            _ => Some(Command::new(self.compile(source, how)?)),
        }
    }
}

/// Returns whether a program with sanitizers can be built and run.
fn has_sanitizers() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let (source, made) = (dir.path().join("empty.c"), dir.path().join("empty"));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let succeeds = |command: &mut Command| {
            let output = command.output();
            output.is_ok_and(|output| output.status.success())
        };
        let cc = program("cc").map(|cc| cc.command());
        cc.is_some_and(|mut cc| {
            cc.args(["-fsanitize=address,undefined", "-o"]);
            succeeds(cc.args([&made, &source])) && succeeds(&mut Command::new(&made))
        })
    })
}

/// Runs a program with this input and these arguments, and returns what it wrote.
#[track_caller]
fn output_of(mut command: Command, arguments: &[&str], input: &[u8]) -> String {
    command.args(arguments);
    let mut child = (command.stdin(Stdio::piped()).stdout(Stdio::piped()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

const EVERY_WAY: [How; 4] = [How::Shared, How::Static, How::Sanitized, How::Valgrind];

#[test]
fn every_function_refuses_wrong_arguments() {
    let workshop = Workshop::new();
    for how in EVERY_WAY {
        if let Some(mut command) = workshop.command("tests/c/wrong_arguments.c", how) {
            run(&mut command);
        }
    }
    calls_every_function("tests/c/wrong_arguments.c");
}

#[test]
fn every_function_is_called_from_two_threads() {
    let workshop = Workshop::new();
    for how in EVERY_WAY {
        if let Some(mut command) = workshop.command("tests/c/two_threads.c", how) {
            if how == How::Valgrind {
                command.arg("slow");
            }
            run(&mut command);
        }
    }
    calls_every_function("tests/c/two_threads.c");
}

/// Compares the calls of a program with the functions of the header.
#[track_caller]
fn calls_every_function(program: &str) {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let mut text = read(program);
    if text.contains("#include \"pipeline.h\"") {
        text += &read("tests/c/pipeline.h");
    }
    for function in functions() {
        let call = format!("{}(", function.name);
        assert!(text.contains(&call), "{} is not called", function.name);
    }
}

#[test]
fn programs_in_c_get_what_the_header_promises() {
    let workshop = Workshop::new();
    for how in EVERY_WAY {
        if let Some(mut command) = workshop.command("tests/c/behaviour.c", how) {
            if how == How::Valgrind {
                command.arg("slow");
            }
            run(&mut command);
        }
    }
}

#[test]
fn a_program_without_standard_descriptors_gets_none_of_them() {
    let workshop = Workshop::new();
    if let Some(command) = workshop.command("tests/c/no_standard.c", How::Shared) {
        assert_eq!(output_of(command, &[], b""), "");
    }
}

#[test]
fn yes_repeats_its_line_until_its_reader_has_gone() {
    let workshop = Workshop::new();
    for how in EVERY_WAY {
        let Some(mut command) = workshop.command("examples/c/yes.c", how) else {
            continue;
        };
        let mut child = command
            .args(["all", "play"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = String::new();
        let mut stdout = child.stdout.take().unwrap();
        let mut some = [0; 27];
        std::io::Read::read_exact(&mut stdout, &mut some).unwrap();
        lines.push_str(std::str::from_utf8(&some).unwrap());
        assert_eq!(lines, "all play\n".repeat(3));
        drop(stdout);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn cat_copies_its_input_and_files_and_names_what_fails() {
    let workshop = Workshop::new();
    let file = workshop.path("file");
    fs::write(&file, "one\n").unwrap();
    let file = file.to_str().unwrap();
    for how in EVERY_WAY {
        let Some(command) = workshop.command("examples/c/cat.c", how) else {
            continue;
        };
        let program = command.get_program().to_owned();
        assert_eq!(output_of(command, &[], b"from stdin"), "from stdin");
        let command = workshop.command("examples/c/cat.c", how).unwrap();
        assert_eq!(output_of(command, &[file, file], b""), "one\none\n");
        if how == How::Valgrind {
            continue;
        }
        let output = Command::new(&program)
            .arg("/no/such/file")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "cat: /no/such/file: No such file or directory\n");
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(&program)
            .arg(file)
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            said,
            "cat: stdout: write on the sink: No space left on device (after 0 bytes)\n"
        );
    }
}

#[test]
fn numbers_are_made_in_lent_memory() {
    let workshop = Workshop::new();
    for how in EVERY_WAY {
        let Some(command) = workshop.command("examples/c/numbers.c", how) else {
            continue;
        };
        let last = 50_000;
        let expected: String = (1..=last).map(|number| format!("{number}\n")).collect();
        assert!(output_of(command, &[&last.to_string()], b"") == expected);
    }
}

#[test]
fn slow_stage_shows_the_pipelines_of_a_process() {
    let workshop = Workshop::new();
    let Some(command) = workshop.command("examples/c/slow_stage.c", How::Shared) else {
        return;
    };
    // The pipeline of the program itself: this process reads its output.
    let said = output_of(command, &[&std::process::id().to_string()], b"");
    assert!(!said.contains(['"', '{']), "{said}");
    assert!(said.lines().all(|line| line.len() > 10), "{said}");
}

#[test]
fn objects_of_cpp_free_themselves() {
    let workshop = Workshop::new();
    for how in EVERY_WAY {
        let Some(command) = workshop.command("examples/cpp/lines.cc", how) else {
            continue;
        };
        let said = output_of(command, &["20000"], b"");
        assert_eq!(said, "20000 lines, 108894 bytes\n");
    }
}

#[test]
fn a_program_in_go_moves_bytes() {
    let Some(go) = program("go") else {
        return skipped("no go here");
    };
    let workshop = Workshop::new();
    let made = workshop.path("copy");
    let mut build = go.command();
    build
        .current_dir(root().join("examples/go"))
        .args(["build", "-o"])
        .arg(&made)
        .arg(".")
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", format!("{} -Wall -Wextra -Werror", include()))
        .env(
            "CGO_LDFLAGS",
            format!("-L{0} -Wl,-rpath,{0}", workshop.dir.path().display()),
        )
        .env("GOFLAGS", "-mod=mod -buildvcs=false")
        .env("GOPROXY", "off");
    if env::var_os("HOME").is_none() {
        build.env("GOCACHE", workshop.path("cache"));
    }
    run(&mut build);
    let input: Vec<u8> = (0..1_000_000u32).map(|at| b'a' + (at % 26) as u8).collect();
    let said = output_of(Command::new(&made), &[], &input);
    assert!(said.as_bytes() == input);
}

/// A process with two versions of the library uses the right version of each function.
#[test]
fn every_function_has_the_soname_as_its_symbol_version() {
    let (Some(nm), Some(_)) = (program("nm"), program("ld.bfd")) else {
        return skipped("symbol versions: binutils is not installed");
    };
    let library = libraries().join("libfullbore_c.so");
    let listed = nm
        .command()
        .args(["-D", "--defined-only"])
        .arg(library)
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    for Function { name, .. } in functions() {
        let versioned = format!(" {name}@@libfullbore.so.0.1");
        let has_it = listed.lines().any(|line| line.ends_with(&versioned));
        assert!(has_it, "{name} in:\n{listed}");
    }
}
