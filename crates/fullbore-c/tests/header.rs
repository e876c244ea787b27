//! Checks that the headers are generated from the sources, that the comment of every function has the required parts,
//! and that C and C++ accept each header by itself.
//!
//! `FULLBORE_UPDATE_HEADER=1 cargo test -p fullbore-c --test header` writes the headers.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::*;

/// The headers, with their configurations.
const HEADERS: [(&str, &str); 3] = [
    ("fullbore.h", "cbindgen.toml"),
    ("fullbore-observe.h", "cbindgen-observe.toml"),
    ("fullbore-ring.h", "cbindgen-ring.toml"),
];

/// Returns the header that has the interface of a module.
fn header_of(module: &str) -> &'static str {
    match module {
        "monitor" => "fullbore-observe.h",
        "ring" => "fullbore-ring.h",
        _ => "fullbore.h",
    }
}

/// Returns the names of the modules, in the order in which lib.rs has them.
fn modules() -> Vec<String> {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let names = lib.lines().filter_map(|line| {
        let name = line.strip_prefix("mod ")?.strip_suffix(';')?;
        Some(name.to_owned())
    });
    names.collect()
}

#[test]
fn the_headers_are_what_the_sources_say() {
    for (header, config) in HEADERS {
        let config = cbindgen::Config::from_file(root().join(config)).unwrap();
        let mut builder = cbindgen::Builder::new().with_config(config);
        for module in modules() {
            if header_of(&module) == header {
                builder = builder.with_src(root().join(format!("src/{module}.rs")));
            }
        }
        let mut fresh = Vec::new();
        builder.generate().unwrap().write(&mut fresh);
        let fresh = String::from_utf8(fresh).unwrap();
        let path = root().join("include").join(header);
        if std::env::var_os("FULLBORE_UPDATE_HEADER").is_some() {
            fs::write(&path, &fresh).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap() == fresh,
            "include/{header} is not what cbindgen makes; \
             FULLBORE_UPDATE_HEADER=1 cargo test -p fullbore-c --test header writes it"
        );
    }
}

#[test]
fn every_function_says_what_it_returns_and_which_threads_may_call_it() {
    let functions = functions();
    assert!(functions.len() > 50, "{}", functions.len());
    for function in functions {
        // A function that frees has nothing to return.
        let frees = function.name.ends_with("_free");
        let words: &[&str] = if frees {
            &["Threads:"]
        } else {
            &["Return", "Threads:"]
        };
        for word in words {
            assert!(
                function.says.contains(word),
                "{} does not say '{word}'",
                function.name
            );
        }
        if function.takes.contains("_free(") || function.name.ends_with("_free") {
            assert!(
                function.says.contains("NULL is allowed"),
                "{}",
                function.name
            );
        }
    }
}

#[test]
fn the_version_of_the_header_is_that_of_the_library() {
    let header =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/fullbore.h"));
    let header = header.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let mut lines = vec![format!("#define FULLBORE_VERSION \"{version}\"")];
    for (name, number) in ["MAJOR", "MINOR", "PATCH"].iter().zip(version.split('.')) {
        lines.push(format!("#define FULLBORE_VERSION_{name} {number}"));
    }
    for line in lines {
        assert!(header.lines().any(|other| other == line), "{line}");
    }
    let of_pkg_config = format!("Version: {version}\n");
    assert!(include_str!("../fullbore.pc").contains(&of_pkg_config));
}

#[test]
fn c_and_cpp_accept_each_header_by_itself() {
    for header in HEADERS {
        accept(header.0);
    }
}

fn accept(header: &str) {
    let dir = tempfile::tempdir().unwrap();
    let text =
        format!("#include <{header}>\nint main(void) {{ return fullbore_version() == 0; }}\n");
    for (compiler, name, standards) in [
        ("cc", "alone.c", &["c99", "c11", "c17"][..]),
        ("c++", "alone.cc", &["c++11", "c++17"][..]),
    ] {
        let Some(compiler) = program(compiler) else {
            skipped(&format!("no {compiler} here"));
            continue;
        };
        let source = dir.path().join(name);
        fs::write(&source, &text).unwrap();
        for standard in standards {
            run(compiler
                .command()
                .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"])
                .arg(format!("-std={standard}"))
                .arg(include())
                .arg(&source));
        }
    }
}

/// The constants that mean different things in one place have different numbers, and flags are distinct bits: every
/// function takes the flags of one field, and a flag that is valid in two fields means the same in both.
#[test]
fn no_two_constants_of_a_kind_have_the_same_number() {
    let mut found: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
    for (header, _) in HEADERS {
        for line in fs::read_to_string(root().join("include").join(header))
            .unwrap()
            .lines()
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["#define", name, number] = words[..] else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            let kind = match name.strip_prefix("FULLBORE_ON_ERROR_") {
                Some(_) => "ON_ERROR",
                None => name.split('_').nth(1).unwrap(),
            };
            if kind == "VERSION" {
                continue;
            }
            assert!(kind != "FLAG" || u64::is_power_of_two(number), "{name}");
            let same = found
                .entry(kind.to_owned())
                .or_default()
                .insert(number, name.to_owned());
            assert_eq!(same, None, "{name} has the same number, {number}");
        }
    }
    assert!(found["FLAG"].len() >= 7 && found.len() >= 8, "{found:?}");
}
