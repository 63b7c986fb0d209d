//! Where the time of the processors went.
//!
//! A late wake-up may be the fault of another program, of the hypervisor, or of a processor that
//! slowed down because it was hot. The kernel keeps an account of each.

use std::fs::{self, File};
use std::io::Read;

use ioecho_trace::Nanos;
use rustix::thread::{CpuSet, sched_getaffinity};

/// A tick of `USER_HZ`, in which `proc_stat(5)` and `proc_pid_stat(5)` count.
const TICK: i64 = 10_000_000;

/// The account of some processors at one moment, since the host was booted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuState {
    /// All time.
    pub total: Nanos,
    /// In user mode, all programs together.
    pub user: Nanos,
    /// Given to other guests by the hypervisor.
    pub stolen: Nanos,
    /// In user mode, this program alone, on whatever processor.
    pub own_user: Nanos,
    /// How often one of them was throttled because it was hot; absent where nobody counts.
    pub throttled: Option<u64>,
    /// How long some thread of the host waited for a processor; absent where nobody counts.
    pub pressure: Option<Nanos>,
}

impl CpuState {
    /// The account of these processors now; `None` where the kernel does not tell.
    pub fn of(cpus: &[usize]) -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let mut state = account(&stat, cpus)?;
        let own = fs::read_to_string("/proc/self/stat").ok();
        state.own_user = own.and_then(|line| own_user(&line)).unwrap_or_default();
        state.throttled = throttled(cpus);
        let pressure = fs::read_to_string("/proc/pressure/cpu").ok();
        state.pressure = pressure.and_then(|text| pressure_of(&text));
        Some(state)
    }
}

/// The lines of these processors: `cpuN user nice system idle iowait irq softirq steal …`.
fn account(stat: &str, cpus: &[usize]) -> Option<CpuState> {
    let mut state = CpuState::default();
    let mut found = false;
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        if !number.is_some_and(|number: usize| cpus.contains(&number)) {
            continue;
        }
        let ticks: Vec<i64> = words.map_while(|word| word.parse().ok()).collect();
        let spans = |range: std::ops::Range<usize>| {
            let ticks = ticks.get(range)?.iter().fold(0_i64, |sum, more| sum.saturating_add(*more));
            Some(Nanos(ticks.saturating_mul(TICK)))
        };
        state.total += spans(0..8)?;
        state.user += spans(0..2)?;
        state.stolen += spans(7..8)?;
        found = true;
    }
    found.then_some(state)
}

/// `utime`, the fourteenth field; the second may hold blanks and brackets.
fn own_user(line: &str) -> Option<Nanos> {
    let (_, rest) = line.rsplit_once(')')?;
    let ticks: i64 = rest.split_whitespace().nth(11)?.parse().ok()?;
    Some(Nanos(ticks.saturating_mul(TICK)))
}

/// `some avg10=… total=MICROSECONDS`.
fn pressure_of(text: &str) -> Option<Nanos> {
    let line = text.lines().find(|line| line.starts_with("some"))?;
    let micros: i64 = line.rsplit_once("total=")?.1.trim().parse().ok()?;
    Some(Nanos(micros.saturating_mul(1000)))
}

fn cpu_number(cpu: usize, name: &str) -> Option<u64> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/{name}");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What x86 counts (`arch/x86/kernel/cpu/mce/therm_throt.c`).
fn throttled(cpus: &[usize]) -> Option<u64> {
    let counts = cpus.iter().flat_map(|cpu| {
        ["core_throttle_count", "package_throttle_count"]
            .into_iter()
            .filter_map(|name| cpu_number(*cpu, &format!("thermal_throttle/{name}")))
    });
    counts.fold(None, |sum, more| Some(sum.unwrap_or(0_u64).saturating_add(more)))
}

/// The mean frequency of these processors now, in kHz; `None` where nothing is scaled.
pub fn mean_frequency_khz(cpus: &[usize]) -> Option<u64> {
    let all: Vec<u64> =
        cpus.iter().filter_map(|cpu| cpu_number(*cpu, "cpufreq/scaling_cur_freq")).collect();
    let sum = all.iter().fold(0_u64, |sum, more| sum.saturating_add(*more));
    sum.checked_div(all.len() as u64)
}

/// How long the calling thread stood ready and waited for a processor, since it began
/// (`/proc/thread-self/schedstat`, the second number; `Documentation/scheduler/sched-stats.rst`).
pub fn own_wait() -> Option<Nanos> {
    // The issuing thread asks while requests are due: it allocates nothing.
    let mut bytes = [0; 96];
    let count = File::open("/proc/thread-self/schedstat").ok()?.read(&mut bytes).ok()?;
    waited(str::from_utf8(&bytes[..count]).ok()?)
}

/// The second of three numbers: `ran waited timeslices` (Documentation/scheduler/sched-stats.rst).
fn waited(schedstat: &str) -> Option<Nanos> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Nanos)
}

/// The processors that the calling thread may use.
pub fn usable_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  60 0 0 0 0 0 0 0\ncpu0 10 2 30 40 5 6 7 8 9 9\n\
                        cpu1 100 0 0 0 0 0 0 1 0 0\ncpu10 1 1 1 1 1 1 1 1\n";

    #[test]
    fn only_the_processors_of_the_run_count() {
        let one = account(STAT, &[0]).unwrap();
        assert_eq!((one.total.0, one.user.0, one.stolen.0), (108 * TICK, 12 * TICK, 8 * TICK));
        let two = account(STAT, &[0, 1]).unwrap();
        assert_eq!((two.total.0, two.stolen.0), (209 * TICK, 9 * TICK));
        assert_eq!(account(STAT, &[7]), None);
        assert_eq!(account("cpu0 1 2 3\n", &[0]), None);
        assert_eq!(account("", &[0]), None);
    }

    #[test]
    fn a_program_may_be_called_anything() {
        let line = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 42 11 12";
        assert_eq!(own_user(line), Some(Nanos(42 * TICK)));
        assert_eq!(own_user("7"), None);
    }

    #[test]
    fn pressure_is_told_in_microseconds() {
        let text = "some avg10=0.10 avg60=0.2 avg300=0.3 total=12\nfull avg10=0 total=99\n";
        assert_eq!(pressure_of(text), Some(Nanos(12_000)));
        assert_eq!(pressure_of("some"), None);
    }

    #[test]
    fn work_of_this_program_appears_in_its_account() {
        let cpus = usable_cpus();
        let before = CpuState::of(&cpus).unwrap();
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        let worked = || CpuState::of(&cpus).unwrap().own_user - before.own_user;
        while worked() < Nanos(3 * TICK) && begun.elapsed().as_secs() < 20 {
            (0..1_000_000).for_each(|n| sum = std::hint::black_box(sum.wrapping_add(n)));
        }
        let after = CpuState::of(&cpus).unwrap();
        assert!(after.own_user - before.own_user >= Nanos(3 * TICK));
        assert!(after.total > before.total);
    }

    #[test]
    fn this_thread_knows_how_long_it_waited() {
        assert_eq!(waited("70 42 3\n"), Some(Nanos(42)));
        assert_eq!((waited(""), waited("70"), waited("70 x 3")), (None, None, None));
        let before = own_wait();
        (0..100).for_each(|_| std::thread::yield_now());
        let after = own_wait();
        assert_eq!(before.is_some(), after.is_some(), "some kernels count, and do so always");
        assert!(after >= before, "{before:?}, then {after:?}");
    }
}
