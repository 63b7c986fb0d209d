//! How long a request takes: one model per file.
//!
//! A replay behaves differently on a disk, on a flash drive and behind a cache, and a generator
//! that is right on one may be wrong on another. Each model is the simplest one that has the
//! property it stands for, and each is tested against its theory.
//!
//! A model gets every request at its submission, in order, and returns at once when it will
//! complete. So every model serves in order of arrival, and none needs events of its own.

mod bimodal;
mod collapsing;
mod constant;
mod disk;
mod exponential;
mod learnt;
mod lru;
mod ssd;
mod station;

use std::fmt;

use ioecho_trace::{Bytes, Op};

pub use bimodal::{BimodalSpec, Hits};
pub use collapsing::CollapseSpec;
pub use disk::DiskSpec;
pub(in crate::sim) use learnt::Drawing;
pub use learnt::{Learning, Learnt};
pub use ssd::SsdSpec;

use super::SimSpec;
use crate::device::Io;
use crate::pattern::SplitMix64;

/// How a simulated device spends its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceModel {
    /// Every request takes the same.
    Constant,
    /// Service times are exponentially distributed: memoryless, as in queueing theory's M/M/c.
    Exponential,
    /// A cache in front: hits are quick, misses exponentially distributed.
    Bimodal(BimodalSpec),
    /// One arm over rotating platters.
    Disk(DiskSpec),
    /// Flash: parallel units that addresses are striped over.
    Ssd(SsdSpec),
    /// It becomes slower the more requests are in flight.
    Collapsing(CollapseSpec),
}

impl ServiceModel {
    /// The models by their names, each with its defaults.
    pub(super) fn all() -> [Self; 6] {
        [
            Self::Constant,
            Self::Exponential,
            Self::Bimodal(BimodalSpec::default()),
            Self::Disk(DiskSpec::default()),
            Self::Ssd(SsdSpec::default()),
            Self::Collapsing(CollapseSpec::default()),
        ]
    }

    /// The name that users write.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Constant => "const",
            Self::Exponential => "exp",
            Self::Bimodal(_) => "bimodal",
            Self::Disk(_) => "disk",
            Self::Ssd(_) => "ssd",
            Self::Collapsing(_) => "collapse",
        }
    }

    /// The keys that this model has beside those of every model.
    pub(super) const fn keys(&self) -> &'static [&'static str] {
        match self {
            Self::Constant => &["units", "service", "flush-service"],
            Self::Exponential => &["units", "service"],
            Self::Bimodal(_) => &["units", "service", "hit", "hit-service", "cache"],
            Self::Disk(_) => {
                &["rpm", "seek-min", "seek-max", "overhead", "read-ahead", "write-cache"]
            }
            Self::Ssd(_) => &["units", "stripe", "read", "program", "gc"],
            Self::Collapsing(_) => &["units", "service", "knee", "steepness", "worst"],
        }
    }

    /// Sets one of the keys that are this model's alone (not `units`, `service` and
    /// `flush-service`, which are the device's).
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match self {
            Self::Constant | Self::Exponential => Ok(()),
            Self::Bimodal(spec) => spec.set(key, value),
            Self::Disk(spec) => spec.set(key, value),
            Self::Ssd(spec) => spec.set(key, value),
            Self::Collapsing(spec) => spec.set(key, value),
        }
    }

    /// Requests that the device works on together, unless said otherwise.
    pub(super) const fn units(&self) -> u32 {
        match self {
            Self::Disk(_) => 1,
            Self::Ssd(_) => 16,
            _ => 8,
        }
    }

    /// Bytes per second that a unit transfers, unless said otherwise.
    pub(super) const fn bandwidth(&self) -> u64 {
        match self {
            Self::Disk(_) => 150 << 20,
            Self::Ssd(_) => 400 << 20,
            _ => 500 << 20,
        }
    }
}

impl fmt::Display for ServiceModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model={}", self.name())?;
        match self {
            Self::Constant | Self::Exponential => Ok(()),
            Self::Bimodal(spec) => write!(f, ", {spec}"),
            Self::Disk(spec) => write!(f, ", {spec}"),
            Self::Ssd(spec) => write!(f, ", {spec}"),
            Self::Collapsing(spec) => write!(f, ", {spec}"),
        }
    }
}

/// A request as a model gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) io: &'a Io,
    /// When it was handed down.
    pub(super) now_ns: i64,
    /// Requests in flight, this one included.
    pub(super) in_flight: usize,
}

/// A model at work.
#[derive(Debug)]
pub(super) enum Model {
    Constant(constant::Constant),
    Exponential(exponential::Exponential),
    Bimodal(bimodal::Bimodal),
    Disk(disk::Disk),
    Ssd(ssd::Ssd),
    Collapsing(collapsing::Collapsing),
    Learnt(Box<Drawing>),
}

impl Model {
    pub(super) fn new(spec: &SimSpec) -> Self {
        match spec.model {
            ServiceModel::Constant => Self::Constant(constant::Constant::new(spec)),
            ServiceModel::Exponential => Self::Exponential(exponential::Exponential::new(spec)),
            ServiceModel::Bimodal(own) => Self::Bimodal(bimodal::Bimodal::new(spec, own)),
            ServiceModel::Disk(own) => Self::Disk(disk::Disk::new(spec, own)),
            ServiceModel::Ssd(own) => Self::Ssd(ssd::Ssd::new(spec, own)),
            ServiceModel::Collapsing(own) => {
                Self::Collapsing(collapsing::Collapsing::new(spec, own))
            }
        }
    }

    /// When the request completes: always later than it arrived.
    #[inline]
    pub(super) fn completes_ns(&mut self, arrival: &Arrival, random: &mut SplitMix64) -> i64 {
        let completes = match self {
            Self::Constant(model) => model.completes_ns(arrival),
            Self::Exponential(model) => model.completes_ns(arrival, random),
            Self::Bimodal(model) => model.completes_ns(arrival, random),
            Self::Disk(model) => model.completes_ns(arrival),
            Self::Ssd(model) => model.completes_ns(arrival, random),
            Self::Collapsing(model) => model.completes_ns(arrival, random),
            Self::Learnt(model) => model.completes_ns(arrival, random),
        };
        completes.max(arrival.now_ns.saturating_add(1))
    }
}

/// What moving the request's data takes, ns. Only reads and writes move any.
fn transfer_ns(io: &Io, bandwidth: u64) -> f64 {
    let Bytes(bytes) = if matches!(io.op, Op::Read | Op::Write) { io.length } else { Bytes::ZERO };
    bytes as f64 * 1e9 / bandwidth as f64
}

/// An exponentially distributed span with this mean, ns (by inversion of its distribution).
fn exponential_ns(mean_ns: f64, random: &mut SplitMix64) -> f64 {
    -(1.0 - random.unit()).ln() * mean_ns
}

#[cfg(test)]
mod testing;
