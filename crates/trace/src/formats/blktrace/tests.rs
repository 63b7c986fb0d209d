//! The reader returns the requests of a recording, and reports the parts that it cannot read.

mod any;
mod bounded;
mod files;
mod flushes;
mod late;
mod requests;
mod simulated;
mod streams;

use crate::request::{Op, Request};

/// Issue and latency in nanoseconds of every request.
fn times(requests: &[Request]) -> Vec<(i64, Option<i64>)> {
    requests.iter().map(|r| (r.issue.0, r.latency.map(|latency| latency.0))).collect()
}

/// Operation, first sector and sectors of every request.
fn ops(requests: &[Request]) -> Vec<(Op, u64, u64)> {
    requests.iter().map(|r| (r.op, r.offset.0 / 512, r.length.0 / 512)).collect()
}
