//! A described load as a stream of requests.

use super::arrival::Arrivals;
use super::model::Model;
use super::place::{Area, Places, Reuse};
use super::random::{Random, Share, scramble};
use super::settings::{Hits, Mix, Reads, Settings};
use super::size::Sizes;
use super::{Load, bursts::Bursts};
use crate::arguments::ArgumentError;
use crate::batch::{BATCH_ROWS, Batch, Columns};
use crate::error::TraceError;
use crate::header::{Header, Volume};
use crate::request::{Flags, Op};
use crate::stream::Source;
use crate::units::{Bytes, VolumeId};

/// [`Header::format`] of every generated load.
const FORMAT: &str = "generated";

/// The rule for requests, apart from their instants.
pub(super) enum Requests {
    /// One of the simple kinds.
    Simple(Simple),
    /// A fitted mix.
    Model(Box<Model>),
    /// A simple kind whose instants are blkreplay's bursts.
    Bursts(Simple, Bursts),
}

/// Operations and sizes by chance, places by a rule.
pub(super) struct Simple {
    area: Area,
    /// What caches are to hold, at the beginning.
    held: Area,
    places: Places,
    reads: Reads,
    sizes: Sizes,
    /// The only size, where there is only one: the usual case, kept apart for speed.
    only: Option<u64>,
    discards: Share,
    flush: Option<u64>,
    writes: u64,
    reuse: Option<Reuse>,
    hits: Option<Hits>,
    alternates: bool,
}

impl Simple {
    pub(super) fn new(area: Area, held: Area, places: Places, mix: Mix) -> Self {
        Self {
            area,
            held,
            places,
            reads: mix.reads,
            only: mix.sizes.only(),
            sizes: mix.sizes,
            discards: mix.discards,
            flush: mix.flush,
            writes: 0,
            reuse: mix.reuse.map(|(share, depth)| Reuse::new(share, depth)),
            hits: mix.hits,
            alternates: false,
        }
    }

    /// The next request: its operation, its place in the area and its length, in bytes.
    #[inline]
    fn next(&mut self, random: &mut Random) -> Option<(Op, u64, u64)> {
        if self.flush.is_some_and(|after| self.writes >= after) {
            self.writes = 0;
            return Some((Op::Flush, 0, 0));
        }
        let reads = match self.reads {
            Reads::Share(share) => random.chance(share),
            Reads::Alternate => {
                self.alternates = !self.alternates;
                self.alternates
            }
        };
        let op = match reads {
            _ if random.chance(self.discards) => Op::Discard,
            true => Op::Read,
            false => Op::Write,
        };
        let length = match self.only {
            Some(length) => length,
            None => self.sizes.next(random),
        };
        let mut before = 0;
        if let Some(hits) = &self.hits {
            if random.chance(if op == Op::Read { hits.reads } else { hits.writes }) {
                self.writes += u64::from(op == Op::Write);
                return Some((op, self.held.anywhere(length, random), length));
            }
            before = hits.area;
        }
        let place = match &mut self.reuse {
            None => self.places.next(&self.area, length, random)?,
            Some(reuse) => {
                let place = match reuse.next(random) {
                    Some(place) => self.area.held(place, length),
                    None => self.places.next(&self.area, length, random)?,
                };
                reuse.remember(place);
                place
            }
        };
        self.writes += u64::from(op == Op::Write);
        Some((op, place + before, length))
    }
}

/// How the places of an area become those of a target.
#[derive(Clone, Copy)]
struct Placing {
    offset: u64,
    shift: u64,
    fold: Option<u64>,
}

impl Placing {
    #[inline]
    fn of(self, place: u64, length: u64) -> u64 {
        let place = place + self.offset;
        match self.fold {
            Some(fold) if place >= fold => place - fold + self.shift,
            // A request across the end goes to the last place at which it fits.
            Some(fold) if place + length > fold => fold.saturating_sub(length) + self.shift,
            _ => place + self.shift,
        }
    }
}

/// A generated load.
pub(super) struct Generated {
    header: Header,
    arrivals: Arrivals,
    requests: Requests,
    /// The random numbers for instants (`when`), for volumes (`which`) and for all else (`what`).
    /// They are separate, so that places are the same at any rate.
    when: Random,
    what: Random,
    which: Random,
    placing: Placing,
    volumes: u32,
    /// The first instant that is too late, in nanoseconds.
    end: i64,
    /// The number of requests that are still to come.
    left: u64,
    /// The most requests of a batch.
    rows: usize,
}

