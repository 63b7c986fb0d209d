//! A load like a recorded one, from its mix.
//!
//! `ioecho fit` measures four properties of a recording: the mix of operations and sizes, the share
//! of requests that continue a sequence, the distances at which places are used again, and the
//! spread of the rest over the device. This module makes requests of these figures:
//!
//! 1. an operation and a size are drawn together;
//! 2. with the operation's share the request continues one of the last sequences of its kind;
//! 3. otherwise, by its distribution of reuse, it goes where a request went 2^k … 2^(k+1) − 1
//!    requests ago, preferably one of the same kind that was the last to go there: by Denning's
//!    working-set theorem (1968) the distances of reuse say how the working set grows;
//! 4. otherwise it goes to a region by Zipf's law, anywhere in it: where `unused` says so to a
//!    place where none went before, and where `aligned` says so at a multiple of 4 KiB.
//!
//! If alignment is modelled, sizes that are multiples of 4 KiB have sequences of their own: one
//! request of another size would misalign all requests that follow it.
//!
//! The model loses reads that always follow a write of the same place, phases, and repeated
//! sequences of places.

use super::place::{Area, Scatter};
use super::random::{Random, Share, scramble};
use super::settings::Settings;
use super::size::{Sizes, cumulative};
use super::unused::Unused;
use super::zipf::Zipf;
use crate::arguments::{ArgumentError, Arguments};
use crate::request::Op;
use crate::units::{Bytes, SECTOR};

/// The letters of operations in a model, and their operations.
const LETTERS: [(char, Op); 5] = [
    ('R', Op::Read),
    ('W', Op::Write),
    ('F', Op::Flush),
    ('D', Op::Discard),
    ('Z', Op::WriteZeroes),
];

/// The longest distance of reuse is 2 to this power, less one.
pub(super) const DISTANCES_MAX: usize = 20;

/// Aligned places are multiples of this number of bytes.
const ALIGNED: u64 = 4096;

/// The number of places of the right distance that are tried to find one of the same kind.
const TRIES: u32 = 8;

/// The entries of the table that knows the last request to each place.
const LATEST: usize = 1 << 20;

/// A request to whose place a later one may return.
#[derive(Clone, Copy, Debug)]
struct Past {
    place: u64,
    length: u32,
    op: Op,
}

/// The latest end of a sequence.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    end: u64,
    /// Whether the sequence keeps to unused places.
    to_unused: bool,
}

/// The state for sizes that are multiples of 4 KiB, or for others.
#[derive(Clone, Debug, Default)]
struct Group {
    sequential: Option<Share>,
    aligned: Option<Share>,
    /// The last sequences.
    sequences: Vec<Sequence>,
    oldest: usize,
}

/// The state for each operation.
#[derive(Clone, Debug, Default)]
struct OfOp {
    groups: [Group; 2],
    /// The share of sequences that keep to unused places, of those that begin at one.
    unused: Option<Share>,
    /// For each power of two of distance, the upper end of its part of 2⁶⁴. Numbers behind the last
    /// end stand for places that are not used again.
    reuse: Vec<u64>,
}

/// The mix, and the requests generated last.
#[derive(Clone, Debug)]
pub(super) struct Model {
    area: Area,
    classes: Vec<(Op, u64)>,
    class_ends: Vec<u64>,
    of_op: [OfOp; Op::ALL.len()],
    streams: usize,
    /// Whether sizes that are no multiples of 4 KiB are a group of their own.
    by_alignment: bool,
    unused: Option<Unused>,
    regions: Zipf,
    scatter: Scatter,
    region: Area,
    past: Vec<Past>,
    depth: usize,
    /// The number of requests so far, without flushes.
    seen: u64,
    /// For each place's hash, the number of the last request that went there, cut to 32 bits.
    latest: Vec<u32>,
}

