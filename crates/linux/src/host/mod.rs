//! Resources of the host that a run can claim.
//!
//! A thread that others share a processor with, that moves between processors, that waits for a
//! page or for a processor to wake from a deep sleep, issues late, and no program can hide that. An
//! administrator can: by giving processors ([`CpuList`]), a real-time priority, memory that stays,
//! and processors that do not sleep deeply. Each of these takes something from all other programs
//! on the host, so none is claimed by default; each is given back, and noted in the run's facts.

mod cpus;
mod doubts;
mod error;
mod latency;
mod memory;
mod realtime;
mod system_call;

use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::rc::Rc;

pub use cpus::{CpuList, CpuListError};
pub use doubts::{StealTime, doubts};
pub use error::HostError;
pub use realtime::{FIFO_MAX, RealtimeThrottling};
pub use system_call::SystemCall;

use cpus::Affinity;
use memory::LockedMemory;
use realtime::Fifo;

/// On so many processors a real-time thread leaves too little to the kernel.
const FEW_CPUS: usize = 2;

/// What is asked of the host for a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSetup {
    /// The processors that the issuing thread may run on, and no others.
    pub cpus: Option<CpuList>,
    /// The real-time priority of the issuing thread under `SCHED_FIFO`, 1 to [`FIFO_MAX`].
    pub fifo: Option<u8>,
    /// Whether all memory of the process is kept from being paged out, and touched beforehand.
    pub lock_memory: bool,
    /// Whether processors are kept from sleep that takes any time to wake from
    /// (`/dev/cpu_dma_latency` held open with 0 µs).
    pub dma_latency: bool,
}

impl HostSetup {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Claims all of it or nothing: after an error, everything claimed so far is given back.
    /// Processors and priority are those of the calling thread; threads that it starts afterwards
    /// share its processors, but not its priority.
    pub fn apply(&self) -> Result<AppliedSetup, HostError> {
        // The priority comes last: nothing else should be done with it.
        let dma_latency = self.dma_latency.then(latency::hold).transpose()?;
        let memory = self.lock_memory.then(memory::lock).transpose()?;
        let affinity = self.cpus.as_ref().map(cpus::pin).transpose()?;
        let fifo = self.fifo.map(realtime::raise).transpose()?;
        Ok(AppliedSetup { fifo, affinity, memory, dma_latency, thread: PhantomData })
    }
}

impl fmt::Display for HostSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: [Option<String>; 4] = [
            self.cpus.as_ref().map(|cpus| format!("processors {cpus}")),
            self.fifo.map(|priority| format!("SCHED_FIFO priority {priority}")),
            self.lock_memory.then(|| "locked memory".to_owned()),
            self.dma_latency.then(|| "no deep sleep of processors".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { write!(f, "nothing") } else { write!(f, "{}", parts.join(", ")) }
    }
}

/// What the host gave. Dropping it gives it back, which only the thread that asked can do.
#[derive(Debug)]
#[must_use = "what the host gave is given back when this is dropped"]
pub struct AppliedSetup {
    // Dropped in this order: the priority first.
    fifo: Option<Fifo>,
    affinity: Option<Affinity>,
    memory: Option<LockedMemory>,
    dma_latency: Option<File>,
    /// Keeps it on its thread.
    thread: PhantomData<Rc<()>>,
}

impl AppliedSetup {
    /// One line for each thing that the host gave, for the run's facts.
    pub fn facts(&self) -> Vec<String> {
        let parts: [Option<String>; 4] = [
            self.affinity.as_ref().map(Affinity::fact),
            self.fifo.as_ref().map(Fifo::fact),
            self.memory.as_ref().map(LockedMemory::fact),
            self.dma_latency.as_ref().map(|_| latency::FACT.to_owned()),
        ];
        parts.into_iter().flatten().collect()
    }

    /// Warnings about options without the expected effect; `spins` says whether the issuing thread
    /// ever waits without sleeping.
    pub fn warnings(&self, spins: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        if spins && self.fifo.is_some() {
            warnings
                .extend(RealtimeThrottling::of_host().and_then(|throttling| throttling.warning()));
        }
        let few = CpuList::online().is_some_and(|online| online.numbers().len() <= FEW_CPUS);
        if self.fifo.is_some() && few {
            warnings.push(
                "a real-time thread runs before the kernel's own threads that work for the \
                 device, and on few processors the device then looks slow\n  = help: leave out the \
                 priority; processors that are kept out of deep sleep wake fast without it"
                    .to_owned(),
            );
        }
        if self.affinity.as_ref().is_some_and(Affinity::is_the_only_cpu) {
            warnings.push(
                "the issuing thread is pinned to a single processor, and it is the only one that \
                 this host has: the kernel's own work for the device waits for it"
                    .to_owned(),
            );
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_asked_is_nothing_taken() {
        let setup = HostSetup::default();
        assert!(setup.is_empty());
        let applied = setup.apply().unwrap();
        assert_eq!(applied.facts(), Vec::<String>::new());
        assert_eq!(applied.warnings(true), Vec::<String>::new());
    }

    #[test]
    fn what_is_asked_reads_as_a_list() {
        let setup = HostSetup {
            cpus: Some("0-1".parse().unwrap()),
            fifo: Some(10),
            lock_memory: true,
            dma_latency: true,
        };
        assert_eq!(
            setup.to_string(),
            "processors 0-1, SCHED_FIFO priority 10, locked memory, no deep sleep of processors"
        );
        assert_eq!(HostSetup::default().to_string(), "nothing");
    }
}
