//! A load on a device of another size.
//!
//! A trace of a large device does not fit onto a small one, and every way to make it fit has a
//! price. Wrapping keeps neighbours but lays regions over each other; folding does so without the
//! jump at the end; scaling keeps the order of positions but separates neighbours; packing keeps
//! neighbours and removes untouched regions; clipping drops the rest. So the user must choose.
//!
//! Then no request ends behind the end of the device. A request that would cross the end is moved
//! back to end there, and counted.

mod runs;

use rustc_hash::FxHashMap;

use self::runs::Runs;
use super::exact::size;
use super::place::{Mover, told};
use super::spread::alignment;
use super::stage::{Flow, Stage, Step};
use super::survey::survey;
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Topic};
use crate::request::Op;
use crate::stream::Source;
use crate::units::Bytes;

/// The note on requests that no place on the device can hold.
const TOO_LONG: &str = "requests longer than the device";

/// The note on requests beyond the device.
const BEYOND: &str = "requests beyond the end of the device";

/// The note on requests that were moved.
const CROSSING: Topic<'static> =
    NoteKind::Assumed.of("requests across the end of the device, moved to end there");

/// The default size of a region: large enough that a file stays in one piece.
const REGION: Bytes = Bytes(1 << 20);

/// `remap wrap|fold|scale|pack|clip,SIZE`.
pub const KIND: Kind = Kind {
    name: "remap",
    value: "wrap|fold|clip,SIZE | scale,SIZE[,from=SIZE][,align=SIZE] | pack[,SIZE][,region=SIZE]",
    help: "Put the requests onto a device of SIZE: wrap around its end, fold back at it, scale \
           positions to it, pack the regions that are touched (default: 1M) side by side, or clip \
           what lies beyond",
    spills: true,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let how: String = arguments.demand("how to remap (wrap, fold, scale, pack or clip)")?;
    let device = arguments.value::<Bytes>("the size of the device")?;
    let how = match how.as_str() {
        "wrap" => How::Wrap,
        "fold" => How::Fold,
        "clip" => How::Clip,
        "scale" => How::Scale {
            from: arguments.setting("from")?,
            align: alignment(arguments.setting("align")?)?,
        },
        "pack" => How::Pack { region: arguments.setting("region")?.unwrap_or(REGION) },
        other => {
            let known = "known are wrap, fold, scale, pack and clip";
            return Err(ArgumentError::new(format!("there is no way '{other}'; {known}")));
        }
    };
    arguments.finish()?;
    let refuse = |text: &str| Err(ArgumentError::new(text));
    if device.is_none() && !matches!(how, How::Pack { .. }) {
        return refuse("the size of the device is missing");
    }
    if device == Some(Bytes::ZERO) {
        return refuse("the size of the device must be more than 0");
    }
    if matches!(how, How::Pack { region: Bytes(0) } | How::Scale { from: Some(Bytes(0)), .. }) {
        return refuse("region= and from= must be more than 0");
    }
    Ok(Box::new(Remap { how, device }))
}

/// The rule by which positions come onto a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Modulo its size.
    Wrap,
    /// Forwards and backwards by turns.
    Fold,
    /// Multiplied by its size over `from`, in units of `align` bytes.
    Scale {
        /// The size of the original device; `None` for the furthest end of any request.
        from: Option<Bytes>,
        /// The unit of positions.
        align: Bytes,
    },
    /// The regions that are touched lie side by side, in the order of their positions.
    Pack {
        /// The size of a region.
        region: Bytes,
    },
    /// Positions stay, and requests that do not fit are dropped.
    Clip,
}

/// A load put onto a device of another size.
#[derive(Clone, Copy, Debug)]
pub struct Remap {
    /// The rule for positions.
    pub how: How,
    /// The size of the device; only packing can do without it.
    pub device: Option<Bytes>,
}

impl Transform for Remap {
    fn over(
        &self,
        mut source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let mut remap = *self;
        let mut runs = FxHashMap::default();
        match &mut remap.how {
            How::Scale { from: from @ None, .. } => {
                let mut end = 1;
                let held = survey(source, context, |batch| {
                    let ranges = batch.offset_bytes.iter().zip(&batch.length_bytes);
                    let ends = ranges.map(|(offset, length)| offset.saturating_add(*length));
                    end = end.max(ends.max().unwrap_or(0));
                })?;
                // The device that it was recorded on, where it is known, is larger than that.
                let sizes = held.header().volumes.iter().filter_map(|volume| volume.size);
                *from = sizes.max().max(Some(Bytes(end)));
                source = Box::new(held);
            }
            How::Pack { region } => {
                let region = region.0;
                let held = survey(source, context, |batch| touch(batch, region, &mut runs))?;
                runs.values_mut().for_each(Runs::finish);
                source = Box::new(held);
            }
            _ => {}
        }
        let why = match remap.how {
            How::Pack { .. } | How::Clip => BEYOND,
            _ => TOO_LONG,
        };
        let step = Onto { remap, runs, crossing: 0, first: None, mover: Mover::new(why) };
        Ok(Box::new(Stage::new(source, step)))
    }

