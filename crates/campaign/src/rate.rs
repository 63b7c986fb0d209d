//! Rates that are parts of what another run reached.
//!
//! `{50% of run 3}` in the line of a load is half of the requests per second of run 3, and
//! `{25% of 50% of run 3}` a quarter of that. What a run is asked for is a round number, so that
//! it can be read and typed: multiples of 100, below 100 of 10.

/// From here on rates are multiples of 100.
const COARSE: f64 = 100.0;

/// From here on they are multiples of 10.
const FINE: f64 = 10.0;

/// The least rate.
const LEAST: f64 = 1e-6;

/// A part of the rate of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The percentage of the whole run's new rate; 100 if it is all.
    pub share: f64,
    /// The percentage of the rate of the other run.
    pub percent: f64,
    /// The number of the other run, counted from 1.
    pub run: usize,
}

impl Part {
    /// The part that a name in braces stands for.
    pub fn read(name: &str) -> Option<Self> {
        let (parts, run) = name.rsplit_once("% of run ")?;
        let run = run.parse().ok().filter(|run| *run > 0)?;
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number));
        let (share, percent) = match parts.split_once("% of ") {
            Some((share, percent)) => (number(share)?, number(percent)?),
            None => (100.0, number(parts)?),
        };
        Some(Self { share, percent, run })
    }

    /// Its rate, in requests per second, if the other run reached this one.
    pub fn of(&self, reached: f64) -> f64 {
        let whole = reached * self.percent / 100.0;
        let step = if whole >= COARSE { COARSE } else { FINE };
        let whole = if whole < FINE { whole } else { (whole / step).round() * step };
        (whole * self.share / 100.0).max(LEAST)
    }

    /// The same as it is typed.
    pub fn typed(&self, reached: f64) -> String {
        let text = format!("{:.6}", self.of(reached));
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_and_its_rate_is_round() {
        let part = Part::read("50% of run 3").unwrap();
        assert_eq!(part, Part { share: 100.0, percent: 50.0, run: 3 });
        assert_eq!(part.typed(84_321.0), "42200");
        assert_eq!(part.typed(151.0), "80");
        assert_eq!(part.typed(3.0), "1.5");
        let quarter = Part::read("25% of 50% of run 3").unwrap();
        assert_eq!(quarter.typed(84_321.0), "10550");
        for wrong in ["50% of run 0", "of run 1", "x% of run 1", "50% of 2", "-1% of run 1", "a"] {
            assert_eq!(Part::read(wrong), None, "{wrong}");
        }
    }
}
