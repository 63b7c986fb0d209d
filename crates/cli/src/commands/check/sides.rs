//! The two sides of a check: what was asked for, and the recording of what was seen.
//!
//! A run brings its schedule, its targets and its zero; a trace brings itself. A recording by this
//! program says by which clock it counts, so both count from one instant; one by another does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ioecho_linux::target::TargetKind;
use ioecho_run::directory::RunDirectory;
use ioecho_run::facts::{TargetEntry, WitnessEntry};
use ioecho_run::witness::{self, aligned, seal};
use ioecho_stats::fidelity::FidelityFigures;
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::transform::Load;
use ioecho_trace::{Header, Source, TraceError};
use serde::Serialize;

use super::beside;
use crate::args::CheckArgs;
use crate::exit::{self, Coded};
use crate::fetch;
use crate::opened;
use crate::typed::typed;

/// Two sides, open.
pub(super) struct Sides {
    pub(super) known: Known,
    pub(super) asked: Box<dyn Source>,
    pub(super) seen: Box<dyn Source>,
    /// How far the recording's zero lies behind the run's, where both are known.
    pub(super) shift_ns: Option<i64>,
    pub(super) volumes: Volumes,
    /// The targets that were recorded, where the run says so; requests of others are left out.
    pub(super) recorded: Option<Vec<u32>>,
}

/// What is known of two sides beside their requests.
#[derive(Debug, Default, Serialize)]
pub(super) struct Known {
    #[serde(skip)]
    pub(super) asked_for: PathBuf,
    #[serde(skip)]
    pub(super) seen_in: PathBuf,
    /// Whether what was asked for is a run's results.
    pub(super) is_run: bool,
    /// Whether requests had instants at which they were due.
    pub(super) has_schedule: bool,
    /// The event that the recording takes for the issue.
    pub(super) event: Option<String>,
    /// Of two traces: the event that the original takes for the issue.
    pub(super) asked_event: Option<String>,
    /// What the run's verdict says of other load on its devices, if there was any.
    pub(super) other_load: Option<String>,
    /// Events that the recorder lost.
    pub(super) lost_events: u64,
    /// Requests of devices that are no target.
    pub(super) elsewhere: u64,
    /// Names of the processes whose requests nobody asked for, where they are known.
    pub(super) processes: BTreeMap<u32, String>,
    /// Where a side ends before its end.
    pub(super) damage: Vec<String>,
    /// Why a run's witness is not the one that was recorded, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<String>,
}

impl Known {
    /// Takes over what the headers know once all was read.
    pub(super) fn learn(&mut self, asked: &Header, seen: &Header, figures: &FidelityFigures) {
        self.event.clone_from(&seen.event);
        if !self.is_run {
            self.asked_event.clone_from(&asked.event);
        }
        let recording = seen.recording.as_ref();
        self.lost_events = recording.map_or(0, |recording| {
            recording.lost.values().fold(0, |all: u64, lost| all.saturating_add(*lost))
        });
        for (pid, _) in &figures.extra_by_process {
            if let Some(name) = seen.processes.get(pid) {
                self.processes.insert(*pid, name.clone());
            }
        }
        let damage = [&asked.damage, &seen.damage];
        self.damage.extend(damage.into_iter().flatten().cloned());
    }
}

pub(super) fn open(args: &CheckArgs) -> anyhow::Result<Sides> {
    match RunDirectory::at(&args.asked) {
        Some(run) => of_run(args, &run),
        None => of_traces(args),
    }
}

