//! The header of an LCS file.
//!
//! The header grew from 1024 to 8192 bytes when the third version of the record came. It no longer
//! has the unit of time and the size of a block. Its counts are ignored: reading does not need
//! them.
//!
//! Source: libCacheSim, `traceReader/customizedReader/lcs.h` before and after that change.

use super::super::Opening;
use super::super::fields::Fields;
use super::{AS_SECONDS, Head, layout, open_behind};
use crate::error::TraceError;
use crate::stream::Source;
use crate::text;
use crate::wording::Wording;

/// The first and the last word of a header.
pub(super) const MAGIC: u64 = 0x1234_5678_9abc_def0;

/// The length of the header in bytes, and its length before version 3.
pub(super) const HEADER_BYTES: usize = 8192;
pub(super) const EARLY_BYTES: usize = 1024;

/// The places of the size of a block and of the unit of time in the early header.
pub(super) const BLOCK_AT: usize = 100;
pub(super) const UNIT_AT: usize = 124;

/// The places of the first second and the last in the later header (`lcs_trace_stat`).
pub(super) const START_AT: usize = 56;

/// The largest number that is accepted as a version.
const VERSIONS_MAX: u64 = 1000;

const CONVERT: &str = "convert it to oracleGeneral with libCacheSim's traceConv";

pub(super) fn recognise(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(&MAGIC.to_le_bytes())
}

pub(super) fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let is_unit_given = opening.options.time_unit_ns.is_some();
    match head(opening.stream.first_bytes(), is_unit_given) {
        Ok(head) => open_behind(opening, "LCS", &head),
        Err((reason, remedy)) => {
            Err(TraceError::Unusable { path: opening.path.to_owned(), reason, remedy })
        }
    }
}

/// The facts in the header, or the reason why the bytes are no header and the remedy.
fn head(first_bytes: &[u8], is_unit_given: bool) -> Result<Head, (String, Wording)> {
    let header = Fields::little(first_bytes);
    let ends = |bytes: usize| header.u64(bytes - 8) == MAGIC;
    let Some(bytes) = [HEADER_BYTES, EARLY_BYTES].into_iter().find(|bytes| ends(*bytes)) else {
        let reason = if first_bytes.len() < HEADER_BYTES {
            "the file ends within its header of 1024 or 8192 bytes"
        } else {
            "its header does not end as one of LCS does, behind 1024 or 8192 bytes"
        };
        return Err((reason.to_owned(), CONVERT.into()));
    };
    let head = Head { bytes, ..Head::default() };
    // The first headers describe the fields in the words of Python's struct module, and nothing
    // but these was ever written.
    if matches!(first_bytes.get(8..14), Some(b"<IQIQ\0" | b"<IQIq\0")) {
        return Ok(head);
    }
    let version = header.u64(8);
    let Some(layout) = layout::lcs(version) else {
        return Err((unknown(version, &first_bytes[8..EARLY_BYTES]), CONVERT.into()));
    };
    let head = Head { layout, ..head };
    if bytes == HEADER_BYTES {
        let (start, end) = (header.u64(START_AT) as i64, header.u64(START_AT + 8) as i64);
        let seconds = end.checked_sub(start).and_then(|span| u64::try_from(span).ok());
        return Ok(Head { seconds: seconds.filter(|span| *span > 0), ..head });
    }
    let unit_ns = match header.u32(UNIT_AT) {
        // Not stated, as usual.
        0 | 1 => head.unit_ns,
        2 => 1_000_000,
        3 => 1_000,
        4 => 1,
        _ if is_unit_given => head.unit_ns,
        unit => {
            let reason = format!("its header says unit of time {unit}; known are 1 to 4");
            let remedy =
                Wording::from("say the unit: `").set("time-unit", "s").text("`, ms, us or ns");
            return Err((reason, remedy));
        }
    };
    // Beyond 31 bits it is negative; a block of a negative size or of zero is ignored.
    let block = header.u32(BLOCK_AT).cast_signed();
    let block = u64::try_from(block).ok().filter(|block| *block > 0);
    let guess = (header.u32(UNIT_AT) <= 1).then_some(AS_SECONDS);
    Ok(Head { unit_ns, block, guess, ..head })
}

/// The reason why a version is refused. The first headers have a text in this place, and damaged
/// ones may have anything; the message does not print those as numbers.
fn unknown(version: u64, place: &[u8]) -> String {
    let text = place.split(|byte| *byte == 0).next().unwrap_or_default();
    if version <= VERSIONS_MAX {
        format!("it is of LCS version {version}; known are 1 to 8")
    } else if text.len() > 1 && text.iter().all(u8::is_ascii_graphic) {
        let text = text::shown(text);
        format!("its header describes records as '{text}'; known are '<IQIQ' and '<IQIq'")
    } else {
        "its header names no version of LCS where versions 1 to 8 are named".to_owned()
    }
}
