//! Which rates the engine keeps on this host.
//!
//! The engine itself replays reads on a device that takes no time, at one rate after the other.
//! Then only the host and the engine cause lateness: a run at this rate will be at least as late on
//! the best device there is.

use ioecho_trace::{Bytes, Flags, Nanos, Op, VolumeId};
use serde::Serialize;

use super::{Host, NullDevice, Spread};
use crate::clock::Clock;
use crate::conflict::ConflictMode;
use crate::engine::{Control, Pacing, Replay, ResultSink};
use crate::pattern::{Pattern, SplitMix64};
use crate::plan::Planned;
use crate::schedule::{Config, Record, Scheduler};

/// The rates that are tried, requests per second.
pub const LADDER: [u32; 11] =
    [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000];

/// The share of the asked rate that must be achieved.
const ACHIEVED: f64 = 0.999;

/// How often a rate that was not kept is tried again: on a shared host one stall in a fraction of a
/// second spoils a rate that is kept in most.
const TRIES: usize = 3;

/// A host that falls this far behind will not do better at a higher rate.
const COLLAPSED: f64 = 0.5;

/// A host that was this many times later than the limit will not do better at a higher rate. A
/// single case may be a stall, so two such rates in a row end the search.
const HOPELESS: i64 = 20;

/// From the start of the engine to the first request.
const START_GRACE: Nanos = Nanos::from_millis(1);

/// Requests that the quick measurement takes, and the cap on those in flight meanwhile: the engine
/// then handles as many at a time as it does when it is just about to fall behind.
const QUICK_REQUESTS: u64 = 4_000;
const QUICK_IN_FLIGHT: u32 = 32;
const QUICK_ROUNDS: usize = 3;

/// How far apart the requests are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// Evenly.
    Even,
    /// At random, as those of many independent users (a Poisson process).
    #[default]
    Poisson,
    /// Not at all: all are due at once.
    None,
}

/// The rates to try.
#[derive(Clone, Debug)]
pub struct PacePlan {
    /// The rates, ascending, requests per second.
    pub rates: Vec<u32>,
    /// How long each is kept.
    pub span: Nanos,
    /// How far apart the requests are.
    pub spacing: Spacing,
    /// The most that one request in a hundred may be late.
    pub limit: Nanos,
    /// How near to a deadline the engine sleeps.
    pub near: Nanos,
}

impl Default for PacePlan {
    fn default() -> Self {
        Self {
            rates: LADDER.to_vec(),
            span: Nanos::from_millis(300),
            spacing: Spacing::Poisson,
            limit: Nanos::from_micros(100),
            near: Nanos::from_micros(100),
        }
    }
}

/// The result of one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PacedRate {
    /// What was asked for, requests per second.
    pub asked_per_s: u32,
    /// What was achieved, requests per second.
    pub achieved_per_s: f64,
    /// How late the requests were issued.
    pub lateness: Spread,
    /// The processor time of the issuing thread for each request. It includes the time spent
    /// spinning, so that it falls as the rate rises.
    #[serde(rename = "cpu_per_request_ns")]
    pub cpu_per_request: Nanos,
    /// Whether the rate was kept within the limit.
    pub kept: bool,
    /// How often it was tried; the figures are those of the best try.
    pub tries: usize,
}

/// The highest rate that was kept.
pub fn highest_kept(rates: &[PacedRate]) -> Option<&PacedRate> {
    rates.iter().rev().find(|rate| rate.kept)
}

/// Tries the rates of the plan one after the other, until the host is hopelessly behind. `done` is
/// told of each.
pub fn pace_limit<C: Clock>(
    plan: &PacePlan,
    host: &mut Host<'_, C>,
    mut done: impl FnMut(&PacedRate),
) -> Vec<PacedRate> {
    let mut results: Vec<PacedRate> = Vec::with_capacity(plan.rates.len());
    let mut hopeless = 0;
    for &rate in &plan.rates {
        let mut best: Option<PacedRate> = None;
        for turn in 1..=TRIES {
            let result = PacedRate { tries: turn, ..pace(rate, plan, host) };
            let better = best.is_none_or(|best| result.lateness.p99 < best.lateness.p99);
            let best = best.insert(match best {
                Some(best) if !better => PacedRate { tries: turn, ..best },
                _ => result,
            });
            if best.kept {
                break;
            }
        }
        let Some(best) = best else { continue };
        done(&best);
        results.push(best);
        let late = best.lateness.p99.0 > plan.limit.0.saturating_mul(HOPELESS);
        hopeless = if late { hopeless + 1 } else { 0 };
        if best.achieved_per_s < f64::from(rate) * COLLAPSED || hopeless == 2 {
            break;
        }
    }
    results
}

