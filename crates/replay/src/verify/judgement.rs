//! Whether what a sector holds is what it may hold, and what is wrong if it is not.

use ioecho_trace::Integrity;

use super::entry::Legal;
use super::sector::Found;
use super::sets::Alternatives;
use super::unrecorded::{Erasing, Unrecorded};

/// Which place a sector is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) run: u64,
    pub(crate) target: u16,
    pub(crate) position: u64,
}

/// What is said of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It holds what it must.
    Intact,
    /// The run does not know what it holds.
    Unknown,
    /// More than one thing may be there, and not all of them are known.
    Ambiguous,
    /// A request of which there is no record wrote it, or left the zeroes.
    Unrecorded,
    /// It holds what it must not, unless there was a discard of which there is no record.
    Undecided,
    /// It belongs to a block that is there more than once.
    Shared,
    /// It holds what it must not.
    Damaged(Integrity),
}

/// Judges a sector.
pub(crate) fn judge(
    found: &Found,
    legal: &Alternatives,
    place: &Place,
    unrecorded: &Unrecorded,
) -> Judgement {
    let legal = legal.as_slice();
    match (compare(found, legal, place, unrecorded), unrecorded.left(newest(legal))) {
        (Judgement::Damaged(_), Erasing::Zeroes | Erasing::Anything) if *found == Found::Zeroes => {
            Judgement::Unrecorded
        }
        (Judgement::Damaged(_), Erasing::Anything) => Judgement::Undecided,
        (judgement, _) => judgement,
    }
}

/// Judges a sector by what is known and by what it says itself.
fn compare(found: &Found, legal: &[Legal], place: &Place, unrecorded: &Unrecorded) -> Judgement {
    let may_be = |wanted: fn(&Legal) -> bool| legal.iter().any(wanted);
    let anything = may_be(|legal| matches!(legal, Legal::Anything(_)));
    let ambiguous = may_be(|legal| matches!(legal, Legal::Ambiguous));
    let untouched = may_be(|legal| matches!(legal, Legal::Untouched));
    let not_ours = if anything || untouched {
        Some(Judgement::Unknown)
    } else {
        ambiguous.then_some(Judgement::Ambiguous)
    };
    match found {
        Found::Stamped(stamp) if stamp.run == place.run => {
            if stamp.shared {
                return Judgement::Shared;
            }
            if anything {
                return Judgement::Unknown;
            }
            if (stamp.position, stamp.target) != (place.position, place.target) {
                return Judgement::Damaged(Integrity::Misdirected);
            }
            version(stamp.request, legal, unrecorded)
        }
        Found::Zeroes if may_be(|legal| matches!(legal, Legal::Zeroes(_))) => Judgement::Intact,
        Found::Zeroes => not_ours.unwrap_or(Judgement::Damaged(Integrity::Zeroed)),
        Found::Stamped(_) | Found::Unknown => {
            not_ours.unwrap_or(Judgement::Damaged(Integrity::Foreign))
        }
        Found::Flipped { .. } => not_ours.unwrap_or(Judgement::Damaged(Integrity::Flipped)),
        Found::Halves { .. } => not_ours.unwrap_or(Judgement::Damaged(Integrity::Torn)),
        Found::Damaged { .. } => not_ours.unwrap_or(Judgement::Damaged(Integrity::Corrupt)),
    }
}

/// Judges what a request wrote to its own place.
fn version(found: u64, legal: &[Legal], unrecorded: &Unrecorded) -> Judgement {
    let permits = |legal: &Legal| match legal {
        Legal::Version(request) => found == *request,
        Legal::AtLeast(request) => found >= *request,
        _ => false,
    };
    if legal.iter().any(permits) {
        return Judgement::Intact;
    }
    if legal.contains(&Legal::Ambiguous) {
        return Judgement::Ambiguous;
    }
    let newest = newest(legal);
    if unrecorded.wrote(found, newest) {
        return Judgement::Unrecorded;
    }
    let stale = newest.is_some_and(|newest| found < newest);
    Judgement::Damaged(if stale { Integrity::Stale } else { Integrity::Phantom })
}

/// The youngest request that may be seen.
pub(crate) fn newest(legal: &[Legal]) -> Option<u64> {
    legal.iter().filter_map(|legal| legal.request()).max()
}
