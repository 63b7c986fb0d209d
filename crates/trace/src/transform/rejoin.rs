//! Requests that the recording's kernel merged.
//!
//! A file system hands its pages to the block layer one after the other, and the kernel merges
//! neighbours into one request before the device sees them. A recording of *queued* requests has
//! the parts, each with the completion of the whole. A replay hands the parts down singly, some of
//! them too late to be merged again, so the device gets several times as many requests. This
//! transform puts together what the kernel put together.
//!
//! Parts of one request are known by four things: one process queued them, shortly after each
//! other; they touch; their operation and volume are the same; and they completed at the same
//! nanosecond, because the kernel completes a request once (`blk_mq_end_request`, block/blk-mq.c).
//! The whole is issued with its last part, which is the earliest that the device can have seen it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Topic};
use crate::request::{Flags, Op, Request};
use crate::stream::Source;
use crate::units::{Bytes, Nanos, decimal_seconds};

/// `rejoin`.
pub const KIND: Kind = Kind {
    name: "rejoin",
    value: "[within=TIME]",
    help: "Join the requests that the recording's kernel merged: neighbours of one process that \
           were queued within TIME [5ms] and completed at the same nanosecond",
    spills: false,
    parse,
};

/// The default time from the first part of a request to its last one.
const WITHIN: Nanos = Nanos(5_000_000);

/// The largest number of requests that wait for further parts: some 10 MB of them.
const WAITING_MAX: usize = 1 << 16;

/// The note on joined requests.
pub const JOINED: Topic<'static> =
    NoteKind::Beside.of("requests joined to the one before, as the recording's kernel merged them");

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let within = arguments.setting("within")?.unwrap_or(WITHIN);
    arguments.finish()?;
    if within <= Nanos::ZERO {
        return Err(ArgumentError::new("within must be longer than nothing"));
    }
    Ok(Box::new(Rejoin { within }))
}

#[derive(Clone, Copy, Debug)]
struct Rejoin {
    within: Nanos,
}

impl Transform for Rejoin {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        Ok(Box::new(Stage::new(source, Join::new(self.within))))
    }
}

/// What the parts of a request have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    pid: Option<u32>,
    op: Op,
    volume: u32,
    completed: i64,
}

impl Key {
    /// The key of a request that the kernel may merge; `None` for another, or without a latency.
    fn of(request: &Request) -> Option<Self> {
        let is_merged = matches!(request.op, Op::Read | Op::Write | Op::Discard)
            && !request.flags.intersects(Flags::FUA | Flags::PREFLUSH)
            && request.length.0 > 0;
        let completed = request.issue.0.saturating_add(request.latency?.0);
        is_merged.then(|| Self {
            pid: request.origin.map(|origin| origin.pid),
            op: request.op,
            volume: request.volume.0,
            completed,
        })
    }
}

/// A request that may still get parts.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    /// The instant of its first part.
    first: Nanos,
}

struct Join {
    within: Nanos,
    /// The requests in the order of their issue; `None` where one has become a later one.
    waiting: VecDeque<Option<Waiting>>,
    /// How many have left `waiting`.
    gone: u64,
    /// The last request with each key, by its number.
    last: FxHashMap<Key, u64>,
    latest: Nanos,
    joined: u64,
}

impl Join {
    fn new(within: Nanos) -> Self {
        Self {
            within,
            waiting: VecDeque::new(),
            gone: 0,
            last: FxHashMap::default(),
            latest: Nanos(i64::MIN),
            joined: 0,
        }
    }

    /// Takes the next request, as a request of its own or as a part of one that waits.
    fn take(&mut self, request: Request) {
        self.latest = request.issue;
        let number = self.gone + self.waiting.len() as u64;
        let mut next =
            Waiting { request: Request { measured: None, ..request }, first: request.issue };
        if let Some(key) = Key::of(&request) {
            let before = self.last.insert(key, number);
            let at = before.and_then(|before| before.checked_sub(self.gone));
            let slot = at.and_then(|at| self.waiting.get_mut(at as usize));
            if let Some(slot) = slot
                && let Some(whole) = slot.as_ref().and_then(|one| joined(one, &next, self.within))
            {
                *slot = None;
                next = whole;
                self.joined += 1;
            }
        }
        self.waiting.push_back(Some(next));
    }

    /// Gives out what gets no further parts, or everything at the end.
    fn give(&mut self, batch: &mut Batch, is_end: bool) {
        while !batch.is_full() {
            let Some(oldest) = self.waiting.front() else { break };
            if let Some(Waiting { request, .. }) = oldest {
                let age = self.latest.0.saturating_sub(request.issue.0);
                if !is_end && age <= self.within.0 && self.waiting.len() <= WAITING_MAX {
                    break;
                }
                batch.push(request);
                if let Some(key) = Key::of(request)
                    && self.last.get(&key) == Some(&self.gone)
                {
                    self.last.remove(&key);
                }
            }
            self.waiting.pop_front();
            self.gone += 1;
        }
    }
}

