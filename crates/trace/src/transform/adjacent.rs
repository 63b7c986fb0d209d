//! The volumes of a trace side by side on one.
//!
//! Ten machines that share one storage put ten volumes onto it. The loads of these volumes must
//! then lie beside each other: laid over each other they would share their hot spots, and a disk
//! would seek over a tenth of the way. As blkreplay's `create_adjacent_load.sh` does it, each
//! volume takes the space from its lowest request to its furthest end, in whole pages, and instants
//! stay. The traces of several files become volumes of one by `merge`.
//!
//! The end of a volume is known only at the end of the trace, so the trace is held. Unlike in
//! blkreplay, the first volume begins at zero.

use std::collections::BTreeMap;

use super::place::{Mover, NO_PLACE};
use super::stage::{Flow, Stage, Step};
use super::survey::survey;
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, Volume};
use crate::request::Op;
use crate::stream::Source;
use crate::units::{Bytes, VolumeId};

/// Volumes begin at multiples of this size in bytes, a page, as in blkreplay.
const ALIGN: u64 = 4096;

/// The largest number of volumes' names that are put together to the name of the one.
const NAMES_MAX: usize = 4;

/// `adjacent`.
pub const KIND: Kind = Kind {
    name: "adjacent",
    value: "",
    help: "Lay all volumes of the trace side by side on one, each from its lowest request to its \
           furthest end",
    spills: true,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    Arguments::new(text, ',')?.finish()?;
    Ok(Box::new(Adjacent))
}

/// All volumes on one.
#[derive(Clone, Copy, Debug)]
pub struct Adjacent;

impl Transform for Adjacent {
    fn over(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let mut extents = BTreeMap::<u32, (u64, u64)>::new();
        let held = survey(source, context, |batch| {
            for row in 0..batch.len() {
                if batch.op[row] != Op::Flush {
                    let offset = batch.offset_bytes[row];
                    let end = offset.saturating_add(batch.length_bytes[row]);
                    let extent = extents.entry(batch.volume[row]).or_insert((offset, end));
                    *extent = (extent.0.min(offset), extent.1.max(end));
                }
            }
        })?;
        Ok(Box::new(Stage::new(Box::new(held), SideBySide::new(&extents))))
    }
}

struct SideBySide {
    /// For each volume its beginning in the trace, and its beginning now, in bytes; `None` beyond
    /// 64 bits.
    from_and_to: BTreeMap<u32, (u64, Option<u64>)>,
    /// The size of the one volume.
    size: Option<u64>,
    mover: Mover,
}

impl SideBySide {
    fn new(extents: &BTreeMap<u32, (u64, u64)>) -> Self {
        let mut size = Some(0_u64);
        let from_and_to = extents
            .iter()
            .map(|(volume, (offset, end))| {
                let (from, to) = (offset - offset % ALIGN, size);
                let pages = (end - from).div_ceil(ALIGN);
                size = size.and_then(|size| size.checked_add(pages.checked_mul(ALIGN)?));
                (*volume, (from, to))
            })
            .collect();
        Self { from_and_to, size, mover: Mover::new(NO_PLACE) }
    }
}

impl Step for SideBySide {
    fn told(&self) -> String {
        KIND.name.to_owned()
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        let names: Vec<_> = header.volumes.iter().map(|volume| volume.name.as_str()).collect();
        let name = match names.len() {
            ..=NAMES_MAX => names.join("+"),
            count => format!("{count} volumes"),
        };
        header.volumes = vec![Volume { id: VolumeId(0), name, size: self.size.map(Bytes) }];
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let (mut volume, mut moved) = (None, (0, None));
        self.mover.places(batch, |of, offset, _| {
            if volume != Some(of) {
                moved = *self.from_and_to.get(&of)?;
                volume = Some(of);
            }
            (offset - moved.0).checked_add(moved.1?)
        });
        batch.volume.fill(0);
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::made;
    use super::*;
    use crate::Request;
    use crate::batch::tests::any_request;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn volumes_lie_side_by_side_and_keep_what_is_within_them(
            mut requests in proptest::collection::vec(any_request(), 1..100), rows in 1_usize..40,
        ) {
            requests.sort_by_key(|request| request.issue);
            for request in &mut requests {
                request.offset.0 %= 1 << 50;
            }
            let (all, header) = made("adjacent", &requests, rows);
            let mut base = 0;
            let mut expected = requests.clone();
            for volume in 0..4 {
                let of = |request: &&Request| request.volume.0 == volume && request.op != Op::Flush;
                let Some(low) = requests.iter().filter(of).map(|request| request.offset.0).min()
                else { continue };
                let low = low / 4096 * 4096;
                let end = requests.iter().filter(of).map(|request| request.end().0).max().unwrap();
                for (request, was) in expected.iter_mut().zip(&requests) {
                    if of(&was) {
                        request.offset.0 = was.offset.0 - low + base;
                    }
                }
                base += (end - low).div_ceil(4096) * 4096;
            }
            for request in &mut expected {
                request.volume.0 = 0;
                request.measured = None;
            }
            prop_assert_eq!(all, expected);
            prop_assert_eq!(header.volumes[0].size, Some(Bytes(base)));
            prop_assert_eq!(header.volumes.len(), 1);
        }
    }

    #[test]
    fn what_does_not_fit_side_by_side_is_dropped_and_counted() {
        let on = |volume, offset| Request {
            volume: VolumeId(volume),
            ..Request::new(crate::Nanos(0), Op::Read, Bytes(offset), Bytes(512))
        };
        let requests = [on(0, 0), on(0, u64::MAX / 4096 * 4096), on(1, 0), on(1, u64::MAX - 600)];
        let (all, header) = made("adjacent", &requests, 4);
        assert_eq!(all.len(), 2);
        assert_eq!(header.losses.count_of(NO_PLACE), 2);
        assert_eq!(header.volumes[0].size, None);
    }
}
