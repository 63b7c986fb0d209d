//! Recordings made up for tests.

use std::path::Path;

use super::open;
use super::record::{EAGAIN, category, kind};
use crate::batch::Batch;
use crate::formats::{IssueEvent, ReadOptions};
use crate::header::Header;
use crate::request::Request;
use crate::stream::Source;

/// Device 8:0 as the kernel numbers it.
pub(in crate::formats) const SDA: u32 = 8 << 20;

/// The form in which records are written.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::formats) struct Style {
    pub(in crate::formats) big_endian: bool,
    pub(in crate::formats) second: bool,
    /// Every payload begins with a cgroup's number.
    pub(in crate::formats) cgroup: bool,
}

/// A file in the making. Sequence numbers count up by themselves.
#[derive(Clone, Debug, Default)]
pub(in crate::formats) struct Tape {
    pub(in crate::formats) style: Style,
    pub(in crate::formats) bytes: Vec<u8>,
    pub(in crate::formats) sequence: u32,
    pub(in crate::formats) cpu: u32,
    pub(in crate::formats) device: u32,
    pub(in crate::formats) pid: u32,
}

impl Tape {
    pub(in crate::formats) fn new(cpu: u32) -> Self {
        Self { cpu, device: SDA, pid: 42, ..Self::default() }
    }

    pub(in crate::formats) fn styled(style: Style) -> Self {
        Self { style, ..Self::new(0) }
    }

    /// Adds an event: kind, categories, sector and bytes, at an instant.
    pub(in crate::formats) fn event(
        &mut self,
        time: u64,
        kind: u8,
        categories: u32,
        sector: u64,
        bytes: u32,
    ) -> &mut Self {
        self.sequence += 1;
        self.record(time, u16::from(kind), categories, sector, bytes, &[])
    }

    pub(in crate::formats) fn notice(&mut self, time: u64, low: u16, payload: &[u8]) -> &mut Self {
        self.record(time, low, category::NOTIFY, 0, 0, payload)
    }

    pub(in crate::formats) fn record(
        &mut self,
        time: u64,
        low: u16,
        categories: u32,
        sector: u64,
        bytes: u32,
        payload: &[u8],
    ) -> &mut Self {
        let style = self.style;
        let cgroup: &[u8] = if style.cgroup { &[7; 8] } else { &[] };
        let low = if style.cgroup { low | 0x100 } else { low };
        let action = u64::from(categories) << 16 | u64::from(low);
        let mut out = Vec::new();
        let mut put = |value: u64, size: usize| {
            if style.big_endian {
                out.extend_from_slice(&value.to_be_bytes()[8 - size..]);
            } else {
                out.extend_from_slice(&value.to_le_bytes()[..size]);
            }
        };
        put(0x6561_7407 + u64::from(style.second), 4);
        put(u64::from(self.sequence), 4);
        put(time, 8);
        put(sector, 8);
        put(u64::from(bytes), 4);
        let pid = u64::from(self.pid);
        if style.second {
            put(pid, 4);
            put(action, 8);
        } else {
            put(action & 0xffff_ffff, 4);
            put(pid, 4);
        }
        put(u64::from(self.device), 4);
        put(u64::from(self.cpu), 4);
        put(0, 2);
        put((cgroup.len() + payload.len()) as u64, 2);
        if style.second {
            out.extend_from_slice(&[0; 12]);
        }
        self.bytes.extend_from_slice(&out);
        self.bytes.extend_from_slice(cgroup);
        self.bytes.extend_from_slice(payload);
        self
    }

    /// Queued, of `sectors`.
    pub(in crate::formats) fn q(
        &mut self,
        time: u64,
        bits: u32,
        sector: u64,
        sectors: u32,
    ) -> &mut Self {
        self.event(time, kind::QUEUE, bits, sector, sectors * 512)
    }

    /// Issued to the driver.
    pub(in crate::formats) fn d(
        &mut self,
        time: u64,
        bits: u32,
        sector: u64,
        sectors: u32,
    ) -> &mut Self {
        self.event(time, kind::ISSUE, bits, sector, sectors * 512)
    }

    /// Completed.
    pub(in crate::formats) fn c(
        &mut self,
        time: u64,
        bits: u32,
        sector: u64,
        sectors: u32,
    ) -> &mut Self {
        self.event(time, kind::COMPLETE, bits, sector, sectors * 512)
    }

    /// Completed with `EAGAIN`.
    pub(in crate::formats) fn refused(
        &mut self,
        time: u64,
        bits: u32,
        sector: u64,
        sectors: u32,
    ) -> &mut Self {
        let begin = self.bytes.len();
        self.c(time, bits, sector, sectors);
        let at = begin + if self.style.second { 48 } else { 44 };
        let error = (-EAGAIN as u16).to_le_bytes();
        self.bytes[at..at + 2].copy_from_slice(&error);
        self
    }

    /// Reads what is on the tape as one file.
    pub(in crate::formats) fn read(&self) -> (Vec<Request>, Header) {
        read_with(&[("merged.bin", &self.bytes)], "merged.bin", IssueEvent::Auto)
    }

    /// As [`Tape::read`], with a chosen event of issue.
    pub(in crate::formats) fn read_event(&self, event: IssueEvent) -> (Vec<Request>, Header) {
        read_with(&[("merged.bin", &self.bytes)], "merged.bin", event)
    }
}

/// Writes files into a directory of their own and reads `name` there.
pub(in crate::formats) fn read_with(
    files: &[(&str, &[u8])],
    name: &str,
    event: IssueEvent,
) -> (Vec<Request>, Header) {
    let directory = directory(files);
    let options = ReadOptions { strict: false, event, ..ReadOptions::default() };
    let mut source = open(&directory.path().join(name), &options).unwrap();
    let requests = drain(&mut *source);
    (requests, source.header().clone())
}

pub(in crate::formats) fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(Path::join(directory.path(), name), bytes).unwrap();
    }
    directory
}

pub(in crate::formats) fn drain(source: &mut dyn Source) -> Vec<Request> {
    let mut batch = Batch::new(source.header().columns);
    let mut requests = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        assert!(batch.is_ordered());
        requests.extend(batch.iter());
    }
    requests
}
