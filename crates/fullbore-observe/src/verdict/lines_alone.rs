//! Which commands treat every line alone, so that `fullbore parallel` can run them on all CPUs: a table with reasons,
//! and what their arguments must not be. A command that is not understood is unknown, never alone.

/// How a command treats the lines of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// Each alone, for this reason. If the exit code 1 means nothing more than that no line was found, it is accepted.
    Alone {
        why: &'static str,
        accepts_1: bool,
        /// The bytes of the assignments in front of it.
        assignments: usize,
    },
    /// More than one at a time.
    Together,
    Unknown,
}

/// Programs, why a block of their input gives that block of their output, and whether these arguments keep that true.
type Row = (&'static str, &'static str, fn(&[String]) -> bool);

#[rustfmt::skip]
const ALONE: &[Row] = &[
    ("grep egrep fgrep", "it matches line by line", grep),
    ("sed", "its script looks at one line at a time", |words| script(words, "nEru", is_sed_of_lines)),
    ("awk mawk gawk nawk", "its program keeps nothing from one line for the next", |words| script(words, "", is_awk_of_lines)),
    ("tr", "it looks at one byte at a time", |words| !has(words, "s", "squeeze-repeats")),
    ("cut", "it cuts line by line", |words| operands(words, "bcdf") == 0 && !has(words, "z", "zero-terminated")),
    ("rev expand unexpand fold", "it works line by line", |words| operands(words, "tw") == 0),
    ("jq", "it reads one value at a time, if no value has more than one line", jq),
    ("iconv", "it converts characters, none of which has a part on the next line", iconv),
    ("gzip bzip2 xz zstd", "streams one behind the other are one when they are decompressed", |words| {
        operands(words, "SM") == 0 && !has(words, "dtlr", "decompress uncompress test list recursive train files filelist")
    }),
];

/// Programs that see more than one line, or the end of their input.
const TOGETHER: &str = "sort uniq wc tail head tac nl paste join comm shuf split csplit pr fmt column cmp diff \
    md5sum sha1sum sha256sum b2sum cksum sum tsort dd tar cpio gunzip zcat bunzip2 bzcat unxz xzcat unzstd zstdcat \
    ssh base64 od xxd openssl";

/// Returns whether a word is one of a list.
fn is_one(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

/// Returns how the command in a stage treats the lines of its input.
pub(super) fn lines(text: &str) -> Lines {
    let Some(words) = words(text) else {
        return Lines::Unknown;
    };
    let is_assignment = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        })
    };
    let skipped = words.iter().take_while(is_assignment).count();
    let Some((program, arguments)) = words[skipped..].split_first() else {
        return Lines::Unknown;
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    if is_one(TOGETHER, name) {
        return Lines::Together;
    }
    match ALONE.iter().find(|(names, ..)| is_one(names, name)) {
        Some((_, why, holds)) if holds(arguments) => Lines::Alone {
            why,
            accepts_1: name.ends_with("grep"),
            assignments: text.trim().find(program.as_str()).unwrap_or(0),
        },
        // Its arguments make it see more.
        Some(_) => Lines::Together,
        None => Lines::Unknown,
    }
}

/// Splits a line at each '|' outside of quotes.
pub(super) fn stages(line: &str) -> Vec<&str> {
    let (mut quote, mut is_escaped) = (None, false);
    let parts = line.split(|c| {
        let is_plain = !std::mem::take(&mut is_escaped);
        match quote {
            Some(open) if open == c && is_plain => quote = None,
            None if is_plain && (c == '\'' || c == '"') => quote = Some(c),
            _ => is_escaped = is_plain && c == '\\' && quote != Some('\''),
        }
        c == '|' && quote.is_none() && is_plain
    });
    parts.collect()
}

/// Returns the words of a simple command; `None` if a shell would do more than to split it.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '$' | '`')
            | (
                None,
                '$' | '`' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '#' | '*' | '?' | '\n',
            ) => {
                return None;
            }
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Returns whether one of these options is among the words, a letter also in a group of letters.
fn has(words: &[String], letters: &str, longs: &str) -> bool {
    words.iter().any(|word| match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or(long);
            // A long option may be abbreviated.
            !name.is_empty() && longs.split(' ').any(|one| one.starts_with(name))
        }
        None => word.starts_with('-') && word.contains(|c| letters.contains(c)),
    })
}

/// Returns how many words are no options, and no values of the options with these letters.
fn operands(words: &[String], with_value: &str) -> usize {
    let (mut count, mut words) = (0, words.iter());
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            None | Some("") => count += 1,
            Some(group) if !group.starts_with('-') => {
                let takes = group.find(|c| with_value.contains(c));
                if takes.is_some_and(|at| at + 1 == group.len()) {
                    words.next();
                }
            }
            Some(_) => {}
        }
    }
    count
}

