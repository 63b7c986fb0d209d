//! The same requests in the same order, at a rate that is constant or rises.
//!
//! At which rate does a storage give in? A natural load answers badly, because its rate is never
//! the same for long. So only its requests are taken, and their instants are made anew, as
//! blkreplay's `conv_load_to_ramped.pl` does it.
//!
//! The rate begins at `a` requests a second and changes by `s` requests a second each second. After
//! t seconds `a`·t + `s`·t²/2 requests have been issued. So request `k`, counted from 0, is due at
//! t = 2k / (`a` + √(`a`² + 2·`s`·k)). Instants of a constant rate are exact. The others are
//! computed in floating point with operations that IEEE 754 rounds exactly. They are the same on
//! every machine, and within a nanosecond for fifty days.

use super::exact::{PerSecond, Ratio};
use super::place::{Mover, NO_INSTANT};
use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::Source;
use crate::units::{Nanos, decimal_seconds};

/// `ramp IOPS[,IOPS,over=TIME | ,slope=IOPS]`.
pub const KIND: Kind = Kind {
    name: "ramp",
    value: "IOPS[,IOPS,over=TIME | ,slope=IOPS]",
    help: "Issue the requests anew at a constant rate; or at one that goes from the first to the \
           second within TIME and stays there; or that rises by slope each second",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let refuse = |text: &str| Err(ArgumentError::new(text));
    let mut arguments = Arguments::new(text, ',')?;
    let PerSecond(from) = arguments.demand("the rate")?;
    let to = arguments.value::<PerSecond>("the rate at the end")?.map(|PerSecond(to)| to);
    let over = arguments.setting::<Nanos>("over")?;
    let slope = arguments.setting::<PerSecond>("slope")?.map(|PerSecond(slope)| slope);
    arguments.finish()?;
    let change = match (to, over, slope) {
        (None, None, None) => Change::None,
        (Some(to), Some(over), None) if over > Nanos::ZERO && !to.is_zero() => {
            Change::To { rate: to, over }
        }
        (Some(_), Some(_), None) => {
            return refuse("the rate at the end and over= must be more than 0");
        }
        (None, None, Some(slope)) if !slope.is_zero() => Change::Rise(slope),
        (None, None, Some(_)) => return refuse("slope: more than 0"),
        (_, _, Some(_)) => return refuse("slope= stands in the place of a second rate and over="),
        _ => return refuse("a second rate and over=TIME belong together"),
    };
    if from.is_zero() && matches!(change, Change::None) {
        return refuse("the rate must be more than 0 requests a second");
    }
    Ok(Box::new(Ramp { from, change }))
}

/// Instants made anew.
#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    /// The rate at the beginning, in requests a second.
    pub from: Ratio,
    /// The change of the rate.
    pub change: Change,
}

/// The change of a rate over time.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The rate stays.
    None,
    /// The rate rises or falls evenly to another rate, and then stays there.
    To {
        /// The final rate, in requests a second.
        rate: Ratio,
        /// The time that the change takes.
        over: Nanos,
    },
    /// The rate rises by this number of requests a second each second, for ever.
    Rise(Ratio),
}

impl Transform for Ramp {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let clock = match self.change {
            Change::None => Clock::constant(self.from),
            _ => Clock::Changing { ramp: *self, count: 0 },
        };
        let step = Anew { ramp: *self, clock, first: None, mover: Mover::new(NO_INSTANT) };
        Ok(Box::new(Stage::new(source, step)))
    }
}

/// Computes the instant of the next request, in nanoseconds after the first one.
#[derive(Debug)]
enum Clock {
    /// The next instant is `next` + `rest` / `below`; each request advances it by `step`.
    Constant { step: (u64, u64), below: u64, next: Option<u64>, rest: u64 },
    /// The next request is number `count`.
    Changing { ramp: Ramp, count: u64 },
}

impl Clock {
    fn constant(rate: Ratio) -> Self {
        // At most 10¹⁸.
        let (above, below) = (rate.denominator() * 1_000_000_000, rate.numerator());
        Self::Constant { step: (above / below, above % below), below, next: Some(0), rest: 0 }
    }

    /// The instant at which the next request is due; `None` where 64 bits do not hold it.
    #[inline]
    fn tick(&mut self) -> Option<u64> {
        match self {
            Self::Constant { step, below, next, rest } => {
                let due = *next;
                *rest += step.1;
                let carry = u64::from(*rest >= *below);
                *rest -= carry * *below;
                *next = due.and_then(|due| due.checked_add(step.0 + carry));
                due
            }
            Self::Changing { ramp, count } => {
                let due = ramp.due(*count);
                *count += 1;
                due
            }
        }
    }
}

impl Ramp {
    /// The instant at which request `number` is due under a rate that changes.
    fn due(&self, number: u64) -> Option<u64> {
        let number = number as f64;
        let from = self.from.as_f64();
        let rising = |slope: f64| {
            if number == 0.0 {
                return 0.0;
            }
            // Negative only by rounding.
            let reached = (from * from + 2.0 * slope * number).max(0.0).sqrt();
            2.0 * number / (from + reached)
        };
        let seconds = match self.change {
            Change::None => number / from,
            Change::Rise(slope) => rising(slope.as_f64()),
            Change::To { rate, over } => {
                let (rate, over) = (rate.as_f64(), over.as_secs_f64());
                let within = f64::midpoint(from, rate) * over;
                if number <= within {
                    rising((rate - from) / over)
                } else {
                    over + (number - within) / rate
                }
            }
        };
        let ns = (seconds * 1e9).round();
        (ns < i64::MAX as f64).then_some(ns as u64)
    }
}

