//! How large the requests of a load are.

use ioecho_trace::Op;
use serde::Serialize;

use crate::analysis::shape::Bins;

/// Sizes and alignment by operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SizeFigures {
    /// Whether every size was counted apart.
    pub exact: bool,
    /// By how much, as a share of it, a size can be larger than the one it is counted as; 0 where
    /// exact.
    pub relative_error: f64,
    /// Those operations that occur, flushes excepted, in the order of their codes.
    pub operations: Vec<OpSizes>,
}

/// The sizes of one operation's requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpSizes {
    /// The operation.
    pub op: Op,
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The smallest.
    pub min_bytes: u64,
    /// The mean.
    pub mean_bytes: f64,
    /// The largest.
    pub max_bytes: u64,
    /// How many sizes there are.
    pub distinct: u64,
    /// The sizes with the most requests, at most 32, the commonest first.
    pub commonest: Vec<SizeCount>,
    /// All of them in ten bins per decade of 512-byte sectors (blkreplay's g40), in bytes.
    pub bins: Bins,
    /// How they are aligned: to 512 bytes, 4 KiB, 8 KiB and 64 KiB.
    pub alignment: Vec<Alignment>,
}

/// Requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeCount {
    /// The size.
    pub bytes: u64,
    /// How many requests have it.
    pub requests: u64,
}

/// What is a multiple of a block size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alignment {
    /// The block size.
    pub block_bytes: u64,
    /// The share of requests that begin at a multiple of it.
    pub start: f64,
    /// The share of requests that begin and end at one: a device with such blocks can do them.
    pub whole: f64,
}
