//! Tests that the README, the pages of docs/ and the examples of the help are correct as far as a
//! program can check: their commands run, their links have targets, and the table of verbs is
//! complete.
//!
//! docs/README.md tells authors the convention. In short: the lines of a block tagged `sh`, and the
//! lines of a `console` block that begin with `$ `, are run; a comment says if a command ends with
//! another exit code than 0 (`exits with 1`) or is not run (`takes minutes`, `needs …`, `until Ctrl-C`).

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::*;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The tags that a block of code may have.
const TAGS: [&str; 7] = [
    "sh",
    "console",
    "text",
    "rust",
    "rust,no_run",
    "toml",
    "yaml",
];

/// Comments after a command which say that the command is not to be run.
const NOT_RUN: [&str; 3] = ["takes minutes", "needs ", "until Ctrl-C"];

/// Programs that the pages use and that may not be installed.
const PROGRAMS: [&str; 12] = [
    "bc",
    "cargo",
    "cc",
    "coreutils",
    "gzip",
    "make",
    "md5sum",
    "perf",
    "pv",
    "tar",
    "zcat",
    "zstd",
];

/// Examples of the help that are not run, and why; their options are checked. The comments in the
/// help are for its readers, so the reasons are here.
const EXAMPLES_NOT_RUN: [(&str, &str); 18] = [
    ("fullbore bench all", "needs the programs of a checkout"),
    ("fullbore bench --compare", "needs the files of two runs"),
    (
        "fullbore bench --html new.html --compare",
        "needs the files of two runs",
    ),
    (
        "fullbore bench 'vmsplice_*' --compare",
        "needs the files of three runs",
    ),
    (
        "fullbore bench ladder latency sweep",
        "takes minutes on a slow machine",
    ),
    ("fullbore bench move", "takes minutes on a slow machine"),
    ("fullbore bench pipelines", "takes minutes"),
    (
        "fullbore bench write_read deep_ring",
        "takes minutes on a slow machine",
    ),
    (
        "fullbore meter --watch",
        "needs a process that reads a file",
    ),
    ("fullbore run --live", "needs a terminal"),
    ("fullbore top gzip", "needs a terminal"),
    ("fullbore top --pipeline", "needs a terminal"),
    ("fullbore top --prometheus", "until Ctrl-C"),
    ("fullbore top\n", "needs a terminal"),
    ("fullbore tune", "needs a process whose pipes are enlarged"),
    ("fullbore write --memory", "takes minutes on a slow machine"),
    ("fullbore write --write-with-vmsplice", "needs huge pages"),
    ("fullbore write | ", "takes minutes on a slow machine"),
];

/// Verbs whose examples take minutes, and the options with which they take seconds.
const SHORTENED: [(&str, &str); 2] = [
    ("fullbore bench", "--rounds 1 --seconds 0.02"),
    ("fullbore explain", "--rounds 1 --seconds 0.05"),
];

/// Options of examples that are short already, or measure nothing.
const SHORT_ALREADY: [&str; 6] = [
    "--quick",
    "--rounds",
    "--seconds",
    "--compare",
    "--list",
    "-- ",
];

/// Parts of examples that take long, and shorter ones that do the same to less.
const SMALLER: [(&str, &str); 8] = [
    ("bench between", "bench 'between_cat_cat_c*'"),
    ("--cost --limit", "--cost --limit write_read pipe"),
    ("--json --svg", "write_read pipe --json --svg"),
    ("--quick 'vmsplice_*'", "--quick vmsplice_read"),
    (" --seconds 1 ", " --seconds 0.2 "),
    (" --seconds 2 ", " --seconds 0.2 "),
    ("--bytes-to-pipe 1G", "--bytes-to-pipe 100M"),
    ("head -c 20M /dev/urandom", "head -c 5M /dev/urandom"),
];

/// How long the commands of one block may take, which is much longer than they take on a busy
/// machine.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// One block of code of a page.
struct Block {
    page: PathBuf,
    line: usize,
    tag: String,
    text: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.page.display(), self.line)
    }
}

/// One command of a block, which can have several lines.
#[derive(Default)]
struct Shell {
    text: String,
    comment: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns README.md and the pages of docs/, as paths from the root.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .expect("docs/")
        .map(|entry| Path::new("docs").join(entry.expect("a page").file_name()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push("README.md".into());
    pages.sort();
    pages
}

fn read(page: &Path) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page:?}: {error}"))
}

