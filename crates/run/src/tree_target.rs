//! A tree of files as a target: `tree:/mnt/x?depth=2&width=4&files=100&size=4k`, or in memory
//! `sim:tree?files=100&found=full`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ioecho_linux::tree::{AnchorState, changed_by, inspect, tree_around};
use ioecho_replay::device::TargetLimits;
use ioecho_replay::sim::SimSpec;
use ioecho_replay::tree::{Found, Geometry, MARKER};
use ioecho_trace::recorded::RecordedFiles;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Bytes, Op};

use crate::directory::results_around;
use crate::error::{Kind, Result, RunError};
use crate::facts::TREE_IN_MEMORY;

/// What the name of a tree as a target begins with.
pub const TREE_PREFIX: &str = "tree:";

/// How long a call on a tree in memory takes, if nothing is said.
const CALLS: &str = "model=exp,service=100us,units=64";

/// The largest file system in memory, in bytes.
const CAPACITY: Bytes = Bytes(1 << 60);

/// A tree as a target.
#[derive(Clone, Debug)]
pub struct TreeTarget {
    /// Its name as it was typed.
    pub text: String,
    /// Its shape.
    pub geometry: Geometry,
    /// Where it lies.
    pub place: TreePlace,
    /// How its files are opened.
    pub open: OpenWords,
    /// The names of the recorded load that goes there, if it is one.
    pub recorded: Option<Arc<RecordedFiles>>,
}

/// Where a tree lies.
#[derive(Clone, Debug)]
pub enum TreePlace {
    /// Below a directory.
    Anchor {
        /// The directory.
        path: PathBuf,
        /// Whether the directories above it are made.
        with_parents: bool,
        /// What it was when it was looked at.
        state: AnchorState,
    },
    /// In memory.
    Memory {
        /// What of it is there at first.
        found: Found,
        /// How long calls take.
        calls: Box<SimSpec>,
        /// How many bytes its file system has.
        capacity: Bytes,
        /// How many files and directories it can have.
        names_max: u64,
    },
}

/// How files are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenWords {
    /// Past the page cache.
    pub direct: bool,
    /// Writes are on the medium when they complete.
    pub sync: bool,
    /// Files are brought to the medium before they are closed.
    pub fsync: bool,
}

impl OpenWords {
    /// Whether what is written has waited for the disk when the file is closed.
    pub(crate) const fn waits_for_disk(self) -> bool {
        self.direct || self.sync || self.fsync
    }
}

impl TreeTarget {
    /// The tree of this name, if it is one, and looks at its anchor.
    pub(crate) fn look_at(name: &str) -> Option<Result<Self>> {
        if let Some(rest) = name.strip_prefix(TREE_PREFIX) {
            return Some(Self::below_anchor(name, rest, &inspect));
        }
        let rest = name.strip_prefix(TREE_IN_MEMORY)?;
        let settings = if rest.is_empty() { "" } else { rest.strip_prefix('?')? };
        Some(Self::in_memory(name, settings))
    }

    /// The tree of this name, of which nothing is looked at: it may be gone.
    pub(crate) fn as_it_was(name: &str) -> Option<Result<Self>> {
        match name.strip_prefix(TREE_PREFIX) {
            Some(rest) => Some(Self::below_anchor(name, rest, &|_| Ok(AnchorState::Absent))),
            None => Self::look_at(name),
        }
    }