impl Model {
    pub(super) fn parse(
        arguments: &mut Arguments<'_>,
        settings: &Settings,
    ) -> Result<Self, ArgumentError> {
        let Some(mix) = arguments.setting::<String>("mix")? else {
            return Err(ArgumentError::new("mix is missing, such as mix=R4k:30,W8k:70"));
        };
        let (classes, weights) = parse_mix(&mix)?;
        let class_ends =
            cumulative(&weights).ok_or_else(|| ArgumentError::new("mix: all shares are zero"))?;
        let largest = classes.iter().map(|(_, length)| *length).max().unwrap_or_default();
        if !settings.borders.is_empty() {
            return Err(ArgumentError::new("area: that of a model has one part"));
        }
        let area = Area::whole(settings.area, settings.align.unwrap_or(SECTOR));
        if largest > area.size {
            let text = format!("area: {} do not hold the largest request", Bytes(area.size));
            return Err(ArgumentError::new(text));
        }
        let mut of_op: [OfOp; Op::ALL.len()] = Default::default();
        if let Some(text) = arguments.setting::<String>("sequential")? {
            for (op, value) in per_op(&text, "sequential")? {
                let [whole, others] = shares(value, "sequential")?;
                of_op[op].groups[0].sequential = Some(whole);
                of_op[op].groups[1].sequential = Some(others);
            }
        }
        let mut by_alignment = false;
        if let Some(text) = arguments.setting::<String>("aligned")? {
            by_alignment = true;
            if !settings.offset.is_multiple_of(ALIGNED) {
                return Err(ArgumentError::new("aligned: the offset is a multiple of 4096"));
            }
            for (op, value) in per_op(&text, "aligned")? {
                let [whole, others] = shares(value, "aligned")?;
                of_op[op].groups[0].aligned = Some(whole);
                of_op[op].groups[1].aligned = Some(others);
            }
        }
        let mut unused = None;
        if let Some(text) = arguments.setting::<String>("unused")? {
            unused = Some(Unused::new(area.size));
            for (op, value) in per_op(&text, "unused")? {
                of_op[op].unused = Some(share(value, "unused")?);
            }
        }
        let mut depth = 1;
        if let Some(text) = arguments.setting::<String>("reuse")? {
            for (op, value) in per_op(&text, "reuse")? {
                of_op[op].reuse = parse_reuse(value)?;
                depth = depth.max(1 << of_op[op].reuse.len());
            }
        }
        let streams = arguments.setting("streams")?.unwrap_or(1);
        if !(1..=1024).contains(&streams) {
            return Err(ArgumentError::new("streams: between 1 and 1024 make sense"));
        }
        let theta = arguments.setting("zipf")?.unwrap_or(0.01);
        if !(0.01..=5.0).contains(&theta) {
            return Err(ArgumentError::new("zipf: an exponent between 0.01 and 5 makes sense"));
        }
        let regions: u64 = arguments.setting("regions")?.unwrap_or(1);
        let size = area.size.checked_div(regions).unwrap_or(0) & !(area.align - 1);
        if size == 0 {
            return Err(ArgumentError::new("regions: each has at least one aligned place"));
        }
        let mut random = Random::new(scramble(settings.seed));
        Ok(Self {
            region: Area::whole(size, area.align),
            area,
            classes,
            class_ends,
            of_op,
            streams,
            by_alignment,
            unused,
            regions: Zipf::new(regions, theta),
            scatter: Scatter::new(regions, &mut random),
            past: Vec::new(),
            depth,
            seen: 0,
            latest: if depth > 1 { vec![0; LATEST] } else { Vec::new() },
        })
    }

