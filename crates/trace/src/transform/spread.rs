//! A load on a larger device.
//!
//! A disk that seeks over twice the distance is a slower disk. So a load that was recorded on a
//! small volume must be stretched over the large volume that it shall run on. As in blkreplay's
//! module `pipe_spread`, positions are multiplied and keep their alignment: an odd place in a block
//! stays odd. Lengths stay, so neighbours are torn apart.

use super::exact::{Ratio, size};
use super::place::{Mover, NO_PLACE};
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::Source;
use crate::units::Bytes;

/// The default unit of positions, a page, as in blkreplay.
const ALIGN: Bytes = Bytes(4096);

/// The largest unit: with it the arithmetic stays within 128 bits.
const ALIGN_MAX: Bytes = Bytes(1 << 40);

/// `spread FACTOR[,align=SIZE][,offset=SIZE]`.
pub const KIND: Kind = Kind {
    name: "spread",
    value: "FACTOR[,align=SIZE][,offset=SIZE]",
    help: "Multiply positions by FACTOR, to whole multiples of SIZE (default: 4k) and what was \
           beyond such a multiple before, and add an offset; lengths stay",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let factor = arguments.demand("the factor")?;
    let align = alignment(arguments.setting("align")?)?;
    let offset = arguments.setting("offset")?.unwrap_or(Bytes::ZERO);
    arguments.finish()?;
    Ok(Box::new(Spread { factor, align, offset }))
}

/// The alignment that was asked for, or the default; an invalid one is refused.
pub(super) fn alignment(asked: Option<Bytes>) -> Result<Bytes, ArgumentError> {
    match asked.unwrap_or(ALIGN) {
        align if align == Bytes::ZERO || align > ALIGN_MAX => {
            Err(ArgumentError::new("align: a size from 1 byte to 1T"))
        }
        align => Ok(align),
    }
}

/// `position` becomes ⌊`position` · `factor` / `align`⌋ · `align` + `position` mod `align` +
/// `offset`.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The factor for positions.
    pub factor: Ratio,
    /// The unit of positions.
    pub align: Bytes,
    /// The number of bytes that is added.
    pub offset: Bytes,
}

impl Spread {
    /// The new position for `position`; `None` where 64 bits do not hold it.
    #[inline]
    pub fn place(&self, position: u64) -> Option<u64> {
        let align = self.align.0;
        let spread = self.factor.of(position)?;
        (spread - spread % align).checked_add(position % align)?.checked_add(self.offset.0)
    }

    /// The size of a device that holds all requests moved from a device of `size`.
    fn device(&self, size: Bytes) -> Option<Bytes> {
        // Lengths stay even where positions shrink.
        let end = self.place(size.0)?.max(size.0.checked_add(self.offset.0)?);
        // With a whole factor no unit ends behind the beginning of the next one.
        let beyond = if self.factor.denominator() == 1 { 0 } else { self.align.0 };
        end.checked_add(beyond)?.checked_next_multiple_of(self.align.0).map(Bytes)
    }
}

impl Transform for Spread {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let step = Apart { spread: *self, mover: Mover::new(NO_PLACE) };
        Ok(Box::new(Stage::new(source, step)))
    }
}

struct Apart {
    spread: Spread,
    mover: Mover,
}

impl Step for Apart {
    fn told(&self) -> String {
        let Spread { factor, align, offset } = &self.spread;
        let offset = match offset.0 {
            0 => String::new(),
            _ => format!(",offset={}", size(*offset)),
        };
        format!("spread {factor},align={}{offset}", size(*align))
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        for volume in &mut header.volumes {
            volume.size = volume.size.and_then(|size| self.spread.device(size));
        }
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let spread = self.spread;
        // A mask replaces the division by a power of two.
        if spread.align.0.is_power_of_two() && spread.factor.denominator() == 1 {
            let (within, times) = (spread.align.0 - 1, spread.factor.numerator());
            self.mover.places(batch, |_, offset, _| {
                let aligned = offset.checked_mul(times)? & !within;
                aligned.checked_add(offset & within)?.checked_add(spread.offset.0)
            });
        } else {
            self.mover.places(batch, |_, offset, _| spread.place(offset));
        }
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use super::*;
    use crate::batch::tests::any_request;
    use crate::{Op, Request};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_are_multiplied_and_aligned_and_nothing_else_changes(
            mut requests in proptest::collection::vec(any_request(), 0..100), rows in 1_usize..40,
            above in 0_u64..100, below in 1_u64..20, plus in 0_u64..1 << 40,
            align in prop_oneof![Just(512_u64), Just(4096), 1_u64..1 << 20],
        ) {
            requests.sort_by_key(|request| request.issue);
            let line = format!("spread {above}/{below},align={align},offset={plus}");
            let (all, header) = made(&line, &requests, rows);
            let wide = |n: u64| u128::from(n);
            let expected: Vec<_> = requests.iter().filter_map(|request| {
                let mut request = Request { measured: None, ..*request };
                if request.op != Op::Flush {
                    let offset = wide(request.offset.0);
                    let units = offset * wide(above) / wide(below) / wide(align);
                    let to = units * wide(align) + offset % wide(align) + wide(plus);
                    request.offset.0 = u64::try_from(to).ok()?;
                    request.offset.0.checked_add(request.length.0)?;
                }
                Some(request)
            }).collect();
            let dropped = (requests.len() - expected.len()) as u64;
            prop_assert_eq!(header.losses.count_of(NO_PLACE), dropped);
            prop_assert_eq!(all, expected);
        }
    }

    proptest! {
        #[test]
        fn what_lay_on_the_device_lies_on_the_larger_one(
            above in 1_u64..50, below in 1_u64..20, plus in 0_u64..1 << 20,
            blocks in 1_u64..50, offset in 0_u64..200_000, length in 1_u64..200_000,
        ) {
            let factor = format!("{above}/{below}").parse().unwrap();
            let spread = Spread { factor, align: Bytes(4096), offset: Bytes(plus) };
            let (offset, end) = (offset % (blocks * 4096), blocks * 4096);
            let length = length.min(end - offset);
            let device = spread.device(Bytes(blocks * 4096)).unwrap();
            prop_assert!(spread.place(offset).unwrap() + length <= device.0);
        }
    }

    #[test]
    fn it_says_what_it_took_for_granted() {
        assert_eq!(made("spread 2", &[], 1).1.transforms, ["spread 2,align=4k"]);
        assert_eq!(refused("spread 2,align=0"), "align: a size from 1 byte to 1T");
    }
}
