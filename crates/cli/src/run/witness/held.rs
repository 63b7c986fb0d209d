//! A run held against its witness.

use std::iter;
use std::sync::atomic::AtomicBool;

use ioecho_stats::facts::WitnessFacts;
use ioecho_stats::fidelity::{
    Asked, Blind, FidelityFigures, Limits, Pair, Recorded, Settings, compare,
};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::recording::NEVER_ENDED;
use ioecho_trace::{Header, Source, TimingMode};

use super::{WitnessEntry, aligned, raw_directory, seal, settle};
use crate::run::directory::RunDirectory;
use crate::run::error::Result;

/// Whether the run has a witness that can be read.
pub(crate) fn holds(run: &RunDirectory) -> bool {
    run.witness().is_file() && run.requests().is_file()
}

/// What a witness is of, and how it and the run find to each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witnessed {
    /// The run's time zero on `CLOCK_MONOTONIC`, ns; unknown of a run that was killed.
    zero_monotonic_ns: Option<i64>,
    /// The names of the recorded devices and the targets that they are.
    targets: Vec<(String, u32)>,
    /// Why it does not tell everything.
    incomplete: Option<String>,
    /// Events that the recorder lost.
    lost: u64,
    /// Targets of which there is none, and why.
    without: Vec<String>,
    /// When its requests were issued: without a schedule there is nothing to hold instants against.
    timing: TimingMode,
}

impl Witnessed {
    /// Of a run that has just ended.
    pub(crate) fn new(
        entry: &WitnessEntry,
        zero_monotonic_ns: Option<i64>,
        timing: TimingMode,
    ) -> Self {
        let targets = entry.targets.iter().map(|one| (one.device.clone(), one.target as u32));
        Self {
            zero_monotonic_ns,
            targets: targets.collect(),
            incomplete: entry.incomplete.clone(),
            lost: entry.lost,
            without: entry.without.clone(),
            timing,
        }
    }

    /// Of a run whose process was killed: makes a trace of what was recorded until then. None where
    /// no witness was asked for.
    /// What it comes to is added to `facts`.
    pub(crate) fn recovered(
        run: &RunDirectory,
        facts: &mut toml::Table,
        timing: TimingMode,
    ) -> Option<Self> {
        let mut witnessed = Self::of(facts, timing);
        let entry = facts.get_mut("witness")?.as_table_mut()?;
        let raw = raw_directory(run.path());
        if raw.is_dir()
            && let Some(why) = settle(&raw, run, &AtomicBool::new(false))
        {
            entry.insert("incomplete".to_owned(), why.clone().into());
            witnessed.incomplete = Some(why);
        }
        if let Some((bytes, sha256)) = seal::of(&run.witness()) {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            entry.insert("bytes".to_owned(), bytes.into());
            entry.insert("sha256".to_owned(), sha256.into());
        }
        Some(witnessed)
    }

    /// As `run.toml` has it.
    pub(crate) fn of(facts: &toml::Table, timing: TimingMode) -> Self {
        let zero = facts.get("zero_monotonic_ns");
        let entry = facts.get("witness");
        let targets = entry.and_then(|entry| entry.get("targets")?.as_array());
        let of_target = |entry: &toml::Value| {
            let device = entry.get("device")?.as_str()?.to_owned();
            let target = entry.get("target")?.as_integer()?;
            Some((device, u32::try_from(target).ok()?))
        };
        Self {
            zero_monotonic_ns: zero.and_then(toml::Value::as_integer),
            targets: targets.into_iter().flatten().filter_map(of_target).collect(),
            incomplete: entry
                .and_then(|entry| entry.get("incomplete")?.as_str())
                .map(ToOwned::to_owned),
            lost: entry
                .and_then(|entry| u64::try_from(entry.get("lost")?.as_integer()?).ok())
                .unwrap_or_default(),
            without: without(facts),
            timing,
        }
    }

