//! From calls to requests.

mod names;
mod openings;

use super::call::{At, Call, Event, OpenFlags};
use super::links::{Access, Caller, Links, Thing};
use super::namespace::{Found, Inode, Kind, Namespace, ROOT, shown};
use super::places::Places;
use super::tasks::{NOWHERE, Opened, Tasks};
use crate::dependencies::Dependency;
use crate::header::{NoteKind, Notes, Topic};
use crate::recorded::{OpenWord, PLACE_BYTES, Place, RecordedFiles};
use crate::request::{Op, Origin, Request};
use crate::units::{Bytes, Nanos};

/// Errors that follow from names alone, so that a replay meets them as the recording did
/// (`errno.h`): ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY, ELOOP.
const OF_NAMES: [i32; 6] = [ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY, 40];
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;

/// Calls that were left out because nothing makes them fail alike.
pub(super) const OTHER_FAILURES: Topic<'static> =
    NoteKind::Beside.of("failed calls whose errors do not follow from names, left out");
/// Calls on what lies in the kernel's own trees.
pub(super) const OF_KERNEL: Topic<'static> =
    NoteKind::Beside.of("calls on names of /proc, /sys and /dev, left out");
/// Calls on descriptors whose file nobody knows.
pub(super) const NO_FILE: Topic<'static> =
    NoteKind::Beside.of("calls on descriptors that are no files, or of which nobody knows");
/// Calls that are no operation.
pub(super) const OTHERS: Topic<'static> =
    NoteKind::Beside.of("calls on files that no operation of a trace stands for");
/// Mappings that are written to.
pub(super) const MAPPED_TO_WRITE: Topic<'static> =
    NoteKind::Unseen.of("files mapped to be written, whose writes no call tells");
/// Mappings that are read.
pub(super) const MAPPED: Topic<'static> =
    NoteKind::Beside.of("files mapped into memory, whose reads no call tells");
/// More places than there is room for.
pub(super) const TOO_MANY: Topic<'static> =
    NoteKind::LeftOut.of("calls on more than 4,194,304 different names");
/// Positions beyond what a place has room for.
pub(super) const TOO_FAR: Topic<'static> =
    NoteKind::LeftOut.of("calls that reach beyond 1 TiB of a file");
/// Files without a name.
pub(super) const UNNAMED: Topic<'static> =
    NoteKind::LeftOut.of("files without a name (O_TMPFILE), with all that is done in them");
/// Closes of descriptors that are not the last.
pub(super) const NOT_THE_LAST: Topic<'static> =
    NoteKind::Beside.of("closes of descriptors whose file another one keeps open");
/// A working directory that is not known.
pub(super) const NO_DIRECTORY: Topic<'static> = NoteKind::Assumed.of(
    "relative names from a working directory that the recording does not tell, taken from the \
     root on (strace -y tells it)",
);
/// A file of which nobody knows whether it was there.
pub(super) const TAKEN_AS_MADE: Topic<'static> = NoteKind::Assumed
    .of("files opened with O_CREAT, of which no call tells whether they were there, taken as made");
/// Files that were open before the recording.
pub(super) const OPEN_BEFORE: Topic<'static> = NoteKind::Place
    .of("files that were open before the recording, taken as opened to be read and written");
/// Closes without a call.
pub(super) const CLOSED_BY_END: Topic<'static> =
    NoteKind::Assumed.of("files closed as their task ended or began another program");
/// Names that came from nowhere.
pub(super) const APPEARED: Topic<'static> =
    NoteKind::Assumed.of("names that were there after all and that no recorded call made");
/// Links read.
pub(super) const READ_LINKS: Topic<'static> =
    NoteKind::Assumed.of("links that were read, taken as getattr");
/// One call that reads and writes.
pub(super) const IN_ONE: Topic<'static> = NoteKind::Assumed.of(
    "calls that read a file and write another, taken as a read and then a write, each half as \
         long",
);
/// What was there before.
pub(super) const BEFORE: Topic<'static> =
    NoteKind::Assumed.of("names that were there before the recording, as far as calls found them");

