//! Tests of the programs that a link to fullbore is: `cat` and `tee` beside those of this machine.
//!
//! A line of bash is run twice in the same new directory: with the programs of this machine, and with links to
//! fullbore of their names before them in PATH. Both write the same bytes to stdout and to stderr, and end with the
//! same exit code.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::*;
use tempfile::TempDir;

#[test]
fn a_directory_of_links_is_made_and_nothing_else_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("new/names");
    let make = || finish(start(fullbore("generate links --dir").arg(&dir)));
    for _ in 0..2 {
        assert_quiet_success(&make());
        for name in ["pv", "mbuffer", "tee", "cat"] {
            let link = std::fs::read_link(dir.join(name)).unwrap();
            assert_eq!(link, Path::new(FULLBORE).canonicalize().unwrap(), "{name}");
        }
    }
    std::fs::remove_file(dir.join("tee")).unwrap();
    std::fs::write(dir.join("tee"), "mine").unwrap();
    let refused = make();
    assert_code(&refused, 1);
    assert!(one_line(stderr(&refused)).contains("cannot make the link"));
    assert_eq!(std::fs::read(dir.join("tee")).unwrap(), b"mine");
    assert_code(&run("generate links"), 2);
}

/// What packages do when they are installed and removed.
#[test]
fn packages_make_the_links_and_remove_them() {
    let root = tempfile::tempdir().unwrap();
    let (bin, links) = (root.path().join("bin"), root.path().join("names"));
    std::fs::create_dir(&bin).unwrap();
    symlink(FULLBORE, bin.join("fullbore")).unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian");
    let (state, local) = (root.path().join("state"), root.path().join("local"));
    for directory in [&state.join("alt"), &state.join("admin"), &local] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let alternatives = format!(
        "update-alternatives --altdir {0}/alt --admindir {0}/admin --log {0}/log",
        state.display()
    );
    let sh = |text: &str, script: &str, argument: &str| {
        let text = text.replace("/usr/bin/fullbore", bin.join("fullbore").to_str().unwrap());
        let text = text.replace("/usr/lib/fullbore/names", links.to_str().unwrap());
        let text = text.replace("/usr/local/bin", local.to_str().unwrap());
        let text = text.replace("update-alternatives", &alternatives);
        assert!(!text.contains("/usr/"), "{text}");
        let mut sh = Command::new("sh");
        sh.args(["-c", &text, script, argument])
            .stdin(Stdio::null());
        finish(start(sh.stdout(Stdio::piped()).stderr(Stdio::piped())))
    };
    let run = |script: &str, argument: &str| {
        let text = std::fs::read_to_string(scripts.join(script)).unwrap();
        assert_quiet_success(&sh(&text, script, argument));
    };
    run("postinst", "configure");
    assert!(links.join("pv").is_symlink() && links.join("cat").is_symlink());
    run("prerm", "upgrade");
    assert!(links.join("pv").is_symlink(), "an upgrade keeps them");
    // What docs/install.md says about Debian's alternatives, and that nothing of them is left.
    let has_alternatives = output_of(Command::new("update-alternatives").arg("--version")).is_ok();
    if has_alternatives {
        let page = scripts.join("../../docs/install.md");
        let page = std::fs::read_to_string(page).unwrap();
        let mut lines = page
            .lines()
            .filter_map(|line| line.strip_prefix("sudo ")?.split(" #").next())
            .filter(|line| line.starts_with("update-alternatives"));
        let (install, remove) = (lines.next().unwrap(), lines.next().unwrap());
        let is_there = || std::fs::canonicalize(local.join("pv")).is_ok();
        for line in [install, remove, install] {
            assert_code(&sh(line, "sh", ""), 0);
            assert_eq!(is_there(), line == install, "{line}");
        }
    } else {
        skipped("update-alternatives is not installed");
    }
    run("prerm", "remove");
    assert!(!links.exists() && !local.join("pv").is_symlink());
}

/// cargo-deb and cargo-generate-rpm take the scripts from there.
#[test]
fn both_packages_make_the_links_that_the_command_makes_where_the_page_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let dir = "/usr/lib/fullbore/names";
    let made = tempfile::tempdir().unwrap();
    assert_quiet_success(&finish(start(
        fullbore("generate links --dir").arg(made.path()),
    )));
    let mut names: Vec<String> = std::fs::read_dir(made.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let metadata = read("crates/fullbore-cli/Cargo.toml");
    let scripts = "maintainer-scripts = \"../../packaging/debian\"";
    assert!(metadata.lines().any(|line| line == scripts));
    for text in [&metadata, &read("packaging/debian/postinst")] {
        let (_, list) = text.split_once("for name in ").unwrap();
        let (list, rest) = list.split_once("; do").unwrap();
        let mut listed: Vec<&str> = list.split(' ').collect();
        listed.sort_unstable();
        assert_eq!(listed, names);
        assert!(
            rest.contains("ln -sf /usr/bin/fullbore ") && text.contains(&format!("mkdir -p {dir}"))
        );
    }
    for text in [&metadata, &read("packaging/debian/prerm")] {
        assert!(text.contains(&format!("rm -rf {dir}")));
    }
    assert!(read("docs/install.md").contains(&format!("`{dir}`")));
}