fn of_run(args: &CheckArgs, run: &RunDirectory) -> anyhow::Result<Sides> {
    let facts = run.read_facts()?;
    let name = run.path().display();
    if (args.speed - 1.0).abs() > f64::EPSILON {
        let text = format!("--speed says nothing of a run: {name} knows its own schedule");
        return Err(Coded::error(exit::USAGE, text));
    }
    let own = run.witness();
    let path = match &args.seen {
        Some(path) => witness_of(path)?,
        None if own.is_file() => own.clone(),
        None => {
            return Err(without_witness(run, facts.witness.as_ref()));
        }
    };
    let targets = &facts.targets;
    if targets.iter().all(TargetEntry::is_simulated) {
        let text = format!("{name} is simulated: no device saw it");
        return Err(Coded::error(exit::NOT_COMPARABLE, text));
    }
    let is_file =
        |target: &TargetEntry| target.real().is_some_and(|target| target.kind == TargetKind::File);
    if targets.iter().all(is_file) {
        let text = format!(
            "{name} went to a file: below its file system requests lie elsewhere, and nobody can \
             tell which is which\n  = help: replay on a device, such as a loop device on that file"
        );
        return Err(Coded::error(exit::NOT_COMPARABLE, text));
    }
    let asked = opened::trace(&args.asked, &ReadOptions::default(), &Load::default())?;
    let file = fetch::local(&path)?;
    let (damage, changed) = proof_of(&file)?;
    let seen = open_trace(&file, &args.read.options());
    let seen = seen.map_err(|error| unreadable(&path, error, changed.as_deref()))?;
    expect_recording(&path, seen.header())?;
    let is_own = is_same(&path, &own);
    let of_witness = facts.witness.as_ref().filter(|_| is_own);
    let recorded =
        of_witness.map(|entry| entry.targets.iter().map(|target| target.target).collect());
    let known = Known {
        asked_for: args.asked.clone(),
        seen_in: path,
        damage,
        changed,
        is_run: true,
        has_schedule: facts.timing().has_schedule(),
        other_load: facts.verdict.as_ref().and_then(beside::other_load),
        ..Known::default()
    };
    let shift_ns = aligned::shift(facts.zero_monotonic_ns, seen.header(), duration_ns(run)?);
    let volumes = Volumes::of_targets(targets);
    Ok(Sides { known, asked, seen, shift_ns, volumes, recorded })
}

/// A run that nothing can be held against, and why.
fn without_witness(run: &RunDirectory, entry: Option<&WitnessEntry>) -> anyhow::Error {
    let name = run.path().display();
    let without = entry.map(|entry| &entry.without[..]).unwrap_or_default();
    let incomplete = entry.and_then(|entry| entry.incomplete.as_deref());
    let gone = seal::broken(run, entry);
    if incomplete.is_none() && witness::is_raw(run) {
        let text = format!(
            "{name} was not ended, and what its witness recorded is no trace yet\n  = help: \
             `ioecho report {name}` makes up for both, unless it still goes on"
        );
        return Coded::error(exit::DAMAGED, text);
    }
    let (code, why) = if let Some(why) = gone.as_deref().or(incomplete) {
        (exit::DAMAGED, format!("{name} has no witness: {why}"))
    } else if without.is_empty() {
        (exit::NOT_COMPARABLE, format!("{name} has no witness, and no recording is named"))
    } else {
        let why =
            format!("{name} has no witness, though one was asked for: {}", without.join("; "));
        (exit::NOT_COMPARABLE, why)
    };
    let help = "replay with --witness on a block device, or name what somebody recorded at the \
                target beside the run";
    Coded::error(code, format!("{why}\n  = help: {help}"))
}

/// Why a recording cannot be read; of a changed witness that it was changed.
fn unreadable(path: &Path, error: TraceError, changed: Option<&str>) -> anyhow::Error {
    match changed {
        Some(why) => Coded::error(exit::DAMAGED, format!("{why}; {}", error.written(&typed))),
        None => named(path, error),
    }
}

/// Refuses a run's results as what was seen: their instants are the schedule's own, and agree with
/// themselves.
fn expect_recording(path: &Path, header: &Header) -> anyhow::Result<()> {
    if !header.columns.measured {
        return Ok(());
    }
    let text = format!(
        "{} holds a run's own results, and not what a device saw\n  = help: name the run's \
         directory, whose witness is looked at, or a recording of the device",
        path.display()
    );
    Err(Coded::error(exit::NOT_COMPARABLE, text))
}

/// Whether both are the same file, however they are written.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|two| one == two))
}