/// Links to calls long ago.
pub(super) const FAR_LINKS: Topic<'static> = NoteKind::Assumed
    .of("calls that waited for one more than 131,072 calls before them, taken as made after the \
     latest that had returned");

/// Calls that overlapped one that they came after.
pub(super) const BEGUN_LATER: Topic<'static> = NoteKind::Assumed
    .of("calls that began before one whose effect they met, taken as begun when that one began");

/// A request that a call was, and what it had to wait for.
pub struct Row<'a> {
    /// The request. Its instant counts as the calls' instants do.
    pub request: Request,
    /// What it waited for, if that was asked for.
    pub dependency: Option<Dependency<'a>>,
}

/// What takes the rows.
pub type Give<'g> = dyn FnMut(Row<'_>) + 'g;

/// What is known so far.
pub struct Model {
    names: Namespace,
    tasks: Tasks,
    places: Places,
    links: Option<Links>,
    /// What was lost so far.
    pub losses: Notes,
    /// What was guessed so far.
    pub guesses: Notes,
}

/// How a call ended that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It succeeded.
    Well,
    /// It failed with this error.
    Failing(i32),
}

impl Ended {
    /// Its error.
    const fn fails(self) -> Option<i32> {
        match self {
            Self::Well => None,
            Self::Failing(error) => Some(error),
        }
    }
}

/// What a request is, but for its instants.
struct Asked {
    op: Op,
    place: Place,
    /// What it is about, and what it does to that.
    things: Vec<(Thing, Access)>,
}

impl Model {
    /// Nothing is known. `links` says whether it is to be told which request waited for which.
    pub fn new(links: bool) -> Self {
        Self {
            names: Namespace::new(),
            tasks: Tasks::default(),
            places: Places::default(),
            links: links.then(Links::default),
            losses: Notes::default(),
            guesses: Notes::default(),
        }
    }

    /// Whether a task is known.
    pub fn knows(&self, task: u32) -> bool {
        self.tasks.has(task)
    }

    /// The names so far.
    pub fn files(&self) -> RecordedFiles {
        RecordedFiles {
            before: self.names.before.clone(),
            places: self.places.list.clone(),
            linked: self.links.is_some(),
        }
    }

    /// What was guessed so far, with what only the end tells.
    pub fn told(&self) -> (Notes, Notes) {
        let mut guesses = self.guesses.clone();
        guesses.add(BEFORE, self.names.before.len() as u64, None);
        guesses.add(APPEARED, self.names.appeared, self.names.appeared_example.clone());
        guesses.add(BEGUN_LATER, self.links.as_ref().map_or(0, |links| links.begun_later), None);
        guesses.add(FAR_LINKS, self.links.as_ref().map_or(0, |links| links.too_far), None);
        (self.losses.clone(), guesses)
    }

    /// Takes a call that has returned.
    pub fn take(&mut self, event: &Event, give: &mut Give<'_>) {
        match &event.call {
            Call::Spawn { shares_files, shares_directory } => {
                self.spawn(event, *shares_files, *shares_directory);
            }
            Call::Execute => {
                if event.result.is_ok() {
                    let closed = self.tasks.execute(event.task);
                    self.closed_by_end(event, &closed, give);
                }
            }
            Call::Exit => {
                let closed = self.tasks.exit(event.task);
                self.closed_by_end(event, &closed, give);
                if let Some(links) = &mut self.links {
                    links.exit(event.task);
                }
            }
            Call::ChangeDirectory(at) => {
                if event.result.is_ok()
                    && let Some(found) = self.locate(event.task, at, true)
                {
                    let inode = self.names.there(&found, Kind::Directory);
                    self.names.told(inode, Kind::Directory);
                    self.tasks.go(event.task, inode);
                }
            }
            Call::ChangeToDescriptor(descriptor) => {
                let opening = self.tasks.opening(event.task, descriptor.number);
                if let (Ok(_), Some(opening)) = (event.result, opening) {
                    let inode = self.tasks.opened(opening).inode;
                    self.names.told(inode, Kind::Directory);
                    self.tasks.go(event.task, inode);
                }
            }
            Call::TellDirectory(path) => {
                if event.result.is_ok() && is_told(path) {
                    let inode = self.names.directory(path);
                    self.tasks.go(event.task, inode);
                }
            }
            Call::Other { name } => self.losses.add(OTHERS, 1, Some((*name).to_owned())),
            Call::Open { at, flags, mode, opened } => {
                self.open(event, at, *flags, *mode, opened.as_deref(), give);
            }
            Call::Close { .. }
            | Call::Read { .. }
            | Call::Write { .. }
            | Call::Transfer { .. }
            | Call::Seek { .. }
            | Call::Duplicate { .. }
            | Call::CloseOnExec { .. }
            | Call::StatDescriptor { .. }
            | Call::SetOfDescriptor { .. }
            | Call::TruncateDescriptor { .. }
            | Call::Sync(_)
            | Call::ReadDirectory(_)
            | Call::Map { .. } => self.take_of_descriptor(event, give),
            _ => self.take_of_names(event, give),
        }
    }

