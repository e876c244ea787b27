//! Sets the soname of the shared library, which is the same as with cargo-c: `libfullbore.so.` and the parts of the
//! version that change with the ABI. The symbols have the soname as their version, so that a process with two versions
//! of the library uses the right version of each function.

use std::process::{Command, Stdio};

fn main() {
    let part = |name: &str| std::env::var(name).expect("cargo sets it");
    let (major, minor) = (
        part("CARGO_PKG_VERSION_MAJOR"),
        part("CARGO_PKG_VERSION_MINOR"),
    );
    // Before 1.0, every minor version may change the interface.
    let abi = match major.as_str() {
        "0" => format!("0.{minor}"),
        _ => major,
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfullbore.so.{abi}");
    // rustc passes its own version script, which excludes another one, and lld has no --default-symver.
    let mut bfd = Command::new("ld.bfd");
    let bfd = bfd.arg("--version").stdout(Stdio::null()).status();
    if bfd.is_ok_and(|status| status.success()) {
        println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--default-symver");
    } else {
        println!(
            "cargo::warning=no ld.bfd (binutils): the symbols of libfullbore.so have no versions"
        );
    }
    println!("cargo::rerun-if-changed=build.rs");
}
