//! Larger or smaller requests.
//!
//! What would the same load cost with larger blocks? As blkreplay's module `pipe_resize` does it,
//! lengths are multiplied and held between bounds. Unlike in blkreplay, no request shrinks to
//! nothing. Flushes and zone operations move no data and stay; so do requests of no length. The
//! recorded latency belongs to the old length, so it becomes unknown.

use super::exact::{Ratio, size};
use super::place::{Mover, NO_PLACE};
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::{Batch, UNKNOWN};
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Topic};
use crate::request::Op;
use crate::stream::Source;
use crate::units::{Bytes, SECTOR};

/// `resize FACTOR[,min=SIZE][,max=SIZE][,align=SIZE]`.
pub const KIND: Kind = Kind {
    name: "resize",
    value: "FACTOR[,min=SIZE][,max=SIZE][,align=SIZE]",
    help: "Multiply lengths by FACTOR, round down to multiples of SIZE (default: 512) and hold \
           them between min (default: one such multiple) and max (default: none)",
    spills: false,
    parse,
};

/// The note on latencies that became unknown with a new length.
const UNKNOWN_NOW: Topic<'static> =
    NoteKind::Beside.of("latencies of requests that have another length now");

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let factor = arguments.demand("the factor")?;
    let min: Option<Bytes> = arguments.setting("min")?;
    let max: Option<Bytes> = arguments.setting("max")?;
    let align = super::spread::alignment(arguments.setting("align")?.or(Some(Bytes(SECTOR))))?;
    arguments.finish()?;
    let min = min.unwrap_or(align.min(max.unwrap_or(align)));
    if max.is_some_and(|max| max < min) {
        return Err(ArgumentError::new("max is less than min"));
    }
    if min == Bytes::ZERO {
        return Err(ArgumentError::new("min: at least 1 byte, for a request without data is none"));
    }
    Ok(Box::new(Resize { factor, min, max, align }))
}

/// `length` becomes ⌊`length` · `factor` / `align`⌋ · `align`, held between `min` and `max`.
#[derive(Clone, Copy, Debug)]
pub struct Resize {
    /// The factor for lengths.
    pub factor: Ratio,
    /// The shortest length.
    pub min: Bytes,
    /// The longest length, if there is one.
    pub max: Option<Bytes>,
    /// The unit of lengths.
    pub align: Bytes,
}

impl Resize {
    /// The new length for `length`. A product beyond 64 bits becomes `u64::MAX`, which no range
    /// has.
    #[inline]
    fn length(&self, length: u64) -> u64 {
        let scaled = self.factor.of(length).unwrap_or(u64::MAX);
        let aligned = if scaled == u64::MAX { scaled } else { scaled - scaled % self.align.0 };
        aligned.max(self.min.0).min(self.max.map_or(u64::MAX, |max| max.0))
    }
}

impl Transform for Resize {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let step =
            Resized { resize: *self, memory: [(0, 0); 2], unknown: 0, mover: Mover::new(NO_PLACE) };
        Ok(Box::new(Stage::new(source, step)))
    }
}

struct Resized {
    resize: Resize,
    /// The lengths seen last and their new lengths: most requests have one of a few.
    memory: [(u64, u64); 2],
    /// Latencies that are no longer known.
    unknown: u64,
    mover: Mover,
}

impl Step for Resized {
    fn told(&self) -> String {
        let Resize { factor, min, max, align } = &self.resize;
        let max = max.map_or(String::new(), |max| format!(",max={}", size(max)));
        format!("resize {factor},min={}{max},align={}", size(*min), size(*align))
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        header.losses.add(UNKNOWN_NOW, self.unknown, None);
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let Batch { op, offset_bytes, length_bytes, latency_ns, .. } = &mut *batch;
        let mut all = true;
        for (row, length) in length_bytes.iter_mut().enumerate() {
            if *length == 0 || matches!(op[row], Op::Flush | Op::Zone) {
                continue;
            }
            let to = match self.memory {
                [(from, to), _] | [_, (from, to)] if from == *length => to,
                [last, _] => {
                    let to = self.resize.length(*length);
                    self.memory = [(*length, to), last];
                    to
                }
            };
            if to != *length
                && let Some(latency) = latency_ns
            {
                self.unknown += u64::from(latency[row] != UNKNOWN);
                latency[row] = UNKNOWN;
            }
            *length = to;
            all &= offset_bytes[row].checked_add(to).is_some();
        }
        if !all {
            self.mover.only(batch, |_, offset, length| offset.checked_add(length).is_some());
        }
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use super::*;
    use crate::Request;
    use crate::batch::tests::any_request;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lengths_are_multiplied_and_held_between_bounds_and_nothing_else_changes(
            mut requests in proptest::collection::vec(any_request(), 0..100), rows in 1_usize..40,
            above in 0_u64..100, below in 1_u64..20, min in 1_u64..1 << 30,
            max in 1_u64 << 30..1 << 62, align in 1_u64..1 << 20,
        ) {
            requests.sort_by_key(|request| request.issue);
            let line = format!("resize {above}/{below},min={min},max={max},align={align}");
            let (all, header) = made(&line, &requests, rows);
            let expected: Vec<_> = requests.iter().filter_map(|request| {
                let mut request = Request { measured: None, ..*request };
                let was = request.length.0;
                if was > 0 && !matches!(request.op, Op::Flush | Op::Zone) {
                    let units = u128::from(was) * u128::from(above)
                        / u128::from(below) / u128::from(align);
                    let to = (units * u128::from(align)).clamp(min.into(), max.into());
                    request.length.0 = to as u64;
                    if request.length.0 != was {
                        request.latency = None;
                    }
                    request.offset.0.checked_add(request.length.0)?;
                }
                Some(request)
            }).collect();
            let dropped = (requests.len() - expected.len()) as u64;
            prop_assert_eq!(header.losses.count_of(NO_PLACE), dropped);
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn it_says_what_it_took_for_granted_and_refuses_what_is_none() {
        let told = |line| made(line, &[], 1).1.transforms.remove(0);
        assert_eq!(told("resize 0.5"), "resize 0.5,min=512,align=512");
        assert_eq!(told("resize 1,max=64k"), "resize 1,min=512,max=64k,align=512");
        assert_eq!(refused("resize 2,min=8k,max=4k"), "max is less than min");
        assert!(refused("resize 2,min=0").starts_with("min: at least 1 byte"));
    }

    #[test]
    fn what_grows_beyond_64_bits_is_dropped_and_not_wrapped() {
        let offset = Bytes(u64::MAX - 4096);
        let request = Request::new(crate::Nanos(0), Op::Read, offset, Bytes(2048));
        let (all, header) = made("resize 4", &[request], 1);
        assert!(all.is_empty());
        assert_eq!(header.losses.count_of(NO_PLACE), 1);
    }
}
