//! Other places where a meter shows its line: the title of the terminal's window, and the process' command line.

use std::str::FromStr;

use fullbore_host::text::without_escapes;

use super::format::Format;
use super::look::Look;
use crate::processes::title::set_command_line;
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
            set_command_line(&format!("{} -- {line}", self.who));
        }
    }
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
