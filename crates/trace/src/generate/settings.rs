//! The settings of every kind of generated load: rate, sizes, mix, area, length, seed.

use super::arrival::{Changing, Process, Rate};
use super::random::Share;
use super::size::Sizes;
use crate::arguments::{ArgumentError, Arguments};
use crate::units::{Bytes, Nanos};

/// The default duration of a load.
const DURATION: Nanos = Nanos::from_secs(60);

/// The default area of a load: 1 GiB, which fits on the smallest test target.
const AREA: Bytes = Bytes(1 << 30);

/// The default seed. Always the same, so that the same line makes the same load.
const SEED: u64 = 1;

/// The largest number of volumes, as in the readers of published formats.
const VOLUMES_MAX: u32 = 65_536;

/// The largest number of parts of an area.
const PARTS_MAX: usize = 4096;

/// The largest number of requests that a load goes back.
const DEPTH_MAX: usize = 1 << 24;

/// The rule that decides which requests read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reads {
    /// By chance, with this probability.
    Share(Share),
    /// The first reads, the second writes, and so on.
    Alternate,
}

/// The settings that all kinds have.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) rate: Rate,
    /// Rates that follow each other, instead of `rate`.
    pub(super) changing: Option<Changing>,
    pub(super) process: Process,
    pub(super) area: u64,
    /// Where the parts of the area meet, if it has several.
    pub(super) borders: Vec<u64>,
    pub(super) offset: u64,
    /// What is added to each place in the end, so that no place is aligned.
    pub(super) shift: u64,
    /// The size behind which places begin again at zero.
    pub(super) fold: Option<u64>,
    /// The alignment of places in bytes, where the user gave one.
    pub(super) align: Option<u64>,
    pub(super) duration: Option<Nanos>,
    pub(super) count: Option<u64>,
    pub(super) endless: bool,
    pub(super) seed: u64,
    pub(super) volumes: u32,
}

impl Settings {
    pub(super) fn parse(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        let text = arguments.setting::<String>("rate")?;
        let changing = text.as_deref().map(Changing::parse).transpose()?.flatten();
        let rate = match (&text, &changing) {
            (_, Some(changing)) => changing.mean(),
            (None, None) => Rate::DEFAULT,
            (Some(text), None) => text
                .parse()
                .map_err(|error| ArgumentError::new(format!("rate: '{text}': {error}")))?,
        };
        let process = match arguments.setting::<String>("dist")? {
            None => Process::Constant,
            Some(text) => Process::parse(&text)?,
        };
        let text = arguments.setting::<String>("area")?;
        let (area, borders) = text.as_deref().map_or(Ok((AREA.0, Vec::new())), area)?;
        let Bytes(offset) = arguments.setting("offset")?.unwrap_or(Bytes::ZERO);
        if offset.checked_add(area).is_none_or(|end| end > i64::MAX as u64) {
            return Err(ArgumentError::new("area: it ends beyond 8 EiB"));
        }
        let Bytes(shift) = arguments.setting("shift")?.unwrap_or(Bytes::ZERO);
        let fold = arguments.setting::<Bytes>("fold")?.map(|fold| fold.0);
        if (offset + area).checked_add(shift).is_none_or(|end| end > i64::MAX as u64) {
            return Err(ArgumentError::new("shift: with it the area ends beyond 8 EiB"));
        }
        if fold.is_some_and(|fold| area > fold || offset >= fold) {
            return Err(ArgumentError::new(
                "fold: the area begins before it, and is no larger than it",
            ));
        }
        let align = arguments.setting::<Bytes>("align")?.map(|align| align.0);
        if align.is_some_and(|align| !align.is_power_of_two()) {
            return Err(ArgumentError::new("align: it is a power of two"));
        }
        if align.is_some_and(|align| !offset.is_multiple_of(align)) {
            return Err(ArgumentError::new("offset: it is not a multiple of the alignment"));
        }
        let mut duration = arguments.setting("duration")?;
        let count = arguments.setting("count")?;
        let endless = yes(arguments, "endless")?.unwrap_or(false);
        match (endless, duration, count) {
            (true, Some(_), _) | (true, _, Some(_)) => {
                return Err(ArgumentError::new(
                    "endless: what is endless has neither duration nor count",
                ));
            }
            (false, None, None) => duration = Some(DURATION),
            _ => {}
        }
        if duration.is_some_and(|duration| duration <= Nanos::ZERO) || count == Some(0) {
            return Err(ArgumentError::new("a load of nothing has nothing to replay"));
        }
        if !borders.is_empty() && (offset > 0 || shift > 0 || fold.is_some()) {
            return Err(ArgumentError::new(
                "area: one of several parts has no 'offset', 'shift' or 'fold'",
            ));
        }
        let seed = arguments.setting("seed")?.unwrap_or(SEED);
        let volumes = arguments.setting("volumes")?.unwrap_or(1);
        if !(1..=VOLUMES_MAX).contains(&volumes) {
            return Err(ArgumentError::new("volumes: between 1 and 65536 make sense"));
        }
        Ok(Self {
            rate,
            changing,
            process,
            area,
            borders,
            offset,
            shift,
            fold,
            align,
            duration,
            count,
            endless,
            seed,
            volumes,
        })
    }
}

