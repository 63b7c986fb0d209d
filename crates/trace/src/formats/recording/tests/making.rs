//! Pages made up for tests, of the layout that a real kernel described.

use std::path::{Path, PathBuf};

use super::super::layout::{EventLayout, Length};
use crate::formats::ReadOptions;
use crate::formats::blktrace::testing::drain;
use crate::header::Header;
use crate::recording::{Description, Entry, FrameWriter, LOG_FILE, segment_file};
use crate::request::Request;

/// The path of a real kernel's recording.
pub(super) fn real() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/loop.recording")
}

/// The description of the real recording, without its start, because made-up pages begin at zero.
pub(super) fn description() -> Description {
    let text = std::fs::read(real().join("recording.json")).unwrap();
    Description { started: None, ..serde_json::from_slice(&text).unwrap() }
}

/// The device of the real recording.
pub(super) fn device() -> u32 {
    description().devices[0].number
}

/// An event of a tracepoint.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) name: &'static str,
    pub(super) device: u32,
    pub(super) sector: u64,
    pub(super) sectors: u32,
    pub(super) rwbs: &'static str,
    pub(super) pid: u32,
    pub(super) error: i32,
    pub(super) old_device: u32,
}

/// An event on the device of the real recording.
pub(super) fn made(name: &'static str, rwbs: &'static str, sector: u64, sectors: u32) -> Made {
    Made { name, device: device(), sector, sectors, rwbs, pid: 42, error: 0, old_device: 0 }
}

/// The bytes of an event.
pub(super) fn payload(description: &Description, made: &Made) -> Vec<u8> {
    let events = &description.tracefs.as_ref().unwrap().events;
    let format = events.iter().find(|format| format.name == made.name).unwrap();
    let layout = EventLayout::parse(format, Path::new("x")).unwrap().unwrap();
    let mut bytes = vec![0; 64];
    let mut put = |at: usize, size: usize, value: u64| {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    put(0, 2, u64::from(format.id));
    put(layout.pid.at, 4, u64::from(made.pid));
    put(layout.device.at, layout.device.bytes, u64::from(made.device));
    put(layout.sector.at, layout.sector.bytes, made.sector);
    match layout.length {
        Length::Sectors(field) => put(field.at, field.bytes, u64::from(made.sectors)),
        Length::Until(field) => {
            put(field.at, field.bytes, made.sector.wrapping_add(u64::from(made.sectors)));
        }
    }
    if let Some(field) = layout.error {
        put(field.at, 4, u64::from(made.error as u32));
    }
    if let Some(field) = layout.old_device {
        put(field.at, 4, u64::from(made.old_device));
    }
    let mut text = |at: usize, text: &str| {
        bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    text(layout.rwbs.at, made.rwbs);
    if let Some(field) = layout.name {
        text(field.at, "worker");
    }
    bytes
}

/// A page in the making.
#[derive(Clone, Debug)]
pub(super) struct Page {
    time: u64,
    now: u64,
    body: Vec<u8>,
    bits: u64,
    behind: Vec<u8>,
}

impl Page {
    /// A page whose first event is at `time`.
    pub(super) fn new(time: u64) -> Self {
        Self { time, now: time, body: Vec::new(), bits: 0, behind: Vec::new() }
    }

    pub(super) fn used(&self) -> usize {
        self.body.len()
    }

    pub(super) fn record(&mut self, sort: u32, delta: u32, rest: &[u8]) -> &mut Self {
        self.body.extend((delta << 5 | sort).to_le_bytes());
        self.body.extend(rest);
        self
    }

    /// A time extend of this many nanoseconds.
    pub(super) fn extend(&mut self, nanos: u64) -> &mut Self {
        self.now += nanos;
        let (low, high) = (nanos as u32 & ((1 << 27) - 1), (nanos >> 27) as u32);
        self.record(30, low, &high.to_le_bytes())
    }

    /// An absolute time.
    pub(super) fn stamp(&mut self, time: u64) -> &mut Self {
        self.now = time;
        let (low, high) = (time as u32 & ((1 << 27) - 1), (time >> 27) as u32);
        self.record(31, low, &high.to_le_bytes())
    }

    /// An event at `time`, with a time extend before it where its head cannot hold the time since.
    pub(super) fn event(&mut self, time: u64, payload: &[u8]) -> &mut Self {
        let mut delta = time - self.now;
        if delta >= 1 << 27 {
            self.extend(delta);
            delta = 0;
        }
        self.now = time;
        self.record(payload.len() as u32 / 4, delta as u32, payload)
    }

    /// As `event`, with the length of the event in a word of its own.
    pub(super) fn long_event(&mut self, delta: u32, payload: &[u8]) -> &mut Self {
        self.now += u64::from(delta);
        let length = (payload.len() as u32 + 4).to_le_bytes();
        self.record(0, delta, &[&length, payload].concat())
    }

    /// An event that the kernel discarded.
    pub(super) fn discarded(&mut self, delta: u32, bytes: u32) -> &mut Self {
        self.now += u64::from(delta);
        let mut rest = bytes.to_le_bytes().to_vec();
        rest.resize(bytes as usize, 0xff);
        self.record(29, delta, &rest)
    }

    /// Marks that events were lost before the page.
    pub(super) fn lost(&mut self, events: Option<u64>) -> &mut Self {
        self.bits = 1 << 31 | u64::from(events.is_some()) << 30;
        self.behind = events.map_or(Vec::new(), |events| events.to_le_bytes().to_vec());
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.time.to_le_bytes().to_vec();
        bytes.extend((self.body.len() as u64 | self.bits).to_le_bytes());
        bytes.extend(&self.body);
        bytes.extend(&self.behind);
        bytes
    }
}

/// Writes a recording with the payloads of the frames of each processor.
pub(super) fn written(
    description: &Description,
    cpus: &[Vec<Vec<u8>>],
    log: &[Entry],
) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    description.save(directory.path()).unwrap();
    for (cpu, payloads) in cpus.iter().enumerate() {
        let mut writer = FrameWriter::new(Vec::new(), cpu as u32, 0);
        for payload in payloads {
            writer.append(payload).unwrap();
        }
        let path = directory.path().join(segment_file(0, cpu as u32));
        std::fs::write(path, writer.into_inner()).unwrap();
    }
    let mut lines = Vec::new();
    for entry in log {
        entry.append(&mut lines).unwrap();
    }
    std::fs::write(directory.path().join(LOG_FILE), lines).unwrap();
    directory
}

pub(super) fn read(path: &Path) -> (Vec<Request>, Header) {
    read_with(path, &ReadOptions::default())
}

pub(super) fn read_with(path: &Path, options: &ReadOptions) -> (Vec<Request>, Header) {
    let mut source = crate::formats::open(path, options).unwrap();
    let requests = drain(&mut *source);
    (requests, source.header().clone())
}
