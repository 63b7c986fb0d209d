//! Whether one kind of event causes another, by their order alone.
//!
//! If completions make a process issue requests, its requests come shortly *after* completions far
//! more often than shortly *before* them. If they do not, both are equally frequent, however busy
//! the device is. So both are counted within several spans, because a reaction takes microseconds
//! on one host and a millisecond on another. For counts a and b of independent events the variance
//! of a − b is a + b.

/// The spans, in nanoseconds. A completion that is further away tells nothing.
const SPANS_NS: [u64; 6] = [16_000, 64_000, 256_000, 1_024_000, 4_096_000, 16_384_000];

/// The longest of the spans, in nanoseconds.
pub(super) const SPAN_MAX_NS: i64 = SPANS_NS[SPANS_NS.len() - 1] as i64;

/// The fewest requests after completions that show a dependence.
const CAUSED_MIN: u64 = 8;

/// The fewest events that show an independence.
const INDEPENDENT_MIN: u64 = 64;

/// How many requests came after a completion and before one, by the time in between.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    after: [u32; SPANS_NS.len()],
    before: [u32; SPANS_NS.len()],
}

impl Evidence {
    /// A request was issued `ns` after a completion.
    pub(super) fn after(&mut self, ns: i64) {
        count(&mut self.after, ns);
    }

    /// A request was issued `ns` before a completion.
    pub(super) fn before(&mut self, ns: i64) {
        count(&mut self.before, ns);
    }

    /// The events of both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        for (mine, theirs) in [(&mut both.after, &other.after), (&mut both.before, &other.before)] {
            mine.iter_mut()
                .zip(theirs)
                .for_each(|(count, more)| *count = count.saturating_add(*more));
        }
        both
    }

    /// The counts within each span, of requests after and before completions.
    fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let both = self.after.iter().zip(&self.before);
        both.scan((0, 0), |(after, before), (more_after, more_before)| {
            *after += u64::from(*more_after);
            *before += u64::from(*more_before);
            Some((*after, *before))
        })
    }

    /// Whether completions cause requests: within some span requests follow completions at least
    /// twice as often as completions follow requests, and by at least `deviations` standard
    /// deviations.
    pub(super) fn is_cause(&self, deviations: f64) -> bool {
        self.counts().any(|(after, before)| {
            let (more, less) = (after as f64, before as f64);
            let is_clear = more - less >= deviations * (more + less).sqrt();
            after >= CAUSED_MIN && more >= 2.0 * less && is_clear
        })
    }

    /// Whether completions do not cause requests: there are many of both, and within no span do
    /// their counts differ by more than two standard deviations.
    pub(super) fn is_independence(&self) -> bool {
        let has_enough =
            self.counts().last().is_some_and(|(after, before)| after + before >= INDEPENDENT_MIN);
        has_enough
            && self.counts().all(|(after, before)| {
                (after as f64 - before as f64).abs() <= 2.0 * ((after + before) as f64).sqrt()
            })
    }
}

/// Counts an event by its distance in the shortest span that contains it.
fn count(counts: &mut [u32; SPANS_NS.len()], ns: i64) {
    let ns = ns.max(0) as u64;
    if let Some(at) = SPANS_NS.iter().position(|span| ns <= *span) {
        counts[at] = counts[at].saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(after: &[i64], before: &[i64]) -> Evidence {
        let mut evidence = Evidence::default();
        for ns in after {
            evidence.after(*ns);
        }
        for ns in before {
            evidence.before(*ns);
        }
        evidence
    }

    #[test]
    fn a_cause_within_one_span_is_seen_although_longer_ones_hide_it() {
        let near = vec![100_000; 40];
        let far = vec![10_000_000; 400];
        assert!(evidence(&[near.clone(), far.clone()].concat(), &far).is_cause(4.0));
        assert!(!evidence(&far, &far).is_cause(4.0));
        assert!(!evidence(&near[..15], &[]).is_cause(4.0), "four deviations of 15 are 15.5");
        assert!(evidence(&near[..16], &[]).is_cause(4.0));
    }

    #[test]
    fn an_independence_needs_many_events_of_both_kinds() {
        let many = vec![1_000_000; 40];
        assert!(evidence(&many, &many).is_independence());
        assert!(!evidence(&many[..20], &many[..20]).is_independence());
        assert!(!evidence(&many, &many[..10]).is_independence());
        assert!(!evidence(&[vec![10_000; 40], many.clone()].concat(), &many).is_independence());
    }

    #[test]
    fn events_further_apart_than_every_span_do_not_count() {
        let far = vec![SPAN_MAX_NS + 1; 100];
        assert!(!evidence(&far, &[]).is_cause(4.0));
        assert!(!evidence(&far, &far).is_independence());
    }
}