/// The mix of the simple kinds; the model has a mix of its own.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub(super) reads: Reads,
    pub(super) sizes: Sizes,
    pub(super) discards: Share,
    /// The number of writes after which a flush follows.
    pub(super) flush: Option<u64>,
    pub(super) reuse: Option<(Share, usize)>,
    pub(super) hits: Option<Hits>,
}

/// The part at the beginning of the area that caches are to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hits {
    /// Its size in bytes.
    pub(super) area: u64,
    pub(super) reads: Share,
    pub(super) writes: Share,
}

impl Hits {
    /// The default size.
    const AREA: Bytes = Bytes(1 << 20);

    fn parse(arguments: &mut Arguments<'_>) -> Result<Option<Self>, ArgumentError> {
        let reads = arguments.setting("read-hits")?;
        let writes = arguments.setting("write-hits")?;
        let area: Option<Bytes> = arguments.setting("hit-area")?;
        if reads.is_none() && writes.is_none() {
            return match area {
                None => Ok(None),
                Some(_) => Err(ArgumentError::new(
                    "hit-area: without 'read-hits' or 'write-hits' nothing goes there",
                )),
            };
        }
        let Bytes(area) = area.unwrap_or(Self::AREA);
        let [reads, writes] = [reads, writes].map(|share| share.unwrap_or(Share::NEVER));
        Ok(Some(Self { area, reads, writes }))
    }
}

impl Mix {
    pub(super) fn parse(
        arguments: &mut Arguments<'_>,
        reads: Reads,
        size: &str,
    ) -> Result<Self, ArgumentError> {
        let reads = match arguments.setting::<String>("read")?.as_deref() {
            None => reads,
            Some("alternate") => Reads::Alternate,
            Some(text) => Reads::Share(text.parse().map_err(|error| {
                ArgumentError::new(format!("read: '{text}': {error}, or 'alternate'"))
            })?),
        };
        let size = arguments.setting::<String>("size")?.unwrap_or_else(|| size.to_owned());
        let sizes = Sizes::parse(&size)?;
        let discards = arguments.setting("discard")?.unwrap_or(Share::NEVER);
        let flush = arguments.setting("flush")?;
        if flush == Some(0) {
            return Err(ArgumentError::new("flush: it says after how many writes, at least 1"));
        }
        let share = arguments.setting("reuse")?;
        let depth: Option<usize> = arguments.setting("depth")?;
        if depth.is_some_and(|depth| !(1..=DEPTH_MAX).contains(&depth)) {
            return Err(ArgumentError::new("depth: between 1 and 16777216 requests make sense"));
        }
        let reuse = match (share, depth) {
            (None, Some(_)) => {
                return Err(ArgumentError::new("depth: without 'reuse' nothing is used again"));
            }
            (share, depth) => share.map(|share| (share, depth.unwrap_or(1000))),
        };
        let hits = Hits::parse(arguments)?;
        Ok(Self { reads, sizes, discards, flush, reuse, hits })
    }
}

/// The size of an area such as `10G`, or of its parts such as `10G+4G`, and where the parts meet.
fn area(text: &str) -> Result<(u64, Vec<u64>), ArgumentError> {
    let (mut size, mut borders) = (0_u64, Vec::new());
    for part in text.split('+') {
        let Bytes(bytes) = part
            .trim()
            .parse()
            .map_err(|error| ArgumentError::new(format!("area: '{part}': {error}")))?;
        if size > 0 {
            borders.push(size);
        }
        size = size.checked_add(bytes).filter(|_| bytes > 0 || text == part).ok_or_else(|| {
            ArgumentError::new("area: a part of nothing, or parts that end beyond 8 EiB")
        })?;
    }
    if borders.len() >= PARTS_MAX {
        return Err(ArgumentError::new(format!("area: at most {PARTS_MAX} parts make sense")));
    }
    Ok((size, borders))
}

/// A switch.
pub(super) fn yes(
    arguments: &mut Arguments<'_>,
    name: &'static str,
) -> Result<Option<bool>, ArgumentError> {
    arguments.choice(name, &[("yes", true), ("no", false)])
}