/// Returns a directory with links of these names.
pub fn links(names: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in names {
        symlink(FULLBORE, directory.path().join(name)).unwrap();
    }
    directory
}

/// Runs a line of bash in a directory, with these links before the programs of this machine.
pub fn bash(directory: &Path, links: Option<&TempDir>, line: &str) -> Output {
    let path = std::env::var("PATH").unwrap();
    let path = match links {
        Some(links) => format!("{}:{path}", links.path().display()),
        None => path,
    };
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(directory);
    command
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("POSIXLY_CORRECT");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    users::with_usual_signals(&mut command);
    finish(start(&mut command))
}

pub fn files() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..=255).collect();
    for (name, content) in [
        ("a", &b"hel\tlo\n"[..]),
        ("b", b"two\nlines"),
        ("c", b"c\n"),
        ("-dash", b"d\n"),
        ("empty", b""),
        ("lines", b"\n\na\n\n\n\nb\n\n"),
        ("crlf", b"a\r\nb\rc\r"),
        ("bytes", &bytes),
    ] {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

/// Returns whether this is a program of GNU coreutils.
fn is_gnu(name: &str) -> bool {
    let version = output_of(Command::new(name).arg("--version"));
    let is_gnu = version
        .is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("GNU coreutils"));
    if !is_gnu {
        skipped("cat or tee of GNU coreutils is not installed");
    }
    is_gnu
}

fn agree(name: &str, lines: &str) {
    if !is_gnu(name) {
        return;
    }
    let links = links(&[name]);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [theirs, ours] = [None, Some(&links)].map(|links| bash(files().path(), links, line));
        let all = |output: &Output| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (
                text(&output.stdout),
                text(&output.stderr),
                output.status.code(),
            )
        };
        assert_eq!(all(&ours), all(&theirs), "{line}");
    }
}

#[test]
fn cat_is_that_of_gnu() {
    agree(
        "cat",
        r#"
        cat
        cat a
        cat a - b < c
        cat - - < a
        cat nofile a
        cat . a
        cat a >> a
        cat empty >> empty
        cat a > /dev/full
        cat -n a > /dev/full
        cat <&-
        cat /dev/stdin a <&-; cat /dev/fd/0 <&-; cat /proc/self/fd/0 <&-; cat -n /dev/stdin <&-; cat /dev/fd/2 2>&-
        cat a >&-
        cat -n --version --foo > h; wc -l < h | sed 's/.*/x/'; cat --help -z > h; cat --foo --version
        cat < .
        cat -n a b; cat -b lines; cat -s lines; cat -ns lines b; cat -bs lines
        cat -E lines; cat -E crlf | od -c; cat -A crlf | od -c; cat -T a
        cat -v bytes | od -c; cat -A bytes | od -c; cat -e bytes | od -c; cat -t bytes | od -c; cat -u a
        cat -ET bytes | od -c; cat -vT bytes | od -c; cat -bA lines; cat -nE crlf | od -c
        cat --show-all a; cat --number a; cat --number-n lines; cat --sq lines; cat --show-t a; cat --show-e a
        cat --number-nonblank lines; cat --show-ends lines; cat --squeeze-blank lines; cat --show-tabs a; cat --show-nonprinting bytes | od -c
        cat -z
        cat --foo
        cat --number=3 a
        cat --s a
        cat -- -dash a
        cat 'a b' "a'b" '$x' 'a;' '~a' 'a#' '' $'a\tb'
        yes | cat | head -n 1; echo ${PIPESTATUS[*]}
        yes | cat -n | head -n 1; echo ${PIPESTATUS[*]}
        trap '' PIPE; cat /dev/zero 2> err | head -c 1 | od -c; echo ${PIPESTATUS[0]}; cat err
    "#,
    );
}

