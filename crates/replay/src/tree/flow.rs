//! What the threads of a load on files share: which file is next, and when something is due.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioecho_trace::{Batch, Nanos, Source, TraceError, generate};

use super::load::{FileLoad, Select, Task};
use super::supply::Supplier;
use super::{Apart, FileState, Tree};
use crate::pattern::SplitMix64;

/// Instants that are made at a time.
const INSTANTS: usize = 256;

/// The bits of the cursor that say how many things of a task were chosen.
const CHOSEN_BITS: u32 = 48;

/// A load on files, shared by all its threads.
pub struct FileFlow {
    /// What it does.
    pub load: FileLoad,
    /// The tree it works on.
    pub tree: Arc<Tree>,
    /// The other tree of copies and moves.
    pub to: Option<Arc<Tree>>,
    /// Its threads, as those that may change what others wait for.
    pub(super) supplier: Arc<Supplier>,
    /// The number of the task, above how many things were chosen for it.
    cursor: Apart<AtomicU64>,
    /// Threads that have something, or are about to take something.
    active: Apart<AtomicU64>,
    /// Threads that wait for something that another has.
    waiting: Apart<AtomicU64>,
    /// Whether a thread has found something to work on.
    has_begun: AtomicBool,
    arrivals: Option<Mutex<Arrivals>>,
    ran_out: Mutex<Option<&'static str>>,
    start: u64,
}

/// The instants at which a load's requests are due.
struct Arrivals {
    source: Box<dyn Source>,
    batch: Batch,
    row: usize,
}

impl Arrivals {
    fn next(&mut self) -> Option<Nanos> {
        while self.row >= self.batch.len() {
            self.row = 0;
            // A generator that was opened makes its requests.
            if !self.source.next_batch(&mut self.batch).unwrap_or(false) {
                return None;
            }
        }
        self.row += 1;
        Some(Nanos(self.batch.issue_ns()[self.row - 1]))
    }
}

/// What is to be worked on next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// The candidate of this number, for this task.
    This(Task, u64),
    /// All candidates of this task were chosen.
    Exhausted,
    /// All was done.
    Over,
}

impl FileFlow {
    /// A load on a tree.
    ///
    /// # Errors
    ///
    /// If the generator of its instants cannot be opened.
    pub fn new(load: FileLoad, tree: Arc<Tree>, to: Option<Arc<Tree>>) -> Result<Self, TraceError> {
        let arrivals = match &load.arrivals {
            None => None,
            Some(line) => {
                let source = generate::open_by(line.as_ref(), INSTANTS)?;
                let batch = Batch::new(source.header().columns);
                Some(Mutex::new(Arrivals { source, batch, row: 0 }))
            }
        };
        let start = match load.select {
            Select::FromAnywhere => SplitMix64(load.seed).below(tree.geometry.used().max(1)),
            _ => 0,
        };
        let other = to.as_ref().map(|to| &to.supply);
        let supplier = Supplier::new(&tree.supply, other, load.changes_own());
        Ok(Self {
            load,
            tree,
            to,
            supplier,
            cursor: Apart::default(),
            active: Apart::default(),
            waiting: Apart::default(),
            has_begun: AtomicBool::new(false),
            arrivals,
            ran_out: Mutex::new(None),
            start,
        })
    }

    /// How many things there are to choose from for a task.
    pub(super) fn candidates(&self, task: Task) -> u64 {
        let geometry = &self.tree.geometry;
        match task {
            task if task.is_of_directories() => geometry.directories(),
            // A tree is made whole, whatever part of it is used.
            _ if self.load.is_format => geometry.files(),
            _ => geometry.used(),
        }
    }

    fn task(&self, cursor: u64) -> Option<Task> {
        self.load.tasks.get((cursor >> CHOSEN_BITS) as usize).copied()
    }

    /// The task of the moment.
    pub(super) fn current(&self) -> Option<Task> {
        self.task(self.cursor.load(SeqCst))
    }

    /// The next candidate.
    pub(super) fn choose(&self, random: &mut SplitMix64) -> Chosen {
        let each_once = self.load.once;
        if !each_once && let Some(chosen) = self.choose_any(random) {
            return chosen;
        }
        // All threads write here. Whoever reads it first waits for it twice.
        let cursor = self.cursor.fetch_add(1, SeqCst);
        let Some(task) = self.task(cursor) else { return Chosen::Over };
        let among = self.candidates(task);
        let nth = cursor & ((1 << CHOSEN_BITS) - 1);
        if nth >= among && each_once || among == 0 {
            return Chosen::Exhausted;
        }
        let nth = (nth + self.start) % among;
        let is_random = !task.is_of_directories() && !self.load.is_format;
        let is_shuffled =
            is_random && matches!(self.load.select, Select::Random | Select::Skewed(_));
        Chosen::This(
            task,
            match task {
                Task::Rmdir => among - 1 - nth,
                _ if is_shuffled => shuffled(nth, among, self.load.seed),
                _ => nth,
            },
        )
    }