/// What the engine needs for one request when many are due, in about 10 ms: the inverse is the
/// highest rate that this host can be asked for at all. The best of three, so that what the host
/// takes meanwhile does not count. Zero only if the clock stands still.
pub fn quick_cost<C: Clock>(host: &mut Host<'_, C>) -> Nanos {
    let plan = PacePlan { spacing: Spacing::None, ..PacePlan::default() };
    let rounds = (0..QUICK_ROUNDS).map(|_| {
        let run = engine_run(QUICK_REQUESTS, 1.0, QUICK_IN_FLIGHT, &plan, host);
        Nanos(run.took.0 / QUICK_REQUESTS as i64)
    });
    rounds.min().unwrap_or_default()
}

fn pace<C: Clock>(rate: u32, plan: &PacePlan, host: &mut Host<'_, C>) -> PacedRate {
    let asked = f64::from(rate);
    let count = ((plan.span.as_secs_f64() * asked) as u64).max(1);
    let mut run = engine_run(count, 1e9 / asked, 4096, plan, host);
    let lateness = Spread::of(&mut run.lateness);
    // Over the span that its own requests were due in: random gaps do not add up to the rate.
    let demanded = run.due_last.0.max(1) as f64;
    let achieved_per_s = asked * demanded / (run.took.0 as f64).max(demanded);
    PacedRate {
        asked_per_s: rate,
        achieved_per_s,
        lateness,
        cpu_per_request: Nanos(run.cpu.0 / count as i64),
        kept: keeps(asked, achieved_per_s, lateness.p99, plan.limit, demanded),
        tries: 1,
    }
}

/// Whether a rate counts as kept. Over a fraction of a second the last request alone, late within
/// the limit, would cost a share of the rate.
fn keeps(asked: f64, achieved: f64, p99: Nanos, limit: Nanos, demanded_ns: f64) -> bool {
    let last_one = limit.0 as f64 / demanded_ns;
    p99 <= limit && achieved >= asked * (ACHIEVED - last_one)
}

/// The result of one run of the engine.
struct EngineRun {
    lateness: Vec<Nanos>,
    /// From the first instant due to the last request issued.
    took: Nanos,
    /// When the last request was due.
    due_last: Nanos,
    cpu: Nanos,
}

/// Keeps the lateness of each request.
struct Lateness {
    spans: Vec<Nanos>,
    last: Nanos,
}

impl ResultSink for Lateness {
    fn record(&mut self, record: &Record) -> bool {
        if let Some(submitted) = record.measured.submitted {
            self.spans.push((submitted - record.measured.scheduled).max(Nanos::ZERO));
            self.last = self.last.max(submitted);
        }
        true
    }
}

/// Runs the engine with `count` reads of 4 KiB, `gap_ns` apart in the mean. The only place that
/// knows how the engine is called.
fn engine_run<C: Clock>(
    count: u64,
    gap_ns: f64,
    in_flight_max: u32,
    plan: &PacePlan,
    host: &mut Host<'_, C>,
) -> EngineRun {
    let config = Config {
        conflicts: ConflictMode::Partial,
        waiting_max: 1,
        ..Config::with_in_flight_max(in_flight_max)
    };
    let mut due_last = Nanos::ZERO;
    let mut input = reads(count, gap_ns, plan.spacing).inspect(|read| due_last = read.scheduled);
    let mut recorder = Lateness { spans: Vec::with_capacity(count as usize), last: Nanos::ZERO };
    let slots = config.device_slots() as usize;
    let mut device = NullDevice::new(host.clock, &mut *host.sleep_until, slots);
    let before = (host.cpu_time)();
    let replay = Replay {
        device: &mut device,
        clock: host.clock,
        scheduler: Scheduler::new(config),
        input: &mut input,
        recorder: &mut recorder,
        pattern: &mut Pattern::new(0),
        pacing: Pacing { start_grace: START_GRACE, spin: plan.near, ..Pacing::default() },
        control: &Control::default(),
        verify: None,
    };
    // A device that takes no time does not fail either.
    let _ = replay.run();
    let cpu = (host.cpu_time)() - before;
    EngineRun { lateness: recorder.spans, took: recorder.last, due_last, cpu }
}

