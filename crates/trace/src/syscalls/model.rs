//! From calls to requests.

mod failures;
mod names;
mod openings;

use self::failures::Failures;

use super::call::{At, Call, Event, OpenFlags, WriteFlags};
use super::links::{Access, Caller, Links, Thing};
use super::namespace::{Found, Inode, Kind, Namespace, ROOT};
use super::places::Places;
use super::tasks::{NOWHERE, Opened, Tasks};
use crate::dependencies::Dependency;
use crate::header::{NoteKind, Notes, Topic};
use crate::recorded::{
    NAME_BYTES_MAX, OpenWord, PLACE_BYTES, Place, RecordedFiles, is_too_long, shown,
};
use crate::request::{Flags, Op, Origin, Request};
use crate::units::{Bytes, Nanos};

/// Errors that follow from names alone, so that a replay meets them as the recording did
/// (`errno.h`): ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY, ELOOP.
const OF_NAMES: [i32; 6] = [ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY, ELOOP];
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;
const ELOOP: i32 = 40;

/// What takes the place of one where there can be none.
const NO_PLACE: usize = usize::MAX;

/// The permissions that a umask of which nobody knows takes from what is made: the usual ones.
pub const USUAL_MASK: u32 = 0o022;

/// Permissions that are made again. A program that is made for its owner's or group's rights is
/// not made of somebody else's recording.
const MODE: u32 = 0o1777;

/// Calls that were left out because nothing makes them fail alike.
pub(super) const OTHER_FAILURES: Topic<'static> =
    NoteKind::Beside.of("failed calls whose errors do not follow from names, left out");
/// Calls whose replay would find what they did not.
pub(super) const NOT_ALIKE: Topic<'static> =
    NoteKind::Beside.of("failed calls that a replay would not see fail alike, left out");
/// Calls that no kernel does.
pub(super) const IMPOSSIBLE: Topic<'static> = NoteKind::Unreadable
    .of("calls that cannot have succeeded (a directory in itself, or by two names), left out");
/// Names that no call can have.
pub(super) const TOO_LONG: Topic<'static> =
    NoteKind::LeftOut.of("calls on names of more than 4095 bytes from the root on");
/// Calls on descriptors that a replay makes by name.
pub(super) const NAMELESS: Topic<'static> =
    NoteKind::LeftOut.of("calls on opened files that a replay makes by name, and that have none");
/// Waits for mappings.
pub(super) const MAPPED_SYNC: Topic<'static> =
    NoteKind::Beside.of("calls of msync, whose wait for the medium a replay does not make");
/// Whiteouts.
pub(super) const WHITEOUT: Topic<'static> =
    NoteKind::Beside.of("renames that left a whiteout, replayed without it");
/// Modes beyond permissions.
pub(super) const SET_ID: Topic<'static> =
    NoteKind::Beside.of("modes that set the user or the group, replayed without that");
/// How a descriptor's file is open.
pub(super) const STATUS: Topic<'static> = NoteKind::Beside
    .of("changes of O_APPEND or O_DIRECT of opened files, replayed as they were opened");
/// Waits for data alone.
pub(super) const DATA_SYNC: Topic<'static> =
    NoteKind::Assumed.of("calls of fdatasync, replayed as fsync");
