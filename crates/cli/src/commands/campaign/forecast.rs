//! How long the runs that are missing will take.
//!
//! A weekend has 60 hours. What earlier runs took is the best that is known; before the first, the
//! time that a run asks for, if it says so. Set-up and the end of a run come on top of that.

use ioecho_campaign::executor::{Executor, State};
use ioecho_campaign::plan::{Cell, is_simulated};
use ioecho_trace::Nanos;

use super::store::Held;

/// The time of the missing runs at most, if it is known.
pub(super) fn seconds(executor: &Executor<'_>, held: &Held) -> Option<f64> {
    let states = executor.cells().iter().zip(executor.states());
    let missing = states.filter(|(_, state)| **state == State::Missing).map(|(cell, _)| cell);
    if !held.clocks.is_empty() {
        let each = held.seconds() / held.clocks.len() as f64;
        return Some(each * executor.plan().turns(missing) as f64);
    }
    let each: Option<Vec<(&Cell, f64)>> =
        missing.map(|cell| Some((cell, of_cell(cell)?))).collect();
    Some(executor.plan().span_of(each?.into_iter()))
}

/// The same in words.
pub(super) fn told(executor: &Executor<'_>, held: &Held) -> String {
    match (seconds(executor, held), held.clocks.len()) {
        (None, _) => "not known before the first run: nothing says how long a run is".to_owned(),
        (Some(seconds), 0) => format!("{} of load at most", nanos(seconds)),
        (Some(seconds), runs) => {
            let each = held.seconds() / runs as f64;
            format!("{} at most, at {each:.1} s for a cell as so far", nanos(seconds))
        }
    }
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
fn of_cell(cell: &Cell) -> Option<f64> {
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
    fn time_that_is_left_is_never_none_of_it() {
        assert_eq!(left(0.2), "less than 1 s left");
        assert_eq!(left(90.0), "90.0 s left at most");
    }
}