    /// What the verdict has to know. A witness that tells only a part is none to judge by: what it
    /// did not see may have been there.
    pub(crate) fn facts(&self, run: &RunDirectory) -> WitnessFacts {
        if self.targets.is_empty() && !self.without.is_empty() {
            return WitnessFacts::failed(self.without.join("; "));
        }
        if let Some(why) = &self.incomplete {
            return WitnessFacts::failed(why);
        }
        match figures(run, self, &mut |_| ()) {
            Ok((_, Header { damage: Some(damage), .. })) if damage != NEVER_ENDED => {
                WitnessFacts::failed(format!("the recording is damaged: {damage}"))
            }
            Ok((figures, header)) => {
                // A recorder that was killed could not say what it had lost; its events do.
                WitnessFacts::of(&figures, self.lost.max(lost(&header)))
            }
            Err(error) => WitnessFacts::failed(format!("{error:#}")),
        }
    }

    /// The target that a device of the witness is.
    fn target(&self, header: &Header, volume: u32) -> Option<u32> {
        let name = &header.volumes.iter().find(|one| one.id.0 == volume)?.name;
        let known = self.targets.iter().find(|(device, _)| device == name);
        known.map(|(_, target)| *target)
    }
}

/// Why targets of a run have no witness, where one was asked for.
pub(crate) fn without(facts: &toml::Table) -> Vec<String> {
    let all = facts.get("witness").and_then(|entry| entry.get("without")?.as_array());
    all.into_iter().flatten().filter_map(|why| Some(why.as_str()?.to_owned())).collect()
}

/// The events that a recording says were lost.
fn lost(header: &Header) -> u64 {
    let lost = header.recording.iter().flat_map(|recording| recording.lost.values());
    lost.fold(0, |all, lost| all.saturating_add(*lost))
}

/// Compares a run with its witness; `watch` is told of each request that the device saw, with its
/// instants in the time of the run. The header is that of the witness at its end. Requests of
/// targets without a witness are left out.
pub(crate) fn figures(
    run: &RunDirectory,
    witnessed: &Witnessed,
    watch: &mut dyn FnMut(&Pair),
) -> Result<(FidelityFigures, Header)> {
    let options = ReadOptions::default();
    let asked = Asked::of_run(formats::open(&run.requests(), &options)?);
    let is_witnessed = |target: u32| witnessed.targets.iter().any(|(_, one)| *one == target);
    let asked = asked.filter(|event| event.as_ref().map_or(true, |one| is_witnessed(one.target)));
    let source = formats::open(&run.witness(), &options)?;
    // How long the run took says only that a recording cannot have begun later.
    let shift = aligned::shift(witnessed.zero_monotonic_ns, source.header(), 0);
    let mut seen = Recorded::new(source, shift.unwrap_or(0), |volume, header| {
        witnessed.target(header, volume)
    });
    let settings = Settings {
        absolute: shift.is_some(),
        late_ns: Limits::default().late_ns(),
        has_schedule: witnessed.timing.has_schedule(),
        ..Settings::default()
    };
    let compared = compare(asked, iter::from_fn(|| seen.next()), &settings, watch)?;
    // Losses and damage are known only now.
    let header = seen.source().header().clone();
    let figures = compared.figures(&Blind::of(&header, shift.unwrap_or(0)));
    Ok((figures, header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::recording::Recording;

    #[test]
    fn losses_of_all_processors_are_summed_up() {
        assert_eq!(lost(&Header::default()), 0);
        let recording =
            Recording { lost: [(0, 3), (1, 4)].into_iter().collect(), ..Recording::default() };
        let header = Header { recording: Some(recording.clone()), ..Header::default() };
        assert_eq!(lost(&header), 7);
        let endless =
            Recording { lost: [(0, u64::MAX), (1, 4)].into_iter().collect(), ..recording };
        assert_eq!(lost(&Header { recording: Some(endless), ..Header::default() }), u64::MAX);
    }
}
