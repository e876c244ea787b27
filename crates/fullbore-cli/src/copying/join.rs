//! Several inputs, one after the other, into one output.

use std::ops::ControlFlow;
use std::process::ExitCode;

use super::ends::{Input, Output};
use super::failure::{is_about_an_input, is_closed_output};

/// Calls `pass` for each input, until it breaks off. As with cat, an input that cannot be read does not
/// stop the others: `say` reports it, and the exit code is 1.
///
/// # Errors
/// If an input is also the output, before anything is opened; and those errors of `pass` that do not
/// concern an input.
pub fn join(
    inputs: &[Input],
    output: &mut Output,
    say: impl Fn(&anyhow::Error),
    mut pass: impl FnMut(&Input, &mut Output) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<ExitCode> {
    output.refuse(inputs)?;
    let mut all_well = true;
    for input in inputs {
        match pass(input, output) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(error) if is_about_an_input(&error) => {
                say(&error);
                all_well = false;
            }
            // A closed output does not hide that an input could not be read.
            Err(error) if is_closed_output(&error) && !all_well => break,
            Err(error) => return Err(error),
        }
    }
    Ok(ExitCode::from(u8::from(!all_well)))
}
