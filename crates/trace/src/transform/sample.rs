//! A part of the trace that stands for all of it.
//!
//! A random tenth of the requests does not show the behaviour of caches, because a block that was
//! used ten times is then used once. So space is sampled, not requests: a block stays with all its
//! requests or goes with all of them. A hash of its address decides, as in SHARDS (Waldspurger,
//! Park, Garthwaite, Ahmad: "Efficient MRC construction with SHARDS", FAST 2015). For behaviour
//! over time short windows at regular distances stay whole.
//!
//! A request belongs to the block of its first byte, and is not cut. Flushes have no block; the
//! same share of them stays.

use super::exact::{Percent, mix, size};
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::request::Op;
use crate::stream::Source;
use crate::units::{Bytes, Nanos, decimal_seconds};

/// The default size of a block.
const BLOCK: Bytes = Bytes(4096);

/// `sample [space=PERCENT[,block=SIZE][,seed=N]][,time=TIME,every=TIME]`.
pub const KIND: Kind = Kind {
    name: "sample",
    value: "space=PERCENT[,block=SIZE][,seed=N] | time=TIME,every=TIME",
    help: "Keep a part that stands for all: of the blocks (default: 4k) PERCENT, each with all its \
           requests; or the first TIME of every so much of the trace's own time",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let refuse = |text: &str| Err(ArgumentError::new(text));
    let mut arguments = Arguments::new(text, ',')?;
    let share = arguments.setting::<Percent>("space")?;
    let block = arguments.setting::<Bytes>("block")?;
    let seed = arguments.setting::<u64>("seed")?;
    let time = arguments.setting::<Nanos>("time")?;
    let every = arguments.setting::<Nanos>("every")?;
    arguments.finish()?;
    if share.is_none() && (block.is_some() || seed.is_some()) {
        return refuse("block= and seed= belong to space=PERCENT");
    }
    if block == Some(Bytes::ZERO) {
        return refuse("block: at least 1 byte");
    }
    let windows = match (time, every) {
        (None, None) => None,
        (Some(time), Some(every)) if Nanos::ZERO < time && time <= every => Some((time, every)),
        (Some(_), Some(_)) => return refuse("time: more than nothing and not more than every="),
        _ => return refuse("time= and every= belong together"),
    };
    if share.is_none() && windows.is_none() {
        return refuse("what to sample is missing: space=PERCENT or time=TIME,every=TIME");
    }
    let space =
        share.map(|share| Space { share, block: block.unwrap_or(BLOCK), seed: seed.unwrap_or(0) });
    Ok(Box::new(Sample { space, windows }))
}

/// A sample of space, of time, or of both.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The blocks that stay; `None` for all.
    pub space: Option<Space>,
    /// The length of the windows, and the distance from one beginning to the next; the first is at
    /// zero.
    pub windows: Option<(Nanos, Nanos)>,
}

/// A sample of blocks. A block stays if mix(mix(mix(`seed`) ^ volume) ^ number of the block) is
/// below [`Percent::threshold`]; the exclusive or and [`mix`](super::exact) are those of 64-bit
/// numbers.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// The share of blocks that stay.
    pub share: Percent,
    /// The size of a block.
    pub block: Bytes,
    /// The seed that decides which blocks stay.
    pub seed: u64,
}

impl Transform for Sample {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let step = Chosen { sample: *self, flushes: 0, keep: Vec::new() };
        Ok(Box::new(Stage::new(source, step)))
    }
}

struct Chosen {
    sample: Sample,
    flushes: u64,
    keep: Vec<bool>,
}

impl Chosen {
    /// Clears `keep` for requests in blocks that go.
    fn choose_blocks(&mut self, batch: &Batch, space: &Space) {
        let Some(threshold) = space.share.threshold() else { return };
        let key = mix(space.seed);
        let shift = space.block.0.is_power_of_two().then(|| space.block.0.trailing_zeros());
        // Traces of one volume are the rule.
        let (mut volume, mut volume_key) = (0, mix(key));
        for (row, keep) in self.keep.iter_mut().enumerate() {
            if batch.op[row] == Op::Flush {
                *keep = mix(!key ^ self.flushes) < threshold;
                self.flushes += 1;
                continue;
            }
            if batch.volume[row] != volume {
                volume = batch.volume[row];
                volume_key = mix(key ^ u64::from(volume));
            }
            let offset = batch.offset_bytes[row];
            let block = shift.map_or_else(|| offset / space.block.0, |shift| offset >> shift);
            *keep = mix(volume_key ^ block) < threshold;
        }
    }
}

