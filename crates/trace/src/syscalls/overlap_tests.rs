//! Tasks whose calls overlap on a few names, and every order in which links allow these calls to be
//! made again: each must come to what it came to, and the same tree must be left.
//!
//! A file system in memory knows the truth. Calls take effect as they return.

use std::collections::BTreeMap;

use super::call::{At, Call, Descriptor, Event, OpenFlags, Told, ToldKind, Whence, WriteFlags};
use super::model::Model;
use crate::recorded::{BeforeKind, OpenWord, Place, RecordedFiles};
use crate::request::{Op, Request};
use crate::units::Nanos;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;
/// No error, but nothing that was recorded.
const UNLIKE: i32 = -1;

/// Numbers that look random.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// A path of one, two or three names, of two each.
    fn path(&mut self) -> String {
        let depth = 1 + self.roll(3);
        (0..depth).map(|_| if self.roll(2) == 0 { "/a" } else { "/b" }).collect()
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Of a directory.
    entries: Option<BTreeMap<String, usize>>,
    size: u64,
}

/// A file system that does what the kernel does.
#[derive(Clone, Debug)]
struct Disk(Vec<Node>);

type Done = Result<usize, i32>;

impl Disk {
    fn new() -> Self {
        Self(vec![Node { entries: Some(BTreeMap::new()), size: 0 }])
    }

    fn directory(&mut self, at: usize) -> Result<&mut BTreeMap<String, usize>, i32> {
        self.0[at].entries.as_mut().ok_or(ENOTDIR)
    }

    /// The directory that a path ends in, and its last name.
    fn above<'p>(&mut self, path: &'p str) -> Result<(usize, &'p str), i32> {
        let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let last = names.pop().ok_or(EINVAL)?;
        let mut at = 0;
        for name in names {
            at = *self.directory(at)?.get(name).ok_or(ENOENT)?;
        }
        self.directory(at)?;
        Ok((at, last))
    }

    fn find(&mut self, path: &str) -> Done {
        let (above, name) = self.above(path)?;
        self.directory(above)?.get(name).copied().ok_or(ENOENT)
    }

    fn make(&mut self, path: &str, node: Node) -> Done {
        let (above, name) = self.above(path)?;
        let number = self.0.len();
        if self.directory(above)?.contains_key(name) {
            return Err(EEXIST);
        }
        self.directory(above)?.insert(name.to_owned(), number);
        self.0.push(node);
        Ok(number)
    }

    fn mkdir(&mut self, path: &str) -> Done {
        self.make(path, Node { entries: Some(BTreeMap::new()), size: 0 })
    }

    fn open(&mut self, path: &str, flags: OpenFlags) -> Done {
        let found = match self.find(path) {
            Err(ENOENT) if flags.create => return self.make(path, Node::default()),
            Ok(_) if flags.create && flags.exclusive => return Err(EEXIST),
            found => found?,
        };
        if self.0[found].entries.is_some() && flags.write {
            return Err(EISDIR);
        }
        if flags.truncate {
            self.0[found].size = 0;
        }
        Ok(found)
    }

    fn remove(&mut self, path: &str, is_directory: bool) -> Done {
        let found = self.find(path)?;
        match (&self.0[found].entries, is_directory) {
            (Some(_), false) => return Err(EISDIR),
            (None, true) => return Err(ENOTDIR),
            (Some(entries), true) if !entries.is_empty() => return Err(ENOTEMPTY),
            _ => {}
        }
        let (above, name) = self.above(path)?;
        self.directory(above)?.remove(name);
        Ok(found)
    }

    fn rename(&mut self, from: &str, to: &str) -> Done {
        let moved = self.find(from)?;
        let (above, name) = self.above(to)?;
        let is_directory = self.0[moved].entries.is_some();
        if is_directory && to.starts_with(&format!("{from}/")) {
            return Err(EINVAL);
        }
        match self.directory(above)?.get(name).copied() {
            Some(other) if other == moved => return Ok(moved),
            Some(other) => match (&self.0[other].entries, is_directory) {
                (Some(entries), _) if !entries.is_empty() && is_directory => return Err(ENOTEMPTY),
                (Some(_), false) => return Err(EISDIR),
                (None, true) => return Err(ENOTDIR),
                _ => {}
            },
            None => {}
        }
        let (below, old) = self.above(from)?;
        self.directory(below)?.remove(old);
        self.directory(above)?.insert(name.to_owned(), moved);
        Ok(moved)
    }

    /// All names: the sizes of files, `None` for directories.
    fn tree(&self) -> BTreeMap<String, Option<u64>> {
        let mut all = BTreeMap::new();
        let mut left = vec![(0, String::new())];
        while let Some((at, path)) = left.pop() {
            for (name, node) in self.0[at].entries.iter().flatten() {
                let path = format!("{path}/{name}");
                let node = (*node, &self.0[*node]);
                all.insert(path.clone(), node.1.entries.is_none().then_some(node.1.size));
                left.push((node.0, path));
            }
        }
        all
    }
}

