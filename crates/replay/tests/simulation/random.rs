//! Random devices, settings and loads, from seeds.

use ioecho_replay::conflict::{ConflictMode, Strong};
use ioecho_replay::engine::{Control, Feed, Input};
use ioecho_replay::pattern::SplitMix64;
use ioecho_replay::plan::{Planned, TimingMode};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{Faults, SimSpec};
use ioecho_trace::{Bytes, Nanos, Op, Request};

fn pick<T: Copy>(random: &mut SplitMix64, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// Devices of every model, with faults now and then.
pub(crate) fn spec(random: &mut SplitMix64, seed: u64) -> SimSpec {
    let models = ["exp", "exp", "const", "bimodal", "disk", "ssd", "collapse"];
    let spec: SimSpec = format!("model={}", pick(random, &models)).parse().unwrap();
    SimSpec {
        capacity: Bytes(512 << random.below(12)),
        units: 1 + random.below(8) as u32,
        service: Nanos(1_000 + random.below(2_000_000) as i64),
        faults: Faults {
            error_share: if random.below(4) == 0 { 0.1 } else { 0.0 },
            short_share: if random.below(6) == 0 { 0.1 } else { 0.0 },
            stall_share: if random.below(6) == 0 { 0.05 } else { 0.0 },
            stall: Nanos::from_millis(3),
            hang_share: if random.below(20) == 0 { 0.02 } else { 0.0 },
            vanish: (random.below(20) == 0).then(|| Nanos::from_millis(50)),
        },
        seed,
        ..spec
    }
}

/// Schedulers of every kind.
pub(crate) fn config(random: &mut SplitMix64) -> Config {
    use ConflictMode::{Allow, Drop, Ordering, Partial};
    use TimingMode::{Afap, Load, Timed};
    Config {
        conflicts: pick(random, &[Partial, Partial, Drop, Ordering, Allow]),
        strong: pick(random, &[Strong::WriteWrite, Strong::AllButReads, Strong::All]),
        look_ahead: 1 + random.below(64) as usize,
        waiting_max: 1 + random.below(40) as u32,
        timing: pick(random, &[Timed, Timed, Afap, Load]),
        follow_in_flight: random.below(4) == 0,
        bundle: pick(random, &[Nanos::ZERO, Nanos::ZERO, Nanos::from_micros(20)]),
        ..Config::with_in_flight_max(1 + random.below(16) as u32)
    }
}

/// A load with bursts, hot spots, every operation, and requests that do not fit.
pub(crate) fn load(random: &mut SplitMix64, capacity: u64) -> Vec<Request> {
    let count = 50 + random.below(400);
    let hot = 1 + random.below(capacity / 512);
    let mut issue = 0;
    (0..count)
        .map(|_| {
            issue +=
                if random.below(3) == 0 { random.below(3_000_000) } else { random.below(2_000) };
            let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Discard, Op::Flush]
                [random.below(7) as usize];
            let range = if random.below(2) == 0 { hot.min(32) } else { capacity / 512 * 2 };
            let offset = random.below(range) * 512 + u64::from(random.below(50) == 0);
            let length = (random.below(16) + u64::from(random.below(40) > 0)) * 512;
            let (offset, length) = if op == Op::Flush { (0, 0) } else { (offset, length) };
            let latency = Some(Nanos(random.below(3_000_000) as i64));
            let issue = Nanos(issue as i64);
            Request { latency, ..Request::new(issue, op, Bytes(offset), Bytes(length)) }
        })
        .collect()
}

/// An input that is now and then not ready, and may stop the run in its middle.
pub(crate) struct Hesitant<'a> {
    pub(crate) planned: std::vec::IntoIter<Planned>,
    pub(crate) random: SplitMix64,
    pub(crate) share: f64,
    pub(crate) control: &'a Control,
    pub(crate) stop_after: Option<u64>,
    pub(crate) polls: u64,
}

impl Input for Hesitant<'_> {
    fn poll(&mut self) -> Feed {
        self.polls += 1;
        if self.stop_after.is_some_and(|polls| self.polls > polls) {
            self.control.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        if self.random.unit() < self.share {
            return Feed::NotYet;
        }
        self.planned.next().map_or(Feed::Ended, Feed::Request)
    }
}
