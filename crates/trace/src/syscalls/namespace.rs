//! The tree of names, as far as calls have told of it.
//!
//! Nothing is known of it at first. A name that a call used with success and that no call made was
//! there before the recording; so it is noted as such, with the size that reads needed. Names that
//! a call did not find are known not to be there.

use rustc_hash::FxHashMap;

use crate::recorded::{Before, BeforeKind, is_too_long, shown};

/// The number of a file, a directory or a link.
pub(super) type Inode = usize;

/// Links that are followed in one path.
const FOLLOWED_MAX: u32 = 40;

/// The root.
pub(super) const ROOT: Inode = 0;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing.
    Absent,
    /// This.
    Is(Inode),
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A directory.
    Directory,
    /// A file, or something that no call has told more of.
    File,
    /// A symbolic link.
    Symlink,
}

/// A file, a directory or a link.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// The directory that it was last known in, and its name there.
    parent: Inode,
    name: Box<[u8]>,
    /// What is known of the names in a directory.
    entries: FxHashMap<Box<[u8]>, Entry>,
    /// Its size as far as it is known.
    pub(super) size: u64,
    /// Whether a call has changed its size or content.
    pub(super) changed: bool,
    /// What a link says.
    target: Option<Vec<u8>>,
    /// Its place in the list of what was there before.
    before: Option<usize>,
}

impl Node {
    /// Whether names are known that lie in it.
    pub(super) fn holds_names(&self) -> bool {
        self.entries.values().any(|entry| matches!(entry, Entry::Is(_)))
    }
}

/// What was found at the end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The directory, if all of them were found or may be there.
    pub(super) directory: Option<Inode>,
    /// The last name; empty for the root.
    pub(super) name: Box<[u8]>,
    /// What the name stands for; `None` if nobody knows.
    pub(super) entry: Option<Entry>,
    /// The whole path, without a slash at its beginning.
    pub(super) path: Vec<u8>,
    /// The directory and the name at which the path leads no further, as far as is known, if that
    /// is not its last one.
    pub(super) missing: Option<(Inode, Box<[u8]>)>,
    /// Whether `..` led back from something of which nobody knows that it is a directory, or links
    /// led on for longer than the kernel follows them: then the path is a guess.
    pub(super) is_guessed: bool,
}

impl Found {
    /// What the name stands for, if it stands for something.
    pub(super) fn inode(&self) -> Option<Inode> {
        match self.entry {
            Some(Entry::Is(inode)) => Some(inode),
            _ => None,
        }
    }
}

/// What of a path is left to be walked: parts of it, the next one last.
struct Left<'p>(Vec<&'p [u8]>);

impl<'p> Left<'p> {
    /// The next name.
    fn next(&mut self) -> Option<&'p [u8]> {
        while let Some(part) = self.0.pop() {
            let mut halves = part.splitn(2, |byte| *byte == b'/');
            let name = halves.next().unwrap_or_default();
            self.0.extend(halves.next());
            if !matches!(name, b"" | b".") {
                return Some(name);
            }
        }
        None
    }
}

/// The tree.
pub(super) struct Namespace {
    nodes: Vec<Node>,
    pub(super) before: Vec<Before>,
    /// Names that appeared without a call that made them.
    pub(super) appeared: u64,
    /// One of them.
    pub(super) appeared_example: Option<String>,
}

impl Namespace {
    pub(super) fn new() -> Self {
        let root = Node {
            kind: Kind::Directory,
            parent: ROOT,
            name: Box::default(),
            entries: FxHashMap::default(),
            size: 0,
            changed: false,
            target: None,
            before: None,
        };
        Self { nodes: vec![root], before: Vec::new(), appeared: 0, appeared_example: None }
    }

    pub(super) fn node(&self, inode: Inode) -> &Node {
        &self.nodes[inode]
    }

    pub(super) fn node_mut(&mut self, inode: Inode) -> &mut Node {
        &mut self.nodes[inode]
    }

    /// The directory that it was last known in.
    pub(super) fn parent(&self, inode: Inode) -> Inode {
        self.nodes[inode].parent
    }