#[test]
fn tee_is_that_of_gnu() {
    agree(
        "tee",
        r#"
        tee x y < a; od -c x y
        tee -a a x < c; od -c a
        tee --append x < c; tee -ia x < c; od -c x
        tee x < a; tee -a x -a b --append < c; od -c x b
        tee -i x < a; tee --ignore-interrupts y < a; od -c x y
        tee - < a; od -c ./-
        tee nodir/x y < a; od -c y
        tee nodir/x y < a > /dev/full; od -c y
        tee --output-error=exit nodir/x y < a; ls
        tee --output-error=exit-nopipe nodir/x y < a; ls
        tee --output-error=warn nodir/x y < a; od -c y
        tee --output-error nodir/x y < a; od -c y
        tee -p nodir/x y < a; od -c y
        tee /dev/full x < a; od -c x
        tee -p /dev/full x < a; od -c x
        tee --output-error=warn /dev/full x < a; od -c x
        tee < a > /dev/full
        tee -p x < a > /dev/full; od -c x
        tee --output-error=exit < a > /dev/full
        tee --output-error=exit-nopipe < a > /dev/full
        tee --output-error=bad < a
        tee --output-error=w < a
        tee --output-error= < a
        tee --output-error=exit- x < a
        tee --app x < a
        tee -z < a
        tee --foo < a
        tee --append=3 < a
        tee x < .
        tee x <&-; od -c x
        tee x < a >&-; od -c x
        tee < empty >&-; tee x < empty >&-; tee -p < empty >&-; tee --output-error=exit x < empty >&-; od -c x
        tee --output-error=warn x y < a >&-; od -c x y
        tee -a --version -z > h; tee -z --version
        tee --output-error=exit x < a >&-
        tee 'a b/c' < a
        tee a < a; od -c a
        yes | tee | head -n 1; echo ${PIPESTATUS[*]}
        yes | tee x | head -n 1; echo ${PIPESTATUS[*]}
        yes | tee nodir/x 2> err | head -n 1; echo ${PIPESTATUS[*]}; cat err
        yes | head -c 9M | tee -p x | head -n 1; echo ${PIPESTATUS[2]}; wc -c < x
        yes | head -c 9M | tee --output-error=warn x 2> err | head -n 1; echo ${PIPESTATUS[2]}; wc -c < x; cat err
        yes | tee --output-error=exit x 2> err | head -n 1; echo ${PIPESTATUS[1]}; cat err
        yes | head -c 9M | tee --output-error=exit-nopipe x 2> err | head -n 1; echo ${PIPESTATUS[2]}; wc -c < x
        yes | tee -p nodir/x 2> err | head -n 1; echo ${PIPESTATUS[1]}; cat err
        yes | tee --output-error=exit nodir/x 2> err | head -n 1; echo ${PIPESTATUS[1]}; cat err
        yes | tee --output-error=warn /dev/full 2> err | head -n 1; echo ${PIPESTATUS[1]}; sort err
        trap '' PIPE; head -c 9M /dev/zero | tee x 2> err | head -c 1 | od -c; echo ${PIPESTATUS[1]}; wc -c < x; cat err
        mkfifo f; head -c 1 f > /dev/null & yes | tee f | tail -n 0; echo ${PIPESTATUS[1]}
        mkfifo f; head -c 1 f > /dev/null & yes | head -c 9M | tee -p f | wc -c; echo ${PIPESTATUS[2]}
    "#,
    );
}

/// What GNU's programs do since versions that few machines have, or what this program does on purpose.
#[test]
fn cat_and_tee_differ_where_that_is_meant() {
    let links = links(&["cat", "tee"]);
    for (line, expected) in [
        // Since coreutils 9.2: nothing is read that was written.
        (
            "cat a 1<>a; echo $?; od -An -c a",
            "0\n   h   e   l  \\t   l   o  \\n\n",
        ),
        (
            "printf b >> empty; cat < empty 1<>empty; echo $?; od -An -c empty",
            "0\n   b\n",
        ),
        // Since 9.2: the outputs are watched while the input is silent.
        (
            "mkfifo f; exec 3<>f; tee -p <&3 | true; echo ${PIPESTATUS[0]}",
            "0\n",
        ),
        // GNU's tee reads what it writes, for ever.
        (
            "tee -a a < a; echo $?; od -An -c a",
            "1\n   h   e   l  \\t   l   o  \\n\n",
        ),
        // GNU's tee empties the log.
        (
            "echo log > log; echo more | tee /dev/stderr 2>> log; cat log",
            "more\nlog\nmore\n",
        ),
        (
            "cat --version | head -n 1 | cut -d ' ' -f 1,2; tee --version | head -n 1 | cut -d ' ' -f 1,2",
            "cat (fullbore)\ntee (fullbore)\n",
        ),
        (
            "cat --help | grep -c show-all; tee --help | grep -c output-error=",
            "1\n1\n",
        ),
        (
            "(exec -a /some/where/tee fullbore-here nodir/x < a) 2>&1",
            "/some/where/tee: nodir/x: No such file or directory\nhel\tlo\n",
        ),
        ("cat --version > /dev/full; echo $?", "1\n"),
    ] {
        let line = line.replace("fullbore-here", FULLBORE);
        let output = bash(files().path(), Some(&links), &line);
        assert_eq!(stdout(&output), expected, "{line}: {}", said(&output));
    }
}
