//! The scripts of packaging/ name each tool that is missing, before they begin.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::*;

/// Runs a script where only these programs are: those that it needs to begin.
fn without_tools(script: &str, arguments: &[&str]) -> std::process::Output {
    let bin = tempfile::tempdir().unwrap();
    for program in ["bash", "dirname", "env"] {
        let folders = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&folders)
            .map(|folder| folder.join(program))
            .find(|path| path.is_file())
            .unwrap_or_else(|| panic!("there is no {program}"));
        symlink(found, bin.path().join(program)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging")
        .join(script);
    output_of(
        Command::new("/usr/bin/env")
            .arg(script)
            .args(arguments)
            .env("PATH", bin.path()),
    )
    .unwrap()
}

#[test]
fn each_tool_that_packaging_lacks_is_named() {
    for (script, arguments, tools) in [
        (
            "build",
            &[][..],
            &[
                "cargo",
                "gzip",
                "strip",
                "objcopy",
                "tar",
                "cargo-deb",
                "dpkg-shlibdeps",
                "cargo-generate-rpm",
            ][..],
        ),
        (
            "build",
            &["tar"],
            &["cargo", "gzip", "strip", "objcopy", "tar"],
        ),
        ("crates", &[], &["cargo", "python3", "cmp"]),
        ("release", &[], &["cargo"]),
        ("try", &["fullbore.deb"], &["mmdebstrap"]),
    ] {
        let output = without_tools(script, arguments);
        assert_code(&output, 3);
        for tool in tools {
            let line = format!("packaging/{script}: {tool} is missing");
            assert!(
                stderr(&output).contains(&line),
                "{line}: {}",
                stderr(&output)
            );
        }
        let named = stderr(&output).lines().count();
        assert!(
            script == "crates" || named == tools.len(),
            "{}",
            stderr(&output)
        );
    }
}
