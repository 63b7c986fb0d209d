//! Every request takes the same time, so variation in a result is not due to the device.

use ioecho_trace::Op;

use super::station::Station;
use super::{Arrival, transfer_ns};
use crate::sim::SimSpec;

#[derive(Debug)]
pub(in crate::sim) struct Constant {
    station: Station,
    service_ns: f64,
    flush_ns: Option<i64>,
    bandwidth: u64,
}

impl Constant {
    pub(super) fn new(spec: &SimSpec) -> Self {
        Self {
            station: Station::new(spec.units),
            service_ns: spec.service.0 as f64,
            flush_ns: spec.flush_service.map(|time| time.0),
            bandwidth: spec.bandwidth,
        }
    }

    #[inline]
    pub(super) fn completes_ns(&mut self, arrival: &Arrival) -> i64 {
        if let Some(flush_ns) = self.flush_ns.filter(|_| arrival.io.op == Op::Flush) {
            return arrival.now_ns.saturating_add(flush_ns);
        }
        let service = self.service_ns + transfer_ns(arrival.io, self.bandwidth);
        self.station.serve(arrival.now_ns, service)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, MANY};

    #[test]
    fn a_lone_request_takes_the_service_time_and_its_transfer() {
        let spec = "model=const,units=1,service=100us,bandwidth=4M".parse().unwrap();
        // 4 KiB at 4 MiB/s take 976.5625 µs.
        assert_eq!(testing::alone(&spec, 4096), 1_076_562);
    }

    #[test]
    fn a_flush_may_take_a_time_of_its_own_and_waits_for_nobody() {
        let spec = |more: &str| format!("model=const,units=1,service=1ms{more}").parse().unwrap();
        let writes = [(0, 512); 4];
        assert_eq!(testing::flush_after_writes(&spec(",flush-service=30us"), writes), 30_000);
        assert_eq!(testing::flush_after_writes(&spec(""), writes), 1_000_000);
    }

    #[test]
    fn under_random_arrivals_the_wait_is_half_that_of_an_exponential_server() {
        // M/D/1 at half its capacity (Pollaczek and Khinchine): wait = ρ/2(1−ρ) = half a service.
        let spec = "model=const,units=1,service=100us,bandwidth=100000G".parse().unwrap();
        let mean = testing::mean_response_ns(&spec, 200_000.0, MANY);
        assert!((mean / 150_000.0 - 1.0).abs() < 0.03, "{mean}");
    }
}
