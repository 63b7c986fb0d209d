//! Which request waited for which.
//!
//! The instants of a recording are those of the storage that it was made on. On a faster one the
//! application would have asked sooner, but not for everything at once: it waited for answers, and
//! thought. No recording says for which answers, so they are inferred here, from what cannot have
//! been otherwise. A request may have waited for all that had completed when it was issued; it did
//! not wait for what overlapped it, nor for what completed so shortly before that nobody could have
//! acted on it. Where the recording says who issued a request, only those are linked that issue one
//! after the other, or hand work to each other.
//!
//! A request `p` is *linked* to a later one `r` if `r` is at most a window of requests behind `p`,
//! and
//!
//! * `p` had completed for at least the threshold when `r` was issued, and `r`'s process is that of
//!   `p`, or one that `p`'s hands work to; without processes all requests are of one;
//! * or `p` had completed, the same holds of their processes, they went to one volume, and one of
//!   both is a barrier: a flush, or a write with FUA or a flush beforehand;
//! * or `p` had completed and is a synchronous write or a barrier of the same known process;
//! * or `p` had completed, `r` is a read, and `p` is the last of the completed writes to some of
//!   what `r` reads.
//!
//! *Parents* of `r` are those linked to it that no other way leads from (the transitive reduction).
//! The first rule alone makes an interval order for each process, and there a parent is whatever
//! completed after the latest start of all that completed: it is found without a search. What the
//! other rules add is carried along as reach (`reach`).
//!
//! Method: Haghdoost et al., "hfplayer: Scalable Replay for Intensive Block I/O Workloads" (2017),
//! section 3.1, which knows neither processes nor barriers nor places.
//!
//! The way through: [`survey`] (a first pass: the threshold, and who hands work to whom) →
//! [`infer`] (with `places` and `reach`), or [`given`] where the trace says it itself →
//! [`statistics`] and [`dot`].

pub mod dot;
pub mod given;
pub mod infer;
mod places;
mod reach;
pub mod statistics;
pub mod survey;
#[cfg(test)]
mod tests;

use ioecho_trace::{Flags, Nanos, Op, Request};

/// Requests that parents are looked for among, by custom.
pub const WINDOW_ROWS: u64 = 65_536;

/// What stands for the completion of a request whose completion is not known.
const NEVER: i64 = i64::MAX;

/// A request and what it waits for. Rows count the requests from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits<'a> {
    /// The request's own row.
    pub row: u64,
    /// The rows of those that it waits for, the earliest first.
    pub parents: &'a [u64],
    /// From the last completion of these to its own issue; `None` if it waits for nobody.
    pub think: Option<Nanos>,
}

/// What was wrong with a trace, or too much for the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Requests issued before the one in front of them; they count as issued with it.
    pub clock_inversions: u64,
    /// Requests whose completion is not known: nobody waits for them.
    pub without_completion: u64,
    /// Requests that completed before they were issued; their completion counts as not known.
    pub completed_before_issue: u64,
    /// Requests that were still in flight when a whole window of others had been issued: nobody
    /// waits for them.
    pub beyond_window: u64,
    /// Gaps of the recording across which nobody waits.
    pub gaps: u64,
    /// Processes, or in flight without any, whose chains were cut there.
    pub cut_chains: u64,
}

/// When `request` completed by its recorded latency, counted from `start`, and at least a
/// nanosecond later: what begins and ends at one instant would be before itself.
fn completion(request: &Request, start: i64, doubts: &mut Doubts) -> i64 {
    let measured = || request.measured.and_then(|measured| measured.service_time());
    match request.latency.or_else(measured) {
        Some(latency) if latency >= Nanos::ZERO => {
            start.saturating_add(latency.0.max(1)).min(NEVER - 1)
        }
        Some(_) => {
            doubts.completed_before_issue += 1;
            NEVER
        }
        None => {
            doubts.without_completion += 1;
            NEVER
        }
    }
}

/// Whether `request` holds its process up until what was before it is on the medium.
fn is_barrier(request: &Request) -> bool {
    request.op == Op::Flush || request.flags.intersects(Flags::FUA | Flags::PREFLUSH)
}

/// Whether `request` changes what a read finds.
fn is_change(request: &Request) -> bool {
    matches!(request.op, Op::Write | Op::Discard | Op::WriteZeroes) && request.length.0 > 0
}
