//! A target's device and its issuing thread, before and after the replay.

use std::time::Instant;

use ioecho_linux::TargetFacts;
use ioecho_linux::watch::{Counters, DeviceState, own_wait};
use ioecho_stats::facts::{CountedFacts, DeviceFacts, LayerFacts};
use ioecho_trace::Nanos;

/// The observations of a lane.
pub(crate) struct LaneSeen {
    /// The facts of the device and its requests.
    pub(crate) device: DeviceFacts,
    /// How long the issuing thread was ready but waited for a processor.
    pub(crate) waited: Option<Nanos>,
}

/// A lane under observation.
pub(crate) struct LaneWatch {
    target: TargetFacts,
    before: DeviceState,
    waited: Option<Nanos>,
    begun: Instant,
}

impl LaneWatch {
    /// Samples it before the first request, in the issuing thread.
    pub(crate) fn begin(target: &TargetFacts) -> Self {
        let before = DeviceState::of(target);
        Self { target: target.clone(), before, waited: own_wait(), begun: Instant::now() }
    }

    /// Samples it after the last request, in the same thread, and returns the differences.
    pub(crate) fn end(self) -> LaneSeen {
        let span = i64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let waited = own_wait().zip(self.waited).map(|(after, before)| after - before);
        LaneSeen { device: self.device(span), waited }
    }

    fn device(self, span: i64) -> DeviceFacts {
        let (before, after) = (self.before, DeviceState::of(&self.target));
        let counted = |before: Option<Counters>, after: Option<Counters>| {
            Some(counted(&after?.since(&before?), span))
        };
        let layers = before.layers.iter().map(|layer| {
            let later = after.layers.iter().find(|later| later.name == layer.name);
            LayerFacts {
                name: layer.name.clone(),
                is_disk: layer.is_disk,
                is_below_file: layer.is_below_file,
                counted: counted(layer.counters, later.and_then(|later| later.counters)),
            }
        });
        DeviceFacts {
            layers: layers.collect(),
            counted: counted(before.counters, after.counters),
            name: before.name,
            unknown: before.unknown,
            is_file: before.is_file,
            scheduler: before.scheduler,
            scheduler_after: after.scheduler,
            queue_limit: before.queue_limit,
            request_max: before.request_max,
            request_max_hardware: before.request_max_hardware,
            request_max_scattered: before.request_max_scattered,
            block: before.block,
            block_of: before.block_of,
            optimal: before.optimal,
            partition_start: before.partition_start.saturating_add(before.begins_at),
            write_cache: before.write_cache,
            write_cache_after: after.write_cache,
            is_volatile: before.is_volatile,
            fua: before.fua,
            discard_max: before.discard_max,
        }
    }
}

fn counted(counters: &Counters, span_ns: i64) -> CountedFacts {
    CountedFacts {
        reads: counters.reads,
        read_bytes: counters.read_bytes,
        writes: counters.writes,
        write_bytes: counters.write_bytes,
        discards: counters.discards,
        flushes: counters.flushes,
        merges: counters.merges,
        span_ns,
    }
}
