//! A run held against its witness.

use std::iter;

use ioecho_stats::fidelity::{
    Asked, FidelityFigures, Limits, Pair, Recorded, Settings, compare,
};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Header, Source};

use crate::run::directory::RunDirectory;

/// Whether the run has a witness that can be read.
pub(crate) fn holds(run: &RunDirectory) -> bool {
    run.witness().is_file() && run.requests().is_file()
}

/// How both find to each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alignment {
    /// The run's time zero on `CLOCK_MONOTONIC`, ns; unknown of a run that was killed.
    pub(crate) zero_monotonic_ns: Option<i64>,
    /// The names of the recorded devices and the targets that they are.
    pub(crate) targets: Vec<(String, u32)>,
}

impl Alignment {
    /// As `run.toml` has it.
    pub(crate) fn of(facts: &toml::Table) -> Self {
        let zero = facts.get("plan").and_then(|plan| plan.get("zero_monotonic_ns"));
        let targets = facts.get("witness").and_then(|witness| witness.get("targets")?.as_array());
        let of_target = |entry: &toml::Value| {
            let device = entry.get("device")?.as_str()?.to_owned();
            let target = entry.get("target")?.as_integer()?;
            Some((device, u32::try_from(target).ok()?))
        };
        Self {
            zero_monotonic_ns: zero.and_then(toml::Value::as_integer),
            targets: targets.into_iter().flatten().filter_map(of_target).collect(),
        }
    }

    /// The target that a device of the witness is.
    fn target(&self, header: &Header, volume: u32) -> Option<u32> {
        let name = &header.volumes.iter().find(|one| one.id.0 == volume)?.name;
        let known = self.targets.iter().find(|(device, _)| device == name);
        known.map(|(_, target)| *target)
    }
}

/// Compares a run with its witness; `watch` is told of each request that the device saw, with its
/// instants in the time of the run. Requests of targets without a witness are left out.
pub(crate) fn figures(
    run: &RunDirectory,
    alignment: &Alignment,
    watch: &mut dyn FnMut(&Pair),
) -> anyhow::Result<(FidelityFigures, Header)> {
    let options = ReadOptions::default();
    let asked = Asked::of_run(formats::open(&run.requests(), &options)?);
    let is_witnessed = |target: u32| alignment.targets.iter().any(|(_, one)| *one == target);
    let asked = asked.filter(|event| event.as_ref().map_or(true, |one| is_witnessed(one.target)));
    let source = formats::open(&run.witness(), &options)?;
    let header = source.header().clone();
    let zero = header.recording.as_ref().and_then(|recording| recording.zero_monotonic_ns);
    let zero = zero.and_then(|zero| i64::try_from(zero).ok());
    let shift = zero.zip(alignment.zero_monotonic_ns).map(|(of, run)| of.saturating_sub(run));
    let mut seen = Recorded::new(source, shift.unwrap_or(0), |volume, source: &Box<dyn Source>| {
        alignment.target(source.header(), volume)
    });
    let settings = Settings {
        absolute: shift.is_some(),
        late_ns: Limits::default().late_ns(),
        ..Settings::default()
    };
    let figures = compare(asked, iter::from_fn(|| seen.next()), &settings, watch)?;
    Ok((figures, header))
}
