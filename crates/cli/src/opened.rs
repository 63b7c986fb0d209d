//! Opens the inputs that a user names: files, URLs, loads of libraries.

use std::path::{Path, PathBuf};

use ioecho_run::error::{Result, RunError};
use ioecho_run::open::{self, Opener};
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::{Load, Parts};
use ioecho_trace::units::counted;
use ioecho_trace::{Header, Source, Stop, TraceError};

use crate::exit;
use crate::fetch;
use crate::print::{tell, visible};
use crate::results::is_campaign;

/// Finds an input by its name, wherever it is, and prints messages on the standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Named;

impl Opener for Named {
    fn file(&self, path: &Path) -> Result<PathBuf> {
        fetch::local(path)
    }

    fn unopened(&self, path: &Path, error: TraceError) -> RunError {
        match fetch::is_library(path) {
            Some(library) => library,
            // The user does not know the file in the cache, so the error names the URL.
            None if fetch::is_url(path) => RunError::from(error).within(path.display().to_string()),
            None => is_campaign(path).unwrap_or_else(|| error.into()),
        }
    }

    fn tell(&self, text: &str) {
        tell(text);
    }
}

/// Opens the trace at `path`, cut to its window and then transformed.
pub(crate) fn trace(path: &Path, options: &ReadOptions, load: &Load) -> Result<Box<dyn Source>> {
    trace_until(&Stop::default(), path, options, load)
}

/// The same, until somebody asks for the end.
pub(crate) fn trace_until(
    stop: &Stop,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
) -> Result<Box<dyn Source>> {
    open::trace_until(&Named, stop, path, options, load)
}

/// Opens the trace at `path` and divides it, if the last of its transforms makes several traces.
/// Before that, `over` may put another source over the trace.
pub(crate) fn parts(
    stop: &Stop,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
    over: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>,
) -> Result<Option<Box<dyn Parts>>> {
    open::parts(&Named, stop, path, options, load, over)
}

/// Prints how much a reader read, lost, guessed and could not read. Returns the exit code.
pub(crate) fn tell_import(header: &Header) -> u8 {
    if let Some(imported) = &header.imported {
        let (units, unit) = (imported.units, visible(&imported.unit));
        let made = counted(imported.requests, "request");
        tell(&format!("read: {units} {unit}, which made {made}"));
    }
    for (kind, notes) in [("lost", &header.losses), ("guessed", &header.guesses)] {
        for note in notes.iter() {
            tell(&format!("{kind}: {}", visible(&note.to_string())));
            for example in &note.examples {
                tell(&format!("  | {}", visible(example)));
            }
        }
    }
    tell_damage(header)
}

/// Prints only whether a trace is incomplete. Returns the exit code.
pub(crate) fn tell_damage(header: &Header) -> u8 {
    match &header.damage {
        Some(damage) => {
            tell(&format!("warning: the trace ends before its end: {}", visible(damage)));
            exit::DAMAGED
        }
        None => exit::OK,
    }
}
