//! The names of a recorded load on files.
//!
//! The requests of a trace are numbers, and those of a load on files need names, flags and modes
//! too. Few of them differ: a build opens the same headers again and again. So what calls name is
//! kept once, as a list of *places* in the header, and a request lies in its place: place k begins
//! at k · [`PLACE_BYTES`]. What was there before the first call stands beside them, because
//! without it a replay would fail where the recording did not.

mod names;

use std::borrow::Cow;
use std::fmt;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

pub(crate) use self::names::NAME_BYTES_MAX;
pub use self::names::{is_beneath, is_too_long, name_of, shown};
use crate::units::{Bytes, counted, counted_in};

/// So many bytes belong to each place: no file is larger.
pub const PLACE_BYTES: u64 = 1 << 40;

/// The most places, so that every offset fits a number with a sign.
pub const PLACES_MAX: usize = 1 << 22;

/// The names of a recorded load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedFiles {
    /// What was there before the first call, directories before what lies in them.
    pub before: Vec<Before>,
    /// What requests name, by the number of the place.
    pub places: Vec<Place>,
    /// Whether the calls were linked to all that they need: then those without a link between them
    /// may be made in any order. Parents that were inferred from instants do not say that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub linked: bool,
    /// Whether names have escapes for bytes that are no text. Where that is not said, as of names
    /// that earlier versions stored, a backslash is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escaped: bool,
}

impl RecordedFiles {
    /// Names of which some may have escapes.
    pub(crate) fn new(before: Vec<Before>, places: Vec<Place>, linked: bool) -> Self {
        let mut files = Self { before, places, linked, escaped: false };
        let of_before = files.before.iter().flat_map(|it| [Some(&it.path), it.target.as_ref()]);
        let of_places = files.places.iter().flat_map(|it| [Some(&it.path), it.to.as_ref()]);
        files.escaped = of_before.chain(of_places).flatten().any(|text| names::has_escapes(text));
        files
    }

    /// The bytes of a name, or of what a link says.
    pub fn name<'t>(&self, text: &'t str) -> Cow<'t, [u8]> {
        if self.escaped { name_of(text) } else { Cow::Borrowed(text.as_bytes()) }
    }

    /// The place in which a request lies, and how far behind its beginning it does.
    pub fn at(&self, offset_bytes: u64) -> Option<(&Place, u64)> {
        let place = self.places.get(usize::try_from(offset_bytes / PLACE_BYTES).ok()?)?;
        Some((place, offset_bytes % PLACE_BYTES))
    }

    /// How much was there before the first call.
    pub fn found(&self) -> FoundBefore {
        let mut found = FoundBefore::default();
        for before in &self.before {
            match before.kind {
                BeforeKind::Directory => found.directories += 1,
                BeforeKind::Symlink => found.links += 1,
                // Another name of a file that stands in the list too.
                BeforeKind::File if before.target.is_some() => found.links += 1,
                BeforeKind::File => {
                    found.files += 1;
                    found.bytes = found.bytes.saturating_add(before.size);
                }
            }
        }
        found
    }

    /// How many names calls are about.
    pub fn names(&self) -> usize {
        let names = self.places.iter().map(|place| place.path.as_str());
        names.collect::<FxHashSet<&str>>().len()
    }

    /// Whether something has this name in the directory that all names are taken from, or gets it.
    pub fn has_name(&self, name: &str) -> bool {
        let is_it = |path: &str| path.split('/').next() == Some(name);
        let is_its = |place: &Place| is_it(&place.path) || place.to.as_deref().is_some_and(is_it);
        self.before.iter().any(|before| is_it(&before.path)) || self.places.iter().any(is_its)
    }

    /// Refuses names that could lead out of the directory that they are taken from: the text of a
    /// link alone may say anything, because no link is followed.
    ///
    /// # Errors
    ///
    /// With the first of them.
    pub fn check(&self) -> Result<(), String> {
        let names = self.before.iter().map(|before| &before.path);
        let mut names = names.chain(self.places.iter().map(|place| &place.path));
        match names.find(|name| !is_beneath(&self.name(name))) {
            Some(name) => Err(name.clone()),
            None => Ok(()),
        }
    }

    /// Completes what calls told of what was there before them. `now` says what a name stands for
    /// after them, if nobody has changed it since. It is not asked of names that the calls made,
    /// opened to be written, or gave to something else. Answers how much was learned.
    pub fn complete(&mut self, now: impl Fn(&Before) -> Option<Now>) -> u64 {
        let makes = |word: &OpenWord| {
            matches!(word, OpenWord::Write | OpenWord::Create | OpenWord::Truncate)
        };
        let changed = self.places.iter().filter(|place| place.fails.is_none());
        let changed = changed.flat_map(|place| {
            let is_made = place.mode.is_some() || place.open.iter().any(makes);
            place.to.as_deref().into_iter().chain(is_made.then_some(place.path.as_str()))
        });
        let changed: FxHashSet<&str> = changed.collect();
        let mut learned = 0;
        for before in &mut self.before {
            if changed.contains(before.path.as_str()) {
                continue;
            }
            let is_learned = match (before.kind, now(before)) {
                // It is another name of a file that stands in this list too.
                (BeforeKind::File, _) if before.target.is_some() => false,
                (BeforeKind::File, Some(Now::File { size })) if size > before.size => {
                    before.size = size;
                    true
                }
                (BeforeKind::File, Some(Now::Directory)) if before.size == 0 => {
                    before.kind = BeforeKind::Directory;
                    true
                }
                (BeforeKind::Symlink, Some(Now::Symlink { target })) => {
                    self.escaped |= names::has_escapes(&target);
                    before.target.replace(target.clone()).as_ref() != Some(&target)
                }
                _ => false,
            };
            learned += u64::from(is_learned);
        }
        learned
    }
}

