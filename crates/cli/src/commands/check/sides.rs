//! The two sides of a check: what was asked for, and the recording of what was seen.
//!
//! A run brings its schedule, its targets and its zero; a trace brings itself. A recording by this
//! program says by which clock it counts, so both count from one instant; one by another does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ioecho_stats::fidelity::FidelityFigures;
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::transform::Load;
use ioecho_trace::{Header, Source, TraceError};
use serde::Serialize;

use super::beside;
use crate::args::CheckArgs;
use crate::exit::{self, Coded};
use crate::opened;
use crate::run::directory::{RunDirectory, targets_of};
use crate::run::witness::{self, aligned, seal};
use crate::run::{fetch, settle};

/// The run's zero in nanoseconds of `CLOCK_MONOTONIC`, in `run.toml`.
const ZERO: &str = "zero_monotonic_ns";

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
            return Err(without_witness(run, &facts));
        }
    };
    let targets = targets_of(&facts);
    if targets.iter().all(|target| target.contains_key("simulated")) {
        let text = format!("{name} is simulated: no device saw it");
        return Err(Coded::error(exit::NOT_COMPARABLE, text));
    }
    let is_file =
        |target: &&toml::Table| target.get("kind").and_then(toml::Value::as_str) == Some("file");
    if targets.iter().all(is_file) && !targets.is_empty() {
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
    let of_witness = facts.get("witness").filter(|_| is_own);
    let recorded = of_witness.and_then(|entry| entry.get("targets")?.as_array());
    let recorded = recorded.map(|targets| {
        let number = |target: &toml::Value| target.get("target")?.as_integer();
        targets.iter().filter_map(number).filter_map(|target| u32::try_from(target).ok()).collect()
    });
    let known = Known {
        asked_for: args.asked.clone(),
        seen_in: path,
        damage,
        changed,
        is_run: true,
        has_schedule: settle::timing_of(run, &facts)?.has_schedule(),
        other_load: beside::other_load(&facts),
        ..Known::default()
    };
    let shift_ns = aligned::shift(zero_of(&facts), seen.header(), duration_ns(run)?);
    let volumes = Volumes::of_targets(&targets);
    Ok(Sides { known, asked, seen, shift_ns, volumes, recorded })
}

/// A run that nothing can be held against, and why.
fn without_witness(run: &RunDirectory, facts: &toml::Table) -> anyhow::Error {
    let name = run.path().display();
    let without = witness::without(facts);
    let entry = facts.get("witness");
    let incomplete = entry.and_then(|entry| entry.get("incomplete")?.as_str());
    let gone = seal::broken(run, facts);
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
        Some(why) => Coded::error(exit::DAMAGED, format!("{why}; {error}")),
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
        return Err(without_witness(&run, &run.read_facts()?));
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
    let facts = run.read_facts()?;
    let incomplete = facts.get("witness").and_then(|entry| entry.get("incomplete")?.as_str());
    let damage = incomplete.map(|why| format!("the witness: {why}")).into_iter().collect();
    Ok((damage, seal::broken(&run, &facts)))
}

/// When the run began, by the monotonic clock of its host.
fn zero_of(facts: &toml::Table) -> Option<i64> {
    facts.get(ZERO).and_then(toml::Value::as_integer)
}

/// When the run's last request was submitted, in nanoseconds behind its zero; zero of a run that
/// has no summary.
fn duration_ns(run: &RunDirectory) -> anyhow::Result<u64> {
    if !run.summary().exists() {
        return Ok(0);
    }
    let submitted = settle::read_summary(run)?.achieved_duration_ns;
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
    fn of_targets(targets: &[&toml::Table]) -> Self {
        let names = targets.iter().map(|target| {
            let text = |key: &str| target.get(key).and_then(toml::Value::as_str);
            let paths = [text("path"), text("canonical")].into_iter().flatten();
            let mut names: Vec<String> = Vec::new();
            for path in paths {
                names.push(path.to_owned());
                names.extend(path.rsplit('/').next().map(str::to_owned));
            }
            if let Some(device) = text("device") {
                names.push(device.to_owned());
                names.push(device.replace(':', ","));
            }
            names
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

    #[test]
    fn devices_of_a_recording_are_targets_by_path_name_or_number() {
        let target = |path: &str, device: &str| {
            let text = format!("path = '/dev/{path}'\ndevice = '{device}'");
            text.parse::<toml::Table>().unwrap()
        };
        let (first, second) = (target("loop5", "7:5"), target("loop6", "7:6"));
        let mut volumes = Volumes::of_targets(&[&first, &second]);
        let seen = header(&["7:6", "loop5", "8:0", "7,6", "/dev/loop6"]);
        let numbers: Vec<_> = (0..5).map(|volume| volumes.number(volume, &seen)).collect();
        assert_eq!(numbers, [Some(1), Some(0), None, Some(1), Some(1)]);
    }

    #[test]
    fn the_only_device_of_a_recording_is_the_only_target_whatever_it_is_called() {
        let target = "path = '/dev/loop5'".parse::<toml::Table>().unwrap();
        let mut volumes = Volumes::of_targets(&[&target]);
        assert_eq!(volumes.number(0, &header(&["0"])), Some(0));
        let mut volumes = Volumes::of_targets(&[&target]);
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
