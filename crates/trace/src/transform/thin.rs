//! A part of the load, spread evenly over all of it.
//!
//! A smaller storage gets a smaller share of the requests, and that share shall have the bursts and
//! the pauses of the whole. Chance would add noise of its own, so requests are counted out: of each
//! hundred exactly so many stay. This could fall into step with a load that alternates reads and
//! writes; if each operation is counted separately, the mix is kept too.

use super::exact::Percent;
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::request::Op;
use crate::stream::Source;

/// `thin PERCENT[,by=all|op]`.
pub const KIND: Kind = Kind {
    name: "thin",
    value: "PERCENT[,by=all|op]",
    help: "Keep PERCENT of the requests, evenly and without chance: of 50 the first, third, fifth \
           and so on; by=op counts reads, writes and the others apart",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let share = arguments.demand("the percentage")?;
    let by_op = arguments.choice("by", &[("all", false), ("op", true)])?.unwrap_or(false);
    arguments.finish()?;
    Ok(Box::new(Thin { share, by_op }))
}

/// Request `n`, counted from 0, stays if `n` · share reaches a whole number that (`n` − 1) · share
/// did not: of the first `n` + 1 requests ⌊`n` · share⌋ + 1 stay.
#[derive(Clone, Copy, Debug)]
pub struct Thin {
    /// The share of requests that stay.
    pub share: Percent,
    /// Whether each operation is counted separately.
    pub by_op: bool,
}

impl Transform for Thin {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let step = CountedOut { thin: *self, rest: [0; Op::ALL.len()], keep: Vec::new() };
        Ok(Box::new(Stage::new(source, step)))
    }
}

struct CountedOut {
    thin: Thin,
    /// For each operation, its number of requests so far times the part, modulo the whole.
    rest: [u64; Op::ALL.len()],
    keep: Vec<bool>,
}

impl Step for CountedOut {
    fn told(&self) -> String {
        let by = if self.thin.by_op { ",by=op" } else { "" };
        format!("thin {}{by}", self.thin.share)
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let (part, whole) = self.thin.share.part_and_whole();
        let counter = |op: Op| if self.thin.by_op { usize::from(op.code()) } else { 0 };
        self.keep.clear();
        for op in &batch.op {
            let rest = &mut self.rest[counter(*op)];
            self.keep.push(*rest < part);
            *rest += part;
            if *rest >= whole {
                *rest -= whole;
            }
        }
        batch.retain(&self.keep);
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use crate::Op;
    use crate::batch::tests::any_request;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of_any_number_of_requests_the_share_stays(
            mut requests in proptest::collection::vec(any_request(), 0..200), rows in 1_usize..40,
            percent in 1_usize..=100,
        ) {
            requests.sort_by_key(|request| request.issue);
            let (all, header) = made(&format!("thin {percent}"), &requests, rows);
            let expected: Vec<_> = requests.iter().enumerate()
                .filter(|(n, _)| n * percent % 100 < percent)
                .map(|(_, request)| *request).collect();
            let last = requests.len().checked_sub(1);
            prop_assert_eq!(all.len(), last.map_or(0, |last| last * percent / 100 + 1));
            prop_assert_eq!(all, expected);
            prop_assert_eq!(&header.transforms, &[format!("thin {percent}")]);
        }

        #[test]
        fn counted_by_operation_the_mix_stays(
            mut requests in proptest::collection::vec(any_request(), 0..200), rows in 1_usize..40,
            percent in 1_usize..=100,
        ) {
            requests.sort_by_key(|request| request.issue);
            let (all, _) = made(&format!("thin {percent},by=op"), &requests, rows);
            for op in Op::ALL {
                let count = |all: &[crate::Request]| all.iter().filter(|r| r.op == op).count();
                let last = count(&requests).checked_sub(1);
                prop_assert_eq!(count(&all), last.map_or(0, |last| last * percent / 100 + 1));
            }
        }
    }

    #[test]
    fn a_percentage_is_one() {
        assert!(refused("thin 0").contains("at most 100 percent"));
        assert!(refused("thin 50,by=size").contains("none of all, op"));
        assert_eq!(made("thin 12.50%", &[], 1).1.transforms, ["thin 12.5"]);
    }
}
