//! Compares a run with its witness.

use std::iter;
use std::sync::atomic::AtomicBool;

use ioecho_stats::facts::WitnessFacts;
use ioecho_stats::fidelity::{
    Asked, Blind, FidelityFigures, Limits, Pair, Recorded, Settings, compare,
};
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::{Header, Source, TimingMode};

use super::{aligned, finalise, raw_directory, seal};
use crate::directory::RunDirectory;
use crate::error::Result;
use crate::facts::{RunFacts, WitnessEntry};
use crate::{regular, results};

/// Whether the run has a witness that can be read.
pub(crate) fn holds(run: &RunDirectory) -> bool {
    run.witness().is_file() && run.requests().is_file()
}

/// The subject of a witness, and the alignment of its clock with the run's.
#[derive(Clone, Debug)]
pub(crate) struct Witnessed {
    /// The witness's entry in `run.toml`.
    entry: WitnessEntry,
    /// The run's time zero on `CLOCK_MONOTONIC`, ns; unknown for a run that was killed.
    zero_monotonic_ns: Option<i64>,
    /// The run's timing: without a schedule there are no due instants to compare with.
    timing: TimingMode,
}

impl Witnessed {
    /// From the facts of a run; `None` if no witness was asked for.
    pub(crate) fn of(facts: &RunFacts) -> Option<Self> {
        let (zero_monotonic_ns, timing) = (facts.zero_monotonic_ns, facts.timing());
        let entry = facts.witness.clone()?;
        Some(Self { entry, zero_monotonic_ns, timing })
    }

    /// For a run whose process was killed: converts the recording as far as it goes, and adds the
    /// result to `facts`. `None` if no witness was asked for.
    pub(crate) fn recovered(run: &RunDirectory, facts: &mut RunFacts) -> Option<Self> {
        let entry = facts.witness.as_mut()?;
        let raw = raw_directory(run.path());
        if raw.is_dir()
            && let Some(why) = finalise(&raw, run, &AtomicBool::new(false))
        {
            entry.incomplete = Some(why);
        }
        if let Some((bytes, sha256)) = seal::of(&run.witness()) {
            (entry.bytes, entry.sha256) = (Some(bytes), Some(sha256));
        }
        Self::of(facts)
    }

    /// The facts for the verdict. An incomplete witness counts as failed, because the requests that
    /// it did not see may have existed.
    pub(crate) fn facts(&self, run: &RunDirectory) -> WitnessFacts {
        let WitnessEntry { targets, without, incomplete, lost: told, .. } = &self.entry;
        if targets.is_empty() && !without.is_empty() {
            return WitnessFacts::failed(without.join("; "));
        }
        if let Some(why) = incomplete {
            return WitnessFacts::failed(why);
        }
        match figures(run, self, &mut |_| ()) {
            Ok((figures, header)) => match header.broken() {
                Some(damage) => WitnessFacts::failed(format!("the recording is damaged: {damage}")),
                // A killed recorder could not report its losses, but its events contain them.
                None => WitnessFacts::of(&figures, lost(&header).max(*told)),
            },
            Err(error) => WitnessFacts::failed(format!("{error:#}")),
        }
    }

    /// The target of a device in the witness.
    fn target(&self, header: &Header, volume: u32) -> Option<u32> {
        let name = &header.volumes.iter().find(|one| one.id.0 == volume)?.name;
        let known = self.entry.targets.iter().find(|one| one.device == *name);
        known.map(|one| one.target)
    }
}

/// The number of lost events according to a recording.
fn lost(header: &Header) -> u64 {
    let lost = header.recording.iter().flat_map(|recording| recording.lost.values());
    lost.fold(0, |all, lost| all.saturating_add(*lost))
}

/// Compares a run with its witness; `watch` receives each request that the device saw, with its
/// instants in the time of the run. The returned header is that of the witness at its end. Requests
/// of targets without a witness are left out.
pub(crate) fn figures(
    run: &RunDirectory,
    witnessed: &Witnessed,
    watch: &mut dyn FnMut(&Pair),
) -> Result<(FidelityFigures, Header)> {
    let options = ReadOptions::default();
    let asked = Asked::of_run(results::open(run, &options)?);
    let targets = &witnessed.entry.targets;
    let is_witnessed = |target: u32| targets.iter().any(|one| one.target == target);
    let asked = asked.filter(|event| event.as_ref().map_or(true, |one| is_witnessed(one.target)));
    let source = regular::trace(&run.witness(), &options)?;
    // Zero suffices for the run's duration, which only bounds how late a recording can have begun.
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
    // Losses and damage are known only at the end.
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