    fn spawn(&mut self, event: &Event, shares_files: bool, shares_directory: bool) {
        let Some(child) = event.result.ok().and_then(|child| u32::try_from(child).ok()) else {
            return;
        };
        // It was seen before the call that made it returned.
        if child == 0 || self.tasks.has(child) {
            return;
        }
        self.tasks.spawn(event.task, child, shares_files, shares_directory);
        if let Some(links) = &mut self.links {
            links.spawn(event.task, child);
        }
    }

    /// Finds what a call names; `None` if it is none of the names that are kept here.
    fn locate(&mut self, task: u32, at: &At, follow: bool) -> Option<Found> {
        let base = self.base(task, at)?;
        let found = self.names.walk(base, &at.path, follow);
        if is_of_kernel(&found.path) {
            self.losses.add(OF_KERNEL, 1, Some(format!("/{}", shown(&found.path))));
            return None;
        }
        Some(found)
    }

    /// The directory that a path begins at.
    fn base(&mut self, task: u32, at: &At) -> Option<Inode> {
        if at.path.starts_with(b"/") {
            return Some(ROOT);
        }
        if let Some(path) = at.base.as_deref().filter(|path| is_told(path)) {
            if is_of_kernel(&path[1..]) {
                self.losses.add(OF_KERNEL, 1, Some(shown(path)));
                return None;
            }
            let inode = self.names.directory(path);
            if at.directory.is_none() {
                self.tasks.go(task, inode);
            }
            return Some(inode);
        }
        match at.directory {
            Some(descriptor) => {
                let Some(opening) = self.tasks.opening(task, descriptor) else {
                    self.losses.add(NO_FILE, 1, None);
                    return None;
                };
                let inode = self.tasks.opened(opening).inode;
                self.names.told(inode, Kind::Directory);
                Some(inode)
            }
            None => Some(self.tasks.working(task).unwrap_or_else(|| {
                self.guesses.add(NO_DIRECTORY, 1, Some(shown(&at.path)));
                NOWHERE
            })),
        }
    }

    /// How a call ended, if it is to be kept: it succeeded, or failed as a replay will.
    fn outcome(&mut self, event: &Event) -> Option<Ended> {
        match event.result {
            Ok(_) => Some(Ended::Well),
            Err(error) if OF_NAMES.contains(&error) => Some(Ended::Failing(error)),
            Err(error) => {
                self.losses.add(OTHER_FAILURES, 1, Some(format!("errno {error}")));
                None
            }
        }
    }

    /// What a call on a name is about: the directories above it, and the name.
    fn things_of(&self, found: &Found, changes: bool) -> Vec<(Thing, Access)> {
        if self.links.is_none() {
            return Vec::new();
        }
        let access = Access::changing(changes);
        let mut things = Vec::new();
        let missing = found.missing.as_ref().filter(|_| found.directory.is_none());
        let (above, name) = match (found.directory, missing) {
            (Some(directory), _) => (Some(directory), &found.name),
            (None, Some((directory, name))) => (Some(*directory), name),
            (None, None) => (None, &found.name),
        };
        if let Some(directory) = above {
            things.push((Thing::Name(directory, name.clone()), access));
            if changes {
                things.push((Thing::Entries(directory), Access::Entry));
            }
            let mut at = directory;
            while at != ROOT {
                things.push((Thing::Directory(at), Access::Use));
                at = self.names.parent(at);
            }
        }
        if let Some(inode) = found.inode() {
            let is_directory = self.names.node(inode).kind == Kind::Directory;
            // A path that leads through a file fails because that is none.
            if changes || is_directory {
                things.push((Thing::Directory(inode), access));
            }
            if !is_directory {
                things.push((Thing::Content(inode), Access::Touch));
            }
        }
        things
    }