/// `one` and its neighbour `next` as a request; `None` if they are no parts of one.
fn joined(one: &Waiting, next: &Waiting, within: Nanos) -> Option<Waiting> {
    let (before, after) = (&one.request, &next.request);
    let is_near = after.issue.0.saturating_sub(one.first.0) <= within.0;
    let offset = if before.end() == after.offset {
        before.offset
    } else if after.end() == before.offset {
        after.offset
    } else {
        return None;
    };
    let length = Bytes(before.length.0.checked_add(after.length.0)?);
    let flags = before.flags | after.flags;
    let request = Request { flags, offset, length, ..*after };
    is_near.then_some(Waiting { request, first: one.first })
}

impl Step for Join {
    fn told(&self) -> String {
        format!("rejoin within={}s", decimal_seconds(self.within))
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        header.columns.dependencies = false;
        header.guesses.add(JOINED, self.joined, None);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let columns = batch.columns();
        for row in 0..batch.len() {
            let request = batch.get(row);
            self.take(request);
        }
        batch.reset(columns);
        self.give(batch, false);
        Ok(Flow::More)
    }

    fn rest(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        self.give(batch, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{made, refusal};
    use super::*;
    use crate::request::Origin;
    use proptest::prelude::*;

    /// A write by process `pid`, at these microseconds, of these sectors.
    fn write(us: i64, completed_us: i64, sector: u64, pid: u32) -> Request {
        let offset = Bytes(sector * 512);
        let mut request = Request::new(Nanos(us * 1_000), Op::Write, offset, Bytes(512));
        request.latency = Some(Nanos((completed_us - us) * 1_000));
        request.origin = Some(Origin { pid, cpu: 0 });
        request
    }

    fn shape(requests: &[Request]) -> Vec<(i64, i64, u64, u64)> {
        let us = |ns: Nanos| ns.0 / 1_000;
        let row = |request: &Request| {
            let latency = request.latency.map_or(-1, us);
            (us(request.issue), latency, request.offset.0 / 512, request.length.0 / 512)
        };
        requests.iter().map(row).collect()
    }

    #[test]
    fn parts_of_one_request_become_one_that_is_issued_with_the_last() {
        let parts = [
            write(0, 100, 10, 1),
            write(1, 90, 50, 1),
            write(2, 100, 11, 1),
            write(3, 100, 9, 1),
            write(4, 100, 12, 2),
        ];
        let (whole, header) = made("rejoin", &parts, 2);
        assert_eq!(shape(&whole), [(1, 89, 50, 1), (3, 97, 9, 3), (4, 96, 12, 1)]);
        assert_eq!(header.guesses.count_of(JOINED), 2);
        assert_eq!(header.transforms, ["rejoin within=0.005s"]);
    }

    #[test]
    fn what_the_kernel_did_not_merge_stays_apart() {
        let mut barrier = write(1, 100, 11, 1);
        barrier.flags = Flags::FUA;
        let mut unknown = write(3, 100, 12, 1);
        unknown.latency = None;
        let apart = [
            write(0, 100, 10, 1),
            barrier,
            write(2, 101, 11, 1),
            unknown,
            write(20_000, 100, 11, 1),
        ];
        let (same, _) = made("rejoin", &apart, 8);
        assert_eq!(shape(&same), shape(&apart));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        assert_eq!(refusal("rejoin within=0s"), "within must be longer than nothing");
    }

    proptest! {
        #[test]
        fn every_byte_stays_in_the_order_of_issue(
            rows in prop::collection::vec((0_i64..3, 0_i64..4, 0_u64..8, 0_u32..2), 0..100),
            within in 1_i64..12, batch_rows in 1_usize..20,
        ) {
            let mut now = 0;
            let parts: Vec<_> = rows.iter().map(|&(gap, more, sector, pid)| {
                now += gap;
                write(now, now / 4 * 4 + 8 + more, sector, pid)
            }).collect();
            let (whole, header) = made(&format!("rejoin within={within}us"), &parts, batch_rows);
            let bytes = |all: &[Request]| all.iter().map(|one| one.length.0).sum::<u64>();
            prop_assert_eq!(bytes(&whole), bytes(&parts));
            prop_assert!(whole.is_sorted_by_key(|request| request.issue));
            let joined = (parts.len() - whole.len()) as u64;
            prop_assert_eq!(header.guesses.count_of(JOINED), joined);
            let ends = |all: &[Request]| -> std::collections::BTreeSet<_> {
                let end = |one: &Request| one.issue.0 + one.latency.unwrap().0;
                all.iter().map(|one| (end(one), one.origin.unwrap().pid)).collect()
            };
            prop_assert_eq!(ends(&whole), ends(&parts));
        }
    }
}
