//! A load on a storage as the line of a generator.
//!
//! What a description means must be visible: each load of a run is shown as the `gen:` line that
//! makes its requests, and anybody can look at that load, convert it or replay it by itself.
//!
//! Laws of our own, where the other program's are not known: a hot band, and seeks by the word
//! `poisson`, are places by Zipf's law, the hottest first.

use std::fmt::Write as _;

use super::model::{Arrival, Band, Extent, Rate, Seek, Sizes, Storage, Work, plain};
use crate::units::Nanos;

/// What is spared at the beginning of a device: whoever needs the label of a disk keeps it. The
/// least; more where places are multiples of more.
const SPARED: u64 = 4096;

/// The exponent of skewed places.
const SKEW: f64 = 0.99;

/// A load of one run on one storage, with everything that loops decide.
#[derive(Clone, Debug)]
pub(super) struct Flow<'w> {
    pub(super) work: &'w Work,
    /// Its storage; several if they are one volume.
    pub(super) storages: Vec<&'w Storage>,
    pub(super) sizes: Sizes,
    pub(super) read: f64,
    pub(super) hits: Option<(f64, f64)>,
    pub(super) seek: Seek,
    pub(super) hit_area: u64,
    pub(super) shift: u64,
    pub(super) align: Option<u64>,
    pub(super) seed: u64,
}

/// When the requests of a flow are due.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Due {
    /// When there is a place.
    Free,
    /// At this rate, for this long.
    At(Rate, Arrival, Nanos),
    /// At a rate that is known when another run is over; in words.
    Later(String, Arrival, Nanos),
}

/// What a load has of one of several storages that are one volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The number of the storage among those of the load.
    pub(super) storage: usize,
    /// Where it begins there.
    pub(super) from: u64,
    /// How long it is.
    pub(super) length: u64,
}

/// Where an area lies, in bytes.
struct Area {
    offset: u64,
    size: u64,
    shift: u64,
    fold: Option<u64>,
}