/// How much was there before the first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundBefore {
    /// Files.
    pub files: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, and further names of files.
    pub links: u64,
}

impl fmt::Display for FoundBefore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} with {}, {}, {}",
            counted(self.files, "file"),
            Bytes(self.bytes),
            counted_in(self.directories, "directory", "directories"),
            counted(self.links, "link")
        )
    }
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// Its bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// What it says.
        target: String,
    },
}

/// Something that was there before the first call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Its name from the root on, without a slash at its beginning.
    pub path: String,
    /// What it is.
    pub kind: BeforeKind,
    /// The size of a file in bytes, as far as it is known: no less than what was read of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: u64,
    /// What a symbolic link says, or for a file that was there under another name too: that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What was there before the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BeforeKind {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A symbolic link.
    Symlink,
}

/// What a call names: one or two names, and how it asks for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The name from the root on, without a slash at its beginning.
    pub path: String,
    /// The second name of a rename or a link, or what a symbolic link says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How a file is opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenWord>,
    /// The permissions that it is made with or gets, without those that the umask took away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// The error with which the call failed in the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<i32>,
    /// Which of several that were open at once it is, or 0.
    #[serde(default, skip_serializing_if = "is_zero_number")]
    pub copy: u32,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenWord {
    /// To be read.
    Read,
    /// To be written.
    Write,
    /// It is made if it is not there.
    Create,
    /// It must not be there.
    Exclusive,
    /// It loses what it holds.
    Truncate,
    /// Writes go to its end.
    Append,
    /// It must be a directory.
    Directory,
    /// Only as a place in the tree.
    Path,
    /// Writes are on the medium when they complete, with all that is known of the file.
    Sync,
    /// Writes are on the medium when they complete, with what it takes to read them.
    Dsync,
    /// Reads and writes go past the page cache.
    Direct,
    /// Of a rename: the second name must not be there.
    NoReplace,
    /// Of a rename: both names change places.
    Exchange,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

fn is_zero_number(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_found_in_its_place_and_what_is_stored_is_read_alike() {
        let place = |path: &str| Place { path: path.to_owned(), ..Place::default() };
        let opened = Place { open: vec![OpenWord::Read, OpenWord::NoReplace], ..place("b") };
        let before = |kind, size| Before { path: "a".to_owned(), kind, size, target: None };
        let files = RecordedFiles {
            before: vec![before(BeforeKind::Directory, 0), before(BeforeKind::File, 7)],
            places: vec![place("a"), opened],
            ..RecordedFiles::default()
        };
        let (found, within) = files.at(PLACE_BYTES + 12).unwrap();
        assert_eq!((found.path.as_str(), within), ("b", 12));
        assert!(files.at(2 * PLACE_BYTES).is_none());
        assert!(PLACE_BYTES.checked_mul(PLACES_MAX as u64).unwrap() < i64::MAX as u64);
        let text = serde_json::to_string(&files).unwrap();
        assert_eq!(serde_json::from_str::<RecordedFiles>(&text).unwrap(), files);
        assert!(text.contains(r#"{"path":"b","open":["read","no-replace"]}"#), "{text}");
        assert!(serde_json::from_str::<RecordedFiles>(r#"{"before":[],"spaces":[]}"#).is_err());
    }

    #[test]
    fn what_lies_there_afterwards_tells_what_calls_did_not() {
        let before = |path: &str, kind, size| {
            let target = (kind == BeforeKind::Symlink).then(|| "xxx".to_owned());
            Before { path: path.to_owned(), kind, size, target }
        };
        let (file, link) = (BeforeKind::File, BeforeKind::Symlink);
        let place = |path: &str| Place { path: path.to_owned(), ..Place::default() };
        let to = |path: &str| Some(path.to_owned());
        let mut files = RecordedFiles {
            before: vec![
                before("linked", file, 0),
                before("read", file, 90),
                before("opened", file, 0),
                before("replaced", file, 0),
                before("kept", file, 0),
                before("walked", file, 0),
                before("link", link, 0),
                before("gone", file, 5),
            ],
            places: vec![
                Place { to: to("new"), ..place("linked") },
                Place { open: vec![OpenWord::Write], ..place("opened") },
                Place { to: to("replaced"), ..place("x") },
                Place { to: to("kept"), fails: Some(17), ..place("x") },
            ],
            linked: true,
            ..RecordedFiles::default()
        };
        let learned = files.complete(|before| match before.path.as_str() {
            "walked" => Some(Now::Directory),
            "link" => Some(Now::Symlink { target: "a/b".to_owned() }),
            "gone" => None,
            _ => Some(Now::File { size: 70 }),
        });
        let sizes = files.before.iter().map(|before| before.size);
        assert_eq!(sizes.collect::<Vec<_>>(), [70, 90, 0, 0, 70, 0, 0, 5]);
        assert_eq!(files.before[5].kind, BeforeKind::Directory);
        assert_eq!((files.before[6].target.as_deref(), learned), (Some("a/b"), 4));
    }
}
