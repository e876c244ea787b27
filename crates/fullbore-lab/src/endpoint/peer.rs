//! Finds the command line of `peers/pipe.c` that does the same as a pair of endpoints, if there
//! is one.
//!
//! That program uses one chunk size, one kind of page and one way to wait for both sides.

use fullbore_host::size;

/// The options of one endpoint, as far as the program supports them.
struct Side<'a> {
    /// The program's name for the method.
    how: &'a str,
    chunk: usize,
    pipe_size: Option<usize>,
    busy: bool,
    huge: bool,
    /// The program's flags for the same options.
    flags: Vec<&'a str>,
}

impl<'a> Side<'a> {
    /// Parses the options; returns `None` if the program lacks one of them.
    fn of(options: &'a str, how: &'a str) -> Option<Self> {
        let mut side = Side {
            how,
            chunk: 256 << 10,
            pipe_size: None,
            busy: false,
            huge: false,
            flags: Vec::new(),
        };
        let mut words = options.split_whitespace();
        while let Some(option) = words.next() {
            let mut bytes = || size::parse_in_memory(words.next()?).ok();
            match option {
                "--write-with-vmsplice" => side.how = "vmsplice",
                "--read-with-splice" => side.how = "splice",
                "--sum" => side.how = "sum",
                "--buf-size" => side.chunk = bytes()?,
                "--pipe-size" => side.pipe_size = Some(bytes()?),
                "--busy-loop" => side.busy = true,
                "--wait" => match words.next()? {
                    "block" => {}
                    "spin" => side.busy = true,
                    _ => return None,
                },
                "--data" => match words.next()? {
                    "words" => side.flags.push("--words"),
                    _ => return None,
                },
                "--huge-page" => side.huge = true,
                "--same-buffer" | "--dont-touch-pages" => side.flags.push(option),
                // The program always checks this itself.
                "--check-huge-page" => {}
                _ => return None,
            }
        }
        Some(side)
    }
}

/// Returns the command line, with a pipe of `pipe_size` unless the writer's options give another
/// size.
pub fn command_line(writer: &str, reader: &str, pipe_size: Option<usize>) -> Option<String> {
    let (writer, reader) = (Side::of(writer, "write")?, Side::of(reader, "read")?);
    // A side that splices has no buffer whose pages could differ.
    let same_pages = writer.huge == reader.huge || reader.how == "splice";
    if writer.chunk != reader.chunk || writer.busy != reader.busy || !same_pages {
        return None;
    }
    let pipe_size = writer.pipe_size.or(pipe_size);
    let words = [
        format!("pipe --writer {} --reader {}", writer.how, reader.how),
        format!("--chunk {}", writer.chunk),
    ];
    let size = pipe_size.map(|size| format!("--pipe-size {size}"));
    let flags = [(writer.huge, "--huge-page"), (writer.busy, "--busy-loop")];
    let flags = flags
        .into_iter()
        .filter_map(|(is, flag)| is.then_some(flag));
    let flags = flags.chain(writer.flags).map(str::to_owned);
    let words: Vec<String> = words.into_iter().chain(size).chain(flags).collect();
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_command_line_where_the_program_has_its_options() {
        let huge = "--write-with-vmsplice --huge-page --check-huge-page";
        for (writer, reader, pipe_size, expected) in [
            ("", "", None, "--writer write --reader read --chunk 262144"),
            (
                huge,
                "--read-with-splice",
                None,
                "--writer vmsplice --reader splice --chunk 262144 --huge-page",
            ),
            (
                "--buf-size 2M --wait spin --data words",
                "--sum --buf-size 2M --busy-loop",
                None,
                "--writer write --reader sum --chunk 2097152 --busy-loop --words",
            ),
            (
                "--pipe-size 1M --wait block",
                "",
                Some(4096),
                "--writer write --reader read --chunk 262144 --pipe-size 1048576",
            ),
            (
                "",
                "",
                Some(4096),
                "--writer write --reader read --chunk 262144 --pipe-size 4096",
            ),
        ] {
            let expected = format!("pipe {expected}");
            assert_eq!(command_line(writer, reader, pipe_size), Some(expected));
        }
    }

    #[test]
    fn what_the_program_has_not_got_is_no_command_line() {
        for (writer, reader) in [
            ("--huge-page", ""),
            ("--busy-loop", ""),
            ("--buf-size 2M", ""),
            ("--memory 2M", ""),
            ("--way fresh", ""),
            ("--wait adaptive", "--wait adaptive"),
            ("--data constant", ""),
            ("--data", ""),
            ("--buf-size", ""),
        ] {
            assert_eq!(
                command_line(writer, reader, None),
                None,
                "{writer}, {reader}"
            );
        }
    }
}
