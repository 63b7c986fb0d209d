//! A finished load on trees of files as a load that can be replayed elsewhere.
//!
//! Its results are calls on numbers: each names a file by its place in a tree of this shape. A
//! replay in another directory needs names, what was there before the first call, and which call
//! had to wait for which, as a recorded load has them. So the calls are told to the model of system
//! calls as a recorder would have told of them: in the order in which they returned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

use ioecho_replay::tree::Geometry;
use ioecho_trace::batch::BATCH_ROWS;
use ioecho_trace::header::{NoteKind, Notes, Topic};
use ioecho_trace::order::sort::WINDOW_ROWS;
use ioecho_trace::order::{Order, Sorter};
use ioecho_trace::recorded::{BeforeKind, RecordedFiles};
use ioecho_trace::syscalls::call::{At, Call, Descriptor, Event, OpenFlags, Whence, WriteFlags};
use ioecho_trace::syscalls::{Model, Row, USUAL_MASK};
use ioecho_trace::{
    Batch, Columns, Header, Measured, Nanos, Op, Outcome, Request, Source, TraceError, Volume,
    VolumeId,
};
use rustc_hash::FxHashMap;

use crate::chains::Chains;
use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::TargetEntry;
use crate::flows::{FlowSpec, TreeLoad};
use crate::links;
use crate::tree_target::{OpenWords, TreeTarget};

/// The volume of all requests.
const VOLUME: &str = "files";

/// The descriptor that a thread's file has, and those of a copy.
const OPEN: i32 = 3;
const FROM: i32 = 4;
const TO: i32 = 5;

/// A copy is read and written in parts of so many bytes: no call of a replay is longer.
const COPIED_AT_ONCE: u64 = 1 << 30;

/// Calls that no replay can make as they were made.
const NOT_MADE_AGAIN: Topic<'static> = NoteKind::LeftOut.of(
    "calls that cannot be made again: never made or answered, copies that failed, and what the \
         run does not tell the tree or the flow of",
);

/// What was there before.
const WHOLE: Topic<'static> = NoteKind::Assumed
    .of("files that were there before the load, taken as having had all of their data");

/// The trees of a finished load, and how its threads opened files.
pub(crate) struct PastTrees {
    trees: Vec<PastTree>,
    /// In the order of the run's flows.
    loads: Vec<TreeLoad>,
}

struct PastTree {
    geometry: Geometry,
    open: OpenWords,
    /// What its names begin with: nothing where it is the only tree.
    above: String,
}

impl PastTrees {
    /// The trees of the run in this directory, if it is one of loads on trees.
    pub(crate) fn of(path: &Path) -> Result<Option<Arc<Self>>> {
        let Some(run) = RunDirectory::at(path) else { return Ok(None) };
        let facts = run.read_facts()?;
        let lines = facts.plan.flows.as_deref().unwrap_or_default();
        if !facts.merged.is_empty() || lines.is_empty() {
            return Ok(None);
        }
        let names = facts.targets.iter().map(TargetEntry::typed_tree);
        let Some(names) = names.collect::<Option<Vec<&str>>>() else { return Ok(None) };
        let trees = names.into_iter().filter_map(TreeTarget::as_it_was);
        let trees = trees.collect::<Result<Vec<_>>>()?;
        let flows = lines.iter().map(|line| line.parse::<FlowSpec>());
        let flows = flows
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| RunError::new(Kind::Trace, format!("{}: {error}", path.display())))?;
        let loads = TreeLoad::of_each(&flows, &trees)?;
        let is_one = trees.len() == 1;
        let tree = |(tree, number): (TreeTarget, usize)| PastTree {
            geometry: tree.geometry,
            open: tree.open,
            above: if is_one { String::new() } else { format!("{number}/") },
        };
        let trees = trees.into_iter().zip(1..).map(tree).collect();
        Ok(Some(Arc::new(Self { trees, loads })))
    }

    /// What the file of a name has when it is whole, in bytes.
    fn size_of(&self, path: &str) -> Option<u64> {
        self.trees.iter().find_map(|tree| {
            let file = tree.geometry.file_of(path.strip_prefix(&tree.above)?)?;
            Some(tree.geometry.size(file))
        })
    }
}

/// How the trace of a replay is opened, as often as that needs it.
pub(crate) struct Opening<O> {
    open: O,
    past: Option<Past>,
    /// Whether it is to be told which call waited for which.
    links: bool,
}