/// Returns the blocks of code of a page, and the page without them.
fn blocks(page: &Path) -> (Vec<Block>, String) {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut open: Option<Block> = None;
    for (number, line) in read(page).lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => writeln!(block.text, "{line}").expect("a line"),
            (None, Some(tag)) => {
                open = Some(Block {
                    page: page.to_owned(),
                    line: number + 1,
                    tag: tag.trim().to_owned(),
                    text: String::new(),
                });
            }
            (None, None) => writeln!(prose, "{line}").expect("a line"),
        }
    }
    assert!(open.is_none(), "{}: a block does not end", page.display());
    (blocks, prose)
}

/// Returns where the comment of a line begins: at a `#` outside of quotes, at the start or after a
/// space.
fn comment_at(line: &str) -> usize {
    let (mut quote, mut before) = (None, ' ');
    for (place, character) in line.char_indices() {
        match (quote, character) {
            (None, '#') if before == ' ' => return place,
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
        before = character;
    }
    line.len()
}

/// Returns the commands of a block. A line that ends in `|` or `\` continues on the next line; a
/// comment on a line of its own belongs to the command that follows.
fn commands(block: &Block) -> Vec<Shell> {
    let mut commands = Vec::new();
    let mut current = Shell::default();
    for line in block.text.lines() {
        let line = match (block.tag.as_str(), line.strip_prefix("$ ")) {
            ("console", Some(command)) => command,
            // This is the output of the command before.
            ("console", None) if current.text.is_empty() => continue,
            _ => line,
        };
        let (code, comment) = line.split_at(comment_at(line));
        current.comment.push_str(comment);
        let code = code.trim_end();
        if code.is_empty() {
            continue;
        }
        current.text.push_str(code);
        current.text.push('\n');
        if !code.ends_with(['|', '\\']) {
            commands.push(shortened(std::mem::take(&mut current)));
        }
    }
    assert!(
        current.text.is_empty(),
        "{}: the last command does not end",
        block.place()
    );
    commands
}

/// Makes a command that measures for minutes measure for seconds, and others handle fewer bytes. In so short a time, an
/// experiment may get no CPU, or a sample.
fn shortened(mut shell: Shell) -> Shell {
    let is_short = SHORT_ALREADY
        .iter()
        .any(|option| shell.text.contains(option));
    for (amount, smaller) in SMALLER {
        shell.text = shell.text.replace(amount, smaller);
    }
    for (verb, options) in SHORTENED {
        if shell.text.starts_with(verb) {
            if !is_short {
                shell.text = shell.text.replacen(verb, &format!("{verb} {options}"), 1);
            }
            if !shell.comment.contains("exits with") {
                shell.comment.push_str("; exits with 0 1 3");
            }
        }
    }
    shell
}

fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    })
}

/// Returns whether the comment says that the command is not for a test.
fn is_not_run(shell: &Shell) -> bool {
    let comment = shell.comment.to_lowercase();
    let says = |words: &&str| comment.contains(&words.to_lowercase());
    NOT_RUN.iter().any(says)
}

/// Returns a program of the command that is not installed here.
fn missing_program(shell: &Shell) -> Option<&'static str> {
    let words = shell.text.split(|c: char| !c.is_alphanumeric());
    let is_used = |program: &&&str| words.clone().any(|word| word == **program);
    let missing = PROGRAMS.iter().filter(|program| is_used(program));
    missing.copied().find(|program| !is_installed(program))
}

/// Returns the exit codes that a command may end with.
fn expected(shell: &Shell) -> &str {
    match shell.comment.split_once("exits with ") {
        Some((_, codes)) => codes.split([':', ';', ',', '.']).next().unwrap_or_default(),
        None => "0",
    }
}

/// Creates the files that the pages' commands use.
fn lay_out(directory: &Path) {
    let line =
        "203.0.113.7 - - [22/Nov/2026:03:14:07 +0000] \"GET /index.html HTTP/1.1\" 404 512\n";
    let write = |name: &str, bytes: &[u8]| {
        fs::write(directory.join(name), bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    write("access.log", line.repeat(2000).as_bytes());
    write(
        "big",
        "some words of a large file\n".repeat(40_000).as_bytes(),
    );
    write("disk.img", &vec![7; 4 << 20]);
    write("Makefile", b"all:\n\techo a warning\n");
    write("header.csv", b"name,count\n");
    write("rows.csv", b"pipe,1\n");
    write("footer.csv", b"total,1\n");
    fs::create_dir(directory.join("src")).expect("src");
    write(
        "src/main.c",
        "int main(void) { return 0; }\n".repeat(1000).as_bytes(),
    );
    if is_installed("gzip") {
        let mut gzip = Command::new("gzip");
        gzip.args(["-k", "access.log"]).current_dir(directory);
        assert!(output_of(&mut gzip).expect("gzip").status.success());
    }
}

/// Returns the commands as one script for bash. After each command, the exit codes of all its stages
/// are checked: 0 and SIGPIPE are accepted, and any other code only if the comment says so.
fn script(commands: &[&Shell]) -> String {
    let mut script = String::from(
        r#"check() {
    local expected=$1 text=$2 code last=0; shift 2
    for code; do [ "$code" = 141 ] || [ "$code" = 0 ] || last=$code; done
    case " $expected " in *" $last "*) ;; *)
        printf 'this ended with %s (all stages: %s), and not with %s:\n%s' "$last" "$*" "$expected" "$text" >&2
        exit 99 ;;
    esac
}
"#,
    );
    for shell in commands {
        let quoted = shell.text.replace('\'', r"'\''");
        writeln!(
            script,
            "{}check '{}' '{quoted}' \"${{PIPESTATUS[@]}}\"",
            shell.text,
            expected(shell),
        )
        .expect("a line");
    }
    script
}

