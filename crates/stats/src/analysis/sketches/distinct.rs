//! Sketches of the sets of pages: `HyperLogLog` as Apache `DataSketches` has it.
//!
//! A union of sketches is the sketch of the union, so there is one for each volume, operation and
//! span of ten minutes, and every coarser question is a union of these: of volumes, of hours, of
//! hosts. The format is that of `DataSketches`, which Spark, DuckDB, Postgres, Python and Java
//! read.

use std::collections::hash_map::Entry;

use datasketches::hll::{Coupon, HllSketch, HllType, HllUnion};
use rustc_hash::FxHashMap;

/// The length of a span, as long as there are not too many.
pub const SPAN_NS: i64 = 600_000_000_000;

/// 2 to this power registers: 1.6 % of standard error, 4 KiB.
const LG_K: u8 = 12;

/// So many sketches are kept at most, in some 16 MB, as long as spans can be made longer; further
/// ones only where volumes are as many.
const SKETCHES_MAX: usize = 4096;

/// Volume, 0 of reads and 1 of writes, and the number of the span.
type Key = (u32, u8, u64);

/// The distinct pages of a volume, an operation and a span of time.
#[derive(Clone, Debug)]
pub struct Pages<'a> {
    /// The volume.
    pub volume: u32,
    /// Whether they were written.
    pub is_write: bool,
    /// When the span begins.
    pub time_ns: i64,
    /// Its length.
    pub width_ns: i64,
    sketch: &'a HllSketch,
}

impl Pages<'_> {
    /// The sketch in the format of `DataSketches`.
    pub fn sketch(&self) -> Vec<u8> {
        self.sketch.serialize()
    }

    /// About how many there are, whatever the order in which they came.
    pub fn estimate(&self) -> f64 {
        self.sketch.composite_estimate()
    }
}

/// Distinct pages by volume, operation and span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distinct {
    /// How often spans doubled their length.
    shift: u32,
    sketches: FxHashMap<Key, HllSketch>,
}

impl Distinct {
    /// A request touched pages of these keys.
    #[inline]
    pub(super) fn touch(
        &mut self,
        volume: u32,
        kind: usize,
        time_ns: i64,
        keys: impl Iterator<Item = u64>,
    ) {
        let span = (time_ns.max(0) / SPAN_NS) as u64 >> self.shift;
        let known = self.sketches.len();
        if let Some(sketch) = entry(&mut self.sketches, (volume, kind as u8, span)) {
            keys.for_each(|key| sketch.update_with_coupon(Coupon::from_value(key)));
        }
        if self.sketches.len() > known {
            self.bound();
        }
    }

    /// Adds a sketch that was written down; false if it is none, or none of this kind.
    pub fn add(&mut self, (volume, is_write): (u32, bool), span: (i64, i64), bytes: &[u8]) -> bool {
        let (time_ns, width_ns) = span;
        let Ok(sketch) = HllSketch::deserialize(bytes) else { return false };
        let times = width_ns / SPAN_NS;
        let is_span = time_ns >= 0 && width_ns > 0 && width_ns % SPAN_NS == 0;
        if !is_span || !(times as u64).is_power_of_two() || sketch.lg_config_k() != LG_K {
            return false;
        }
        self.widen_to(times.ilog2());
        let span = (time_ns / SPAN_NS) as u64 >> self.shift;
        join(&mut self.sketches, (volume, u8::from(is_write), span), &sketch);
        self.bound();
        true
    }

    /// Adds the pages of another part.
    pub fn merge(&mut self, other: &Self) {
        self.widen_to(other.shift);
        let by = self.shift - other.shift;
        for ((volume, kind, span), sketch) in &other.sketches {
            join(&mut self.sketches, (*volume, *kind, span >> by), sketch);
        }
        self.bound();
    }

    /// What there is, in the order of volumes, operations and time.
    pub fn pages(&self) -> impl Iterator<Item = Pages<'_>> {
        let mut sorted: Vec<_> = self.sketches.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| **key);
        let width_ns = SPAN_NS.saturating_mul(1 << self.shift);
        sorted.into_iter().map(move |((volume, kind, span), sketch)| Pages {
            volume: *volume,
            is_write: *kind == 1,
            time_ns: width_ns.saturating_mul(*span as i64),
            width_ns,
            sketch,
        })
    }

    /// Makes spans longer while there are too many sketches and that leaves fewer.
    fn bound(&mut self) {
        let is_one_span = |sketches: &FxHashMap<Key, _>| sketches.keys().all(|key| key.2 == 0);
        while self.sketches.len() > SKETCHES_MAX && !is_one_span(&self.sketches) {
            self.widen_to(self.shift + 1);
        }
    }

    /// Makes spans so long, if they are shorter.
    #[cold]
    fn widen_to(&mut self, shift: u32) {
        let by = shift.saturating_sub(self.shift);
        if by == 0 {
            return;
        }
        self.shift = shift;
        for ((volume, kind, span), sketch) in std::mem::take(&mut self.sketches) {
            join(&mut self.sketches, (volume, kind, span >> by), &sketch);
        }
    }
}

/// The sketch of a key, made where there was none.
#[inline]
fn entry(sketches: &mut FxHashMap<Key, HllSketch>, key: Key) -> Option<&mut HllSketch> {
    match sketches.entry(key) {
        Entry::Occupied(known) => Some(known.into_mut()),
        // There is such a sketch of every number of registers from 2^4 to 2^21.
        Entry::Vacant(place) => Some(place.insert(HllSketch::new(LG_K, HllType::Hll8).ok()?)),
    }
}

/// Adds a sketch to that of a key.
fn join(sketches: &mut FxHashMap<Key, HllSketch>, key: Key, other: &HllSketch) {
    match sketches.entry(key) {
        Entry::Vacant(place) => _ = place.insert(other.clone()),
        Entry::Occupied(mut known) => {
            if let Ok(mut union) = HllUnion::new(LG_K) {
                union.update(known.get());
                union.update(other);
                known.insert(union.to_sketch(HllType::Hll8));
            }
        }
    }
}
