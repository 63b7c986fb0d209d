//! The user's description of a simulated device, after `sim:`.
//!
//! A key that is silently ignored makes a simulation of another device than the one in the user's
//! head. So every key belongs to certain models and is refused by the others, no key may be given
//! twice, and an error about a value names the valid range.

use std::fmt;
use std::str::FromStr;

use ioecho_trace::{Bytes, Nanos, Op};

use super::faults::Faults;
use super::models::ServiceModel;

/// A simulated device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimSpec {
    /// How many bytes it holds.
    pub capacity: Bytes,
    /// Its block size.
    pub block_size: Bytes,
    /// How many requests it works on at a time. A disk works on one, whatever stands here.
    pub units: u32,
    /// The mean service time of a request, without its transfer, where the model has one.
    pub service: Nanos,
    /// The time of a flush, which then holds up no other request; `None` if it is served as others
    /// are.
    pub flush_service: Option<Nanos>,
    /// How it spends its time.
    pub model: ServiceModel,
    /// Bytes per second that a unit transfers.
    pub bandwidth: u64,
    /// It is so many times as fast as its model says, in everything that takes time.
    pub speed: f64,
    /// Reported faults.
    pub faults: Faults,
    /// The share of reads and writes that are falsified and reported as successes, in every way of
    /// [`super::MischiefKind`].
    pub lies: f64,
    /// Which operations it can do, in the order of [`Op::ALL`].
    pub supports: [bool; Op::ALL.len()],
    /// The seed of all its random numbers.
    pub seed: u64,
}

impl SimSpec {
    /// Whether it matters how far apart requests lie, as on a disk that turns.
    pub fn is_rotational(&self) -> bool {
        matches!(self.model, ServiceModel::Disk(_))
    }
}

impl Default for SimSpec {
    /// Something like a small SATA SSD.
    fn default() -> Self {
        Self::of(ServiceModel::Exponential)
    }
}

/// Why a description of a simulated device is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "sim:{text}: {reason}\n  = help: write it like sim:size=64G,units=8,service=80us,model=exp \
     (model=const|exp|bimodal|disk|ssd|collapse; keys of model={model}: {keys})"
)]
pub struct SimSpecError {
    text: String,
    reason: String,
    model: &'static str,
    keys: String,
}

/// Keys of every model.
const COMMON: [&str; 15] = [
    "size",
    "block",
    "bandwidth",
    "speed",
    "model",
    "errors",
    "short",
    "stall",
    "hang",
    "vanish",
    "lies",
    "flush",
    "discard",
    "write-zeroes",
    "seed",
];

/// More units than any device has.
const UNITS_MAX: u32 = 1 << 16;

impl FromStr for SimSpec {
    type Err = SimSpecError;

    /// Reads `key=value,…` in any order; what is not named keeps the default of its model, the
    /// empty text is the default device.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut spec = Self::default();
        let read = spec.read(text);
        read.map(|()| spec).map_err(|reason| SimSpecError {
            text: text.to_owned(),
            reason,
            model: spec.model.name(),
            keys: [&COMMON, spec.model.keys()].concat().join(", "),
        })
    }
}

