//! The columns of a native file and the keys of its footer.
//!
//! Others read these files without this program, so names, types and codes are fixed here, once,
//! for the writer and the reader.

use parquet::schema::types::ColumnPath;

use crate::batch::Columns;
use crate::request::{Flags, Integrity, LateCause, Op, Outcome};

/// Keys of the footer.
pub(super) const KEY_VERSION: &str = "ioecho.version";
pub(super) const KEY_HEADER: &str = "ioecho.header";
pub(super) const KEY_CODES: &str = "ioecho.codes";
/// Present, with the value `issue_ns`, if the rows are in the order of their issue.
pub(super) const KEY_ORDER: &str = "ioecho.order";
pub(super) const ORDER: &str = "issue_ns";
/// The checksums of the row groups, as a JSON list of ends and CRC-32C.
pub(super) const KEY_CRC_GROUPS: &str = "ioecho.crc32c";
/// The checksum of all bytes behind the row groups, in eight hexadecimal digits.
pub(super) const KEY_CRC_FOOTER: &str = "ioecho.crc32c.footer";

/// The columns, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Issue,
    Op,
    Flags,
    Offset,
    Length,
    Volume,
    Latency,
    Pid,
    Cpu,
    Scheduled,
    Submitted,
    Completed,
    TargetOffset,
    InFlight,
    Outcome,
    PushedBack,
    LateCause,
    Target,
    Integrity,
    Behind,
    Flow,
    Id,
    Think,
    Parents,
}

pub(super) const COLUMNS: usize = 24;