    fn streams(&self) -> bool {
        !matches!(self.how, How::Scale { from: None, .. } | How::Pack { .. })
    }
}

/// Notes the regions that the requests of `batch` touch.
fn touch(batch: &Batch, region: u64, runs: &mut FxHashMap<u32, Runs>) {
    for row in 0..batch.len() {
        if batch.op[row] != Op::Flush {
            let offset = batch.offset_bytes[row];
            // A request of no length has a place too.
            let last = offset.saturating_add(batch.length_bytes[row].max(1) - 1);
            runs.entry(batch.volume[row]).or_default().add(offset / region, last / region);
        }
    }
}

struct Onto {
    remap: Remap,
    /// For packing: the regions that are touched on each volume.
    runs: FxHashMap<u32, Runs>,
    crossing: u64,
    first: Option<String>,
    mover: Mover,
}

/// The place of a request that must not cross the end of the device: `at`, or so that the request
/// ends at the end, which is counted. `None` if it is longer than the device.
#[inline]
fn within(at: u64, length: u64, device: u64, crossing: &mut u64) -> Option<u64> {
    if length > device {
        return None;
    }
    let last = device - length;
    *crossing += u64::from(at > last);
    Some(at.min(last))
}

/// The place of a request if every other length of the device runs backwards.
#[inline]
fn folded(offset: u64, length: u64, device: u64, crossing: &mut u64) -> Option<u64> {
    let (turn, at) = (offset / device, offset % device);
    if turn.is_multiple_of(2) {
        return within(at, length, device, crossing);
    }
    if length > device {
        return None;
    }
    *crossing += u64::from(at > device - length);
    Some((device - at).saturating_sub(length))
}

/// `value` · `to` / `from`, rounded down.
#[inline]
fn scaled(value: u64, to: u64, from: u64) -> Option<u64> {
    match value.checked_mul(to) {
        Some(product) => Some(product / from),
        None => u64::try_from(u128::from(value) * u128::from(to) / u128::from(from)).ok(),
    }
}

impl Onto {
    /// The size that the volume has now.
    fn size(&self, volume: u32) -> Option<Bytes> {
        match self.remap.how {
            How::Pack { region } => self.remap.device.or_else(|| {
                let regions = self.runs.get(&volume).map_or(0, Runs::regions);
                regions.checked_mul(region.0).map(Bytes)
            }),
            _ => self.remap.device,
        }
    }
}

impl Step for Onto {
    fn told(&self) -> String {
        let device = self.remap.device.map_or(String::new(), |device| format!(",{}", size(device)));
        match self.remap.how {
            How::Wrap => format!("remap wrap{device}"),
            How::Fold => format!("remap fold{device}"),
            How::Clip => format!("remap clip{device}"),
            How::Scale { from, align } => {
                let from = from.map_or(String::new(), |from| format!(",from={}", size(from)));
                format!("remap scale{device}{from},align={}", size(align))
            }
            How::Pack { region } => format!("remap pack{device},region={}", size(region)),
        }
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        for volume in &mut header.volumes {
            volume.size = self.size(volume.id.0);
        }
        header.guesses.add(CROSSING, self.crossing, self.first.clone());
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let device = self.remap.device.map_or(u64::MAX, |device| device.0);
        let mut crossing = 0;
        match self.remap.how {
            How::Wrap if device.is_power_of_two() => {
                self.mover.places(batch, |_, offset, length| {
                    within(offset & (device - 1), length, device, &mut crossing)
                });
            }
            How::Wrap => self.mover.places(batch, |_, offset, length| {
                within(offset % device, length, device, &mut crossing)
            }),
            How::Fold => self
                .mover
                .places(batch, |_, offset, length| folded(offset, length, device, &mut crossing)),
            How::Clip => self.mover.places(batch, |_, offset, length| {
                (length <= device && offset <= device - length).then_some(offset)
            }),
            How::Scale { from, align } => {
                let from = from.map_or(u64::MAX, |from| from.0);
                self.mover.places(batch, |_, offset, length| {
                    // Positions beyond `from` are moved back with the others that cross the end.
                    let unit = scaled(offset, device, from).unwrap_or(u64::MAX) / align.0;
                    let at = (unit * align.0).saturating_add(offset % align.0);
                    within(at, length, device, &mut crossing)
                });
            }
            How::Pack { region: Bytes(region) } => {
                self.mover.places(batch, |volume, offset, length| {
                    let packed = self.runs.get_mut(&volume)?.packed(offset / region)?;
                    let at = packed * region + offset % region;
                    (length <= device && at <= device - length).then_some(at)
                });
            }
        }
        if crossing > 0 && self.first.is_none() {
            let ends = batch.iter().find(|request| request.end().0 == device);
            self.first = ends.map(|request| format!("{} now", told(&request)));
        }
        self.crossing += crossing;
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests;
