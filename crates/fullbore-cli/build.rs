//! Two choices of the linker that take a quarter off the time that the command needs to start, which
//! for a short input is all the time there is:
//!
//! - No position-independent executable: nothing to relocate, so a dozen pages are neither copied nor
//!   protected. The heap, the stack and the libraries are still at random addresses, the executable is
//!   not.
//! - The unwinder of libgcc within the executable: one library less to map, and none of its
//!   constructor's CPUID instructions, each of which is a trip to the hypervisor in a virtual machine.
//!
//! Where either cannot be had, the executable is linked as usual.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !native
        || !gnu
        || env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|f| f.contains("crt-static"))
    {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    if let Some(directory) = static_unwinder() {
        println!("cargo::rustc-link-search=native={}", directory.display());
    }
}

/// A directory where the linker finds the static unwinder under the name of the shared one.
fn static_unwinder() -> Option<PathBuf> {
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    let archives = ["libgcc_eh.a", "libgcc.a"].map(archive);
    let [Some(unwinder), Some(rest)] = archives else {
        return None;
    };
    let script = format!(
        "GROUP ( \"{}\" \"{}\" )\n",
        unwinder.display(),
        rest.display()
    );
    fs::write(out.join("libgcc_s.so"), script).ok()?;
    Some(out)
}

/// Where the C compiler, which rustc links with, has this archive.
fn archive(name: &str) -> Option<PathBuf> {
    let output = Command::new("cc")
        .arg(format!("-print-file-name={name}"))
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    // It echoes the name where there is none.
    (path.is_absolute() && Path::new(&path).exists()).then_some(path)
}