impl Generated {
    pub(super) fn new(line: &str, load: Load, rows: usize) -> Result<Self, ArgumentError> {
        let Load { settings, mut requests, told } = load;
        let mut when = Random::new(settings.seed);
        let what = Random::new(scramble(settings.seed ^ 0x5EED_0F97_ACE5));
        let arrivals = match &mut requests {
            Requests::Bursts(_, bursts) => Arrivals::Bursts(*bursts),
            _ => Arrivals::new(
                &settings.process,
                &settings.rate,
                settings.changing.as_ref(),
                settings.duration,
                settings.count,
                &mut when,
            )?,
        };
        Ok(Self {
            header: header(line, &settings, &told),
            arrivals,
            requests,
            when,
            what,
            which: Random::new(scramble(settings.seed ^ 0x000F_501D)),
            placing: Placing {
                offset: settings.offset,
                shift: settings.shift,
                fold: settings.fold,
            },
            volumes: settings.volumes,
            end: settings.duration.map_or(i64::MAX, |duration| duration.0),
            left: settings.count.unwrap_or(u64::MAX),
            rows: rows.clamp(1, BATCH_ROWS),
        })
    }
}

impl Source for Generated {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(Columns::default());
        let rows = self.left.min(self.rows as u64) as usize;
        // Instants first, then the rest: two short loops are faster than one long one, and neither
        // needs the other's random numbers.
        self.arrivals.fill(&mut batch.issue_ns, rows, self.end, &mut self.when);
        let due = batch.issue_ns.len();
        match &mut self.requests {
            Requests::Simple(simple) | Requests::Bursts(simple, _) => {
                fill(batch, due, self.placing, || simple.next(&mut self.what));
            }
            Requests::Model(model) => {
                fill(batch, due, self.placing, || Some(model.next(&mut self.what)));
            }
        }
        let made = batch.op.len();
        batch.issue_ns.truncate(made);
        batch.flags.resize(made, Flags::empty());
        match self.volumes {
            1 => batch.volume.resize(made, 0),
            volumes => {
                let volumes = u64::from(volumes);
                let any = (0..made).map(|_| self.which.below(volumes) as u32);
                batch.volume.extend(any);
            }
        }
        self.left = if made < rows { 0 } else { self.left - made as u64 };
        Ok(made > 0)
    }
}

/// Puts up to `rows` requests into `batch`, until there are no more.
#[inline]
fn fill(
    batch: &mut Batch,
    rows: usize,
    placing: Placing,
    mut next: impl FnMut() -> Option<(Op, u64, u64)>,
) {
    for _ in 0..rows {
        let Some((op, place, length)) = next() else { break };
        batch.op.push(op);
        batch.offset_bytes.push(match op {
            Op::Flush => 0,
            _ => placing.of(place, length),
        });
        batch.length_bytes.push(length);
    }
}

/// The line with its seed, and the load in words.
fn header(line: &str, settings: &Settings, told: &str) -> Header {
    let seeded = line.split_once('?').is_some_and(|(_, settings)| {
        settings.split('&').any(|setting| setting.trim().starts_with("seed="))
    });
    let seed = settings.seed;
    let source = match (seeded, line.contains('?')) {
        (true, _) => line.to_owned(),
        (false, true) => format!("{line}&seed={seed}"),
        (false, false) => format!("{line}?seed={seed}"),
    };
    let length = match (settings.duration, settings.count) {
        (Some(duration), None) => format!("for {duration}"),
        (None, Some(count)) => format!("{count} requests"),
        (Some(duration), Some(count)) => format!("{count} requests or for {duration}"),
        (None, None) => "without end".to_owned(),
    };
    let end = settings.offset + settings.area;
    let size = Bytes(settings.fold.unwrap_or(end) + settings.shift);
    let volumes = (0..settings.volumes)
        .map(|id| Volume { id: VolumeId(id), name: String::new(), size: Some(size) })
        .collect();
    Header {
        source,
        format: FORMAT.to_owned(),
        description: Some(format!("artificial load: {told}, {length}, seed {seed}")),
        volumes,
        ..Header::default()
    }
}

/// The common settings in words.
pub(super) fn told(settings: &Settings, when: &str) -> String {
    let area = Bytes(settings.area);
    let parts = match settings.borders.len() {
        0 => String::new(),
        borders => format!(" in {} parts", borders + 1),
    };
    let from = match settings.offset {
        0 => String::new(),
        offset => format!(" from {} on", Bytes(offset)),
    };
    let volumes = match settings.volumes {
        1 => String::new(),
        volumes => format!(" on each of {volumes} volumes"),
    };
    format!("over {area}{parts}{from}{volumes}, {when}")
}

/// The arrivals of requests in words.
pub(super) fn when(settings: &Settings) -> String {
    let rate = match &settings.changing {
        Some(changing) => changing.to_string(),
        None => settings.rate.to_string(),
    };
    format!("{rate} {}", settings.process.told())
}