    fn below_anchor(
        name: &str,
        rest: &str,
        look: &dyn Fn(&Path) -> io::Result<AnchorState>,
    ) -> Result<Self> {
        let (path, settings) = rest.rsplit_once('?').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(usage(name, "it names no directory"));
        }
        let mut settings = Settings::new(settings);
        let with_parents = match settings.take("parents").as_deref() {
            None | Some("no") => false,
            Some("yes") => true,
            Some(_) => return Err(usage(name, "parents is yes or no")),
        };
        let open = settings.open(name)?;
        let geometry = settings.geometry()?;
        let path = PathBuf::from(path);
        let state = look(&path)
            .map_err(|error| RunError::new(Kind::Target, format!("{}: {error}", path.display())))?;
        let place = TreePlace::Anchor { path, with_parents, state };
        Ok(Self { text: name.to_owned(), geometry, place, open, recorded: None })
    }

    fn in_memory(name: &str, settings: &str) -> Result<Self> {
        let mut settings = Settings::new(settings);
        let found = match settings.take("found") {
            None => Found::Full,
            Some(word) => {
                let known = Found::WORDS.iter().find(|(known, _)| *known == word);
                let wrong = || usage(name, "found is nothing, directories, empty or full");
                known.map(|(_, found)| *found).ok_or_else(wrong)?
            }
        };
        let calls = settings.take("calls").unwrap_or_else(|| CALLS.to_owned());
        let calls: SimSpec = calls
            .parse()
            .map_err(|error| RunError::new(Kind::Usage, format!("'{name}': {error}")))?;
        let wrong = |key: &str| usage(name, &format!("{key} is no number"));
        let capacity = settings.take("capacity").map(|text| text.parse()).transpose();
        let capacity = capacity.map_err(|_| wrong("capacity"))?.unwrap_or(CAPACITY);
        let names_max = settings.take("names").map(|text| text.parse()).transpose();
        let names_max = names_max.map_err(|_| wrong("names"))?.unwrap_or(u64::MAX);
        let open = settings.open(name)?;
        if open != OpenWords::default() {
            return Err(usage(name, "a tree in memory has no page cache; leave open out"));
        }
        let geometry = settings.geometry()?;
        let place = TreePlace::Memory { found, calls: Box::new(calls), capacity, names_max };
        Ok(Self { text: name.to_owned(), geometry, place, open, recorded: None })
    }

    /// Its anchor, if it lies below one.
    pub fn anchor(&self) -> Option<&Path> {
        match &self.place {
            TreePlace::Anchor { path, .. } => Some(path),
            TreePlace::Memory { .. } => None,
        }
    }

    /// Where its anchor is, whether it is there yet or not.
    pub(crate) fn canonical(&self) -> Option<PathBuf> {
        self.anchor().map(real)
    }

    /// Whether it is in memory.
    pub fn is_simulated(&self) -> bool {
        self.anchor().is_none()
    }

    /// Whether it is one in memory that reports some calls as successes which it falsifies.
    pub(crate) fn lies(&self) -> bool {
        matches!(&self.place, TreePlace::Memory { calls, .. } if calls.lies > 0.0)
    }

    /// Whether one of both lies in the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.anchor(), other.anchor()) else { return false };
        let (a, b) = (real(a), real(b));
        a.starts_with(&b) || b.starts_with(&a)
    }

    /// Refuses results in the directory of the tree, and a tree in that of results: a load would
    /// measure, and may remove, what is written beside it.
    pub(crate) fn refuse_results(&self, results: &Path) -> Result<()> {
        let Some(anchor) = self.anchor() else { return Ok(()) };
        let (there, results_there) = (real(anchor), real(results));
        if !results_there.starts_with(&there) && !there.starts_with(&results_there) {
            return Ok(());
        }
        let (tree, results) = (anchor.display(), results.display());
        let text = format!(
            "the results in {results} and the tree in {tree} would lie in each other; nothing was \
             touched"
        );
        let help = Wording::from("keep results elsewhere: ").set("output", "DIRECTORY");
        Err(RunError::with_help(Kind::Refused, text, help))
    }

    /// Refuses to make or change a tree within results of a run, or within another tree of ours:
    /// whoever removes those would remove it along, or find them not empty.
    pub(crate) fn refuse_nested(&self) -> Result<()> {
        let Some(anchor) = self.anchor() else { return Ok(()) };
        let there = real(anchor);
        let in_results = results_around(&there).map(|around| ("the results of a run", around));
        let in_tree = || tree_around(&there).map(|around| ("the tree of files", around));
        let Some((what, around)) = in_results.or_else(in_tree) else { return Ok(()) };
        let (tree, around) = (anchor.display(), around.display());
        let text =
            format!("the tree in {tree} would lie in {what} in {around}; nothing was touched");
        Err(RunError::with_help(Kind::Refused, text, "take a directory elsewhere"))
    }

    /// The same tree, whose anchor was found like this.
    pub(crate) fn with_state(&self, found: AnchorState) -> Self {
        let mut tree = self.clone();
        if let TreePlace::Anchor { state, .. } = &mut tree.place {
            *state = found;
        }
        tree
    }

    /// What is planned by it.
    pub fn limits(&self) -> TargetLimits {
        TargetLimits {
            capacity: match self.recorded {
                Some(_) => Bytes(i64::MAX as u64),
                None => self.geometry.extent(),
            },
            block_size: Bytes(1),
            length_max: Bytes(1 << 30),
            supports: Op::ALL.map(|op| matches!(op, Op::Read | Op::Write) || op.is_of_files()),
        }
    }

    /// Refuses a directory that holds anything: a recorded load needs one of its own.
    pub(crate) fn guard_recorded(&self) -> Result<()> {
        let TreePlace::Anchor { path, state, .. } = &self.place else { return Ok(()) };
        if matches!(state, AnchorState::Absent | AnchorState::Empty) {
            return Ok(());
        }
        let text = format!("{} is not empty; nothing was touched", path.display());
        let help = "a recorded load takes a directory that is empty or not there yet";
        Err(RunError::with_help(Kind::Refused, text, help))
    }

    /// Refuses to write to a file that has another name: it would be changed there too.
    pub(crate) fn guard_linked(linked: &Path) -> Result<()> {
        let text = format!(
            "{} has another name, by which it may be somebody's data; nothing was touched",
            linked.display()
        );
        let help = "take a tree that shares no files, such as a copy by cp --reflink; to remove \
                    the names of this one alone: 'files:format?do=delete,rmdir'";
        Err(RunError::with_help(Kind::Refused, text, help))
    }

    /// Refuses to change a tree whose anchor may hold somebody's files.
    pub(crate) fn guard(&self, is_named: bool) -> Result<()> {
        let TreePlace::Anchor { path, state, .. } = &self.place else { return Ok(()) };
        let name = path.display();
        match state {
            AnchorState::Absent | AnchorState::Empty => Ok(()),
            AnchorState::Ours | AnchorState::Vdbench if is_named => Ok(()),
            AnchorState::Ours | AnchorState::Vdbench => {
                let text = format!("{name} holds a tree of files; nothing was touched");
                let help = Wording::from("if the files of that tree may be lost: ");
                Err(RunError::with_help(Kind::Refused, text, help.set("destroy", name.to_string())))
            }
            AnchorState::FalseMark => {
                let text = format!(
                    "{MARKER} in {name} is not ours, though it has the name of our mark; nothing \
                     was touched"
                );
                let help = "take a directory that is empty or not there yet";
                Err(RunError::with_help(Kind::Refused, text, help))
            }
            AnchorState::Foreign(example) => {
                let text = format!(
                    "{name} is not empty ({example}), and bears no mark of a tree; nothing was \
                     touched"
                );
                let help = "take a directory that is empty or not there yet";
                Err(RunError::with_help(Kind::Refused, text, help))
            }
        }
    }
}