/// Reads of 4 KiB all over a device of 1 TiB, the same each time.
fn reads(count: u64, gap_ns: f64, spacing: Spacing) -> impl Iterator<Item = Planned> {
    let mut random = SplitMix64(1);
    let mut due = 0.0;
    (0..count).map(move |seq| {
        due += match spacing {
            Spacing::Even => gap_ns,
            // Gaps between arrivals of a Poisson process are exponential (inversion method).
            Spacing::Poisson => -gap_ns * (1.0 - random.unit()).ln(),
            Spacing::None => 0.0,
        };
        let offset = Bytes(random.below(1 << 28) * 4096);
        Planned {
            seq,
            scheduled: Nanos(due as i64),
            issue: Nanos(due as i64),
            op: Op::Read,
            flags: Flags::empty(),
            trace_offset: offset,
            offset,
            length: Bytes(4096),
            volume: VolumeId(0),
            latency: None,
            recorded_in_flight: 0,
            origin: None,
            target: 0,
            refusal: None,
            think: None,
            behind: 0,
            flow: 0,
            held: None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimClock;

    /// Measures a simulated host where a look at the clock takes `look_ns` and waking `late_us`.
    fn with_host<T>(
        look_ns: i64,
        late_us: i64,
        measure: impl Fn(&mut Host<'_, SimClock>) -> T,
    ) -> T {
        let clock = SimClock::new(Nanos(look_ns));
        let mut sleep = |until: Nanos| clock.advance_to(until + Nanos::from_micros(late_us));
        let cpu_time = || clock.now();
        measure(&mut Host { clock: &clock, sleep_until: &mut sleep, cpu_time: &cpu_time })
    }

    fn plan(rates: &[u32]) -> PacePlan {
        PacePlan { rates: rates.to_vec(), span: Nanos::from_millis(50), ..PacePlan::default() }
    }

    #[test]
    fn a_host_in_order_keeps_the_rates() {
        let plan = plan(&[1_000, 20_000, 100_000]);
        let rates = with_host(20, 30, |host| pace_limit(&plan, host, |_| ()));
        assert_eq!(rates.len(), 3);
        assert!(rates.iter().all(|rate| rate.kept && rate.tries == 1), "{rates:?}");
        assert_eq!(highest_kept(&rates).unwrap().asked_per_s, 100_000);
        assert!(rates[0].lateness.p99 < Nanos::from_micros(5), "{rates:?}");
        assert!(rates[0].cpu_per_request > rates[2].cpu_per_request, "{rates:?}");
    }

    #[test]
    fn a_host_whose_steps_are_slow_collapses_and_is_not_driven_further() {
        let plan = plan(&LADDER);
        let rates = with_host(5_000, 0, |host| pace_limit(&plan, host, |_| ()));
        assert!(rates.len() < LADDER.len(), "{rates:?}");
        let last = rates.last().unwrap();
        assert!(!last.kept && last.tries == TRIES, "{last:?}");
        assert!(highest_kept(&rates).is_some_and(|rate| rate.asked_per_s >= 1_000), "{rates:?}");
    }

    #[test]
    fn a_host_that_wakes_too_late_keeps_no_low_rate() {
        let plan = plan(&[1_000]);
        let rates = with_host(20, 700, |host| pace_limit(&plan, host, |_| ()));
        assert_eq!(highest_kept(&rates), None);
        assert!(rates[0].lateness.p50 > Nanos::from_micros(500), "{rates:?}");
    }

    #[test]
    fn each_rate_is_told_when_it_is_done() {
        let plan = plan(&[1_000, 2_000]);
        let mut told = Vec::new();
        let clock = SimClock::new(Nanos(20));
        let mut sleep = |until: Nanos| clock.advance_to(until);
        let mut host = Host { clock: &clock, sleep_until: &mut sleep, cpu_time: &|| Nanos::ZERO };
        pace_limit(&plan, &mut host, |rate| told.push(rate.asked_per_s));
        assert_eq!(told, [1_000, 2_000]);
    }

    #[test]
    fn the_quick_cost_grows_with_what_the_host_takes() {
        let fast = with_host(20, 0, quick_cost);
        let slow = with_host(200, 0, quick_cost);
        assert!(fast > Nanos::ZERO && slow.0 > 5 * fast.0, "{fast} {slow}");
    }

    #[test]
    fn random_gaps_have_the_mean_that_was_asked_for_and_even_ones_are_even() {
        let last = reads(100_000, 10_000.0, Spacing::Poisson).last().unwrap().scheduled;
        assert!((last.as_secs_f64() - 1.0).abs() < 0.02, "{last}");
        let even: Vec<i64> = reads(3, 500.0, Spacing::Even).map(|read| read.scheduled.0).collect();
        assert_eq!(even, [500, 1000, 1500]);
    }

    #[test]
    fn a_last_request_late_within_the_limit_does_not_spoil_a_short_measurement() {
        let limit = Nanos::from_micros(100);
        assert!(keeps(1000.0, 999.8, Nanos(50_000), limit, 5e7));
        assert!(keeps(1000.0, 998.0, Nanos(50_000), limit, 5e7));
        assert!(!keeps(1000.0, 990.0, Nanos(50_000), limit, 5e7));
        assert!(!keeps(1000.0, 1000.0, Nanos(100_001), limit, 5e7));
    }
}
