//! An option that would have no effect is an error: exit code 2, and one line that names it.
//!
//! The options of `meter`, `buffer` and `tee` that pv, mbuffer and tee accept without effect are accepted, and so are
//! those of the article's programs in `write` and `read`.

use std::process::Stdio;

use crate::common::{fullbore, one_line, output_of, said, stderr};

/// A command line, and the option that would have no effect, or the one that excludes it.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    // copy
    ("copy --append", "--output"),
    ("copy -o out --append --hash sha256", "--append"),
    ("copy --by-reference --hash sha256", "--by-reference"),
    ("copy --atomic", "--output"),
    ("copy -o out --atomic --append", "--append"),
    ("copy --size 1M", "--progress"),
    ("copy --seal --unseal", "--unseal"),
    ("copy --seal --by-reference", "--by-reference"),
    ("copy --seal --hash sha256", "--hash"),
    ("copy --unseal --by-reference", "--by-reference"),
    ("copy --unseal --bytes 1", "--bytes"),
    // tee
    ("tee --atomic", "<FILE>"),
    ("tee --atomic --append out", "--append"),
    // meter
    ("meter --atomic", "--output"),
    ("meter --watch 1 --sync", "--sync"),
    ("meter --watch 1 --rate-limit 1M", "--rate-limit"),
    ("meter --query 1 --pidfile f", "--pidfile"),
    ("meter --remote 1 --pidfile f", "--pidfile"),
    ("meter --by-reference --line-mode", "--by-reference"),
    ("meter --by-reference --null", "--by-reference"),
    ("meter --by-reference --no-splice", "--by-reference"),
    ("meter --by-reference --buffer-size 4K", "--by-reference"),
    ("meter --by-reference --skip-errors", "--by-reference"),
    ("meter --by-reference --last-written 3", "--by-reference"),
    ("meter --by-reference --format %3A", "--by-reference"),
    ("meter --error-skip-block 4K", "--skip-errors"),
    ("meter --stop-at-size", "--size"),
    ("meter --watch 1 --by-reference", "--by-reference"),
    ("meter --query 1 --quiet", "--quiet"),
    ("meter --remote 1 --force", "--force"),
    // buffer
    ("buffer --atomic", "--output"),
    // run
    ("run --shell bash -- true", "--shell"),
    ("run --no-pipefail --sigpipe-fails true", "--sigpipe-fails"),
    ("run --quiet --verbose true", "--verbose"),
    ("run --whole --sync true", "--output"),
    ("run --whole --no-pipefail true", "--no-pipefail"),
    ("run --size 1M true", "--progress"),
    ("run --live --progress true", "--progress"),
    // bench
    ("bench --list --rounds 3", "--rounds"),
    ("bench --list --seconds 1", "--seconds"),
    ("bench --list --quick", "--quick"),
    ("bench --list --cpus 0,1", "--cpus"),
    ("bench --list --pipe-size 1M", "--pipe-size"),
    ("bench --list --peers .", "--peers"),
    ("bench --list --seed 1", "--seed"),
    ("bench --list --json", "--json"),
    ("bench --list --cost", "--cost"),
    ("bench --list --limit", "--limit"),
    ("bench --list --svg x", "--svg"),
    ("bench --list --html x", "--html"),
    ("bench --list unix_copy --object 1M", "--object"),
    ("bench --compare x --list", "--list"),
    ("bench --compare x --rounds 3", "--rounds"),
    ("bench --compare x --seconds 1", "--seconds"),
    ("bench --compare x --quick", "--quick"),
    ("bench --compare x --cpus 0,1", "--cpus"),
    ("bench --compare x --pipe-size 1M", "--pipe-size"),
    ("bench --compare x --peers .", "--peers"),
    ("bench --compare x --seed 1", "--seed"),
    ("bench --compare x --cost", "--cost"),
    ("bench --compare x --limit", "--limit"),
    ("bench --compare x --svg x", "--svg"),
    ("bench --compare x --sndbuf 1M", "--sndbuf"),
    ("bench --quick --rounds 3", "--rounds"),
    ("bench --quick --seconds 1", "--seconds"),
    ("bench ladder --object 1M", "--object"),
    ("bench ladder --count 3", "--count"),
    ("bench ladder --sndbuf 1M", "--sndbuf"),
    ("bench ladder --hot 1M", "--hot"),
    ("bench ladder --check-every-object", "--check-every-object"),
    ("bench unix_copy --count 3 --seconds 1", "--seconds"),
    ("bench pipelines --pipe-size 1M", "--pipe-size"),
    ("bench move --pipe-size 1M", "--pipe-size"),
    ("bench page_lookup --pipe-size 1M", "--pipe-size"),
    ("bench sweep --pipe-size 1M", "--pipe-size"),
    ("bench roomy_pipe --pipe-size 1M", "--pipe-size"),
    ("bench pipelines --cpus 0,1", "--cpus"),
    // explain
    ("explain --rounds 3 -- true", "--rounds"),
    ("explain --cpus 0,1 -- true", "--cpus"),
    ("explain write_read -- true", "not both"),
    // top
    ("top --pipeline 1 cat", "--pipeline"),
    ("top --once --interval 1", "--interval"),
    ("top --once --json --count 1", "--count"),
    ("top --count 3", "--json"),
    ("top --prometheus 1 --once", "--once"),
    ("top --prometheus 1 --json", "--json"),
    ("top --prometheus 1 --interval 1", "--interval"),
    ("top --prometheus 1 --json --count 1", "--prometheus"),
    // tune
    ("tune 1 --pipeline 1", "--pipeline"),
    ("tune 1 --revert --pipe-size 1M", "--pipe-size"),
    // write
    ("write --seconds 1 --bytes-to-pipe 1M", "--seconds"),
    ("write --json=FILE --csv", "--csv"),
    ("write --buf-size 64K --chunk 64K", "--chunk"),
    ("write --sum", "--sum"),
    ("write --pause 1", "--pause"),
    ("write --period 4K", "--period"),
    ("write --way fresh --period 4K", "--period"),
    ("write --way repeat --period 4K", "--period"),
    ("write --write-with-vmsplice --way fresh", "--way"),
    ("write --write-with-vmsplice --memory 1M", "--write-with-vmsplice"),
    ("write --write-with-vmsplice --chunk 4K", "--chunk"),
    ("write --memory 1M --way fresh", "--memory"),
    ("write --same-buffer", "--write-with-vmsplice"),
    ("write --lines 80 --write-with-vmsplice", "--lines"),
    ("write --lines 80 --way repeat", "--lines"),
    ("write --check-huge-page", "--huge-page"),
    // read
    ("read --seconds 1 --bytes-to-pipe 1M", "--seconds"),
    ("read --json --csv", "--csv"),
    ("read --buf-size 64K --chunk 64K", "--chunk"),
    ("read --memory 1M", "--memory"),
    ("read --lines 80", "--lines"),
    ("read --data words", "--data"),
    ("read --way fresh", "--way"),
    ("read --period 4K", "--period"),
    ("write --through-pipe", "--through-pipe"),
    ("write --write-with-vmsplice --through-pipe --gift", "--gift"),
    ("read --read-with-splice --through-pipe --gift", "--gift"),
    ("read --read-with-splice --through-pipe --verify", "--verify"),
    ("read --through-pipe", "--through-pipe"),
    ("read --read-with-splice --pause 1", "--pause"),
    ("read --read-with-splice --sum", "--sum"),
    ("read --read-with-splice --way auto", "--way"),
    ("read --check-huge-page", "--huge-page"),
];

