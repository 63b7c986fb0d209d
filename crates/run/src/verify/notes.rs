//! The limits of the verification of a past run, in sentences.

use std::path::Path;

use ioecho_replay::verify::{After, Verifier};
use ioecho_trace::Integrity;
use ioecho_trace::units::counted_in;

use super::later::Since;
use super::ring::Ring;

/// The missing part of a ring and its consequence; `None` if the ring is complete. `verified` says
/// whether the run wrote one, `path` is its place.
pub(super) fn of_ring(ring: &Ring, path: &Path, verified: bool) -> Option<String> {
    let name = path.display();
    let why = match ring {
        Ring::Whole { .. } => return None,
        Ring::Missing if !verified => {
            "the run kept no note of what was under way (it did not verify)".to_owned()
        }
        Ring::Missing => format!("{name}, where the run noted what was under way, is gone"),
        Ring::Foreign => format!("{name} is not the ring of this run and target"),
        Ring::Cut => format!("{name} is cut off, or its disk was full in the run"),
        Ring::Damaged(slots) => format!("{name} is damaged (notes lost: {slots})"),
        Ring::Unreadable(kind) => format!("{name} cannot be read ({kind})"),
    };
    let what = "what the run wrote in its last tenth of a second is accepted old or new";
    Some(format!("{why}, so {what}"))
}

/// The loss of records of the journal and its consequence; `None` if none are lost.
pub(super) fn of_damage(damaged: u64, journal: &Path) -> Option<String> {
    let name = journal.display();
    (damaged > 0).then(|| {
        format!(
            "{name} is damaged (records lost: {damaged}): what they told of is not looked at, or \
             is accepted old or new; take a sound copy of it if there is one"
        )
    })
}

/// The meaning of the figures. `table` is the path of the table of versions.
pub(super) fn of_figures(since: Since, verifier: &Verifier, table: &Path) -> Vec<String> {
    let figures = verifier.figures();
    let mut notes = Vec::new();
    if let Some(error) = verifier.table_error() {
        notes.push(format!(
            "the table of versions {} cannot be written or read: {error}; it takes 4 KiB for each \
             256 KiB that the run touched: make room in the run's directory, or copy that to where \
             there is room, and verify again",
            table.display()
        ));
    }
    if since.after == After::PowerCut {
        let what = if since.acknowledged {
            "what the target had acknowledged must be there, flushed or not"
        } else {
            "what no flush and no FUA had made durable is accepted old or new"
        };
        notes.push(what.to_owned());
    }
    if figures.unrecorded > 0 {
        notes.push(format!(
            "{} younger data of the run than its records know, or zeroes that it may have left \
             there: accepted",
            counted_in(figures.unrecorded, "sector holds", "sectors hold")
        ));
    }
    if figures.undecided > 0 {
        notes.push(format!(
            "{} what must not be there, unless a discard came last of which there is no record: \
             only a run that verifies notes all discards",
            counted_in(figures.undecided, "sector holds", "sectors hold")
        ));
    }
    if figures.ambiguous > 0 {
        notes.push(format!(
            "{} written by too many requests at once to tell more than that data are there that \
             were written there",
            counted_in(figures.ambiguous, "sector was", "sectors were")
        ));
    }
    if figures.damaged.count(Integrity::Foreign) * 2 > figures.sectors {
        notes.push(
            "most of what the run wrote is not there: the target was used since, or is another one"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_is_missing_is_told_apart_from_one_that_was_never_kept() {
        let told = |ring: &Ring, verified| of_ring(ring, Path::new("r/intents-0.ring"), verified);
        let whole = Ring::Whole { intents: Vec::new(), is_durable: false };
        assert_eq!(told(&whole, true), None);
        assert!(told(&Ring::Missing, false).unwrap().contains("it did not verify"));
        for ring in [Ring::Missing, Ring::Foreign, Ring::Cut, Ring::Damaged(2)] {
            let text = told(&ring, true).unwrap();
            assert!(text.contains("r/intents-0.ring") && !text.contains("verify"), "{text}");
        }
    }
}
