//! Counts, for each buffer, the events that were kept and those that were lost, and when.
//!
//! The kernel counts the events that were read from a buffer and those that found no room, but not
//! when. But a full buffer stays full until somebody reads it: so events were lost after the last
//! event in it, and before a part of it was free again (`kernel/trace/ring_buffer.c`,
//! `rb_move_tail` without `RB_FL_OVERWRITE`). Such a narrow gap leaves the latencies around it
//! valid. If the kernel counts more read events than this recorder got, another program reads too;
//! if it counts fewer, somebody has cleared the buffer.

use ioecho_trace::recording::Totals;

use super::tracer::Counts;

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// They found no room.
    Full,
    /// Somebody cleared the buffer. How many those were, nobody knows.
    Cleared,
    /// Somebody else has read them.
    Taken,
}

/// Events that are missing. Instants are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) cause: Cause,
    /// How many; 0 where nobody counted.
    pub(super) events: u64,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// How precisely the kernel counts for one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// Each buffer has its own, and they count what is in the chunks.
    Exact,
    /// What is lost may be another buffer's.
    Together,
}

/// One buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Events in all chunks that were taken.
    kept: u64,
    /// Of those the ones that could not be written.
    dropped: u64,
    /// Events that somebody else took.
    taken: u64,
    /// Events that found no room, as far as they are noted.
    lost: u64,
    /// How many more there are, of which it is not known yet when.
    waiting: u64,
    /// What the kernel's counters said last, and what was kept then.
    counted: Counts,
    kept_then: u64,
    counted_ns: u64,
    /// When the last pass over the buffer began, and the last one before the counters were seen.
    passed_ns: u64,
    safe_ns: u64,
}

/// All buffers.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    counting: Counting,
}

impl Ledger {
    /// Of so many buffers, which are empty at the instant `now_ns`.
    pub(super) fn new(streams: usize, counting: Counting, now_ns: u64) -> Self {
        let account = Account {
            counted_ns: now_ns,
            passed_ns: now_ns,
            safe_ns: now_ns,
            ..Account::default()
        };
        Self { accounts: vec![account; streams], counting }
    }

    /// A pass over a buffer begins.
    pub(super) fn begin(&mut self, stream: usize, now_ns: u64) {
        self.accounts[stream].passed_ns = now_ns;
    }

    /// So many events were taken from a buffer.
    pub(super) fn keep(&mut self, stream: usize, events: u64) {
        self.accounts[stream].kept += events;
    }

    /// So many of those could not be written.
    pub(super) fn drop(&mut self, stream: usize, events: u64) {
        self.accounts[stream].dropped += events;
    }

    /// A page was freed, and the counters of the kernel say `counts` after it, at `now_ns`. Events
    /// lost until then were lost because the buffer was full when the pass over it began; `last_ns`
    /// is the last event in it then.
    pub(super) fn freed(
        &mut self,
        stream: usize,
        counts: Counts,
        last_ns: u64,
        now_ns: u64,
    ) -> Option<Missing> {
        let account = &mut self.accounts[stream];
        let events = counts.lost.checked_sub(account.counted.lost).filter(|events| *events > 0)?;
        account.lost = account.lost.saturating_add(events);
        (account.counted.lost, account.waiting) = (counts.lost, 0);
        let from_ns = account.counted_ns.max(last_ns);
        account.counted_ns = now_ns;
        Some(Missing { cause: Cause::Full, events, from_ns, to_ns: now_ns })
    }

    /// The counters of the kernel say `counts` at `now_ns`. Losses of a full buffer are left to
    /// [`freed`](Self::freed), once, because it knows the time better; `is_last` if that is not
    /// called any more.
    pub(super) fn count(
        &mut self,
        stream: usize,
        counts: Counts,
        now_ns: u64,
        is_last: bool,
    ) -> Vec<Missing> {
        let is_exact = self.counting == Counting::Exact;
        let account = &mut self.accounts[stream];
        let (mut missing, mut from_ns) = (Vec::new(), account.counted_ns);
        let given = if is_exact { account.kept - account.kept_then } else { 0 };
        let expected = account.counted.read.saturating_add(given);
        let is_cleared = counts.read < expected;
        let mut waited = 0;
        if is_cleared {
            // What was lost before and not told yet is forgotten by the kernel, and not here.
            waited = std::mem::take(&mut account.waiting);
            account.lost = account.lost.saturating_add(waited);
            // What was not read then was cleared too.
            from_ns = account.safe_ns;
            account.counted = Counts::default();
        } else if is_exact && counts.read > expected {
            let events = counts.read - expected;
            account.taken = account.taken.saturating_add(events);
            let from_ns = account.safe_ns;
            missing.push(Missing { cause: Cause::Taken, events, from_ns, to_ns: now_ns });
        }
        let before = account.counted.lost;
        let lost = counts.lost.saturating_sub(before);
        account.counted.read = counts.read;
        account.kept_then = account.kept;
        account.safe_ns = account.passed_ns;
        if lost > 0 && is_exact && !is_cleared && !is_last && account.waiting == 0 {
            account.waiting = lost;
            return missing;
        }
        // It shrinks where an event comes late that was counted as lost.
        account.lost = account.lost.saturating_add(counts.lost).saturating_sub(before);
        (account.counted.lost, account.waiting) = (counts.lost, 0);
        account.counted_ns = now_ns;
        if lost > 0 || is_cleared {
            let cause = if is_cleared { Cause::Cleared } else { Cause::Full };
            let events = lost.saturating_add(waited);
            missing.push(Missing { cause, events, from_ns, to_ns: now_ns });
        }
        missing
    }

