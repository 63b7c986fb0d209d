//! Whether threads that found nothing may find something yet.
//!
//! A thread that waits for files which nobody will make never ends, and one that ends although
//! files are on their way leaves its load undone. Files come from loads on the same tree, and from
//! loads on another that copy or move them here. Those may have found nothing themselves, for want
//! of files that others give them, this thread perhaps. So hope is looked for along the loads that
//! supply each other: as long as a thread of any of them has not found that there is nothing, it
//! may set off the others; where all have, they wait for each other, and end.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use super::Apart;

/// The bits of [`Supplier::stuck`] that count threads.
const STUCK_BITS: u32 = 32;
const STUCK: u64 = (1 << STUCK_BITS) - 1;

/// What changes of a tree, for those who wait for that.
#[derive(Debug, Default)]
pub(super) struct Supply {
    /// A number of what is there, which grows when that changes and somebody waits.
    state: AtomicU64,
    /// Whether anybody has found nothing in this state.
    is_watched: Apart<AtomicBool>,
    /// The loads that change what is there. None comes when threads are at work.
    suppliers: RwLock<Vec<Weak<Supplier>>>,
}

/// A load as one that changes what is there of its own tree, or of the other of its copies and
/// moves.
#[derive(Debug)]
pub(super) struct Supplier {
    own: Weak<Supply>,
    other: Option<Weak<Supply>>,
    /// How many of its threads have not ended.
    living: Apart<AtomicU64>,
    /// A state of both trees, above how many of its threads found nothing in that.
    stuck: Apart<AtomicU64>,
    /// Whether there was something in its own tree that they could not take, because of what is in
    /// the other.
    lacks_other: AtomicBool,
}

/// The trees that hope has been looked for in, from the one that is looked at now upwards.
struct Seen<'s> {
    supply: *const Supply,
    above: Option<&'s Seen<'s>>,
}

impl Seen<'_> {
    fn has(&self, supply: &Supply) -> bool {
        std::ptr::eq(self.supply, supply) || self.above.is_some_and(|above| above.has(supply))
    }
}

impl Supply {
    /// Something is there, or is not any more: whoever found nothing may find something. While
    /// all find something, nobody has to know, and threads do not wait for each other here.
    pub(super) fn changed(&self) {
        if self.is_watched.load(SeqCst) && self.is_watched.swap(false, SeqCst) {
            self.state.fetch_add(1, SeqCst);
        }
    }

    /// Whether any thread may yet change what is there.
    pub(super) fn may_change(&self) -> bool {
        self.may_be_changed(None)
    }

    fn may_be_changed(&self, above: Option<&Seen<'_>>) -> bool {
        let seen = Seen { supply: self, above };
        let suppliers = self.suppliers.read().unwrap_or_else(PoisonError::into_inner);
        suppliers.iter().filter_map(Weak::upgrade).any(|supplier| supplier.may_give(&seen))
    }

    fn add(&self, supplier: &Arc<Supplier>) {
        let mut suppliers = self.suppliers.write().unwrap_or_else(PoisonError::into_inner);
        suppliers.push(Arc::downgrade(supplier));
    }
}

impl Supplier {
    /// A load on a tree, which copies or moves files to the other; it changes its own if
    /// `changes_own`.
    pub(super) fn new(
        own: &Arc<Supply>,
        other: Option<&Arc<Supply>>,
        changes_own: bool,
    ) -> Arc<Self> {
        let supplier = Arc::new(Self {
            own: Arc::downgrade(own),
            other: other.map(Arc::downgrade),
            living: Apart::default(),
            stuck: Apart::default(),
            lacks_other: AtomicBool::new(false),
        });
        let changed = changes_own.then_some(own).into_iter().chain(other);
        changed.for_each(|supply| supply.add(&supplier));
        supplier
    }

    /// A thread begins, or has ended.
    pub(super) fn set_living(&self, lives: bool) {
        self.living.fetch_add(if lives { 1 } else { u64::MAX }, SeqCst);
    }

    fn trees(&self) -> impl Iterator<Item = Arc<Supply>> {
        [Some(&self.own), self.other.as_ref()].into_iter().flatten().filter_map(Weak::upgrade)
    }

    /// A number of what is there in both trees: each grows, so it is another when one is.
    fn state(&self) -> u64 {
        self.trees().map(|tree| tree.state.load(SeqCst)).fold(0, u64::wrapping_add) & STUCK
    }

    /// A thread has found nothing, as it had in the state that is `known`; returns the state, and
    /// whether it had not in this. What changes from here on is noticed.
    pub(super) fn add_stuck(&self, known: Option<u64>, lacks_other: bool) -> (u64, bool) {
        self.lacks_other.store(lacks_other, SeqCst);
        self.trees().for_each(|tree| {
            if !tree.is_watched.load(SeqCst) {
                tree.is_watched.store(true, SeqCst);
            }
        });
        let state = self.state();
        let is_known = |stuck: u64| stuck >> STUCK_BITS == state && known == Some(state);
        let add = |stuck: u64| {
            let others = if stuck >> STUCK_BITS == state { stuck & STUCK } else { 0 };
            Some((state << STUCK_BITS) | (others + u64::from(!is_known(stuck))))
        };
        let before = self.stuck.fetch_update(SeqCst, SeqCst, add).unwrap_or(0);
        (state, !is_known(before))
    }

    /// A thread that found nothing in this state goes on, or has ended.
    pub(super) fn remove_stuck(&self, known: u64) {
        let remove = |stuck: u64| {
            let is_counted = stuck >> STUCK_BITS == known && stuck & STUCK > 0;
            Some(stuck - u64::from(is_counted))
        };
        let _ = self.stuck.fetch_update(SeqCst, SeqCst, remove);
    }

    /// Whether any of its threads may yet give something: it has not found that there is nothing,
    /// or what it lacks may come.
    fn may_give(&self, seen: &Seen<'_>) -> bool {
        let living = self.living.load(SeqCst);
        if living == 0 {
            return false;
        }
        let stuck = self.stuck.load(SeqCst);
        let is_stuck = stuck >> STUCK_BITS == self.state() && stuck & STUCK >= living;
        let lacked = if self.lacks_other.load(SeqCst) { 2 } else { 1 };
        let may_come = |tree: Arc<Supply>| !seen.has(&tree) && tree.may_be_changed(Some(seen));
        !is_stuck || self.trees().take(lacked).any(may_come)
    }
}
