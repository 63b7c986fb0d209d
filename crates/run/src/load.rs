//! The facts that the verdict needs to compare the load with its targets: the sizes of the recorded
//! devices, the layers below the targets, the content of the targets under the load, and the
//! quality of the recording.

use ioecho_linux::target::{Layer, TargetContent};
use ioecho_replay::map::{Map, Route};
use ioecho_stats::facts::{Cache, ContentFacts, LoadFacts, Recording, SizeFacts, TargetFacts};
use ioecho_trace::header::Volume;
use ioecho_trace::{Bytes, Header};

use crate::ahead::PlacesSeen;
use crate::facts::{RunFacts, TargetEntry};
use crate::feeder::FeederEnd;
use crate::lane::TargetSeen;
use crate::plan::ReplayPlan;
use crate::target::Target;

/// The facts at the end of the run; the sizes are those of the plan, `below` are the layers below
/// each target.
pub(crate) fn facts(
    plan: &ReplayPlan,
    facts: &RunFacts,
    below: &[Vec<Layer>],
    seen: &[TargetSeen],
    feeder: &FeederEnd,
) -> LoadFacts {
    let targets = facts.targets.iter().zip(below).zip(seen);
    let recorded = &feeder.header;
    LoadFacts {
        targets: targets
            .map(|((entry, layers), seen)| target_facts(plan, entry, layers, seen))
            .collect(),
        recording: Some(Recording::of(recorded, feeder.totals.planned)),
        size: None,
        fill_random_percent: Some(plan.fill.random),
        dedup: Some(plan.fill.dedup),
        rotational: rotational(&plan.targets),
        generated: Some(is_generated(recorded)),
    }
}

/// Whether any of the targets is on a rotating disk; `None` if one of them does not say.
fn rotational(targets: &[Target]) -> Option<bool> {
    let said = |target: &Target| match target {
        Target::Simulated { rotational, .. } => *rotational,
        Target::Real { facts, .. } => facts.rotational,
        Target::Tree(_) => None,
    };
    let said: Option<Vec<bool>> = targets.iter().map(said).collect();
    said.map(|said| said.contains(&true))
}

fn target_facts(
    plan: &ReplayPlan,
    entry: &TargetEntry,
    layers: &[Layer],
    seen: &TargetSeen,
) -> TargetFacts {
    let name = entry.name();
    let told = plan.spec.cache_size.map(|size| Cache {
        name: "the cache of the size that was stated".to_owned(),
        bytes: size.0,
    });
    let TargetEntry::Real(target) = entry else {
        return TargetFacts { name, caches: told.into_iter().collect(), ..TargetFacts::default() };
    };
    let known = layers.iter().filter_map(|layer| {
        let (name, bytes) = layer.cache.clone()?;
        Some(Cache { name, bytes })
    });
    let first = |of: fn(&Layer) -> Option<String>| layers.iter().find_map(of);
    TargetFacts {
        caches: known.chain(told).collect(),
        unknown_cache: first(|layer| layer.unknown_cache.clone()),
        compressing: first(|layer| layer.compresses.clone()),
        in_memory: first(|layer| layer.in_memory.then(|| layer.name.clone())),
        // The first layer of a device is its disk, and of a file the file system.
        is_memory: target.file_system.is_none() && layers.first().is_some_and(|own| own.in_memory),
        content: (!plan.spec.scratch).then(|| content_facts(&target.content, seen.places)),
        name,
    }
}

fn content_facts(content: &TargetContent, places: PlacesSeen) -> ContentFacts {
    // Unwritten places also read as zeroes; they must count only once.
    let never = content.never_written.filter(|_| content.samples > 0);
    let share = |count: u32, of: u32| f64::from(count) / f64::from(of);
    let parts = content.parts.iter().map(|part| {
        (part.samples > 0)
            .then(|| (share(part.never_written, part.samples), share(part.zeroes, part.samples)))
    });
    let replayed = content.runs.iter().filter(|run| !run.prepared).map(|run| run.share);
    ContentFacts {
        samples: content.samples as u64,
        never_written: never,
        zeroes: (content.zeroes - never.unwrap_or(0.0)).max(0.0),
        prepared: content.runs.iter().any(|run| run.prepared),
        // The sum of no floating-point numbers is −0, which JSON would show.
        replayed: replayed.fold(0.0, |sum, share| sum + share),
        places: places.looked,
        places_never_written: places.never_written,
        places_read: places.read,
        places_zeroes: places.zeroes,
        part: content.part,
        parts: parts.collect(),
    }
}

