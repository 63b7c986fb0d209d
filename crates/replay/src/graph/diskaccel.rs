//! DiskAccel's rule for who waited for whom: reads are dependent, writes are not.
//!
//! An application needs what it reads before it goes on, and its writes go to a cache. So each
//! request waits for the read that completed last when it was issued, and nobody waits for a write.
//! Synchronous writes, flushes and processes do not occur in the rule. It is here to compare with.
//!
//! Source: Tarihi, Asadi, Sarbazi-Azad, "DiskAccel: Accelerating Disk-Based Experiments by
//! Representative Sampling" (SIGMETRICS 2015), as Haghdoost and others describe it (hfplayer, 2017,
//! related work). There a request waits for every read issued before; here reads that were in
//! flight together stay together, which is nearer to applications that read in parallel.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioecho_trace::{Nanos, Op, Request};

use super::{Doubts, NEVER, Waits, completion};

/// Finds the parent of each request by this rule. Requests come in the order of their issue.
#[derive(Debug)]
pub struct DiskAccel {
    window_rows: u64,
    rows: u64,
    latest: i64,
    /// Reads in flight: completion, row.
    in_flight: BinaryHeap<Reverse<(i64, u64)>>,
    /// The read that completed last.
    last: Option<(i64, u64)>,
    parent: [u64; 1],
    doubts: Doubts,
}

impl DiskAccel {
    /// Looks for parents among so many requests before each.
    pub fn new(window_rows: u64) -> Self {
        Self {
            window_rows: window_rows.max(1),
            rows: 0,
            latest: i64::MIN,
            in_flight: BinaryHeap::new(),
            last: None,
            parent: [0],
            doubts: Doubts::default(),
        }
    }

    /// The defects so far.
    pub fn doubts(&self) -> Doubts {
        self.doubts
    }

    /// Takes the next request and returns its parent.
    pub fn push(&mut self, request: &Request) -> Waits<'_> {
        self.doubts.clock_inversions += u64::from(request.issue.0 < self.latest);
        let start = request.issue.0.max(self.latest);
        self.latest = start;
        let row = self.rows;
        self.rows += 1;
        while let Some(Reverse(read)) = self.in_flight.peek().filter(|read| read.0.0 <= start) {
            self.last = Some(*read);
            self.in_flight.pop();
        }
        let end = completion(request, start, &mut self.doubts);
        if request.op == Op::Read && end != NEVER {
            self.in_flight.push(Reverse((end, row)));
        }
        let last = self.last.filter(|(_, read)| row - read <= self.window_rows);
        let think = last.map(|(end, read)| {
            self.parent = [read];
            Nanos(start - end)
        });
        Waits { row, parents: &self.parent[..usize::from(last.is_some())], think }
    }

    /// Separates later requests from all earlier ones, because events were lost in between.
    pub fn cut(&mut self) {
        self.doubts.gaps += 1;
        self.doubts.cut_chains += u64::from(self.last.is_some() || !self.in_flight.is_empty());
        self.in_flight.clear();
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Bytes;

    fn request(op: Op, us: i64, latency_us: i64) -> Request {
        let mut request = Request::new(Nanos(us * 1_000), op, Bytes(0), Bytes(512));
        request.latency = Some(Nanos(latency_us * 1_000));
        request
    }

    #[test]
    fn requests_wait_for_the_read_that_completed_last_and_never_for_a_write() {
        let requests = [
            request(Op::Read, 0, 100),
            request(Op::Read, 5, 50),
            // Both reads are in flight, and the write is no reason to wait.
            request(Op::Write, 10, 10),
            request(Op::Write, 70, 10),
            request(Op::Read, 120, 10),
        ];
        let mut rule = DiskAccel::new(4);
        let waits: Vec<_> = requests
            .iter()
            .map(|request| {
                let waits = rule.push(request);
                (waits.parents.to_vec(), waits.think.map(|think| think.0 / 1_000))
            })
            .collect();
        let none = (vec![], None);
        let expected = [none.clone(), none.clone(), none, (vec![1], Some(15)), (vec![0], Some(20))];
        assert_eq!(waits, expected);
    }

    #[test]
    fn a_read_further_away_than_the_window_is_not_waited_for() {
        let mut rule = DiskAccel::new(1);
        rule.push(&request(Op::Read, 0, 1));
        assert_eq!(rule.push(&request(Op::Write, 5, 1)).parents, [0]);
        assert!(rule.push(&request(Op::Write, 6, 1)).parents.is_empty());
    }

    #[test]
    fn nobody_waits_across_a_gap() {
        let mut rule = DiskAccel::new(8);
        rule.push(&request(Op::Read, 0, 1));
        rule.cut();
        assert!(rule.push(&request(Op::Write, 5, 1)).parents.is_empty());
        assert_eq!((rule.doubts().gaps, rule.doubts().cut_chains), (1, 1));
    }
}
