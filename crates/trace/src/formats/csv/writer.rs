//! Writing the table.

use rustc_hash::{FxHashMap, FxHashSet};

use super::columns::{COLUMNS, FLAG_NAMES, NAMES, wanted};
use crate::formats::write::{LineWriter, Lost, decimal, volume_name};
use crate::header::Header;
use crate::request::{Flags, Measured, Request};
use crate::units::{Nanos, VolumeId};

/// The loss of a name that another volume has, or that no line can hold.
pub(super) const RENAMED: &str = "names of volumes, changed";

/// The state while rows are written.
#[derive(Default)]
pub(super) struct Lines {
    wanted: [bool; COLUMNS],
    /// The names of volumes as they stand in a row.
    volumes: FxHashMap<VolumeId, Vec<u8>>,
    /// Names that were given to a volume.
    taken: FxHashSet<String>,
}

impl LineWriter for Lines {
    fn begin(&mut self, header: &Header, lines: &mut Vec<u8>) {
        self.wanted = wanted(header.columns);
        let names = NAMES.iter().zip(self.wanted).filter(|(_, wanted)| *wanted);
        let names: Vec<_> = names.map(|(name, _)| *name).collect();
        lines.extend_from_slice(names.join(",").as_bytes());
        lines.push(b'\n');
    }

    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        signed(lines, request.issue.0);
        lines.push(b',');
        lines.extend_from_slice(request.op.name().as_bytes());
        lines.push(b',');
        flags(lines, request.flags);
        lines.push(b',');
        decimal(lines, request.offset.0, 1, b'0');
        lines.push(b',');
        decimal(lines, request.length.0, 1, b'0');
        lines.push(b',');
        lines.extend_from_slice(self.volume(header, request.volume, lost));
        if self.wanted[super::columns::LATENCY] {
            lines.push(b',');
            instant(lines, request.latency);
        }
        if self.wanted[super::columns::PID] {
            let origin = request.origin.unwrap_or_default();
            for number in [origin.pid, origin.cpu] {
                lines.push(b',');
                decimal(lines, u64::from(number), 1, b'0');
            }
        }
        if self.wanted[super::columns::SCHEDULED] {
            match &request.measured {
                Some(measured) => push_measured(lines, measured),
                None => lines.extend_from_slice(&[b','; COLUMNS - super::columns::SCHEDULED]),
            }
        }
        lines.push(b'\n');
        true
    }
}

impl Lines {
    /// The name of a volume, between quotes where it must be.
    fn volume(&mut self, header: &Header, id: VolumeId, lost: &mut Lost) -> &[u8] {
        self.volumes.entry(id).or_insert_with(|| {
            let said = volume_name(header, id);
            // No reader of lines accepts the end of a line within a field.
            let mut name = said.replace(['\n', '\r'], " ");
            // Two volumes with one name would be one volume to a reader.
            while !self.taken.insert(name.clone()) {
                name = format!("{name} ({})", id.0);
            }
            if name != said {
                lost.detail(RENAMED);
            }
            cell(&name)
        })
    }
}

/// A text without ends of lines as a field of a row (RFC 4180).
fn cell(text: &str) -> Vec<u8> {
    let is_plain = !text.contains([',', '"']) && text.trim() == text;
    if is_plain {
        text.as_bytes().to_vec()
    } else {
        format!("\"{}\"", text.replace('"', "\"\"")).into_bytes()
    }
}

fn flags(line: &mut Vec<u8>, flags: Flags) {
    if flags.is_empty() {
        return;
    }
    let mut is_first = true;
    for (name, flag) in FLAG_NAMES {
        if flags.contains(flag) {
            if !is_first {
                line.push(b'|');
            }
            line.extend_from_slice(name.as_bytes());
            is_first = false;
        }
    }
}

fn push_measured(line: &mut Vec<u8>, measured: &Measured) {
    line.push(b',');
    signed(line, measured.scheduled.0);
    line.push(b',');
    instant(line, measured.submitted);
    line.push(b',');
    instant(line, measured.completed);
    line.push(b',');
    if let Some(offset) = measured.target_offset {
        decimal(line, offset.0, 1, b'0');
    }
    line.push(b',');
    decimal(line, u64::from(measured.in_flight), 1, b'0');
    line.push(b',');
    signed(line, i64::from(measured.outcome.code()));
    line.extend_from_slice(if measured.pushed_back { b",true," } else { b",false," });
    decimal(line, u64::from(measured.late_cause as u8), 1, b'0');
    line.push(b',');
    decimal(line, u64::from(measured.target), 1, b'0');
    line.push(b',');
    decimal(line, u64::from(measured.integrity as u8), 1, b'0');
}

fn instant(line: &mut Vec<u8>, instant: Option<Nanos>) {
    if let Some(instant) = instant {
        signed(line, instant.0);
    }
}

fn signed(line: &mut Vec<u8>, value: i64) {
    if value < 0 {
        line.push(b'-');
    }
    decimal(line, value.unsigned_abs(), 1, b'0');
}
