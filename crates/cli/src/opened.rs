//! What the user of a command names, opened: files, what stands at an URL, loads of a library.

use std::path::{Path, PathBuf};

use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::{Load, Parts};
use ioecho_trace::{Source, Stop, TraceError};

use crate::print::tell;
use crate::run::error::{Result, RunError};
use crate::run::fetch;
use crate::run::open::{self, Opener};

/// Finds what a user names, wherever it is, and tells on the standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Named;

impl Opener for Named {
    fn file(&self, path: &Path) -> Result<PathBuf> {
        fetch::local(path)
    }

    fn unopened(&self, path: &Path, error: TraceError) -> RunError {
        match fetch::is_library(path) {
            Some(library) => library,
            // Where it is kept says nothing to whoever asked for it.
            None if fetch::is_url(path) => RunError::from(error).within(path.display().to_string()),
            None => error.into(),
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

/// The same, until an end is asked for.
pub(crate) fn trace_until(
    stop: &Stop,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
) -> Result<Box<dyn Source>> {
    open::trace_until(&Named, stop, path, options, load)
}

/// Opens the trace at `path` and divides it, if the last one of its transforms makes several traces
/// of it. What `over` lays over the trace stands before that.
pub(crate) fn parts(
    stop: &Stop,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
    over: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>,
) -> Result<Option<Box<dyn Parts>>> {
    open::parts(&Named, stop, path, options, load, over)
}
