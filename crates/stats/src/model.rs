//! The small model of a trace that `ioecho fit` estimates, for an artificial load.
//!
//! Users who need a benchmark "like our workload" guess four numbers. Here the properties are
//! measured, in one pass and bounded memory: when requests come ([`arrivals`]), what they are and
//! how they follow each other ([`mix`]), when a place is used again and how much is in use
//! ([`reuse`]), and where the rest goes ([`regions`]). From the [`Figures`] follow a generator's
//! line ([`mod@line`]) and a job for fio ([`fio`]); and since a load is a trace, too, the load of
//! that line is measured with the same code, and [`comparison`] shows what it lost.

pub mod arrivals;
pub mod comparison;
pub mod fio;
pub mod line;
pub mod mix;
pub mod regions;
pub mod reuse;

use ioecho_trace::{Batch, Op, Request};
use serde::Serialize;

use self::arrivals::{ArrivalFigures, Arrivals};
use self::mix::{Mix, MixFigures};
use self::regions::{RegionFigures, Regions};
use self::reuse::{Reuse, ReuseFigures, WorkingSet, WorkingSetFigures};

/// Measures a trace, fed batch by batch.
#[derive(Clone, Debug, Default)]
pub struct Measure {
    arrivals: Arrivals,
    mix: Mix,
    reuse: Reuse,
    /// Where every request with a range goes, and where those that neither follow nor return.
    all: Regions,
    fresh: Regions,
    pages: WorkingSet,
    volumes: u32,
}

impl Measure {
    /// Adds the requests of a batch, which follow those before in time.
    pub fn observe(&mut self, batch: &Batch) {
        for request in batch.iter() {
            self.add(&request);
        }
    }

    fn add(&mut self, request: &Request) {
        self.arrivals.add(request.issue.0);
        let follows = self.mix.add(request);
        if request.op == Op::Flush {
            return;
        }
        self.volumes = self.volumes.max(request.volume.0.saturating_add(1));
        self.all.add(request);
        if self.reuse.add(request, follows) {
            self.fresh.add(request);
        }
        if matches!(request.op, Op::Read | Op::Write) {
            self.pages.add(request);
        }
    }

    /// The figures.
    pub fn figures(&self) -> Figures {
        Figures {
            requests: self.arrivals.requests(),
            volumes: self.volumes.max(1),
            arrivals: self.arrivals.figures(),
            mix: self.mix.figures(),
            reuse: self.reuse.figures(),
            places: self.all.figures(),
            fresh_places: self.fresh.figures(),
            working_set: self.pages.figures(),
        }
    }
}

/// What was measured. Field names with their units are those of `ioecho fit --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// All requests.
    pub requests: u64,
    /// The highest number of a volume, plus one.
    pub volumes: u32,
    /// When requests come.
    pub arrivals: ArrivalFigures,
    /// What they are and how they follow each other.
    pub mix: MixFigures,
    /// After how many requests a place is used again.
    pub reuse: ReuseFigures,
    /// Where requests go.
    pub places: RegionFigures,
    /// Where those go that neither continue a sequence nor return to a place.
    pub fresh_places: RegionFigures,
    /// How much is in use within spans of time.
    pub working_set: WorkingSetFigures,
}

#[cfg(test)]
mod tests;
