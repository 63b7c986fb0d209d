//! What goes wrong on a simulated device and is *not* told.
//!
//! Whether verification finds a lost write can be shown only by losing one and knowing it. A device
//! that misbehaves writes down what it did: the ground truth that a test holds the findings
//! against.

use std::ops::Range;

/// A way to betray the user's data while reporting success.
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
    /// A read brings what was there before the last write.
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
    /// The share of reads and writes that succeed and are betrayed.
    pub share: f64,
    /// In which ways; each as often as the others, as far as it can be done to a request.
    pub kinds: Vec<MischiefKind>,
}

/// One betrayal: what a verifier should find, as long as nothing overwrites it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misdeed {
    /// What was done.
    pub kind: MischiefKind,
    /// The request that it was done to ([`crate::Io::request`]).
    pub request: u64,
    /// The sectors that do not hold, or did not bring, what they should.
    pub sectors: Range<u64>,
    /// The first sector of the place where a misdirected write landed.
    pub landed: Option<u64>,
}
