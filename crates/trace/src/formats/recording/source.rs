//! A raw recording as a source of requests.

use std::collections::BTreeMap;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::calls;
use super::devices::Devices;
use super::lane::Processor;
use super::log::{Log, expect_file};
use super::pages::Layouts;
use crate::batch::Batch;
use crate::calendar;
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::formats::blktrace::reading::Reading;
use crate::formats::blktrace::volumes::device_name;
use crate::header::{DamageKind, Header, NoteKind};
use crate::recording::{
    DESCRIPTION_FILE, DESCRIPTION_VERSION, Description, Device, Interface, Recording,
};
use crate::stream::Source;
use crate::units::counted;

/// The longest description in bytes.
const DESCRIPTION_MAX: u64 = 64 << 20;

/// The damage of a recording whose log does not say why it ended.
pub(super) const NEVER_ENDED: &str =
    "the recording never ended: the recorder was killed or goes on";

/// Files of frames, by processor.
type Files = BTreeMap<u32, Vec<PathBuf>>;

/// A raw recording that is being read.
pub(super) struct Recorded {
    path: PathBuf,
    header: Header,
    reading: Reading<Processor>,
    log: Log,
    devices: Vec<Device>,
    /// Whether events are timed by `CLOCK_MONOTONIC`.
    is_monotonic: bool,
    /// The number of volumes that have got their names.
    named: usize,
    /// Whether the header notes that the log has no end.
    is_told: bool,
}

/// Opens the recording in a directory.
pub(super) fn open(
    path: &Path,
    directory: &Path,
    options: &ReadOptions,
) -> Result<Box<dyn Source>, TraceError> {
    let mut description = description(directory)?;
    let log = Log::read(directory)?;
    let mut files = files(directory)?;
    let segments = files.values().map(Vec::len).max().unwrap_or(0);
    // A processor without an event has no file.
    let cpus = description.cpus.len().max(files.len());
    if !files.is_empty() {
        // Events that the recorder counted but no file has are missing.
        for cpu in log.cpus() {
            files.entry(cpu).or_default();
        }
    }
    if let Some(whose) = description.calls.take() {
        return calls::open(path, directory, (description, whose), log, files, options);
    }
    let counts = (segments, cpus);
    Ok(Box::new(Recorded::open(path, directory, (description, log, files), counts, options)?))
}

impl Recorded {
    fn open(
        path: &Path,
        directory: &Path,
        (description, mut log, files): (Description, Log, Files),
        (segments, cpus): (usize, usize),
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        let mut lanes = Vec::new();
        match description.interface {
            Interface::Tracefs => {
                let layouts = Layouts::of(&description, &directory.join(DESCRIPTION_FILE))?;
                let layouts = Arc::new(layouts);
                let times = log.times(description.started);
                for (cpu, paths) in files {
                    lanes.push(Processor::pages(
                        directory,
                        cpu,
                        paths,
                        &layouts,
                        &log,
                        times,
                        options.strict,
                    ));
                }
            }
            Interface::Blktrace => {
                let devices = Arc::new(Devices::of(&description));
                for (cpu, paths) in files {
                    lanes.push(Processor::relay(
                        directory,
                        cpu,
                        paths,
                        &devices,
                        &log,
                        options.strict,
                    )?);
                }
            }
            Interface::File => {
                return Err(TraceError::Unusable {
                    path: directory.join(DESCRIPTION_FILE),
                    reason: "it names no interface of a kernel".to_owned(),
                    remedy: "record again".into(),
                });
            }
        }
        if lanes.is_empty() {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        let mut reading = Reading::begin(path, lanes, options, description.devices.len() == 1)?;
        reading.lost_note = NoteKind::LostByRecorder.of("events lost by the recorder");
        if queues_once(&description.kernel) {
            reading.queues_once();
        }
        let (mut header, devices) = header(path, description, &mut log, segments, cpus, &reading);
        // In the order of the command line, so that targets can be given in the same order.
        let is_named = |number| devices.iter().any(|device: &Device| device.number == number);
        let volumes = devices.iter().filter(|device| !device.partition_of.is_some_and(is_named));
        reading.expect(volumes.map(|device| device.number), &mut header);
        let clock = header.recording.as_ref().map(|facts| facts.clock.as_str());
        let is_monotonic = matches!(clock, Some("" | "mono" | "monotonic"));
        let path = path.to_owned();
        let (named, is_told) = (0, false);
        let mut recorded =
            Self { path, header, reading, log, devices, is_monotonic, named, is_told };
        let first = recorded.reading.first();
        recorded.learn(first);
        Ok(recorded)
    }

    /// Updates the header; `start` is the instant of the first request.
    fn learn(&mut self, start: Option<u64>) {
        self.reading.take_notices(&mut self.header);
        if let Some(start) = start.filter(|_| self.is_monotonic) {
            let wall = self.log.wall(start);
            self.header.started = wall.map(calendar::rfc3339);
            if let Some(facts) = &mut self.header.recording {
                facts.zero_monotonic_ns = Some(start);
                let of_trace = |at: u64| i64::try_from(i128::from(at) - i128::from(start)).ok();
                facts.from_ns = self.log.began().and_then(of_trace);
                facts.until_ns = self.log.ending.and_then(of_trace);
            }
        }
        for volume in self.header.volumes.iter_mut().skip(self.named) {
            let device =
                self.devices.iter().find(|device| device_name(device.number) == volume.name);
            if let Some(device) = device {
                volume.name.clone_from(&device.name);
                volume.size = device.size;
            }
        }
        self.named = self.header.volumes.len();
    }
}

impl Source for Recorded {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let more = self.reading.next_batch(&self.path, &mut self.header, batch)?;
        self.learn(self.reading.start());
        if !more && self.log.stopped.is_none() && !mem::replace(&mut self.is_told, true) {
            if self.header.damage.is_none() {
                self.header.damage_kind = DamageKind::NeverEnded;
            }
            let before = self.header.damage.take().map_or(String::new(), |damage| damage + "; ");
            self.header.damage = Some(before + NEVER_ENDED);
        }
        Ok(more)
    }
}

