//! Transforms of a trace between its source and its reader.
//!
//! A load is rarely replayed as it was recorded: it is cut to its peak, repeated, spread over a
//! larger device. Each transform is a [`Source`] over a source and streams. Each writes itself into
//! [`Header::transforms`](crate::Header::transforms), so that a trace that was cut or scaled never
//! passes for the recording; these lines can be parsed into a chain again.
//!
//! A further transform is a module with a [`Kind`] and its line in [`KINDS`]; the command line
//! and the documentation of flags follow from that. Most are a [`Step`](stage::Step) that changes
//! a batch in place and leave the rest to [`Stage`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::stop::Stop;
use crate::stream::{Opened, Source};

pub mod adjacent;
pub mod anonymise;
pub mod busiest;
mod called;
pub mod cmd;
pub mod derive;
pub mod filter;
pub mod merge;
pub mod parts;
mod place;
pub mod ramp;
pub mod rate;
pub mod rejoin;
pub mod remap;
pub mod repeat;
pub mod resize;
pub mod reverse;
pub mod sample;
pub mod slip;
pub mod speed;
pub mod split;
pub mod spread;
pub mod stage;
pub mod substitute;
mod survey;
#[cfg(test)]
pub(crate) mod testing;
pub mod thin;
pub mod unstack;
pub mod window;

pub use crate::arguments::{ArgumentError, Arguments, exact};
pub use parts::{Divide, Parts};
pub use stage::Stage;
pub use window::Window;

/// Every transform, in the order in which they are listed for people.
pub const KINDS: &[Kind] = &[
    window::KIND,
    busiest::KIND,
    filter::KIND,
    sample::KIND,
    thin::KIND,
    merge::KIND,
    adjacent::KIND,
    repeat::KIND,
    reverse::KIND,
    derive::KIND,
    split::KIND,
    speed::KIND,
    rate::KIND,
    ramp::KIND,
    slip::KIND,
    spread::KIND,
    remap::KIND,
    resize::KIND,
    substitute::KIND,
    unstack::KIND,
    rejoin::KIND,
    anonymise::KIND,
    cmd::KIND,
];

/// A kind of transform: its name, and the way in which its arguments are read.
#[derive(Debug)]
pub struct Kind {
    /// The name of the transform: its flag on the command line, and the first word in provenance.
    pub name: &'static str,
    /// A placeholder for the text behind the name: `FACTOR[,align=SIZE]`. Empty for no text.
    pub value: &'static str,
    /// The description of the transform, in one or two sentences without a full stop at the end.
    pub help: &'static str,
    /// Whether the transform must hold the trace in a temporary file; with some arguments it need
    /// not ([`Transform::streams`]).
    pub spills: bool,
    /// Reads the text behind the name.
    pub parse: fn(&str) -> Result<Box<dyn Transform>, ArgumentError>,
}

/// The context that a transform may need beside its source.
pub struct Context<'a> {
    /// Opens another trace, in any format.
    pub open: &'a dyn Fn(&Path) -> Opened,
    /// The directory of temporary files.
    pub spill_directory: PathBuf,
    /// A request to stop, for transforms that work for long on their own.
    pub stop: Stop,
}

/// A transform with its arguments, checked, ready to be laid over a source.
pub trait Transform: fmt::Debug + Send + Sync {
    /// Lays the transform over `source`.
    fn over(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError>;

    /// The division of the trace into several; `None` for a transform that makes one trace.
    fn divide(&self) -> Option<&dyn Divide> {
        None
    }

    /// `text`, from which the transform was parsed, without a key, so that it can be shown and
    /// stored.
    fn shown(&self, text: &str) -> String {
        text.to_owned()
    }

    /// Whether the transform holds nothing with these arguments, although its kind does.
    fn streams(&self) -> bool {
        false
    }

    /// The path of the other trace that the transform reads; `None` if it reads none.
    fn other_trace(&self) -> Option<&Path> {
        None
    }

    /// Whether the transform ends a trace that has no end.
    fn ends(&self) -> bool {
        false
    }

    /// Whether the transform leaves everything as it is up to some instant, and nothing behind it.
    fn is_beginning(&self) -> bool {
        false
    }
}

/// A transform as the user asked for it: `busiest 5m,by=bytes`. It is stored as that line, with its
/// key where it has one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Asked {
    /// The kind of the transform.
    pub kind: &'static Kind,
    /// The text behind the name.
    pub text: String,
    transform: Arc<dyn Transform>,
}

impl Asked {
    /// The transform of this kind that `text` describes.
    pub fn new(kind: &'static Kind, text: &str) -> Result<Self, ArgumentError> {
        Ok(Self { kind, text: text.to_owned(), transform: (kind.parse)(text)?.into() })
    }

    /// The division of the trace into several; `None` for a transform that makes one trace.
    pub fn divide(&self) -> Option<&dyn Divide> {
        self.transform.divide()
    }

    /// Whether the transform must hold the trace, and so reads all of it before the first request.
    pub fn spills(&self) -> bool {
        self.kind.spills && !self.transform.streams()
    }

