//! Code that the tests share: the header, the libraries that cargo has built, and programs to run.

#![allow(dead_code, missing_docs)]

pub use fullbore_tests::skipped;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A function of the header.
pub struct Function {
    pub name: String,
    /// Its declaration.
    pub takes: String,
    /// Its comment.
    pub says: String,
}

/// Returns the functions that the headers declare.
pub fn functions() -> Vec<Function> {
    let header = ["fullbore.h", "fullbore-observe.h"]
        .map(|name| fs::read_to_string(root().join("include").join(name)).unwrap())
        .concat();
    let mut found = Vec::new();
    let (mut says, mut takes) = (String::new(), String::new());
    for line in header.lines() {
        if let Some(comment) = line.trim_start().strip_prefix("//") {
            says.push_str(comment.trim());
            says.push(' ');
            continue;
        }
        takes.push_str(line.trim());
        takes.push(' ');
        if line.ends_with(';') || line.is_empty() || line.ends_with('{') {
            if takes.trim_end().ends_with(");") && !takes.contains("typedef") {
                let before = takes.split_once('(').unwrap().0;
                let name = before.rsplit([' ', '*']).next().unwrap().to_owned();
                found.push(Function {
                    name,
                    takes: takes.clone(),
                    says: says.clone(),
                });
            }
            says.clear();
            takes.clear();
        }
    }
    found
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the option that lets a compiler find the header.
pub fn include() -> String {
    format!("-I{}", root().join("include").display())
}

/// Returns the folder with the libraries, which cargo builds before it runs a test, beside the tests.
pub fn libraries() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    for name in ["libfullbore_c.so", "libfullbore_c.a"] {
        assert!(folder.join(name).is_file(), "{name} is not in {folder:?}");
    }
    folder
}

/// A program that is installed.
pub struct Program(PathBuf);

impl Program {
    pub fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

/// Returns a program, if it is installed.
pub fn program(name: &str) -> Option<Program> {
    let path = env::var_os("PATH")?;
    let found = env::split_paths(&path).map(|folder| folder.join(name));
    found.into_iter().find(|path| path.is_file()).map(Program)
}

/// Runs a command, which must succeed.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}
