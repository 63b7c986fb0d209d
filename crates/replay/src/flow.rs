//! Flows: several streams of requests within one replay.
//!
//! A described load has parts that do not know of each other: a data base with 32 clients, a backup
//! of 5,000 requests/s. In one queue each part would wait behind the others, and the slowest would
//! set the pace of all. So each part is a *flow* with a rule of admission, a cap on its requests in
//! flight, and a queue of its own; the scheduler ([`crate::schedule`]) lets none wait behind
//! another.
//!
//! Clients of a closed loop issue as fast as they are served. Where their flows are to have certain
//! shares of the whole all the same, a [`Gate`] holds back the faster ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ioecho_trace::Nanos;

/// The rule that decides when a request of a flow may be issued, and from when on it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// At its due instant, whatever the device does (open loop).
    Open,
    /// When one of the flow's clients is free (closed loop): this long after the completion of its
    /// request before. Its first is due at the start of the replay.
    Closed {
        /// The think time of a client.
        think: Nanos,
    },
    /// When its client is free, and the load says since when that is (closed loop of threads that
    /// the load knows, as those on files). Clients are not alike there: one may wait for a file
    /// that another has, and its instant is no other's.
    Threads,
}

/// A flow as the scheduler of its lane knows it.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// The number of the flow in the run, from 1; its requests bear it ([`crate::Planned::flow`]).
    pub number: u16,
    /// When its requests are admitted.
    pub admission: Admission,
    /// Its requests that may be in flight, or wait for one that they overlap: of a closed loop, its
    /// clients.
    pub cap: u32,
    /// The gate that it goes through, if its share of the whole is given, and its place there.
    pub gate: Option<(Arc<Gate>, usize)>,
}

impl FlowConfig {
    /// How many planned requests are held for it. More would be generated in vain; fewer might
    /// leave a client without a request while the input is asked.
    pub const fn look_ahead(&self) -> usize {
        2 * self.cap as usize
    }
}

/// Numbers for the requests of a lane: those of different lanes never meet, and no lock is needed.
#[derive(Clone, Debug)]
pub struct Numbering {
    /// The first.
    pub first: u64,
    /// From one to the next: the number of lanes.
    pub step: u64,
    /// The next number of all lanes, where these have theirs in one row: what one lane does after
    /// another has a larger number then.
    pub row: Option<Arc<AtomicU64>>,
}

impl Default for Numbering {
    /// The numbers of the only lane.
    fn default() -> Self {
        Self { first: 0, step: 1, row: None }
    }
}

/// Keeps flows at their shares of the requests of all of them, across lanes.
///
/// No flow leads its share by more than twice its cap: each may go ahead by what it has in flight
/// and what takes its place, and waits then until the others follow. The leads of all add up to
/// zero, so one flow at least may always go. A flow that has ended in all of its lanes leaves, and
/// those that are left keep their shares of what is left.
#[derive(Debug)]
pub struct Gate {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    weight: f64,
    lead_max: f64,
    admitted: AtomicU64,
    /// The lanes in which it has not ended.
    lanes: AtomicU32,
}

/// What has passed a gate so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    requests: f64,
    weight: f64,
}

impl Gate {
    /// A gate for flows with these shares, in any unit, caps, and numbers of lanes.
    pub fn new(flows: impl IntoIterator<Item = (f64, u32, u32)>) -> Self {
        let member = |(weight, cap, lanes)| Member {
            weight,
            lead_max: 2.0 * f64::from(cap),
            admitted: AtomicU64::new(0),
            lanes: AtomicU32::new(lanes),
        };
        Self { members: flows.into_iter().map(member).collect() }
    }

    /// What has passed so far of the flows that have not left.
    pub(crate) fn passed(&self) -> Passed {
        let there = self.members.iter().filter(|member| member.lanes.load(Relaxed) > 0);
        there.fold(Passed { requests: 0.0, weight: 0.0 }, |sum, member| Passed {
            requests: sum.requests + member.admitted.load(Relaxed) as f64,
            weight: sum.weight + member.weight,
        })
    }

    /// Whether a request of this flow may pass.
    pub(crate) fn is_open_to(&self, member: usize, passed: Passed) -> bool {
        let Member { weight, lead_max, admitted, .. } = &self.members[member];
        let share = (passed.requests + 1.0) * weight / passed.weight;
        admitted.load(Relaxed) as f64 + 1.0 - share <= *lead_max
    }

    /// A request of this flow has passed.
    pub(crate) fn admit(&self, member: usize) {
        self.members[member].admitted.fetch_add(1, Relaxed);
    }

    /// This flow has ended in one of its lanes.
    pub(crate) fn leave(&self, member: usize) {
        let one_less = |lanes: u32| lanes.checked_sub(1);
        let _ = self.members[member].lanes.fetch_update(Relaxed, Relaxed, one_less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flow_leads_its_share_by_more_than_twice_its_cap_and_one_may_always_go() {
        let gate = Gate::new([(70.0, 4, 1), (20.0, 1, 1), (10.0, 2, 1)]);
        let mut counts = [0_u64; 3];
        // The first goes whenever it may, the others only when it may not.
        for _ in 0..10_000 {
            let passed = gate.passed();
            let next = (0..3).find(|member| gate.is_open_to(*member, passed)).unwrap();
            gate.admit(next);
            counts[next] += 1;
            let all = counts.iter().sum::<u64>() as f64;
            for ((count, share), cap) in counts.iter().zip([0.7, 0.2, 0.1]).zip([4.0, 1.0, 2.0]) {
                assert!(*count as f64 - all * share <= 2.0 * cap + 1e-6, "{counts:?}");
            }
        }
        assert!(counts[0].abs_diff(7000) <= 8 && counts[1].abs_diff(2000) <= 8, "{counts:?}");
    }

    #[test]
    fn what_is_left_keeps_its_shares_of_what_is_left() {
        let gate = Gate::new([(50.0, 1, 1), (25.0, 1, 2), (25.0, 1, 1)]);
        // As long as one of its lanes goes on, its share counts, and the others wait for it.
        gate.leave(1);
        let gone = (0..100).filter(|_| {
            let is_open = gate.is_open_to(0, gate.passed());
            is_open.then(|| gate.admit(0)).is_some()
        });
        assert_eq!(gone.count(), 4);
        gate.leave(1);
        let mut counts = [0_u64; 3];
        for _ in 0..3000 {
            let passed = gate.passed();
            let next = [2, 0].into_iter().find(|member| gate.is_open_to(*member, passed)).unwrap();
            gate.admit(next);
            counts[next] += 1;
        }
        // The first had gone ahead.
        assert!(counts[0].abs_diff(2000) <= 6, "{counts:?}");
    }
}