impl Flow<'_> {
    fn alignment(&self) -> u64 {
        self.align.unwrap_or_else(|| self.sizes.alignment())
    }

    /// What is spared of its storages, in bytes.
    fn spared(&self) -> u64 {
        self.storages.iter().map(|storage| self.spared_of(storage)).max().unwrap_or(0)
    }

    fn spared_of(&self, storage: &Storage) -> u64 {
        if storage.is_device() { self.alignment().max(SPARED) } else { 0 }
    }

    fn range(&self) -> Option<Band> {
        let of_storage = self.storages.first().and_then(|storage| storage.range);
        self.work.band.or(self.work.range).or(of_storage)
    }

    /// The line, and the parts that it has of its storages where these are one volume. `sizes` is
    /// how much of each storage is used, in bytes, if that is known; otherwise the line has words
    /// in place of numbers.
    ///
    /// # Errors
    ///
    /// The reason in words, if its requests do not fit.
    pub(super) fn line(
        &self,
        sizes: Option<&[u64]>,
        due: &Due,
    ) -> Result<(String, Vec<Part>), String> {
        let mut parts = Vec::new();
        let mut line = Line::new(self.kind());
        self.places(&mut line);
        if self.read < 100.0 {
            line.set("read", self.read);
        }
        line.set("size", &self.sizes);
        if let Some((reads, writes, area)) = self.held() {
            line.set("read-hits", reads);
            line.set("write-hits", writes);
            line.set("hit-area", plain(area));
        }
        match sizes {
            Some(sizes) if sizes.len() > 1 => {
                parts = self.parts(sizes)?;
                let each: Vec<String> = parts.iter().map(|part| plain(part.length)).collect();
                line.set("area", each.join("+"));
            }
            Some(sizes) => {
                let area = self.area(sizes.iter().sum())?;
                line.set("area", plain(area.size));
                if area.offset > 0 {
                    line.set("offset", plain(area.offset));
                }
                if area.shift > 0 {
                    line.set("shift", plain(area.shift));
                }
                if let Some(fold) = area.fold {
                    line.set("fold", plain(fold));
                }
            }
            None => self.unknown(&mut line),
        }
        if let Some(align) = self.align.filter(|align| *align != self.sizes.alignment()) {
            line.set("align", plain(align));
        }
        due.put(&mut line);
        line.set("seed", self.seed);
        if !parts.is_empty() {
            crate::generate::check(line.text.as_ref()).map_err(|error| error.to_string())?;
        }
        Ok((line.text, parts))
    }

    /// What it has of each storage, where these are one volume: of each its own part, one behind
    /// the other, and of all that the part of the load. Each is a multiple of the alignment, so
    /// that no place lies across a border.
    fn parts(&self, sizes: &[u64]) -> Result<Vec<Part>, String> {
        let align = self.alignment();
        let down = |bytes: u64| bytes & !(align - 1);
        if self.shift > 0 {
            return Err("no place of several storages as one volume is shifted (offset=)".into());
        }
        if self.storages.iter().any(|storage| storage.align != self.storages[0].align) {
            return Err("its storages are one volume, and have different align=".into());
        }
        if self.hits.is_some() && self.storages.iter().any(|it| it.hit_area != self.hit_area) {
            return Err("its storages are one volume, and have different hitarea=".into());
        }
        let mut all = Vec::new();
        for (number, (storage, size)) in self.storages.iter().zip(sizes).enumerate() {
            let (from, to) = match storage.range {
                None => (0, *size),
                Some(Band { from, to }) => (part(from, *size), part(to, *size)),
            };
            if to > *size {
                let name = &storage.name;
                return Err(format!("the range of {name}, a part of a volume, ends beyond it"));
            }
            let from = from.max(self.spared_of(storage)).next_multiple_of(align);
            let length = down(to.saturating_sub(from));
            if length < self.sizes.largest() {
                return Err(Self::too_small(&storage.name, length, self.sizes.largest()));
            }
            all.push(Part { storage: number, from, length });
        }
        let whole = all.iter().map(|part| part.length).sum();
        let Some(Band { from, to }) = self.work.band.or(self.work.range) else { return Ok(all) };
        let (from, to) = (down(part(from, whole)), down(part(to, whole)));
        if to > whole {
            return Err("its range ends beyond the storages that are one volume".into());
        }
        let mut begin = 0;
        let mut kept = Vec::new();
        for one in all {
            let (first, last) = (from.max(begin), to.min(begin + one.length));
            // A request does not fit into less.
            if last.saturating_sub(first) >= self.sizes.largest() {
                let from = one.from + (first - begin);
                kept.push(Part { from, length: last - first, ..one });
            }
            begin += one.length;
        }
        if kept.is_empty() {
            return Err(Self::too_small(&self.names(), to - from, self.sizes.largest()));
        }
        Ok(kept)
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.storages.iter().map(|storage| storage.name.as_str()).collect();
        names.join("+")
    }

    fn too_small(name: &str, has: u64, needs: u64) -> String {
        format!("its part of {name} has {}, and it needs {}", plain(has), plain(needs))
    }

    /// Percent of reads and writes that go to the hit area, and its size: the requests fit there.
    fn held(&self) -> Option<(f64, f64, u64)> {
        let (reads, writes) = self.hits?;
        let has_hits = (reads > 0.0 || writes > 0.0) && self.hit_area > 0;
        let area = self.hit_area.max(self.sizes.largest());
        has_hits.then(|| (reads, writes, area.next_multiple_of(self.alignment())))
    }

    fn kind(&self) -> &'static str {
        let Work { streams, stride, band, .. } = self.work;
        match self.seek {
            _ if streams.is_some() => "streams",
            _ if stride.is_some() => "strided",
            _ if band.is_some() => "zipf",
            Seek::Skewed => "zipf",
            Seek::Share(percent) if percent > 0.0 => "random",
            _ => "sequential",
        }
    }

    fn places(&self, line: &mut Line) {
        let Work { streams, stride, band, .. } = self.work;
        if let Some(streams) = streams {
            line.set("streams", streams);
        } else if let Some((from, to)) = stride {
            // No distance is shorter than the places are apart.
            let apart = |distance: u64| plain(distance.max(1).next_multiple_of(self.alignment()));
            line.set("stride", format!("{}-{}", apart(*from), apart(*to)));
        } else if band.is_some() || self.seek == Seek::Skewed {
            line.set("theta", SKEW);
            line.set("scatter", "no");
        } else {
            match self.seek {
                Seek::Share(percent) if percent > 0.0 && percent < 100.0 => {
                    line.set("seek", percent);
                }
                Seek::Once => line.set("end", "stop"),
                Seek::FromAnywhere => line.set("start", "any"),
                _ => {}
            }
        }
    }

    /// Where the requests go on storages of this size.
    fn area(&self, size: u64) -> Result<Area, String> {
        let align = self.alignment();
        let down = |bytes: u64| bytes & !(align - 1);
        let spared = self.spared();
        let whole = size.saturating_sub(self.shift);
        let (from, to) = match self.range() {
            None => (0, whole),
            Some(Band { from, to }) => (down(part(from, whole)), part(to, whole)),
        };
        let largest = self.sizes.largest();
        let area = if to <= whole {
            let offset = from.max(spared);
            Area { offset, size: to.saturating_sub(offset), shift: self.shift, fold: None }
        } else {
            // It goes on at the beginning, behind what is spared there.
            let fold = down(whole.saturating_sub(spared));
            let offset = from.saturating_sub(spared).min(fold.saturating_sub(align));
            let size = (to - from).min(fold);
            Area { offset, size, shift: self.shift + spared, fold: Some(fold) }
        };
        let streams = self.work.streams.unwrap_or(1);
        let each = if streams > 1 { largest.next_multiple_of(align) } else { largest };
        let held = self.held().map_or(0, |(_, _, held)| held);
        let needs = each.saturating_mul(streams).saturating_add(held);
        if area.size < needs {
            let name = self.storages.first().map_or("", |storage| storage.name.as_str());
            return Err(Self::too_small(name, area.size, needs));
        }
        Ok(area)
    }

    /// The area in words, where sizes are not known.
    fn unknown(&self, line: &mut Line) {
        let name = self.names();
        let told = |extent: Extent| match extent {
            Extent::Bytes(bytes) => plain(bytes),
            Extent::Percent(percent) => format!("{percent}%"),
        };
        match self.range() {
            Some(Band { from, to }) => {
                line.set("area", format!("{{{}..{} of {name}}}", told(from), told(to)));
            }
            None => line.set("area", format!("{{size of {name}}}")),
        }
        if self.spared() > 0 {
            line.set("offset", plain(self.spared()));
        }
        if self.shift > 0 {
            line.set("shift", plain(self.shift));
        }
    }
}

