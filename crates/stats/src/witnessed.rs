//! A run as its device saw it, ready to be drawn.
//!
//! The figures of [`crate`]'s comparison of a run with its witness say how large errors are; where
//! in the run they lie, and which part of a latency is the device's own, only a picture shows.
//! Memory is bounded whatever the run's length: cells of a fixed raster and histograms.

use std::collections::BTreeMap;

use ioecho_trace::Nanos;

use crate::analysis::shape::{Axis, Curve, Grid, Quantity, Scale, Series};
use crate::histogram::Latencies;

/// Columns of the map, and steps of what is in flight.
const STEPS: u32 = 512;

/// The lowest edge of the map's rows, ns, and how many rows make a power of ten.
const LOWEST_NS: f64 = 100.0;
const PER_DECADE: u32 = 10;

/// Rows of the map: up to 300 years, beyond what 64 bits hold.
const ROWS: u32 = 17 * PER_DECADE;

/// A request of the run that the device saw. Instants are those of the run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// When it was to be issued; `None` without a schedule.
    pub due: Option<i64>,
    /// When it was handed to the kernel, as the engine says.
    pub submitted: Option<i64>,
    /// When the engine saw its completion.
    pub completed: Option<i64>,
    /// When the device saw it.
    pub seen: i64,
    /// How long the device took, where that is known.
    pub latency: Option<i64>,
}

/// What is gathered of all requests.
#[derive(Clone, Debug)]
pub struct WitnessPanels {
    step_ns: i64,
    late: BTreeMap<(u32, u32), u64>,
    early: u64,
    issue_at_device: Latencies,
    issue_of_engine: Latencies,
    service_at_device: Latencies,
    service_of_engine: Latencies,
    flight_at_device: Flight,
    flight_of_engine: Flight,
}

impl WitnessPanels {
    /// Panels of a run that ends at this instant.
    pub fn new(end: Nanos) -> Self {
        let step_ns = (end.0.max(1) / i64::from(STEPS)).saturating_add(1);
        Self {
            step_ns,
            late: BTreeMap::new(),
            early: 0,
            issue_at_device: Latencies::new(),
            issue_of_engine: Latencies::new(),
            service_at_device: Latencies::new(),
            service_of_engine: Latencies::new(),
            flight_at_device: Flight::new(step_ns),
            flight_of_engine: Flight::new(step_ns),
        }
    }

    /// Adds a request.
    pub fn observe(&mut self, sight: &Sight) {
        if let Some(due) = sight.due {
            let delay = sight.seen.saturating_sub(due);
            if delay < 0 {
                self.early += 1;
            }
            let column = (due.max(0) / self.step_ns).min(i64::from(STEPS) - 1) as u32;
            *self.late.entry((column, row(delay))).or_default() += 1;
            self.issue_at_device.record(Nanos(delay));
            if let Some(submitted) = sight.submitted {
                self.issue_of_engine.record(Nanos(submitted.saturating_sub(due)));
            }
        }
        if let Some(latency) = sight.latency {
            self.service_at_device.record(Nanos(latency));
            self.flight_at_device.add(sight.seen, sight.seen.saturating_add(latency));
        }
        if let (Some(submitted), Some(completed)) = (sight.submitted, sight.completed) {
            self.service_of_engine.record(Nanos(completed.saturating_sub(submitted)));
            self.flight_of_engine.add(submitted, completed);
        }
    }

    /// Requests that the device saw before they were due. The engine never issues early, so this is
    /// the distance of the two clocks, or the recorder's.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Requests whose delay is less than the lowest row of the map shows.
    pub fn below_map(&self) -> u64 {
        self.late.iter().filter(|((_, row), _)| *row == 0).map(|(_, count)| count).sum()
    }

    /// How late requests reached the device, over the instants at which they were due.
    pub fn map(&self) -> Grid {
        Grid {
            name: "requests".to_owned(),
            x: Axis {
                quantity: Quantity::new("time", "ns"),
                scale: Scale::Linear { from: 0.0, step: self.step_ns as f64 },
                cells: STEPS,
            },
            y: Axis {
                quantity: Quantity::new("delay", "ns"),
                scale: Scale::Logarithmic { lowest: LOWEST_NS, per_decade: PER_DECADE },
                cells: ROWS,
            },
            cells: self.late.iter().map(|((x, y), count)| (*x, *y, *count)).collect(),
        }
    }

    /// Percentiles of the delay, which has what is constant in it: at the device and as the engine
    /// believes.
    pub fn issue(&self) -> [Curve; 2] {
        [
            curve(&self.issue_at_device, "at the device"),
            curve(&self.issue_of_engine, "as the engine says"),
        ]
    }

    /// Percentiles of service time: the device's own and what the engine measured.
    pub fn service(&self) -> [Curve; 2] {
        [
            curve(&self.service_at_device, "of the device"),
            curve(&self.service_of_engine, "as the engine measured"),
        ]
    }

    /// The mean number of requests in flight: at the device and as the engine counts.
    pub fn in_flight(&self) -> [Series; 2] {
        [
            self.flight_at_device.series("at the device"),
            self.flight_of_engine.series("as the engine counts"),
        ]
    }
}