/// Whether a target is a tree whose directory is empty or not there yet, or that a run changed last
/// whose results lie in this directory.
pub fn is_free(target: &str, results: &Path) -> bool {
    let Some(Ok(tree)) = TreeTarget::look_at(target) else { return false };
    let TreePlace::Anchor { path, state, .. } = &tree.place else { return false };
    let is_of_results = || {
        let (by, results) = (changed_by(path)?, results.canonicalize().ok()?);
        Some(by.starts_with(results))
    };
    match state {
        AnchorState::Absent | AnchorState::Empty => true,
        AnchorState::Ours => is_of_results() == Some(true),
        AnchorState::Vdbench | AnchorState::FalseMark | AnchorState::Foreign(_) => false,
    }
}

/// The shape of a tree, and how its files are opened, from its name as a target.
pub(crate) fn shape(name: &str) -> Result<(Geometry, OpenWords)> {
    let (_, settings) = name.rsplit_once('?').unwrap_or((name, ""));
    let mut settings = Settings::new(settings);
    for key in ["parents", "found", "calls", "capacity", "names"] {
        settings.take(key);
    }
    let open = settings.open(name)?;
    Ok((settings.geometry()?, open))
}

fn usage(name: &str, reason: &str) -> RunError {
    let help = "write it like 'tree:/mnt/x?depth=1&width=4&files=100&size=4k'";
    RunError::with_help(Kind::Usage, format!("'{name}': {reason}"), help)
}

/// Where a path leads as far as it is there.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, canonical)) = there else { return absolute };
    match absolute.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => canonical.join(rest),
        _ => canonical,
    }
}

/// The settings of a tree, of which those that are not of its shape are taken out.
struct Settings<'s>(Vec<&'s str>);

impl<'s> Settings<'s> {
    fn new(text: &'s str) -> Self {
        Self(text.split('&').filter(|part| !part.is_empty()).collect())
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let its = |part: &&str| part.split_once('=').is_some_and(|(name, _)| name == key);
        let at = self.0.iter().position(its)?;
        self.0.remove(at).split_once('=').map(|(_, value)| value.to_owned())
    }

    fn open(&mut self, name: &str) -> Result<OpenWords> {
        let mut open = OpenWords::default();
        for word in self.take("open").iter().flat_map(|words| words.split(',')) {
            match word {
                "direct" => open.direct = true,
                "sync" => open.sync = true,
                "fsync" => open.fsync = true,
                _ => {
                    return Err(usage(name, "open is direct, sync and fsync, with commas between"));
                }
            }
        }
        Ok(open)
    }

    fn geometry(&self) -> Result<Geometry> {
        self.0.join("&").parse().map_err(|error| RunError::new(Kind::Usage, format!("{error}")))
    }
}