struct Anew {
    ramp: Ramp,
    clock: Clock,
    first: Option<i64>,
    mover: Mover,
}

impl Step for Anew {
    fn told(&self) -> String {
        let from = self.ramp.from;
        match self.ramp.change {
            Change::None => format!("ramp {from}"),
            Change::To { rate, over } => {
                format!("ramp {from},{rate},over={}s", decimal_seconds(over))
            }
            Change::Rise(slope) => format!("ramp {from},slope={slope}"),
        }
    }

    fn describe(&self, header: &mut Header) {
        header.columns.measured = false;
        self.mover.note(header);
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let first = *self.first.get_or_insert(batch.issue_ns[0]);
        let clock = &mut self.clock;
        self.mover.instants(batch, |_| first.checked_add_unsigned(clock.tick()?));
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use super::*;
    use crate::batch::tests::any_request;
    use crate::{Bytes, Op, Request};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn at_a_constant_rate_instants_are_exact_and_nothing_else_changes(
            mut requests in proptest::collection::vec(any_request(), 1..100), rows in 1_usize..40,
            above in 1_u64..2_000_000, below in 1_u64..1000,
        ) {
            requests.sort_by_key(|request| request.issue);
            let (all, _) = made(&format!("ramp {above}/{below}"), &requests, rows);
            let expected: Vec<_> = requests.iter().enumerate().map(|(n, request)| {
                let behind = n as u128 * 1_000_000_000 * u128::from(below) / u128::from(above);
                let issue = Nanos(requests[0].issue.0 + behind as i64);
                Request { issue, measured: None, ..*request }
            }).collect();
            prop_assert_eq!(all, expected);
        }

        #[test]
        fn under_a_changing_rate_as_many_requests_are_issued_as_its_integral_says(
            from in 0_u64..5000, to in 1_u64..5000, over in 1_u64..1000,
            number in 0_u64..10_000_000,
        ) {
            let line = format!("{from},{to},over={over}s");
            let (from, to, over) = (from as f64, to as f64, over as f64);
            let ramp = Ramp {
                from: line.split(',').next().unwrap().parse().unwrap(),
                change: Change::To {
                    rate: line.split(',').nth(1).unwrap().parse().unwrap(),
                    over: Nanos::from_secs(over as i64),
                },
            };
            let t = ramp.due(number).unwrap() as f64 / 1e9;
            let rising = t.min(over);
            let issued = from * rising + (to - from) * rising * rising / over / 2.0
                + to * (t - rising);
            // A nanosecond at the highest rate, and the rounding of this sum.
            let error = (issued - number as f64).abs();
            prop_assert!(error < 1e-9 * from.max(to) + 1e-9 * number as f64 + 1e-6, "{error}");
        }
    }

    fn instants(line: &str, count: i64) -> Vec<i64> {
        let requests: Vec<_> = (0..count)
            .map(|n| Request::new(Nanos(5 + n / 3), Op::Read, Bytes(0), Bytes(512)))
            .collect();
        made(line, &requests, 7).0.iter().map(|request| request.issue.0 - 5).collect()
    }

    #[test]
    fn a_rate_that_rises_by_two_each_second_has_issued_the_square_of_the_seconds() {
        let all = instants("ramp 0,slope=2", 101);
        assert_eq!(
            (all[0], all[1], all[4], all[100]),
            (0, 1_000_000_000, 2_000_000_000, 10_000_000_000)
        );
    }

    #[test]
    fn behind_its_end_a_ramp_stays_at_its_rate() {
        let all = instants("ramp 0,10,over=10s", 101);
        assert_eq!(all[50], 10_000_000_000);
        assert_eq!((all[60], all[100]), (11_000_000_000, 15_000_000_000));
        let falling = instants("ramp 10,0.5,over=2s", 30);
        assert!(falling[1] - falling[0] < 110_000_000);
        assert_eq!(falling[20] - falling[19], 2_000_000_000);
    }

    #[test]
    fn it_says_what_it_is_and_refuses_what_is_not_clear() {
        let told = |line| made(line, &[], 1).1.transforms.remove(0);
        assert_eq!(told("ramp 1,100.50,over=10m"), "ramp 1,100.5,over=600s");
        assert_eq!(told("ramp 0.1k,5k,over=1m"), "ramp 100,5000,over=60s");
        assert_eq!(told("ramp 1,slope=10"), "ramp 1,slope=10");
        assert!(refused("ramp 0").contains("more than 0"));
        assert!(refused("ramp 1,2").contains("belong together"));
        assert!(refused("ramp 1,2,over=1s,slope=2").contains("in the place"));
        assert!(refused("ramp 1,0,over=1s").contains("more than 0"));
    }
}