impl Step for Chosen {
    fn told(&self) -> String {
        let space = self.sample.space.map(|space| {
            let Space { share, block, seed } = &space;
            format!("space={share},block={},seed={seed}", size(*block))
        });
        let windows = self.sample.windows.map(|(time, every)| {
            format!("time={}s,every={}s", decimal_seconds(time), decimal_seconds(every))
        });
        let parts: Vec<_> = space.into_iter().chain(windows).collect();
        format!("sample {}", parts.join(","))
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        self.keep.clear();
        self.keep.resize(batch.len(), true);
        if let Some(space) = self.sample.space {
            self.choose_blocks(batch, &space);
        }
        if let Some((time, every)) = self.sample.windows {
            for (keep, issue) in self.keep.iter_mut().zip(&batch.issue_ns) {
                *keep &= issue.rem_euclid(every.0) < time.0;
            }
        }
        batch.retain(&self.keep);
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use super::*;
    use crate::Request;
    use crate::batch::tests::any_request;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    proptest! {
        #[test]
        fn a_block_stays_with_all_its_requests_or_goes_with_all_of_them(
            mut requests in proptest::collection::vec(any_request(), 0..200), rows in 1_usize..40,
            percent in 1_u8..=100, seed in any::<u64>(), block in 1_u64..10_000,
        ) {
            for request in &mut requests {
                request.offset.0 %= 1 << 16;
            }
            requests.sort_by_key(|request| request.issue);
            let line = format!("sample space={percent},block={block},seed={seed}");
            let (all, _) = made(&line, &requests, rows);
            let blocks = |all: &[Request]| {
                let mut counts = HashMap::new();
                for request in all.iter().filter(|request| request.op != Op::Flush) {
                    *counts.entry((request.volume, request.offset.0 / block)).or_insert(0) += 1;
                }
                counts
            };
            let before = blocks(&requests);
            for (block, count) in blocks(&all) {
                prop_assert_eq!(before[&block], count);
            }
        }

        #[test]
        fn of_time_the_first_part_of_every_span_stays(
            mut requests in proptest::collection::vec(any_request(), 0..200), rows in 1_usize..40,
            every in 1_i64..5000, time in 1_i64..5000,
        ) {
            let time = time.min(every);
            for request in &mut requests {
                request.issue.0 %= 20_000;
            }
            requests.sort_by_key(|request| request.issue);
            let (all, _) = made(&format!("sample time={time}ns,every={every}ns"), &requests, rows);
            requests.retain(|request| request.issue.0 % every < time);
            prop_assert_eq!(all, requests);
        }
    }

    #[test]
    fn the_share_of_blocks_is_about_that_share_and_a_smaller_sample_lies_in_a_larger_one() {
        let requests: Vec<_> = (0..100_000)
            .map(|n| Request::new(Nanos(n), Op::Read, Bytes(n as u64 * 4096), Bytes(512)))
            .collect();
        let sampled = |percent| -> HashSet<u64> {
            let (all, _) = made(&format!("sample space={percent}"), &requests, 8192);
            all.iter().map(|request| request.offset.0).collect()
        };
        let (ten, one) = (sampled(10), sampled(1));
        // Five standard deviations.
        assert!(ten.len().abs_diff(10_000) < 475, "{}", ten.len());
        assert!(one.is_subset(&ten) && one.len() > 800);
    }

    #[test]
    fn which_blocks_a_seed_chooses_never_changes() {
        let requests: Vec<_> = (0..40)
            .map(|n| Request::new(Nanos(n), Op::Read, Bytes(n as u64 * 4096), Bytes(512)))
            .collect();
        let (all, _) = made("sample space=25,seed=7", &requests, 8192);
        let blocks: Vec<_> = all.iter().map(|request| request.offset.0 / 4096).collect();
        assert_eq!(blocks, [3, 5, 8, 19, 20, 24, 30, 34, 38]);
    }

    #[test]
    fn it_says_what_it_took_for_granted_and_refuses_what_is_none() {
        let told = |line| made(line, &[], 1).1.transforms.remove(0);
        assert_eq!(told("sample space=10%"), "sample space=10,block=4k,seed=0");
        assert_eq!(told("sample time=1s,every=1m"), "sample time=1s,every=60s");
        assert!(refused("sample").starts_with("what to sample is missing"));
        assert!(refused("sample time=1s").contains("belong together"));
        assert!(refused("sample time=2s,every=1s").contains("not more than every="));
        assert!(refused("sample time=1s,every=2s,seed=1").contains("belong to space"));
    }
}
