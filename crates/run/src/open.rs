//! Opens a trace by its path: a file in any format, or a run's directory, whose results are a
//! trace.

use std::io;
use std::path::{Path, PathBuf};

use ioecho_trace::formats::{self, Order, ReadOptions};
use ioecho_trace::transform::{self, Asked, Context, Load, Parts};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Header, Source, Stop, TraceError, generate};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::results;

/// Resolves the paths of traces, and passes on messages about slow or large operations.
pub trait Opener: Sync {
    /// The file behind a path. The path may name something else: a URL to fetch, or a load in a
    /// library.
    fn file(&self, path: &Path) -> Result<PathBuf>;

    /// The error for a path whose file is not a trace.
    fn unopened(&self, path: &Path, error: TraceError) -> RunError;

    /// Receives a message for the user.
    fn tell(&self, text: &str);
}

/// Paths are files of this host, and messages are dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Opener for Files {
    fn file(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn unopened(&self, _path: &Path, error: TraceError) -> RunError {
        error.into()
    }

    fn tell(&self, _text: &str) {}
}

/// Opens the trace at `path`, cut to `window` and then transformed. Reading ends when `stop` is
/// raised.
pub fn trace_until(
    opener: &dyn Opener,
    stop: &Stop,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
) -> Result<Box<dyn Source>> {
    refuse_two_inputs(path, &load.chain)?;
    let file = opener.file(path)?;
    let source: Box<dyn Source> = match RunDirectory::at(&file) {
        None => {
            if options.order == Order::Whole {
                tell_spill(opener, "sort-whole");
            }
            formats::open(&file, options).map_err(|error| opener.unopened(path, error))?
        }
        Some(run) => results::open(&run, options)?,
    };
    let source = stop.over(source);
    let Load { window: part, chain } = load;
    let is_part = !part.is_all();
    if !is_part && chain.is_empty() && !generate::is_line(path) {
        return Ok(source);
    }
    if let Some(unending) = unending(path, load).0 {
        return Err(has_no_end(&unending));
    }
    let source = if is_part { part.of(source) } else { source };
    tell_spills(opener, chain);
    let mut source =
        in_context(opener, stop, options, |context| transform::apply(chain, source, context))?;
    // A window outside of the trace is a mistake, and without this error its replay would seem
    // perfect.
    let mut first = Batch::new(source.header().columns);
    if !source.next_batch(&mut first)? {
        let name = path.display();
        if !is_part && chain.is_empty() {
            let text = format!(
                "{name}: it makes no request\n  = help: give it a longer `duration`, or a rate"
            );
            return Err(RunError::new(Kind::Usage, text));
        }
        let is_filtered = chain.iter().any(|asked| asked.kind.name == "filter");
        let says = match (is_filtered, is_part) {
            (true, false) => {
                " says what its volumes are called and how large its requests are; a filter's \
                 words mean what docs/transforms.md says"
            }
            (true, true) => " says when its requests were issued and to what",
            _ => " says when its requests were issued",
        };
        let help = Wording::default().command("info", name.to_string()).text(says);
        let text = format!("{name}: no request is left of it");
        return Err(RunError::with_help(Kind::Usage, text, help));
    }
    Ok(Box::new(Begun { first: Some(first), source }))
}

/// Refuses the standard input as two inputs: the first reader would take all of it.
fn refuse_two_inputs(path: &Path, chain: &[Asked]) -> Result<()> {
    let merges = |asked: &&Asked| {
        let file = asked.text.split(',').next().unwrap_or_default().trim();
        asked.kind.name == "merge" && file == "-"
    };
    let named = usize::from(path == Path::new("-")) + chain.iter().filter(merges).count();
    if named < 2 {
        return Ok(());
    }
    let text = "the standard input is named twice, and can be read once\n  = help: put one of the \
                traces into a file";
    Err(RunError::new(Kind::Usage, text))
}

/// Names the transforms that need disk space, and its place.
fn tell_spills(opener: &dyn Opener, chain: &[Asked]) {
    for asked in chain.iter().filter(|asked| asked.spills()) {
        tell_spill(opener, asked.kind.name);
    }
}

fn tell_spill(opener: &dyn Opener, name: &str) {
    let directory = std::env::temp_dir();
    opener.tell(&format!("{name} keeps the trace in a temporary file in {}", directory.display()));
}

/// The services that transforms may need in addition to their source.
fn in_context<T>(
    opener: &dyn Opener,
    stop: &Stop,
    options: &ReadOptions,
    run: impl FnOnce(&Context<'_>) -> T,
) -> T {
    // Options for the main trace need not apply to a trace that is merged into it.
    let options = ReadOptions { all_apply: false, ..options.clone() };
    let open = |path: &Path| {
        let unfetched =
            |error: RunError| TraceError::read(path, io::Error::other(error.to_string()));
        let file = opener.file(path).map_err(unfetched)?;
        Ok(stop.over(formats::open(&file, &options)?))
    };
    run(&Context { open: &open, spill_directory: std::env::temp_dir(), stop: stop.clone() })
}

/// Opens the trace at `path` as [`trace_until`] does. If the last of its transforms makes several
/// traces of it, it is divided by that; the transforms before it come first, and `over` is applied
/// before the division.
pub fn parts(
    opener: &dyn Opener,
    stop: &Stop,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
    over: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>,
) -> Result<Option<Box<dyn Parts>>> {
    let mut load = load.clone();
    let last = load.chain.pop();
    let Some(divide) = last.as_ref().and_then(Asked::divide) else { return Ok(None) };
    tell_spills(opener, last.as_slice());
    let source = over(trace_until(opener, stop, path, options, &load)?);
    Ok(Some(in_context(opener, stop, options, |context| divide.divide(source, context))?))
}

/// Refuses an endless load without a window: reading it to its end would never finish.
pub fn refuse_endless(path: &Path, load: &Load) -> Result<()> {
    match unending(path, load) {
        (Some(unending), _) | (None, Some(unending)) => Err(has_no_end(&unending)),
        (None, None) => Ok(()),
    }
}

/// Two endless generated loads, if they exist: one that a transform would read to its end, and one
/// that is still endless after all transforms.
fn unending(path: &Path, load: &Load) -> (Option<PathBuf>, Option<PathBuf>) {
    let endless = |path: &Path| generate::is_endless(path).then(|| path.to_owned());
    let is_cut = load.window.duration.is_some();
    let mut unending = if is_cut { None } else { endless(path) };
    for asked in &load.chain {
        unending = unending.or_else(|| asked.other_trace().and_then(endless));
        if asked.ends() {
            unending = None;
        }
        if asked.spills() && unending.is_some() {
            return (unending, None);
        }
    }
    (None, unending)
}

fn has_no_end(path: &Path) -> RunError {
    let help = Wording::from("give it a `duration` or a `count`, or cut it with ")
        .setting("duration")
        .text(" or with ")
        .set("window", "START,DURATION")
        .text(" before whatever needs the end");
    RunError::with_help(Kind::Usage, format!("{} has no end", path.display()), help)
}

/// A source whose first batch was already read.
struct Begun<S> {
    first: Option<Batch>,
    source: S,
}

impl<S: Source> Source for Begun<S> {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        match self.first.take() {
            Some(first) => {
                *batch = first;
                Ok(true)
            }
            None => self.source.next_batch(batch),
        }
    }
}
