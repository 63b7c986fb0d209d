//! The columns by their names, which are those of the native file.

use crate::batch::Columns;
use crate::formats::described::delimited::{Cutter, Separator, fields};
use crate::request::Flags;

/// The names of the columns in the order in which they are written.
pub(super) const NAMES: [&str; COLUMNS] = [
    "issue_ns",
    "op",
    "flags",
    "offset_bytes",
    "length_bytes",
    "volume",
    "latency_ns",
    "pid",
    "cpu",
    "scheduled_ns",
    "submitted_ns",
    "completed_ns",
    "target_offset_bytes",
    "in_flight",
    "outcome",
    "pushed_back",
    "late_cause",
    "target",
    "integrity",
];

pub(super) const COLUMNS: usize = 19;

// The places of the columns in `NAMES` and in a row.
pub(super) const ISSUE: usize = 0;
pub(super) const OP: usize = 1;
pub(super) const FLAGS: usize = 2;
pub(super) const OFFSET: usize = 3;
pub(super) const LENGTH: usize = 4;
pub(super) const VOLUME: usize = 5;
pub(super) const LATENCY: usize = 6;
pub(super) const PID: usize = 7;
pub(super) const CPU: usize = 8;
pub(super) const SCHEDULED: usize = 9;
pub(super) const SUBMITTED: usize = 10;
pub(super) const COMPLETED: usize = 11;
pub(super) const TARGET_OFFSET: usize = 12;
pub(super) const IN_FLIGHT: usize = 13;
pub(super) const OUTCOME: usize = 14;
pub(super) const PUSHED_BACK: usize = 15;
pub(super) const LATE_CAUSE: usize = 16;
pub(super) const TARGET: usize = 17;
pub(super) const INTEGRITY: usize = 18;

/// The flags by their names, which are joined by `|`.
pub(super) const FLAG_NAMES: [(&str, Flags); 5] = [
    ("sync", Flags::SYNC),
    ("fua", Flags::FUA),
    ("preflush", Flags::PREFLUSH),
    ("meta", Flags::META),
    ("readahead", Flags::READAHEAD),
];

/// For each column, whether a trace with these optional columns has it.
pub(super) fn wanted(columns: Columns) -> [bool; COLUMNS] {
    let mut wanted = [false; COLUMNS];
    wanted[..LATENCY].fill(true);
    wanted[LATENCY] = columns.latency;
    wanted[PID..SCHEDULED].fill(columns.origin);
    wanted[SCHEDULED..].fill(columns.measured);
    wanted
}

/// The places of the columns.
pub(super) struct Layout {
    cutter: Cutter,
    has: [bool; COLUMNS],
}

impl Layout {
    /// The layout that a header line declares, if it has the columns that every request needs.
    pub(super) fn of_header(line: &[u8]) -> Option<Self> {
        let mut has = [false; COLUMNS];
        let slots: Vec<_> = fields(line, Separator::Byte(b','))
            .into_iter()
            .map(|name| {
                let at = NAMES.iter().position(|known| known.as_bytes() == name)?;
                has[at] = true;
                Some(at as u8)
            })
            .collect();
        let is_ours = [ISSUE, OP, OFFSET, LENGTH].into_iter().all(|column| has[column]);
        is_ours.then(|| Self { cutter: Cutter::new(Separator::Byte(b','), slots), has })
    }

    /// The layout that the first line which is not blank declares.
    pub(super) fn of_first_bytes(first_bytes: &[u8]) -> Option<Self> {
        let mut lines = first_bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        Self::of_header(lines.find(|line| !line.is_empty())?)
    }

    /// The optional columns of a trace with these columns.
    pub(super) fn columns(&self) -> Columns {
        Columns {
            latency: self.has[LATENCY],
            origin: self.has[PID] || self.has[CPU],
            measured: self.has[SCHEDULED],
            dependencies: false,
        }
    }

    /// The fields of `line`, if it has as many as the header promises.
    #[inline]
    pub(super) fn row<'a>(&self, line: &'a [u8]) -> Option<[&'a [u8]; COLUMNS]> {
        let mut row = [&b""[..]; COLUMNS];
        self.cutter.cut(line, &mut row).then_some(row)
    }
}
