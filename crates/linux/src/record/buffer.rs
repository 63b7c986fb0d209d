//! How large the kernel's buffers are.
//!
//! A buffer must hold the events that come while the recorder does not run, which happens often
//! because of its low priority. Too small a buffer loses events; too large a one takes page cache
//! from the load. So the size follows a stated rule and can be set, but not so large that the
//! kernel would kill other programs for lack of memory.

use ioecho_trace::Bytes;

use super::error::RecordError;
use crate::facts::{memory_available, memory_of_host};

/// An event takes about 64 to 96 bytes: a million of them a second fill this in most of a second.
const EACH_MAX: u64 = 64 << 20;

/// A smaller buffer would overflow while the recorder writes what it has read.
const EACH_MIN: u64 = 1 << 20;

/// All together.
const ALL_MAX: u64 = 512 << 20;

/// The share of the host's memory that they take together: one part in so many.
const MEMORY_SHARE: u64 = 32;

/// What is asked for may take at most one part in so many of the memory that is available.
const AVAILABLE_SHARE: u64 = 4;

/// The rule in words, for the recording.
const RULE: &str = "64 MiB for each processor, but for all together at most 512 MiB and \
                               1/32 of the memory, and for each at least 1 MiB";

/// The rule in words where somebody asked for a size.
const ASKED: &str = "as asked";

/// How large a buffer is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Bytes of each processor's buffer.
    pub(super) bytes: u64,
    /// By which rule, in words.
    rule: &'static str,
    /// What the kernel had memory for, where that was less.
    smaller: Option<u64>,
}

impl Wanted {
    /// As it was asked for, or else by the rule.
    ///
    /// # Errors
    ///
    /// [`RecordError::Buffer`] where more is asked for than a quarter of the available memory.
    pub(super) fn of(asked: Option<u64>, cpus: usize) -> Result<Self, RecordError> {
        match asked {
            None => {
                Ok(Self { bytes: default_bytes(cpus, memory_of_host()), rule: RULE, smaller: None })
            }
            Some(bytes) => {
                check(bytes, cpus, memory_available().map(|bytes| bytes as u64))?;
                Ok(Self { bytes, rule: ASKED, smaller: None })
            }
        }
    }

    /// The kernel gave so many bytes. It rounds to whole pages; half or less is what is left where
    /// it has no memory.
    pub(super) fn given(&mut self, bytes: u64) {
        self.smaller = (bytes <= self.bytes / 2).then_some(bytes);
    }

    /// The rule in words, with what became of it.
    pub(super) fn rule(&self) -> String {
        match self.smaller {
            None => self.rule.to_owned(),
            Some(given) => format!(
                "{}; made {} instead of {}, for which the kernel had no memory",
                self.rule,
                Bytes(given),
                Bytes(self.bytes)
            ),
        }
    }

    /// What is to be said of it, as a sentence.
    pub(super) fn note(&self) -> Option<String> {
        self.smaller.map(|given| {
            format!(
                "the kernel had no memory for buffers of {}: each processor has {}",
                Bytes(self.bytes),
                Bytes(given)
            )
        })
    }
}

fn check(bytes: u64, cpus: usize, available: Option<u64>) -> Result<(), RecordError> {
    let Some(available) = available else { return Ok(()) };
    let allowed = available / AVAILABLE_SHARE / cpus.max(1) as u64;
    if bytes <= allowed {
        return Ok(());
    }
    // Whole mebibytes are easily typed.
    let allowed = Bytes(if allowed < 1 << 20 { allowed } else { allowed >> 20 << 20 });
    Err(RecordError::Buffer { asked: Bytes(bytes), cpus, allowed, available: Bytes(available) })
}

fn default_bytes(cpus: usize, memory: Option<u64>) -> u64 {
    let all = memory.map_or(ALL_MAX, |memory| ALL_MAX.min(memory / MEMORY_SHARE));
    (all / cpus.max(1) as u64).clamp(EACH_MIN, EACH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_follow_the_stated_rule() {
        let rule = default_bytes;
        assert_eq!(rule(2, Some(64 << 30)), 64 << 20, "no more than a processor needs");
        assert_eq!(rule(128, Some(1 << 40)), 4 << 20, "no more than 512 MiB together");
        assert_eq!(rule(4, Some(1 << 30)), 8 << 20, "no more than a part of the memory");
        assert_eq!(rule(4096, Some(1 << 30)), 1 << 20, "and never next to nothing");
        assert_eq!(rule(2, None), 64 << 20);
        assert_eq!(rule(0, None), 64 << 20);
    }

    #[test]
    fn more_than_a_quarter_of_what_is_available_is_refused_with_what_is_allowed() {
        let available = Some(16 << 30);
        assert!(check(2 << 30, 2, available).is_ok() && check(4 << 30, 1, available).is_ok());
        let told = check(9 << 30, 2, available).unwrap_err().to_string();
        assert!(told.contains("9.00 GiB") && told.contains("at most 2.00 GiB"), "{told}");
        assert!(check(u64::MAX, usize::MAX, available).is_err());
        assert!(check(u64::MAX, 0, None).is_ok(), "where nothing is known the kernel decides");
        assert!(Wanted::of(Some(u64::MAX), 1).is_err() && Wanted::of(Some(1 << 20), 1).is_ok());
    }

    #[test]
    fn a_buffer_that_the_kernel_had_no_memory_for_is_told_and_written_down() {
        let mut wanted = Wanted { bytes: 64 << 20, rule: ASKED, smaller: None };
        wanted.given((64 << 20) - 4096);
        assert_eq!((wanted.rule(), wanted.note()), ("as asked".to_owned(), None), "rounded");
        wanted.given(16 << 20);
        assert!(wanted.rule().starts_with("as asked; made 16.0 MiB instead of 64.0 MiB"));
        assert!(wanted.note().unwrap().contains("each processor has 16.0 MiB"));
    }
}
