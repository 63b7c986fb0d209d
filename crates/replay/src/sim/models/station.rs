//! A queue in front of servers that work in parallel, in order of arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests wait in one line for the first server that is free.
#[derive(Debug)]
pub(super) struct Station {
    /// When each server is free again, the first one on top.
    free_ns: BinaryHeap<Reverse<i64>>,
}

impl Station {
    /// So many servers, all free.
    pub(super) fn new(servers: u32) -> Self {
        Self { free_ns: (0..servers.max(1)).map(|_| Reverse(0)).collect() }
    }

    /// Serves a request that arrives now and takes so long; answers when it is done.
    #[inline]
    pub(super) fn serve(&mut self, now_ns: i64, service_ns: f64) -> i64 {
        let service_ns = (service_ns as i64).max(1);
        match self.free_ns.peek_mut() {
            Some(mut first) => {
                let done = first.0.max(now_ns).saturating_add(service_ns);
                *first = Reverse(done);
                done
            }
            None => now_ns.saturating_add(service_ns),
        }
    }
}
