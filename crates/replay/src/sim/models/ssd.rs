//! Flash: units that work in parallel, addresses striped over them, and a cleaner that gets in the
//! way.
//!
//! A drive's throughput comes from its parallel units, so the time of a request depends on which
//! units others keep busy: small requests on one stripe queue while the rest of the drive idles.
//! Reads and programs take different times, and now and then a write waits for garbage collection.

use std::fmt;

use ioecho_trace::{Bytes, Nanos, Op};

use super::Arrival;
use crate::device::Io;
use crate::pattern::SplitMix64;
use crate::sim::SimSpec;
use crate::sim::spec::{parsed, share_and_time};

/// What model `ssd` has beside `units`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdSpec {
    /// So many bytes lie on one unit, the next so many on the next.
    pub stripe: Bytes,
    /// What reading a stripe takes, its transfer aside.
    pub read: Nanos,
    /// What programming a stripe takes, its transfer aside.
    pub program: Nanos,
    /// The share of writes that wait for garbage collection …
    pub gc_share: f64,
    /// … for so long. Whatever else is for that unit waits too.
    pub gc: Nanos,
}

impl Default for SsdSpec {
    fn default() -> Self {
        Self {
            stripe: Bytes(4096),
            read: Nanos::from_micros(60),
            program: Nanos::from_micros(200),
            gc_share: 0.0,
            gc: Nanos::ZERO,
        }
    }
}

impl SsdSpec {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "stripe" => self.stripe = parsed(key, value)?,
            "read" => self.read = parsed(key, value)?,
            "program" => self.program = parsed(key, value)?,
            _ => (self.gc_share, self.gc) = share_and_time(key, value)?,
        }
        if self.stripe.0.is_power_of_two() && self.stripe.0 >= 512 {
            Ok(())
        } else {
            Err(format!("stripe: {} is no power of two from 512 bytes on", self.stripe))
        }
    }
}

impl fmt::Display for SsdSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stripe, read, program, gc_share, gc } = self;
        write!(f, "stripe={stripe}, read={read}, program={program}, gc={gc_share}:{gc}")
    }
}

#[derive(Debug)]
pub(in crate::sim) struct Ssd {
    own: SsdSpec,
    bandwidth: u64,
    /// When each unit is free again.
    free_ns: Vec<i64>,
}

impl Ssd {
    pub(super) fn new(spec: &SimSpec, own: SsdSpec) -> Self {
        let free_ns = vec![0; spec.units.max(1) as usize];
        Self { own, bandwidth: spec.bandwidth, free_ns }
    }

    pub(super) fn completes_ns(&mut self, arrival: &Arrival, random: &mut SplitMix64) -> i64 {
        let (io, now) = (arrival.io, arrival.now_ns);
        match io.op {
            Op::Read if io.length.0 > 0 => self.on_units(io, now, self.own.read.0),
            Op::Write if io.length.0 > 0 => {
                if self.own.gc_share > 0.0 && random.unit() < self.own.gc_share {
                    let unit = self.unit_of(io.offset.0 / self.own.stripe.0);
                    self.work(unit, now, self.own.gc.0);
                }
                self.on_units(io, now, self.own.program.0)
            }
            // Everything that was accepted is on flash when the last unit is free.
            Op::Flush => self.free_ns.iter().copied().fold(now, i64::max),
            // A change to the drive's map, as large a range as it may be.
            _ => {
                let unit = self.unit_of(io.offset.0 / self.own.stripe.0);
                self.work(unit, now, self.own.program.0)
            }
        }
    }

    fn unit_of(&self, stripe: u64) -> usize {
        (stripe % self.free_ns.len() as u64) as usize
    }

    fn work(&mut self, unit: usize, now: i64, takes: i64) -> i64 {
        let free = &mut self.free_ns[unit];
        *free = (*free).max(now).saturating_add(takes);
        *free
    }

    /// Gives every unit its stripes of the request; it is done when the last of them is.
    fn on_units(&mut self, io: &Io, now: i64, takes: i64) -> i64 {
        let stripe = self.own.stripe.0;
        let end = io.offset.0 + io.length.0;
        let (first, last) = (io.offset.0 / stripe, (end - 1) / stripe);
        let (count, units) = (last - first + 1, self.free_ns.len() as u64);
        let mut done = now;
        for turn in 0..count.min(units) {
            // Stripes `turn`, `turn + units`, … of the request lie on one unit.
            let stripes = (count - turn).div_ceil(units);
            let mut bytes = stripes * stripe;
            if turn == 0 {
                bytes -= io.offset.0 % stripe;
            }
            if (count - 1) % units == turn {
                bytes -= (last + 1) * stripe - end;
            }
            let transfer = bytes as f64 * 1e9 / self.bandwidth as f64;
            let unit = self.unit_of(first + turn);
            let takes = takes.saturating_mul(stripes as i64).saturating_add(transfer as i64);
            done = done.max(self.work(unit, now, takes));
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, MANY};
    use crate::sim::SimSpec;

    fn ssd(more: &str) -> SimSpec {
        format!("model=ssd,units=8,read=60us,program=200us,bandwidth=400M,{more}").parse().unwrap()
    }

    /// What moving so many bytes on one unit takes, ns.
    fn moved(bytes: i64) -> i64 {
        bytes * 1_000_000_000 / (400 << 20)
    }

    #[test]
    fn a_large_request_uses_all_units_and_takes_as_long_as_its_longest_part() {
        let spec = ssd("");
        assert_eq!(testing::alone(&spec, 4096), 60_000 + moved(4096));
        assert_eq!(testing::alone(&spec, 8 * 4096), 60_000 + moved(4096));
        assert_eq!(testing::alone(&spec, 9 * 4096), 120_000 + moved(8192));
        assert_eq!(testing::alone(&spec, 512), 60_000 + moved(512));
    }

    #[test]
    fn requests_on_one_stripe_queue_and_those_beside_each_other_do_not() {
        let spec = ssd("");
        let one = testing::together(&spec, (0..8).map(|_| (0, 4096)));
        let all = testing::together(&spec, (0..8).map(|n| (n * 4096, 4096)));
        assert_eq!(all, vec![60_000 + moved(4096); 8]);
        assert_eq!(one[7], 8 * (60_000 + moved(4096)));
    }

    #[test]
    fn a_range_across_two_stripes_costs_its_own_bytes_on_each() {
        // 512 bytes on one unit and 3584 on the next.
        let times = testing::together(&ssd(""), [(3584, 4096), (0, 512), (4096, 512)]);
        assert_eq!(times[0], 60_000 + moved(3584));
        assert_eq!(times[1], 120_000 + 2 * moved(512));
        assert_eq!(times[2], 120_000 + moved(3584) + moved(512));
    }

    #[test]
    fn collecting_garbage_delays_its_share_of_the_writes() {
        let spec = ssd("gc=0.02:10ms");
        let writes = (0..MANY as u64 / 10).map(|n| (n % 512 * 4096, 4096));
        let times = testing::one_by_one_writes(&spec, writes);
        let slow = times.iter().filter(|ns| **ns > 10_000_000).count() as f64;
        let share = slow / times.len() as f64;
        assert!((share - 0.02).abs() < 0.003, "{share}");
        assert!(times.iter().all(|ns| *ns >= 200_000 + moved(4096)));
    }
}
