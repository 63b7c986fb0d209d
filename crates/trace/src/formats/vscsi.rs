//! Recordings of `vscsiStats` of `VMware`'s hypervisor, as `CloudPhysics` published them.
//!
//! The records are SCSI commands of one virtual disk, not requests: [`super::scsi`] says what they
//! ask for. There is no header; the version stands in every record, at another place in either.
//!
//! Format: little-endian, packed. Version 1, 32 bytes: `u32` serial number, `u32` bytes, `u32`
//! scatter-gather elements, `u16` operation code, `u16` version, `u64` block, `u64` microseconds of
//! the host's clock. Version 2, 40 bytes: `u16` operation code, `u16` version, `u32` serial number,
//! `u32` bytes, `u32` elements, `u64` block, `u64` microseconds, `u64` response time in
//! microseconds. A block has 512 bytes; the version is the upper byte of its field. Source:
//! libCacheSim, `traceReader/customizedReader/vscsi.h`.

use super::fields::Fields;
use super::import::{Epoch, Facts, Fault, Intake, RecordError, RecordParser, Records, records};
use super::scsi::Command;
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::Request;
use crate::stream::Source;
use crate::units::{Bytes, Nanos, SECTOR};

#[cfg(test)]
mod tests;

/// Recordings of vscsiStats, as they are read.
pub const FORMAT: Format = Format {
    name: "vscsi",
    title: "recordings of VMware's vscsiStats, versions 1 and 2 (CloudPhysics)",
    several: Several::Apart,
    recognise: |first_bytes| Version::of(first_bytes).is_some(),
    open,
};

/// The number of first records that decide.
const LOOK_RECORDS: usize = 1024;

const OTHER_VERSION: &str = "records of another version";
const TOO_LATE: &str = "requests at instants beyond 64 bits";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn bytes(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    /// The operation code, and whether the record is of this version.
    #[inline]
    fn command(self, record: Fields<'_>) -> (u64, bool) {
        match self {
            Self::One => (u64::from(record.u16(12)), record.u16(14) >> 8 == 1),
            Self::Two => (u64::from(record.u16(0)), record.u16(2) >> 8 == 2),
        }
    }

    /// The version of a file that begins with these bytes: the first two records have this version
    /// and known commands, and so do nearly all others.
    fn of(first_bytes: &[u8]) -> Option<Self> {
        [Self::One, Self::Two].into_iter().find(|version| {
            let right = |record: &[u8]| {
                let (code, is_version) = version.command(Fields::little(record));
                is_version && Command::of(code) != Command::Unknown
            };
            let looked: Vec<bool> =
                first_bytes.chunks_exact(version.bytes()).take(LOOK_RECORDS).map(right).collect();
            let rights = looked.iter().filter(|right| **right).count();
            looked.iter().take(2).all(|right| *right) && rights > looked.len() * 3 / 4
        })
    }
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let remedy = "a recording has records of 32 or 40 bytes with the version, 1 or 2, in each";
    let Some(version) = Version::of(opening.stream.first_bytes()) else {
        return Err(TraceError::Unusable {
            path: opening.path.to_owned(),
            reason: "its first records are of no known version of vscsiStats".to_owned(),
            remedy: remedy.into(),
        });
    };
    let latency = version == Version::Two;
    let facts = Facts {
        format: if latency { "vscsi version 2" } else { "vscsi version 1" },
        columns: Columns { latency, ..Columns::default() },
        epoch: Epoch::Unknown,
        whole_seconds: false,
    };
    records(opening, Parser { version }, facts, remedy)
}

struct Parser {
    version: Version,
}

impl RecordParser for Parser {
    #[inline]
    fn record(&mut self, records: &mut Records, intake: &mut Intake) -> Result<bool, RecordError> {
        let version = self.version;
        let Some(bytes) = records.take(version.bytes())? else { return Ok(false) };
        let record = Fields::little(bytes);
        let (code, is_version) = version.command(record);
        if !is_version {
            return Err(fault(OTHER_VERSION, "the record is of another version"));
        }
        let (length_at, response) = match version {
            Version::One => (4, None),
            Version::Two => (8, Some(record.u64(32))),
        };
        let length = u64::from(record.u32(length_at));
        let op = Command::of(code).op(length, &mut intake.header.guesses)?;
        let latency = response.map(nanos).transpose()?;
        let Some(offset) = record.u64(16).checked_mul(SECTOR) else {
            return Err(too_far());
        };
        let issue = nanos(record.u64(24))?;
        let request = Request { latency, ..Request::new(issue, op, Bytes(offset), Bytes(length)) };
        intake.push(&request)?;
        Ok(true)
    }
}

/// Microseconds as nanoseconds.
#[inline]
fn nanos(micros: u64) -> Result<Nanos, RecordError> {
    let nanos = micros.checked_mul(1000).and_then(|nanos| i64::try_from(nanos).ok());
    nanos.map(Nanos).ok_or_else(|| fault(TOO_LATE, "the time does not fit 64 bits"))
}

#[cold]
fn too_far() -> RecordError {
    let loss = "requests that reach beyond 64-bit addresses";
    fault(loss, "the block lies beyond 64 bits")
}

#[cold]
fn fault(loss: &'static str, reason: &'static str) -> RecordError {
    Fault::lost(1, loss, reason).into()
}
