//! The witness of a run: the kernel's view of its requests at the devices.
//!
//! A late generator also takes its timestamps late, so its own figures cannot show its lateness.
//! With `--witness` the kernel's block events of every target that is a block device are recorded
//! during the run, from before its first request until after its last, and become a separate trace
//! in the run's directory (`witness.parquet`). `held` compares the run with it, `page` presents the
//! comparison on the report.

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
use ioecho_trace::units::counted;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Header, Source, TraceError, formats, stream};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{WitnessEntry, WitnessedTarget};
use crate::observer::Observer;
use crate::plan::ReplayPlan;
use crate::target::Target;

/// The targets that can be recorded, and messages about the others.
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
            // It is refused with its plan.
            Target::Tree(_) => {}
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

/// The directory for the kernel's events until the run has ended.
fn raw_directory(run: &Path) -> PathBuf {
    run.join("witness.recording")
}

/// Whether the recording was never converted into a trace, because the run was killed or goes on.
pub fn is_raw(run: &RunDirectory) -> bool {
    !run.witness().is_file() && raw_directory(run.path()).is_dir()
}

/// The planned recording, as lines for `--dry-run`.
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
            "witness       of {names}, by {} ({}), buffers of {} for each of {}",
            found.interface.name(),
            found.why,
            found.buffer,
            counted(found.cpus as u64, "processor")
        ));
        lines.extend(found.notes.iter().map(|note| format!("note          {note}")));
    }
    lines.extend(without.iter().map(|text| format!("no witness    {text}")));
    Ok(lines)
}

/// A witness that is recording. Dropping it ends the recording and keeps its files, because a run
/// may have been recorded. [`forget`] removes them.
pub(crate) struct Witness {
    /// `None` if no target can be recorded; then the run states why it has no witness.
    recorder: Option<Recorder>,
    directory: PathBuf,
    entry: WitnessEntry,
}

impl Witness {
    /// Starts the recording as far as possible, if it was asked for. After an error nothing is left
    /// in the kernel or on the disk.
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

    /// Its entry in `run.toml` so far.
    pub(crate) fn entry(&self) -> &WitnessEntry {
        &self.entry
    }

    /// Ends the recording and converts it into a trace, unless `stop` is raised. An error makes the
    /// witness incomplete but never the run, whose results do not depend on it.
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

/// Removes the recording of a run that issued nothing.
pub(crate) fn forget(run: &RunDirectory) {
    let _ = std::fs::remove_dir_all(raw_directory(run.path()));
}

/// Converts the raw recording into a trace, and removes it if the trace is complete. Otherwise
/// returns the reason.
fn finalise(directory: &Path, run: &RunDirectory, stop: &AtomicBool) -> Option<String> {
    match convert(directory, run, stop) {
        // With a killed run its recorder was killed too; that does not damage the existing events.
        Ok(damage) => match damage {
            None => {
                // Files that cannot be removed only take disk space.
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

/// Converts the recording into a trace with the instants at which requests were queued at the
/// device. Returns a description of damage, if there is any.
fn convert(directory: &Path, run: &RunDirectory, stop: &AtomicBool) -> Result<Option<String>> {
    let options = ReadOptions { event: IssueEvent::Queued, ..ReadOptions::default() };
    let mut source = Until { stop, source: formats::open(directory, &options)? };
    let sink = run.trace(&run.witness(), source.header())?;
    stream::copy(&mut source, sink)?;
    Ok(source.header().broken().map(str::to_owned))
}

/// A source that ends when a signal asks for it.
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