/// Runs the commands of a block in a directory of their own.
fn run_block(block: &Block, commands: &[&Shell]) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    lay_out(directory.path());
    let programs = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(FULLBORE, programs.path().join("fullbore")).expect("a link");
    let mut path = programs.path().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());

    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script(commands)).current_dir(&directory);
    // It gets its own process group, so that processes that it leaves in the background can be
    // killed.
    bash.env("PATH", path).process_group(0);
    // Output is written to a file, because background processes would keep a pipe open.
    let output = tempfile::tempfile().expect("a file");
    let said = directory.path().join(".stderr");
    bash.stdin(Stdio::null()).stdout(output);
    bash.stderr(fs::File::create(&said).expect("a file"));
    let mut child = start(&mut bash);
    let group = Pid::from_child(&child);
    let began = Instant::now();
    // The process is not reaped yet, so that the id of the group is not reused.
    let looked = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let has_ended = || {
        waitid(WaitId::Pid(group), looked)
            .expect("bash is waited for")
            .is_some()
    };
    while !has_ended() && began.elapsed() < TIME_LIMIT {
        sleep(Duration::from_millis(5));
    }
    let in_time = has_ended();
    // This kills the processes that it left in the background, or all of them.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().expect("bash is waited for");
    if in_time && status.success() {
        return Ok(());
    }
    let said = fs::read(&said).unwrap_or_default();
    let ended = match in_time {
        true => status.to_string(),
        false => format!("no end within {} s", TIME_LIMIT.as_secs()),
    };
    Err(format!(
        "{}: {ended}: {}",
        block.place(),
        String::from_utf8_lossy(&said),
    ))
}

/// Returns the options of `fullbore VERB …` at the start of a command that are not in its help.
fn unknown_options(shell: &Shell) -> Vec<String> {
    let text = shell
        .text
        .split(['\'', '"', '|', '$'])
        .next()
        .unwrap_or_default();
    let mut words = text.split_whitespace();
    let (Some("fullbore"), Some(verb)) = (words.next(), words.next()) else {
        return Vec::new();
    };
    let help = run(&format!("{verb} --help"));
    if !help.status.success() {
        return vec![verb.to_owned()];
    }
    let known: Vec<&str> = stdout(&help)
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .collect();
    words
        .take_while(|word| *word != "--")
        .filter(|word| word.starts_with("--"))
        .map(|word| word.split('=').next().unwrap_or(word).to_owned())
        .filter(|option| !known.contains(&option.as_str()))
        .collect()
}

/// Makes four tests of what `$blocks` returns, each of every fourth block, so that they run side by side.
macro_rules! in_four_parts {
    ($name:ident: $blocks:ident) => {
        mod $name {
            use super::{run_every_fourth, $blocks};

            #[test]
            fn part_1() {
                run_every_fourth($blocks(), 0);
            }

            #[test]
            fn part_2() {
                run_every_fourth($blocks(), 1);
            }

            #[test]
            fn part_3() {
                run_every_fourth($blocks(), 2);
            }

            #[test]
            fn part_4() {
                run_every_fourth($blocks(), 3);
            }
        }
    };
}

in_four_parts!(every_command_of_the_pages_runs: blocks_of_pages);
in_four_parts!(every_example_of_the_help_runs: blocks_of_help);

