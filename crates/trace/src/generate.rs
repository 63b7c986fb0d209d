//! Artificial loads, as sources like any file.
//!
//! A recording says what one system did on one day. Testing a device at a rate, a size or a burst
//! that no recording has needs an artificial load, as exact, repeatable and well documented as a
//! recording. So it is described in one line, `gen:random?read=70&size=4k&rate=5000&dist=poisson`,
//! accepted wherever a trace is; the line, with its seed, is its provenance; and the same line
//! makes the same load for ever.
//!
//! The way of a request: `arrival` sets its instant, `place` its position, and `settings` (or a
//! `model`'s mix) its operation and size. `source` puts them together. A further kind is its line
//! in [`KINDS`].

use std::path::Path;

mod arrival;
mod bursts;
pub(crate) mod elementary;
mod kinds;
mod model;
mod place;
pub mod random;
mod settings;
mod size;
mod source;
mod unused;
mod zipf;

#[cfg(test)]
mod tests;

use self::settings::Settings;
use self::source::{Generated, Requests};
use crate::arguments::{ArgumentError, Arguments};
use crate::batch::BATCH_ROWS;
use crate::error::TraceError;
use crate::stream::Source;
use crate::units::Nanos;

pub use self::kinds::KINDS;

/// The prefix of a path that describes a load.
pub const PREFIX: &str = "gen:";

/// The prefix of a line that describes a load on a tree of files. Such a load follows from the tree
/// that it meets, so its requests are made where it is replayed (`ioecho_replay::tree`).
pub const FILES_PREFIX: &str = "files:";

/// The task of [`files_task`] that makes trees.
pub const FORMAT: &str = "format";

/// What a line of a load on files says that is done: `read` of `files:read?size=4k`; `None` of any
/// other line.
pub fn files_task(line: &str) -> Option<&str> {
    line.strip_prefix(FILES_PREFIX)?.split('?').next()
}

/// A kind of artificial load.
#[derive(Debug)]
pub struct Kind {
    /// The name between `gen:` and the settings.
    pub name: &'static str,
    /// The description of the kind, in one or two sentences without a full stop at the end.
    pub help: &'static str,
    /// Reads the settings of this kind and the settings that all kinds share.
    parse: fn(&mut Arguments<'_>) -> Result<Load, ArgumentError>,
}

/// A load as it was described.
struct Load {
    settings: Settings,
    requests: Requests,
    /// The load in words.
    told: String,
}

/// Whether a path is the description of a load.
pub fn is_line(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(PREFIX))
}

/// Whether the load that `path` describes is endless; `false` for an invalid description.
pub fn is_endless(path: &Path) -> bool {
    path.to_str().is_some_and(|line| parse(line).is_ok_and(|load| load.settings.endless))
}

/// The duration in the description `path`, if it has one; a load that is also limited by its number
/// of requests may be shorter.
pub fn duration(path: &Path) -> Option<Nanos> {
    let line = path.to_str().filter(|line| line.starts_with(PREFIX))?;
    parse(line).ok()?.settings.duration
}

/// Whether the description `path` is one.
///
/// # Errors
///
/// Why it is none.
pub fn check(path: &Path) -> Result<(), TraceError> {
    parse(&path.to_string_lossy()).map(drop).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &ArgumentError) -> TraceError {
    TraceError::Unusable {
        path: path.to_owned(),
        reason: error.to_string(),
        remedy: "docs/generators.md lists the kinds of loads and their settings".into(),
    }
}

/// The load that `path`, a line as [`is_line`] recognises it, describes.
pub fn open(path: &Path) -> Result<Box<dyn Source>, TraceError> {
    open_by(path, BATCH_ROWS)
}

/// The same load in batches of at most so many requests, for a thread that has other things to do
/// in between.
pub fn open_by(path: &Path, rows: usize) -> Result<Box<dyn Source>, TraceError> {
    let line = path.to_string_lossy();
    let generated = parse(&line).and_then(|load| Generated::new(&line, load, rows));
    match generated {
        Ok(source) => Ok(Box::new(source)),
        Err(error) => Err(unusable(path, &error)),
    }
}

fn parse(line: &str) -> Result<Load, ArgumentError> {
    let described = line.strip_prefix(PREFIX).unwrap_or(line);
    let (name, settings) = described.split_once('?').unwrap_or((described, ""));
    let kind = KINDS.iter().find(|kind| kind.name == name.trim()).ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        let names = names.join(", ");
        ArgumentError::new(format!("there is no kind of load '{name}'; known are {names}"))
    })?;
    let mut arguments = Arguments::new(settings, '&')?;
    let load = (kind.parse)(&mut arguments)?;
    arguments.finish()?;
    Ok(load)
}
