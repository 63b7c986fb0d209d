//! The clocks of several hosts, compared by messages.
//!
//! Replays on several hosts are to begin at one instant, and their results are to lie on one axis
//! of time. No two hosts have the same clock. But an answer was made between the question and its
//! arrival, so each question and answer bound the difference of two clocks from both sides, and
//! many of them, intersected, bound it closely. Nothing is assumed about the way of a message, such
//! as that both directions take as long; intervals are kept, not points (as in `TigerBeetle`'s
//! `vsr/clock.zig`, after Marzullo: *Maintaining the time in a distributed system*, 1984).

use serde::{Deserialize, Serialize};

/// By how much the rates of two clocks may differ. NTP slews by 500 ppm at most (adjtimex(2)), and
/// quartz crystals are off by less than 100 ppm each. What differs by more was set, or lies.
const DRIFT_MAX_PPM: i128 = 1_000;

/// By how much rates differ at most where that was not measured: what NTP slews by.
const DRIFT_UNKNOWN_PPM: i128 = 500;

/// A question to a host and its answer, each on `CLOCK_MONOTONIC` of the one who did it, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// When it was asked, on the clock here.
    pub sent_ns: i64,
    /// When it was answered, on the clock there.
    pub answered_ns: i64,
    /// When the answer was here, on the clock here.
    pub received_ns: i64,
}

/// What the clock there reads less what the clock here reads: a value within these ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offset {
    /// At least this, ns.
    pub low_ns: i64,
    /// At most this, ns.
    pub high_ns: i64,
}

impl Offset {
    /// What a question and its answer say.
    pub fn of(ping: &Ping) -> Self {
        Self {
            low_ns: ping.answered_ns.saturating_sub(ping.received_ns),
            high_ns: ping.answered_ns.saturating_sub(ping.sent_ns),
        }
    }

    /// What both say; `None` if they contradict each other, because a clock was set or lies.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        let low_ns = self.low_ns.max(other.low_ns);
        let high_ns = self.high_ns.min(other.high_ns);
        (low_ns <= high_ns).then_some(Self { low_ns, high_ns })
    }

    /// The value in the middle.
    pub fn middle_ns(self) -> i64 {
        self.low_ns.midpoint(self.high_ns)
    }

    /// How far the truth lies from the middle at most.
    pub fn bound_ns(self) -> i64 {
        let half = (i128::from(self.high_ns) - i128::from(self.low_ns) + 1) / 2;
        i64::try_from(half).unwrap_or(i64::MAX)
    }
}

/// An offset, and when it was found, on the clock here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// The middle of the time that it took, ns.
    pub at_ns: i64,
    /// The offset then.
    pub offset: Offset,
}

/// The offset at an instant of the clock here, from a comparison before it and one after it.
///
/// Between the two the clocks run at constant rates, so the offset lies between the lines from end
/// to end. Without a comparison after it, the rates may differ by what NTP slews by.
///
/// # Errors
///
/// In words, if no two clocks drift apart like that.
pub fn offset_at(
    before: &Compared,
    after: Option<&Compared>,
    at_ns: i64,
) -> Result<Offset, &'static str> {
    let wide = |ns: i64| i128::from(ns);
    let narrow = |ns: i128| i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX });
    let Some(after) = after else {
        let away = (wide(at_ns) - wide(before.at_ns)).abs() * DRIFT_UNKNOWN_PPM / 1_000_000 + 1;
        return Ok(Offset {
            low_ns: narrow(wide(before.offset.low_ns) - away),
            high_ns: narrow(wide(before.offset.high_ns) + away),
        });
    };
    let between = wide(after.at_ns) - wide(before.at_ns);
    let apart = (wide(after.offset.low_ns) - wide(before.offset.high_ns))
        .max(wide(before.offset.low_ns) - wide(after.offset.high_ns))
        .max(0);
    if between <= 0 || apart * 1_000_000 > between * DRIFT_MAX_PPM {
        return Err("its clock was set during the run, or does not tell the truth");
    }
    let since = (wide(at_ns) - wide(before.at_ns)).clamp(0, between);
    // Rounded outward.
    let on_line = |from: i64, to: i64, up: i128| {
        let rise = (wide(to) - wide(from)) * since;
        narrow(wide(from) + rise.div_euclid(between) + up)
    };
    Ok(Offset {
        low_ns: on_line(before.offset.low_ns, after.offset.low_ns, 0),
        high_ns: on_line(before.offset.high_ns, after.offset.high_ns, 1),
    })
}

/// Comparisons of one clock that go on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comparing {
    first_ns: i64,
    last_ns: i64,
    slowest_ns: i64,
    offset: Option<Offset>,
    is_broken: bool,
    count: u32,
}

impl Comparing {
    /// Adds a question and its answer.
    pub fn add(&mut self, ping: &Ping) {
        let found = Offset::of(ping);
        self.first_ns = if self.count == 0 { ping.sent_ns } else { self.first_ns };
        self.last_ns = ping.received_ns;
        self.slowest_ns = self.slowest_ns.max(ping.received_ns.saturating_sub(ping.sent_ns));
        self.count += 1;
        match self.offset.map_or(Some(found), |offset| offset.and(found)) {
            Some(offset) => self.offset = Some(offset),
            None => self.is_broken = true,
        }
    }

