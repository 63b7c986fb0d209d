//! Statistics of single requests and of their sequences, for the model of a trace.
//!
//! Operation and size belong together: a database reads pages and writes a log. A request continues
//! a sequence if it begins where one of the last requests of its operation and volume ended; the
//! distance back to that request shows how many sequences run at once.

use std::collections::BTreeMap;

use ioecho_trace::{Bytes, Op, Request};
use serde::Serialize;

/// How many sequences of an operation are followed.
pub(super) const SEQUENCES: usize = 32;

/// How many classes of operation and size are told apart; what comes beyond is counted with the
/// next smaller power of two.
const CLASSES_MAX: usize = 4096;

/// What is called aligned.
pub(super) const ALIGNED: u64 = 4096;

/// Operations whose sequences are followed: all.
const OPS: usize = Op::ALL.len();

/// The last requests of an operation.
#[derive(Clone, Debug, Default)]
struct Sequences {
    /// Volume and end of the last requests, the latest last.
    ends: Vec<(u32, u64)>,
    requests: u64,
    follow: u64,
    /// The sum of how many others came since the request that is continued.
    ranks: u64,
    /// Of sizes that are multiples of 4 KiB, and of others.
    groups: [Group; 2],
}

/// Requests of a group of sizes.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    requests: u64,
    follow: u64,
    /// Those that begin at a multiple of 4 KiB, and those of them that follow nothing.
    aligned: u64,
    aligned_placed: u64,
}

/// Counts the mix.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    classes: BTreeMap<(u8, u64), u64>,
    sequences: [Sequences; OPS],
    /// Requests that begin at a multiple of 2^k bytes and follow none, k from 0 to 12.
    aligned: [u64; 13],
    placed: u64,
}

impl Mix {
    /// Adds a request and answers whether it continues a sequence.
    pub fn add(&mut self, request: &Request) -> bool {
        let mut class = (request.op.code(), request.length.0);
        if self.classes.len() >= CLASSES_MAX && !self.classes.contains_key(&class) {
            class.1 = class.1.checked_ilog2().map_or(0, |power| 1 << power);
        }
        *self.classes.entry(class).or_default() += 1;
        let sequences = &mut self.sequences[usize::from(request.op.code())];
        sequences.requests += 1;
        if request.op == Op::Flush {
            return false;
        }
        let begin = (request.volume.0, request.offset.0);
        let found = sequences.ends.iter().rposition(|end| *end == begin);
        let aligned = u64::from(request.offset.0.is_multiple_of(ALIGNED));
        let group = &mut sequences.groups[usize::from(!request.length.0.is_multiple_of(ALIGNED))];
        group.requests += 1;
        group.follow += u64::from(found.is_some());
        group.aligned += aligned;
        group.aligned_placed += if found.is_some() { 0 } else { aligned };
        if let Some(at) = found {
            sequences.follow += 1;
            sequences.ranks += (sequences.ends.len() - 1 - at) as u64;
            sequences.ends.remove(at);
        } else {
            self.placed += 1;
            for (power, count) in self.aligned.iter_mut().enumerate() {
                *count += u64::from(request.offset.0.is_multiple_of(1 << power));
            }
            if sequences.ends.len() == SEQUENCES {
                sequences.ends.remove(0);
            }
        }
        sequences.ends.push((request.volume.0, request.end().0));
        found.is_some()
    }

    /// The figures.
    pub fn figures(&self) -> MixFigures {
        let requests: u64 = self.classes.values().sum();
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let classes = self.classes.iter().filter_map(|((op, length), count)| {
            let op = Op::from_code(*op)?;
            Some(Class { op, length: Bytes(*length), share: share(*count, requests) })
        });
        let sequences = Op::ALL.into_iter().zip(&self.sequences);
        let per_op = sequences.filter(|(_, of_op)| of_op.requests > 0).map(|(op, of_op)| OpMix {
            op,
            requests: of_op.requests,
            sequential_share: share(of_op.follow, of_op.requests),
            sequences: 1.0 + 2.0 * share(of_op.ranks, of_op.follow),
            groups: [0, 1].map(|at| {
                let Group { requests, follow, aligned, aligned_placed } = of_op.groups[at];
                GroupMix {
                    sequential_share: share(follow, requests),
                    // Sequences of whole pages stay as aligned as they began, others do not.
                    aligned_share: match at {
                        0 => share(aligned, requests),
                        _ => share(aligned_placed, requests - follow),
                    },
                }
            }),
        });
        let mut align = 1;
        for (power, count) in self.aligned.iter().enumerate() {
            // A few misaligned requests must not misalign all.
            if share(*count, self.placed) >= 0.999 {
                align = 1 << power;
            }
        }
        let groups = || self.sequences.iter().flat_map(|of_op| &of_op.groups);
        let (aligned, all) =
            groups().fold((0, 0), |sum, group| (sum.0 + group.aligned, sum.1 + group.requests));
        MixFigures {
            classes: classes.collect(),
            per_op: per_op.collect(),
            align: Bytes(align),
            aligned_share: share(aligned, all),
        }
    }
}

/// A share of the requests: an operation of a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Class {
    /// The operation.
    pub op: Op,
    /// The size; zero for a flush.
    pub length: Bytes,
    /// Their share of all requests.
    pub share: f64,
}

/// An operation's part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OpMix {
    /// The operation.
    pub op: Op,
    /// Its requests.
    pub requests: u64,
    /// The share of them that continue one of the last 32.
    pub sequential_share: f64,
    /// How many sequences seem to run at once: were each as likely to go on, that one would
    /// be the (n − 1) / 2-th latest on average.
    pub sequences: f64,
    /// Of sizes that are multiples of 4 KiB, and of others.
    #[serde(skip)]
    pub(super) groups: [GroupMix; 2],
}

/// A group of sizes of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GroupMix {
    /// The share that continues a sequence of the operation.
    pub(super) sequential_share: f64,
    /// The share of places that are multiples of 4 KiB, where a sequence may begin.
    pub(super) aligned_share: f64,
}

/// The mix of operations and sizes, and the sequentiality of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MixFigures {
    /// By operation, then by size.
    pub classes: Vec<Class>,
    /// By operation.
    pub per_op: Vec<OpMix>,
    /// The alignment of nearly all that follows nothing: 1 to 4096 bytes.
    pub align: Bytes,
    /// The share of all requests with a place that begin at a multiple of 4 KiB.
    pub aligned_share: f64,
}

impl MixFigures {
    /// The figures of an operation, if there was a request of it.
    pub fn of(&self, op: Op) -> Option<&OpMix> {
        self.per_op.iter().find(|of_op| of_op.op == op)
    }

    /// The share of an operation in all requests.
    pub fn share_of(&self, op: Op) -> f64 {
        self.classes.iter().filter(|class| class.op == op).map(|class| class.share).sum()
    }
}