/// What a first pass over the results of a run on trees tells.
struct Past {
    trees: Arc<PastTrees>,
    /// The names of all calls.
    names: RecordedFiles,
    /// How many tasks there were at a time.
    tasks: u32,
}

impl<O: Fn() -> Result<Box<dyn Source>>> Opening<O> {
    /// `open` opens the trace at `path`, which is the results of a run on these trees if there are
    /// any. Their names are known when it has been read to its end, so that is done once here; the
    /// links are checked by the way.
    pub(crate) fn new(
        past: Option<Arc<PastTrees>>,
        links: bool,
        path: &Path,
        open: O,
    ) -> Result<Self> {
        let read = |trees: Arc<PastTrees>| {
            let mut all = Relived::new(open()?, Arc::clone(&trees), links);
            let tasks = links::check(path, &mut all)?;
            Ok::<_, RunError>(Past { names: all.names(), trees, tasks })
        };
        let past = past.map(read).transpose()?;
        Ok(Self { open, past, links })
    }

    /// Opens it.
    pub(crate) fn open(&self) -> Result<Box<dyn Source>> {
        let source = (self.open)()?;
        Ok(match &self.past {
            None => source,
            Some(Past { trees, names, .. }) => {
                let mut relived = Relived::new(source, Arc::clone(trees), self.links);
                relived.header.files = Some(names.clone());
                Box::new(relived)
            }
        })
    }

    /// The chains of its calls, if these are known without another pass.
    pub(crate) fn chains(&self) -> Option<Chains> {
        let past = self.past.as_ref().filter(|_| self.links)?;
        Some(Chains::Named { tasks: past.tasks })
    }
}

/// The load of a finished run on trees.
struct Relived {
    source: Box<dyn Source>,
    past: Arc<PastTrees>,
    model: Model,
    header: Header,
    read: Batch,
    /// Calls that are held back: those that returned first are the next, by their numbers.
    pending: BinaryHeap<Reverse<(Nanos, u64, Pending)>>,
    calls: u64,
    /// The number of a task for each thread of each flow.
    tasks: FxHashMap<(u16, u32), u32>,
    given: Batch,
    sorter: Sorter,
    has_ended: bool,
    losses: Notes,
}

/// A call that has not been told of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    begun: Nanos,
    ended: Nanos,
    op: Op,
    place: u64,
    length: u64,
    error: Option<i32>,
    task: u32,
    flow: u16,
    tree: u16,
}

impl Relived {
    fn new(source: Box<dyn Source>, past: Arc<PastTrees>, links: bool) -> Self {
        let columns = Columns { latency: true, origin: true, measured: false, dependencies: links };
        let volumes = vec![Volume { id: VolumeId(0), name: VOLUME.to_owned(), size: None }];
        let header = Header { columns, volumes, run: None, ..source.header().clone() };
        let mut model = Model::new(links);
        // No run says which one it had.
        model.begin_with_mask(USUAL_MASK);
        Self {
            read: Batch::new(source.header().columns),
            source,
            past,
            model,
            header,
            pending: BinaryHeap::new(),
            calls: 0,
            tasks: FxHashMap::default(),
            given: Batch::new(columns),
            sorter: Sorter::new(Order::Window),
            has_ended: false,
            losses: Notes::default(),
        }
    }

    /// The names of what was read so far.
    fn names(&self) -> RecordedFiles {
        let mut files = self.model.files();
        for before in files.before.iter_mut().filter(|it| it.kind == BeforeKind::File) {
            before.size = self.past.size_of(&before.path).unwrap_or(0).max(before.size);
        }
        files
    }

    /// Takes more results, and what of them is known to have returned.
    fn fill(&mut self) -> std::result::Result<(), TraceError> {
        let mut read = std::mem::take(&mut self.read);
        let is_there = self.source.next_batch(&mut read)?;
        if is_there {
            for request in read.iter() {
                self.take(&request)?;
            }
        } else {
            while self.tell_next() {}
            self.sorter.feed(&mut self.given)?;
            self.learn();
        }
        self.read = read;
        self.has_ended = !is_there;
        Ok(())
    }