fn of_traces(args: &CheckArgs) -> anyhow::Result<Sides> {
    let original = fetch::local(&args.asked)?;
    let unopened = |error| named(&args.asked, error);
    let Some(seen) = &args.seen else {
        open_trace(&original, &lax(args)).map_err(unopened)?;
        let text = format!(
            "{} is no run, and there is nothing to hold it against\n  = help: name the recording \
             of its replay too, or the directory of a run",
            args.asked.display()
        );
        return Err(Coded::error(exit::USAGE, text));
    };
    let path = witness_of(seen)?;
    let file = fetch::local(&path)?;
    let (damage, changed) = proof_of(&file)?;
    let options = args.read.options();
    // What was typed must say something of one side, not of both.
    let (asked, seen) = match (open_trace(&original, &options), open_trace(&file, &options)) {
        (Ok(asked), Ok(seen)) => (asked, seen),
        (Err(TraceError::Asked { .. }), Ok(seen)) => {
            (open_trace(&original, &lax(args)).map_err(unopened)?, seen)
        }
        (Ok(asked), Err(TraceError::Asked { .. })) => (asked, open_trace(&file, &lax(args))?),
        (Err(error), _) => return Err(unopened(error)),
        (Ok(_), Err(error)) => return Err(unreadable(&path, error, changed.as_deref())),
    };
    expect_recording(&path, seen.header())?;
    let known = Known {
        asked_for: args.asked.clone(),
        seen_in: path,
        has_schedule: true,
        damage,
        changed,
        ..Known::default()
    };
    let volumes = Volumes::of_trace(asked.header(), seen.header());
    Ok(Sides { known, asked, seen, shift_ns: None, volumes, recorded: None })
}

fn open_trace(path: &Path, options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    formats::open(path, options)
}

/// The error of the file behind what was typed: a path, an URL, or a load of a library. Where it is
/// kept says nothing to whoever asked for it.
fn named(path: &Path, error: TraceError) -> anyhow::Error {
    match fetch::is_library(path) {
        Some(library) => library.into(),
        None if fetch::is_url(path) => {
            anyhow::Error::from(error).context(path.display().to_string())
        }
        None => error.into(),
    }
}

fn lax(args: &CheckArgs) -> ReadOptions {
    ReadOptions { all_apply: false, ..args.read.options() }
}

/// The recording that is meant: of a run's directory its witness.
fn witness_of(path: &Path) -> anyhow::Result<PathBuf> {
    let Some(run) = RunDirectory::at(path) else { return Ok(path.to_owned()) };
    let witness = run.witness();
    if !witness.is_file() {
        return Err(without_witness(&run, run.read_facts()?.witness.as_ref()));
    }
    Ok(witness)
}

/// Where a recording ends early and why it is not the one that was made, by what the run says whose
/// witness it is; nothing of one that is no run's witness.
fn proof_of(recording: &Path) -> anyhow::Result<(Vec<String>, Option<String>)> {
    let of = |path: &Path| {
        let run = path.parent().and_then(RunDirectory::at);
        run.filter(|run| is_same(&run.witness(), path))
    };
    // A link elsewhere leads to the run all the same.
    let linked = || of(&recording.canonicalize().ok()?);
    let Some(run) = of(recording).or_else(linked) else { return Ok((Vec::new(), None)) };
    let entry = run.read_facts()?.witness;
    let incomplete = entry.as_ref().and_then(|entry| entry.incomplete.as_ref());
    let damage = incomplete.map(|why| format!("the witness: {why}")).into_iter().collect();
    Ok((damage, seal::broken(&run, entry.as_ref())))
}

/// When the run's last request was submitted, in nanoseconds behind its zero; zero of a run that
/// has no summary.
fn duration_ns(run: &RunDirectory) -> anyhow::Result<u64> {
    if !run.summary().exists() {
        return Ok(0);
    }
    let submitted = run.read_summary()?.achieved_duration_ns;
    Ok(u64::try_from(submitted).unwrap_or(0))
}

/// Which device of a recording is which of the other side.
pub(super) struct Volumes {
    /// Names by which each device of the other side may be called.
    names: Vec<Vec<String>>,
    /// Whether what is called otherwise keeps its number.
    by_number: bool,
    known: BTreeMap<u32, Option<u32>>,
}

