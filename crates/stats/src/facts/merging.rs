//! The ways to merge two values of a fact. Each field chooses one.
//!
//! Each is associative and, except for lists, commutative, so that merged facts are, too.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Between words of runs that differ.
pub(super) const BETWEEN: &str = " / ";

/// Adds counters of things each of which is in one run only.
pub(super) fn add_each<const N: usize>(counters: [(&mut u64, &u64); N]) {
    for (mine, theirs) in counters {
        *mine = mine.saturating_add(*theirs);
    }
}

/// Puts a sentence behind another; an empty one says nothing.
pub(super) fn behind_each_other_in_words(mine: &mut String, theirs: &str) {
    if !mine.is_empty() && !theirs.is_empty() {
        mine.push_str("; ");
    }
    mine.push_str(theirs);
}

/// Merges values that both have; a value that only one has is kept.
pub(super) fn both<T: Clone>(
    mine: &mut Option<T>,
    theirs: Option<&T>,
    merge: impl FnOnce(&mut T, &T),
) {
    match (mine.as_mut(), theirs) {
        (Some(mine), Some(theirs)) => merge(mine, theirs),
        (None, theirs) => *mine = theirs.cloned(),
        (Some(_), None) => {}
    }
}

/// The same of numbers.
pub(super) fn known<T>(mine: Option<T>, theirs: Option<T>, merge: fn(T, T) -> T) -> Option<T> {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => Some(merge(mine, theirs)),
        (one, None) | (None, one) => one,
    }
}

/// The value furthest from where `distance` is zero, in either direction; of two that are as far
/// the larger.
pub(super) fn furthest(
    mine: Option<f64>,
    theirs: Option<f64>,
    distance: fn(f64) -> f64,
) -> Option<f64> {
    let order =
        |a: &f64, b: &f64| distance(*a).abs().total_cmp(&distance(*b).abs()).then(a.total_cmp(b));
    mine.into_iter().chain(theirs).max_by(order)
}

/// The lower of two, of which zero says that it is not known.
pub(super) fn lowest_known(mine: u32, theirs: u32) -> u32 {
    match (mine, theirs) {
        (0, one) | (one, 0) => one,
        (mine, theirs) => mine.min(theirs),
    }
}

/// Of two pairs of a demand and what can be met at most the one whose demand comes nearer to it, or
/// exceeds it by more; a pair without a limit only where there is no other.
pub(super) fn nearest_to_its_limit(
    mine: (f64, Option<f64>),
    theirs: (f64, Option<f64>),
) -> (f64, Option<f64>) {
    let order = |a: (f64, Option<f64>), b: (f64, Option<f64>)| -> Ordering {
        let share = |(demand, most): (f64, Option<f64>)| most.map_or(-1.0, |most| demand / most);
        let limit = |(_, most): (f64, Option<f64>)| most.unwrap_or(0.0);
        let shares = share(a).total_cmp(&share(b));
        shares.then(a.0.total_cmp(&b.0)).then(limit(a).total_cmp(&limit(b)))
    };
    if order(theirs, mine).is_gt() { theirs } else { mine }
}

/// The words of both, each once and in the order of the alphabet: a fact that differs is kept as
/// differing. An empty word says nothing.
pub(super) fn all_words(mine: &mut String, theirs: &str) {
    if mine == theirs {
        return;
    }
    let all = mine.split(BETWEEN).chain(theirs.split(BETWEEN)).filter(|word| !word.is_empty());
    *mine = all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(BETWEEN);
}

/// Puts a list of what is known of so many targets behind another. A list is empty where nothing is
/// known of any; beside one that is not its targets have a place of their own each.
pub(super) fn behind_each_other<T: Clone>(
    mine: &mut Vec<T>,
    targets: u32,
    theirs: &[T],
    added: u32,
    unknown: impl Fn() -> T,
) {
    if mine.is_empty() && theirs.is_empty() {
        return;
    }
    let (targets, added) = (targets as usize, added as usize);
    if mine.len() < targets {
        mine.resize_with(targets, &unknown);
    }
    let all = mine.len() + added.max(theirs.len());
    mine.extend_from_slice(theirs);
    mine.resize_with(all, unknown);
}
