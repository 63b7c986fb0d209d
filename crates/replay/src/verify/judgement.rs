//! Judges whether the content of a sector is legal, and what is wrong if not.

use ioecho_trace::Integrity;

use super::entry::Legal;
use super::origins::{Origins, generation};
use super::sector::SectorContent;
use super::sets::Alternatives;
use super::unrecorded::{Erasing, Unrecorded};
use crate::pattern::Stamp;

/// The judgement on a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It holds what it must.
    Intact,
    /// The run does not know what it holds.
    Unknown,
    /// The same, but its stamp names another place.
    Astray,
    /// The run does not know, but the sector's own stamp shows that prepare wrote it for this
    /// place.
    Prepared,
    /// Several versions are legal, not all of which are known.
    Ambiguous,
    /// A request of which there is no record wrote it, or left the zeroes.
    Unrecorded,
    /// Its content is wrong, unless an unrecorded discard explains it.
    Undecided,
    /// It belongs to a block that is there more than once, and does not tell where.
    Shared,
    /// It holds what it must not.
    Damaged(Integrity),
}

/// Judges a sector at `position`.
pub(crate) fn judge(
    found: &SectorContent,
    legal: &Alternatives,
    position: u64,
    origins: &Origins,
    unrecorded: &[Unrecorded],
) -> Judgement {
    let legal = legal.as_slice();
    let left = |unrecorded: &Unrecorded| unrecorded.left(newest(legal));
    let left = unrecorded.iter().map(left).max().unwrap_or_default();
    match (compare(found, legal, position, origins, unrecorded), left) {
        (Judgement::Damaged(_), Erasing::Zeroes | Erasing::Anything)
            if *found == SectorContent::Zeroes =>
        {
            Judgement::Unrecorded
        }
        (Judgement::Damaged(_), Erasing::Anything) => Judgement::Undecided,
        (judgement, _) => judgement,
    }
}

/// Judges a sector by the known versions and by its own stamp.
fn compare(
    found: &SectorContent,
    legal: &[Legal],
    position: u64,
    origins: &Origins,
    unrecorded: &[Unrecorded],
) -> Judgement {
    let may_be = |wanted: fn(&Legal) -> bool| legal.iter().any(wanted);
    let anything = may_be(|legal| matches!(legal, Legal::Anything(_)));
    let ambiguous = may_be(|legal| matches!(legal, Legal::Ambiguous));
    let untouched = may_be(|legal| matches!(legal, Legal::Untouched));
    // The earlier content may be anything, but a stamp shows whether the sector is whole.
    let by_itself = untouched && !anything;
    // Where the run may have written, a sector may be half old and half new.
    let is_alone = legal == [Legal::Untouched];
    let not_ours = if anything || untouched {
        Some(Judgement::Unknown)
    } else {
        ambiguous.then_some(Judgement::Ambiguous)
    };
    match found {
        SectorContent::Stamped(stamp) => {
            let Some((version, is_target)) = origins.version_of(stamp) else {
                if by_itself {
                    return origins.judge(stamp, position);
                }
                return not_ours.unwrap_or(Judgement::Damaged(Integrity::Foreign));
            };
            if stamp.shared && !anything {
                return judge_shared(stamp, position, (version, is_target), legal, unrecorded);
            }
            if anything {
                return Judgement::Unknown;
            }
            // What was copied or moved here bears the number of the tree in which it was written.
            let may_come = may_be(|legal| matches!(legal, Legal::Moved(_)))
                || ambiguous && origins.is_of_tree();
            if stamp.position != position || !(is_target || may_come) {
                return Judgement::Damaged(Integrity::Misdirected);
            }
            judge_version(version, legal, unrecorded)
        }
        SectorContent::Zeroes if may_be(|legal| matches!(legal, Legal::Zeroes(_))) => {
            Judgement::Intact
        }
        SectorContent::Zeroes => not_ours.unwrap_or(Judgement::Damaged(Integrity::Zeroed)),
        SectorContent::Unknown => not_ours.unwrap_or(Judgement::Damaged(Integrity::Foreign)),
        SectorContent::Flipped { stamp, .. } if is_alone && !origins.belongs(stamp, position) => {
            Judgement::Unknown
        }
        SectorContent::Flipped { .. }
        | SectorContent::Halves { .. }
        | SectorContent::Damaged { .. } => {
            let damage = Judgement::Damaged(match found {
                SectorContent::Flipped { .. } => Integrity::Flipped,
                SectorContent::Halves { .. } => Integrity::Torn,
                _ => Integrity::Corrupt,
            });
            if is_alone { damage } else { not_ours.unwrap_or(damage) }
        }
    }
}

/// Judges data of a request of the line, in its own place.
fn judge_version(found: u64, legal: &[Legal], unrecorded: &[Unrecorded]) -> Judgement {
    let permits = |legal: &Legal| match legal {
        Legal::Version(version) | Legal::Moved(version) => found == *version,
        Legal::AtLeast(version) => found >= *version,
        _ => false,
    };
    if legal.iter().any(permits) {
        return Judgement::Intact;
    }
    if legal.contains(&Legal::Ambiguous) {
        return Judgement::Ambiguous;
    }
    let newest = newest(legal);
    if unrecorded.iter().any(|unrecorded| unrecorded.wrote(found, newest)) {
        return Judgement::Unrecorded;
    }
    let stale = newest.is_some_and(|newest| found < newest);
    Judgement::Damaged(if stale { Integrity::Stale } else { Integrity::Phantom })
}

/// Judges data of a run of the line that are there more than once. They tell their run and where
/// they may lie, but no request.
fn judge_shared(
    stamp: &Stamp,
    position: u64,
    (version, is_target): (u64, bool),
    legal: &[Legal],
    unrecorded: &[Unrecorded],
) -> Judgement {
    match stamp.is_shared_by(position) {
        None => return Judgement::Shared,
        Some(is_home) if is_home && is_target => {}
        Some(true) if legal.iter().any(|legal| matches!(legal, Legal::Moved(_))) => {
            return Judgement::Shared;
        }
        Some(_) => return Judgement::Damaged(Integrity::Misdirected),
    }
    let run = generation(version);
    let permits = |legal: &Legal| match legal {
        Legal::Version(version) => run == generation(*version),
        Legal::AtLeast(version) => run >= generation(*version),
        _ => false,
    };
    let newest = newest(legal);
    if legal.iter().any(permits) {
        Judgement::Intact
    } else if legal.contains(&Legal::Ambiguous) {
        Judgement::Ambiguous
    } else if unrecorded.iter().any(|unrecorded| unrecorded.has_any_of(run, newest)) {
        Judgement::Unrecorded
    } else if newest.is_some_and(|newest| run <= generation(newest)) {
        Judgement::Damaged(Integrity::Stale)
    } else {
        Judgement::Damaged(Integrity::Phantom)
    }
}

/// The youngest version that may be seen.
pub(crate) fn newest(legal: &[Legal]) -> Option<u64> {
    legal.iter().filter_map(|legal| legal.version()).max()
}