    /// The next request: its operation, its place in the area and its length, in bytes.
    pub(super) fn next(&mut self, random: &mut Random) -> (Op, u64, u64) {
        let number = random.next_u64();
        let (op, length) = self.classes[self.class_ends.partition_point(|end| *end <= number)];
        if op == Op::Flush {
            return (op, 0, 0);
        }
        let group = usize::from(self.by_alignment && !length.is_multiple_of(ALIGNED));
        let further = self.further(op, group, length, random);
        let place = further.unwrap_or_else(|| {
            let again = self.again(op, length, random);
            let place = again.unwrap_or_else(|| self.anew(op, group, length, random));
            let place = self.area.held(place, length);
            let of_op = &mut self.of_op[op as usize];
            let to_unused =
                again.is_none() && of_op.unused.is_some_and(|share| random.chance(share));
            let begun = Sequence { end: place + length, to_unused };
            let Group { sequences, oldest, .. } = &mut of_op.groups[group];
            if sequences.len() < self.streams {
                sequences.push(begun);
            } else {
                sequences[*oldest] = begun;
                *oldest = (*oldest + 1) % self.streams;
            }
            place
        });
        if let Some(unused) = &mut self.unused {
            unused.mark(place, length);
        }
        self.remember(Past { place, length: length as u32, op });
        (op, place, length)
    }

    /// The place at which a sequence goes on; `None` if this request continues none that has room.
    #[inline]
    fn further(&mut self, op: Op, group: usize, length: u64, random: &mut Random) -> Option<u64> {
        let Group { sequential, sequences, .. } = &mut self.of_op[op as usize].groups[group];
        if !random.chance(sequential.unwrap_or(Share::NEVER)) || sequences.is_empty() {
            return None;
        }
        let at = random.below(sequences.len() as u64) as usize;
        let Sequence { end, to_unused } = sequences[at];
        let meets = |unused: &Unused| to_unused && !unused.goes_on(end, length);
        if end + length > self.area.size {
            return None;
        }
        if self.unused.as_ref().is_some_and(meets) {
            // The sequence is stuck: remove it.
            sequences.swap_remove(at);
            return None;
        }
        sequences[at].end = end + length;
        Some(end)
    }

    /// A place by Zipf's law, as aligned and as unused as the user asked for.
    fn anew(&self, op: Op, group: usize, length: u64, random: &mut Random) -> u64 {
        let of_op = &self.of_op[op as usize];
        let aligned = of_op.groups[group].aligned.map(|share| random.chance(share));
        let unused = self.unused.as_ref().filter(|_| of_op.unused.is_some());
        let mut place = 0;
        // Another region for a place that is used would favour the cold ones.
        let region = self.scatter.of(self.regions.next(random));
        for _ in 0..TRIES {
            let within = self.region.anywhere(length.min(self.region.size), random);
            place = self.area.held(region * self.region.size + within, length);
            let align = self.area.align;
            match aligned {
                Some(true) => place &= !(ALIGNED - 1),
                Some(false) if align < ALIGNED && place.is_multiple_of(ALIGNED) => {
                    place += align * (1 + random.below(ALIGNED / align - 1));
                }
                _ => {}
            }
            if unused.is_none_or(|unused| unused.has(self.area.held(place, length), length)) {
                return place;
            }
        }
        unused.and_then(|unused| unused.next_from(place)).unwrap_or(place)
    }

    /// A place that is used again; `None` if this request reuses none.
    fn again(&self, op: Op, length: u64, random: &mut Random) -> Option<u64> {
        let reuse = &self.of_op[op as usize].reuse;
        if reuse.is_empty() {
            return None;
        }
        let number = random.next_u64();
        let power = reuse.partition_point(|end| *end <= number);
        let least = 1_u64 << power;
        if power == reuse.len() || least > self.seen {
            return None;
        }
        let mut found = None;
        for _ in 0..TRIES {
            let distance = (least + random.below(least)).min(self.seen);
            let past = self.past[((self.seen - distance) % self.depth as u64) as usize];
            let is_latest = self.latest[hash(past.place)] == (self.seen - distance) as u32;
            if is_latest && past.op == op && u64::from(past.length) == length {
                return Some(past.place);
            }
            if is_latest || found.is_none() {
                found = Some(past.place);
            }
        }
        found
    }

    fn remember(&mut self, past: Past) {
        if self.depth > 1 {
            let at = (self.seen % self.depth as u64) as usize;
            if at < self.past.len() {
                self.past[at] = past;
            } else {
                self.past.push(past);
            }
            self.latest[hash(past.place)] = self.seen as u32;
        }
        self.seen += 1;
    }
}

