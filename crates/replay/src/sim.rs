//! Simulated time and a simulated device.
//!
//! What the engine promises can be neither measured nor repeated on a real machine: there, time
//! passes differently every time. In simulation it passes only when somebody waits, a seed fixes
//! everything, and an hour's replay takes as long as its requests take to compute. Users get the
//! same device with `--target sim:…`, to try a load or a campaign without any storage.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::rc::Rc;
use std::str::FromStr;

use ioecho_trace::{Bytes, Integrity, Nanos, Op, Outcome};

use crate::clock::Clock;
use crate::device::{Completion, Device, Io, Payload};
use crate::pattern::SplitMix64;

/// Time that passes only when somebody waits for it, and a little when somebody looks.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    now: Rc<Cell<i64>>,
    /// What a look at the clock takes. Without it, a loop that spins would spin for ever.
    cost_ns: i64,
}

impl SimClock {
    /// A clock at zero that takes `cost` for every look.
    pub fn new(cost: Nanos) -> Self {
        Self { now: Rc::default(), cost_ns: cost.0 }
    }

    /// Lets time pass until `instant`.
    pub fn advance_to(&self, instant: Nanos) {
        self.now.set(self.now.get().max(instant.0));
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        self.now.set(self.now.get() + self.cost_ns);
        Nanos(self.now.get())
    }
}

/// How long a request takes on the simulated device, once a unit works on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceModel {
    /// Always the same.
    Constant,
    /// Exponentially distributed: memoryless, as in queueing theory's M/M/c.
    Exponential,
}

/// A simulated device: a queue in front of `units` that work in parallel, like the channels of an
/// SSD (1 unit behaves like one disk arm).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimSpec {
    /// How many bytes it holds.
    pub capacity: Bytes,
    /// Its block size.
    pub block_size: Bytes,
    /// How many requests it works on at a time.
    pub units: u32,
    /// The mean service time of a request, without its transfer.
    pub service: Nanos,
    /// How the service time is distributed.
    pub model: ServiceModel,
    /// Bytes per second that a unit transfers.
    pub bandwidth: u64,
    /// The share of requests that end with an I/O error.
    pub error_share: f64,
    /// What fixes all its randomness.
    pub seed: u64,
}

impl Default for SimSpec {
    /// Something like a small SATA SSD.
    fn default() -> Self {
        Self {
            capacity: Bytes(64 << 30),
            block_size: Bytes(512),
            units: 8,
            service: Nanos::from_micros(80),
            model: ServiceModel::Exponential,
            bandwidth: 500 << 20,
            error_share: 0.0,
            seed: 1,
        }
    }
}

/// Why a description of a simulated device is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "sim:{text}: {reason}\n  = help: write it like sim:size=64G,units=8,service=80us,model=exp \
     (keys: size, block, units, service, model=const|exp, bandwidth, errors, seed)"
)]
pub struct SimSpecError {
    text: String,
    reason: String,
}

impl FromStr for SimSpec {
    type Err = SimSpecError;

    /// Reads `key=value,…`; what is not named keeps its default, the empty text is the default.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut spec = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let key = pair.split('=').next().unwrap_or_default();
            if seen.contains(&key) {
                let reason = format!("'{key}' is there twice");
                return Err(SimSpecError { text: text.to_owned(), reason });
            }
            seen.push(key);
            spec.set(pair).map_err(|reason| SimSpecError { text: text.to_owned(), reason })?;
        }
        Ok(spec)
    }
}

impl SimSpec {
    fn set(&mut self, pair: &str) -> Result<(), String> {
        fn parsed<T: FromStr<Err: ToString>>(key: &str, value: &str) -> Result<T, String> {
            value.parse().map_err(|error: T::Err| format!("{key}: {}", error.to_string()))
        }
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("'{pair}' is no key=value"))?;
        match key {
            "size" => self.capacity = parsed(key, value)?,
            "block" => self.block_size = parsed(key, value)?,
            "units" => self.units = parsed(key, value)?,
            "service" => self.service = parsed(key, value)?,
            "model" => {
                self.model = match value {
                    "const" => ServiceModel::Constant,
                    "exp" => ServiceModel::Exponential,
                    _ => return Err(format!("model '{value}' is not known; const and exp are")),
                }
            }
            "bandwidth" => self.bandwidth = parsed::<Bytes>(key, value)?.0,
            "errors" => self.error_share = parsed(key, value)?,
            "seed" => self.seed = parsed(key, value)?,
            _ => return Err(format!("unknown key '{key}'")),
        }
        let sound = (1..=UNITS_MAX).contains(&self.units)
            && self.bandwidth > 0
            && self.block_size.0.is_power_of_two()
            && self.block_size.0 >= 512
            && self.capacity >= self.block_size
            && (0.0..=1.0).contains(&self.error_share);
        if sound { Ok(()) } else { Err(format!("'{pair}' makes no device")) }
    }
}

/// More units than any device has.
const UNITS_MAX: u32 = 1 << 16;

