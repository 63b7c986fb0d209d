//! Requests that left the queue lately, for the case that one that nobody saw was in flight.
//!
//! What was queued before the recording began, or while events were lost, is not known. Its
//! completion, or its way to the driver, may be taken for that of a known request at the same
//! place; and the event that really belongs to that one for the next one's. In the end there is one
//! event too many: a completion without a request, or a request of the driver that nobody queued.
//! It tells that whatever was matched at its place before may have been another's.
//!
//! A request may have been given out by then. It is counted as doubtful all the same.

/// The largest number of requests that are remembered.
const REQUESTS_MAX: usize = 1 << 14;

/// The largest number of events that are told as too many after the recording's beginning, or after
/// events were lost. If there are more, it is not because of what was in flight.
const TOLD_MAX: usize = 1 << 14;

#[derive(Clone, Copy, Debug)]
struct Entry {
    serial: u64,
    begin: u64,
    end: u64,
    slot: usize,
    /// Whether the request is, or need not be, counted as doubtful.
    is_settled: bool,
}

/// The entry of no request.
const NOBODY: Entry = Entry { serial: u64::MAX, begin: 0, end: 0, slot: 0, is_settled: true };

/// The requests that left the queue after the recording began, or after events were lost.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The requests by the last digits of their numbers.
    entries: Vec<Entry>,
    /// The instant until which what nobody saw may be in flight, in nanoseconds of the recording's
    /// clock; `None` before the recording's first event.
    until: Option<u64>,
    told: usize,
}

impl Recent {
    /// Whether the recording has not begun.
    #[inline]
    pub(super) fn is_unopened(&self) -> bool {
        self.until.is_none()
    }

    /// From the instant `now` until another, what nobody saw may be in flight.
    pub(super) fn open(&mut self, now: u64, until: u64) {
        if self.until.is_none_or(|until| now > until) {
            self.entries.clear();
            self.entries.resize(REQUESTS_MAX, NOBODY);
        }
        (self.until, self.told) = (Some(until), 0);
    }

    /// Notes that a request with this number and range left the queue.
    #[inline]
    pub(super) fn note(&mut self, now: u64, serial: u64, slot: usize, begin: u64, end: u64) {
        if self.until.is_some_and(|until| now <= until) {
            let entry = &mut self.entries[serial as usize % REQUESTS_MAX];
            if entry.serial != serial {
                *entry = Entry { serial, begin, end, slot, is_settled: false };
            }
        }
    }

    /// Notes that a request need not be counted as doubtful any more.
    pub(super) fn settle(&mut self, serial: u64) {
        if let Some(entry) = self.entries.get_mut(serial as usize % REQUESTS_MAX)
            && entry.serial == serial
        {
            entry.is_settled = true;
        }
    }

    /// Takes an event that is one too many; calls `doubt` with the number of each request that left
    /// the queue at its place.
    pub(super) fn tell(
        &mut self,
        now: u64,
        slot: usize,
        (begin, end): (u64, u64),
        mut doubt: impl FnMut(u64),
    ) {
        if self.until.is_none_or(|until| now > until) || self.told == TOLD_MAX {
            return;
        }
        self.told += 1;
        for entry in &mut self.entries {
            let meets =
                entry.begin < end && entry.end > begin || (entry.begin, entry.end) == (begin, end);
            if meets && entry.slot == slot && !entry.is_settled {
                entry.is_settled = true;
                doubt(entry.serial);
            }
        }
    }

    /// The numbers of the requests that need not be counted any more.
    #[cfg(test)]
    pub(super) fn settled(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(|entry| entry.is_settled).map(|entry| entry.serial)
    }
}
