//! The raw mode of a terminal: it sends each key at once, and signals nothing.

use std::io::{Write, stdin, stdout};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// The settings of the terminal before it was taken.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Takes the terminal: raw mode, the alternate screen, and no cursor.
///
/// # Errors
/// Fails if the terminal fails.
pub fn take() -> std::io::Result<()> {
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if before.is_none() {
        *before = Some(tcgetattr(stdin())?);
        let mut out = stdout().lock();
        out.write_all(b"\x1b[?1049h\x1b[?25l")?;
        out.flush()?;
    }
    // They may have been changed since.
    let mut settings = tcgetattr(stdin())?;
    settings.make_raw();
    // A read finds nothing rather than wait: another process of this terminal may have read what poll(2) reported.
    settings.special_codes[SpecialCodeIndex::VMIN] = 0;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    Ok(tcsetattr(stdin(), OptionalActions::Now, &settings)?)
}

/// Gives the terminal back as it was. Errors are ignored, because the terminal may be gone.
pub fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
        let mut out = stdout().lock();
        let _ = out.write_all(b"\x1b[?1049l\x1b[?25h");
        let _ = out.flush();
    }
}