    /// A candidate at random, if that is how they are chosen.
    fn choose_any(&self, random: &mut SplitMix64) -> Option<Chosen> {
        let (Select::Random | Select::Skewed(_)) = self.load.select else { return None };
        let Some(task) = self.current() else { return Some(Chosen::Over) };
        if task.is_of_directories() {
            return None;
        }
        let among = self.candidates(task);
        Some(match self.load.select {
            _ if among == 0 => Chosen::Exhausted,
            Select::Skewed(by) => Chosen::This(task, skewed(by, among, random)),
            _ => Chosen::This(task, random.below(among)),
        })
    }

    /// Goes on to the next task once nobody works on this one; answers whether it is another now.
    pub(super) fn advance(&self) -> bool {
        let cursor = self.cursor.load(SeqCst);
        let Some(task) = self.task(cursor) else { return false };
        let chosen = cursor & ((1 << CHOSEN_BITS) - 1);
        if chosen < self.candidates(task) || !self.is_idle() {
            return false;
        }
        let next = ((cursor >> CHOSEN_BITS) + 1) << CHOSEN_BITS;
        self.cursor.compare_exchange(cursor, next, SeqCst, SeqCst).is_ok()
    }

    fn is_idle(&self) -> bool {
        self.active.load(SeqCst) == 0 && self.waiting.load(SeqCst) == 0
    }

    /// Whether nobody but the thread that asks has anything that another could wait for.
    pub(super) fn is_active_alone(&self) -> bool {
        self.active.load(SeqCst) <= 1
    }

    /// A thread takes something, or has nothing any more. Only where each is chosen once does
    /// anybody ask how many there are.
    pub(super) fn set_active(&self, is_active: bool) {
        if !self.load.once {
            return;
        }
        let by = if is_active { 1 } else { u64::MAX };
        self.active.fetch_add(by, SeqCst);
    }

    /// A thread begins to wait for something, or does not wait any more.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        let by = if is_waiting { 1 } else { u64::MAX };
        self.waiting.fetch_add(by, SeqCst);
    }

    /// Whether threads that found nothing were kept from something by what is in the other tree.
    pub(super) fn lacks_other(&self, task: Task) -> bool {
        self.to.is_some() && self.has_candidates(task)
    }

    /// Whether threads that found nothing to do may find something yet.
    pub(super) fn may_find(&self, task: Task) -> bool {
        let other = self.to.as_ref().filter(|_| self.lacks_other(task));
        self.tree.supply.may_change() || other.is_some_and(|to| to.supply.may_change())
    }

    /// What is there has changed.
    pub(super) fn changed(&self) {
        self.tree.supply.changed();
        self.to.iter().for_each(|to| to.supply.changed());
    }

    /// Whether requests are due at instants.
    pub fn is_open(&self) -> bool {
        self.arrivals.is_some()
    }

    /// When the next request is due; `None` if there are no more.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        self.arrivals.as_ref().and_then(|arrivals| locked(arrivals).next())
    }

    /// A thread found nothing to work on.
    pub(super) fn ran_out(&self, task: Task) {
        *locked(&self.ran_out) = Some(self.lacks(task));
    }

    /// A thread found something to work on.
    pub(super) fn has_found(&self) {
        if !self.has_begun.load(Relaxed) {
            self.has_begun.store(true, Relaxed);
        }
    }

    /// A thread has ended where each was to be chosen once: nothing ran out, unless all threads
    /// found nothing at all. A tree that need not be made is made already.
    pub(super) fn chose_all(&self) {
        if let [task] = self.load.tasks[..]
            && !self.load.is_format
            && !self.has_begun.load(Relaxed)
        {
            self.ran_out(task);
        }
    }

    /// What is missing for a task.
    fn lacks(&self, task: Task) -> &'static str {
        let wanted = task.wants() & self.load.only;
        match (task, &self.to) {
            _ if self.tree.states.count(wanted) == 0 => task.lacks(wanted),
            (Task::Move, Some(to)) if to.states.count(FileState::Absent as u8) == 0 => {
                "the other tree has all of its files already"
            }
            (Task::Move, Some(_)) => {
                "no file is left whose directory is in the other tree and which is not there itself"
            }
            (Task::Copy, Some(_)) => "no file is left whose directory is in the other tree",
            _ => task.lacks(wanted),
        }
    }

    /// Why threads ended before the run did, if they did.
    pub fn why_ended(&self) -> Option<&'static str> {
        *locked(&self.ran_out)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number below `among`, mostly a small one.
fn skewed(by: f64, among: u64, random: &mut SplitMix64) -> u64 {
    loop {
        let part = -(1.0 - random.unit()).ln() / by;
        if part < 1.0 {
            return ((part * among as f64) as u64).min(among - 1);
        }
    }
}

/// The number that a shuffle of all below `among` puts at this place: four rounds of a Feistel
/// network over the next even number of bits, walked until it is one of them.
pub(super) fn shuffled(nth: u64, among: u64, seed: u64) -> u64 {
    let bits = (64 - among.saturating_sub(1).leading_zeros()).max(2);
    let half = bits.div_ceil(2);
    let mask = (1_u64 << half) - 1;
    let mut place = nth;
    loop {
        let (mut left, mut right) = (place >> half, place & mask);
        for round in 0..4 {
            let mixed = SplitMix64(seed ^ (round << 56) ^ right).next_u64() & mask;
            (left, right) = (right, left ^ mixed);
        }
        place = left << half | right;
        if place < among {
            return place;
        }
    }
}