    /// What became of the events of a buffer: those that are in files, and those that are not.
    pub(super) fn totals(&self, stream: usize, cpu: u32) -> Totals {
        let Account { kept, dropped, taken, lost, waiting, .. } = self.accounts[stream];
        let lost = lost.saturating_add(waiting).saturating_add(dropped).saturating_add(taken);
        Totals { cpu, read: kept.saturating_sub(dropped), lost }
    }

    /// The sums of what could not be written and of what somebody else took.
    pub(super) fn dropped_and_taken(&self) -> (u64, u64) {
        let sum = |of: fn(&Account) -> u64| {
            self.accounts.iter().fold(0_u64, |sum, account| sum.saturating_add(of(account)))
        };
        (sum(|account| account.dropped), sum(|account| account.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(1, Counting::Exact, 100)
    }

    fn missing(cause: Cause, events: u64, from_ns: u64, to_ns: u64) -> Missing {
        Missing { cause, events, from_ns, to_ns }
    }

    const fn counts(read: u64, lost: u64) -> Counts {
        Counts { read, lost }
    }

    #[test]
    fn a_full_buffer_loses_behind_its_last_event_and_until_a_page_is_free() {
        let mut ledger = ledger();
        ledger.keep(0, 50);
        assert!(ledger.count(0, counts(50, 0), 1000, false).is_empty());
        // The look comes while it is full: when that ends is not known yet, but it is told.
        assert!(ledger.count(0, counts(50, 3), 2000, false).is_empty());
        assert_eq!(ledger.totals(0, 4), Totals { cpu: 4, read: 50, lost: 3 });
        let found = ledger.freed(0, counts(60, 7), 1900, 2100);
        assert_eq!(found, Some(missing(Cause::Full, 7, 1900, 2100)));
        assert_eq!(ledger.freed(0, counts(90, 7), 2900, 3100), None, "no more");
        ledger.keep(0, 40);
        assert!(ledger.count(0, counts(90, 7), 4000, true).is_empty());
        assert_eq!(ledger.totals(0, 4), Totals { cpu: 4, read: 90, lost: 7 });
    }

    #[test]
    fn what_no_pass_explains_is_noted_from_look_to_look() {
        let mut ledger = ledger();
        assert!(ledger.count(0, counts(0, 2), 1000, false).is_empty());
        let found = ledger.count(0, counts(0, 5), 2000, false);
        assert_eq!(found, [missing(Cause::Full, 5, 100, 2000)]);
        let found = ledger.count(0, counts(0, 6), 3000, true);
        assert_eq!(found, [missing(Cause::Full, 1, 2000, 3000)]);
        assert_eq!(ledger.totals(0, 0).lost, 6);
    }

    #[test]
    fn a_cleared_buffer_lacks_what_came_since_it_was_read_and_not_only_since_the_look() {
        let mut ledger = ledger();
        ledger.begin(0, 900);
        ledger.keep(0, 10);
        ledger.count(0, counts(10, 0), 1000, false);
        ledger.begin(0, 1100);
        ledger.keep(0, 30);
        // The counters began anew and have come further than they were.
        let found = ledger.count(0, counts(25, 1), 2000, false);
        assert_eq!(found, [missing(Cause::Cleared, 1, 900, 2000)]);
        assert_eq!(ledger.totals(0, 0), Totals { cpu: 0, read: 40, lost: 1 });
        ledger.keep(0, 5);
        assert!(ledger.count(0, counts(30, 1), 3000, true).is_empty());
    }

    #[test]
    fn a_buffer_that_is_cleared_forgets_nothing_that_was_lost_before() {
        let mut ledger = ledger();
        ledger.begin(0, 900);
        ledger.keep(0, 10);
        // Counted by the kernel, and told when a page has been read.
        assert!(ledger.count(0, counts(10, 3), 1000, false).is_empty());
        let found = ledger.count(0, counts(0, 1), 2000, false);
        assert_eq!(found, [missing(Cause::Cleared, 4, 900, 2000)]);
        assert_eq!(ledger.totals(0, 0), Totals { cpu: 0, read: 10, lost: 4 });
    }

    #[test]
    fn what_somebody_else_reads_is_missing_here() {
        let mut ledger = ledger();
        ledger.begin(0, 900);
        ledger.keep(0, 10);
        ledger.count(0, counts(10, 0), 1000, false);
        ledger.keep(0, 4);
        let found = ledger.count(0, counts(20, 0), 2000, false);
        assert_eq!(found, [missing(Cause::Taken, 6, 900, 2000)]);
        assert_eq!(ledger.totals(0, 0), Totals { cpu: 0, read: 14, lost: 6 });
        assert_eq!(ledger.dropped_and_taken(), (0, 6));
    }

    #[test]
    fn counters_of_several_buffers_together_say_nothing_of_one() {
        let mut ledger = Ledger::new(1, Counting::Together, 0);
        ledger.keep(0, 10);
        let found = ledger.count(0, counts(4, 3), 1000, false);
        assert_eq!(found, [missing(Cause::Full, 3, 0, 1000)]);
        assert!(ledger.count(0, counts(4, 1), 2000, false).is_empty(), "two came late");
        assert_eq!(ledger.totals(0, 0).lost, 1);
        assert_eq!(ledger.totals(0, 0).read, 10);
    }
}
