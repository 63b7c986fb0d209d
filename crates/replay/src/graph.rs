//! Infers which request waited for which.
//!
//! The instants of a recording depend on the storage that it was made on. On faster storage the
//! application would have issued its requests sooner, but not all at once: it waited for
//! completions, and computed. No recording says for which completions, so they are inferred here by
//! exclusion. A request may have waited for all requests that had completed when it was issued. It
//! did not wait for requests that overlapped it, nor for those that completed so shortly before
//! that no application could have reacted. If the recording has the process of each request, only
//! requests of the same process are linked, those of processes that hand work to each other, and
//! those that may have woken a process. A process that keeps as many in flight all the time counts
//! as that many processes (`slots`).
//!
//! A request `p` is *linked* to a later one `r` if `r` is at most a window of requests behind `p`,
//! and
//!
//! * `p` had completed for at least the threshold when `r` was issued, and `r`'s process waits for
//!   its own requests and is that of `p`, or it is one that `p`'s hands work to; without processes
//!   all requests are of one;
//! * or `p` had completed, the same holds of their processes, and `r`'s, a known one, had nothing
//!   in flight;
//! * or `p` had completed, the same holds of their processes, they went to one volume, and one of
//!   both is a barrier: a flush, or a write with FUA or a flush beforehand;
//! * or `p` had completed and is a synchronous write or a barrier of the same known process;
//! * or `p` had completed, `r` is a read, and `p` is the last of the completed writes to some of
//!   what `r` reads;
//! * or `p` may have woken `r`'s process. A process is *woken* with its first request of the
//!   window, and with one after an unusual pause ([`processes`]); whichever requests had then
//!   completed for at least the threshold, and none of them after another had begun and completed,
//!   may have woken it. All its requests wait for them, until it is woken again.
//!
//! The *parents* of `r` are the requests linked to it from which no longer path leads to it (the
//! transitive reduction). The first rule alone makes an interval order for each process. There the
//! parents are the requests that completed after the latest start of all completed requests, so
//! they are found without a search. Links of the other rules are carried along as reach (`reach`).
//!
//! Method: Haghdoost et al., "hfplayer: Scalable Replay for Intensive Block I/O Workloads" (2017),
//! section 3.1, which knows neither processes nor barriers nor places.
//!
//! The way through: [`survey`] (a first pass: the threshold, and what each of the [`processes`]
//! waits for, by `evidence`) → [`infer`] (with `places` and `reach`), or [`given`] if the trace
//! names the parents itself → [`statistics`] and [`dot`].

pub mod diskaccel;
pub mod dot;
mod evidence;
pub mod given;
pub mod infer;
mod places;
pub mod processes;
mod reach;
mod slots;
pub mod statistics;
pub mod survey;
#[cfg(test)]
mod tests;

use ioecho_trace::{Flags, Nanos, Op, Request};

/// The default number of earlier requests among which parents are searched.
pub const WINDOW_ROWS: u64 = 65_536;

/// Replaces an unknown completion.
const NEVER: i64 = i64::MAX;

/// A request and its parents. Rows count the requests from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits<'a> {
    /// The request's own row.
    pub row: u64,
    /// The rows of its parents, in ascending order.
    pub parents: &'a [u64],
    /// The time from the last completion of its parents to its own issue; `None` without parents.
    pub think: Option<Nanos>,
}

/// The defects of a trace, and requests that did not fit the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Requests issued before the previous one; they count as issued with it.
    pub clock_inversions: u64,
    /// Requests with an unknown completion: no request waits for them.
    pub without_completion: u64,
    /// Requests that completed before they were issued; their completion counts as unknown.
    pub completed_before_issue: u64,
    /// Requests that were still in flight when a whole window of others had been issued: no request
    /// waits for them.
    pub beyond_window: u64,
    /// Gaps of the recording, across which no request waits.
    pub gaps: u64,
    /// Processes whose chains were cut there; without processes, 1 if requests were in flight.
    pub cut_chains: u64,
}

/// The completion of `request` by its recorded latency, counted from `start`, and at least a
/// nanosecond later: a request that begins and ends at the same instant would be its own
/// predecessor.
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

/// Whether `request` makes its process wait until all earlier requests are on the medium.
fn is_barrier(request: &Request) -> bool {
    request.op == Op::Flush || request.flags.intersects(Flags::FUA | Flags::PREFLUSH)
}

/// Whether `request` changes the data that reads return.
fn is_change(request: &Request) -> bool {
    matches!(request.op, Op::Write | Op::Discard | Op::WriteZeroes) && request.length.0 > 0
}
