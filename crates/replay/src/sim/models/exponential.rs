//! Exponentially distributed service times: memoryless, as in queueing theory's M/M/c, whose
//! results a replay can be held against.

use super::station::Station;
use super::{Arrival, exponential_ns, transfer_ns};
use crate::pattern::SplitMix64;
use crate::sim::SimSpec;

#[derive(Debug)]
pub(in crate::sim) struct Exponential {
    station: Station,
    service_ns: f64,
    bandwidth: u64,
}

impl Exponential {
    pub(super) fn new(spec: &SimSpec) -> Self {
        Self {
            station: Station::new(spec.units),
            service_ns: spec.service.0 as f64,
            bandwidth: spec.bandwidth,
        }
    }

    #[inline]
    pub(super) fn completes_ns(&mut self, arrival: &Arrival, random: &mut SplitMix64) -> i64 {
        let service = exponential_ns(self.service_ns, random);
        let service = service + transfer_ns(arrival.io, self.bandwidth);
        self.station.serve(arrival.now_ns, service)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, MANY};

    #[test]
    fn the_mean_of_an_idle_device_is_the_service_time() {
        let spec = "model=exp,units=1,service=80us,bandwidth=100000G".parse().unwrap();
        let mean = testing::mean_response_ns(&spec, 1e9, MANY);
        assert!((mean / 80_000.0 - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn under_random_arrivals_the_response_is_that_of_queueing_theory() {
        // M/M/1: response = service/(1−ρ). At ρ = 0.5 it is twice the service time, at 0.8 five
        // times.
        let spec = "model=exp,units=1,service=100us,bandwidth=100000G".parse().unwrap();
        for (gap, expected, tolerated) in [(200e3, 200e3, 0.03), (125e3, 500e3, 0.06)] {
            let mean = testing::mean_response_ns(&spec, gap, MANY);
            assert!((mean / expected - 1.0).abs() < tolerated, "{mean} for {expected}");
        }
        // M/M/4 at ρ = 0.75: Erlang's C is 0.5094, response = service·(1 + C/(4·(1−ρ))).
        let spec = "model=exp,units=4,service=100us,bandwidth=100000G".parse().unwrap();
        let mean = testing::mean_response_ns(&spec, 100e3 / 3.0, MANY);
        assert!((mean / 150_940.0 - 1.0).abs() < 0.03, "{mean}");
    }
}
