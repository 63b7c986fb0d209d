//! Silent faults of a simulated device, reported as success.
//!
//! Whether verification finds a lost write can be shown only by losing one and knowing it. A
//! misbehaving device notes what it did: the ground truth with which a test compares the findings.

use std::ops::Range;

/// A way to falsify the user's data while reporting success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MischiefKind {
    /// A write is acknowledged and never done: the old data stay.
    LostWrite,
    /// Only some sectors of a write of several arrive.
    TornWrite,
    /// A write lands on another place; the old data stay where it should have gone.
    MisdirectedWrite,
    /// One bit of a write changes on its way.
    FlippedBit,
    /// One sector of a write arrives as zeroes.
    ZeroedSector,
    /// A read returns the content before the last write.
    StaleRead,
}

impl MischiefKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::LostWrite,
        Self::TornWrite,
        Self::MisdirectedWrite,
        Self::FlippedBit,
        Self::ZeroedSector,
        Self::StaleRead,
    ];

    /// Whether it is done to reads; all others are done to writes.
    pub(super) const fn is_of_reads(self) -> bool {
        matches!(self, Self::StaleRead)
    }
}

/// How a device misbehaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mischief {
    /// The share of reads and writes that are reported as successes but falsified.
    pub share: f64,
    /// In which ways; each as often as the others, as far as it can be done to a request.
    pub kinds: Vec<MischiefKind>,
}

/// One falsified request, which a verifier should find unless it is overwritten first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misdeed {
    /// What was done.
    pub kind: MischiefKind,
    /// The request that it was done to ([`crate::Io::request`]).
    pub request: u64,
    /// The sectors with wrong content, on the device or in the result of the read.
    pub sectors: Range<u64>,
    /// The first sector of the place where a misdirected write landed.
    pub landed: Option<u64>,
}