/// The largest request that the simulated device takes.
const LENGTH_MAX: Bytes = Bytes(1 << 30);

/// A request in flight; the order of its fields is the order of completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    completes_ns: i64,
    /// Of those that complete together, the one submitted first.
    order: u64,
    tag: u32,
    submitted_ns: i64,
    outcome: i32,
}

/// A device that exists only in simulated time.
#[derive(Debug)]
pub struct SimDevice {
    spec: SimSpec,
    clock: SimClock,
    random: SplitMix64,
    prepared: Vec<Io>,
    /// When each unit is free again.
    units: BinaryHeap<Reverse<i64>>,
    /// Requests in flight, the next to complete first.
    in_flight: BinaryHeap<Reverse<InFlight>>,
    submitted: u64,
}

impl SimDevice {
    /// A device on this clock.
    pub fn new(spec: SimSpec, clock: SimClock) -> Self {
        Self {
            spec,
            clock,
            random: SplitMix64(spec.seed),
            prepared: Vec::new(),
            units: (0..spec.units).map(|_| Reverse(0)).collect(),
            in_flight: BinaryHeap::new(),
            submitted: 0,
        }
    }

    fn service_ns(&mut self, io: &Io) -> i64 {
        let seek = match self.spec.model {
            ServiceModel::Constant => self.spec.service.0 as f64,
            ServiceModel::Exponential => {
                -(1.0 - self.random.unit()).ln() * self.spec.service.0 as f64
            }
        };
        let transferred = if matches!(io.op, Op::Read | Op::Write) { io.length.0 } else { 0 };
        let transfer = transferred as f64 * 1e9 / self.spec.bandwidth as f64;
        ((seek + transfer) as i64).max(1)
    }
}

impl Device for SimDevice {
    fn capacity(&self) -> Bytes {
        Bytes(self.spec.capacity.0 / self.spec.block_size.0 * self.spec.block_size.0)
    }

    fn block_size(&self) -> Bytes {
        self.spec.block_size
    }

    fn length_max(&self) -> Bytes {
        LENGTH_MAX
    }

    fn supports(&self, op: Op) -> bool {
        op != Op::Zone
    }

    fn prepare(&mut self, io: &Io, _payload: &mut dyn Payload) {
        self.prepared.push(*io);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let now = self.clock.now();
        let count = self.prepared.len();
        for io in std::mem::take(&mut self.prepared) {
            let Reverse(free) = self.units.pop().unwrap_or(Reverse(0));
            let done = free.max(now.0) + self.service_ns(&io);
            self.units.push(Reverse(done));
            let failed = self.spec.error_share > 0.0 && self.random.unit() < self.spec.error_share;
            // EIO, as a disk with a bad sector answers.
            let outcome = if failed { Outcome::Error(5) } else { Outcome::Ok };
            self.submitted += 1;
            self.in_flight.push(Reverse(InFlight {
                completes_ns: done,
                order: self.submitted,
                tag: io.tag,
                submitted_ns: now.0,
                outcome: outcome.code(),
            }));
        }
        Ok((now, count))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        let now = self.clock.now.get();
        while let Some(&Reverse(next)) = self.in_flight.peek()
            && next.completes_ns <= now
        {
            self.in_flight.pop();
            completions.push(Completion {
                tag: next.tag,
                submitted: Nanos(next.submitted_ns),
                completed: Nanos(next.completes_ns),
                outcome: Outcome::from_code(next.outcome).unwrap_or(Outcome::Ok),
                integrity: Integrity::Unchecked,
            });
        }
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        let next = self.in_flight.peek().map_or(i64::MAX, |Reverse(next)| next.completes_ns);
        self.clock.advance_to(until.min(Nanos(next)));
        self.reap(completions)
    }

    fn describe(&self) -> String {
        let SimSpec { capacity, block_size, units, service, model, bandwidth, error_share, seed } =
            self.spec;
        let model = match model {
            ServiceModel::Constant => "const",
            ServiceModel::Exponential => "exp",
        };
        format!(
            "simulated, no I/O was done: size={capacity}, block={block_size}, units={units}, \
             service={service}, model={model}, bandwidth={}/s, errors={error_share}, seed={seed}",
            Bytes(bandwidth)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_sets_what_it_names_and_refuses_what_it_does_not_know() {
        let spec: SimSpec = "size=1G,units=2,service=5ms,model=const,errors=0.5".parse().unwrap();
        assert_eq!((spec.capacity, spec.units), (Bytes(1 << 30), 2));
        assert_eq!((spec.service, spec.model), (Nanos::from_millis(5), ServiceModel::Constant));
        assert_eq!("".parse(), Ok(SimSpec::default()));
        for wrong in [
            "sise=1G",
            "size",
            "size=1q",
            "units=0",
            "errors=2",
            "model=x",
            "block=100",
            "seed=1,seed=2",
        ] {
            assert!(wrong.parse::<SimSpec>().is_err(), "{wrong}");
        }
    }
}