impl Volumes {
    /// Of a run: its targets, by path, by name and by device number.
    fn of_targets(targets: &[TargetEntry]) -> Self {
        let names = targets.iter().map(|target| {
            target.real().map_or_else(Vec::new, |target| {
                names_of([&target.path, &target.canonical], &target.device)
            })
        });
        Self { names: names.collect(), by_number: false, known: BTreeMap::new() }
    }

    /// Of two traces: by name if all names of the one are names of the other, else the first is
    /// the first.
    fn of_trace(asked: &Header, seen: &Header) -> Self {
        let has = |header: &Header, name: &str| header.volumes.iter().any(|v| v.name == name);
        let alike =
            seen.volumes.len() > 1 && seen.volumes.iter().all(|volume| has(asked, &volume.name));
        let names = if alike {
            let slots = asked.volumes.iter().map(|volume| volume.id.0 as usize + 1).max();
            let mut names = vec![Vec::new(); slots.unwrap_or(0).min(1 << 16)];
            for volume in &asked.volumes {
                if let Some(slot) = names.get_mut(volume.id.0 as usize) {
                    slot.push(volume.name.clone());
                }
            }
            names
        } else {
            Vec::new()
        };
        Self { names, by_number: !alike, known: BTreeMap::new() }
    }

    /// The number on the other side; `None` of what is not there.
    pub(super) fn number(&mut self, volume: u32, header: &Header) -> Option<u32> {
        if let Some(known) = self.known.get(&volume) {
            return *known;
        }
        let entry = header.volumes.iter().find(|entry| entry.id.0 == volume);
        let name = entry.map_or("", |entry| entry.name.as_str());
        let named = self.names.iter().position(|names| names.iter().any(|own| own == name));
        let alone = header.volumes.len() <= 1 && self.names.len() == 1;
        let found = match named {
            Some(number) => Some(number as u32),
            None if self.by_number => Some(volume),
            None if alone => Some(0),
            None => None,
        };
        self.known.insert(volume, found);
        found
    }
}

/// What a device at these paths, with this number, may be called in a recording.
fn names_of(paths: [&Path; 2], device: &str) -> Vec<String> {
    let mut names = vec![device.to_owned(), device.replace(':', ",")];
    for path in paths {
        names.push(path.display().to_string());
        names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Volume, VolumeId};

    fn header(names: &[&str]) -> Header {
        let volume = |(id, name): (usize, &&str)| Volume {
            id: VolumeId(id as u32),
            name: (*name).to_owned(),
            size: None,
        };
        Header { volumes: names.iter().enumerate().map(volume).collect(), ..Header::default() }
    }

    fn named(names: Vec<Vec<String>>) -> Volumes {
        Volumes { names, by_number: false, known: BTreeMap::new() }
    }

    #[test]
    fn devices_of_a_recording_are_targets_by_path_name_or_number() {
        let target = |path: &str, device: &str| names_of([Path::new(path); 2], device);
        let mut volumes = named(vec![target("/dev/loop5", "7:5"), target("/dev/loop6", "7:6")]);
        let seen = header(&["7:6", "loop5", "8:0", "7,6", "/dev/loop6"]);
        let numbers: Vec<_> = (0..5).map(|volume| volumes.number(volume, &seen)).collect();
        assert_eq!(numbers, [Some(1), Some(0), None, Some(1), Some(1)]);
    }

    #[test]
    fn the_only_device_of_a_recording_is_the_only_target_whatever_it_is_called() {
        let target = || names_of([Path::new("/dev/loop5"); 2], "7:5");
        let mut volumes = named(vec![target()]);
        assert_eq!(volumes.number(0, &header(&["0"])), Some(0));
        let mut volumes = named(vec![target()]);
        assert_eq!(volumes.number(0, &header(&["0", "1"])), None);
    }

    #[test]
    fn devices_of_two_traces_go_by_name_where_the_names_agree_and_by_number_otherwise() {
        let mut volumes = Volumes::of_trace(&header(&["a", "b"]), &header(&["b", "a"]));
        assert_eq!(volumes.number(0, &header(&["b", "a"])), Some(1));
        let mut volumes = Volumes::of_trace(&header(&["a", "b"]), &header(&["c", "d"]));
        assert_eq!(volumes.number(1, &header(&["c", "d"])), Some(1));
    }
}