    /// Gives a request on a name.
    fn ask(&mut self, event: &Event, asked: Asked, within: u64, give: &mut Give<'_>) {
        let Asked { op, place, things } = asked;
        let Some(place) = self.places.number(place) else {
            self.losses.add(TOO_MANY, 1, None);
            return;
        };
        self.row(event, op, (place, within, 0), &things, give);
    }

    /// Gives a request.
    fn row(
        &mut self,
        event: &Event,
        op: Op,
        (place, within, length): (usize, u64, u64),
        things: &[(Thing, Access)],
        give: &mut Give<'_>,
    ) {
        if within.checked_add(length).is_none_or(|end| end >= PLACE_BYTES) {
            self.losses.add(TOO_FAR, 1, None);
            return;
        }
        let offset = Bytes(place as u64 * PLACE_BYTES + within);
        let mut request = Request::new(event.begun, op, offset, Bytes(length));
        request.latency = event.took;
        request.origin = Some(Origin { pid: event.task, cpu: 0 });
        let took = event.took.unwrap_or(Nanos::ZERO);
        let ended = event.begun.saturating_add(took);
        let caller = Caller { task: event.task, begun: event.begun, ended };
        let dependency = self.links.as_mut().map(|links| {
            let linked = links.link(caller, things);
            if linked.issued > event.begun {
                request.issue = linked.issued;
                let left = ended.saturating_sub(linked.issued).max(Nanos::ZERO);
                request.latency = event.took.map(|_| left);
            }
            Dependency { id: linked.number, think: None, parents: linked.parents }
        });
        give(Row { request, dependency });
    }

    /// Gives the closes that no call made.
    fn closed_by_end(&mut self, event: &Event, closed: &[Opened], give: &mut Give<'_>) {
        let event = Event { took: None, ..event.clone() };
        for opened in closed {
            self.guesses.add(CLOSED_BY_END, 1, None);
            self.close_opened(&event, opened, give);
        }
    }

    fn close_opened(&mut self, event: &Event, opened: &Opened, give: &mut Give<'_>) {
        self.places.closed(opened.place);
        let things = [
            (Thing::Position(opened.place), Access::Change),
            (Thing::Content(opened.inode), Access::Touch),
        ];
        self.row(event, Op::Close, (opened.place, 0, 0), &things, give);
    }
}

/// Whether a path is one that a recorder told, from the root on.
fn is_told(path: &[u8]) -> bool {
    path.starts_with(b"/")
        && !path.contains(&0)
        && !path.ends_with(b" (deleted)")
        && !path.starts_with(b"/memfd:")
}

/// Whether a path, without a slash at its beginning, lies in one of the kernel's own trees.
fn is_of_kernel(path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/');
    match names.next().unwrap_or_default() {
        // Files like any others lie there.
        b"dev" => names.next() != Some(b"shm"),
        first => matches!(first, b"proc" | b"sys"),
    }
}

/// How a file is opened, in the words of a place.
fn words(flags: OpenFlags) -> Vec<OpenWord> {
    let words = [
        (flags.read, OpenWord::Read),
        (flags.write, OpenWord::Write),
        (flags.create, OpenWord::Create),
        (flags.exclusive, OpenWord::Exclusive),
        (flags.truncate, OpenWord::Truncate),
        (flags.append, OpenWord::Append),
        (flags.directory, OpenWord::Directory),
        (flags.path, OpenWord::Path),
        (flags.sync, OpenWord::Sync),
    ];
    words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).collect()
}
