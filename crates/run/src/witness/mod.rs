//! The witness of a run: what the kernel saw of its requests at the devices themselves.
//!
//! A generator that is late takes its time late as well, so its own figures cannot show it. With
//! `--witness` the kernel's block events of every target that is a block device are recorded beside
//! the run, from before its first request until after its last, and become a trace of its own in
//! the run's directory (`witness.parquet`). `held` holds the run against it, `page` lays it
//! out for the report.

pub mod aligned;
mod held;
mod page;
pub mod seal;

pub(crate) use held::Witnessed;
pub(crate) use page::section;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_linux::record::{
    Ending, InterfaceChoice, Options, RecordError, Recorder, Target as Device,
};
use ioecho_trace::formats::{IssueEvent, ReadOptions};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Header, Source, TraceError, formats, stream};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{WitnessEntry, WitnessedTarget};
use crate::observer::Observer;
use crate::plan::ReplayPlan;
use crate::target::Target;

/// The targets that can be recorded, and what is to be said of the others.
struct Divided {
    devices: Vec<(usize, Device)>,
    without: Vec<String>,
}

fn divide(plan: &ReplayPlan) -> Result<Divided> {
    let mut divided = Divided { devices: Vec::new(), without: Vec::new() };
    for (number, target) in plan.targets.iter().enumerate() {
        match target {
            Target::Simulated { .. } => {
                let text = "the kernel sees nothing of a simulated target, so there is nothing to \
                            witness";
                let help = Wording::from("leave out ")
                    .setting("witness")
                    .text("; ")
                    .setting("expert")
                    .text(" works in simulation");
                return Err(RunError::with_help(Kind::Usage, text, help));
            }
            Target::Real { path, .. } if is_block_device(path) => {
                let device = Device::at(path).map_err(refused)?;
                divided.devices.push((number, device));
            }
            Target::Real { path, .. } => divided.without.push(format!(
                "{} is a file: the kernel's block events are those of its file system, so it has \
                 no witness",
                path.display()
            )),
        }
    }
    Ok(divided)
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|data| data.file_type().is_block_device())
}

fn refused(error: RecordError) -> RunError {
    RunError::from(error).within("the witness cannot be recorded, and nothing was replayed")
}

fn options(run: &Path, interface: InterfaceChoice) -> Options {
    let recorder = concat!("ioecho ", env!("CARGO_PKG_VERSION"));
    Options { interface, ..Options::new(&raw_directory(run), recorder) }
}

/// Where the kernel's events go until the run has ended.
fn raw_directory(run: &Path) -> PathBuf {
    run.join("witness.recording")
}

/// Whether what was recorded was never made a trace, because the run was killed or goes on.
pub fn is_raw(run: &RunDirectory) -> bool {
    !run.witness().is_file() && raw_directory(run.path()).is_dir()
}

/// What would be recorded, as lines for `--dry-run`.
pub fn planned(plan: &ReplayPlan) -> Result<Vec<String>> {
    let Some(interface) = plan.spec.witness else { return Ok(Vec::new()) };
    let Divided { devices, without } = divide(plan)?;
    let mut lines = Vec::new();
    if !devices.is_empty() {
        let names: Vec<&str> = devices.iter().map(|(_, device)| device.name()).collect();
        let names = names.join(", ");
        let devices: Vec<Device> = devices.into_iter().map(|(_, device)| device).collect();
        let parent = plan.output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let found = Recorder::plan(&devices, &options(parent.unwrap_or(Path::new(".")), interface));
        let found = found.map_err(refused)?;
        lines.push(format!(
            "witness       of {names}, by {} ({}), buffers of {} for each of {} processors",
            found.interface.name(),
            found.why,
            found.buffer,
            found.cpus
        ));
        lines.extend(found.notes.iter().map(|note| format!("note          {note}")));
    }
    lines.extend(without.iter().map(|text| format!("no witness    {text}")));
    Ok(lines)
}

/// A witness that records. Dropping it ends the recording and leaves what there is of it: a run may
/// have gone before. [`forget`] takes it away.
pub(crate) struct Witness {
    /// None where no target can be recorded: then the run says why it has no witness.
    recorder: Option<Recorder>,
    directory: PathBuf,
    entry: WitnessEntry,
}

impl Witness {
    /// Begins to record what can be recorded, where that was asked for. An error means that nothing
    /// is left in the kernel and nothing on the disk.
    pub(crate) fn start(
        plan: &ReplayPlan,
        run: &RunDirectory,
        observer: &dyn Observer,
    ) -> Result<Option<Self>> {
        let Some(interface) = plan.spec.witness else { return Ok(None) };
        let Divided { devices, without } = divide(plan)?;
        for text in &without {
            observer.tell(&format!("warning: {text}"));
        }
        let directory = raw_directory(run.path());
        if devices.is_empty() {
            let entry = WitnessEntry { without, ..WitnessEntry::default() };
            return Ok(Some(Self { recorder: None, directory, entry }));
        }
        let of_target = |(target, device): &(usize, Device)| WitnessedTarget {
            target: *target as u32,
            device: device.name().to_owned(),
        };
        let targets = devices.iter().map(of_target).collect();
        let devices: Vec<Device> = devices.into_iter().map(|(_, device)| device).collect();
        let recorder =
            Recorder::start(devices, &options(run.path(), interface)).map_err(refused)?;
        for note in recorder.notes() {
            observer.tell(&format!("note: {note}"));
        }
        let entry = WitnessEntry {
            interface: Some(recorder.interface()),
            why: recorder.why().to_owned(),
            targets,
            without,
            notes: recorder.notes().to_vec(),
            ..WitnessEntry::default()
        };
        Ok(Some(Self { recorder: Some(recorder), directory, entry }))
    }

