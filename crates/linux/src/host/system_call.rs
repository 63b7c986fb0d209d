//! The time of a system call.
//!
//! Every request is handed over by a system call, so its cost is a lower bound for that of a
//! request, and limits the rate of one thread. Mitigations in processor and kernel make it differ
//! tenfold between hosts.

use io_uring::{IoUring, opcode};
use ioecho_replay::Clock;
use ioecho_trace::Nanos;
use serde::Serialize;

use crate::clock::MonotonicClock;

/// Rounds, and calls in each.
const ROUNDS: usize = 16;
const CALLS: i64 = 64;

/// What one system call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SystemCall {
    /// Which one was made.
    pub what: &'static str,
    /// The mean of the best round, so that what the host takes meanwhile does not count.
    #[serde(rename = "cost_ns")]
    pub cost: Nanos,
}

impl SystemCall {
    /// Measures a no-op through `io_uring`, handed over and completed, as a request is; where that
    /// is forbidden, the simplest system call there is. A few milliseconds.
    pub fn measure() -> Self {
        match IoUring::new(2).ok().and_then(|mut ring| best(|| no_op(&mut ring))) {
            Some(cost) => Self { what: "a no-op through io_uring", cost },
            None => Self {
                what: "getppid (io_uring is not to be had)",
                cost: best(parent).unwrap_or_default(),
            },
        }
    }
}

fn best(mut call: impl FnMut() -> Option<()>) -> Option<Nanos> {
    let clock = MonotonicClock::new();
    let mut least: Option<Nanos> = None;
    for _ in 0..ROUNDS {
        let before = clock.now();
        for _ in 0..CALLS {
            call()?;
        }
        let mean = Nanos((clock.now() - before).0 / CALLS);
        least = Some(least.map_or(mean, |least| least.min(mean)));
    }
    least
}

fn no_op(ring: &mut IoUring) -> Option<()> {
    let entry = opcode::Nop::new().build();
    // SAFETY: a no-op refers to no memory.
    unsafe { ring.submission().push(&entry) }.ok()?;
    ring.submit_and_wait(1).ok()?;
    ring.completion().next().map(|_| ())
}

#[expect(clippy::unnecessary_wraps, reason = "as the other call")]
fn parent() -> Option<()> {
    std::hint::black_box(rustix::process::getppid());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entering_the_kernel_costs_something() {
        let call = SystemCall::measure();
        assert!(call.cost > Nanos::ZERO, "{call:?}");
        assert!(best(parent).is_some_and(|cost| cost > Nanos::ZERO));
    }

    #[test]
    fn a_call_that_fails_has_no_cost() {
        assert_eq!(best(|| None), None);
    }
}