    /// The path of an inode, without a slash at its beginning.
    pub(super) fn path(&self, inode: Inode) -> Vec<u8> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = inode;
        while at != ROOT {
            names.push(&self.nodes[at].name);
            at = self.nodes[at].parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// What an inode is found as by the name that it was last known by; `None` if it has that name
    /// no more.
    pub(super) fn found(&self, inode: Inode) -> Option<Found> {
        self.is_in_tree(inode).then(|| self.found_at(inode, self.path(inode)))
    }

    fn found_at(&self, inode: Inode, path: Vec<u8>) -> Found {
        let Node { parent, name, .. } = &self.nodes[inode];
        Found {
            directory: Some(*parent),
            name: name.clone(),
            entry: Some(Entry::Is(inode)),
            path,
            missing: None,
            is_guessed: false,
        }
    }

    /// Whether an inode still has the name that it was last known by, and all above it have theirs.
    pub(super) fn is_in_tree(&self, inode: Inode) -> bool {
        let mut at = inode;
        while at != ROOT {
            let Node { parent, name, .. } = &self.nodes[at];
            if self.nodes[*parent].entries.get(name) != Some(&Entry::Is(at)) {
                return false;
            }
            at = *parent;
        }
        true
    }

    /// Whether a directory lies in an inode, or is that.
    pub(super) fn is_within(&self, directory: Inode, inode: Inode) -> bool {
        let mut at = directory;
        while at != inode && at != ROOT {
            at = self.nodes[at].parent;
        }
        at == inode
    }

    /// Walks a path from `base` on. `follow` says whether a link at its end is followed. Nothing is
    /// added to the tree: what is not known is unknown in the answer too.
    pub(super) fn walk(&self, base: Inode, path: &[u8], follow: bool) -> Found {
        // A slash at the end asks for a directory, so a link is followed there.
        let follow = follow || path.ends_with(b"/");
        let mut directory = Some(if path.starts_with(b"/") { ROOT } else { base });
        let mut at = directory.map(|from| self.path(from)).unwrap_or_default();
        let (mut missing, mut is_guessed, mut followed) = (None, false, 0);
        let mut left = Left(vec![path]);
        let mut next = left.next();
        while let Some(name) = next {
            next = left.next();
            if name == b".." {
                let is_one = |inode: Inode| self.nodes[inode].kind == Kind::Directory;
                is_guessed |= !directory.is_some_and(is_one);
                let cut = at.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                at.truncate(cut);
                directory = directory.map(|inode| self.nodes[inode].parent);
                continue;
            }
            let entry = directory.and_then(|inode| self.nodes[inode].entries.get(name)).copied();
            let link = match entry {
                Some(Entry::Is(inode)) if self.nodes[inode].kind == Kind::Symlink => {
                    self.nodes[inode].target.as_deref()
                }
                _ => None,
            };
            let link = link.filter(|_| next.is_some() || follow);
            if let Some(target) = link.filter(|_| followed < FOLLOWED_MAX) {
                followed += 1;
                left.0.extend(next);
                left.0.push(target);
                next = left.next();
                // A relative one begins where the link lies.
                if target.starts_with(b"/") {
                    directory = Some(ROOT);
                    at.clear();
                }
                continue;
            }
            if !at.is_empty() {
                at.push(b'/');
            }
            at.extend_from_slice(name);
            if next.is_none() || link.is_some() {
                is_guessed |= link.is_some();
                return Found {
                    directory,
                    name: name.into(),
                    entry,
                    path: at,
                    missing,
                    is_guessed,
                };
            }
            let inode = match entry {
                Some(Entry::Is(inode)) => Some(inode),
                _ => None,
            };
            if let (Some(above), None) = (directory, inode) {
                missing = Some((above, name.into()));
            }
            directory = inode;
        }
        // The path ends in a directory: `/`, `.`, `..`.
        let Some(inode) = directory else {
            let (name, entry) = (Box::default(), None);
            return Found { directory, name, entry, path: at, missing, is_guessed };
        };
        Found { missing, is_guessed, ..self.found_at(inode, at) }
    }

    /// The directory of this path, which a call found: those above it that nobody knows yet were
    /// there before.
    pub(super) fn directory(&mut self, path: &[u8]) -> Inode {
        let mut at = ROOT;
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => continue,
                b".." => {
                    at = self.nodes[at].parent;
                    continue;
                }
                _ => {}
            }
            at = match self.nodes[at].entries.get(name) {
                Some(Entry::Is(inode)) => *inode,
                _ => self.discover(at, name, Kind::Directory),
            };
            // It was taken for a file, and holds names.
            self.told(at, Kind::Directory);
        }
        at
    }

    /// The directory that a found name lies in.
    pub(super) fn directory_of(&mut self, found: &Found) -> Inode {
        if let Some(directory) = found.directory {
            self.told(directory, Kind::Directory);
            return directory;
        }
        let cut = found.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.directory(&found.path[..cut])
    }

    /// What a name stands for that a call found.
    pub(super) fn there(&mut self, found: &Found, kind: Kind) -> Inode {
        if let Some(inode) = found.inode() {
            return inode;
        }
        let directory = self.directory_of(found);
        // Since it was looked up, the other name of a call may have told that it is there.
        match self.nodes[directory].entries.get(&found.name) {
            Some(Entry::Is(inode)) => *inode,
            _ => self.discover(directory, &found.name, kind),
        }
    }

    /// As [`Self::there`], and what was found says so then.
    pub(super) fn is_there(&mut self, found: &mut Found, kind: Kind) -> Inode {
        let inode = self.there(found, kind);
        found.entry = Some(Entry::Is(inode));
        if found.directory.is_none() {
            found.directory = Some(self.directory_of(found));
        }
        inode
    }

    /// Adds a name that a call found and that no call made.
    fn discover(&mut self, directory: Inode, name: &[u8], kind: Kind) -> Inode {
        let is_absent = self.nodes[directory].entries.get(name) == Some(&Entry::Absent);
        let above = &self.nodes[directory];
        let place = match (directory, above.before) {
            (ROOT, _) => Some(String::new()),
            (_, Some(place)) => Some(format!("{}/", self.before[place].path)),
            (_, None) => None,
        };
        let inode = self.add(directory, name, kind);
        if let Some(above) = place.filter(|_| !is_absent) {
            let path = above + &shown(name);
            if is_too_long(&path) {
                // No call can make it, nor what lies in it.
                return inode;
            }
            self.nodes[inode].before = Some(self.before.len());
            self.before.push(Before { path, kind: kind.before(), size: 0, target: None });
        } else {
            self.appeared += 1;
            if self.appeared_example.is_none() {
                self.appeared_example = Some(shown(&self.path(inode)));
            }
        }
        inode
    }

    fn add(&mut self, directory: Inode, name: &[u8], kind: Kind) -> Inode {
        let inode = self.nodes.len();
        self.nodes.push(Node {
            kind,
            parent: directory,
            name: name.into(),
            entries: FxHashMap::default(),
            size: 0,
            changed: false,
            target: None,
            before: None,
        });
        self.nodes[directory].entries.insert(name.into(), Entry::Is(inode));
        inode
    }

    /// Makes a name.
    pub(super) fn make(&mut self, found: &Found, kind: Kind) -> Inode {
        let directory = self.directory_of(found);
        self.add(directory, &found.name, kind)
    }

    /// Gives a link its text.
    pub(super) fn links(&mut self, inode: Inode, target: &[u8]) {
        let node = &mut self.nodes[inode];
        if node.kind == Kind::Directory {
            return;
        }
        node.kind = Kind::Symlink;
        node.target = Some(target.to_vec());
        if let Some(before) = node.before {
            self.before[before].kind = BeforeKind::Symlink;
            self.before[before].target = Some(shown(target));
        }
    }

    /// A call has told what it is.
    pub(super) fn told(&mut self, inode: Inode, kind: Kind) {
        let node = &mut self.nodes[inode];
        if node.kind == kind || node.kind == Kind::Directory || node.kind == Kind::Symlink {
            return;
        }
        node.kind = kind;
        if let Some(before) = node.before {
            self.before[before].kind = kind.before();
            self.before[before].size = 0;
        }
    }

    /// A call has told its size.
    pub(super) fn sized(&mut self, inode: Inode, size: u64) {
        let node = &mut self.nodes[inode];
        node.size = size;
        if let (false, Kind::File, Some(before)) = (node.changed, node.kind, node.before) {
            self.before[before].size = size;
        }
    }

    /// It holds at least so many bytes.
    pub(super) fn needs(&mut self, inode: Inode, size: u64) {
        let node = &mut self.nodes[inode];
        node.size = node.size.max(size);
        if let (false, Kind::File, Some(before)) = (node.changed, node.kind, node.before) {
            self.before[before].size = self.before[before].size.max(size);
        }
    }

    /// A name stands for nothing any more, or never did.
    pub(super) fn remove(&mut self, found: &Found) {
        let directory = self.directory_of(found);
        self.nodes[directory].entries.insert(found.name.clone(), Entry::Absent);
    }

    /// A call did not find a name in a directory that is known.
    pub(super) fn missed(&mut self, found: &Found) {
        if let (Some(directory), None) = (found.directory, found.entry)
            && self.nodes[directory].kind == Kind::Directory
        {
            self.nodes[directory].entries.insert(found.name.clone(), Entry::Absent);
        }
    }

    /// Gives an inode, which the directory of the name does not lie in, a name.
    pub(super) fn name(&mut self, found: &Found, inode: Inode) {
        let directory = self.directory_of(found);
        self.nodes[directory].entries.insert(found.name.clone(), Entry::Is(inode));
        let node = &mut self.nodes[inode];
        node.parent = directory;
        node.name.clone_from(&found.name);
    }
}

impl Kind {
    const fn before(self) -> BeforeKind {
        match self {
            Self::Directory => BeforeKind::Directory,
            Self::File => BeforeKind::File,
            Self::Symlink => BeforeKind::Symlink,
        }
    }
}
