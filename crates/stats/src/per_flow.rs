//! The figures of each of a run's flows.
//!
//! Of a data base and a backup on one device the figures of all requests together describe neither.
//! So each flow has its own row. A flow is counted where its requests say so; a run without flows
//! has none.

use ioecho_trace::{Measured, Nanos, Op, Outcome, Request};
use serde::{Deserialize, Serialize};

use crate::facts::FlowFacts;
use crate::histogram::{Latencies, Percentiles};
use crate::late::LATE;

/// The figures of one of the run's flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFigures {
    /// Which of the run's flows, counted from 1.
    pub flow: u16,
    /// Its name.
    pub name: String,
    /// Its clients, each of which waits for its request before it issues the next; `None`: its
    /// requests were due at instants that do not depend on the device.
    pub threads: Option<u32>,
    /// Requests that it had.
    pub requests: u64,
    /// Requests that reached the target.
    pub issued: u64,
    /// Requests issued that did not complete in full.
    pub failed: u64,
    /// Requests later than a millisecond.
    pub late: u64,
    /// Bytes of reads that completed.
    pub bytes_read: u64,
    /// Bytes of writes that completed.
    pub bytes_written: u64,
    /// When its last request completed, whatever came of it.
    pub last_completed_ns: i64,
    /// Requests that completed in full, per second until then, without those that came along.
    pub per_second: f64,
    /// Of its requests, those that came along with others ([`FlowFacts::along`]), and how many of
    /// them completed in full. One that failed stands for what was not asked for then.
    #[serde(default, skip_serializing_if = "Along::is_empty")]
    pub along: Along,
    /// Submitted − scheduled; `None` where nothing was issued.
    pub lateness: Option<Percentiles>,
    /// Completed − submitted; `None` where nothing completed in full.
    pub service_time: Option<Percentiles>,
    /// Completed − scheduled; `None` where nothing completed in full.
    pub response_time: Option<Percentiles>,
}

/// A flow whose last request completed in the last part of a run went on to its end.
const TO_ITS_END: f64 = 0.95;

/// So many of a flow's mean gaps without a request are no gap between two.
const GAPS: f64 = 20.0;

impl FlowFigures {
    /// When the flow ended, if that was long before its run of this length did: its rate is then
    /// one of that time, and adds up with no other.
    pub fn ended_before(&self, run_ns: i64) -> Option<Nanos> {
        let (last, run) = (self.last_completed_ns as f64, run_ns as f64);
        let gap = last / self.requests.max(1) as f64;
        let is_early = last < run * TO_ITS_END && run - last > GAPS * gap;
        (self.requests > 0 && is_early).then_some(Nanos(self.last_completed_ns))
    }
}

/// Requests that came along with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Along {
    /// All of them.
    pub requests: u64,
    /// Those that completed in full.
    pub completed: u64,
}

impl Along {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The operations that may come along with others.
const ALONG: [Op; 3] = [Op::Open, Op::Close, Op::Delete];

/// The flows of a run, fed request by request.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerFlow {
    flows: Vec<One>,
}

#[derive(Clone, Debug, Default)]
struct One {
    figures: FlowFigures,
    lateness: Latencies,
    service: Latencies,
    response: Latencies,
    /// Of each of [`ALONG`].
    along: [Along; ALONG.len()],
}

impl PerFlow {
    pub(crate) fn observe(&mut self, request: &Request, measured: &Measured) {
        let Some(index) = usize::from(measured.flow).checked_sub(1) else { return };
        let One { figures, lateness, service, response, along } = self.at(index);
        figures.requests += 1;
        if let Some(of_op) = ALONG.iter().position(|op| *op == request.op) {
            let is_done = measured.outcome == Outcome::Ok;
            // Where a file could not be opened, nothing was asked of it: the open was what is due.
            along[of_op].requests += u64::from(is_done || request.op != Op::Open);
            along[of_op].completed += u64::from(is_done);
        }
        if !measured.outcome.was_issued() {
            return;
        }
        figures.issued += 1;
        // Also of one that failed: a device that dies early is no faster for it.
        if let Some(completed) = measured.completed {
            figures.last_completed_ns = figures.last_completed_ns.max(completed.0);
        }
        if let Some(late_by) = measured.lateness() {
            figures.late += u64::from(late_by > LATE);
            lateness.record(late_by);
        }
        let (Some(served), Some(responded), Outcome::Ok) =
            (measured.service_time(), measured.response_time(), measured.outcome)
        else {
            figures.failed += 1;
            return;
        };
        service.record(served.max(Nanos::ZERO));
        response.record(responded.max(Nanos::ZERO));
        let bytes = match request.op {
            Op::Read => &mut figures.bytes_read,
            Op::Write => &mut figures.bytes_written,
            _ => return,
        };
        *bytes = bytes.saturating_add(request.length.0);
    }

