//! Properties of this host that spoil timing.
//!
//! A table of rates shows how well a host paces, not why it does not pace better. Most reasons are
//! in files of the kernel, so they are read and listed, each with a remedy.

use std::fs;

use ioecho_trace::Nanos;
use serde::Serialize;

use super::realtime::RealtimeThrottling;
use crate::facts::HostDescription;

/// Fewer processors than this are shared between the generator and the kernel's work for the
/// device.
const ENOUGH_CPUS: usize = 4;

/// A share of stolen time that no measurement of microseconds survives.
const STEAL_TOLERATED: f64 = 0.001;

/// Timer slack above this is reported: this program sets 1 ns for itself.
const SLACK_TOLERATED_NS: u64 = 1_000;

/// Processor time of the whole host that the hypervisor gave to other guests while a processor of
/// this one wanted to run (`steal`, `proc_stat(5)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StealTime {
    /// Stolen, summed over all processors.
    pub stolen_ns: i64,
    /// All time, summed over all processors.
    pub total_ns: i64,
}

impl StealTime {
    /// Since the host was booted; `None` where the kernel does not tell.
    pub fn since_boot() -> Option<Self> {
        // In ticks of USER_HZ, which is 100 on every architecture that io_uring runs on.
        const TICK: Nanos = Nanos::from_millis(10);
        parse(&fs::read_to_string("/proc/stat").ok()?, TICK)
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            stolen_ns: self.stolen_ns - earlier.stolen_ns,
            total_ns: self.total_ns - earlier.total_ns,
        }
    }

    /// The share of all time that was stolen, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.total_ns > 0 { self.stolen_ns as f64 / self.total_ns as f64 } else { 0.0 }
    }
}

/// The line of all processors: `cpu user nice system idle iowait irq softirq steal guest …`. The
/// time of guests is in `user` already.
fn parse(stat: &str, tick: Nanos) -> Option<StealTime> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<i64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let stolen = ticks.get(7)?;
    Some(StealTime {
        stolen_ns: stolen * tick.0,
        total_ns: ticks[..8].iter().sum::<i64>() * tick.0,
    })
}

/// Reasons against precise timing on this host, each a sentence with a remedy.
pub fn doubts(
    facts: &HostDescription,
    steal: Option<&StealTime>,
    throttling: Option<&RealtimeThrottling>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    if facts.virtualised == Some(true) {
        doubts.push(
            "a hypervisor lies below and can stop this host at any time; what it takes is told as \
             stalls"
                .to_owned(),
        );
    }
    if let Some(steal) = steal.filter(|steal| steal.share() > STEAL_TOLERATED) {
        doubts.push(format!(
            "{:.1} % of the processors' time was stolen by other guests",
            steal.share() * 100.0
        ));
    }
    if let Some(count) = facts.cpu_count.filter(|count| *count < ENOUGH_CPUS) {
        doubts.push(format!(
            "this process has {count} processor{}: whoever spins takes from the kernel's work for \
             the device; sleep between requests (the default pacing)",
            if count == 1 { "" } else { "s" }
        ));
    }
    if let Some(governor) = facts.cpu_governor.as_ref().filter(|name| *name != "performance") {
        doubts.push(format!(
            "the frequency of the processors follows the load (governor {governor}); for the run: \
             cpupower frequency-set -g performance"
        ));
    }
    if let Some(source) = facts.clocksource.as_ref().filter(|name| is_slow(name)) {
        doubts.push(format!(
            "the kernel reads the time from {source}, a system call or slower each time; boot with \
             clocksource=tsc if the processor's counter is sound"
        ));
    }
    if let Some(slack) = facts.timer_slack_ns.filter(|slack| *slack > SLACK_TOLERATED_NS) {
        doubts.push(format!(
            "timers of this thread may be {} late by its timer slack",
            Nanos(slack as i64)
        ));
    }
    if let Some(throttling) = throttling.filter(|throttling| throttling.is_on()) {
        doubts.push(format!(
            "real-time threads that spin are stopped for {} of every {} ms \
             (kernel.sched_rt_runtime_us)",
            (throttling.period_us - throttling.runtime_us) / 1000,
            throttling.period_us / 1000
        ));
    }
    doubts
}

/// Whether reading the time leaves the process.
fn is_slow(clocksource: &str) -> bool {
    matches!(clocksource, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "xen")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number_of_the_first_line() {
        let stat = "cpu  100 0 50 800 10 0 0 40 7 0\ncpu0 1 2 3\n";
        let steal = parse(stat, Nanos::from_millis(10)).unwrap();
        assert_eq!(steal, StealTime { stolen_ns: 400_000_000, total_ns: 10_000_000_000 });
        assert!((steal.share() - 0.04).abs() < 1e-9);
        assert_eq!(parse("cpu 1 2 3\n", Nanos(1)), None);
        assert_eq!(parse("", Nanos(1)), None);
    }

    #[test]
    fn a_span_of_stolen_time_is_the_difference_of_two_looks() {
        let early = StealTime { stolen_ns: 10, total_ns: 100 };
        let late = StealTime { stolen_ns: 15, total_ns: 200 };
        assert_eq!(late.since(&early), StealTime { stolen_ns: 5, total_ns: 100 });
        assert!(StealTime::default().share().abs() < 1e-9);
    }

    #[test]
    fn a_quiet_host_leaves_no_doubts_and_a_shared_one_is_told_of_each() {
        let quiet = HostDescription {
            cpu_count: Some(16),
            virtualised: Some(false),
            cpu_governor: Some("performance".to_owned()),
            clocksource: Some("tsc".to_owned()),
            timer_slack_ns: Some(1),
            ..HostDescription::default()
        };
        let calm = StealTime { stolen_ns: 0, total_ns: 1000 };
        let free = RealtimeThrottling { runtime_us: -1, period_us: 1_000_000 };
        assert_eq!(doubts(&quiet, Some(&calm), Some(&free)), Vec::<String>::new());
        assert_eq!(doubts(&HostDescription::default(), None, None), Vec::<String>::new());

        let shared = HostDescription {
            cpu_count: Some(2),
            virtualised: Some(true),
            cpu_governor: Some("powersave".to_owned()),
            clocksource: Some("hpet".to_owned()),
            timer_slack_ns: Some(50_000),
            ..HostDescription::default()
        };
        let stolen = StealTime { stolen_ns: 20, total_ns: 1000 };
        let held = RealtimeThrottling { runtime_us: 950_000, period_us: 1_000_000 };
        let told = doubts(&shared, Some(&stolen), Some(&held));
        let words =
            ["hypervisor", "2.0 %", "2 processors", "powersave", "hpet", "50.0 µs", "for 50 of"];
        assert_eq!(told.len(), words.len());
        for (sentence, word) in told.iter().zip(words) {
            assert!(sentence.contains(word), "'{word}' is not in '{sentence}'");
        }
    }

    #[test]
    fn this_host_tells_what_was_stolen() {
        assert!(StealTime::since_boot().is_some_and(|steal| steal.total_ns > 0));
    }
}
