//! The witness of a run: what the kernel saw of its requests at the devices themselves.
//!
//! A generator that is late takes its time late as well, so its own figures cannot show it. With
//! `--witness` the kernel's block events of every target that is a block device are recorded beside
//! the run, from before its first request until after its last, and become a trace of its own in
//! the run's directory (`witness.parquet`). [`held`] holds the run against it, [`page`] lays it
//! out for the report.

mod held;
mod page;

pub(crate) use held::Witnessed;
pub(crate) use page::section;

use std::path::{Path, PathBuf};

use ioecho_linux::record::{Options, Recorder, Target as Device};
use ioecho_trace::formats::{IssueEvent, ReadOptions};
use ioecho_trace::{formats, stream};
use serde::Serialize;

use crate::args::InterfaceArg;
use crate::commands::tell;
use crate::exit::{self, Coded};
use crate::run::directory::RunDirectory;
use crate::run::plan::ReplayPlan;
use crate::run::target::Target;

/// A target and its device, as `run.toml` holds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WitnessedTarget {
    /// The target, by its place among the run's targets.
    pub(crate) target: usize,
    /// The name of its device in the kernel, by which the witness calls it.
    pub(crate) device: String,
}

/// What `run.toml` says of the witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WitnessEntry {
    /// By which interface of the kernel.
    pub(crate) interface: &'static str,
    /// Why by this one.
    pub(crate) why: String,
    /// The recorded targets.
    pub(crate) targets: Vec<WitnessedTarget>,
    /// Targets of which there is no witness, and why.
    pub(crate) without: Vec<String>,
    /// What the recorder had to say.
    pub(crate) notes: Vec<String>,
    /// Why it ended before the run, if it did, or could not be made a trace.
    pub(crate) incomplete: Option<String>,
    /// Events that found no room in the kernel's buffers.
    pub(crate) lost: u64,
    /// Processor time of the recorder, ns.
    pub(crate) cpu_ns: i64,
}

/// The targets that can be recorded, and what is to be said of the others.
struct Divided {
    devices: Vec<(usize, Device)>,
    without: Vec<String>,
}

fn divide(plan: &ReplayPlan) -> anyhow::Result<Divided> {
    let mut divided = Divided { devices: Vec::new(), without: Vec::new() };
    for (number, target) in plan.targets.iter().enumerate() {
        match target {
            Target::Simulated { .. } => {
                let text = "the kernel sees nothing of a simulated target, so there is nothing to \
                            witness\n  = help: leave out --witness; --expert works in simulation";
                return Err(Coded::error(exit::USAGE, text));
            }
            Target::Real { path, .. } if is_block_device(path) => {
                let device = Device::at(path).map_err(refused)?;
                divided.devices.push((number, device));
            }
            Target::Real { path, .. } => divided.without.push(format!(
                "{} is a file: the kernel's block events are those of its file system, so it has no \
                 witness",
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

fn refused(error: ioecho_linux::record::RecordError) -> anyhow::Error {
    anyhow::Error::from(error).context("the witness cannot be recorded, and nothing was replayed")
}

fn options(run: &Path, interface: InterfaceArg) -> Options {
    let recorder = concat!("ioecho ", env!("CARGO_PKG_VERSION"));
    Options { interface: interface.choice(), ..Options::new(&raw_directory(run), recorder) }
}

/// Where the kernel's events go until the run has ended.
fn raw_directory(run: &Path) -> PathBuf {
    run.join("witness.recording")
}

/// What would be recorded, as lines for `--dry-run`.
pub(crate) fn planned(plan: &ReplayPlan) -> anyhow::Result<Vec<String>> {
    let Some(interface) = plan.witness else { return Ok(Vec::new()) };
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

/// A witness that records. Dropping it ends the recording and leaves nothing of it.
pub(crate) struct Witness {
    recorder: Option<Recorder>,
    directory: PathBuf,
    entry: WitnessEntry,
}

impl Witness {
    /// Begins to record, where that was asked for and any target can be recorded. An error means
    /// that nothing is left in the kernel and nothing on the disk.
    pub(crate) fn start(plan: &ReplayPlan, run: &RunDirectory) -> anyhow::Result<Option<Self>> {
        let Some(interface) = plan.witness else { return Ok(None) };
        let Divided { devices, without } = divide(plan)?;
        for text in &without {
            tell(&format!("warning: {text}"));
        }
        if devices.is_empty() {
            return Ok(None);
        }
        let of_target = |(target, device): &(usize, Device)| WitnessedTarget {
            target: *target,
            device: device.name().to_owned(),
        };
        let targets = devices.iter().map(of_target).collect();
        let devices: Vec<Device> = devices.into_iter().map(|(_, device)| device).collect();
        let recorder =
            Recorder::start(devices, &options(run.path(), interface)).map_err(refused)?;
        for note in recorder.notes() {
            tell(&format!("note: {note}"));
        }
        let entry = WitnessEntry {
            interface: recorder.interface().name(),
            why: recorder.why().to_owned(),
            targets,
            without,
            notes: recorder.notes().to_vec(),
            incomplete: None,
            lost: 0,
            cpu_ns: 0,
        };
        let directory = raw_directory(run.path());
        Ok(Some(Self { recorder: Some(recorder), directory, entry }))
    }

    /// What `run.toml` says of it so far.
    pub(crate) fn entry(&self) -> &WitnessEntry {
        &self.entry
    }

    /// Ends the recording and makes a trace of it. Whatever fails makes the witness incomplete and
    /// never the run: its results do not hang on it.
    pub(crate) fn finish(mut self, run: &RunDirectory) -> WitnessEntry {
        let summary = self.recorder.take().map(Recorder::stop).unwrap_or_default();
        let mut entry = self.entry.clone();
        if !summary.ending.is_good() {
            entry.incomplete =
                Some(format!("it ended before the run: {}", summary.ending.phrase()));
        }
        (entry.lost, entry.cpu_ns) = (summary.lost(), summary.cpu.0);
        entry.notes.extend(summary.notes);
        if let Err(error) = settle(&self.directory, run) {
            entry.incomplete = Some(error.to_string());
        }
        if let Some(why) = &entry.incomplete {
            run.log(&format!("the witness is incomplete: {why}"));
            tell(&format!("warning: the witness is incomplete: {why}"));
        }
        entry
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // Still there only where the run did not begin: then nothing was seen.
        if let Some(recorder) = self.recorder.take() {
            drop(recorder);
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Makes the raw recording a trace, and takes it away when that holds everything.
fn settle(directory: &Path, run: &RunDirectory) -> anyhow::Result<()> {
    convert(directory, run).map_err(|error| {
        let _ = std::fs::remove_file(run.witness());
        anyhow::anyhow!(
            "it stays in witness.recording as it was recorded, for it could not be converted: \
             {error:#}"
        )
    })?;
    // What cannot be removed only takes room.
    let _ = std::fs::remove_dir_all(directory);
    Ok(())
}

/// Makes a trace of what was recorded: requests as they were queued at the device.
fn convert(directory: &Path, run: &RunDirectory) -> anyhow::Result<()> {
    let options = ReadOptions { event: IssueEvent::Queued, ..ReadOptions::default() };
    let mut source = formats::open(directory, &options)?;
    let sink = formats::create(&run.witness(), source.header())?;
    stream::copy(source.as_mut(), sink)?;
    Ok(())
}