fn grep(words: &[String]) -> bool {
    let longs = "count line-number max-count byte-offset after-context before-context context quiet silent \
        files-with-matches files-without-match null-data recursive file label";
    let patterns = usize::from(!has(words, "e", "regexp"));
    // The value behind an 'e' in a group of letters is not looked at: then the answer may only be too careful.
    !has(words, "cnmbABCqlLzrRf0123456789", longs) && operands(words, "e") == patterns
}

/// Returns whether the only operand is a script for which this is true, beside options with these letters.
fn script(words: &[String], options: &str, is_of_lines: fn(&str) -> bool) -> bool {
    let mut scripts = 0;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = match word.strip_prefix('-') {
            None => Some(word),
            // awk: a separator, a variable.
            Some("F" | "v") if options.is_empty() => words.next().and(None),
            Some(group) if options.is_empty() && group.starts_with(['F', 'v']) => None,
            Some("e") if !options.is_empty() => words.next(),
            Some(group) if !group.is_empty() && group.chars().all(|c| options.contains(c)) => None,
            Some(_) => return false,
        };
        if let Some(text) = text {
            scripts += 1;
            if !is_of_lines(text) {
                return false;
            }
        }
    }
    scripts == 1
}

/// Returns whether each command of a script is `s`, `y`, `d` or `p`, for all lines or for those that match.
fn is_sed_of_lines(script: &str) -> bool {
    let mut rest = script.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('/') {
            let Some(after) = behind(after, '/') else {
                return false;
            };
            rest = after.trim_start().trim_start_matches('!').trim_start();
        }
        let mut chars = rest.chars();
        let command = chars.next();
        rest = match (command, chars.next()) {
            (Some('s' | 'y'), Some(delimiter)) => {
                let parts =
                    behind(chars.as_str(), delimiter).and_then(|rest| behind(rest, delimiter));
                match parts {
                    Some(flags) => {
                        flags.trim_start_matches(|c: char| "gpiI".contains(c) || c.is_ascii_digit())
                    }
                    None => return false,
                }
            }
            (Some('d' | 'p'), _) => &rest[1..],
            _ => return false,
        };
        rest = match rest.trim_start().strip_prefix([';', '\n']) {
            Some(next) => next.trim_start(),
            None if rest.trim().is_empty() => "",
            None => return false,
        };
    }
    true
}

