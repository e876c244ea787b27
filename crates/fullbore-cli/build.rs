//! Tells the command what it was built from, for `fullbore --version`: the commit, where that is known, and
//! the target.
//!
//! The commit is that of the checkout or, in a package that `cargo package` made, the one that cargo wrote
//! into it. Sources without either, such as a tarball, are built without it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo writes it into the root of a package.
const PACKAGED: &str = ".cargo_vcs_info.json";

fn main() {
    // Without any such line, cargo would build again after every change in this crate.
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").expect("cargo sets it");
    start_quickly();
    let version = env!("CARGO_PKG_VERSION");
    let built = match checked_out().or_else(packaged) {
        Some(commit) => format!("{version} ({commit}, {target})"),
        None => format!("{version} ({target})"),
    };
    println!("cargo:rustc-env=FULLBORE_VERSION={built}");
}

/// Links so that the command starts quickly: a copy of a small file is hardly anything else.
fn start_quickly() {
    let cfg = |name: &str| std::env::var(format!("CARGO_CFG_{name}")).unwrap_or_default();
    let is_static = cfg("TARGET_FEATURE")
        .split(',')
        .any(|feature| feature == "crt-static");
    if cfg("TARGET_ENV") != "gnu" || is_static {
        return;
    }
    // One library less to load. Its initialization asks the CPU for its features, which is slow in a virtual machine.
    println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    // At a fixed address: the tables of 34,000 addresses need no relocation, which would copy each of their pages.
    // Libraries, stack and heap have random addresses as before.
    println!("cargo:rerun-if-env-changed=FULLBORE_PIE");
    if std::env::var_os("FULLBORE_PIE").is_none() {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}

/// The commit of the checkout that this crate is a part of, if it is.
fn checked_out() -> Option<String> {
    // Sources may have been unpacked within the repository of something else.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // These change when another commit is checked out. Cargo takes a file that does not exist for changed.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter();
    for name in names.chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", name]).map(PathBuf::from);
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    Some(commit)
}

/// The commit that the package was made from, if this is one.
fn packaged() -> Option<String> {
    let info = std::fs::read_to_string(Path::new(PACKAGED)).ok()?;
    println!("cargo:rerun-if-changed={PACKAGED}");
    let (_, rest) = info.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    let is_commit = commit.len() >= 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| commit[..12].to_owned())
}

/// What git prints, in this crate's directory; `None` if there is no git, or it fails.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
