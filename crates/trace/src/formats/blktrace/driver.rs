//! What happened between queue and driver.
//!
//! A scheduler holds requests back and changes their order. How long and how far says whether a
//! replay that issues by the queue's order reaches the device as the recorded load did. The time is
//! `Q2D` of `btt`; reordering is counted as RFC 4737 (section 4) counts that of packets, where
//! sending is being queued and arriving is being handed to the driver.

use std::collections::VecDeque;

use crate::recording::{DriverFigures, Reordering};

/// How many overtakers are remembered for each device. Requests do not overlap further than they
/// are deep in flight, which is some thousands at most; an extent beyond it counts as this.
const RECORDS_MAX: usize = 4096;

/// For how many devices reordering is counted.
const DEVICES_MAX: usize = 1024;

/// Each power of two is cut into this many classes.
const CLASSES: usize = 32;

/// What was seen of the driver.
#[derive(Debug, Default)]
pub(super) struct Driver {
    /// How often a time of each class was seen.
    times: Vec<u64>,
    seen: u64,
    max: u64,
    orders: Vec<Arrivals>,
    reordering: Reordering,
}

/// What arrived of one device.
#[derive(Debug, Default)]
struct Arrivals {
    count: u64,
    /// Arrivals that were queued later than all that arrived before: when they arrived and when
    /// they were queued. Both only grow, so the first that overtook a request is found by halving.
    records: VecDeque<(u64, u64)>,
}

impl Driver {
    /// A request, the `serial`-th that was queued, reached the driver `time` nanoseconds after.
    pub(super) fn note(&mut self, volume: u32, serial: u64, time: u64) {
        let class = class(time);
        if self.times.len() <= class {
            self.times.resize(class + 1, 0);
        }
        self.times[class] += 1;
        self.seen += 1;
        self.max = self.max.max(time);
        let volume = volume as usize;
        if volume >= DEVICES_MAX {
            return;
        }
        if self.orders.len() <= volume {
            self.orders.resize_with(volume + 1, Arrivals::default);
        }
        let arrivals = &mut self.orders[volume];
        arrivals.count += 1;
        self.reordering.of += 1;
        if arrivals.records.back().is_none_or(|&(_, queued)| queued <= serial) {
            if arrivals.records.len() == RECORDS_MAX {
                arrivals.records.pop_front();
            }
            arrivals.records.push_back((arrivals.count, serial));
            return;
        }
        let first = arrivals.records.partition_point(|&(_, queued)| queued <= serial);
        let overtaken = arrivals.records.get(first).map_or(arrivals.count, |&(at, _)| at);
        let extent = arrivals.count - overtaken;
        self.reordering.reordered += 1;
        self.reordering.extent_sum = self.reordering.extent_sum.saturating_add(extent);
        self.reordering.extent_max = self.reordering.extent_max.max(extent);
    }

    /// The figures, if anything was seen.
    pub(super) fn figures(&self) -> Option<DriverFigures> {
        (self.seen > 0).then(|| DriverFigures {
            seen: self.seen,
            p50_ns: self.quantile(500),
            p90_ns: self.quantile(900),
            p99_ns: self.quantile(990),
            p999_ns: self.quantile(999),
            max_ns: self.max,
            reordering: self.reordering,
        })
    }

    /// The upper end of the class in which so many thousandths of the times are reached.
    fn quantile(&self, thousandths: u64) -> u64 {
        let rank = u128::from(self.seen) * u128::from(thousandths);
        let rank = rank.div_ceil(1000).max(1);
        let mut sum = 0_u128;
        for (class, count) in self.times.iter().enumerate() {
            sum += u128::from(*count);
            if sum >= rank {
                return upper_end(class).min(self.max);
            }
        }
        self.max
    }
}

/// The class of a time: itself while it is small, then 32 classes for each power of two.
fn class(time: u64) -> usize {
    let classes = CLASSES as u64;
    if time < classes {
        return time as usize;
    }
    let shift = time.ilog2() - CLASSES.ilog2();
    (u64::from(shift) * classes + (time >> shift)) as usize
}

/// The greatest time of a class.
fn upper_end(class: usize) -> u64 {
    if class < CLASSES {
        return class as u64;
    }
    let shift = (class / CLASSES - 1) as u32;
    let first = ((class - shift as usize * CLASSES) as u64) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reordering(serials: &[u64]) -> Reordering {
        let mut driver = Driver::default();
        for serial in serials {
            driver.note(0, *serial, 1);
        }
        driver.figures().map_or(Reordering::default(), |figures| figures.reordering)
    }

    #[test]
    fn extents_are_those_of_the_rfc() {
        // RFC 4737, section 4.2.3, its second example: 4 and 5 were overtaken by 6.
        let expected = Reordering { of: 10, reordered: 2, extent_sum: 3, extent_max: 2 };
        assert_eq!(reordering(&[1, 2, 3, 6, 4, 5, 7, 8, 9, 10]), expected);
        let expected = Reordering { of: 10, reordered: 1, extent_sum: 4, extent_max: 4 };
        assert_eq!(reordering(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]), expected);
    }

    proptest! {
        #[test]
        fn reordering_is_counted_as_by_looking_at_all_pairs(
            serials in proptest::collection::vec(0_u64..50, 0..60),
        ) {
            let found = reordering(&serials);
            let extent = |at: usize| {
                let overtaker = serials[..at].iter().position(|other| *other > serials[at]);
                overtaker.map(|first| (at - first) as u64)
            };
            let extents: Vec<_> = (0..serials.len()).filter_map(extent).collect();
            prop_assert_eq!(found.reordered, extents.len() as u64);
            prop_assert_eq!(found.extent_sum, extents.iter().sum::<u64>());
            prop_assert_eq!(found.extent_max, extents.iter().copied().max().unwrap_or(0));
        }

        #[test]
        fn a_class_holds_its_times_and_is_narrow(time in any::<u64>()) {
            let end = upper_end(class(time));
            prop_assert!(end >= time && end - time <= time / 32);
            prop_assert!(class(time) == 0 || upper_end(class(time) - 1) < time);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut driver = Driver::default();
        for time in 1..=1000 {
            driver.note(0, time, time);
        }
        let figures = driver.figures().unwrap();
        assert!((500..=516).contains(&figures.p50_ns), "{figures:?}");
        assert!((990..=1000).contains(&figures.p99_ns), "{figures:?}");
        assert_eq!(figures.max_ns, 1000);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut driver = Driver::default();
        for serial in 0..10_000 {
            driver.note(0, serial, u64::MAX);
            driver.note(u32::MAX, serial, 0);
        }
        assert_eq!(driver.orders[0].records.len(), RECORDS_MAX);
        assert_eq!(driver.orders.len(), 1);
    }
}