/// So many bytes of `whole`.
fn part(extent: Extent, whole: u64) -> u64 {
    match extent {
        Extent::Bytes(bytes) => bytes,
        Extent::Percent(percent) => (whole as f64 * (percent / 100.0)) as u64,
    }
}

impl Due {
    fn put(&self, line: &mut Line) {
        let dist = |arrival: &Arrival| match arrival {
            Arrival::Poisson => "poisson",
            Arrival::Uniform => "uniform",
            Arrival::Constant => "constant",
        };
        match self {
            Self::Free | Self::At(Rate::Max | Rate::Curve(_), ..) => line.set("endless", "yes"),
            Self::At(Rate::Fixed(rate), arrival, span) => {
                line.set("rate", rate_of(*rate));
                line.set("dist", dist(arrival));
                line.set("duration", seconds(*span));
            }
            Self::At(Rate::Changing { pairs, jumps }, arrival, span) => {
                // A load with next to no share in the rate has next to no requests.
                let of = |(rate, span): &(f64, Nanos)| rate * span.as_secs_f64();
                let is_some = pairs.iter().map(of).sum::<f64>() > 0.1;
                let rate = if is_some { changing(pairs, *jumps) } else { rate_of(1e-6) };
                line.set("rate", rate);
                line.set("dist", dist(arrival));
                line.set("duration", seconds(*span));
            }
            Self::Later(rate, arrival, span) => {
                line.set("rate", format!("{{{rate}}}"));
                line.set("dist", dist(arrival));
                line.set("duration", seconds(*span));
            }
        }
    }
}

/// A rate with at most nine digits behind the point.
fn rate_of(rate: f64) -> String {
    let text = format!("{rate:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rates that follow each other, as a generator takes them.
fn changing(pairs: &[(f64, Nanos)], jumps: bool) -> String {
    let mut spans = Vec::new();
    for (number, (rate, span)) in pairs.iter().enumerate() {
        let (rate, span) = (rate_of(rate.max(1e-6)), seconds(*span));
        let next = pairs.get(number + 1).filter(|_| !jumps);
        match next.map(|(next, _)| rate_of(next.max(1e-6))) {
            Some(next) if next != rate => spans.push(format!("{rate}-{next}@{span}")),
            _ => spans.push(format!("{rate}@{span}")),
        }
    }
    spans.join(",")
}

/// A span of time as a generator takes it.
pub(super) fn seconds(span: Nanos) -> String {
    if span.0 % 1_000_000_000 == 0 {
        format!("{}s", span.0 / 1_000_000_000)
    } else {
        format!("{}ns", span.0)
    }
}

/// A line that is being put together.
struct Line {
    text: String,
    has_settings: bool,
}

impl Line {
    fn new(kind: &str) -> Self {
        Self { text: format!("{}{kind}", crate::generate::PREFIX), has_settings: false }
    }

    fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        let mark = if std::mem::replace(&mut self.has_settings, true) { '&' } else { '?' };
        let _ = write!(self.text, "{mark}{name}={value}");
    }
}