/// Reads the description in `directory`.
fn description(directory: &Path) -> Result<Description, TraceError> {
    let path = directory.join(DESCRIPTION_FILE);
    let read_error = |error| TraceError::read(&path, error);
    let unusable = |reason: String, remedy: &'static str| TraceError::Unusable {
        path: path.clone(),
        reason,
        remedy: remedy.into(),
    };
    expect_file(&path)?;
    if fs::metadata(&path).map_err(read_error)?.len() > DESCRIPTION_MAX {
        return Err(unusable("it is too long for a description".to_owned(), "record again"));
    }
    let text = fs::read(&path).map_err(read_error)?;
    let description: Description = serde_json::from_slice(&text)
        .map_err(|error| unusable(format!("it is no description: {error}"), "record again"))?;
    if description.version > DESCRIPTION_VERSION {
        let found = description.version;
        return Err(unusable(
            format!("it is of version {found}; known is {DESCRIPTION_VERSION}"),
            "read it with the version of ioecho that recorded it, or a later one",
        ));
    }
    Ok(description)
}

/// The files of frames for each processor, in the order of the segments.
fn files(directory: &Path) -> Result<Files, TraceError> {
    let read_error = |error| TraceError::read(directory, error);
    let mut found: BTreeMap<u32, BTreeMap<u32, PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(read_error)? {
        let path = entry.map_err(read_error)?.path();
        let numbers = path.file_name().and_then(|name| {
            let (segment, cpu) = name.to_str()?.split_once(".cpu")?;
            Some((segment.parse().ok()?, cpu.parse().ok()?))
        });
        if let Some((segment, cpu)) = numbers {
            expect_file(&path)?;
            found.entry(cpu).or_default().insert(segment, path);
        }
    }
    Ok(found.into_iter().map(|(cpu, paths)| (cpu, paths.into_values().collect())).collect())
}

/// The header before the first request, and the devices.
fn header(
    path: &Path,
    description: Description,
    log: &mut Log,
    segments: usize,
    cpus: usize,
    reading: &Reading<Processor>,
) -> (Header, Vec<Device>) {
    let names: Vec<_> = description.devices.iter().map(|device| device.name.as_str()).collect();
    let end = match &log.stopped {
        Some((why, _)) => format!("ended because {why}"),
        None => "never ended: the recorder was killed or goes on".to_owned(),
    };
    let told = format!(
        "recording of {} through {} on Linux {}, {}, segments: {segments}, {end}",
        names.join(", "),
        description.interface.name(),
        description.kernel,
        counted(cpus as u64, "processor"),
    );
    let mut header = Header {
        source: path.display().to_string(),
        format: "recording".to_owned(),
        description: Some(told),
        recorder: Some(description.recorder).filter(|recorder| !recorder.is_empty()),
        event: Some(reading.event()),
        columns: reading.columns(),
        ..Header::default()
    };
    header.processes.extend(log.processes.drain(..));
    header.losses.add(
        NoteKind::Unreadable.of("broken lines of the recorder's log"),
        log.broken,
        None,
    );
    if log.anchors.is_empty() {
        log.anchors.extend(description.started);
    }
    header.recording = Some(Recording {
        interface: description.interface,
        why: description.why,
        kernel: description.kernel,
        clock: description.clock,
        devices: description.devices.clone(),
        cost: log.cost,
        stopped: log.stopped.as_ref().map(|(why, _)| why.clone()),
        asked: log.asked,
        ..Recording::default()
    });
    (header, description.devices)
}

/// Whether a kernel of this release (`uname -r`) does not record rests of split requests as queued
/// again: since 4.12, by `BIO_TRACE_COMPLETION` (`block/blk-core.c`).
fn queues_once(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (4, 12),
        _ => false,
    }
}

#[cfg(test)]
mod version_tests {
    use super::queues_once;

    #[test]
    fn kernels_since_4_12_queue_a_rest_once() {
        let of = ["6.18.44", "4.12.0-rc1", "6.1.0-56-amd64", "4.11.9", "3.10.0", "", "x", "7"];
        let expected = [true, true, true, false, false, false, false, false];
        assert_eq!(of.map(queues_once), expected);
    }
}
