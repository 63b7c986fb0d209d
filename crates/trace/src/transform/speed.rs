//! The same requests, faster or slower.
//!
//! This transform tests how much more of a load a storage can take, so pauses and bursts shrink
//! alike and everything else stays. A replay's measurements would contradict the new instants, and
//! are dropped.

use super::exact::Ratio;
use super::place::{Mover, NO_INSTANT};
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::Source;

/// `speed FACTOR`.
pub const KIND: Kind = Kind {
    name: "speed",
    value: "FACTOR",
    help: "Issue everything FACTOR times as fast: every instant of the trace's own time is divided \
           by it; 0.5 and 1/2 halve the speed",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let factor: Ratio = arguments.demand("the factor")?;
    arguments.finish()?;
    if factor.is_zero() {
        return Err(ArgumentError::new("the factor must be more than 0"));
    }
    Ok(Box::new(Speed { factor }))
}

/// Every instant is divided by a factor and rounded down to a nanosecond.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// The factor.
    pub factor: Ratio,
}

impl Transform for Speed {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let step = Faster { factor: self.factor, mover: Mover::new(NO_INSTANT) };
        Ok(Box::new(Stage::new(source, step)))
    }
}

struct Faster {
    factor: Ratio,
    mover: Mover,
}

impl Step for Faster {
    fn told(&self) -> String {
        format!("speed {}", self.factor)
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let factor = self.factor;
        self.mover.instants(batch, |issue| factor.divide(issue));
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::NO_INSTANT;
    use super::super::testing::trace;
    use super::super::tests::{made, refused};
    use crate::batch::tests::any_request;
    use crate::{Nanos, Op, Request};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_instant_is_divided_and_nothing_else_changes(
            mut requests in proptest::collection::vec(any_request(), 0..100), rows in 1_usize..40,
            above in 1_i64..100, below in 1_i64..100,
        ) {
            requests.sort_by_key(|request| request.issue);
            let (all, header) = made(&format!("speed {above}/{below}"), &requests, rows);
            let expected: Vec<_> = requests.iter().filter_map(|request| {
                let issue = i128::from(request.issue.0) * i128::from(below) / i128::from(above);
                let issue = Nanos(i64::try_from(issue).ok()?);
                Some(Request { issue, measured: None, ..*request })
            }).collect();
            let dropped = (requests.len() - expected.len()) as u64;
            prop_assert_eq!(header.losses.count_of(NO_INSTANT), dropped);
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn measured_times_that_are_lost_are_counted() {
        let measured = crate::Measured {
            scheduled: Nanos(1),
            submitted: None,
            completed: None,
            target_offset: None,
            in_flight: 0,
            outcome: crate::Outcome::Ok,
            pushed_back: false,
            late_cause: crate::LateCause::from_code(0).unwrap(),
            target: 0,
            integrity: crate::Integrity::from_code(0).unwrap(),
            behind: 0,
            flow: 0,
        };
        let mut requests = trace(&[(0, Op::Read, 0, 8), (1, Op::Read, 8, 8), (2, Op::Read, 0, 8)]);
        requests[1].measured = Some(measured);
        requests[2].measured = Some(measured);
        let note =
            |name| format!("measured times and outcomes, which the result of {name} has no more");
        for line in ["speed 2", "reverse", "slip 1M", "repeat 1"] {
            let name = line.split(' ').next().unwrap();
            let (_, header) = made(line, &requests, 2);
            assert_eq!(header.losses.count_of(note(name)), 2, "{line}");
        }
        let (_, header) = made("thin 50", &requests, 2);
        assert_eq!(header.losses.count_of(note("thin")), 0);
    }

    #[test]
    fn it_says_what_it_is_and_refuses_no_speed() {
        let (_, header) = made("speed 0.50", &[], 1);
        assert_eq!(header.transforms, ["speed 0.5"]);
        assert_eq!(refused("speed 0"), "the factor must be more than 0");
        assert_eq!(refused("speed"), "the factor is missing");
    }
}