/// The row of an error.
fn row(error_ns: i64) -> u32 {
    let decades = (error_ns.max(1) as f64 / LOWEST_NS).log10();
    (decades * f64::from(PER_DECADE)).max(0.0) as u32
}

fn curve(of: &Latencies, name: &str) -> Curve {
    Curve {
        name: name.to_owned(),
        x: Quantity::new("share of requests", "1"),
        y: Quantity::new("time", "ns"),
        points: of.curve().into_iter().map(|(nines, ns)| (nines, ns as f64)).collect(),
    }
}

/// The mean number in flight in steps of time. A request counts with the share of each step in
/// which it was in flight; those between its first and its last are counted by where they begin and
/// end, so that the length of a request costs nothing.
#[derive(Clone, Debug)]
struct Flight {
    step_ns: i64,
    /// Time of requests that do not fill the step.
    part: Vec<f64>,
    /// By how many more requests fill this step than the one before.
    more: Vec<i64>,
    any: bool,
}

impl Flight {
    fn new(step_ns: i64) -> Self {
        let steps = STEPS as usize;
        Self { step_ns, part: vec![0.0; steps], more: vec![0; steps + 1], any: false }
    }

    fn add(&mut self, from: i64, to: i64) {
        let end = self.step_ns.saturating_mul(i64::from(STEPS)).saturating_sub(1);
        let (from, to) = (from.clamp(0, end), to.clamp(0, end));
        if to < from {
            return;
        }
        self.any = true;
        let (first, last) = ((from / self.step_ns) as usize, (to / self.step_ns) as usize);
        if first == last {
            self.part[first] += (to - from) as f64;
            return;
        }
        self.part[first] += (self.step_ns - from % self.step_ns) as f64;
        self.part[last] += (to % self.step_ns) as f64;
        self.more[first + 1] += 1;
        self.more[last] -= 1;
    }

    fn series(&self, name: &str) -> Series {
        let mut filling = 0;
        let values = self.part.iter().zip(&self.more).map(|(part, more)| {
            filling += more;
            Some(filling as f64 + part / self.step_ns as f64)
        });
        Series {
            name: name.to_owned(),
            quantity: Quantity::new("requests in flight", "requests"),
            start_ns: 0,
            step_ns: self.step_ns,
            values: if self.any { values.collect() } else { Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(due: i64, seen: i64, latency: i64) -> Sight {
        Sight {
            due: Some(due),
            submitted: Some(due.saturating_add(10)),
            completed: Some(seen.saturating_add(latency).saturating_add(5)),
            seen,
            latency: Some(latency),
        }
    }

    #[test]
    fn what_is_in_flight_adds_up_to_the_time_of_all_requests() {
        let mut panels = WitnessPanels::new(Nanos(512_000));
        let sights = [(0, 100), (5_000, 200_000), (100_000, 3), (511_000, 900)];
        for (seen, latency) in sights {
            panels.observe(&sight(seen, seen, latency));
        }
        let [at_device, of_engine] = panels.in_flight();
        let sum =
            |series: &Series| series.values.iter().flatten().sum::<f64>() * series.step_ns as f64;
        assert!((sum(&at_device) - 201_003.0).abs() < 1e-3, "{}", sum(&at_device));
        let ours: i64 = sights.iter().map(|(_, latency)| latency + 5 - 10).sum();
        // A request that the engine saw completed before it was handed over has no time.
        assert!((sum(&of_engine) - (ours + 2) as f64).abs() < 1e-3, "{}", sum(&of_engine));
        assert_eq!(at_device.values[50], Some(1.0));
    }

    #[test]
    fn every_request_lies_in_the_map_once() {
        let mut panels = WitnessPanels::new(Nanos(1_000_000));
        for n in 0..100 {
            panels.observe(&sight(n * 10_000, n * 10_000 + n * n * 1_000 - 50, 10));
        }
        let map = panels.map();
        assert_eq!(map.cells.iter().map(|cell| cell.2).sum::<u64>(), 100);
        assert!(map.cells.iter().all(|(x, y, _)| *x < STEPS && *y < ROWS));
        assert_eq!(panels.early(), 1);
        assert_eq!(row(999), 9);
        assert_eq!(row(1_000), 10);
    }

    #[test]
    fn instants_of_any_size_are_borne() {
        let mut panels = WitnessPanels::new(Nanos(i64::MAX));
        for at in [i64::MIN, -1, 0, i64::MAX] {
            panels.observe(&sight(at.saturating_sub(10), at, i64::MAX - 5));
        }
        let mut empty = WitnessPanels::new(Nanos(-5));
        empty.observe(&Sight { due: Some(0), ..Sight::default() });
        assert!(empty.in_flight()[0].values.is_empty());
        assert_eq!((empty.map().cells.len(), empty.below_map()), (1, 1));
        assert!(empty.service()[0].points.is_empty());
    }

    #[test]
    fn without_a_schedule_nothing_is_drawn_of_delays() {
        let mut panels = WitnessPanels::new(Nanos(1_000_000));
        panels.observe(&Sight { due: None, ..sight(5, 500, 10) });
        assert!(panels.map().cells.is_empty());
        assert!(panels.issue().iter().all(|curve| curve.points.is_empty()));
        assert!(!panels.service()[0].points.is_empty());
    }
}
