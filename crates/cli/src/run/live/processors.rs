//! The use of the host's processors between two moments, from `/proc/stat` (proc(5)).

use std::fs;

/// Shares of the time of all processors, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    pub(crate) user: f64,
    /// The kernel with its interrupts, and the time that a hypervisor took.
    pub(crate) kernel: f64,
    /// Idle while a request was in flight.
    pub(crate) wait: f64,
    pub(crate) idle: f64,
}

impl Shares {
    /// All time that was not idle.
    pub(crate) fn used(&self) -> f64 {
        self.user + self.kernel
    }
}

/// Ticks since the system started: user, kernel, wait, idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks([u64; 4]);

impl Ticks {
    /// The ticks now, or `None` if the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn of(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> =
            line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let at = |field: usize| fields.get(field).copied().unwrap_or(0);
        // The fields are user, nice, system, idle, iowait, irq, softirq, steal. Time of guests is
        // included in user.
        let kernel = at(2).saturating_add(at(5)).saturating_add(at(6)).saturating_add(at(7));
        (fields.len() >= 4).then(|| Self([at(0).saturating_add(at(1)), kernel, at(4), at(3)]))
    }

    /// The shares since `earlier`, or `None` if no tick has passed.
    pub(crate) fn since(&self, earlier: &Self) -> Option<Shares> {
        let ticks: [u64; 4] = std::array::from_fn(|i| self.0[i].saturating_sub(earlier.0[i]));
        let all = ticks.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        let [user, kernel, wait, idle] = ticks.map(|ticks| ticks as f64 * 100.0 / all as f64);
        (all > 0).then_some(Shares { user, kernel, wait, idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_looks() {
        let before = Ticks::of("cpu  100 0 50 800 20 1 2 3 0 0\ncpu0 1 1 1 1\n").unwrap();
        let after = Ticks::of("cpu  130 10 60 830 40 1 2 3 0 0\n").unwrap();
        let shares = after.since(&before).unwrap();
        assert_eq!(shares, Shares { user: 40.0, kernel: 10.0, wait: 20.0, idle: 30.0 });
        assert!((shares.used() - 50.0).abs() < 1e-9);
        assert_eq!(before.since(&before), None);
    }

    #[test]
    fn what_is_no_such_file_tells_nothing() {
        assert_eq!((Ticks::of(""), Ticks::of("cpu 1 x"), Ticks::of("intr 5")), (None, None, None));
    }
}
