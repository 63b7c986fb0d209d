//! `ioecho calibrate`: the request rates that this host can pace.
//!
//! A run that is late because of its host is worth nothing. It is better to know that before the
//! run.

use std::fmt::{self, Write as _};
use std::io::Write;

use ioecho_linux::host::{HostSetup, RealtimeThrottling, StealTime, SystemCall, doubts};
use ioecho_linux::{HostDescription, MonotonicClock, thread};
use ioecho_replay::calibrate::{
    Gaps, Host, NearDistance, PacePlan, PacedRate, clock_cost, highest_kept, near_distance,
    pace_limit, quick_cost, spin_gaps,
};
use ioecho_trace::Nanos;
use ioecho_trace::units::times;
use serde::Serialize;

use crate::args::CalibrateArgs;
use crate::exit::{self, Coded};
use crate::print::{Out, is_watched, tell};

/// The version of the JSON.
const VERSION: u32 = 1;

/// How long the thread spins to find out how much time the host takes from it.
const WATCHED: Nanos = Nanos::from_millis(500);

/// A quiet host takes less than this share of a spinning thread's time.
const QUIET: f64 = 0.03;

/// The results.
#[derive(Debug, Serialize)]
struct Calibration {
    version: u32,
    /// The conclusion in a sentence.
    conclusion: String,
    /// The highest rate that was kept, requests per second.
    highest_kept_per_s: Option<u32>,
    limit_ns: Nanos,
    rates: Vec<PacedRate>,
    clock: ClockFacts,
    sleep: NearDistance,
    spin: Gaps,
    system_call: SystemCall,
    quick: Quick,
    /// The share of the host's processor time that other guests took meanwhile.
    steal_share: Option<f64>,
    setup: Vec<String>,
    warnings: Vec<String>,
    doubts: Vec<String>,
    host: HostDescription,
}

#[derive(Debug, Serialize)]
struct ClockFacts {
    resolution_ns: Nanos,
    cost_ns: Nanos,
}

/// The result of the short measurement that every replay makes at its start.
#[derive(Debug, Serialize)]
struct Quick {
    cost_ns: Nanos,
    highest_per_s: Option<u32>,
}

pub(crate) fn run(args: &CalibrateArgs, out: &mut Out) -> anyhow::Result<u8> {
    let setup = HostSetup {
        cpus: args.cpus.clone(),
        fifo: args.fifo,
        lock_memory: args.lock_memory,
        dma_latency: args.dma_latency,
    };
    // As a replay does.
    thread::wake_promptly();
    let applied = setup
        .apply()
        .map_err(|error| Coded::error(exit::USAGE, format!("cannot calibrate so: {error}")))?;
    let calibration = measure(args, applied.facts(), applied.warnings(true));
    // The output is printed without the real-time priority of the measurement.
    drop(applied);
    if args.json {
        out.json(&calibration)?;
    } else {
        write!(out, "{calibration}")?;
    }
    Ok(exit::OK)
}

fn measure(args: &CalibrateArgs, setup: Vec<String>, warnings: Vec<String>) -> Calibration {
    let clock = MonotonicClock::new();
    let stolen_before = StealTime::since_boot();
    let clock_facts =
        ClockFacts { resolution_ns: MonotonicClock::resolution(), cost_ns: clock_cost(&clock) };
    let sleep = near_distance(|until| clock.sleep_until(until), &clock);
    let spin = spin_gaps(&clock, WATCHED);
    let system_call = SystemCall::measure();
    let mut sleep_until = |until| clock.sleep_until(until);
    let cpu_time = thread::thread_cpu_time;
    let mut host = Host { clock: &clock, sleep_until: &mut sleep_until, cpu_time: &cpu_time };
    let cost = quick_cost(&mut host);
    let plan =
        PacePlan { span: args.span, limit: args.limit, near: sleep.near, ..PacePlan::default() };
    let rates = pace_limit(&plan, &mut host, |rate| {
        if !args.json && is_watched() {
            tell(&format!("tried {} requests/s", grouped(rate.asked_per_s)));
        }
    });
    let steal = StealTime::since_boot().zip(stolen_before).map(|(now, then)| now.since(&then));
    let facts = HostDescription::collect();
    let throttling = RealtimeThrottling::of_host().filter(|_| args.fifo.is_none());
    Calibration {
        version: VERSION,
        conclusion: conclusion(&rates, args.limit) + &disturbance(spin.share),
        highest_kept_per_s: highest_kept(&rates).map(|rate| rate.asked_per_s),
        limit_ns: args.limit,
        rates,
        clock: clock_facts,
        sleep,
        spin,
        system_call,
        quick: Quick {
            cost_ns: cost,
            highest_per_s: (cost > Nanos::ZERO).then(|| (1e9 / cost.0 as f64) as u32),
        },
        steal_share: steal.map(|steal| steal.share()),
        setup,
        warnings,
        doubts: doubts(&facts, steal.as_ref(), throttling.as_ref()),
        host: facts,
    }
}

