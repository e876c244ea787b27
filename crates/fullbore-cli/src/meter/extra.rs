//! Other places where a meter shows its line: the title of the terminal's window, and the process' command line.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::str::FromStr;

use fullbore_host::text::without_escapes;

use super::format::Format;
use super::look::Look;
use crate::terminal::line::Reading;
use crate::terminal::lines::say;

/// Where the line is shown besides, and in which format if that is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    window: bool,
    process: bool,
    format: Option<String>,
    /// The name by which this process was called.
    who: String,
}

impl FromStr for Extra {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let format = text.split_once(':').map(|(_, format)| format.to_owned());
        let places = text.split(':').next().unwrap_or_default();
        let (mut window, mut process) = (false, false);
        for place in places.split(',') {
            match place {
                "window" | "windowtitle" => window = true,
                "process" | "proc" | "processtitle" | "proctitle" => process = true,
                _ => {
                    return Err(format!(
                        "invalid place '{place}': expected window or process"
                    ));
                }
            }
        }
        Ok(Self {
            window,
            process,
            format,
            who: std::env::args().next().unwrap_or_default(),
        })
    }
}

impl Extra {
    /// Shows the line about a reading.
    pub fn show(&self, look: &Look, reading: &Reading, columns: usize) {
        let line = match &self.format {
            Some(format) => {
                let appearance = look.appearance().cloned().unwrap_or_default();
                Format::new(format).line(reading, &appearance, columns)
            }
            None => look.line(reading, columns),
        };
        let line = without_escapes(&line);
        if self.window {
            // Operating System Command 2 of xterm sets the title.
            say(&format!("\x1b]2;{line}\x1b\\"));
        }
        if self.process {
            // It is only decoration: an error changes nothing else.
            let _ = set_command_line(&format!("{} -- {line}", self.who));
        }
    }
}

/// Writes over the arguments of this process, which ps(1) shows. They are where proc_pid_stat(5) says (`arg_start`,
/// `arg_end`), and nothing reads them any more.
fn set_command_line(text: &str) -> io::Result<()> {
    let stat = procfs::process::Process::myself().and_then(|process| process.stat());
    let stat = stat.map_err(io::Error::other)?;
    let (Some(start), Some(end)) = (stat.arg_start, stat.arg_end) else {
        return Ok(());
    };
    let room = end.saturating_sub(start) as usize;
    let mut bytes = vec![0; room];
    let length = text.len().min(room.saturating_sub(1));
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    let memory = File::options().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&bytes, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_with_their_format() {
        let read = |text: &str| {
            text.parse::<Extra>()
                .ok()
                .map(|e| (e.window, e.process, e.format))
        };
        assert_eq!(read("window"), Some((true, false, None)));
        assert_eq!(
            read("proc,windowtitle:%t: %b"),
            Some((true, true, Some("%t: %b".into())))
        );
        assert_eq!(read("elsewhere"), None);
    }
}
