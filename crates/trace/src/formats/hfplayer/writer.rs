//! Writing the layout of hfplayer's own samples.
//!
//! hfplayer has only reads and writes of whole sectors. It also needs the number of requests in
//! flight at each arrival, which follows from the latencies.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashSet;

use crate::dependencies::Dependency;
use crate::formats::numbers::Numbers;
use crate::formats::write::{self, LineWriter, Lost, decimal};
use crate::header::Header;
use crate::request::{Op, Request};
use crate::units::{Bytes, Nanos, SECTOR};

/// The largest number of requests that are counted as in flight.
const IN_FLIGHT_MAX: usize = 65_536;

/// The largest number of left-out requests that are remembered.
const LEFT_OUT_MAX: usize = 1 << 20;

/// The largest number of parents of a request that hfplayer counts.
const HFPLAYER_PARENTS_MAX: usize = 255;

/// The lines that were written so far.
pub(super) struct Lines {
    requests: u64,
    /// The instants at which requests in flight complete, in nanoseconds, the earliest first.
    in_flight: BinaryHeap<Reverse<i64>>,
    volumes: Numbers,
    /// In an annotated trace, the dependency of the next request.
    linked: Option<Linked>,
}

/// The dependency of a request, and requests without a line.
#[derive(Default)]
struct Linked {
    id: u64,
    parents: Vec<u64>,
    /// The last requests that were left out. No line may name them as parents: hfplayer would end
    /// there.
    left_out: FxHashSet<u64>,
    in_order: VecDeque<u64>,
}

impl Default for Lines {
    fn default() -> Self {
        let volumes = Numbers::up_to(u64::MAX);
        Self { requests: 0, in_flight: BinaryHeap::new(), volumes, linked: None }
    }
}

impl LineWriter for Lines {
    fn begin(&mut self, header: &Header, lines: &mut Vec<u8>) {
        lines.extend_from_slice(
            b"#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,SEQID.I,\
              LUN_SSID.I,OP.I,PHASE.I,LBA.I,NBLKS.I,LATENCY_TICKS.I,HOST_ID.I,HOST_LUN.I,\
              LATENCY_USECS.D",
        );
        self.linked = header.columns.dependencies.then(Linked::default);
        lines.extend_from_slice(match self.linked {
            Some(_) => b",DEP_PARENT_COUNT.I,DEP_PARENT_LIST.S\n",
            None => b"\n",
        });
    }

    fn link(&mut self, dependency: Dependency<'_>) {
        if let Some(linked) = &mut self.linked {
            linked.id = dependency.id;
            linked.parents.clear();
            linked.parents.extend_from_slice(dependency.parents);
        }
    }

    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        let is_written = self.line(request, header, lines, lost);
        if !is_written && let Some(linked) = &mut self.linked {
            linked.leave_out();
        }
        is_written
    }
}

impl Lines {
    /// Appends the line of a request; answers whether the request has one.
    fn line(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        let (command, op) = match request.op {
            Op::Read => (&b"RD"[..], b'0'),
            Op::Write => (&b"WR"[..], b'1'),
            op => {
                lost.op(op);
                return false;
            }
        };
        if request.issue < Nanos::ZERO {
            lost.request("requests before the start of the trace");
            return false;
        }
        if request.length == Bytes::ZERO {
            lost.request("requests of zero length");
            return false;
        }
        let latency = told_latency(request, lost);
        let Some((first, sectors)) = write::sectors(request.offset.0, request.end().0) else {
            lost.request(write::BEYOND);
            return false;
        };
        if !request.offset.0.is_multiple_of(SECTOR) || !request.length.0.is_multiple_of(SECTOR) {
            lost.detail("requests widened to whole sectors");
        }
        let issue = request.issue.0 as u64;
        let in_flight = self.arrive(request.issue, latency);
        self.requests += 1;
        let volume = self.volumes.of(request.volume, header, lost);
        let whole = |lines: &mut Vec<u8>, value| {
            decimal(lines, value, 1, b'0');
            lines.push(b',');
        };
        whole(lines, self.linked.as_ref().map_or(self.requests, |linked| linked.id));
        micros(lines, issue);
        lines.push(b',');
        // Ticks of a clock of one gigahertz.
        whole(lines, issue);
        lines.extend_from_slice(command);
        lines.push(b',');
        whole(lines, in_flight);
        whole(lines, issue);
        whole(lines, self.requests);
        whole(lines, volume);
        lines.extend_from_slice(&[op, b',', b'0', b',']);
        whole(lines, first);
        whole(lines, sectors);
        whole(lines, latency);
        lines.extend_from_slice(b"0,0,");
        micros(lines, latency);
        if let Some(linked) = &mut self.linked {
            linked.tell(lines, lost);
        }
        lines.push(b'\n');
        true
    }

    /// The number of requests in flight at `issue`, before this one joins them.
    fn arrive(&mut self, issue: Nanos, latency: u64) -> u64 {
        while self.in_flight.peek().is_some_and(|Reverse(end)| *end <= issue.0) {
            self.in_flight.pop();
        }
        let before = self.in_flight.len() as u64;
        if latency > 0 && self.in_flight.len() < IN_FLIGHT_MAX {
            self.in_flight.push(Reverse(issue.0.saturating_add_unsigned(latency)));
        }
        before
    }
}

impl Linked {
    /// Remembers that the request has no line.
    fn leave_out(&mut self) {
        if self.in_order.len() == LEFT_OUT_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.left_out.remove(&oldest);
        }
        self.left_out.insert(self.id);
        self.in_order.push_back(self.id);
    }

    /// Appends the columns of the parents.
    fn tell(&mut self, lines: &mut Vec<u8>, lost: &mut Lost) {
        let named = self.parents.len();
        self.parents.retain(|parent| !self.left_out.contains(parent));
        if self.parents.len() < named {
            lost.detail("requests that wait for one that is left out, written as if they did not");
        }
        if self.parents.len() > HFPLAYER_PARENTS_MAX {
            lost.detail("requests with more parents than hfplayer counts (255)");
        }
        lines.push(b',');
        decimal(lines, self.parents.len() as u64, 1, b'0');
        for (at, parent) in self.parents.iter().enumerate() {
            lines.push(if at == 0 { b',' } else { b'-' });
            decimal(lines, *parent, 1, b'0');
        }
        if self.parents.is_empty() {
            lines.extend_from_slice(b",NA");
        }
    }
}

/// The latency in nanoseconds, recorded or else measured; 0 if unknown, as in hfplayer. Counts
/// other values that the line lacks.
fn told_latency(request: &Request, lost: &mut Lost) -> u64 {
    if !request.flags.is_empty() {
        lost.detail("flags");
    }
    if request.origin.is_some() {
        lost.detail("processes and processors");
    }
    if request.measured.is_some() {
        lost.detail("measured times (but for the service time, where no latency was recorded)");
    }
    let measured = request.measured.and_then(|measured| measured.service_time());
    match request.latency.or(measured) {
        Some(latency) if latency > Nanos::ZERO => latency.0 as u64,
        Some(_) => {
            lost.detail("latencies of zero or less, which become unknown");
            0
        }
        None => 0,
    }
}

/// Nanoseconds as microseconds with all their decimals.
fn micros(line: &mut Vec<u8>, ns: u64) {
    decimal(line, ns / 1_000, 1, b'0');
    line.push(b'.');
    decimal(line, ns % 1_000, 3, b'0');
}
