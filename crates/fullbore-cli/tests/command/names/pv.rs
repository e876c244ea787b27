//! Tests of `pv`, which a link to fullbore is, beside the pv of this machine; and of the options of later versions.

use std::process::{Command, Output};

use super::links::{bash, files, links};
use crate::common::*;

fn has_pv() -> bool {
    let there = output_of(Command::new("pv").arg("--version")).is_ok();
    if !there {
        skipped("pv is not installed");
    }
    there
}

/// Returns what was written to stderr, with hashes for digits, and without what depends on the version of pv.
fn like(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr)
        .replace('`', "'")
        .replace("  B", " B");
    // Each line that was drawn is one, and the blanks that cover a longer one are none.
    let lines: Vec<&str> = text.split(['\r', '\n']).map(str::trim_end).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

#[test]
fn pv_ends_as_the_one_of_this_machine() {
    if !has_pv() {
        return;
    }
    let links = links(&["pv"]);
    let lines = r#"
        pv -q /dev/zero | head -c 1 | wc -c; echo ${PIPESTATUS[0]}
        yes | pv -q | head -n 1; echo ${PIPESTATUS[1]}
        trap '' PIPE; yes 2> /dev/null | pv -q | head -n 1; echo ${PIPESTATUS[1]}
        pv a c
        pv -q a - c < b
        pv -q nofile a
        pv -q nofile; pv -q nofile nofile2; pv -q ''; pv -q '' a; pv -q a nofile; pv -q nofile .
        pv -q nofile >> a; echo $?; cat a
        pv -q --version --foo > h; pv -q --foo --version
        pv -q .
        pv -q a . c
        pv -q < .
        pv -q a >> a
        pv -q a > /dev/full
        pv -z
        pv --foo
        pv --size
        pv -s
        pv --rate 3 a
        pv -fn a
        head -c 100000 /dev/zero | pv -fn > /dev/null
        head -c 100000 /dev/zero | pv -fnb > /dev/null
        pv -fnb a > /dev/null
        pv -fnl -s 10 lines > /dev/null
        pv -fb a c > /dev/null
        pv -flb a c > /dev/null
        pv -f0b a bytes > /dev/null
        pv -ft a > /dev/null
        pv -fb -N x a > /dev/null
        pv -fp -w 40 a > /dev/null
        pv -fF '%% %p x' -w 30 a > /dev/null
        pv -f -L 0 -i 0 -s 0 -b a > /dev/null
        pv -S -s 2 -q a
        pv -lS -s 3 -q lines
        pv -C -B 3 -q a
        pv -E -q a
        pv -qL 1M a
        pv -fI -s 99 -i 60 a 2>&1 > /dev/null | tr '\r' '\n' | sed 's/ETA/FIN/; s/[0-9][0-9]:[0-9][0-9]:[0-9][0-9]/T/; s/ *$//'
        pv -fT -i 60 a > /dev/null; cat a | pv --force --buffer-percent -i 60 > /dev/null
        for a in '-A 4' '--last-written 3'; do pv -Cf $a -i 60 a 2>&1 > /dev/null | tr -d ' \r\n' | wc -c; done
        pv --force --progress --width 40 --interval 60 a > /dev/null
        pv --force --timer --interval 60 a > /dev/null
        pv --force --bytes --name x --interval 60 a > /dev/null
        pv --force --format '%% %p x' --width 30 --interval 60 a > /dev/null
        pv --force --eta --size 14 --interval 60 a > /dev/null
        pv --force --rate --interval 60 a 2>&1 > /dev/null | tr '\r' '\n' | sed 's/[0-9. ]*[kKMG]*i*B/#B/; s/ *$//'
        pv --force --average-rate --interval 60 a 2>&1 > /dev/null | tr '\r()' '\n[]' | sed 's/[0-9. ]*[kKMG]*i*B/#B/; s/ *$//'
        pv --numeric --interval 60 a
        pv --quiet --wait --delay-start 1 --line-mode --null --interval 1 --height 20 --rate-limit 1M --buffer-size 3 --no-splice --skip-errors a
        pv --quiet --line-mode --size 3 --stop-at-size lines
        pv --cursor --quiet a
        pv --remote 999999 --rate-limit 1 2> /dev/null; echo $?; pv --watchfd 999999 2> /dev/null; echo $?
        pv --help > h; grep -c -e --watchfd h; pv --version > h; head -n 1 h | cut -d ' ' -f 1
        pv --pidfile pid -q a; ls pid
        pv -W -q a; pv -D 5 -f a
        pv -cb a 2> /dev/null
        for s in TERM INT HUP; do (trap - INT; set -m; rm -f out; pv -q -L 1K /dev/zero > out & until [ -s out ]; do sleep 0.05; done; kill -$s $!; wait $!; echo $?) 2> /dev/null; done
        pv -R 999999 -L 1 2> /dev/null; echo $?
        pv -d 999999 2> /dev/null; echo $?
        pv -P nodir/x a 2> /dev/null; echo $?
        pv -w x a 2> /dev/null; echo $?
    "#;
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [theirs, ours] = [None, Some(&links)].map(|links| bash(files().path(), links, line));
        let all = |output: &Output| (output.stdout.clone(), like(output), output.status.code());
        assert_eq!(all(&ours), all(&theirs), "{line}");
    }
}