/// Whether a generator made the trace.
fn is_generated(header: &Header) -> bool {
    header.source.starts_with("gen:")
}

/// The recorded device whose size differs most from that of its place on the target. A generated
/// load has no recorded device; its area is the one asked for.
pub(crate) fn size(map: &Map, header: &Header) -> Option<SizeFacts> {
    if is_generated(header) {
        return None;
    }
    let mut unknown = 0;
    let mut worst: Option<(f64, SizeFacts)> = None;
    for volume in &header.volumes {
        let named = map.routes().iter().any(|route| route.volume == Some(volume.id));
        let mine = |route: &&Route| match route.volume {
            Some(id) => id == volume.id,
            None => !named,
        };
        for route in map.routes().iter().filter(mine) {
            let Some(facts) = size_of(volume, route) else {
                unknown += 1;
                continue;
            };
            let ratio = facts.target_bytes.max(1) as f64 / facts.recorded_bytes.max(1) as f64;
            let off = ratio.ln().abs();
            if worst.as_ref().is_none_or(|(most, _)| off > *most) {
                worst = Some((off, facts));
            }
        }
    }
    worst.map(|(_, facts)| SizeFacts { unknown, ..facts })
}

/// The sizes of a volume's part on a route, and of its place on the target.
fn size_of(volume: &Volume, route: &Route) -> Option<SizeFacts> {
    let Bytes(size) = volume.size.filter(|size| size.0 > 0)?;
    let part = size.min(route.until.0).saturating_sub(route.from.0);
    let scaled = (part as f64 * route.scale) as u64;
    let recorded_bytes = if (route.scale - 1.0).abs() > f64::EPSILON { scaled } else { part };
    Some(SizeFacts { recorded_bytes, target_bytes: route.room.0, unknown: 0 })
}

#[cfg(test)]
mod tests {
    use ioecho_linux::target::WrittenBy;
    use ioecho_replay::plan::TargetLimits;
    use ioecho_trace::{Op, VolumeId};

    use super::*;

    fn limits(capacity: u64) -> TargetLimits {
        TargetLimits {
            capacity: Bytes(capacity),
            block_size: Bytes(512),
            length_max: Bytes(u64::MAX),
            supports: Op::ALL.map(|_| true),
        }
    }

    fn volumes(sizes: &[Option<u64>]) -> Header {
        let volumes = sizes.iter().enumerate().map(|(id, size)| Volume {
            id: VolumeId(id as u32),
            name: String::new(),
            size: size.map(Bytes),
        });
        Header { volumes: volumes.collect(), ..Header::default() }
    }

    #[test]
    fn the_device_that_differs_most_from_its_place_is_told() {
        let header = volumes(&[Some(1 << 30), Some(1 << 20), None]);
        let map = Map::spread(&header.volumes, &[limits(1 << 30), limits(1 << 30), limits(1)]);
        let size = size(&map, &header).unwrap();
        assert_eq!((size.recorded_bytes, size.target_bytes, size.unknown), (1 << 20, 1 << 30, 1));
    }

    #[test]
    fn a_recording_without_sizes_has_none() {
        let header = volumes(&[None]);
        assert_eq!(size(&Map::spread(&header.volumes, &[limits(512)]), &header), None);
        assert_eq!(size(&Map::spread(&[], &[limits(512)]), &Header::default()), None);
    }

    #[test]
    fn what_earlier_replays_wrote_is_a_sum_and_zero_of_none() {
        let replayed = |runs| {
            let content = TargetContent { runs, ..TargetContent::default() };
            content_facts(&content, PlacesSeen::default()).replayed.to_string()
        };
        let run = |prepared, share| WrittenBy { run: String::new(), prepared, share };
        assert_eq!(replayed(vec![run(true, 1.0)]), "0");
        assert_eq!(replayed(vec![run(false, 0.25), run(true, 0.25), run(false, 0.5)]), "0.75");
    }
}