impl Column {
    pub(super) const ALL: [Self; COLUMNS] = [
        Self::Issue,
        Self::Op,
        Self::Flags,
        Self::Offset,
        Self::Length,
        Self::Volume,
        Self::Latency,
        Self::Pid,
        Self::Cpu,
        Self::Scheduled,
        Self::Submitted,
        Self::Completed,
        Self::TargetOffset,
        Self::InFlight,
        Self::Outcome,
        Self::PushedBack,
        Self::LateCause,
        Self::Target,
        Self::Integrity,
        Self::Behind,
        Self::Flow,
        Self::Id,
        Self::Think,
        Self::Parents,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Issue => "issue_ns",
            Self::Op => "op",
            Self::Flags => "flags",
            Self::Offset => "offset_bytes",
            Self::Length => "length_bytes",
            Self::Volume => "volume",
            Self::Latency => "latency_ns",
            Self::Pid => "pid",
            Self::Cpu => "cpu",
            Self::Scheduled => "scheduled_ns",
            Self::Submitted => "submitted_ns",
            Self::Completed => "completed_ns",
            Self::TargetOffset => "target_offset_bytes",
            Self::InFlight => "in_flight",
            Self::Outcome => "outcome",
            Self::PushedBack => "pushed_back",
            Self::LateCause => "late_cause",
            Self::Target => "target",
            Self::Integrity => "integrity",
            Self::Behind => "behind_rows",
            Self::Flow => "flow",
            Self::Id => "request_id",
            Self::Think => "think_ns",
            Self::Parents => "parents.list.element",
        }
    }

    /// The column in Parquet's own notation of a schema.
    pub(super) const fn declaration(self) -> &'static str {
        match self {
            Self::Issue => "required int64 issue_ns (INTEGER(64,true));",
            Self::Op => "required binary op (STRING);",
            Self::Flags => "required int32 flags (INTEGER(16,false));",
            Self::Offset => "required int64 offset_bytes (INTEGER(64,true));",
            Self::Length => "required int64 length_bytes (INTEGER(64,true));",
            Self::Volume => "required int32 volume (INTEGER(32,false));",
            Self::Latency => "optional int64 latency_ns (INTEGER(64,true));",
            Self::Pid => "required int32 pid (INTEGER(32,false));",
            Self::Cpu => "required int32 cpu (INTEGER(32,false));",
            Self::Scheduled => "optional int64 scheduled_ns (INTEGER(64,true));",
            Self::Submitted => "optional int64 submitted_ns (INTEGER(64,true));",
            Self::Completed => "optional int64 completed_ns (INTEGER(64,true));",
            Self::TargetOffset => "optional int64 target_offset_bytes (INTEGER(64,true));",
            Self::InFlight => "optional int32 in_flight (INTEGER(32,true));",
            Self::Outcome => "optional binary outcome (STRING);",
            Self::PushedBack => "optional boolean pushed_back;",
            Self::LateCause => "optional binary late_cause (STRING);",
            Self::Target => "optional int32 target (INTEGER(16,false));",
            Self::Integrity => "optional binary integrity (STRING);",
            Self::Behind => "optional int32 behind_rows (INTEGER(32,true));",
            Self::Flow => "optional int32 flow (INTEGER(16,false));",
            Self::Id => "required int64 request_id (INTEGER(64,true));",
            Self::Think => "optional int64 think_ns (INTEGER(64,true));",
            Self::Parents => {
                "required group parents (LIST) { repeated group list { \
                 required int64 element (INTEGER(64,true)); } }"
            }
        }
    }

    pub(super) const fn physical_type(self) -> parquet::basic::Type {
        match self {
            Self::Issue
            | Self::Offset
            | Self::Length
            | Self::Latency
            | Self::Scheduled
            | Self::Submitted
            | Self::Completed
            | Self::TargetOffset
            | Self::Id
            | Self::Think
            | Self::Parents => parquet::basic::Type::INT64,
            Self::PushedBack => parquet::basic::Type::BOOLEAN,
            _ if self.is_named() => parquet::basic::Type::BYTE_ARRAY,
            _ => parquet::basic::Type::INT32,
        }
    }

    /// Whether the file holds names where a batch holds codes. Version 1 held the codes.
    pub(super) const fn is_named(self) -> bool {
        matches!(self, Self::Op | Self::Outcome | Self::LateCause | Self::Integrity)
    }

    /// The name of a code of this column; `None` where the code means nothing.
    pub(super) fn name_of(self, code: i32) -> Option<String> {
        let small = u8::try_from(code).ok();
        match self {
            Self::Op => small.and_then(Op::from_code).map(|op| op.name().to_owned()),
            Self::Outcome => Outcome::from_code(code).map(Outcome::name),
            Self::LateCause => {
                small.and_then(LateCause::from_code).map(|cause| cause.name().to_owned())
            }
            Self::Integrity => {
                small.and_then(Integrity::from_code).map(|found| found.name().to_owned())
            }
            _ => None,
        }
    }

    /// The code of a name of this column; `None` where the name means nothing.
    pub(super) fn code_of(self, name: &str) -> Option<i32> {
        let small = |codes: usize| {
            (0..codes as i32).find(|code| self.name_of(*code).as_deref() == Some(name))
        };
        match self {
            Self::Op => small(Op::ALL.len()),
            Self::Outcome => Outcome::from_name(name).map(Outcome::code),
            Self::LateCause => small(LateCause::ALL.len()),
            Self::Integrity => small(Integrity::ALL.len()),
            _ => None,
        }
    }

    /// Whether a negative value has no meaning.
    pub(super) const fn is_size(self) -> bool {
        matches!(self, Self::Offset | Self::Length | Self::TargetOffset)
    }

    /// Whether a trace with these optional columns has this one.
    pub(super) const fn is_in(self, columns: Columns) -> bool {
        match self {
            Self::Issue | Self::Op | Self::Flags | Self::Offset | Self::Length | Self::Volume => {
                true
            }
            Self::Latency => columns.latency,
            Self::Pid | Self::Cpu => columns.origin,
            Self::Id | Self::Think | Self::Parents => columns.dependencies,
            _ => columns.measured,
        }
    }

    /// Whether older files lack the column although they have the others of its group.
    pub(super) const fn is_young(self) -> bool {
        matches!(self, Self::Target | Self::Integrity | Self::Behind | Self::Flow)
    }

    /// The column's place in the schema.
    pub(super) fn path(self) -> ColumnPath {
        ColumnPath::new(self.name().split('.').map(str::to_owned).collect())
    }

    /// Whether the values grow with time, so that their differences are encoded.
    pub(super) const fn is_instant(self) -> bool {
        matches!(
            self,
            Self::Issue
                | Self::Latency
                | Self::Scheduled
                | Self::Submitted
                | Self::Completed
                | Self::Id
                | Self::Think
                | Self::Parents
        )
    }
}

/// The names in the columns of names, and the meaning of the bits of `flags`, for readers without
/// this program.
pub(super) fn codes() -> String {
    let flags: serde_json::Map<_, _> = Flags::all()
        .iter_names()
        .map(|(name, flag)| (flag.bits().to_string(), name.to_ascii_lowercase().into()))
        .collect();
    let names = |column: Column, codes: std::ops::Range<i32>| -> Vec<String> {
        codes.filter_map(|code| column.name_of(code)).collect()
    };
    let mut outcomes = names(Column::Outcome, Outcome::LEAST_CODE..1);
    outcomes.push("errno N: the kernel's error number N".to_owned());
    serde_json::json!({
        "op": names(Column::Op, 0..Op::ALL.len() as i32),
        "flags (a sum of)": flags,
        "outcome": outcomes,
        "late_cause": names(Column::LateCause, 0..LateCause::ALL.len() as i32),
        "integrity": names(Column::Integrity, 0..Integrity::ALL.len() as i32),
    })
    .to_string()
}
