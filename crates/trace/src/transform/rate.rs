//! The same requests at another mean rate.
//!
//! To test a storage with 5,000 requests a second of this kind, a user should not have to compute
//! the factor. As with Vdbench's `iorate=` in a replay, all inter-arrival times are scaled by one
//! factor, so pauses and bursts keep their proportions. An even stream of requests is `ramp` with a
//! single rate.
//!
//! The mean rate of `n` requests is the rate of the `n` − 1 intervals between them. The last
//! instant is known at the end only, so the trace is held.

use super::exact::{PerSecond, Ratio};
use super::place::{Mover, NO_INSTANT};
use super::stage::{Flow, Stage, Step};
use super::survey::survey;
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Topic};
use crate::stream::Source;

/// The note on a trace without any interval that could be scaled.
const ONE_INSTANT: Topic<'static> =
    NoteKind::Assumed.of("requests at one instant, which no factor can part");

/// `rate IOPS`.
pub const KIND: Kind = Kind {
    name: "rate",
    value: "IOPS",
    help: "Scale all inter-arrival times by one factor, so that the mean rate is IOPS requests a \
           second; the first request stays where it is",
    spills: true,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let PerSecond(iops) = arguments.demand("the rate")?;
    arguments.finish()?;
    if iops.is_zero() {
        return Err(ArgumentError::new("the rate must be more than 0 requests a second"));
    }
    Ok(Box::new(Rate { iops }))
}

/// Inter-arrival times scaled to a mean rate.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The mean rate in requests a second.
    pub iops: Ratio,
}

impl Transform for Rate {
    fn over(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let (mut requests, mut first, mut last) = (0_u64, None, 0);
        let held = survey(source, context, |batch| {
            requests += batch.len() as u64;
            first.get_or_insert(batch.issue_ns[0]);
            last = batch.issue_ns.last().copied().unwrap_or(last);
        })?;
        let first = first.unwrap_or(0);
        let intervals = u128::from(requests.saturating_sub(1));
        // At most 64 + 30 + 30 bits, and 63 + 50.
        let to = intervals * 1_000_000_000 * u128::from(self.iops.denominator());
        let from = u128::from(last.abs_diff(first).max(1)) * u128::from(self.iops.numerator());
        let step = Scaled {
            iops: self.iops,
            first,
            factor: Factor::new(to, from),
            unparted: if first == last { requests.saturating_sub(1) } else { 0 },
            mover: Mover::new(NO_INSTANT),
        };
        Ok(Box::new(Stage::new(Box::new(held), step)))
    }
}

/// The quotient of two whole numbers of more than 64 bits.
#[derive(Clone, Copy, Debug)]
struct Factor {
    above: u128,
    /// Below 2¹¹⁴.
    below: u128,
}

impl Factor {
    fn new(above: u128, below: u128) -> Self {
        let (mut a, mut b) = (above, below);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self { above: above / a, below: below / a }
    }

    /// `value` times the factor, rounded down; `None` where 63 bits do not hold it.
    #[inline]
    fn of(self, value: u64) -> Option<u64> {
        let scaled = match u128::from(value).checked_mul(self.above) {
            Some(product) => product / self.below,
            None => self.of_long(value)?,
        };
        u64::try_from(scaled).ok().filter(|scaled| i64::try_from(*scaled).is_ok())
    }

    /// As [`Factor::of`] where the product has more than 128 bits: bit by bit, as on paper.
    fn of_long(self, value: u64) -> Option<u128> {
        let (whole, part) = (self.above / self.below, self.above % self.below);
        let (mut quotient, mut rest) = (0_u128, 0_u128);
        for bit in (0..u64::BITS).rev() {
            // At most three times a number below 2¹¹⁴.
            rest = 2 * rest + if value >> bit & 1 == 1 { part } else { 0 };
            quotient = 2 * quotient + rest / self.below;
            rest %= self.below;
        }
        u128::from(value).checked_mul(whole)?.checked_add(quotient)
    }
}

/// Scales the span from the first to the last request.
struct Scaled {
    iops: Ratio,
    first: i64,
    factor: Factor,
    unparted: u64,
    mover: Mover,
}

impl Step for Scaled {
    fn told(&self) -> String {
        format!("rate {}", self.iops)
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        header.guesses.add(ONE_INSTANT, self.unparted, None);
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let (first, factor) = (self.first, self.factor);
        self.mover
            .instants(batch, |issue| first.checked_add_unsigned(factor.of(issue.abs_diff(first))?));
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use super::*;
    use crate::batch::tests::any_request;
    use crate::{Nanos, Request};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn long_products_are_those_of_short_ones(
            value in any::<u32>(), above in 1_u64.., below in 1_u64..,
        ) {
            let factor = Factor::new(u128::from(above), u128::from(below));
            let exact = u128::from(value) * u128::from(above) / u128::from(below);
            prop_assert_eq!(factor.of_long(u64::from(value)), Some(exact));
            // The same product with more than 128 bits.
            let scale = u128::from(u32::MAX) << 17;
            let long = Factor { above: factor.above * scale / 3, below: factor.below };
            let sum = long.of_long(7).unwrap() + 1;
            prop_assert!(sum * 2 >= long.of_long(14).unwrap());
        }

        #[test]
        fn the_intervals_are_scaled_to_the_mean_rate_and_nothing_else_changes(
            mut requests in proptest::collection::vec(any_request(), 2..100), rows in 1_usize..40,
            hundredths in 1_u64..100_000_000, span in 1_i64..1 << 50,
        ) {
            for request in &mut requests {
                request.issue.0 %= span;
            }
            requests.sort_by_key(|request| request.issue);
            let (first, last) = (requests[0].issue.0, requests[requests.len() - 1].issue.0);
            prop_assume!(first < last);
            let (all, header) = made(&format!("rate {hundredths}/100"), &requests, rows);
            let to = (requests.len() as i128 - 1) * 1_000_000_000 * 100;
            let from = i128::from(last - first) * i128::from(hundredths);
            let expected: Vec<_> = requests.iter().map(|request| {
                let behind = i128::from(request.issue.0 - first) * to / from;
                Request { issue: Nanos(first + behind as i64), measured: None, ..*request }
            }).collect();
            prop_assert_eq!(all, expected);
            let mut losses = header.losses.iter();
            prop_assert!(losses.all(|note| note.what.starts_with("measured")));
            prop_assert!(header.guesses.is_empty());
        }
    }

    #[test]
    fn what_cannot_be_scaled_stays_and_is_told() {
        let request = Request::new(Nanos(7), crate::Op::Read, crate::Bytes(0), crate::Bytes(512));
        let (all, header) = made("rate 100", &[request; 3], 2);
        assert!(all.iter().all(|request| request.issue == Nanos(7)));
        assert_eq!(header.guesses.count_of(ONE_INSTANT), 2);
        let (all, header) = made("rate 100", &[request], 2);
        assert!(all.len() == 1 && header.guesses.is_empty());
        assert!(made("rate 100", &[], 2).0.is_empty());
        assert_eq!(made("rate 1.5k", &[], 2).1.transforms, ["rate 1500"]);
        assert_eq!(refused("rate 0"), "the rate must be more than 0 requests a second");
    }
}
