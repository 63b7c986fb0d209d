//! Making a trace fit for publication.
//!
//! The positions of data, and the names of devices and processes, reveal much about the owner of a
//! trace. So the device is cut into extents, which are put into another order by a key, and names
//! are removed. Within an extent everything stays, so reuse is unchanged, and sequential streams
//! jump only at the borders of extents. The owner of the key can put another trace of the same
//! device into the same order. Without the key the order cannot be told.
//!
//! The order is a permutation of the numbers of the extents: a Feistel network (Luby, Rackoff,
//! 1988) of ten rounds over as many bits as the number of extents has, walked until it answers with
//! a number that there is (Black, Rogaway: "Ciphers with arbitrary finite domains", 2002). Its
//! round function is SipHash-2-4 (Aumasson, Bernstein, 2012). A key that can be guessed protects
//! nothing.
//!
//! The key is not written down. The sequence of requests, their sizes and their instants still
//! stand in the trace; anybody who knows them can recognise the trace.

mod permutation;

use rustc_hash::FxHashMap;

use self::permutation::Permutation;
use super::exact::size;
use super::place::{Mover, told};
use super::stage::{Flow, Stage, Step};
use super::survey::survey;
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Notes, Topic};
use crate::request::Op;
use crate::stream::Source;
use crate::units::Bytes;

/// Replaces the key in provenance.
const NO_KEY: &str = "key-not-kept";

/// The default size of an extent: a stream jumps seldom, and a disk of a terabyte has 16,384 of
/// them.
const EXTENT: Bytes = Bytes(64 << 20);

/// The note on requests that do not lie within one extent.
const ACROSS: Topic<'static> =
    NoteKind::Assumed.of("requests across the border of two extents, kept in one piece");

/// The note on requests beyond the device.
const BEYOND: &str = "requests beyond the end of the device";

/// `anonymise KEY[,extent=SIZE][,size=SIZE]`.
pub const KIND: Kind = Kind {
    name: "anonymise",
    value: "KEY[,extent=SIZE][,size=SIZE]",
    help: "Put the extents (default: 64M) of each volume, whose size may be given, into an order \
           that depends on KEY, and take names, places and dates out of the header; the key is not \
           written down",
    spills: true,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let key: String = arguments.demand("the key")?;
    let extent = arguments.setting("extent")?.unwrap_or(EXTENT);
    let device = arguments.setting("size")?;
    arguments.finish()?;
    if extent == Bytes::ZERO || device == Some(Bytes::ZERO) {
        return Err(ArgumentError::new("extent= and size= must be more than 0"));
    }
    Ok(Box::new(Anonymise { key: Key(key), extent, device }))
}

/// A key, which is never shown.
#[derive(Clone)]
pub struct Key(pub String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(NO_KEY)
    }
}

/// Extents in another order, and no names.
#[derive(Clone, Debug)]
pub struct Anonymise {
    /// The key on which the order depends.
    pub key: Key,
    /// The size of an extent.
    pub extent: Bytes,
    /// The size of every volume; `None` for the largest known size, or the furthest end of any
    /// request.
    pub device: Option<Bytes>,
}

impl Transform for Anonymise {
    fn shown(&self, text: &str) -> String {
        let settings = text.split(',').map(str::trim).filter(|part| !part.is_empty()).skip(1);
        [NO_KEY].into_iter().chain(settings).collect::<Vec<_>>().join(",")
    }

    fn over(
        &self,
        mut source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        if self.key.0 == NO_KEY {
            return Err(TraceError::Asked {
                path: source.header().source.clone().into(),
                reason: "the key of an anonymised trace is not kept in its provenance".into(),
                remedy: format!("give the key in the place of '{NO_KEY}'").into(),
            });
        }
        let device = if let Some(device) = self.device {
            device
        } else {
            let mut end = 1;
            let held = survey(source, context, |batch| {
                let ranges = batch.offset_bytes.iter().zip(&batch.length_bytes);
                // A request without a length has a place as well.
                let ends = ranges.map(|(offset, length)| offset.saturating_add(1.max(*length)));
                end = end.max(ends.max().unwrap_or(0));
            })?;
            let sizes = held.header().volumes.iter().filter_map(|volume| volume.size);
            let device = sizes.max().max(Some(Bytes(end))).unwrap_or(Bytes(end));
            source = Box::new(held);
            device
        };
        let step = Shuffled {
            permutation: Permutation::new(&self.key.0, device.0.div_ceil(self.extent.0)),
            extent: self.extent.0,
            device: device.0,
            across: 0,
            first: None,
            mover: Mover::new(BEYOND),
        };
        Ok(Box::new(Stage::new(source, step)))
    }