impl SimSpec {
    /// A device of this model with the model's defaults.
    pub fn of(model: ServiceModel) -> Self {
        Self {
            capacity: Bytes(64 << 30),
            block_size: Bytes(512),
            units: model.units(),
            service: Nanos::from_micros(80),
            flush_service: None,
            model,
            bandwidth: model.bandwidth(),
            speed: 1.0,
            faults: Faults::default(),
            lies: 0.0,
            supports: Op::ALL.map(|op| op != Op::Zone && !op.is_of_files()),
            seed: 1,
        }
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let pair = pair.split_once('=').ok_or_else(|| format!("'{pair}' is no key=value"))?;
            if pairs.iter().any(|(key, _)| *key == pair.0) {
                return Err(format!("'{}' is there twice", pair.0));
            }
            pairs.push(pair);
        }
        let has = |name: &str| pairs.iter().any(|(key, _)| *key == name);
        if has("hit") && has("cache") {
            return Err("hits are either a share ('hit') or those of a cache ('cache')".to_owned());
        }
        // The model first: it says what the other keys mean.
        if let Some((_, name)) = pairs.iter().find(|(key, _)| *key == "model") {
            let known = ServiceModel::all();
            let names = known.map(|model| model.name()).join(", ");
            let model = known.into_iter().find(|model| model.name() == *name);
            *self = Self::of(
                model.ok_or_else(|| format!("model '{name}' is not known; known are {names}"))?,
            );
        }
        for (key, value) in pairs {
            self.set(key, value)?;
            self.check().map_err(|reason| format!("'{key}={value}' makes no device: {reason}"))?;
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "model" => {}
            "size" => self.capacity = parsed(key, value)?,
            "block" => self.block_size = parsed(key, value)?,
            "bandwidth" => self.bandwidth = parsed::<Bytes>(key, value)?.0,
            "speed" => self.speed = parsed(key, value)?,
            "errors" => self.faults.error_share = share(key, value)?,
            "short" => self.faults.short_share = share(key, value)?,
            "stall" => {
                (self.faults.stall_share, self.faults.stall) = share_and_time(key, value)?;
            }
            "hang" => self.faults.hang_share = share(key, value)?,
            "vanish" => self.faults.vanish = Some(parsed(key, value)?),
            "lies" => self.lies = share(key, value)?,
            "flush" => self.supports[Op::Flush as usize] = switch(key, value)?,
            "discard" => self.supports[Op::Discard as usize] = switch(key, value)?,
            "write-zeroes" => self.supports[Op::WriteZeroes as usize] = switch(key, value)?,
            "seed" => self.seed = parsed(key, value)?,
            _ if !self.model.keys().contains(&key) => return Err(self.stranger(key)),
            "units" => self.units = parsed(key, value)?,
            "service" => self.service = parsed(key, value)?,
            "flush-service" => self.flush_service = Some(parsed(key, value)?),
            _ => self.model.set(key, value)?,
        }
        Ok(())
    }

    /// Why a key is refused that this model does not have.
    fn stranger(&self, key: &str) -> String {
        let of: Vec<&str> = ServiceModel::all()
            .iter()
            .filter(|model| model.keys().contains(&key))
            .map(ServiceModel::name)
            .collect();
        if of.is_empty() {
            return format!("unknown key '{key}'");
        }
        format!(
            "'{key}' is a key of model={}, and this is model={}",
            of.join("|"),
            self.model.name()
        )
    }

    /// Whether there can be such a device.
    fn check(&self) -> Result<(), String> {
        let refuse = |reason: &str| Err(reason.to_owned());
        if !(1..=UNITS_MAX).contains(&self.units) {
            return Err(format!("units are from 1 to {UNITS_MAX}"));
        }
        if self.bandwidth == 0 {
            return refuse("at no bytes per second nothing is ever transferred");
        }
        if !(1e-3..=1e3).contains(&self.speed) {
            return refuse("a speed is from 0.001 to 1000");
        }
        if !self.block_size.0.is_power_of_two() || !(512..=1 << 20).contains(&self.block_size.0) {
            return refuse("a block is a power of two from 512 bytes to 1 MiB");
        }
        if self.capacity < self.block_size {
            return refuse("it is smaller than its block");
        }
        Ok(())
    }
}

impl fmt::Display for SimSpec {
    /// Everything that makes this device, faults only if there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capacity, block_size, units, service, flush_service, .. } = self;
        let Self { model, bandwidth, .. } = self;
        write!(f, "size={capacity}, block={block_size}, ")?;
        for key in model.keys() {
            match *key {
                "units" => write!(f, "units={units}, ")?,
                "service" => write!(f, "service={service}, ")?,
                "flush-service" => {
                    if let Some(time) = flush_service {
                        write!(f, "flush-service={time}, ")?;
                    }
                }
                _ => {}
            }
        }
        write!(f, "{model}, bandwidth={}/s, {}", Bytes(*bandwidth), self.faults)?;
        if (self.speed - 1.0).abs() >= f64::EPSILON {
            write!(f, ", speed={}", self.speed)?;
        }
        if self.lies > 0.0 {
            write!(f, ", lies={}", self.lies)?;
        }
        for op in [Op::Flush, Op::Discard, Op::WriteZeroes] {
            if !self.supports[op as usize] {
                write!(f, ", {}=no", op.name())?;
            }
        }
        write!(f, ", seed={}", self.seed)
    }
}

/// A value of any type that reads itself.
pub(super) fn parsed<T: FromStr<Err: ToString>>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| format!("{key}: {}", error.to_string()))
}

/// A share of requests.
pub(super) fn share(key: &str, value: &str) -> Result<f64, String> {
    let share = parsed(key, value)?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(format!("{key}: {value} is no share from 0 to 1"))
    }
}

