//! The choice of the members of an archive that make up the trace.
//!
//! Published archives have a licence beside the traces, and a file for every volume of the same
//! month. So the first member with a known format decides the format of the archive; further
//! members of that format belong to the trace, and all others are skipped and named. The format
//! knows how several members combine ([`Several`]). Independent lines can be sorted by time. The
//! second header of a binary file, however, would be read as requests, and recordings of two
//! processors read as one would give wrong latencies. Such members are refused.
//!
//! Another thread reads the archive, so the choice is shared with it.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{FORMATS, Format, blktrace};
use crate::compression::{self, Choice};
use crate::encoding;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Notes, Topic};
use crate::stream::Label;
use crate::wording::Wording;

/// The way in which several files of a format in one archive combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Several {
    /// Parts of one trace, merged in the order of time: every line is independent.
    ByTime,
    /// Traces one after the other, as this format defines several loads in one file.
    InTurn,
    /// Files that must be read separately, because the meaning of a record depends on earlier ones.
    Apart,
}

/// The guess that several members are one trace.
pub const BY_TIME: Topic<'static> =
    NoteKind::Order.of("members of the archive, put together in the order of time");

/// The guess that several members follow each other.
pub const IN_TURN: Topic<'static> =
    NoteKind::Assumed.of("members of the archive, read one behind the other");

/// The loss of a member that is no trace.
pub const STRANGE: Topic<'static> =
    NoteKind::Unreadable.of("members of the archive that are of no known format");

/// The loss of a member that is another trace.
pub const OTHER: Topic<'static> =
    NoteKind::Unreadable.of("members of the archive of another format than the first");

/// The members of an archive that were looked at so far.
#[derive(Clone)]
pub(super) struct Members(Arc<Mutex<Found>>);

struct Found {
    /// The format of the trace; `None` until it is known.
    format: Option<&'static Format>,
    /// Whether the user gave the format.
    is_asked: bool,
    /// The number of members that are taken.
    taken: u64,
    /// The name of the first member that is taken.
    first: String,
    /// The name of the first member that cannot be read together with `first`.
    second: Option<String>,
    /// Notes on the members that are taken, and on those that are not.
    together: Notes,
    lost: Notes,
}

impl Members {
    /// Looks for members of the format `asked`, if the user gave one.
    pub(super) fn new(asked: Option<&'static Format>) -> Self {
        Self(Arc::new(Mutex::new(Found {
            format: asked,
            is_asked: asked.is_some(),
            taken: 0,
            first: String::new(),
            second: None,
            together: Notes::default(),
            lost: Notes::default(),
        })))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Found) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Chooses the members of the trace. If no two members of a format can be read together, the
    /// archive ends at the second.
    pub(super) fn choice(&self) -> Choice {
        let members = self.clone();
        Box::new(move |name, first_bytes| members.with(|found| found.choose(name, first_bytes)))
    }

    /// Finds out, before the archive at `path` is read, whether more than one member belongs to the
    /// trace. Errors of the archive are ignored here; they show when it is read.
    pub(super) fn look_ahead(path: &Path, asked: Option<&'static Format>) -> io::Result<Self> {
        let ahead = Self::new(asked);
        let mut choose = ahead.choice();
        let members = ahead.clone();
        let choice: Choice = Box::new(move |name, first_bytes| {
            let taken = choose(name, first_bytes)?;
            match members.taken() {
                0 | 1 => Ok(taken),
                _ => Err(io::Error::other("this is enough")),
            }
        });
        // An error ends the look, too.
        let _ = compression::look_through(File::open(path)?, choice);
        Ok(ahead)
    }

    /// The number of members that are taken.
    pub(super) fn taken(&self) -> u64 {
        self.with(|found| found.taken)
    }

    /// The format of the trace, once a member was taken.
    pub(super) fn format(&self) -> Option<&'static Format> {
        self.with(|found| found.format)
    }

    /// The error if the members cannot be read together.
    pub(super) fn refusal(&self, path: &Path) -> Option<TraceError> {
        let (reason, remedy) = self.with(|found| found.refusal())?;
        Some(TraceError::Unusable { path: path.to_owned(), reason, remedy })
    }

    /// The error if there are members and none was taken.
    pub(super) fn nothing(&self, path: &Path) -> Option<TraceError> {
        self.with(|found| {
            let note = found.lost.iter().next().filter(|_| found.taken == 0)?;
            Some(TraceError::Unusable {
                path: path.to_owned(),
                reason: format!(
                    "this is an archive, and none of its {} members is of a known format: {}",
                    note.count,
                    note.examples.join(", ")
                ),
                remedy: Wording::from("if they are traces, ").and(super::forced()),
            })
        })
    }
}

impl Found {
    fn choose(&mut self, name: &str, first_bytes: &[u8]) -> io::Result<bool> {
        // The reader of lines skips the byte order mark, so the mark must not influence
        // recognition.
        let first_bytes = encoding::unmarked(first_bytes);
        let recognises = |format: &&Format| (format.recognise)(first_bytes);
        let format = match self.format {
            Some(format) if self.is_asked || recognises(&format) => format,
            known => match (known, FORMATS.iter().find(recognises)) {
                (None, Some(format)) => format,
                (known, other) => {
                    let what = if known.is_some() && other.is_some() { OTHER } else { STRANGE };
                    self.lost.add(what, 1, Some(name.to_owned()));
                    return Ok(false);
                }
            },
        };
        self.format = Some(format);
        self.taken += 1;
        if self.taken == 1 {
            name.clone_into(&mut self.first);
        }
        match format.several {
            Several::ByTime => self.together.add(BY_TIME, 1, Some(name.to_owned())),
            Several::InTurn => self.together.add(IN_TURN, 1, Some(name.to_owned())),
            Several::Apart if self.taken == 1 => {}
            Several::Apart => {
                self.second.get_or_insert_with(|| name.to_owned());
                let (reason, remedy) = self.refusal().unwrap_or_default();
                return Err(io::Error::other(format!("{reason}\n  = help: {remedy}")));
            }
        }
        Ok(true)
    }

    /// The reason why the members cannot be read together, and the remedy.
    fn refusal(&self) -> Option<(String, Wording)> {
        let (first, second) = (&self.first, self.second.as_ref()?);
        let format = self.format?;
        let reason = format!(
            "this is an archive with several files of {} ('{first}', '{second}'), which cannot be \
             read as one",
            format.title
        );
        let prefix = |name: &str| {
            let prefix = name.rsplit_once(".blktrace.").map(|(prefix, _)| prefix.to_owned());
            prefix.filter(|_| format.name == blktrace::FORMAT.name)
        };
        let remedy = match (prefix(first), prefix(second)) {
            (Some(one), Some(other)) if one == other => {
                format!("unpack it and name what its files' names begin with: {one}").into()
            }
            (Some(one), Some(other)) => Wording::from(
                "unpack it and name what the files' names of each recording begin with, and put \
                 them together with ",
            )
            .setting("merge")
            .text(format!(": {one}, {other}")),
            _ => Wording::from("unpack it, convert each and put them together with ")
                .setting("merge"),
        };
        Some((reason, remedy))
    }

    /// Adds the notes on the members to `header`.
    fn note(&self, header: &mut Header) {
        if self.taken > 1 {
            self.together.iter().for_each(|note| header.guesses.add_note(note));
        }
        self.lost.iter().for_each(|note| header.losses.add_note(note));
    }
}

/// Writes into the header which members of the archive were read, and which were not.
impl Label for Members {
    fn write(&mut self, header: &mut Header) {
        self.with(|found| found.note(header));
    }
}