/// A umask that is not known.
pub(super) const MASK: Topic<'static> =
    NoteKind::Assumed.of("names made without the permissions 022, because no call tells the umask");
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
    failures: Failures,
    /// The umask of tasks of which no call tells it, if it is known.
    mask: Option<u32>,
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
            failures: Failures::default(),
            mask: None,
            losses: Notes::default(),
            guesses: Notes::default(),
        }
    }

    /// Tasks have this umask until they change it.
    pub const fn begin_with_mask(&mut self, mask: u32) {
        self.mask = Some(mask);
    }

    /// Whether a task is known.
    pub fn knows(&self, task: u32) -> bool {
        self.tasks.has(task)
    }

    /// The names so far.
    pub fn files(&self) -> RecordedFiles {
        let (before, places) = (self.names.before.clone(), self.places.list.clone());
        RecordedFiles::new(before, places, self.links.is_some())
    }

    /// What was guessed so far, with what only the end tells.
    pub fn told(&self) -> (Notes, Notes) {
        let mut guesses = self.guesses.clone();
        guesses.add(BEFORE, self.names.before.len() as u64, None);
        guesses.add(APPEARED, self.names.appeared, self.names.appeared_example.clone());
        guesses.add(BEGUN_LATER, self.links.as_ref().map_or(0, |links| links.begun_later), None);
        guesses.add(FAR_LINKS, self.links.as_ref().map_or(0, |links| links.too_far), None);
        let mut losses = self.losses.clone();
        self.failures.tell(&mut losses);
        (losses, guesses)
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
                    && let Some(found) = self.locate(event, at, true)
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
            Call::Mask(mask) => self.tasks.set_mask(event.task, *mask),
            Call::SyncMapped => self.losses.add(MAPPED_SYNC, 1, None),
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
            | Call::SetStatus { .. }
            | Call::StatDescriptor { .. }
            | Call::SetOfDescriptor { .. }
            | Call::TruncateDescriptor { .. }
            | Call::Sync { .. }
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

    /// Finds what a call names; `None` if it is none of the names that are kept here, or if the
    /// call failed and would not fail alike again.
    fn locate(&mut self, event: &Event, at: &At, follow: bool) -> Option<Found> {
        let own = own_descriptor(&at.path).filter(|own| follow || !own.path.is_empty());
        let at = own.as_ref().unwrap_or(at);
        if at.path.is_empty() {
            return self.itself(event, at);
        }
        let base = self.base(event.task, at)?;
        let found = self.names.walk(base, &at.path, follow);
        if is_of_kernel(&found.path) {
            self.losses.add(OF_KERNEL, 1, Some(format!("/{}", shown(&found.path))));
            return None;
        }
        if let Err(error) = event.result {
            // Nothing is found in a directory that was removed, whatever has its name now.
            let is_there = at.path.starts_with(b"/") || self.names.is_in_tree(base);
            if !is_there || !self.fails_again(event, &found, &at.path) {
                self.leave_out(event, error);
                return None;
            }
        }
        Some(found)
    }

    /// Finds what a descriptor stands for, or the working directory: a call gave no path
    /// (`AT_EMPTY_PATH`).
    fn itself(&mut self, event: &Event, at: &At) -> Option<Found> {
        if let Err(error) = event.result {
            self.leave_out(event, error);
            return None;
        }
        let opening = at.directory.and_then(|number| self.tasks.opening(event.task, number));
        let inode = match (opening, at.base.as_deref().filter(|path| is_told(path))) {
            (Some(opening), _) => self.tasks.opened(opening).inode,
            (None, Some(path)) => {
                let path = At { path: path.to_vec(), ..At::default() };
                return self.locate(event, &path, false);
            }
            (None, None) => self.base(event.task, at)?,
        };
        let found = self.names.found(inode);
        if found.is_none() {
            self.losses.add(NAMELESS, 1, Some(format!("/{}", shown(&self.names.path(inode)))));
        }
        found
    }

    /// The permissions of what a task makes, and those that it gives to what is there.
    fn made_with(&mut self, task: u32, mode: u32) -> u32 {
        let known = self.tasks.mask(task).or(self.mask);
        if known.is_none() {
            self.guesses.add(MASK, 1, None);
        }
        self.given(mode) & !known.unwrap_or(USUAL_MASK)
    }

    /// The permissions that a call gives to what is there.
    fn given(&mut self, mode: u32) -> u32 {
        if mode & 0o6000 != 0 {
            self.losses.add(SET_ID, 1, Some(format!("{mode:o}")));
        }
        mode & MODE
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
                self.leave_out(event, error);
                None
            }
        }
    }

    /// What a call on a name is about: the directories above it, and the name.
    fn things_of(&self, found: &Found, changes: bool) -> Vec<(Thing, Access)> {
        // What lies too deep to be named is no request.
        if self.links.is_none() || found.path.len() > NAME_BYTES_MAX {
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
        let is_long = |text: &String| is_too_long(text);
        if is_long(&place.path) || place.to.as_ref().is_some_and(is_long) {
            self.losses.add(TOO_LONG, 1, None);
            return;
        }
        let Some(place) = self.places.number(place) else {
            self.losses.add(TOO_MANY, 1, None);
            return;
        };
        self.row(event, op, (place, within, 0), &things, give);
    }

    /// The number of a place for a file that is opened, or of none if its name is too long; `None`
    /// if there are too many.
    fn opened_place(&mut self, place: Place) -> Option<usize> {
        if is_too_long(&place.path) {
            return Some(NO_PLACE);
        }
        let number = self.places.opened(place);
        if number.is_none() {
            self.losses.add(TOO_MANY, 1, None);
        }
        number
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
        if place == NO_PLACE {
            self.losses.add(TOO_LONG, 1, None);
            return;
        }
        if within.checked_add(length).is_none_or(|end| end >= PLACE_BYTES) {
            self.losses.add(TOO_FAR, 1, None);
            return;
        }
        let offset = Bytes(place as u64 * PLACE_BYTES + within);
        let mut request = Request::new(event.begun, op, offset, Bytes(length));
        request.latency = event.took;
        if matches!(event.call, Call::Write { how: WriteFlags { sync: true, .. }, .. }) {
            request.flags |= Flags::FUA;
        }
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

/// What a path from one of the caller's own descriptors on means (`/proc/self/fd/5/x`).
fn own_descriptor(path: &[u8]) -> Option<At> {
    let own = [b"/proc/self/fd/".as_slice(), b"/proc/thread-self/fd/", b"/dev/fd/"];
    let rest = own.into_iter().find_map(|own| path.strip_prefix(own))?;
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    let below = rest[end..].iter().position(|byte| *byte != b'/').map(|at| &rest[end + at..]);
    let path = below.unwrap_or_default().to_vec();
    Some(At { directory: Some(number), base: None, path })
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
        (flags.data_sync, OpenWord::Dsync),
        (flags.direct, OpenWord::Direct),
    ];
    words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).collect()
}
