//! A load backwards.
//!
//! Replaying a load and then its reverse shows how much of the result is due to the order: warm
//! caches, sequential positions. As in blkreplay's `input_reverse`, positions are reversed against
//! time: the instants stay as they were, and the requests are dealt to them from the last one to
//! the first. So the rate over time is that of the recording.

use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::{Batch, Columns};
use crate::error::TraceError;
use crate::header::{Header, NoteKind};
use crate::order::spill::{CHUNK_ROWS, Spill};
use crate::stream::Source;

/// `reverse`.
pub const KIND: Kind = Kind {
    name: "reverse",
    value: "",
    help: "Issue the requests from the last one to the first, at the instants of the recording \
           (blkreplay's input_reverse)",
    spills: true,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    Arguments::new(text, ',')?.finish()?;
    Ok(Box::new(Reverse))
}

#[derive(Debug)]
struct Reverse;

impl Transform for Reverse {
    fn over(
        &self,
        mut source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let spill = Spill::of(&mut source, &context.spill_directory)?;
        let mut header = source.header().clone();
        forget_measured(&mut header);
        note_forgotten(&mut header, KIND.name, spill.measured_rows());
        header.transforms.push(KIND.name.to_owned());
        let rows = spill.rows();
        Ok(Box::new(Reversed { spill, header, given: 0, rows, backwards: Batch::default() }))
    }
}

/// A replay's measurements belong to their instants. A trace whose requests got other instants is
/// no longer its result.
pub(super) fn forget_measured(header: &mut Header) {
    header.columns = Columns { measured: false, ..header.columns };
    header.forget_run();
}

/// Notes the number of requests whose measurements were dropped by the transform of this name.
pub(super) fn note_forgotten(header: &mut Header, name: &str, requests: u64) {
    let what = format!("measured times and outcomes, which the result of {name} has no more");
    header.losses.add(NoteKind::Beside.of(&what), requests, None);
}

struct Reversed {
    spill: Spill,
    header: Header,
    given: u64,
    rows: u64,
    /// The rows from which the next requests are taken, in the order of the recording.
    backwards: Batch,
}

impl Source for Reversed {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.header.columns);
        if self.given == self.rows {
            return Ok(false);
        }
        // A stretch that lies in one chunk at both ends of the trace.
        let to_chunk_end = CHUNK_ROWS - self.given % CHUNK_ROWS;
        let last = self.rows - self.given;
        let count = to_chunk_end.min((last - 1) % CHUNK_ROWS + 1);
        self.spill.read(last - count, last, &mut self.backwards)?;
        for row in (0..self.backwards.len()).rev() {
            batch.push(&self.backwards.get(row));
        }
        self.spill.read(self.given, self.given + count, &mut self.backwards)?;
        batch.issue_ns.copy_from_slice(self.backwards.issue_ns());
        self.given += count;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{made, refusal, unmeasured};
    use crate::batch::tests::any_request;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn instants_stay_and_requests_come_from_the_last_one_on(
            few in proptest::collection::vec(any_request(), 1..60), count in 0_usize..20_000,
            rows in 1_usize..9000,
        ) {
            let mut requests: Vec<_> = few.iter().cycle().take(count).copied().collect();
            requests.sort_by_key(|request| request.issue);
            let (reversed, header) = made("reverse", &requests, rows);
            let instants = requests.iter().map(|request| request.issue);
            let expected: Vec<_> = instants.zip(requests.iter().rev())
                .map(|(issue, request)| crate::Request { issue, ..*request })
                .collect();
            prop_assert_eq!(reversed, unmeasured(&expected));
            prop_assert_eq!(header.transforms, ["reverse"]);
        }
    }

    #[test]
    fn it_takes_no_value() {
        assert_eq!(refusal("reverse 3"), "'3' is one value too many");
    }
}