/// A task: its call that has not returned, and what it has open.
#[derive(Default)]
struct Task {
    begun: Option<(i64, Call)>,
    open: BTreeMap<i32, usize>,
    opened: i32,
}

fn at(path: &str) -> At {
    At { path: path.as_bytes().to_vec(), ..At::default() }
}

fn text(at: &At) -> &str {
    std::str::from_utf8(&at.path).unwrap()
}

impl Task {
    /// What it does next.
    fn choose(&self, dice: &mut Dice) -> Call {
        let path = dice.path();
        let open = self.open.keys().nth(dice.roll(self.open.len().max(1) as u64) as usize);
        if let Some(number) = open.copied().filter(|_| dice.roll(2) == 0) {
            let descriptor = Descriptor { number, path: None };
            let from = Whence::Start(10 * dice.roll(4));
            return match dice.roll(6) {
                0 | 1 => Call::Read { from: descriptor, at: from, asked: Some(10) },
                2 | 3 => Call::Write { to: descriptor, at: from, how: WriteFlags::default() },
                4 => Call::TruncateDescriptor {
                    descriptor,
                    size: 10 * dice.roll(4),
                    only_grows: false,
                },
                _ => Call::Close { first: number, last: number },
            };
        }
        let both = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let flags = [
            both,
            OpenFlags { create: true, exclusive: true, ..both },
            OpenFlags { create: true, truncate: true, ..both },
            OpenFlags { truncate: true, ..both },
        ];
        match dice.roll(9) {
            0 => Call::MakeDirectory { at: at(&path), mode: Some(0o755) },
            1 => Call::RemoveDirectory(at(&path)),
            2 => Call::Unlink(at(&path)),
            3 => Call::Rename {
                from: at(&path),
                to: at(&dice.path()),
                no_replace: false,
                exchange: false,
                whiteout: false,
            },
            4 | 5 => Call::Stat { at: at(&path), follow: true, told: None },
            _ => {
                let flags = flags[dice.roll(4) as usize];
                Call::Open { at: at(&path), flags, mode: Some(0o644), opened: None }
            }
        }
    }

    /// Makes a call, which returns.
    fn make(&mut self, call: &mut Call, disk: &mut Disk) -> Result<i64, i32> {
        let done = match call {
            Call::MakeDirectory { at, .. } => disk.mkdir(text(at)),
            Call::RemoveDirectory(at) => disk.remove(text(at), true),
            Call::Unlink(at) => disk.remove(text(at), false),
            Call::Rename { from, to, .. } => disk.rename(text(from), text(to)),
            Call::Stat { at, told, .. } => {
                let found = disk.find(text(at));
                *told = found.ok().map(|node| match disk.0[node].entries {
                    Some(_) => Told { kind: ToldKind::Directory, size: None },
                    None => Told { kind: ToldKind::File, size: Some(disk.0[node].size) },
                });
                found
            }
            Call::Open { at, flags, .. } => {
                let node = disk.open(text(at), *flags)?;
                self.opened += 1;
                self.open.insert(self.opened, node);
                return Ok(i64::from(self.opened));
            }
            Call::Close { first, .. } => self.open.remove(first).ok_or(9),
            Call::Read { from, at: Whence::Start(at), .. } => {
                let size = disk.0[self.open[&from.number]].size;
                return Ok(size.saturating_sub(*at).min(10) as i64);
            }
            Call::Write { to, at: Whence::Start(at), .. } => {
                let size = &mut disk.0[self.open[&to.number]].size;
                *size = (*size).max(*at + 10);
                return Ok(10);
            }
            Call::TruncateDescriptor { descriptor, size, .. } => {
                disk.0[self.open[&descriptor.number]].size = *size;
                Ok(0)
            }
            call => unreachable!("{call:?}"),
        };
        done.map(|_| 0)
    }
}