/// A share of requests and what it costs them.
pub(super) fn share_and_time(key: &str, value: &str) -> Result<(f64, Nanos), String> {
    let (of, time) = value
        .split_once(':')
        .ok_or_else(|| format!("{key}: '{value}' is no SHARE:TIME, such as 0.01:30ms"))?;
    Ok((share(key, of)?, parsed(key, time)?))
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{key}: '{value}' is neither yes nor no")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::models::{CollapseSpec, DiskSpec};

    #[test]
    fn a_description_sets_what_it_names() {
        let spec: SimSpec = "size=1G,units=2,service=5ms,model=const,errors=0.5".parse().unwrap();
        assert_eq!((spec.capacity, spec.units), (Bytes(1 << 30), 2));
        assert_eq!((spec.service, spec.model), (Nanos::from_millis(5), ServiceModel::Constant));
        assert_eq!("".parse(), Ok(SimSpec::default()));
        let spec: SimSpec =
            "rpm=15000,stall=0.01:30ms,vanish=5s,discard=no,model=disk".parse().unwrap();
        let disk = DiskSpec { rpm: 15_000, ..DiskSpec::default() };
        assert_eq!((spec.model, spec.units), (ServiceModel::Disk(disk), 1));
        assert_eq!((spec.faults.stall_share, spec.faults.stall), (0.01, Nanos::from_millis(30)));
        assert_eq!(spec.faults.vanish, Some(Nanos::from_secs(5)));
        assert!(!spec.supports[Op::Discard as usize] && spec.supports[Op::Flush as usize]);
    }

    #[test]
    fn every_key_of_every_model_is_read_and_shown() {
        for model in ServiceModel::all() {
            for key in [&COMMON, model.keys()].concat() {
                let value = match key {
                    "model" => model.name(),
                    "errors" | "short" | "hang" | "lies" | "hit" => "0.125",
                    "stall" | "gc" => "0.125:7ms",
                    "flush" | "discard" | "write-zeroes" => "no",
                    "size" | "bandwidth" | "cache" | "write-cache" | "read-ahead" => "32M",
                    "block" | "stripe" => "1K",
                    "service" | "flush-service" | "hit-service" | "overhead" | "vanish"
                    | "seek-min" | "seek-max" | "read" | "program" => "7us",
                    _ => "77",
                };
                let (changed, plain) = match key {
                    "model" => (format!("model={value}"), "model=const".to_owned()),
                    _ => (format!("model={},{key}={value}", model.name()), String::new()),
                };
                let changed: SimSpec = changed.parse().unwrap();
                if key != "model" {
                    assert_ne!(changed, SimSpec::of(model), "{key}");
                    assert_ne!(changed.to_string(), SimSpec::of(model).to_string(), "{key}");
                } else if model != ServiceModel::Constant {
                    assert_ne!(changed, plain.parse().unwrap());
                }
            }
        }
    }

    #[test]
    fn what_makes_no_device_is_refused_with_the_reason_and_the_keys() {
        for (wrong, reason) in [
            ("sise=1G", "unknown key 'sise'"),
            ("size", "'size' is no key=value"),
            ("size=1q", "size: '1q'"),
            ("units=0", "units are from 1"),
            ("errors=2", "no share from 0 to 1"),
            ("errors=nan", "no share from 0 to 1"),
            ("model=x", "model 'x' is not known; known are const, exp, bimodal"),
            ("block=100", "a power of two"),
            ("size=1K,block=4K", "smaller than its block"),
            ("seed=1,seed=2", "'seed' is there twice"),
            ("bandwidth=0", "nothing is ever transferred"),
            ("rpm=7200", "'rpm' is a key of model=disk, and this is model=exp"),
            ("model=disk,units=4", "'units' is a key of model=const|exp|bimodal|ssd|collapse"),
            ("model=disk,service=1ms", "and this is model=disk"),
            ("model=disk,rpm=0", "rpm: 0 is not from 1"),
            ("model=bimodal,hit=0.5,cache=1G", "either a share"),
            ("model=bimodal,cache=100", "cache: 100 B is not from 4K"),
            ("model=ssd,stripe=5K", "no power of two"),
            ("model=ssd,gc=0.1", "no SHARE:TIME"),
            ("model=collapse,knee=0", "knee"),
            ("model=collapse,worst=0.5", "worst: 0.5 is not from 1"),
            ("stall=0.5", "no SHARE:TIME"),
            ("discard=maybe", "neither yes nor no"),
        ] {
            let error = wrong.parse::<SimSpec>().unwrap_err().to_string();
            assert!(error.contains(reason), "{wrong}: {error}");
            assert!(error.contains("= help: "), "{error}");
        }
        let error = "model=disk,x=1".parse::<SimSpec>().unwrap_err().to_string();
        assert!(error.contains("keys of model=disk: size, block,"), "{error}");
        assert!(error.contains("seek-min") && !error.contains("knee"), "{error}");
    }

    #[test]
    fn a_default_is_what_it_always_was() {
        let spec = SimSpec::default();
        assert_eq!((spec.units, spec.service, spec.bandwidth), (8, Nanos(80_000), 500 << 20));
        assert_eq!(spec.model, ServiceModel::Exponential);
        let collapsing = SimSpec::of(ServiceModel::Collapsing(CollapseSpec::default()));
        assert_eq!(collapsing.units, 8);
    }
}
