//! How large the kernel's buffers are.
//!
//! A buffer must hold what comes while the recorder is kept from running, which it lets happen by
//! standing back. Too small a buffer loses events; too large a one takes the memory that the load
//! would have as page cache. So the size follows a rule that can be stated, and can be set.

use crate::facts::memory_of_host;

/// An event takes about 64 to 96 bytes: a million of them a second fill this in most of a second.
const EACH_MAX: u64 = 64 << 20;

/// Less is used up while the recorder writes what it has read.
const EACH_MIN: u64 = 1 << 20;

/// All together.
const ALL_MAX: u64 = 512 << 20;

/// The share of the host's memory that they take together: one part in so many.
const MEMORY_SHARE: u64 = 32;

/// The rule in words, for the recording.
pub(super) const RULE: &str = "64 MiB for each processor, but for all together at most 512 MiB and \
                               1/32 of the memory, and for each at least 1 MiB";

/// The rule in words where somebody asked for a size.
pub(super) const ASKED: &str = "as asked";

/// How many bytes each processor's buffer is to have on this host.
pub(super) fn default_bytes(cpus: usize) -> u64 {
    rule(cpus, memory_of_host())
}

fn rule(cpus: usize, memory: Option<u64>) -> u64 {
    let all = memory.map_or(ALL_MAX, |memory| ALL_MAX.min(memory / MEMORY_SHARE));
    (all / cpus.max(1) as u64).clamp(EACH_MIN, EACH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_follow_the_stated_rule() {
        assert_eq!(rule(2, Some(64 << 30)), 64 << 20, "no more than a processor needs");
        assert_eq!(rule(128, Some(1 << 40)), 4 << 20, "no more than 512 MiB together");
        assert_eq!(rule(4, Some(1 << 30)), 8 << 20, "no more than a part of the memory");
        assert_eq!(rule(4096, Some(1 << 30)), 1 << 20, "and never next to nothing");
        assert_eq!(rule(2, None), 64 << 20);
        assert_eq!(rule(0, None), 64 << 20);
    }
}
