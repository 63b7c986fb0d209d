//! Whether bytes without a magic number are records of a layout.
//!
//! These files have no magic number, and any bytes can be cut into records. But seconds rise
//! slowly, sizes are small, and the index of the next request for an object is greater than that of
//! this one. If all of this holds over many records, the bytes are taken for this format.

use super::layout::Layout;
use crate::formats::fields::Fields;

/// The largest number of records that are looked at.
const RECORDS_MAX: usize = 2048;

/// The least number of records that decide: with an index, which is a strong sign, and without.
const RECORDS_MIN: usize = 4;
const RECORDS_MIN_PLAIN: usize = 64;

/// The longest time between two requests, in seconds: traces have nights and week-ends.
const STEP_MAX: u32 = 7 * 24 * 3600;

/// The largest object in bytes, and, without an index, the largest number of an object.
const LENGTH_MAX: u64 = (1 << 32) - 1;
const LENGTH_MAX_PLAIN: u64 = 1 << 28;
const OBJECT_MAX_PLAIN: u64 = 1 << 56;

/// The largest index that is believed: no trace has as many requests.
const NEXT_MAX: i64 = 1 << 44;

/// The largest operation of libCacheSim but for the one that is invalid.
const OP_MAX: u8 = 14;

/// Whether a file that begins with these bytes holds records of `layout`.
pub(super) fn fits(first_bytes: &[u8], layout: &Layout) -> bool {
    let records = first_bytes.chunks_exact(layout.bytes).take(RECORDS_MAX);
    let count = records.len();
    if count < if layout.next.is_some() { RECORDS_MIN } else { RECORDS_MIN_PLAIN } {
        return false;
    }
    let mut before = None;
    let (mut lengths, mut objects) = (0, 0);
    for (index, bytes) in records.enumerate() {
        let record = layout.record(bytes);
        let step = record.time.checked_sub(before.unwrap_or(record.time));
        if step.is_none_or(|step| step > STEP_MAX) {
            return false;
        }
        before = Some(record.time);
        let Some(length) = record.length.filter(|length| *length < LENGTH_MAX) else {
            return false;
        };
        if record.op.is_some_and(|op| op > OP_MAX && op != u8::MAX) {
            return false;
        }
        if let Some(at) = layout.next {
            let next = Fields::little(bytes).u64(at) as i64;
            let behind = next > index as i64 && next < NEXT_MAX;
            if !(behind || next == -1 || next == i64::MAX) {
                return false;
            }
        } else {
            let length = 0 < length && length < LENGTH_MAX_PLAIN;
            if !length || record.object >= OBJECT_MAX_PLAIN || record.op == Some(0) {
                return false;
            }
        }
        lengths += u64::from(length > 0);
        objects |= record.object;
    }
    lengths > 0 && objects > 0
}