/// The entry of a place in the table of the latest requests.
fn hash(place: u64) -> usize {
    (scramble(place) >> 44) as usize & (LATEST - 1)
}

fn op_of(letter: char) -> Option<Op> {
    let letter = letter.to_ascii_uppercase();
    LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, op)| *op)
}

/// Classes of operation and size, and their weights.
type Classes = (Vec<(Op, u64)>, Vec<f64>);

fn parse_mix(text: &str) -> Result<Classes, ArgumentError> {
    let (mut classes, mut weights) = (Vec::new(), Vec::new());
    for part in text.split(',').map(str::trim) {
        let refuse = |reason: &str| {
            let text = format!("mix: '{part}': {reason} (as in R4k:30,W8k:69.5,F:0.5)");
            ArgumentError::new(text)
        };
        let (class, share) = part.split_once(':').ok_or_else(|| refuse("it has no share"))?;
        let mut letters = class.chars();
        let op = letters
            .next()
            .and_then(op_of)
            .ok_or_else(|| refuse("it does not begin with one of R, W, F, D, Z"))?;
        let length = match (op, letters.as_str()) {
            (Op::Flush, "") => 0,
            (Op::Flush, _) => return Err(refuse("a flush has no size")),
            (_, size) => Sizes::parse(size)?.only().ok_or_else(|| refuse("it is one size"))?,
        };
        match share.trim_end_matches('%').parse::<f64>() {
            Ok(share) if (0.0..=1e9).contains(&share) => weights.push(share),
            _ => return Err(refuse("the share is not a number")),
        }
        // A length beyond 32 bits is clamped, for `Past`.
        classes.push((op, length.min(u64::from(u32::MAX) & !(SECTOR - 1))));
    }
    if classes.len() > 4096 {
        return Err(ArgumentError::new("mix: there are more than 4096 classes"));
    }
    Ok((classes, weights))
}

/// `R:10,W:20` as pairs of an operation's code and its text.
fn per_op<'a>(text: &'a str, name: &str) -> Result<Vec<(usize, &'a str)>, ArgumentError> {
    text.split(',')
        .map(|part| {
            let (letter, value) = part.trim().split_once(':').unwrap_or(("", ""));
            let mut letters = letter.chars();
            match (letters.next().and_then(op_of), letters.next()) {
                (Some(op), None) if op != Op::Flush => Ok((op as usize, value)),
                _ => Err(ArgumentError::new(format!(
                    "{name}: '{part}' does not begin with R:, W:, D: or Z:"
                ))),
            }
        })
        .collect()
}

fn share(text: &str, name: &str) -> Result<Share, ArgumentError> {
    text.trim().parse().map_err(|error| ArgumentError::new(format!("{name}: {error}")))
}

/// A share of sizes that are multiples of 4 KiB and, behind a slash, of others; or of both.
fn shares(text: &str, name: &str) -> Result<[Share; 2], ArgumentError> {
    let (whole, others) = text.split_once('/').unwrap_or((text, text));
    Ok([share(whole, name)?, share(others, name)?])
}

/// Percentages of the distances 1, 2–3, 4–7 and so on; the rest is not used again.
fn parse_reuse(text: &str) -> Result<Vec<u64>, ArgumentError> {
    let mut sum = 0.0;
    let mut ends = Vec::new();
    for part in text.split('/') {
        match part.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => sum += percent,
            _ => {
                let text = format!("reuse: '{part}' is not a percentage");
                return Err(ArgumentError::new(text));
            }
        }
        ends.push(Share::from_fraction(sum / 100.0).threshold());
    }
    // Rounded percentages may come to a little more than all.
    if sum > 100.5 || ends.len() > DISTANCES_MAX {
        let text = "reuse: at most 100 % in all, in at most 20 powers of two";
        return Err(ArgumentError::new(text));
    }
    Ok(ends)
}