/// The result in a sentence.
fn conclusion(rates: &[PacedRate], limit: Nanos) -> String {
    let Some(first) = rates.first() else { return "no rate was tried".to_owned() };
    let Some(best) = highest_kept(rates) else {
        return format!(
            "this host keeps none of the rates tried: even at {} requests/s one request in a \
             hundred is later than {}",
            grouped(first.asked_per_s),
            first.lateness.p99
        );
    };
    let above = rates.iter().map(|rate| rate.asked_per_s).filter(|rate| *rate > best.asked_per_s);
    let (at_least, beyond) = match above.min() {
        None => ("at least ", String::new()),
        Some(rate) => ("", format!("; {} it does not keep", grouped(rate))),
    };
    let kept_not = |rate: &&PacedRate| !rate.kept && rate.asked_per_s < best.asked_per_s;
    let stalled = match rates.iter().filter(kept_not).count() {
        0 => String::new(),
        count => format!("; at {count} lower rates it was stopped too often"),
    };
    format!(
        "this host paces {at_least}{} requests/s with 99 of 100 issued within {limit}, without a \
         device{beyond}{stalled}",
        grouped(best.asked_per_s)
    )
}

/// The end of the conclusion if the host was busy with other work meanwhile.
fn disturbance(taken: f64) -> String {
    if taken <= QUIET {
        return String::new();
    }
    format!(
        "; but the host took {:.0} % of the time away meanwhile, so calibrate again when nothing \
         else runs",
        taken * 100.0
    )
}

/// Formats `200000` as `200,000`.
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.conclusion)?;
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        writeln!(f)?;
        let Self { clock, sleep, spin, system_call, quick, .. } = self;
        let line =
            |f: &mut fmt::Formatter<'_>, name: &str, text: String| writeln!(f, "{name:<14}{text}");
        for fact in &self.setup {
            line(f, "given", fact.clone())?;
        }
        let text =
            format!("a look takes {}, timers count in {}", clock.cost_ns, clock.resolution_ns);
        line(f, "clock", text)?;
        let text = format!(
            "woken late by {} (p50), {} (p99), {} (worst of {})",
            sleep.wake_up.p50, sleep.wake_up.p99, sleep.wake_up.max, sleep.wake_up.count
        );
        line(f, "sleep", text)?;
        line(f, "pacing", format!("sleeps until {} before a request, then spins", sleep.near))?;
        let text = format!(
            "in {} of spinning the thread was stopped {}, {:.2} % of the time, {} at the longest",
            spin.watched,
            times(spin.count),
            spin.share * 100.0,
            spin.longest
        );
        line(f, "stalls", text)?;
        line(f, "system call", format!("{} ({})", system_call.cost, system_call.what))?;
        if let Some(highest) = quick.highest_per_s {
            let text = format!(
                "{} each when many are due: at most {} requests/s",
                quick.cost_ns,
                grouped(highest)
            );
            line(f, "requests", text)?;
        }
        writeln!(f, "\n{}", table(&self.rates))?;
        for doubt in &self.doubts {
            writeln!(f, "note: {doubt}")?;
        }
        Ok(())
    }
}

/// The table of the rates that were tried, one per line.
fn table(rates: &[PacedRate]) -> String {
    let mut text = format!(
        "{:>10}  {:>9}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  kept\n",
        "requests/s", "achieved", "late p50", "p99", "p99.9", "max", "CPU each"
    );
    for rate in rates {
        let lateness = &rate.lateness;
        let tries = if rate.tries > 1 { format!(" (try {})", rate.tries) } else { String::new() };
        let _ = writeln!(
            text,
            "{:>10}  {:>7.2} %  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {}{}",
            grouped(rate.asked_per_s),
            rate.achieved_per_s / f64::from(rate.asked_per_s) * 100.0,
            lateness.p50.to_string(),
            lateness.p99.to_string(),
            lateness.p99_9.to_string(),
            lateness.max.to_string(),
            rate.cpu_per_request.to_string(),
            if rate.kept { "yes" } else { "no" },
            if rate.kept { tries } else { String::new() },
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use ioecho_replay::calibrate::Spread;

    use super::*;

    fn rate(asked_per_s: u32, p99_us: i64, kept: bool) -> PacedRate {
        PacedRate {
            asked_per_s,
            achieved_per_s: f64::from(asked_per_s),
            lateness: Spread { p99: Nanos::from_micros(p99_us), ..Spread::default() },
            cpu_per_request: Nanos(900),
            kept,
            tries: 1,
        }
    }

    #[test]
    fn the_conclusion_names_the_highest_rate_that_was_kept_and_one_that_was_not() {
        let limit = Nanos::from_micros(100);
        let rates = [rate(1_000, 5, true), rate(200_000, 40, true), rate(500_000, 900, false)];
        let told = conclusion(&rates, limit);
        assert!(told.contains("paces 200,000 requests/s"), "{told}");
        assert!(told.contains("within 100 µs"), "{told}");
        assert!(told.contains("500,000 it does not keep"), "{told}");
        let told = conclusion(&rates[..2], limit);
        assert!(told.contains("at least 200,000 requests/s"), "{told}");
        let told = conclusion(&[rate(1_000, 4_000, false)], limit);
        assert!(told.contains("even at 1,000 requests/s") && told.contains("4.00 ms"), "{told}");
        assert_eq!(conclusion(&[], limit), "no rate was tried");
    }

    #[test]
    fn a_busy_host_is_told_beside_the_conclusion() {
        assert_eq!(disturbance(0.01), "");
        assert!(disturbance(0.3).contains("took 30 % of the time"));
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(2_000_000), "2,000,000");
    }

    #[test]
    fn the_table_has_a_line_for_each_rate() {
        let text = table(&[rate(1_000, 5, true), rate(2_000, 500, false)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("5.00 µs") && lines[1].ends_with("yes"), "{text}");
        assert!(lines[2].contains("500 µs") && lines[2].ends_with("no"), "{text}");
    }
}