/// A request, its number, and the numbers of those that it waits for.
type Linked = (Request, u64, Vec<u64>);

/// Records tasks with overlapping calls: the requests in the order of the trace, the names, and the
/// tree that was left.
fn recorded(dice: &mut Dice) -> (Vec<Linked>, RecordedFiles, BTreeMap<String, Option<u64>>) {
    let mut disk = Disk::new();
    for (path, size) in [("/a", None), ("/a/a", Some(20)), ("/a/b", None)] {
        let made = match size {
            None => disk.mkdir(path),
            Some(size) => disk.make(path, Node { entries: None, size }),
        };
        made.unwrap();
    }
    let mut tasks: Vec<Task> = (0..2 + dice.roll(3)).map(|_| Task::default()).collect();
    let mut model = Model::new(true);
    let mut rows = Vec::new();
    let mut give = |event: &Event| {
        model.take(event, &mut |row| {
            let dependency = row.dependency.unwrap();
            rows.push((row.request, dependency.id, dependency.parents.to_vec()));
        });
    };
    let mut now = 0;
    // All that is there is found first.
    for path in ["/a", "/a/a", "/a/b"] {
        let mut call = Call::Stat { at: at(path), follow: true, told: None };
        let result = tasks[0].make(&mut call, &mut disk);
        give(&Event { task: 0, begun: Nanos(now), took: Some(Nanos(1)), call, result });
        now += 2;
    }
    for _ in 0..60 {
        now += 1;
        let number = dice.roll(tasks.len() as u64) as usize;
        let task = &mut tasks[number];
        let Some((begun, mut call)) = task.begun.take() else {
            task.begun = Some((now, task.choose(dice)));
            continue;
        };
        let result = task.make(&mut call, &mut disk);
        let took = Some(Nanos(now - begun));
        give(&Event { task: number as u32, begun: Nanos(begun), took, call, result });
    }
    let files = model.files();
    rows.sort_by_key(|(request, ..)| request.issue);
    (rows, files, disk.tree())
}

/// A replay: the disk, and what is open by its place.
struct Replay<'f> {
    disk: Disk,
    files: &'f RecordedFiles,
    open: BTreeMap<u64, usize>,
}

impl<'f> Replay<'f> {
    fn new(files: &'f RecordedFiles) -> Self {
        let mut disk = Disk::new();
        for before in &files.before {
            let is_directory = before.kind == BeforeKind::Directory;
            let entries = is_directory.then(BTreeMap::new);
            disk.make(&before.path, Node { entries, size: before.size }).unwrap();
        }
        Self { disk, files, open: BTreeMap::new() }
    }

    /// Makes a call again; answers whether it came to what it came to.
    fn make(&mut self, request: &Request) -> bool {
        let (place, within) = self.files.at(request.offset.0).unwrap();
        let number = request.offset.0 - within;
        let done = self.done(request, place, (number, within));
        done.err() == place.fails
    }

