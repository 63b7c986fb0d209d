//! The host that a run was made on.
//!
//! A figure without its circumstances cannot be reproduced. But none of these facts is worth
//! failing a run for: unknown ones are absent.

use std::fs;

use rustix::system::uname;
use serde::{Deserialize, Serialize};

/// What stands in a run's directory about its host. Everything is as it was when it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostDescription {
    /// The name of the host.
    pub hostname: Option<String>,
    /// The kernel's release (`uname -r`).
    pub kernel_release: Option<String>,
    /// The kernel's build (`uname -v`).
    pub kernel_version: Option<String>,
    /// The machine's architecture (`uname -m`).
    pub architecture: Option<String>,
    /// The first processor's model, from `/proc/cpuinfo`.
    pub cpu_model: Option<String>,
    /// How many processors this process may use.
    pub cpu_count: Option<usize>,
    /// The frequency governor of the first processor; absent where the host scales nothing.
    pub cpu_governor: Option<String>,
    /// Memory of the host in bytes.
    pub memory_total: Option<u64>,
    /// Whether a hypervisor lies below (the `hypervisor` bit of `/proc/cpuinfo`, x86 only).
    pub virtualised: Option<bool>,
    /// What the kernel reads the time from.
    pub clocksource: Option<String>,
    /// Differs for each boot.
    pub boot_id: Option<String>,
    /// `kernel.io_uring_disabled`: 0 allowed, 1 for the privileged only, 2 forbidden
    /// (`Documentation/admin-guide/sysctl/kernel.rst`); absent before Linux 6.6.
    pub io_uring_disabled: Option<u32>,
    /// By how many nanoseconds the kernel may delay timers of the asking thread.
    pub timer_slack_ns: Option<u64>,
}

impl HostDescription {
    /// Asks the kernel for all of them.
    pub fn collect() -> Self {
        let names = uname();
        let text = |name: &std::ffi::CStr| name.to_str().ok().map(str::to_owned);
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            hostname: text(names.nodename()),
            kernel_release: text(names.release()),
            kernel_version: text(names.version()),
            architecture: text(names.machine()),
            cpu_model: cpu_model(&cpuinfo),
            cpu_count: std::thread::available_parallelism().ok().map(usize::from),
            cpu_governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_total: memory_total(&meminfo),
            virtualised: virtualised(&cpuinfo),
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            io_uring_disabled: io_uring_disabled(),
            timer_slack_ns: rustix::thread::current_timer_slack().ok(),
        }
    }
}

/// Memory of the host in bytes.
pub(crate) fn memory_of_host() -> Option<u64> {
    memory_total(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// What the host can give without swapping, in bytes (`proc_meminfo(5)`).
pub fn memory_available() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: usize = value(&text, "MemAvailable")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The sysctl that forbids `io_uring`, where the kernel has it.
pub(crate) fn io_uring_disabled() -> Option<u32> {
    line("/proc/sys/kernel/io_uring_disabled")?.parse().ok()
}

/// A one-line file without its end of line.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The value behind `key :` in a file of such lines.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

/// x86 says `model name`, some ARM kernels `Model` or nothing at all.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu"].iter().find_map(|key| value(cpuinfo, key)).map(str::to_owned)
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let kib: u64 = value(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn virtualised(cpuinfo: &str) -> Option<bool> {
    Some(value(cpuinfo, "flags")?.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str =
        "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu hypervisor sse\n";

    #[test]
    fn the_processor_and_its_hypervisor_are_read_from_cpuinfo() {
        assert_eq!(cpu_model(CPUINFO).as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(virtualised(CPUINFO), Some(true));
        assert_eq!(virtualised("flags : fpu"), Some(false));
        assert_eq!(virtualised(""), None);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        assert_eq!(memory_total("MemTotal:  2 kB\nMemFree: 1 kB\n"), Some(2048));
        assert_eq!(memory_total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_host_tells_at_least_its_name_and_its_kernel() {
        let facts = HostDescription::collect();
        assert!(facts.hostname.is_some());
        assert!(facts.kernel_release.is_some());
        assert!(facts.cpu_count.is_some_and(|count| count > 0));
    }
}