    fn at(&mut self, index: usize) -> &mut One {
        if index >= self.flows.len() {
            self.flows.resize_with(index + 1, One::default);
        }
        &mut self.flows[index]
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (index, theirs) in other.flows.iter().enumerate() {
            let One { figures, lateness, service, response, along } = theirs;
            // Names come from the engine's facts; rates and percentiles are made at the end.
            let FlowFigures {
                flow: _,
                name: _,
                threads: _,
                requests,
                issued,
                failed,
                late,
                bytes_read,
                bytes_written,
                last_completed_ns,
                per_second: _,
                along: _,
                lateness: _,
                service_time: _,
                response_time: _,
            } = figures;
            let mine = self.at(index);
            mine.lateness.merge(lateness);
            mine.service.merge(service);
            mine.response.merge(response);
            for (mine, theirs) in mine.along.iter_mut().zip(along) {
                mine.requests = mine.requests.saturating_add(theirs.requests);
                mine.completed = mine.completed.saturating_add(theirs.completed);
            }
            let mine = &mut mine.figures;
            mine.requests = mine.requests.saturating_add(*requests);
            mine.issued = mine.issued.saturating_add(*issued);
            mine.failed = mine.failed.saturating_add(*failed);
            mine.late = mine.late.saturating_add(*late);
            mine.bytes_read = mine.bytes_read.saturating_add(*bytes_read);
            mine.bytes_written = mine.bytes_written.saturating_add(*bytes_written);
            mine.last_completed_ns = mine.last_completed_ns.max(*last_completed_ns);
        }
    }

    /// A row for each of the run's flows, also for those without a request.
    pub(crate) fn figures(&self, flows: &[FlowFacts]) -> Vec<FlowFigures> {
        let row = |facts: &FlowFacts| {
            let index = usize::from(facts.flow).wrapping_sub(1);
            let One { figures, lateness, service, response, along } =
                self.flows.get(index).cloned().unwrap_or_default();
            let seconds = figures.last_completed_ns as f64 / 1e9;
            let its = ALONG.iter().zip(along).filter(|(op, _)| facts.along.contains(op));
            let along = its.fold(Along::default(), |sum, (_, of_op)| Along {
                requests: sum.requests + of_op.requests,
                completed: sum.completed + of_op.completed,
            });
            let completed = service.count().saturating_sub(along.completed) as f64;
            FlowFigures {
                flow: facts.flow,
                name: facts.name.clone(),
                threads: facts.threads,
                per_second: if seconds > 0.0 { completed / seconds } else { 0.0 },
                along,
                lateness: Percentiles::of(&lateness),
                service_time: Percentiles::of(&service),
                response_time: Percentiles::of(&response),
                ..figures
            }
        };
        flows.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::Bytes;

    use super::*;

    fn request(flow: u16, at_ms: i64, outcome: Outcome) -> Request {
        let at = Nanos::from_millis(at_ms);
        let measured = Measured {
            target_offset: Some(Bytes(0)),
            outcome,
            flow,
            ..Measured::done(at, at + Nanos(100), at + Nanos(1100))
        };
        Request { measured: Some(measured), ..Request::new(at, Op::Read, Bytes(0), Bytes(4096)) }
    }

    fn facts(flow: u16, threads: Option<u32>) -> FlowFacts {
        FlowFacts { flow, name: format!("f{flow}"), threads, ..FlowFacts::default() }
    }

    #[test]
    fn a_flow_whose_device_dies_early_is_no_faster_for_it() {
        let mut flows = PerFlow::default();
        for at in 0..300 {
            let outcome = if at < 100 { Outcome::Ok } else { Outcome::Error(5) };
            let request = request(1, at * 10, outcome);
            flows.observe(&request, request.measured.as_ref().unwrap());
        }
        let row = &flows.figures(&[facts(1, None)])[0];
        assert_eq!((row.requests, row.failed), (300, 200));
        assert_eq!(row.last_completed_ns, 2_990_001_100);
        assert!((row.per_second - 100.0 / 2.99).abs() < 0.1, "{}", row.per_second);
    }

    #[test]
    fn a_flow_that_ended_long_before_its_run_says_when() {
        let of = |requests: i64, every: i64| {
            let mut flows = PerFlow::default();
            for number in 0..requests {
                let request = request(1, number * every, Outcome::Ok);
                flows.observe(&request, request.measured.as_ref().unwrap());
            }
            flows.figures(&[facts(1, Some(1))]).remove(0)
        };
        let four_seconds = Nanos::from_secs(4).0;
        assert_eq!(of(100, 1).ended_before(four_seconds), Some(Nanos(99_001_100)));
        assert_eq!(of(390, 10).ended_before(four_seconds), None);
        // Of a slow flow nobody knows that another request would have come.
        assert_eq!(of(2, 1000).ended_before(four_seconds), None);
        assert_eq!(of(0, 1).ended_before(four_seconds), None);
    }

    #[test]
    fn each_flow_has_its_row_and_parts_merge_to_the_whole() {
        let requests: Vec<Request> = (0..100)
            .map(|n| request(1 + u16::from(n % 4 == 0), n * 10, Outcome::Ok))
            .chain([request(2, 2000, Outcome::Error(5)), request(0, 1, Outcome::Ok)])
            .collect();
        let of = |requests: &[Request]| {
            let mut flows = PerFlow::default();
            for request in requests {
                flows.observe(request, request.measured.as_ref().unwrap());
            }
            flows
        };
        let all = [facts(1, None), facts(2, Some(4)), facts(3, None)];
        let rows = of(&requests).figures(&all);
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[0].requests, rows[1].requests, rows[2].requests), (75, 26, 0));
        assert_eq!((rows[1].failed, rows[1].threads, rows[1].name.as_str()), (1, Some(4), "f2"));
        assert_eq!(rows[0].bytes_read, 75 * 4096);
        assert!((rows[0].per_second - 75.0 / 0.99).abs() < 0.1, "{}", rows[0].per_second);
        assert_eq!(rows[2].response_time, None);
        let mut parts = of(&requests[50..]);
        parts.merge(&of(&requests[..50]));
        assert_eq!(parts.figures(&all), rows);
    }
}
