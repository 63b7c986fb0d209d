//! Processors for the issuing thread.
//!
//! A thread that moves to another processor finds cold caches there, and one that shares its
//! processor waits for its turn. `sched_setaffinity(2)` keeps it where it should be, but drops
//! silently what the cpuset of a container does not hold: so what was set is read again.

use std::fmt;
use std::fs;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::error::HostError;

/// Processors by their numbers, ascending, at least one. They are stored as such a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// The numbers.
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }

    /// The processors that are there and on (`/sys/devices/system/cpu/online`); none where the
    /// kernel does not tell.
    pub fn online() -> Option<Self> {
        fs::read_to_string("/sys/devices/system/cpu/online").ok()?.trim().parse().ok()
    }

    fn of_set(set: &CpuSet) -> Self {
        Self((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
    }

    fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu);
        }
        set
    }
}

/// What is no list of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no list of processors: {reason} (write it like 0-3,8)")]
pub struct CpuListError {
    text: String,
    reason: &'static str,
}

impl FromStr for CpuList {
    type Err = CpuListError;

    /// Reads the kernel's list format, `0-3,8` (cpuset(7), "List format").
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| CpuListError { text: text.to_owned(), reason };
        let number = |text: &str| {
            let number: usize = text.trim().parse().map_err(|_| error("not a number"))?;
            if number < CpuSet::MAX_CPU { Ok(number) } else { Err(error("a number above 1023")) }
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(error("a range that ends before it begins"));
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl TryFrom<String> for CpuList {
    type Error = CpuListError;

    fn try_from(text: String) -> Result<Self, CpuListError> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(cpus: CpuList) -> Self {
        cpus.to_string()
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for range in self.0.chunk_by(|a, b| a + 1 == *b) {
            match range {
                [only] => write!(f, "{separator}{only}")?,
                [first, .., last] => write!(f, "{separator}{first}-{last}")?,
                [] => {}
            }
            separator = ",";
        }
        if self.0.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

/// The processors of a pinned thread, and those that it had before.
pub(super) struct Affinity {
    before: CpuSet,
    cpus: CpuList,
}

impl Affinity {
    pub(super) fn fact(&self) -> String {
        format!("the issuing thread ran on processors {} only", self.cpus)
    }

    /// Whether the host has no processor beside the one that was taken.
    pub(super) fn is_the_only_cpu(&self) -> bool {
        CpuList::online().is_some_and(|online| online.0.len() == 1 && online == self.cpus)
    }
}

impl fmt::Debug for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Affinity({})", self.cpus)
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // If the processors of before have gone meanwhile, these are as good.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Lets the calling thread run on these processors only.
pub(super) fn pin(cpus: &CpuList) -> Result<Affinity, HostError> {
    if let Some(online) = CpuList::online()
        && let Some(&cpu) = cpus.0.iter().find(|cpu| !online.0.contains(cpu))
    {
        return Err(HostError::NoSuchCpu { cpu, online });
    }
    let ask =
        || sched_getaffinity(None).map_err(|error| HostError::system("tell its processors", error));
    let before = ask()?;
    let applied = Affinity { before, cpus: cpus.clone() };
    let not_allowed = |allowed| HostError::CpusNotAllowed { asked: cpus.clone(), allowed };
    // EINVAL: not one of them is in the cpuset.
    sched_setaffinity(None, &cpus.to_set()).map_err(|_| not_allowed(CpuList::of_set(&before)))?;
    let given = CpuList::of_set(&ask()?);
    if given == *cpus { Ok(applied) } else { Err(not_allowed(given)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_shown_as_the_kernel_writes_them() {
        let list: CpuList = "8,0-3,2".parse().unwrap();
        assert_eq!(list.numbers(), [0, 1, 2, 3, 8]);
        assert_eq!(list.to_string(), "0-3,8");
        assert_eq!("5".parse::<CpuList>().unwrap().to_string(), "5");
        assert_eq!("1,2".parse::<CpuList>().unwrap().to_string(), "1-2");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", ",", "a", "3-1", "-1", "1-", "4096", "1;2"] {
            let error = text.parse::<CpuList>().unwrap_err().to_string();
            assert!(error.contains("write it like 0-3,8"), "{text}: {error}");
        }
    }

    #[test]
    fn the_thread_runs_where_it_was_pinned_and_is_let_go_again() {
        let before = CpuList::of_set(&sched_getaffinity(None).unwrap());
        let last = CpuList(vec![*before.0.last().unwrap()]);
        let pinned = pin(&last).unwrap();
        assert_eq!(CpuList::of_set(&sched_getaffinity(None).unwrap()), last);
        assert_eq!(rustix::thread::sched_getcpu(), last.0[0]);
        assert_eq!(pinned.fact(), format!("the issuing thread ran on processors {last} only"));
        drop(pinned);
        assert_eq!(CpuList::of_set(&sched_getaffinity(None).unwrap()), before);
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused_with_those_that_are() {
        let online = CpuList::online().unwrap();
        let error = pin(&CpuList(vec![0, 1023])).unwrap_err().to_string();
        assert!(error.starts_with("processor 1023 is not there"), "{error}");
        assert!(error.contains(&online.to_string()), "{error}");
    }
}