    /// What `run.toml` says of it so far.
    pub(crate) fn entry(&self) -> &WitnessEntry {
        &self.entry
    }

    /// Ends the recording and makes a trace of it, unless `stop` is raised. Whatever fails makes
    /// the witness incomplete and never the run: its results do not hang on it.
    pub(crate) fn finish(
        self,
        run: &RunDirectory,
        stop: &AtomicBool,
        observer: &dyn Observer,
    ) -> WitnessEntry {
        let Self { recorder, directory, mut entry } = self;
        let Some(recorder) = recorder else { return entry };
        let summary = recorder.stop();
        let mut reasons = Vec::new();
        match &summary.ending {
            Ending::Asked => {}
            Ending::DeviceGone(why) => {
                reasons.push(format!("the device went away while the run went on: {why}"));
            }
            ending => reasons.push(format!("it ended before the run: {}", ending.phrase())),
        }
        if summary.blind.0 > 0 {
            reasons.push(format!("for {} events were kept from coming", summary.blind));
        }
        (entry.lost, entry.cpu_ns) = (summary.lost(), summary.cpu.0);
        entry.notes.extend(summary.notes);
        reasons.extend(finalise(&directory, run, stop));
        if !reasons.is_empty() {
            let why = reasons.join("; ");
            run.log(&format!("the witness is incomplete: {why}"));
            observer.tell(&format!("warning: the witness is incomplete: {why}"));
            entry.incomplete = Some(why);
        }
        (entry.bytes, entry.sha256) = seal::of(&run.witness()).unzip();
        entry
    }
}

/// Takes away what was recorded of a run that issued nothing.
pub(crate) fn forget(run: &RunDirectory) {
    let _ = std::fs::remove_dir_all(raw_directory(run.path()));
}

/// Makes the raw recording a trace, and takes it away when that holds everything. Answers why it
/// does not, where that is so.
fn finalise(directory: &Path, run: &RunDirectory, stop: &AtomicBool) -> Option<String> {
    match convert(directory, run, stop) {
        // Of a run that was killed the recorder was killed too: that loses nothing that is there.
        Ok(damage) => match damage {
            None => {
                // What cannot be removed only takes room.
                let _ = std::fs::remove_dir_all(directory);
                None
            }
            Some(damage) => Some(format!(
                "the recording is damaged, and stays in witness.recording as it was recorded: \
                 {damage}"
            )),
        },
        Err(error) => {
            let _ = run.remove(&run.witness());
            Some(format!(
                "it stays in witness.recording as it was recorded, for it could not be converted: \
                 {error:#}"
            ))
        }
    }
}

/// Makes a trace of what was recorded: requests as they were queued at the device. Answers what of
/// it could not be read.
fn convert(directory: &Path, run: &RunDirectory, stop: &AtomicBool) -> Result<Option<String>> {
    let options = ReadOptions { event: IssueEvent::Queued, ..ReadOptions::default() };
    let mut source = Until { stop, source: formats::open(directory, &options)? };
    let sink = run.trace(&run.witness(), source.header())?;
    stream::copy(&mut source, sink)?;
    Ok(source.header().broken().map(str::to_owned))
}

/// A source until a signal asks for its end.
struct Until<'a> {
    stop: &'a AtomicBool,
    source: Box<dyn Source>,
}

impl Source for Until<'_> {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if self.stop.load(Relaxed) {
            return Err(TraceError::Stopped);
        }
        self.source.next_batch(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversion_that_does_not_succeed_keeps_what_was_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let raw = raw_directory(run.path());
        std::fs::create_dir(&raw).unwrap();
        std::fs::write(raw.join("cpu0.0"), b"no recording").unwrap();
        let why = finalise(&raw, &run, &AtomicBool::new(false)).unwrap();
        assert!(why.contains("could not be converted"), "{why}");
        assert!(raw.join("cpu0.0").exists() && !run.witness().exists());
        forget(&run);
        assert!(!raw.exists());
    }

    #[test]
    fn a_signal_ends_the_conversion() {
        let stop = AtomicBool::new(false);
        let load = Path::new("gen:random?rate=10&count=10&area=1M");
        let source = formats::open(load, &ReadOptions::default()).unwrap();
        let mut source = Until { stop: &stop, source };
        let mut batch = Batch::new(source.header().columns);
        assert!(source.next_batch(&mut batch).unwrap());
        stop.store(true, Relaxed);
        assert!(matches!(source.next_batch(&mut batch), Err(TraceError::Stopped)));
    }
}
