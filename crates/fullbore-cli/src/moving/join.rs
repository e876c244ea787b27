//! Several inputs, one after the other, into one output.

use std::ops::ControlFlow;
use std::process::ExitCode;

use super::ends::{Input, Output};
use super::failure::{is_about_an_input, is_closed_output};

/// Passes each input on with `pass`, until it breaks off. As with cat, one that cannot be read does not
/// keep back the others: `say` tells of it, and the exit code remembers it.
///
/// # Errors
/// Where an input is the output, before anything is opened; those of `pass` that are not about an
/// input.
pub fn join(
    inputs: &[Input],
    output: &mut Output,
    say: impl Fn(&anyhow::Error),
    mut pass: impl FnMut(&Input, &mut Output) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<ExitCode> {
    if inputs.len() > 1 {
        // One alone is refused before its first byte.
        output.refuse(inputs)?;
    }
    let mut all_well = true;
    for input in inputs {
        match pass(input, output) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(error) if is_about_an_input(&error) => {
                say(&error);
                all_well = false;
            }
            // A reader that went away does not make up for an input that was missing.
            Err(error) if is_closed_output(&error) && !all_well => break,
            Err(error) => return Err(error),
        }
    }
    Ok(ExitCode::from(u8::from(!all_well)))
}