    /// Takes a result. Results of different threads are not quite in the order of their calls, so
    /// many are held back until the first of them has surely returned before all that come.
    fn take(&mut self, request: &Request) -> std::result::Result<(), TraceError> {
        let Some(call) = self.call_of(request) else {
            self.losses.add(NOT_MADE_AGAIN, 1, None);
            return Ok(());
        };
        self.pending.push(Reverse((call.ended, self.calls, call)));
        self.calls += 1;
        if self.pending.len() > WINDOW_ROWS {
            self.tell_next();
        }
        if self.given.len() < BATCH_ROWS {
            return Ok(());
        }
        self.sorter.feed(&mut self.given)
    }

    /// A call that has ended as calls do.
    fn call_of(&mut self, request: &Request) -> Option<Pending> {
        let Measured { submitted, completed, outcome, target, flow, .. } = request.measured?;
        let error = match outcome {
            Outcome::Ok => None,
            Outcome::Error(error) => Some(error),
            _ => return None,
        };
        let next = self.tasks.len() as u32 + 1;
        let task = *self.tasks.entry((flow, request.origin?.pid)).or_insert(next);
        Some(Pending {
            begun: submitted?,
            ended: completed?,
            op: request.op,
            place: request.offset.0,
            length: request.length.0,
            error,
            task,
            flow,
            tree: target,
        })
    }

    /// Tells the model of the pending call that returned first; answers whether there was one.
    fn tell_next(&mut self) -> bool {
        let Some(Reverse((.., call))) = self.pending.pop() else { return false };
        self.tell(&call);
        true
    }

    /// Tells the model of a call.
    fn tell(&mut self, call: &Pending) {
        let past = Arc::clone(&self.past);
        let load = usize::from(call.flow).checked_sub(1).and_then(|flow| past.loads.get(flow));
        let tree = past.trees.get(usize::from(call.tree));
        let (Some(load), Some(tree)) = (load, tree) else {
            self.losses.add(NOT_MADE_AGAIN, 1, None);
            return;
        };
        let number = tree.geometry.number_at(call.place);
        let named = tree.named(number);
        let within = Whence::Start(tree.geometry.within(call.place));
        let descriptor = Descriptor { number: OPEN, path: None };
        let what = match call.op {
            Op::Mkdir => Call::MakeDirectory { at: named, mode: Some(0o777) },
            Op::Rmdir => Call::RemoveDirectory(named),
            Op::Create | Op::Open => {
                let is_new = call.op == Op::Create;
                return self.opens(call, tree, named, is_new, is_new || load.writes);
            }
            Op::Close => {
                let close = Call::Close { first: OPEN, last: OPEN };
                if !tree.open.fsync {
                    return self.event(call, close, 0);
                }
                let sync = Call::Sync { descriptor, data_only: false };
                self.event(call, sync, 0);
                return self.event_at(call, (call.ended, None), close, 0);
            }
            Op::Read => Call::Read { from: descriptor, at: within, asked: Some(call.length) },
            Op::Write => Call::Write { to: descriptor, at: within, how: WriteFlags::default() },
            Op::Delete => Call::Unlink(named),
            Op::Getattr => Call::Stat { at: named, follow: false, told: None },
            Op::Setattr => Call::SetAttributes { at: named, mode: None, follow: false },
            Op::Access => Call::Access(named),
            Op::Move | Op::Copy => {
                let Some(to) = load.to.and_then(|to| past.trees.get(to)) else {
                    self.losses.add(NOT_MADE_AGAIN, 1, None);
                    return;
                };
                if call.op == Op::Copy {
                    return self.copies(call, (tree, to), number);
                }
                let to = to.named(number);
                Call::Rename { from: named, to, no_replace: true, exchange: false, whiteout: false }
            }
            _ => {
                self.losses.add(NOT_MADE_AGAIN, 1, None);
                return;
            }
        };
        self.event(call, what, call.length);
    }

    /// A thread opens a file.
    fn opens(&mut self, call: &Pending, tree: &PastTree, at: At, is_new: bool, writes: bool) {
        let flags = OpenFlags {
            read: true,
            write: writes,
            create: is_new,
            exclusive: is_new,
            sync: tree.open.sync,
            direct: tree.open.direct,
            no_follow: true,
            ..OpenFlags::default()
        };
        let mode = is_new.then_some(0o666);
        self.event(call, Call::Open { at, flags, mode, opened: None }, OPEN.unsigned_abs().into());
    }

