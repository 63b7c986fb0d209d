//! Arrivals from sources that are on and off.
//!
//! Each source is on for a while and off for a while, independently; requests arrive as a Poisson
//! process, at a rate in proportion to the number of sources that are on. With exponential periods
//! the burstiness has one scale of time. With Pareto periods of the exponent α = 3 − 2H the sum is
//! self-similar with the Hurst parameter H (Willinger, Taqqu, Sherman, Wilson: "Self-similarity
//! through high-variability", 1997). Every source begins at a random place of its cycle with a
//! fresh period.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Drift;
use crate::generate::elementary::{exp, ln};
use crate::generate::random::{Random, Share};
use crate::units::Nanos;

/// Periods are shorter than this, 73 years, so that instants do not overflow.
const PERIOD_MAX_NS: f64 = (1_u64 << 61) as f64;

/// Superposed sources.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Sources {
    /// The exponent of the periods; `None` for exponential ones.
    alpha: Option<f64>,
    on_ns: f64,
    off_ns: f64,
    /// The mean distance of requests while one source is on.
    gap_ns: f64,
    /// The instant at which each source switches next.
    switches: BinaryHeap<Reverse<(i64, u32)>>,
    is_on: Vec<bool>,
    on: u32,
    at: Drift,
}

impl Sources {
    pub(super) fn new(
        hurst: Option<f64>,
        sources: u32,
        on: Nanos,
        off: Nanos,
        mean_gap_ns: f64,
        random: &mut Random,
    ) -> Self {
        let (on_ns, off_ns) = (on.0 as f64, off.0 as f64);
        let share = on_ns / (on_ns + off_ns);
        let mut all = Self {
            alpha: hurst.map(|hurst| 3.0 - 2.0 * hurst),
            on_ns,
            off_ns,
            gap_ns: mean_gap_ns * f64::from(sources) * share,
            switches: BinaryHeap::new(),
            is_on: Vec::new(),
            on: 0,
            at: Drift::default(),
        };
        for source in 0..sources {
            let is_on = random.chance(Share::from_fraction(share));
            all.is_on.push(is_on);
            all.on += u32::from(is_on);
            let period = all.period(is_on, random);
            all.switches.push(Reverse((period, source)));
        }
        all
    }

    /// The time for which a source stays as it is.
    fn period(&self, is_on: bool, random: &mut Random) -> i64 {
        let mean = if is_on { self.on_ns } else { self.off_ns };
        let period = match self.alpha {
            None => mean * random.exponential(),
            Some(alpha) => {
                let least = mean * (alpha - 1.0) / alpha;
                least * exp(-ln(random.unit()) / alpha)
            }
        };
        period.clamp(1.0, PERIOD_MAX_NS) as i64
    }

    pub(super) fn next(&mut self, random: &mut Random) -> Option<i64> {
        loop {
            let Reverse((switch, source)) = *self.switches.peek()?;
            if self.on > 0 {
                // The process has no memory, so a gap cut short by a switch is drawn anew.
                let gap = self.gap_ns / f64::from(self.on) * random.exponential();
                let mut at = self.at;
                let next = at.advance(gap)?;
                if next < switch {
                    self.at = at;
                    return Some(next);
                }
            }
            self.at.move_to(switch);
            let is_on = !self.is_on[source as usize];
            self.is_on[source as usize] = is_on;
            self.on = if is_on { self.on + 1 } else { self.on - 1 };
            let until = switch.checked_add(self.period(is_on, random))?;
            self.switches.pop();
            self.switches.push(Reverse((until, source)));
        }
    }
}
