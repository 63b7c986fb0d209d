//! Which broken checks something else explains that the verdict names.
//!
//! A device that cannot take its load is late, takes longer, fills its queue and never settles, and
//! who is told of six causes looks for six. So once everything is graded, each check that is broken
//! only because of another, or because of what the finding says, is attributed to that. It keeps
//! its grade and figures, and whoever requires it is told; but no headline and no warning names it.

use ioecho_trace::LateCause;

use super::checks::host::are_processors_taken;
use super::checks::witness::is_foreign_only;
use super::{DEVICE, fell_behind, is_broken};
use crate::facts::EngineFacts;
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Finding, Grade};

/// Attributes every broken check that is no cause of its own.
pub(super) fn explain(
    checks: &mut [Check],
    finding: Finding,
    figures: &RunFigures,
    engine: &EngineFacts,
) {
    let known = Known { checks, finding, figures, engine };
    let broken = checks.iter().map(|check| check.grade >= Grade::Limited);
    let causes: Vec<Option<&str>> = broken
        .zip(checks.iter())
        .map(|(is_broken, check)| if is_broken { known.cause_of(check) } else { None })
        .collect();
    for (check, cause) in checks.iter_mut().zip(causes) {
        check.explained_by = cause.map(str::to_owned);
    }
}

/// The cause of the device that made most of the lateness, if any did.
pub(super) fn most_of_device(figures: &RunFigures) -> Option<LateCause> {
    let cost = |cause: &LateCause| figures.late(*cause).lateness_ns;
    DEVICE.into_iter().max_by_key(|cause| cost(cause)).filter(|cause| cost(cause) > 0)
}

/// What is known of a run once all its checks are graded.
struct Known<'a> {
    checks: &'a [Check],
    finding: Finding,
    figures: &'a RunFigures,
    engine: &'a EngineFacts,
}

impl Known<'_> {
    fn cause_of(&self, check: &Check) -> Option<&'static str> {
        let is_limited = check.grade == Grade::Limited;
        match check.name.as_str() {
            "complete" if !self.engine.incomplete.is_empty() => Some(Finding::Incomplete.name()),
            "complete" => self.first_of(&["issued"]),
            "accounted" if self.engine.abandoned == 0 => self.first_of(&["recorder"]),
            "failures" => {
                // They are counted among those that were never answered.
                let are_unanswered = self.figures.failed() <= self.engine.abandoned;
                self.first_of(&["accounted"]).filter(|_| are_unanswered)
            }
            // By these two a finding shows.
            "lateness" | "duration" => self.of_device(is_limited).or_else(|| self.of_fault()),
            "percentiles" => self.of_fault().or_else(|| self.first_of(&["lateness"])),
            "queue-depth" => {
                // Whatever the length of a queue, a backlog that is never worked off fills it.
                let is_behind = is_broken(self.checks, "duration");
                // What a stall left waiting comes as a burst behind it.
                let burst = self.of_fault().filter(|_| is_limited);
                self.of_device(is_limited && is_behind).or(burst)
            }
            "conflicts" => self.of_conflicts(is_limited),
            "in-flight" => self.of_device(is_limited),
            "steady-state" => self.of_device(is_limited).or_else(|| self.of_unsteadiness()),
            "run-length" => self
                .first_of(&["steady-state"])
                .or_else(|| self.of_device(is_limited))
                .or_else(|| self.of_unsteadiness()),
            // Where the size of the recorded device is not known, its furthest request stands for
            // it, and both checks ask the same.
            "target-size" if self.engine.load.size.is_none() => self.first_of(&["wraparound"]),
            "wraparound" if self.engine.load.size.is_some() => self.first_of(&["target-size"]),
            "other-load" => self.of_foreign_load(),
            "witness" => self.of_device(is_limited).or_else(|| {
                let is_only = self.engine.witness.as_ref().is_some_and(is_foreign_only);
                self.of_foreign_load().filter(|_| is_only)
            }),
            _ => None,
        }
    }

    /// The first of these checks that did not pass.
    fn first_of(&self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| is_broken(self.checks, name))
    }

    fn of_finding(&self, finding: Finding, applies: bool) -> Option<&'static str> {
        (applies && self.finding == finding).then(|| finding.name())
    }

    fn of_device(&self, applies: bool) -> Option<&'static str> {
        self.of_finding(Finding::DeviceLimited, applies)
    }

    fn of_fault(&self) -> Option<&'static str> {
        let is_fault = matches!(self.finding, Finding::HostStalled | Finding::GeneratorLimited);
        is_fault.then(|| self.finding.name())
    }

    fn of_foreign_load(&self) -> Option<&'static str> {
        self.of_finding(Finding::ForeignLoad, true)
    }

    /// More is in flight than in the recording, or lies on fewer places, so more of it overlaps.
    fn of_conflicts(&self, is_limited: bool) -> Option<&'static str> {
        let is_smaller = self.engine.wraparound_factor.is_some_and(|factor| factor > 1.0);
        let smaller = self.first_of(&["wraparound"]).filter(|_| is_smaller);
        // Where the device's own queue grew, each conflict waits for it as well.
        let is_main = most_of_device(self.figures) == Some(LateCause::Conflict)
            && fell_behind(self.figures, self.engine).is_none();
        let more = self.first_of(&["in-flight"]).filter(|_| is_limited);
        smaller.or(more).or_else(|| self.of_device(is_limited && !is_main))
    }

    /// What else makes service times change in the middle of a run, on a device that does not.
    fn of_unsteadiness(&self) -> Option<&'static str> {
        let is_gone = self
            .checks
            .iter()
            .any(|check| check.name == "failures" && check.grade == Grade::Invalid);
        self.of_foreign_load()
            .or_else(|| self.first_of(&["other-load"]))
            .or_else(|| is_gone.then_some("failures"))
            .or_else(|| self.of_fault())
            .or_else(|| self.first_of(&["cpu"]).filter(|_| are_processors_taken(self.engine)))
            // What is written first where nothing was, is read afterwards where something is.
            .or_else(|| self.first_of(&["content"]))
    }
}

#[cfg(test)]
mod tests;