/// Returns what is behind the next delimiter that has no backslash before it.
fn behind(text: &str, delimiter: char) -> Option<&str> {
    let mut is_escaped = false;
    let at = text.find(|c| {
        let is_end = c == delimiter && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some(&text[at + delimiter.len_utf8()..])
}

/// Returns whether a program of awk keeps nothing: it has no variables but the fields, no arrays, no ranges, no input of
/// its own, and does not look at the number of a line or at the end.
fn is_awk_of_lines(program: &str) -> bool {
    let (mut plain, mut depth, mut parentheses) = (String::new(), 0, 0);
    let mut chars = program.chars();
    while let Some(c) = chars.next() {
        let before = plain.trim_end().chars().last();
        match c {
            // A string, or an expression: a slash divides only behind a value.
            '"' | '/' if c == '"' || before.is_none_or(|c| "(,~!{};&|".contains(c)) => {
                match behind(chars.as_str(), c) {
                    Some(rest) => chars = rest.chars(),
                    None => return false,
                }
                plain.push('_');
                continue;
            }
            '{' | '(' => {
                depth += 1;
                parentheses += i32::from(c == '(');
            }
            '}' | ')' => {
                depth -= 1;
                parentheses -= i32::from(c == ')');
            }
            // Several processes would write one file. A comparison can have parentheses.
            '>' if depth > 0 && parentheses == 0 => return false,
            // A range of lines.
            ',' if depth == 0 => return false,
            _ => {}
        }
        plain.push(c);
    }
    let mut kept = "++ -- [ += -= *= /= %= ^= >> |".split(' ');
    let plain = plain.replace("||", " ");
    // They change their third argument.
    let mut changed = plain.split("sub(").skip(1).filter_map(|call| {
        let arguments = call.split(')').next()?;
        arguments.split(',').nth(2)
    });
    let is_kept =
        kept.any(|one| plain.contains(one)) || changed.any(|what| !what.trim().starts_with('$'));
    let names = plain.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let elsewhere = "BEGIN END NR FNR RS RT FILENAME getline exit rand srand systime system close function func nextfile";
    let comparisons = ["==", "!=", "<=", ">="].iter();
    let assigned = comparisons.fold(plain.clone(), |text, one| text.replace(one, " "));
    let mut sides: Vec<&str> = assigned.split('=').collect();
    sides.pop();
    // A field is new on every line.
    let is_field = |side: &&str| {
        let side = side.trim_end();
        side.ends_with("$NF")
            || side
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .ends_with('$')
    };
    let looks_elsewhere = names.into_iter().any(|name| is_one(elsewhere, name));
    !is_kept && !looks_elsewhere && sides.iter().all(is_field)
}

fn jq(words: &[String]) -> bool {
    let is_about_others = |word: &String| {
        ["input", "limit(", "halt"]
            .iter()
            .any(|one| word.contains(one))
    };
    let longs = "slurp null-input from-file seq stream exit-status args jsonargs arg argjson slurpfile rawfile";
    operands(words, "L") == 1 && !words.iter().any(is_about_others) && !has(words, "snfe", longs)
}

fn iconv(words: &[String]) -> bool {
    // Encodings with states, with a mark at their start, or with newlines of more than one byte.
    let others = || "16 32 ucs utf-7 utf7 2022 hz unicode ebcdic".split(' ');
    let is_other = |word: &String| others().any(|one| word.to_lowercase().contains(one));
    operands(words, "ft") == 0 && !words.iter().any(is_other) && !has(words, "lo", "list output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_alone_only_where_its_arguments_leave_it_so() {
        for text in [
            "grep x",
            "grep -iE 'a|b'",
            "LC_ALL=C grep -F x",
            "grep -e a -e b",
            "/bin/egrep -v x",
            "sed s/a/b/",
            "sed -E 's,a(.),\\1,gp'",
            "sed -n '/x/p'",
            "sed 's/a/b/; y/ab/cd/;/x/!d'",
            "sed -e s/a/b/",
            "awk '{print $1}'",
            "awk -F : '$3 > 5 { print $1, $2 }'",
            "mawk '/a[bc]/ && $1 == \"END\"'",
            "awk '{ $2 = \"x\"; $NF = 1; print }'",
            "awk '$1 ~ /x/ || /y/'",
            "awk '{ if ($3 > 5) print; gsub(/a/, \"b\", $2) }'",
            "tr a-z A-Z",
            "tr -d '\\r'",
            "cut -d ' ' -f 1,2",
            "cut -c1-5",
            "rev",
            "jq -c .a",
            "jq '.a | length'",
            "iconv -f latin1 -t utf-8",
            "gzip",
            "gzip -9",
            "zstd -3 -c",
            "xz -T0",
        ] {
            assert!(
                matches!(lines(text), Lines::Alone { .. }),
                "{text}: {:?}",
                lines(text)
            );
        }
        for text in [
            "sort",
            "sort -u",
            "uniq -c",
            "wc -l",
            "tail -n 5",
            "head",
            "zcat",
            "sha256sum",
            "grep -c x",
            "grep -n x",
            "grep -m 1 x",
            "grep -C2 x",
            "grep -2 x",
            "grep --count x",
            "grep --max-c=2 x",
            "grep x file",
            "grep -q x",
            "grep -vc x",
            "sed 1d",
            "sed '$d'",
            "sed 's/a/b/;q'",
            "sed 'N;s/\\n//'",
            "sed G",
            "sed -i s/a/b/",
            "sed '/a/,/b/d'",
            "sed 's/a/b/w f'",
            "sed s/a/b/ file",
            "awk 'END { print NR }'",
            "awk '{ s += $1 } END { print s }'",
            "awk 'NR > 1'",
            "awk '!seen[$0]++'",
            "awk '{ print prev; prev = $0 }'",
            "awk '/a/,/b/'",
            "awk -f x.awk",
            "awk '{ print }' file",
            "awk '{ print | \"sort\" }'",
            "awk '{ exit }'",
            "awk '{ print $1 > \"out\" }'",
            "awk '{ if ($1) { print > $2 } }'",
            "awk '{ gsub(/$/, \"y\", x); print x }'",
            "tr -s '\\n'",
            "cut -f 1 file",
            "jq -s .",
            "jq -n '[inputs]'",
            "jq 'if .a then halt else . end'",
            "jq",
            "iconv -f utf-16 -t utf-8",
            "gzip -d",
            "gzip file",
            "zstd --decompress",
            "xz -dc",
            "xz --files",
        ] {
            assert_eq!(lines(text), Lines::Together, "{text}");
        }
        for text in [
            "python3 x.py",
            "grep x; cat",
            "grep \"$x\"",
            "(grep x)",
            "",
            "LC_ALL=C",
            "grep 'x",
            "grep x | wc -l",
            "perl -ne print",
        ] {
            assert_eq!(lines(text), Lines::Unknown, "{text}");
        }
    }
}
