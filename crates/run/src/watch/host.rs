//! Watches the host's clocks and processors during a run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_linux::HostDescription as Host;
use ioecho_linux::host::CpuList;
use ioecho_linux::pulse::{self, Pulse};
use ioecho_linux::watch::{
    ClockSample, ClockWatch, CpuState, is_synchronised, mean_frequency_khz, usable_cpus,
};
use ioecho_stats::facts::{ClockFacts, CpuFacts};
use ioecho_trace::Nanos;

use crate::start::Start;

/// The interval of the samples.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How soon after the beginning is agreed the samples begin: within the grace before it.
const BEGIN_NAP: Duration = Duration::from_millis(10);

/// With less processor time than this, ticks of 10 ms are too coarse for a share.
const TICKS_MIN: Nanos = Nanos::from_millis(500);

/// The sampling thread, until its end is asked for.
pub(crate) struct HostWatch {
    thread: JoinHandle<(ClockFacts, Option<CpuFacts>)>,
    end: Arc<AtomicBool>,
}

impl HostWatch {
    /// Starts sampling, once the instant of the run's beginning is agreed: these processors, or all
    /// that the program may use.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(cpus: Option<&CpuList>, start: &Arc<Start>) -> io::Result<Self> {
        let cpus = cpus.map_or_else(usable_cpus, |cpus| cpus.numbers().to_vec());
        let end = Arc::new(AtomicBool::new(false));
        let (their_end, start) = (Arc::clone(&end), Arc::clone(start));
        let thread = ioecho_linux::thread::start("ioecho-host", move || {
            while start.agreed().is_none() && !their_end.load(Relaxed) {
                thread::park_timeout(BEGIN_NAP);
            }
            let mut watched = Watched::begin(cpus);
            let mut looked = Instant::now();
            let pulse = Pulse::begin();
            while !their_end.load(Relaxed) {
                thread::park_timeout(pulse::EVERY);
                pulse.beat();
                if looked.elapsed() >= LOOK_EVERY {
                    watched.look();
                    looked = Instant::now();
                }
            }
            watched.end()
        })?;
        Ok(Self { thread, end })
    }

    /// Takes a last sample and returns the findings.
    pub(crate) fn finish(self) -> (ClockFacts, Option<CpuFacts>) {
        self.end.store(true, Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

struct Watched {
    cpus: Vec<usize>,
    clock: ClockWatch,
    source: String,
    before: Option<CpuState>,
    /// The last sample, and the number of samples by the share of time that others had, in tenths.
    last: Option<CpuState>,
    others_by_tenth: [u64; 10],
    /// The lowest and the highest mean frequency.
    frequencies: Option<(u64, u64)>,
}

impl Watched {
    fn begin(cpus: Vec<usize>) -> Self {
        let before = CpuState::of(&cpus);
        let mut watched = Self {
            cpus,
            clock: ClockWatch::default(),
            source: clock_source(),
            last: before.clone(),
            others_by_tenth: [0; 10],
            before,
            frequencies: None,
        };
        watched.look();
        watched
    }

    fn look(&mut self) {
        self.clock.take(ClockSample::now());
        self.look_at_processors();
        if let Some(now) = mean_frequency_khz(&self.cpus) {
            let (low, high) = self.frequencies.unwrap_or((now, now));
            self.frequencies = Some((low.min(now), high.max(now)));
        }
    }

    /// Counts the share of time that others had since the last sample, if it is long enough to be
    /// measured in ticks.
    fn look_at_processors(&mut self) {
        let (Some(last), Some(now)) = (self.last.as_ref(), CpuState::of(&self.cpus)) else {
            return;
        };
        let total = now.total - last.total;
        if total < TICKS_MIN {
            return;
        }
        let own = now.own_user - last.own_user;
        let others = (now.user - last.user - own).max(Nanos::ZERO) + (now.stolen - last.stolen);
        let tenth = (others.0.max(0) as f64 / total.0 as f64 * 10.0) as usize;
        self.others_by_tenth[tenth.min(9)] += 1;
        self.last = Some(now);
    }

    fn end(mut self) -> (ClockFacts, Option<CpuFacts>) {
        self.look();
        let clock = ClockFacts {
            source: self.source.clone(),
            source_after: clock_source(),
            samples: self.clock.samples,
            steps: self.clock.steps,
            step_max_ns: self.clock.step_max.0,
            suspended_ns: self.clock.suspended.0,
            slew_ppm: self.clock.slew_ppm(),
            is_synchronised: is_synchronised(),
        };
        (clock, self.cpu())
    }

    fn cpu(&self) -> Option<CpuFacts> {
        let (before, after) = (self.before.as_ref()?, CpuState::of(&self.cpus)?);
        let own = after.own_user - before.own_user;
        let pressure = |state: &CpuState| state.pressure.map(|span| span.0.max(0) as u64);
        let since = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Some(CpuFacts {
            processors: self.cpus.len() as u64,
            total_ns: (after.total - before.total).0,
            stolen_ns: (after.stolen - before.stolen).0,
            others_ns: (after.user - before.user - own).max(Nanos::ZERO).0,
            others_by_tenth: self.others_by_tenth.to_vec(),
            waited_ns: None,
            governor: Host::collect().cpu_governor.unwrap_or_default(),
            frequency_min_khz: self.frequencies.map(|(low, _)| low),
            frequency_max_khz: self.frequencies.map(|(_, high)| high),
            throttled: since(after.throttled, before.throttled),
            pressure_ns: since(pressure(&after), pressure(before)),
        })
    }
}

fn clock_source() -> String {
    Host::collect().clocksource.unwrap_or_default()
}