    fn done(&mut self, request: &Request, place: &Place, (number, within): (u64, u64)) -> Done {
        let has = |word| place.open.contains(&word);
        match request.op {
            Op::Open | Op::Create => {
                let flags = OpenFlags {
                    write: true,
                    create: has(OpenWord::Create),
                    exclusive: has(OpenWord::Exclusive),
                    truncate: has(OpenWord::Truncate),
                    ..OpenFlags::default()
                };
                let node = self.disk.open(&place.path, flags)?;
                // A place stands for one file at a time.
                match self.open.insert(number, node) {
                    Some(_) => Err(UNLIKE),
                    None => Ok(node),
                }
            }
            Op::Close => self.open.remove(&number).ok_or(UNLIKE),
            Op::Read => {
                let size = self.disk.0[self.open[&number]].size;
                let end = within + request.length.0;
                let is_alike = if request.length.0 == 0 { size <= within } else { size >= end };
                if is_alike { Ok(0) } else { Err(UNLIKE) }
            }
            Op::Write => {
                let size = &mut self.disk.0[self.open[&number]].size;
                *size = (*size).max(within + request.length.0);
                Ok(0)
            }
            Op::Truncate => {
                self.disk.0[self.open[&number]].size = within;
                Ok(0)
            }
            Op::Mkdir => self.disk.mkdir(&place.path),
            Op::Rmdir => self.disk.remove(&place.path, true),
            Op::Delete => self.disk.remove(&place.path, false),
            Op::Rename => {
                let to = place.to.as_deref().unwrap();
                self.disk.rename(&place.path, to)
            }
            Op::Getattr => self.disk.find(&place.path),
            op => unreachable!("{op:?}"),
        }
    }
}

/// Makes calls again in an order that their links allow, as far as these are `heeded`: the order of
/// the trace, or any. Answers the tree that they leave, if each comes to what it came to, and how
/// many overtook another.
fn made_again(
    (rows, files): (&[Linked], &RecordedFiles),
    heeded: impl Fn(&Request, &Request) -> bool,
    mut dice: Option<&mut Dice>,
) -> Result<(BTreeMap<String, Option<u64>>, usize), String> {
    let places: BTreeMap<u64, usize> =
        rows.iter().enumerate().map(|(place, (_, number, _))| (*number, place)).collect();
    let mut replay = Replay::new(files);
    let mut left: Vec<&Linked> = rows.iter().collect();
    let mut done = vec![false; rows.len()];
    let mut overtook = 0;
    while !left.is_empty() {
        let may = |(request, _, parents): &Linked| {
            let mut parents = parents.iter().map(|parent| places[parent]);
            parents.all(|parent| done[parent] || !heeded(&rows[parent].0, request))
        };
        let ready: Vec<usize> = (0..left.len()).filter(|at| may(left[*at])).collect();
        let pick = dice.as_mut().map_or(0, |dice| dice.roll(ready.len() as u64) as usize);
        overtook += usize::from(ready[pick] > 0);
        let (request, number, _) = left.remove(ready[pick]);
        if !replay.make(request) {
            let place = files.at(request.offset.0).unwrap().0;
            return Err(format!("{number}: {request:?} {place:?}"));
        }
        done[places[number]] = true;
    }
    Ok((replay.disk.tree(), overtook))
}

/// Whether a call that another waits for had not returned when the other began.
fn overlapped(parent: &Request, child: &Request) -> bool {
    parent.issue + parent.latency.unwrap() > child.issue
}

#[test]
fn calls_that_overlapped_come_to_the_same_in_every_order_that_their_links_allow() {
    let (mut overtook, mut unlike_without) = (0, 0);
    for seed in 0..4000 {
        let mut dice = Dice(seed);
        let (rows, files, truth) = recorded(&mut dice);
        let load = (rows.as_slice(), &files);
        for (place, (.., parents)) in rows.iter().enumerate() {
            let is_before = |parent: &u64| rows[..place].iter().any(|row| row.1 == *parent);
            assert!(parents.iter().all(is_before), "seed {seed}");
        }
        let (tree, _) = made_again(load, |_, _| true, None).expect("as it stands");
        assert_eq!(tree, truth, "seed {seed}");
        for _ in 0..3 {
            match made_again(load, |_, _| true, Some(&mut dice)) {
                Ok((tree, times)) => {
                    assert_eq!(tree, truth, "seed {seed}");
                    overtook += times;
                }
                Err(unlike) => panic!("seed {seed}: {unlike}"),
            }
        }
        // Without the links between calls that overlapped it goes wrong.
        let apart = |parent: &Request, child: &Request| !overlapped(parent, child);
        let without = made_again(load, apart, Some(&mut dice));
        unlike_without += usize::from(without.is_err_and(|unlike| !unlike.is_empty()));
    }
    assert!(overtook > 10_000 && unlike_without > 100, "{overtook} {unlike_without}");
}
