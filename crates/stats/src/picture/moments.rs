//! The moments at which a device was far slower than it mostly is.
//!
//! Seven stalls of a second in a minute own the 99th percentile, and a reader of that figure takes
//! the device for one that is always too slow. So they are found, counted and told apart. A
//! percentile cannot be the yardstick, because many stalls move it; the median is.

use ioecho_trace::Nanos;
use serde::Serialize;

use super::{Class, Panels};
use crate::raster::{Column, ROWS_PER_DECADE, edge, row};
use crate::timeline::{Cell, Timeline};

/// Requests that take a hundred times the median are slow: so many rows of a raster above it. A
/// queue at random arrivals has its slowest of a million requests at some twenty times the median
/// (exponential spans: ln 1e6 / ln 2).
const ROWS_ABOVE: usize = 2 * ROWS_PER_DECADE;

/// What takes less is never slow: on a device that answers within microseconds, a hundred times
/// that is still quick. An edge of two rows.
const LEAST: Nanos = Nanos::from_millis(10);

/// A part of the run in which requests took far longer than most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// The first bucket in which a slow request was submitted.
    pub from: usize,
    /// The last one.
    pub to: usize,
    /// The bucket behind the one in which the last of its slow requests was completed.
    pub end: usize,
    /// The slowest of them, in nanoseconds.
    pub slowest_ns: i64,
    /// Its class.
    #[serde(skip)]
    pub class: Class,
}

impl Panels {
    /// The row from which on a request is slow, and the counts of all rows; `None` where there is
    /// nothing.
    fn slow_rows(&self) -> Option<(usize, Column)> {
        let mut rows = Column::default();
        let columns = self.sonar.iter().flat_map(Timeline::cells);
        columns.for_each(|column| rows.merge(column));
        let above = rows.quantile(0.5)? + 1 + ROWS_ABOVE;
        Some((above.max(row(LEAST)), rows))
    }

    /// The share of the requests that were slow.
    pub(crate) fn slow_share(&self) -> f64 {
        let Some((slow, rows)) = self.slow_rows() else { return 0.0 };
        let sum = |rows: &[u32]| rows.iter().map(|count| u64::from(*count)).sum::<u64>();
        let rows = rows.rows().unwrap_or_default();
        sum(rows.get(slow..).unwrap_or_default()) as f64 / sum(rows).max(1) as f64
    }

    /// The moments at which the slowest request took more than a hundred times the median service
    /// time, and at least 10 ms, in the order of time. Slow requests that follow each other, or
    /// that were submitted while another was slow, are one moment.
    pub fn slow_moments(&self) -> Vec<Moment> {
        let Some((slow, _)) = self.slow_rows() else { return Vec::new() };
        let limit = edge(slow);
        let mut moments: Vec<Moment> = Vec::new();
        for bucket in 0..self.buckets {
            let slowest = Class::ALL
                .into_iter()
                .filter_map(|class| {
                    Some((self.service_max_ns[class.index()].get(bucket).copied()??, class))
                })
                .max_by_key(|(ns, _)| *ns);
            let Some((slowest_ns, class)) = slowest.filter(|(ns, _)| *ns >= limit) else {
                continue;
            };
            let took = usize::try_from(slowest_ns / self.width_ns.max(1)).unwrap_or(usize::MAX);
            let end = bucket.saturating_add(took).saturating_add(1);
            let here = Moment { from: bucket, to: bucket, end, slowest_ns, class };
            match moments.last_mut().filter(|last| bucket <= last.end) {
                Some(last) => {
                    last.to = bucket;
                    last.end = last.end.max(end);
                    if slowest_ns > last.slowest_ns {
                        (last.slowest_ns, last.class) = (slowest_ns, class);
                    }
                }
                None => moments.push(here),
            }
        }
        moments
    }

    /// The share of the buckets in which one of these moments was going on.
    pub(crate) fn share_of(&self, moments: &[Moment]) -> f64 {
        let covered: usize =
            moments.iter().map(|moment| moment.end.min(self.buckets) - moment.from).sum();
        covered as f64 / self.buckets.max(1) as f64
    }

    /// The share of the buckets with requests later than this that lie within one of these moments
    /// or, while it was worked off, behind it for as long again.
    pub(crate) fn late_share_within(&self, moments: &[Moment], late_ns: i64) -> f64 {
        let late = self.lateness_max_ns.iter().enumerate();
        let late: Vec<usize> = late
            .filter(|(_, most)| most.is_some_and(|most| most > late_ns))
            .map(|(bucket, _)| bucket)
            .collect();
        let is_within = |bucket: &&usize| {
            moments.iter().any(|moment| {
                let end = moment.end;
                let behind = end.saturating_add(end - moment.from);
                (moment.from.saturating_sub(1)..=behind).contains(*bucket)
            })
        };
        late.iter().filter(is_within).count() as f64 / late.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::Op;

    use super::super::RunPicture;
    use super::super::tests::{picture, request};
    use super::*;

    /// The panels of a read every millisecond for ten seconds, each with this service time.
    fn of(service: impl Fn(i64) -> Nanos) -> Panels {
        let requests = (0..10_000).map(|n| request(Op::Read, n * 1_000_000, 0, service(n).0));
        picture(&requests.collect::<Vec<_>>()).finish()
    }

    /// Half a second in which nothing completes, from this millisecond on.
    fn stalled(n: i64, from: i64) -> Option<Nanos> {
        (from..from + 500).contains(&n).then(|| Nanos::from_millis(from + 500 - n))
    }

    #[test]
    fn stalls_are_counted_one_by_one_however_many_own_the_percentiles() {
        let usual = Nanos::from_micros(100);
        let panels = of(|n| stalled(n, 2000).or(stalled(n, 7000)).unwrap_or(usual));
        let moments = panels.slow_moments();
        assert_eq!(moments.len(), 2, "{moments:?}");
        assert_eq!(moments[0].slowest_ns, 500_000_000);
        let at = moments[0].from as i64 * panels.width_ns;
        assert!((1_900_000_000..=2_000_000_000).contains(&at), "{at}");
        // A tenth of the time, to a bucket or two for each.
        let off = panels.share_of(&moments) - 0.1;
        assert!((0.0..4.0 / panels.buckets as f64 + 0.001).contains(&off), "{off}");
        // Of either stall the requests of 12 ms and more: the limit is the edge of a row at 11 ms.
        assert!((panels.slow_share() - 0.0978).abs() < 1e-9, "{}", panels.slow_share());
    }

    #[test]
    fn a_device_that_is_always_slow_has_no_slow_moments() {
        assert_eq!(of(|_| Nanos::from_millis(300)).slow_moments(), []);
        // Nor has one whose quick answers become a little less quick.
        let spread = |n: i64| Nanos::from_micros(if n % 100 == 0 { 9_000 } else { 60 });
        assert_eq!(of(spread).slow_moments(), []);
        assert_eq!(RunPicture::new().finish().slow_moments(), []);
    }
}
