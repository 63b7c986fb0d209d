//! Recordings that hold every request twice.
//!
//! A recording of a whole stack (a device mapper over a disk) has each request once from each
//! layer, some microseconds apart. A load converted from that without the device's number has every
//! request twice, as two of blkreplay's published loads do; in a replay every other request then
//! hits a cache. The later one of a pair is the copy, which the upper layer passed on; the first is
//! the original request.
//!
//! If the layers were recorded as volumes of their own, the header may tell which volume lies below
//! which ([`layers()`]). Then the copies on the lower volumes are dropped, or, with `layer=lower`,
//! all requests to the upper ones; nothing is dropped within a volume. Without that knowledge
//! nothing is removed across volumes, because a mirror writes the same data to two of them.

mod copies;

use std::cell::RefCell;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use self::copies::Copies;
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Topic};
use crate::request::Op;
use crate::stacked::{Layers, WITHIN, layers};
use crate::stream::Source;
use crate::units::{Nanos, decimal_seconds};

/// `unstack`.
pub const KIND: Kind = Kind {
    name: "unstack",
    value: "[within=TIME][,layer=upper|lower]",
    help: "Drop the later copy of requests that stacked devices recorded twice: same operation, \
           place and length within TIME [100ms]; where the recording knows its layers, the copies \
           on lower devices, or with layer=lower the requests to upper ones",
    spills: false,
    parse,
};

/// The largest number of requests that are remembered: some 130 MiB of them.
const WAITING_MAX: usize = 1 << 20;

/// The note on requests that were forgotten before their time.
const NOT_WATCHED: Topic<'static> = NoteKind::Assumed
    .of("requests whose copies were looked for in less than the time within=, \
         because more than 1048576 waited (a shorter within= looks for all)");

/// The note on requests that were dropped.
pub const REMOVED: Topic<'static> = NoteKind::Beside.of("copies of stacked devices removed");

/// The note on requests to upper devices that were dropped.
pub const REMOVED_UPPER: Topic<'static> = NoteKind::Beside.of("requests to upper layers removed");

/// The note on requests to lower devices that were kept.
pub const OWN: Topic<'static> = NoteKind::Assumed
    .of("requests to lower layers are no copy of one to an upper layer within the \
         time within= (their own, or parts of a split one) and were kept");

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let within = arguments.setting("within")?.unwrap_or(WITHIN);
    let choices = [("upper", Layer::Upper), ("lower", Layer::Lower)];
    let layer = arguments.choice("layer", &choices)?.unwrap_or(Layer::Upper);
    arguments.finish()?;
    if within <= Nanos::ZERO {
        return Err(ArgumentError::new("within must be longer than nothing"));
    }
    Ok(Box::new(Unstack { within, layer }))
}

/// The layer whose requests are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Upper,
    Lower,
}

#[derive(Clone, Copy, Debug)]
struct Unstack {
    within: Nanos,
    layer: Layer,
}

impl Transform for Unstack {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let remove = Remove {
            pairs: Pairs::new(self.within, WAITING_MAX),
            copies: Copies::new(self.within),
            layers: RefCell::default(),
            layer: self.layer,
            keep: Vec::new(),
            removed: 0,
            removed_upper: 0,
        };
        Ok(Box::new(Stage::new(source, remove)))
    }
}

/// The values that a copy has in common with its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    op: Op,
    volume: u32,
    offset: u64,
    length: u64,
}

impl Key {
    /// The key of row `row`; `None` for a flush, which has no place to tell it from another flush.
    fn of(batch: &Batch, row: usize) -> Option<Self> {
        (batch.op[row] != Op::Flush).then(|| Self {
            op: batch.op[row],
            volume: batch.volume[row],
            offset: batch.offset_bytes[row],
            length: batch.length_bytes[row],
        })
    }
}

/// Requests that wait for their copy.
struct Pairs {
    within: Nanos,
    waiting_max: usize,
    waiting: FxHashMap<Key, Alike>,
    order: VecDeque<(i64, Key)>,
    /// Requests that waited and were forgotten before their time.
    forgotten: u64,
}

/// Requests that are alike. Copies are found for the oldest first.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    /// The number of remembered requests.
    remembered: u32,
    /// The number of these, the oldest, whose copy was found.
    found: u32,
}

impl Pairs {
    fn new(within: Nanos, waiting_max: usize) -> Self {
        let (waiting, order) = (FxHashMap::default(), VecDeque::new());
        Self { within, waiting_max, waiting, order, forgotten: 0 }
    }