    fn streams(&self) -> bool {
        self.device.is_some()
    }
}

struct Shuffled {
    permutation: Permutation,
    extent: u64,
    /// The size of a volume before, in bytes.
    device: u64,
    across: u64,
    first: Option<String>,
    mover: Mover,
}

impl Shuffled {
    /// The size of a volume now, in bytes: whole extents.
    fn size(&self) -> u64 {
        self.device.checked_next_multiple_of(self.extent).unwrap_or(u64::MAX)
    }
}

/// Removes names, places and dates from the header.
fn hide(header: &mut Header) {
    "anonymised".clone_into(&mut header.source);
    header.description = None;
    header.recorder = None;
    header.started = None;
    header.forget_run();
    header.files = None;
    if let Some(recording) = &mut header.recording {
        // Names and numbers of devices, the machine's kernel and the time of its run go; figures
        // stay.
        recording.devices.clear();
        recording.kernel.clear();
        recording.why.clear();
        (recording.zero_monotonic_ns, recording.stopped) = (None, None);
    }
    if let Some(damage) = &mut header.damage {
        "the source ended before its end".clone_into(damage);
    }
    for volume in &mut header.volumes {
        volume.name = format!("volume {}", volume.id.0);
    }
    // Equal names become equal names.
    let mut names = FxHashMap::default();
    for name in header.processes.values_mut() {
        let number = names.len() + 1;
        let number = *names.entry(name.clone()).or_insert(number);
        *name = format!("process {number}");
    }
    // Headers of merged traces reveal their owners, too.
    header.merged.clear();
    // Examples are lines of the source, and a part of the trace is a file.
    for notes in [&mut header.losses, &mut header.guesses] {
        let mut bare = Notes::default();
        for note in notes.iter() {
            bare.add(note.kind.of(&note.what), note.count, None);
        }
        *notes = bare;
    }
    // Transforms may name files, programs and places.
    for line in &mut header.transforms {
        let name = line.split_once(' ').map_or(line.as_str(), |(name, _)| name);
        if matches!(name, "merge" | "cmd" | "filter" | "split") {
            *line = format!("{name} (not kept)");
        }
    }
}

impl Step for Shuffled {
    fn told(&self) -> String {
        let (extent, device) = (size(Bytes(self.extent)), size(Bytes(self.device)));
        format!("anonymise {NO_KEY},extent={extent},size={device}")
    }

    fn describe(&self, header: &mut Header) {
        hide(header);
        header.columns.measured = false;
        for volume in &mut header.volumes {
            volume.size = Some(Bytes(self.size()));
        }
        header.guesses.add(ACROSS, self.across, self.first.clone());
        // Dropped requests have no place in the new order.
        self.mover.note_bare(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let (extent, size) = (self.extent, self.size());
        let (mut across, mut first) = (0, None);
        let permutation = &mut self.permutation;
        self.mover.places(batch, |volume, offset, length| {
            let number = offset / extent;
            let within = offset % extent;
            let at = permutation.of(volume, number)?.checked_mul(extent)?.checked_add(within)?;
            if length > extent - within {
                across += 1;
                let last = size.checked_sub(length)?;
                first.get_or_insert(at.min(last));
                return Some(at.min(last));
            }
            Some(at)
        });
        if self.first.is_none()
            && let Some(at) = first
        {
            let is_it =
                |request: &crate::Request| request.offset.0 == at && request.op != Op::Flush;
            self.first = batch.iter().find(is_it).map(|request| told(&request));
        }
        self.across += across;
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests;