    /// The path of the other trace that the transform reads; `None` if it reads none.
    pub fn other_trace(&self) -> Option<&Path> {
        self.transform.other_trace()
    }

    /// Whether the transform ends a trace that has no end.
    pub fn ends(&self) -> bool {
        self.transform.ends()
    }

    /// Whether the transform leaves everything as it is up to some instant, and nothing behind it.
    pub fn is_beginning(&self) -> bool {
        self.transform.is_beginning()
    }
}

impl FromStr for Asked {
    type Err = ArgumentError;

    /// Reads a line of provenance: a name, a blank, the arguments.
    fn from_str(line: &str) -> Result<Self, ArgumentError> {
        let (name, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            let names = names.join(", ");
            ArgumentError::new(format!("there is no transform '{name}'; known are {names}"))
        })?;
        Self::new(kind, text.trim())
    }
}

impl TryFrom<String> for Asked {
    type Error = ArgumentError;

    fn try_from(line: String) -> Result<Self, ArgumentError> {
        line.parse()
    }
}

impl From<Asked> for String {
    fn from(asked: Asked) -> Self {
        let blank = if asked.text.is_empty() { "" } else { " " };
        format!("{}{blank}{}", asked.kind.name, asked.text)
    }
}

impl fmt::Display for Asked {
    /// The line of provenance as it was asked for, without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.transform.shown(&self.text);
        let blank = if text.is_empty() { "" } else { " " };
        write!(f, "{}{blank}{text}", self.kind.name)
    }
}

/// The load to use: a part of a trace, with transforms applied to it.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The part of the trace that is used.
    pub window: Window,
    /// The transforms, the first one first.
    pub chain: Vec<Asked>,
}

impl Load {
    /// Whether the trace is used as it is.
    pub fn is_whole(&self) -> bool {
        self.window.is_all() && self.chain.is_empty()
    }
}

/// Lays every transform of `chain` over `source`, the first one first.
pub fn apply(
    chain: &[Asked],
    source: Box<dyn Source>,
    context: &Context<'_>,
) -> Result<Box<dyn Source>, TraceError> {
    chain.iter().try_fold(source, |source, asked| asked.transform.over(source, context))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Batch, Columns, Header, Request, TraceError};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A source of given requests, in batches of a given size.
    pub(crate) struct Given {
        header: Header,
        batches: Vec<Batch>,
        next: usize,
        asked_for: Arc<AtomicUsize>,
    }

    impl Given {
        pub(crate) fn new(requests: &[Request], rows: usize) -> Self {
            let columns =
                Columns { latency: true, origin: true, measured: true, dependencies: false };
            let header = Header { columns, ..Header::default() };
            let batches = requests
                .chunks(rows)
                .map(|chunk| {
                    let mut batch = Batch::new(columns);
                    batch.extend(chunk);
                    batch
                })
                .collect();
            Self { header, batches, next: 0, asked_for: Arc::default() }
        }

        /// The header of the trace, to be changed.
        pub(crate) fn header_mut(&mut self) -> &mut Header {
            &mut self.header
        }

        /// The number of batches that were asked for, which can be read while the source is in use.
        pub(crate) fn batches_given(&self) -> Arc<AtomicUsize> {
            Arc::clone(&self.asked_for)
        }
    }

    impl Source for Given {
        fn header(&self) -> &Header {
            &self.header
        }

        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
            batch.reset(self.header.columns);
            let Some(next) = self.batches.get(self.next) else { return Ok(false) };
            batch.append(next, 0, next.len());
            self.next += 1;
            self.asked_for.store(self.next, Ordering::Relaxed);
            Ok(true)
        }
    }

    /// The result of the transform in `line` for `requests`, and the header then. Checks that the
    /// order and the declared columns are kept, and that the line of provenance makes the same
    /// result again.
    pub(crate) fn made(line: &str, requests: &[Request], rows: usize) -> (Vec<Request>, Header) {
        let (all, header) = once(line, requests, rows);
        assert!(all.is_sorted_by_key(|request| request.issue), "{line}");
        let told = header.transforms.last().unwrap();
        assert_eq!(once(told, requests, rows), (all.clone(), header.clone()), "{line}");
        (all, header)
    }

    pub(crate) fn once(line: &str, requests: &[Request], rows: usize) -> (Vec<Request>, Header) {
        let directory = tempfile::tempdir().unwrap();
        let context = Context {
            open: &|path| panic!("{} is not to be opened", path.display()),
            spill_directory: directory.path().to_owned(),
            stop: Stop::default(),
        };
        let given = Box::new(Given::new(requests, rows));
        let mut source = apply(&[line.parse().unwrap()], given, &context).unwrap();
        let (mut batch, mut all) = (Batch::default(), Vec::new());
        while source.next_batch(&mut batch).unwrap() {
            assert!(!batch.is_empty() && batch.columns() == source.header().columns, "{line}");
            all.extend(batch.iter());
        }
        assert!(!source.next_batch(&mut batch).unwrap() && batch.is_empty(), "{line}");
        (all, source.header().clone())
    }

    /// The error for `line`.
    pub(crate) fn refused(line: &str) -> String {
        line.parse::<Asked>().unwrap_err().to_string()
    }
}
