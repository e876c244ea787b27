//! `fullbore buffer`: what mbuffer is for.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use fullbore::EndReason;
use fullbore::buffer::Level;

use super::json;
use super::output::refuse_shared;
use crate::buffer::as_mbuffer;
use crate::buffer::file::keep_in;
use crate::buffer::hashing::Hashing;
use crate::buffer::messages::Messages;
use crate::buffer::options::Options;
use crate::buffer::running::Sizes;
use crate::buffer::show::Show;
use crate::buffer::summary;
use crate::buffer::summary::Destination;
use crate::copying;
use crate::exit;
use crate::processes::interrupt;
use crate::terminal::lines::say_line;

/// Copy stdin to stdout through a large buffer, so that neither side waits for the other
///
/// The buffer reads on while its output is slow, and keeps its output busy while its input is slow. It
/// takes the options of mbuffer. A byte is passed on as soon as it is there, unless -P or -R says
/// otherwise. Every output gets the bytes as they were when they were read.
///
/// A line on stderr shows the rates and how full the buffer is. At the end, a summary says how much
/// passed, how often the buffer was empty and full, and whether a larger one would have helped.
#[derive(Args)]
#[command(version = env!("FULLBORE_VERSION"))]
#[command(after_help = "\
Examples:
  tar c src | fullbore buffer -m 1G | gzip > src.tgz
  fullbore buffer -i disk.img -o copy1.img -o copy2.img -f
  tar c src | fullbore buffer -m 500M -P 80 -o backup.tar --report
  tar c src | fullbore buffer -t -m 64M | gzip > src.tgz
  fullbore buffer -I 8000 --unseal --atomic -f -o src.tar   # until Ctrl-C
  tar c src | fullbore buffer -O backup:8000 --seal         # needs a host

Exit codes: 0 done, even if the reader of stdout closed it early; 1 the input or an output failed; \
2 the command line is invalid, or an output is also the input.")]
pub struct Buffer {
    #[command(flatten)]
    options: Options,
}

impl Buffer {
    pub fn speaking_as_mbuffer(mut self) -> Self {
        self.options.as_mbuffer = true;
        self
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        let options = &self.options;
        options.check()?;
        let data: Vec<_> = options
            .input
            .as_deref()
            .into_iter()
            .chain(options.outputs.files())
            .collect();
        json::check(&options.json, "the bytes", &data)?;
        if let Some(log) = &options.log {
            refuse_shared("--log-file", log, &data)?;
        }
        let sizes = options.sizes(options.holding().is_none())?;
        let level = options.verbose.unwrap_or(2);
        let (log, as_mbuffer) = (options.log.clone(), options.as_mbuffer);
        let what = "the log could not be opened".to_owned();
        let open = move || Messages::new(log.as_deref(), as_mbuffer, level);
        let messages = options.within(what, open)?;
        match self.pass(&sizes, &messages) {
            Err(error) if messages.has_log() => {
                let Some(code) = exit::code(&error) else {
                    return Ok(ExitCode::SUCCESS);
                };
                messages.error(&error);
                Ok(code)
            }
            Ok(_) if messages.has_failed() => Ok(ExitCode::FAILURE),
            outcome => outcome,
        }
    }

    fn pass(&self, sizes: &Sizes, messages: &Messages) -> anyhow::Result<ExitCode> {
        let options = &self.options;
        if options.pid {
            messages.line(&format!("PID is {}", std::process::id()));
        }
        let is_plain = copying::is_plain()?;
        let holding = options.holding();
        let file = holding.map(|file| file.create(sizes.memory)).transpose()?;
        let mut ends = options.open(messages)?;
        let hashing = options.algorithm().map(Hashing::start).transpose()?;
        let mut moving = options.between(&ends, sizes, is_plain);
        if let Some(file) = file {
            moving = keep_in(file, moving);
        }
        let mut show = Show::new(options, &ends);
        let mut ended = options.run(&ends, moving, hashing.as_ref(), &mut show, messages)?;
        let receiving = ends.receiving.take();
        let seal = receiving.as_ref().map(|receiving| receiving.seal());
        let seal = seal
            .transpose()
            .with_context(|| format!("read from {}", ends.input));
        let seal = seal.unwrap_or_else(|error| {
            ended.failure.get_or_insert(error);
            None
        });
        let is_stdout = |at: usize| {
            ends.sinks
                .get(at)
                .is_some_and(|sink| sink.output.is_stdout())
        };
        let is_of_stdout = ended.failed_at.is_none_or(is_stdout);
        let (destinations, mut all_well) = options.close(ends, &ended, messages);
        if let Some(hashing) = hashing {
            let digest = hashing.finish()?;
            let has_failed = ended.failed_at == Some(destinations.len());
            // Where no output was left, it is that of no stream.
            if ended.report.ended != EndReason::Cancelled && !has_failed {
                messages.line(&digest);
            }
        }
        if !ended.failure.as_ref().is_some_and(exit::is_usage) {
            let said = self.say_at_the_end(&ended.report.level, destinations, &show, messages);
            if let Err(error) = said {
                messages.error(&error);
                all_well = false;
            }
        }
        let code = self.code(ended.failure, is_of_stdout, all_well, messages);
        if let Some(receiving) = receiving {
            let is_well = matches!(code, Ok(ExitCode::SUCCESS)) && !messages.has_failed();
            let seal = seal.filter(|_| is_well && exit::close_stdout().is_ok());
            options.answer(&receiving, seal, messages);
        }
        code
    }

    /// Returns the exit code. Only the reader of stdout may leave early without a word.
    fn code(
        &self,
        failure: Option<anyhow::Error>,
        is_of_stdout: bool,
        all_well: bool,
        messages: &Messages,
    ) -> anyhow::Result<ExitCode> {
        let Some(error) = failure else {
            return Ok(ExitCode::from(u8::from(!all_well)));
        };
        let may_leave = is_of_stdout && !self.options.as_mbuffer && !self.options.unseal;
        if exit::code(&error).is_some() || may_leave && all_well {
            return Err(error);
        }
        if !may_leave {
            messages.error(&error);
        }
        Ok(ExitCode::FAILURE)
    }

    fn say_at_the_end(
        &self,
        level: &Level,
        destinations: Vec<Destination>,
        show: &Show,
        messages: &Messages,
    ) -> anyhow::Result<()> {
        let options = &self.options;
        let outputs = destinations
            .iter()
            .filter(|one| one.error.is_none())
            .count();
        if options.json.is_some() {
            let summary = summary::summary(level, destinations, &show.history.samples);
            let (json, what) = (options.json.clone(), "the report could not be written");
            // The reader of a FIFO may never come; the outputs are in their places.
            interrupt::allow();
            options.within(what.to_owned(), move || json::write(&json, &summary))?;
        }
        let is_shown = match options.log {
            Some(_) => !options.quiet_log,
            None => !options.quiet,
        };
        if options.as_mbuffer {
            let line = as_mbuffer::summary(level, outputs);
            if is_shown {
                messages.line(&line);
            }
            // With a log, the summary is on stderr too.
            if messages.has_log() && !options.quiet {
                say_line(line);
            }
            return Ok(());
        }
        if is_shown {
            messages.sentences(&summary::line(level));
        }
        if is_shown || options.report {
            for line in summary::report(level) {
                messages.sentences(&line);
            }
        }
        Ok(())
    }
}
