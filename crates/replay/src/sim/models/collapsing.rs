//! A device that becomes slower the more requests are in flight.
//!
//! blkreplay's manual (section 3.1.4, measurements in chapter 5) shows devices whose throughput
//! falls to a third with 512 threads, and tells of some that fall below a tenth: like a cashier who
//! works the slower the longer her queue is. Up to the knee this one is an ordinary device; beyond
//! it, service times grow with a power of the number in flight, so a replay that lets the queue
//! grow sees a slower device than one that caps it.

use std::fmt;

use super::station::Station;
use super::{Arrival, exponential_ns, transfer_ns};
use crate::pattern::SplitMix64;
use crate::sim::SimSpec;
use crate::sim::spec::parsed;

/// What model `collapse` has beside `units` and `service`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollapseSpec {
    /// How many requests may be in flight before it slows down.
    pub knee: u32,
    /// Beyond, a request takes (in flight / knee)^steepness times as long; at 1, throughput falls
    /// as 1/in flight.
    pub steepness: f64,
    /// At most so many times as long.
    pub worst: f64,
}

impl Default for CollapseSpec {
    fn default() -> Self {
        Self { knee: 64, steepness: 1.0, worst: 10.0 }
    }
}

impl CollapseSpec {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "knee" => self.knee = parsed(key, value)?,
            "steepness" => self.steepness = parsed(key, value)?,
            _ => self.worst = parsed(key, value)?,
        }
        if self.knee == 0 {
            return Err("knee: at least one request must be allowed in flight".to_owned());
        }
        if !(0.0..=100.0).contains(&self.steepness) {
            return Err(format!("steepness: {value} is not from 0 to 100"));
        }
        if !(1.0..=1e6).contains(&self.worst) {
            return Err(format!("worst: {value} is not from 1 to 1000000"));
        }
        Ok(())
    }
}

impl fmt::Display for CollapseSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "knee={}, steepness={}, worst={}", self.knee, self.steepness, self.worst)
    }
}

#[derive(Debug)]
pub(in crate::sim) struct Collapsing {
    station: Station,
    own: CollapseSpec,
    service_ns: f64,
    bandwidth: u64,
}

impl Collapsing {
    pub(super) fn new(spec: &SimSpec, own: CollapseSpec) -> Self {
        Self {
            station: Station::new(spec.units),
            own,
            service_ns: spec.service.0 as f64,
            bandwidth: spec.bandwidth,
        }
    }

    pub(super) fn completes_ns(&mut self, arrival: &Arrival, random: &mut SplitMix64) -> i64 {
        let load = arrival.in_flight as f64 / f64::from(self.own.knee);
        let factor = load.max(1.0).powf(self.own.steepness).min(self.own.worst);
        let service = exponential_ns(self.service_ns, random);
        let service = service + transfer_ns(arrival.io, self.bandwidth);
        self.station.serve(arrival.now_ns, service * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use crate::sim::SimSpec;

    #[test]
    fn throughput_has_a_maximum_and_falls_to_its_worst_beyond() {
        let spec: SimSpec =
            "model=collapse,units=8,service=100us,knee=32,worst=10,bandwidth=100000G"
                .parse()
                .unwrap();
        let rate = |in_flight| testing::closed_loop_rate(&spec, in_flight, 20_000);
        let most = 8.0 / 100e-6;
        let near = |rate: f64, expected: f64| (rate / expected - 1.0).abs() < 0.05;
        assert!(near(rate(1), most / 8.0), "{}", rate(1));
        assert!(near(rate(32), most), "{}", rate(32));
        assert!(near(rate(64), most / 2.0), "{}", rate(64));
        assert!(near(rate(128), most / 4.0), "{}", rate(128));
        assert!(near(rate(4096), most / 10.0), "{}", rate(4096));
    }
}