/// What the program that a verb stands for accepts without effect. Each ends at once.
#[rustfmt::skip]
const ACCEPTED: &[&str] = &[
    "tee --append",
    "tee -a -a",
    "tee -p --output-error=exit",
    "meter --quiet --progress --timer",
    "meter --quiet --format %b",
    "buffer -q --no-direct",
    "buffer -q -v 3",
    "buffer -q -f",
    "buffer -q -c",
    "buffer -q -Q",
    "write --read-with-splice --gift --bytes-to-pipe 0",
    "read --write-with-vmsplice --gift --same-buffer --lock-memory --pipe-size 4K",
];

#[test]
fn an_option_without_effect_is_refused_in_one_line_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    for (line, named) in REFUSED {
        let mut command = fullbore(line);
        command.current_dir(&directory).stdin(Stdio::null());
        let output = output_of(&mut command).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {}", said(&output));
        let error = one_line(stderr(&output));
        assert!(error.contains(named), "{line}: {error}");
        let made = directory.path().read_dir().unwrap().count();
        assert_eq!(made, 0, "{line}");
    }
}

#[test]
fn an_option_that_the_original_accepts_without_effect_is_accepted() {
    for line in ACCEPTED {
        let output = output_of(fullbore(line).stdin(Stdio::null())).unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", said(&output));
    }
}
