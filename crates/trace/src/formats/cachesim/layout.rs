//! The places of a record's fields.

use crate::formats::fields::Fields;

/// A layout of records. Every one begins with `u32` time, `u64` object and the size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The length of a record in bytes.
    pub(super) bytes: usize,
    /// Whether the size has 64 bits, rather than 32.
    wide: bool,
    /// The place of operation and name space, and their form.
    op: OpAt,
    /// The place of the index of the next request for the same object; `None` without an index.
    pub(super) next: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum OpAt {
    Nowhere,
    /// `u8` operation, `u16` name space.
    Packed(usize),
    /// `u32` of 8 bits operation and 24 bits tenant.
    Word(usize),
}

pub(super) const ORACLE_GENERAL: Layout =
    Layout { bytes: 24, wide: false, op: OpAt::Nowhere, next: Some(16) };
pub(super) const ORACLE_GENERAL_OPNS: Layout =
    Layout { bytes: 27, wide: false, op: OpAt::Packed(16), next: Some(19) };
pub(super) const IQI: Layout = Layout { bytes: 16, wide: false, op: OpAt::Nowhere, next: None };
pub(super) const IQIBH: Layout =
    Layout { bytes: 19, wide: false, op: OpAt::Packed(16), next: None };

/// The layout of a version of LCS. From the fourth on there are features behind the fields of the
/// third; they are no part of the request.
pub(super) const fn lcs(version: u64) -> Option<Layout> {
    let third = Layout { bytes: 36, wide: true, op: OpAt::Word(20), next: Some(28) };
    match version {
        1 => Some(ORACLE_GENERAL),
        2 => Some(Layout { bytes: 28, wide: false, op: OpAt::Word(16), next: Some(20) }),
        3 => Some(third),
        4..=8 => Some(Layout { bytes: 36 + (4 << (version - 4)), ..third }),
        _ => None,
    }
}

/// The values of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) time: u32,
    pub(super) object: u64,
    /// The length in bytes; `None` if it is negative.
    pub(super) length: Option<u64>,
    pub(super) op: Option<u8>,
    /// The name space or tenant.
    pub(super) space: Option<u32>,
}

impl Layout {
    /// Reads a record of [`Layout::bytes`].
    #[inline]
    pub(super) fn record(&self, bytes: &[u8]) -> Record {
        let fields = Fields::little(bytes);
        let length = if self.wide {
            u64::try_from(fields.u64(12) as i64).ok()
        } else {
            Some(u64::from(fields.u32(12)))
        };
        let (op, space) = match self.op {
            OpAt::Nowhere => (None, None),
            OpAt::Packed(at) => (Some(fields.u8(at)), Some(u32::from(fields.u16(at + 1)))),
            OpAt::Word(at) => (Some(fields.u8(at)), Some(fields.u32(at) >> 8)),
        };
        Record { time: fields.u32(0), object: fields.u64(4), length, op, space }
    }
}
