//! The description of a simulated device, as it is typed behind `sim:`.
//!
//! A device is described by a model, or learnt from a run: to know how another load would do on a
//! device, that device need not be at hand again, because the results of a run on it say how long
//! it took for each request ([`Learnt`]). `sim:learnt=RUN` is that device, with the size of the
//! run's largest target; other keys set its size, its faults and its seed.

use std::path::Path;
use std::sync::Arc;

use ioecho_replay::sim::models::{Learning, Learnt};
use ioecho_replay::sim::{SimSpec, SimSpecError};
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::Load;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Bytes, Outcome, Stop};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::TargetEntry;
use crate::open::{self, Files};

/// The key of a simulated device's description that names the run.
const KEY: &str = "learnt=";

/// Keys that say how long a simulated device takes, and so have no effect on a learnt one.
const TIMING: [&str; 4] = ["model", "units", "service", "bandwidth"];

/// A simulated device.
pub(crate) struct Simulation {
    /// Of a learnt device only the size, the block size, the faults and the seed count.
    pub(crate) spec: SimSpec,
    /// The service times of the run that was named, if one was.
    pub(crate) learnt: Option<Arc<Learnt>>,
    /// Whether a disk turns in it; `None` if the run does not know.
    pub(crate) rotational: Option<bool>,
}

/// Parses a description, and reads the run that it names.
pub(crate) fn parse(text: &str) -> Result<Simulation> {
    let Some(run) = text.split(',').find_map(|pair| pair.strip_prefix(KEY)) else {
        let spec = modelled(text)?;
        return Ok(Simulation { spec, learnt: None, rotational: Some(spec.is_rotational()) });
    };
    let pairs: Vec<&str> = text.split(',').filter(|pair| !pair.starts_with(KEY)).collect();
    let key_of = |pair: &&str| pair.split_once('=').map_or(*pair, |(key, _)| key).to_owned();
    if let Some(key) = pairs.iter().map(key_of).find(|key| TIMING.contains(&key.as_str())) {
        return Err(RunError::with_help(
            Kind::Usage,
            format!("sim:{text}: '{key}' has no effect on a device that is learnt from a run"),
            "leave out either of them",
        ));
    }
    let (learnt, capacity, rotational) = learn(Path::new(run))?;
    let mut spec = modelled(&pairs.join(","))?;
    if !pairs.iter().any(|pair| pair.starts_with("size=")) {
        spec.capacity = capacity;
    }
    Ok(Simulation { spec, learnt: Some(Arc::new(learnt)), rotational })
}

/// What describes a target, if it is a simulated one.
pub fn description(target: &str) -> Option<&str> {
    if target == "sim" { Some("") } else { target.strip_prefix("sim:") }
}

/// Refuses a wrong description of a simulated device, without looking at a run that it names.
///
/// # Errors
///
/// Why it is wrong.
pub fn check(text: &str) -> std::result::Result<(), SimSpecError> {
    // Of a tree it says how long calls take; its shape is checked where it is made.
    let calls = |tree: &'_ str| {
        let setting =
            tree.split('&').find_map(|part| part.trim_start_matches('?').strip_prefix("calls="));
        setting.unwrap_or_default().to_owned()
    };
    let of_tree = text.strip_prefix("tree").filter(|rest| rest.is_empty() || rest.starts_with('?'));
    let text = of_tree.map_or(text.to_owned(), calls);
    let is_model = |pair: &&str| !pair.starts_with(KEY);
    let spec = text.split(',').filter(is_model).collect::<Vec<_>>().join(",");
    spec.parse::<SimSpec>().map(drop)
}

/// The size of a simulated device in bytes.
///
/// # Errors
///
/// If its description is wrong, or the run that it names cannot be read.
pub fn capacity(text: &str) -> Result<Bytes> {
    Ok(parse(text)?.spec.capacity)
}

fn modelled(text: &str) -> Result<SimSpec> {
    text.parse().map_err(|error| {
        let text = Wording::default().setting("target").text(format!(" {error}"));
        RunError::new(Kind::Usage, text)
    })
}

/// The device of a run, its size, and whether it turned.
fn learn(run: &Path) -> Result<(Learnt, Bytes, Option<bool>)> {
    let name = run.display();
    let directory = RunDirectory::at(run).ok_or_else(|| {
        RunError::with_help(
            Kind::Trace,
            format!("{name} is no directory of a run, so no device can be learnt from it"),
            "name the directory that a replay wrote",
        )
    })?;
    let facts = directory.read_facts()?;
    let (stop, options) = (Stop::default(), ReadOptions::default());
    let mut source = open::trace_until(&Files, &stop, run, &options, &Load::default())?;
    let mut learning = Learning::default();
    let mut end = 0;
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch)? {
        for request in batch.iter() {
            let Some(measured) = request.measured.filter(|one| one.outcome == Outcome::Ok) else {
                continue;
            };
            let Some((submitted, completed)) = measured.submitted.zip(measured.completed) else {
                continue;
            };
            let offset = measured.target_offset.unwrap_or(request.offset);
            end = end.max(offset.0.saturating_add(request.length.0));
            let place = (offset, request.length);
            learning.observe(request.op, place, measured.in_flight, completed - submitted);
        }
    }
    let learnt = learning.learnt(&name.to_string()).ok_or_else(|| {
        RunError::with_help(
            Kind::Trace,
            format!("{name}: no request of this run was done, so no device can be learnt from it"),
            "name a run whose requests completed",
        )
    })?;
    let sizes = facts.targets.iter().filter_map(|target| match target {
        TargetEntry::Real(real) => Some(real.capacity),
        TargetEntry::Simulated(_) | TargetEntry::Tree(_) => None,
    });
    let turns = facts.targets.iter().map(|target| match target {
        TargetEntry::Real(real) => real.rotational,
        TargetEntry::Simulated(_) | TargetEntry::Tree(_) => None,
    });
    let turns: Option<Vec<bool>> = turns.collect();
    let rotational = turns.map(|turns| turns.contains(&true));
    Ok((learnt, sizes.max().unwrap_or(Bytes(end)), rotational))
}
