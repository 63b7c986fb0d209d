//! The gaps of all processors, as they stand in a header.
//!
//! A program that suppresses events does so on all processors at once, which is one gap, not one
//! per processor. And if a recorder lost events for hours, there may be more gaps than a header
//! should hold: then neighbours are joined, the closest first, so that the large intact stretches
//! remain visible.

use crate::recording::Gap;

/// Puts gaps into order. Gaps of an unknown number of events are joined where they touch, and at
/// most `most` gaps remain.
pub(super) fn gather(gaps: Vec<Gap>, most: usize) -> Vec<Gap> {
    let (blind, mut gathered): (Vec<_>, Vec<_>) = gaps.into_iter().partition(|gap| gap.events == 0);
    gathered.extend(joined(blind, |distance| distance <= 0));
    gathered.sort_unstable_by_key(|gap| (gap.from_ns, gap.to_ns));
    let Some(more) = gathered.len().checked_sub(most.max(1)).filter(|more| *more > 0) else {
        return gathered;
    };
    let mut distances = Vec::with_capacity(gathered.len());
    let mut end = i64::MAX;
    for gap in &gathered {
        distances.push(gap.from_ns.saturating_sub(end));
        end = if distances.len() == 1 { gap.to_ns } else { end.max(gap.to_ns) };
    }
    distances.swap_remove(0);
    let (.., longest, _) = distances.select_nth_unstable(more - 1);
    let longest = *longest;
    joined(gathered, |distance| distance <= longest)
}

/// Joins neighbours whose distance is small enough.
fn joined(mut gaps: Vec<Gap>, is_near: impl Fn(i64) -> bool) -> Vec<Gap> {
    gaps.sort_unstable_by_key(|gap| (gap.from_ns, gap.to_ns));
    let mut joined: Vec<Gap> = Vec::new();
    for gap in gaps {
        match joined.last_mut().filter(|last| is_near(gap.from_ns.saturating_sub(last.to_ns))) {
            Some(last) => {
                last.to_ns = last.to_ns.max(gap.to_ns);
                // If one count is unknown, so is the sum.
                let is_counted = last.events > 0 && gap.events > 0;
                let events = last.events.saturating_add(gap.events);
                last.events = if is_counted { events } else { 0 };
            }
            None => joined.push(gap),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn gap(from_ns: i64, to_ns: i64, events: u64) -> Gap {
        Gap { from_ns, to_ns, events }
    }

    #[test]
    fn what_all_processors_lack_at_once_is_one_gap() {
        let gaps = vec![gap(5, 9, 0), gap(7, 8, 3), gap(5, 9, 0), gap(9, 12, 0), gap(7, 8, 2)];
        let expected = [gap(5, 12, 0), gap(7, 8, 2), gap(7, 8, 3)];
        let mut found = gather(gaps, 10);
        found.sort_by_key(|gap| (gap.from_ns, gap.events));
        assert_eq!(found, expected);
    }

    #[test]
    fn of_too_many_the_closest_become_one() {
        let gaps = vec![gap(0, 1, 1), gap(50, 60, 2), gap(62, 70, 3), gap(100, 110, 4)];
        assert_eq!(gather(gaps.clone(), 3), [gap(0, 1, 1), gap(50, 70, 5), gap(100, 110, 4)]);
        assert_eq!(gather(gaps.clone(), 2), [gap(0, 1, 1), gap(50, 110, 9)]);
        assert_eq!(gather(gaps.clone(), 1), [gap(0, 110, 10)]);
        assert_eq!(gather(gaps, 0), [gap(0, 110, 10)]);
        let long = vec![gap(0, 100, 1), gap(10, 20, 1), gap(101, 102, 0), gap(500, 501, 1)];
        assert_eq!(gather(long, 2), [gap(0, 102, 0), gap(500, 501, 1)]);
        assert!(gather(Vec::new(), 0).is_empty());
        let ends = vec![gap(i64::MIN, i64::MIN, 1), gap(i64::MAX, i64::MAX, 1)];
        assert_eq!(gather(ends.clone(), 2), ends);
        assert_eq!(gather(ends, 1).len(), 1);
    }
}