/// Lines of bash, and what they write to stdout: options of pv 1.7 to 1.12.
#[test]
fn options_of_later_versions_have_their_effect() {
    let links = links(&["pv"]);
    let mut wrong = Vec::new();
    let show = r"tr '\r' '\n' | sed 's/ *$//' | grep . | tail -n 1";
    for (line, expected) in [
        // A percentage is not cut off.
        ("pv -n -s 2 a 2>&1 > /dev/null | tail -n 1", "350\n"),
        // Suffixes after -k are powers of 1000; decimals are taken.
        (
            "pv -k -S -s 0.1k -q /dev/zero | wc -c; pv -S -s 0.5k -q /dev/zero | wc -c; pv -S -s 8 -k -q /dev/zero | wc -c",
            "100\n512\n8\n",
        ),
        ("pv -8bf a 2>&1 > /dev/null | SHOW", "56.0  b\n"),
        ("pv -fb -o out a 2>&1 | SHOW; cat out", "7.00  B\nhel\tlo\n"),
        ("pv -Xfb a 2>&1 | SHOW", "7.00  B\n"),
        (
            "pv -fpu block -w 13 a 2>&1 > /dev/null | SHOW",
            "[\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}] 100%\n",
        ),
        (
            "pv -f -F '%{bar-shaded}|' -s 14 -w 11 a 2>&1 > /dev/null | SHOW",
            "\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2591}\u{2591}\u{2591}\u{2591}\u{2591}|\n",
        ),
        (
            "LC_ALL=C pv -fpu block -w 13 a 2>&1 > /dev/null | SHOW",
            "[=====>] 100%\n",
        ),
        (
            "pv -fnF '%b/%{progress-amount-only}' -s 14 a 2>&1 > /dev/null | tail -n 1",
            "7/50\n",
        ),
        (
            "pv -fnbr a 2>&1 > /dev/null | tail -n 1 | sed 's/ [0-9]*[.][0-9]*$/ rate/'",
            "7 rate\n",
        ),
        // The rate of nothing.
        ("pv -qv a 2>&1 > /dev/null", "rate not measured\n"),
        (
            r#"mkfifo f; pv -fbv -i 0.1 < f > /dev/null 2> err & exec 3> f; until grep -aq '0.00  B' err; do sleep 0.05; done; echo x >&3; exec 3>&-; wait; tail -n 1 err | sed 's/[0-9][0-9.]*/#/g'"#,
            "rate min/avg/max/mdev = #/#/#/# B/s\n",
        ),
        ("pv -fT a 2>&1 > /dev/null | SHOW", "{  0%}\n"),
        (
            "pv -fpg -w 20 < a 2>&1 > /dev/null | SHOW; cat a | pv -fpg -w 20 2>&1 > /dev/null | SHOW | sed 's/[0-9. ]*[kKMGTi]*B/#B/; s/=*>* *]/]/'",
            "[============>] 100%\n[]/#B/s\n",
        ),
        (
            "pv -fI -s 1 a 2>&1 > /dev/null | SHOW | cut -c 1-4",
            "FIN \n",
        ),
        (
            "pv -fa a 2>&1 > /dev/null | SHOW | tr -d '0-9.KMGi '",
            "(B/s)\n",
        ),
        ("pv -fb -m 5 a 2>&1 > /dev/null | SHOW", "7.00  B\n"),
        // The size of a file, of a directory, and the number of lines.
        (
            "mkdir -p d/e; cat a > d/x; cat a > d/e/y; head -c 7 bytes | pv -nf -s @d 2>&1 > /dev/null | tail -n 1",
            "50\n",
        ),
        (
            "head -c 7 bytes | pv -nf -s @a 2>&1 > /dev/null | tail -n 1",
            "100\n",
        ),
        ("pv -nfl lines c 2>&1 > /dev/null | tail -n 1", "100\n"),
        // Stored first.
        (
            "seq 1000 | pv -q -U store | cmp - <(seq 1000) && cmp store <(seq 1000) && echo same",
            "same\n",
        ),
        (
            "seq 1000 | pv -fb -U - 2>&1 > /dev/null | SHOW; seq 1000 | pv -q -U - | cmp - <(seq 1000) && echo same",
            "3.80KiB\nsame\n",
        ),
        (
            "seq 1000 | pv -q -S -s 10 -U - | cmp - <(seq 5) && echo same",
            "same\n",
        ),
        // Hints.
        (
            "seq 1000 > n; pv -qK n | cmp - n && pv -qKO n | cmp - n && pv -qY -o m n && cmp m n && echo same",
            "same\n",
        ),
        (
            "head -c 5000001 /dev/zero > n; pv -qK n | cmp - n && pv -qK < n | cmp - n && tail -c +3 n | pv -qK | wc -c",
            "4999999\n",
        ),
        // The title of the window, and the command line.
        (
            r"pv -f -i 60 -x window -b a 2>&1 > /dev/null | tr '\33' '^' | grep -ao '^.]2;.*\^'",
            "^]2;7.00  B^\n",
        ),
        // The tab of the terminal, which is as before at the end.
        (
            r"pv -f -i 60 -9 -b -s 14 a 2>&1 > /dev/null | tr '\33\r\n' '^RN'",
            "7.00  B^]9;4;1;50^\\RN^]9;4;0;0^\\",
        ),
        (
            r"cat a | pv -f -i 60 --conemu -F '%b|' 2>&1 > /dev/null | tr '\33\r\n' '^RN'; pv -f -i 60 -F '%{progress-conemu}%b' a 2>&1 > /dev/null | tr '\33\r\n' '^RN'",
            "7.00  B|^]9;4;3;2^\\RN^]9;4;0;0^\\^]9;4;1;100^\\7.00  BRN^]9;4;0;0^\\",
        ),
        (
            "pv -q -J 64K a; pv -q --pipe-buffer-size 0 a; pv -q -J x a 2>&1; echo $?",
            "hel\tlo\nhel\tlo\npv: -J: x: numeric value not understood\n64\n",
        ),
        (
            r#"mkfifo f; pv -f -i 0.1 -x 'window:<%b>' -b < f > /dev/null 2> err & exec 3> f; until grep -aq $'\e]2;<0.00  B>\e' err; do sleep 0.05; done; echo titled"#,
            "titled\n",
        ),
        (
            "(head -n 1 a; sleep 5) | pv -f -i 0.1 -x 'proc:at %b' -b > /dev/null 2> err & for i in $(seq 600); do grep -aq 'pv -- at 7.00  B' /proc/$!/cmdline && break; sleep 0.05; done; grep -ac 'pv -- at 7.00  B' /proc/$!/cmdline; kill $!",
            "1\n",
        ),
        // Lists of processes, and several of them; what is watched ends with it.
        (
            r#"sleep 300 < a & p=$!; echo $p > list; echo '# none' >> list; pv -f -d @list -i 0.2 2> err & v=$!; until grep -aq '/a:' err; do sleep 0.05; done; kill $p; wait $v; echo $?"#,
            "0\n",
        ),
        (
            r#"sleep 300 < a & p=$!; sleep 300 < c & q=$!; pv -f -P pid -d $p $q -i 0.2 2> err & v=$!; until grep -aq ' 0:.*/a:' err && grep -aq ' 0:.*/c:' err; do sleep 0.05; done; kill $p $q; wait $v; echo $?; ls pid 2> /dev/null"#,
            "0\n",
        ),
        (
            "pv --version | head -n 1 | cut -d ' ' -f 1,2; pv -V | grep -c 'pv 1.12'; pv --help | grep -c -- --store-and-forward; fullbore-here meter -V | grep -c 0; fullbore-here buffer --version | grep -c 0",
            "pv (fullbore)\n1\n1\n1\n1\n",
        ),
        // A command between two pipes.
        (
            "seq 1000 > n; for side in in out both 0 1 2; do pv -q -M $side -- cat < n | cmp - n; echo $?; done",
            "0\n0\n0\n0\n0\n0\n",
        ),
        (
            "seq 1000 > n; pv -fb -i 60 -M in -- wc -l < n 2> in; pv -fb -i 60 -M out -- wc -l < n 2> out; cat in out | SHOWALL",
            "1000\n1000\n3.80KiB\n5.00  B\n",
        ),
        (
            "seq 1000 > n; pv -f -i 60 -F '%b %N' -F '%N %b' -N i -N o -M both -- wc -l < n 2>&1 | SHOWALL | sort",
            "        o: 5.00  B\n1000\n3.80KiB         i:\n",
        ),
        (
            "seq 9 > n; pv -q -S -s 4 -M in -- cat < n; pv -q -S -s 4 -M out -- cat < /dev/zero | wc -c; pv -q -M both -- sh -c 'cat; exit 7' < a; echo $?",
            "1\n2\n4\nhel\tlo\n0\n",
        ),
        (
            "pv -q -M both -- cat < /dev/zero | head -c 1 | wc -c; echo ${PIPESTATUS[0]}; yes | pv -q -M in -- head -n 1; echo ${PIPESTATUS[*]}",
            "1\n0\ny\n141 0\n",
        ),
        (
            "exec 2>&1; pv -M x -- cat; echo $?; pv -M in; echo $?; pv -M in -U s -- cat; echo $?; pv -M in -- nocommand; echo $?; pv -M in -o x -- cat; echo $?",
            "pv: -M: x: invalid side specification\n64\npv: -M: a command to run must be specified\n64\npv: monitor mode cannot be used with store-and-forward\n64\npv: -M: nocommand: No such file or directory\n1\npv: -o needs -M out or both: of 'in', the output is that of the command\n64\n",
        ),
        (
            "for s in TERM INT; do (trap - INT; set -m; rm -f out; pv -q -M in -L 1K -- cat < /dev/zero > out & until [ -s out ]; do sleep 0.05; done; kill -$s $!; wait $!; echo $?) 2> /dev/null; done",
            "32\n32\n",
        ),
        (
            "pv -fpterb -s 14 -w 80 a 2>&1 > /dev/null | tr '\\r' '\\n' | sed 's/[[][^=]*[/]s[]]/[#]/; s/0:0[0-9]:[0-9]*/#/; s/ *$//' | grep .",
            "7.00  B # [#] [===============>                 ]  50%\n",
        ),
    ] {
        let line = line
            .replace("SHOWALL", r"tr '\r' '\n' | sed 's/ *$//' | grep .")
            .replace("SHOW", show)
            .replace("fullbore-here", FULLBORE);
        let output = bash(files().path(), Some(&links), &line);
        let text = stdout(&output);
        if text != expected {
            wrong.push(format!("{line}\nexpected: {expected}\n{}", said(&output)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The width of the line stays the same while the magnitude of the rate changes.
#[test]
fn the_rate_has_one_width() {
    let links = links(&["pv"]);
    let line = "(head -c 999K /dev/zero; sleep 0.5; head -c 1K /dev/zero; sleep 0.5; head -c 3 /dev/zero; sleep 0.5) \
                | pv -rtIf -i 0.1 -s 1500k 2>&1 > /dev/null | tr '\\r' '\\n' | sed 's/ *$//' | grep . | awk '{print length}' | sort -u | wc -l";
    let output = bash(files().path(), Some(&links), line);
    assert_eq!(stdout(&output), "1\n", "{}", said(&output));
}

#[test]
fn more_than_the_size_is_more_than_a_hundred_percent() {
    let links = links(&["pv"]);
    let line = "head -c 300 /dev/zero | pv -n -s 100 2>&1 > /dev/null | tail -n 1; \
                head -c 300 /dev/zero | pv -fp -s 100 -w 40 2>&1 > /dev/null | grep -o ' 300%'";
    let output = bash(files().path(), Some(&links), line);
    assert_eq!(stdout(&output), "300\n 300%\n", "{}", said(&output));
}

/// With lines, the limit to the rate is in lines, however long they are: in bytes, these would take a day.
#[test]
fn with_lines_the_rate_is_in_lines() {
    let links = links(&["pv"]);
    let line = "for i in $(seq 40); do head -c 99999 /dev/zero; echo; done > n; \
                pv -nltb -L 40 -i 0.1 n 2> said | cmp - n; tail -n 1 said | awk '{print $2, ($1 > 0.7)}'";
    let output = bash(files().path(), Some(&links), line);
    assert_eq!(stdout(&output), "40 1\n", "{}", said(&output));
}