    /// A thread copies a file to another tree: both are opened, one is read and the other written,
    /// and both are closed. It is known of all of that alone how long it took; that is taken as the
    /// time of the reads and writes, by their bytes.
    fn copies(&mut self, call: &Pending, (from, to): (&PastTree, &PastTree), number: u64) {
        if call.error.is_some() {
            self.losses.add(NOT_MADE_AGAIN, 1, None);
            return;
        }
        let reads = OpenFlags { read: true, no_follow: true, ..OpenFlags::default() };
        let makes = OpenFlags {
            write: true,
            create: true,
            truncate: true,
            no_follow: true,
            ..OpenFlags::default()
        };
        for (tree, flags, mode, descriptor) in
            [(from, reads, None, FROM), (to, makes, Some(0o666), TO)]
        {
            let open = Call::Open { at: tree.named(number), flags, mode, opened: None };
            self.event_at(call, (call.begun, None), open, descriptor.unsigned_abs().into());
        }
        let descriptor = |number| Descriptor { number, path: None };
        let size = from.geometry.size(number);
        let whole = i128::from((call.ended - call.begun).0);
        let when = |bytes: u64| {
            let since = whole * i128::from(bytes) / i128::from(size);
            call.begun + Nanos(since as i64)
        };
        for at in (0..size).step_by(COPIED_AT_ONCE as usize) {
            let (from, to, at_place) = (descriptor(FROM), descriptor(TO), Whence::Start(at));
            let moves = Call::Transfer { from, from_at: at_place, to, to_at: at_place };
            let length = COPIED_AT_ONCE.min(size - at);
            let (begun, ended) = (when(at), when(at + length));
            self.event_at(call, (begun, Some(ended - begun)), moves, length);
        }
        for descriptor in [TO, FROM] {
            let close = Call::Close { first: descriptor, last: descriptor };
            self.event_at(call, (call.ended, None), close, 0);
        }
    }

    /// Tells the model of a call, which returned so much unless it failed.
    fn event(&mut self, call: &Pending, what: Call, returned: u64) {
        self.event_at(call, (call.begun, Some(call.ended - call.begun)), what, returned);
    }

    /// The same of one that is a part of the whole, by when it began and how long it took.
    fn event_at(
        &mut self,
        call: &Pending,
        (begun, took): (Nanos, Option<Nanos>),
        what: Call,
        returned: u64,
    ) {
        let result = call.error.map_or(Ok(returned as i64), Err);
        let event = Event { task: call.task, begun, took, call: what, result };
        let given = &mut self.given;
        self.model.take(&event, &mut |Row { request, dependency }: Row<'_>| {
            given.push(&Request { volume: VolumeId(0), ..request });
            if let Some(dependency) = dependency {
                given.link_last(dependency);
            }
        });
    }

    /// Completes what is known of the trace at its end.
    fn learn(&mut self) {
        let source = self.source.header();
        let (mut losses, mut guesses) = self.model.told();
        losses.catch_up(&self.losses);
        let before = &self.model.files().before;
        let files = before.iter().filter(|before| before.kind == BeforeKind::File);
        guesses.add(WHOLE, files.count() as u64, None);
        // They come as they returned, and leave as they were made: that is no disorder of theirs.
        let mut sorted = Notes::default();
        self.sorter.note(&mut sorted);
        let others = sorted.iter().filter(|note| note.kind != NoteKind::Order);
        others.for_each(|note| guesses.add_note(note));
        let header = &mut self.header;
        header.losses.clone_from(&source.losses);
        header.losses.catch_up(&losses);
        header.guesses.clone_from(&source.guesses);
        header.guesses.catch_up(&guesses);
        header.damage.clone_from(&source.damage);
        header.damage_kind = source.damage_kind;
    }
}

impl PastTree {
    /// The name of a file or directory, from the root on.
    fn named(&self, number: u64) -> At {
        let path = format!("/{}{}", self.above, self.geometry.path(number));
        At { path: path.into_bytes(), ..At::default() }
    }
}

impl Source for Relived {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> std::result::Result<bool, TraceError> {
        batch.reset(self.header.columns);
        loop {
            if self.sorter.give(batch, self.has_ended)? {
                return Ok(true);
            }
            if self.has_ended {
                return Ok(false);
            }
            self.fill()?;
        }
    }
}

#[cfg(test)]
mod tests;