    /// Whether the request is the copy of one that waited; it waits for its own if not.
    fn is_copy(&mut self, issue: i64, key: Key) -> bool {
        while let Some(&(oldest, of)) = self.order.front() {
            let is_over = issue.saturating_sub(oldest) > self.within.0;
            if !is_over && self.order.len() <= self.waiting_max {
                break;
            }
            self.order.pop_front();
            let Some(alike) = self.waiting.get_mut(&of) else { continue };
            alike.remembered -= 1;
            if alike.found > 0 {
                alike.found -= 1;
            } else if !is_over {
                self.forgotten += 1;
            }
            if alike.remembered == 0 {
                self.waiting.remove(&of);
            }
        }
        let alike = self.waiting.entry(key).or_default();
        if alike.found < alike.remembered {
            alike.found += 1;
            return true;
        }
        alike.remembered += 1;
        self.order.push_back((issue, key));
        false
    }
}

struct Remove {
    pairs: Pairs,
    copies: Copies,
    /// The layers according to the last header: volumes come up while a trace is read.
    layers: RefCell<Layers>,
    layer: Layer,
    keep: Vec<bool>,
    removed: u64,
    removed_upper: u64,
}

impl Step for Remove {
    fn told(&self) -> String {
        let layer = if self.layer == Layer::Lower { ",layer=lower" } else { "" };
        format!("unstack within={}s{layer}", decimal_seconds(self.pairs.within))
    }

    fn describe(&self, header: &mut Header) {
        *self.layers.borrow_mut() = layers(header);
        header.losses.add(REMOVED, self.removed, None);
        header.losses.add(REMOVED_UPPER, self.removed_upper, None);
        header.guesses.add(OWN, self.copies.own, None);
        let forgotten = self.pairs.forgotten + self.copies.forgotten;
        header.guesses.add(NOT_WATCHED, forgotten, None);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        self.keep.clear();
        let layers = self.layers.borrow();
        if !layers.is_empty() {
            for row in 0..batch.len() {
                let keeps = match self.layer {
                    Layer::Upper => !self.copies.is_copy(batch, row, &layers),
                    Layer::Lower => !layers.is_upper(batch.volume[row]),
                };
                self.keep.push(keeps);
            }
            let removed = self.keep.iter().filter(|keeps| !**keeps).count() as u64;
            match self.layer {
                Layer::Upper => self.removed += removed,
                Layer::Lower => self.removed_upper += removed,
            }
            batch.retain(&self.keep);
            return Ok(Flow::More);
        }
        for row in 0..batch.len() {
            let copy =
                Key::of(batch, row).is_some_and(|key| self.pairs.is_copy(batch.issue_ns[row], key));
            self.removed += u64::from(copy);
            self.keep.push(!copy);
        }
        batch.retain(&self.keep);
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{made, refusal, trace, unmeasured};
    use super::*;
    use crate::Request;
    use proptest::prelude::*;

    /// The result computed directly: each request is the copy of the oldest equal one that waits.
    fn expected(requests: &[Request], within: i64) -> Vec<Request> {
        let mut waiting: Vec<Request> = Vec::new();
        let mut kept = Vec::new();
        for request in requests {
            let is_twin = |other: &Request| {
                let alike = (other.op, other.offset, other.length, other.volume)
                    == (request.op, request.offset, request.length, request.volume);
                alike && request.issue.0 - other.issue.0 <= within && request.op != Op::Flush
            };
            if let Some(at) = waiting.iter().position(is_twin) {
                waiting.remove(at);
            } else {
                waiting.push(*request);
                kept.push(*request);
            }
        }
        kept
    }

    proptest! {
        #[test]
        fn a_request_goes_if_an_earlier_one_like_it_has_no_copy_yet(
            rows in proptest::collection::vec((0_i64..4, 0_u8..6, 0_u64..3, 1_u64..3), 0..100),
            within in 1_i64..8, batch_rows in 1_usize..20,
        ) {
            let mut now = 0;
            let requests: Vec<_> = rows.iter().flat_map(|&(gap, op, sector, sectors)| {
                now += gap;
                trace(&[(now, Op::from_code(op).unwrap(), sector, sectors)])
            }).collect();
            let (kept, header) = made(&format!("unstack within={within}s"), &requests, batch_rows);
            let expected = expected(&requests, within * 1_000_000_000);
            let plain = |requests: &[Request]| {
                let plain = unmeasured(requests).into_iter();
                plain.map(|request| Request { origin: None, ..request }).collect::<Vec<_>>()
            };
            prop_assert_eq!(plain(&kept), plain(&expected));
            let removed = (requests.len() - kept.len()) as u64;
            prop_assert_eq!(header.losses.count_of(REMOVED), removed);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut pairs = Pairs::new(Nanos::MAX, 10);
        for offset in 0..1000 {
            let key = Key { op: Op::Read, volume: 0, offset, length: 1 };
            assert!(!pairs.is_copy(0, key));
            assert!(pairs.waiting.len() <= 12 && pairs.order.len() <= 12);
        }
        // Every request was forgotten except those that still wait.
        assert_eq!(pairs.forgotten, 1000 - pairs.order.len() as u64);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        assert_eq!(refusal("unstack within=0s"), "within must be longer than nothing");
        assert_eq!(refusal("unstack 3"), "'3' is one value too many");
    }
}
