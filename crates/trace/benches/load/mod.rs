//! The load that the readers of recordings are measured with, whatever format it is put into.
//!
//! Two processors, some two million events: requests are queued and issued on one processor and
//! completed on the other, 32 at a time, and every eighth completion covers two merged requests.

/// How many requests are made: three events each, less the merged ones' missing ones.
const REQUESTS: u64 = 700_000;

/// How many requests are in flight.
const DEPTH: u64 = 32;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is queued.
    Queue,
    /// It goes to the driver.
    Issue,
    /// It is done.
    Complete,
}

/// Calls `event` for each event, in order of time within each processor: processor, nanoseconds,
/// step, sector and sectors.
pub(crate) fn tell(mut event: impl FnMut(usize, u64, Step, u64, u32)) {
    // Positions on a terabyte, a multiplicative hash of the number: no two in flight are the same.
    let sector = |request: u64| (request.wrapping_mul(0x9e37_79b9) & 0x0fff_ffff) << 3;
    for request in 0..REQUESTS + DEPTH {
        let time = request * 10_000;
        if request < REQUESTS {
            let cpu = (request / 50 % 2) as usize;
            event(cpu, time, Step::Queue, sector(request), 8);
            let is_merged = request % 8 == 0;
            if is_merged {
                event(cpu, time + 300, Step::Queue, sector(request) + 8, 8);
            }
            let sectors = if is_merged { 16 } else { 8 };
            event(cpu, time + 2_000, Step::Issue, sector(request), sectors);
        }
        if let Some(done) = request.checked_sub(DEPTH) {
            let sectors = if done % 8 == 0 { 16 } else { 8 };
            let cpu = (done / 70 % 2) as usize;
            event(cpu, time + 5_000, Step::Complete, sector(done), sectors);
        }
    }
}
