//! Writing a file that btreplay replays.
//!
//! btrecord puts requests up to ten milliseconds apart into one bunch and loses their instants.
//! Here only requests of one instant share a bunch, so every instant is kept.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{BUNCH_MAX, HEADER_BYTES, VERSION};
use crate::batch::Batch;
use crate::compression::{Codec, Encoder, PartialFile, STANDARD_OUTPUT};
use crate::error::TraceError;
use crate::formats::write::Lost;
use crate::header::Header;
use crate::request::{Flags, Op, Request};
use crate::stream::{Sink, Written};
use crate::units::{Bytes, Nanos, SECTOR, VolumeId};

/// Begins a file at `path`.
pub(super) fn create(path: &Path, _: &Header) -> Result<Box<dyn Sink>, TraceError> {
    if path == Path::new(STANDARD_OUTPUT) {
        return Err(TraceError::Unusable {
            path: PathBuf::from("the standard output"),
            reason: "a file of btreplay says in front how many requests follow".to_owned(),
            remedy: "write it to a file".into(),
        });
    }
    let begin = || -> io::Result<Encoder> {
        let mut output = Encoder::new(PartialFile::create(path)?, Codec::Plain);
        output.write_all(&[0; HEADER_BYTES])?;
        Ok(output)
    };
    let output = begin().map_err(|error| TraceError::write(path, error))?;
    Ok(Box::new(Writer {
        path: path.to_owned(),
        output,
        bytes: Vec::new(),
        bunch: Vec::new(),
        issue: Nanos::ZERO,
        volume: None,
        bunches: 0,
        requests: 0,
        lost: Lost::default(),
    }))
}

struct Writer {
    path: PathBuf,
    output: Encoder,
    bytes: Vec<u8>,
    /// Sector, bytes and direction of the requests at `issue`.
    bunch: Vec<(u64, u64, u32)>,
    issue: Nanos,
    /// The volume whose requests are written: that of the first request.
    volume: Option<VolumeId>,
    bunches: u64,
    requests: u64,
    lost: Lost,
}

impl Writer {
    fn request(&mut self, request: &Request) {
        let direction = match request.op {
            Op::Read => 1,
            Op::Write => 0,
            other => return self.lost.op(other),
        };
        if *self.volume.get_or_insert(request.volume) != request.volume {
            return self.lost.request("requests to other volumes than the first");
        }
        if request.issue < Nanos::ZERO {
            return self.lost.request("requests before the start of the trace");
        }
        let sector = request.offset.sectors();
        let mut length = request.length;
        if !request.offset.0.is_multiple_of(SECTOR) {
            self.lost.detail("requests widened to the beginning of a sector");
            length = Bytes(request.end().0 - sector * SECTOR);
        }
        if request.flags != Flags::empty() {
            self.lost.detail("flags");
        }
        if request.latency.is_some() {
            self.lost.detail("latencies");
        }
        if request.origin.is_some() || request.measured.is_some() {
            self.lost.detail("processes, processors and measured times");
        }
        if request.issue != self.issue || self.bunch.len() as u64 == BUNCH_MAX {
            self.end_bunch();
            self.issue = request.issue;
        }
        self.bunch.push((sector, length.0, direction));
    }

    fn end_bunch(&mut self) {
        if self.bunch.is_empty() {
            return;
        }
        let count = self.bunch.len() as u64;
        self.bunches += 1;
        self.requests += count;
        self.bytes.extend_from_slice(&count.to_le_bytes());
        self.bytes.extend_from_slice(&self.issue.0.to_le_bytes());
        for (sector, bytes, direction) in self.bunch.drain(..) {
            self.bytes.extend_from_slice(&sector.to_le_bytes());
            self.bytes.extend_from_slice(&bytes.to_le_bytes());
            self.bytes.extend_from_slice(&direction.to_le_bytes());
            self.bytes.extend_from_slice(&[0; 4]);
        }
    }

    fn complete(&mut self) -> io::Result<()> {
        self.end_bunch();
        self.output.write_all(&self.bytes)?;
        // All instants count from the trace's own start.
        let genesis = 0;
        let words = [VERSION, genesis, self.bunches, self.requests];
        let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.output.write_over_start(&header)
    }
}

impl Sink for Writer {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.bytes.clear();
        for request in batch.iter() {
            self.request(&request);
        }
        let written = self.output.write_all(&self.bytes);
        self.bytes.clear();
        written.map_err(|error| TraceError::write(&self.path, error))
    }

    fn finish(mut self: Box<Self>, header: &Header) -> Result<Written, TraceError> {
        self.lost.transforms(header);
        if let Some(volume) = self.volume {
            self.lost.name(volume, header);
        }
        let completed = self.complete();
        let Self { path, output, requests, lost, .. } = *self;
        let finished = completed.and_then(|()| output.finish());
        finished.map_err(|error| TraceError::write(&path, error))?;
        Ok(Written { requests, lost: lost.into_notes() })
    }
}
