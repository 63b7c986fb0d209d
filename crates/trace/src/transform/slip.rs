//! A load that slowly moves over the device.
//!
//! A repeated trace touches what it touched before, and the caches get better with every turn. As
//! blkreplay's module `pipe_slip` does it, positions move on by a little after each bunch of
//! requests.

use super::exact::size;
use super::place::{Mover, NO_PLACE};
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::request::Op;
use crate::stream::Source;
use crate::units::Bytes;

/// The default number of requests after which positions move on, as in blkreplay.
const EVERY: u64 = 32_768;

/// `slip SIZE[,every=N]`.
pub const KIND: Kind = Kind {
    name: "slip",
    value: "SIZE[,every=N]",
    help: "Move positions on by another SIZE after every N requests (default: 32768)",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let by = arguments.demand("the size")?;
    let every = arguments.setting("every")?.unwrap_or(EVERY);
    arguments.finish()?;
    if every == 0 {
        return Err(ArgumentError::new("every: at least 1 request"));
    }
    Ok(Box::new(Slip { by, every }))
}

/// Request `n`, counted from 0, is moved by `by` · ⌊`n` / `every`⌋.
#[derive(Clone, Copy, Debug)]
pub struct Slip {
    /// The distance of a move in bytes.
    pub by: Bytes,
    /// The number of requests between two moves.
    pub every: u64,
}

impl Transform for Slip {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let step = Moved { slip: *self, count: 0, distance: Some(0), mover: Mover::new(NO_PLACE) };
        Ok(Box::new(Stage::new(source, step)))
    }
}

struct Moved {
    slip: Slip,
    /// Requests since the positions last moved on.
    count: u64,
    /// The distance by which positions are moved, in bytes; `None` where 64 bits do not hold it.
    distance: Option<u64>,
    mover: Mover,
}

impl Step for Moved {
    fn told(&self) -> String {
        format!("slip {},every={}", size(self.slip.by), self.slip.every)
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        // The largest distance is not known before the end.
        for volume in &mut header.volumes {
            volume.size = None;
        }
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let Slip { by, every } = self.slip;
        let (mut count, mut moved) = (self.count, self.distance);
        let mut next = || {
            if count == every {
                count = 0;
                moved = moved.and_then(|moved| moved.checked_add(by.0));
            }
            count += 1;
            moved
        };
        // A flush has no place, and yet is a request.
        if batch.op.contains(&Op::Flush) {
            let moves: Vec<_> = batch.op.iter().map(|op| (*op, next())).collect();
            let mut ranged = moves.iter().filter(|(op, _)| *op != Op::Flush);
            self.mover.places(batch, |_, offset, _| {
                let (_, moved) = ranged.next()?;
                offset.checked_add((*moved)?)
            });
        } else {
            self.mover.places(batch, |_, offset, _| offset.checked_add(next()?));
        }
        (self.count, self.distance) = (count, moved);
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
        fn request_n_is_moved_by_as_many_sizes_as_bunches_lie_before_it(
            mut requests in proptest::collection::vec(any_request(), 0..200), rows in 1_usize..40,
            every in 1_usize..50, by in prop_oneof![0_u64..1 << 30, 1_u64 << 60..1 << 62],
        ) {
            requests.sort_by_key(|request| request.issue);
            let (all, header) = made(&format!("slip {by},every={every}"), &requests, rows);
            let expected: Vec<_> = requests.iter().enumerate().filter_map(|(n, request)| {
                let mut request = Request { measured: None, ..*request };
                if request.op != Op::Flush {
                    let moved = by.checked_mul((n / every) as u64)?;
                    request.offset.0 = request.offset.0.checked_add(moved)?;
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
    fn it_says_what_it_took_for_granted() {
        assert_eq!(made("slip 128k", &[], 1).1.transforms, ["slip 128k,every=32768"]);
        assert_eq!(refused("slip 1M,every=0"), "every: at least 1 request");
    }
}
