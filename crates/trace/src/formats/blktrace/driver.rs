//! Times and reordering between queue and driver.
//!
//! A scheduler holds requests back and changes their order. The time and the extent of reordering
//! show whether a replay, which issues in the order of queueing, reaches the device as the recorded
//! load did. The time is `Q2D` of `btt`; reordering is counted as RFC 4737 (section 4) counts that
//! of packets, with queueing as sending and the hand-over to the driver as arrival.

use std::collections::VecDeque;

use crate::log_linear::{Histogram, greatest};
use crate::recording::{DriverFigures, Reordering};

/// The largest number of overtakers that are remembered for each device. A request is overtaken by
/// at most as many as are in flight, some thousands; a larger extent counts as this number.
const RECORDS_MAX: usize = 4096;

/// The largest number of devices whose reordering is counted.
const DEVICES_MAX: usize = 1024;

/// Times are accurate to 1/2^5.
const BITS: u32 = 5;

/// The times and the reordering that were seen.
#[derive(Debug, Default)]
pub(super) struct Driver {
    times: Histogram<BITS>,
    max: u64,
    orders: Vec<Arrivals>,
    reordering: Reordering,
}

/// The arrivals of one device at its driver.
#[derive(Debug, Default)]
struct Arrivals {
    count: u64,
    /// Arrivals that were queued later than all earlier arrivals: the number of the arrival and
    /// that of the queueing. Both only grow, so a binary search finds the first that overtook a
    /// request.
    records: VecDeque<(u64, u64)>,
}

impl Driver {
    /// Notes that a request, the `serial`-th that was queued, reached the driver `time` nanoseconds
    /// after its queueing.
    pub(super) fn note(&mut self, volume: u32, serial: u64, time: u64) {
        self.times.record(time);
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

    /// The figures; `None` if no request was seen.
    pub(super) fn figures(&self) -> Option<DriverFigures> {
        let at = |share| {
            let found = self.times.at(share);
            found.map_or(0, |(bin, ..)| greatest::<BITS>(bin).min(self.max))
        };
        (self.times.count() > 0).then(|| DriverFigures {
            seen: self.times.count(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.max,
            reordering: self.reordering,
        })
    }
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