    /// How many were added.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How long the slowest answer took, ns.
    pub fn slowest_ns(&self) -> i64 {
        self.slowest_ns
    }

    /// What they say together.
    ///
    /// # Errors
    ///
    /// In words, if they contradict each other.
    pub fn compared(&self) -> Result<Option<Compared>, &'static str> {
        if self.is_broken {
            return Err("its clock was set while it was asked, or does not tell the truth");
        }
        let at_ns = self.first_ns.midpoint(self.last_ns);
        Ok(self.offset.map(|offset| Compared { at_ns, offset }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock there, which is ahead by `offset` and runs `ppm` faster.
    fn there(here_ns: i64, offset: i64, ppm: i64) -> i64 {
        here_ns + offset + here_ns / 1_000_000 * ppm
    }

    /// Numbers from a seed.
    fn draw(seed: &mut u64, end: i64) -> i64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*seed >> 33) as i64) % end
    }

    fn compared(begin_ns: i64, offset: i64, ppm: i64, seed: &mut u64) -> Compared {
        let (mut comparing, mut now) = (Comparing::default(), begin_ns);
        for _ in 0..200 {
            let sent_ns = now;
            // The two ways take different times, and sometimes long.
            let answered = sent_ns + 20_000 + draw(seed, 50_000) * (1 + draw(seed, 20) / 19 * 50);
            let received_ns = answered + 5_000 + draw(seed, 100_000);
            let answered_ns = there(answered, offset, ppm);
            comparing.add(&Ping { sent_ns, answered_ns, received_ns });
            now = received_ns + 1_000;
        }
        comparing.compared().unwrap().unwrap()
    }

    #[test]
    fn the_truth_lies_within_the_bound_whatever_the_ways_take() {
        for seed in 0..2_000_u64 {
            let seed = &mut seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let offset = draw(seed, 2_000_000_000_000) - 1_000_000_000_000;
            let ppm = draw(seed, 400) - 200;
            let before = compared(1_000_000_000, offset, ppm, seed);
            let at = 1_000_000_000 + draw(seed, 50_000_000_000);
            let after = compared(60_000_000_000, offset, ppm, seed);
            let truth = there(at, offset, ppm) - at;
            let found = offset_at(&before, Some(&after), at).unwrap();
            // A comparison takes a while, in which the clocks drift by less than these.
            let during = 20_000;
            assert!(found.low_ns - during <= truth && truth <= found.high_ns + during, "{found:?}");
            let alone = offset_at(&before, None, at).unwrap();
            assert!(alone.low_ns <= truth && truth <= alone.high_ns, "{alone:?} {truth}");
        }
    }

    #[test]
    fn many_answers_bound_closely_and_the_closest_decides() {
        let ping = |sent_ns, answered_ns, received_ns| Ping { sent_ns, answered_ns, received_ns };
        let one = Offset::of(&ping(100, 1_000_150, 300));
        assert_eq!(one, Offset { low_ns: 999_850, high_ns: 1_000_050 });
        let both = one.and(Offset::of(&ping(400, 1_000_390, 410))).unwrap();
        assert_eq!(both, Offset { low_ns: 999_980, high_ns: 999_990 });
        assert_eq!((both.middle_ns(), both.bound_ns()), (999_985, 5));
    }

    #[test]
    fn a_clock_that_lies_or_was_set_is_found() {
        let mut comparing = Comparing::default();
        comparing.add(&Ping { sent_ns: 0, answered_ns: 1_000, received_ns: 100 });
        comparing.add(&Ping { sent_ns: 200, answered_ns: 9_000, received_ns: 300 });
        assert!(comparing.compared().is_err());
        let compared = |at_ns, ns| Compared { at_ns, offset: Offset { low_ns: ns, high_ns: ns } };
        let before = compared(0, 0);
        assert!(offset_at(&before, Some(&compared(1_000_000_000, 900_000)), 5).is_ok());
        assert!(offset_at(&before, Some(&compared(1_000_000_000, 1_100_000)), 5).is_err());
        assert!(offset_at(&before, Some(&compared(0, 0)), 0).is_err());
    }

    #[test]
    fn no_number_of_a_stranger_breaks_the_arithmetic() {
        let ends = [i64::MIN, -1, 0, 1, i64::MAX];
        for one in ends {
            for other in ends {
                let ping = Ping { sent_ns: 5, answered_ns: one, received_ns: 9 };
                let offset = Offset::of(&ping);
                let _ = (offset.middle_ns(), offset.bound_ns());
                let before = Compared { at_ns: 5, offset };
                let after = Compared {
                    at_ns: 90,
                    offset: Offset::of(&Ping { answered_ns: other, ..ping }),
                };
                let _ = offset_at(&before, Some(&after), other);
                let _ = offset_at(&before, None, other);
            }
        }
    }
}