fn run_every_fourth(blocks: Vec<Block>, first: usize) {
    if !is_installed("bash") {
        skipped("the commands of the pages and of the help: there is no bash here");
        return;
    }
    let failures: Vec<String> = (blocks.iter().skip(first).step_by(4))
        .flat_map(failures_of)
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the blocks of commands of README.md and the pages.
fn blocks_of_pages() -> Vec<Block> {
    let all = pages().into_iter().flat_map(|page| blocks(&page).0);
    all.filter(|block| {
        let (place, tag) = (block.place(), block.tag.as_str());
        assert!(
            TAGS.contains(&tag),
            "{place}: a block tagged '{tag}'; these are known: {TAGS:?}"
        );
        matches!(tag, "sh" | "console")
    })
    .collect()
}

/// Runs those commands of a block that can be run here, and checks the options of the others.
fn failures_of(block: &Block) -> Vec<String> {
    let (mut failures, mut wanted) = (Vec::new(), Vec::new());
    let commands = commands(block);
    for shell in &commands {
        if is_not_run(shell) {
            // Only its options are checked.
        } else if let Some(program) = missing_program(shell) {
            skipped(&format!("{}: {program} is not installed", block.place()));
        } else {
            wanted.push(shell);
            continue;
        }
        let unknown = unknown_options(shell);
        if !unknown.is_empty() {
            failures.push(format!("{}: no such option: {unknown:?}", block.place()));
        }
    }
    if !wanted.is_empty() {
        failures.extend(run_block(block, &wanted).err());
    }
    failures
}

/// Returns the verbs that the help lists.
fn verbs() -> Vec<String> {
    let help = run("--help");
    stdout(&help)
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .map(str::to_owned)
        .collect()
}

/// Returns the examples of a verb's help as a block: two spaces separate a command from its comment.
fn examples(verb: &str) -> Block {
    let help = run(&format!("{verb} --help"));
    let mut text = String::new();
    let mut commands = String::new();
    let mut lines = stdout(&help)
        .lines()
        .skip_while(|line| *line != "Examples:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .peekable();
    assert!(lines.peek().is_some(), "{verb} --help has no examples");
    for line in lines {
        let (code, comment) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
        commands.push_str(code);
        commands.push('\n');
        if code.ends_with('|') {
            continue;
        }
        let reason = EXAMPLES_NOT_RUN
            .iter()
            .find(|(start, _)| commands.starts_with(start))
            .map_or("", |(_, reason)| reason);
        writeln!(text, "# {reason} {}", comment.trim()).expect("a line");
        text.push_str(&commands);
        commands.clear();
    }
    Block {
        page: format!("fullbore {verb} --help").into(),
        line: 0,
        tag: "sh".to_owned(),
        text,
    }
}

/// Returns the examples of each verb; those of `bench`, which take longest, one by one.
fn blocks_of_help() -> Vec<Block> {
    let (mut slow, all): (Vec<Block>, Vec<Block>) = (verbs().iter())
        .map(|verb| examples(verb))
        .partition(|block| block.text.contains("\nfullbore bench"));
    let slow = slow.pop().expect("bench has examples");
    let lines: Vec<&str> = slow.text.lines().collect();
    let one = |two: &[&str]| Block {
        text: format!("{}\n", two.join("\n")),
        page: slow.page.clone(),
        tag: slow.tag.clone(),
        line: 0,
    };
    // Before each command stands its comment.
    lines.chunks(2).map(one).chain(all).collect()
}

/// Returns the anchor that GitHub derives from a heading.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_to_a_heading() {
    let mut broken = Vec::new();
    let mut extra = vec!["CONTRIBUTING.md".into(), "ARCHITECTURE.md".into()];
    extra.extend(pages());
    for page in extra {
        let prose = blocks(&page).1;
        for link in prose
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
        {
            let link = link.0;
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                _ => page.parent().expect("a folder").join(file),
            };
            let exists = root().join(&target).exists();
            let found = heading.is_empty()
                || exists
                    && blocks(&target)
                        .1
                        .lines()
                        .filter_map(|line| line.strip_prefix('#'))
                        .any(|line| anchor(line.trim_start_matches('#')) == heading);
            if !exists || !found {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_readme_names_every_verb_and_has_at_most_150_lines() {
    let readme = read(Path::new("README.md"));
    assert!(readme.lines().count() <= 150, "{}", readme.lines().count());
    let verbs = verbs();
    assert!(verbs.len() > 5, "{verbs:?}");
    for verb in verbs {
        assert!(
            readme
                .lines()
                .any(|line| line.starts_with("| ") && line.contains(&format!("`{verb}`"))),
            "README.md has no row for {verb}"
        );
    }
}

#[test]
fn every_page_is_in_the_index() {
    let index = read(Path::new("docs/README.md"));
    for page in pages() {
        let name = page.file_name().expect("a name").to_str().expect("UTF-8");
        assert!(
            index.contains(&format!("]({name})")) || name == "README.md",
            "{name}"
        );
    }
}
