//! How long the runs that are missing will take.
//!
//! A weekend has 60 hours. What a run asks for is known before it begins, if it says so; set-up and
//! the end of a run come on top of that, as earlier runs tell. Of a run that ends by other than
//! time only earlier ones of its kind tell: making a tree takes another time than a load on it.

use std::collections::BTreeMap;

use ioecho_campaign::executor::{Executor, State};
use ioecho_campaign::plan::{Cell, is_simulated};
use ioecho_trace::Nanos;
use ioecho_trace::workload::files::PHASE;

use super::store::Clock;

/// What runs have in common that may take about the same time: what they do to a tree, and whether
/// they say how long they are.
type Kind = (Option<String>, bool);

/// When attempts ran, by the keys of their cells and their numbers.
type Clocks = BTreeMap<(String, u32), Clock>;

/// What runs of a kind took so far, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    /// All of it.
    seconds: f64,
    /// What they took beyond what they asked for.
    beyond: f64,
    runs: u32,
}

/// What runs took so far, by which the missing ones are foretold.
#[derive(Debug, Default)]
pub(super) struct Forecast(BTreeMap<Kind, Took>);

impl Forecast {
    /// The one that follows from the attempts that a store holds.
    pub(super) fn new(executor: &Executor<'_>, clocks: &Clocks) -> Self {
        let mut forecast = Self::default();
        for cell in executor.cells() {
            let first = (cell.key.clone(), 0);
            let of_cell = clocks.range(first..).take_while(|((key, _), _)| *key == cell.key);
            of_cell.for_each(|(_, clock)| forecast.ended(cell, clock.seconds));
        }
        forecast
    }

    /// A run took so many seconds.
    pub(super) fn ended(&mut self, cell: &Cell, seconds: f64) {
        self.add(kind(cell), asked(cell), seconds);
    }

    fn add(&mut self, kind: Kind, asked: Option<f64>, seconds: f64) {
        let took = self.0.entry(kind).or_default();
        took.seconds += seconds;
        took.beyond += asked.map_or(0.0, |asked| (seconds - asked).max(0.0));
        took.runs += 1;
    }

    /// The time that a cell takes at most, if it is known.
    fn of_cell(&self, cell: &Cell) -> Option<f64> {
        let asked = asked(cell);
        // Of rounds only the most are known, and few cells need so many.
        let by_mean = cell.identity.rounds.is_some();
        self.expected(&kind(cell), asked, by_mean).or(asked)
    }

    /// The time of a run of this kind that asks for so many seconds.
    fn expected(&self, kind: &Kind, asked: Option<f64>, by_mean: bool) -> Option<f64> {
        let took = self.0.get(kind)?;
        let runs = f64::from(took.runs);
        match asked.filter(|_| !by_mean) {
            Some(asked) => Some(asked + took.beyond / runs),
            None => Some(took.seconds / runs),
        }
    }

    /// The time of the cells without a result at most, if it is known.
    pub(super) fn seconds(&self, executor: &Executor<'_>) -> Option<f64> {
        let states = executor.cells().iter().zip(executor.states());
        let left = states.filter(|(_, it)| matches!(it, State::Missing | State::Running));
        let each: Option<Vec<(&Cell, f64)>> =
            left.map(|(cell, _)| Some((cell, self.of_cell(cell)?))).collect();
        Some(executor.plan().span_of(each?.into_iter()))
    }

    /// The same in words.
    pub(super) fn told(&self, executor: &Executor<'_>) -> String {
        match (self.seconds(executor), self.0.is_empty()) {
            (None, _) => "not known: nothing says how long some of the runs are".to_owned(),
            (Some(seconds), true) => format!("{} of load at most", nanos(seconds)),
            (Some(seconds), false) => format!("{} at most, as the runs so far", nanos(seconds)),
        }
    }
}

fn kind(cell: &Cell) -> Kind {
    let phase = cell.point.iter().find(|(axis, _)| axis == PHASE);
    (phase.map(|(_, value)| value.clone()), asked(cell).is_some())
}

/// The time that is left while runs go on. Runs that end by other than time may take so little of
/// it that nothing would seem to be left.
pub(super) fn left(seconds: f64) -> String {
    match nanos(seconds) {
        Nanos::ZERO => "less than 1 s left".to_owned(),
        span => format!("{span} left at most"),
    }
}

/// A time of load.
fn nanos(seconds: f64) -> Nanos {
    // Fractions of a second are noise in a forecast.
    Nanos((seconds.round() * 1e9) as i64)
}

/// The time that a cell asks for; simulated time takes none.
fn asked(cell: &Cell) -> Option<f64> {
    if is_simulated(&cell.target) {
        return None;
    }
    let rounds = cell.identity.rounds.as_ref().map_or(1, |rounds| rounds.max);
    let replays: Option<f64> = cell.replays().iter().map(of_replay).sum();
    Some(replays? * f64::from(rounds))
}

fn of_replay(cell: &Cell) -> Option<f64> {
    let span = |key: &str| Some(cell.setting(key)?.parse::<Nanos>().ok()?.as_secs_f64());
    let speedup = || cell.setting("speedup").and_then(|it| it.parse::<f64>().ok()).unwrap_or(1.0);
    let of_load = || Some(span("duration")? / speedup());
    span("end-after").or_else(of_load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_asks_for_counts_and_means_are_those_of_its_kind() {
        let format: Kind = (Some("format".to_owned()), false);
        let (load, rounds): (Kind, Kind) = ((Some("-".to_owned()), true), (None, true));
        let mut forecast = Forecast::default();
        assert_eq!(forecast.expected(&load, Some(4.0), false), None);
        // Trees that are made in milliseconds say nothing of loads of seconds.
        forecast.add(format.clone(), None, 0.01);
        forecast.add(format.clone(), None, 0.03);
        assert_eq!(forecast.expected(&format, None, false), Some(0.02));
        assert_eq!(forecast.expected(&load, Some(4.0), false), None);
        forecast.add(load.clone(), Some(4.0), 4.5);
        forecast.add(load.clone(), Some(4.0), 3.0);
        assert_eq!(forecast.expected(&load, Some(60.0), false), Some(60.25));
        forecast.add(rounds.clone(), Some(250.0), 50.0);
        assert_eq!(forecast.expected(&rounds, Some(250.0), true), Some(50.0));
    }

    #[test]
    fn time_that_is_left_is_never_none_of_it() {
        assert_eq!(left(0.2), "less than 1 s left");
        assert_eq!(left(90.0), "90.0 s left at most");
    }
}
