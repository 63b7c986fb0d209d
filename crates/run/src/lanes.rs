//! The threads of a run's lanes, and the handling of a lane that its device blocks.
//!
//! A device that hangs can hold the issuing thread in a system call, where no signal reaches it,
//! and closing the device can take equally long. The measured results must not wait for either: a
//! lane hands over its results before it closes its device, and a stuck lane is given up.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_replay::engine::{Control, Pacing};
use ioecho_trace::Nanos;

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::lane::{self, LaneEnd, LaneWork};
use crate::observer::Observer;
use crate::plan::ReplayPlan;
use crate::start::{Agreed, Start};
use crate::target::Target;

/// How often the lanes are checked, in addition to whenever one ends.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a thread that was told to end may make no progress. A thread that is not stuck makes
/// progress fifty times a second.
const STOPPED_STILL_MAX: Duration = Duration::from_secs(10);

/// How long closing a device may take without a message.
const CLOSING_UNTOLD: Duration = Duration::from_secs(2);

/// A lane's thread.
struct LaneThread {
    /// The name of its target.
    target: String,
    thread: JoinHandle<()>,
    end: Receiver<LaneEnd>,
    control: Arc<Control>,
    pulse: Pulse,
}

/// The threads of all lanes. Dropping it waits until the devices are closed, and reports devices
/// that do not close; then the process can only end after the kernel releases them.
pub(crate) struct Lanes {
    threads: Vec<LaneThread>,
    simulated: bool,
    run: RunDirectory,
    observer: Arc<dyn Observer>,
}

impl Lanes {
    /// Starts the threads.
    pub(crate) fn start(
        plan: &ReplayPlan,
        run: &RunDirectory,
        start: &Arc<Start>,
        work: Vec<LaneWork>,
        observer: &Arc<dyn Observer>,
    ) -> std::io::Result<Self> {
        let simulated = plan.targets.iter().any(Target::is_simulated);
        let (run, theirs) = (run.clone(), Arc::clone(observer));
        let mut lanes = Self { threads: Vec::new(), simulated, run, observer: theirs };
        let shared = Arc::new(plan.clone());
        let waiter = thread::current();
        for work in work {
            let (plan, waiter) = (Arc::clone(&shared), waiter.clone());
            let (start, all, observer) = (Arc::clone(start), start, Arc::clone(observer));
            let (sender, end) = sync_channel(1);
            let control = Arc::clone(&work.control);
            let target = plan.targets[work.target].name();
            let builder = Builder::new().name(format!("ioecho-lane-{}", work.number));
            let thread = builder.spawn(move || {
                let (end, device) = lane::run(&plan, work, &start, observer.as_ref());
                // Sending fails only if nobody waits for the result any more.
                let _ = sender.send(end);
                waiter.unpark();
                drop(device);
            });
            let thread = thread.inspect_err(|_| all.give_up())?;
            let pulse = Pulse::default();
            lanes.threads.push(LaneThread { target, thread, end, control, pulse });
        }
        Ok(lanes)
    }

    /// Waits until every lane has ended or is given up, and returns their results. `begins` is
    /// called once the time zero is agreed; a simulation agrees on none.
    pub(crate) fn wait(
        &mut self,
        start: &Start,
        begins: &mut dyn FnMut(Agreed),
    ) -> Result<Vec<LaneEnd>> {
        let mut has_begun = self.simulated;
        let mut ends: Vec<Option<LaneEnd>> = self.threads.iter().map(|_| None).collect();
        loop {
            for (lane, end) in self.threads.iter_mut().zip(&mut ends) {
                if end.is_none() {
                    *end = lane.look(self.simulated, &self.run)?;
                }
            }
            if ends.iter().all(Option::is_some) {
                return Ok(ends.into_iter().flatten().collect());
            }
            if has_begun {
                thread::park_timeout(LOOK_EVERY);
            } else if let Some(agreed) = start.look(LOOK_EVERY) {
                has_begun = true;
                begins(agreed);
            }
        }
    }
}

impl LaneThread {
    /// The lane's result, if it has ended or is given up.
    fn look(&mut self, simulated: bool, run: &RunDirectory) -> Result<Option<LaneEnd>> {
        match self.end.try_recv() {
            Ok(end) => return Ok(Some(end)),
            Err(TryRecvError::Disconnected) => {
                return Err(RunError::new(Kind::Failure, "an issuing thread panicked"));
            }
            Err(TryRecvError::Empty) => {}
        }
        let Control { now_ns, replaying, stop, .. } = &*self.control;
        let (now, stopping) = (Instant::now(), stop.load(Relaxed));
        let still = self.pulse.still(now, (now_ns.load(Relaxed), stopping));
        // A simulated device never blocks in the kernel.
        if simulated || !is_stuck(still, replaying.load(Relaxed), stopping) {
            return Ok(None);
        }
        stop.store(true, Relaxed);
        let Self { target, control, .. } = self;
        run.log(&format!(
            "the thread that issues to {target} has been stuck in a system call for {still:.0?}: \
             it is given up"
        ));
        let still = Nanos(i64::try_from(still.as_nanos()).unwrap_or(i64::MAX));
        Ok(Some(LaneEnd::given_up(control, still)))
    }
}

/// Whether a thread without progress for this long should be given up. Before and after the replay
/// its progress is not visible from outside.
fn is_stuck(still: Duration, replaying: bool, stopping: bool) -> bool {
    let silence_max = Duration::from_nanos(Pacing::default().silence_max.0.unsigned_abs());
    (replaying && still > silence_max) || (stopping && still > STOPPED_STILL_MAX)
}

/// Measures for how long a value has not changed.
#[derive(Debug, Default)]
struct Pulse {
    last: Option<(Instant, (i64, bool))>,
    still: Duration,
}

impl Pulse {
    /// Takes a sample, and returns for how long it has been the same. Pauses without samples,
    /// because the whole process was stopped, do not count.
    fn still(&mut self, now: Instant, seen: (i64, bool)) -> Duration {
        self.still = match self.last {
            Some((before, last)) if last == seen => {
                self.still + now.saturating_duration_since(before).min(4 * LOOK_EVERY)
            }
            _ => Duration::ZERO,
        };
        self.last = Some((now, seen));
        self.still
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        let until = Instant::now() + CLOSING_UNTOLD;
        for LaneThread { target, thread, .. } in &self.threads {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            if !thread.is_finished() {
                let text = format!(
                    "warning: {target} does not let go of requests in flight: everything else is \
                     done, and this process ends when the device answers or is taken away"
                );
                self.run.log(&text);
                self.observer.tell(&text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how long a thread without progress counts as standing still after `looks` samples, every
    /// `step_ms`.
    fn still(looks: u32, step_ms: u64) -> Duration {
        let (begun, mut pulse) = (Instant::now(), Pulse::default());
        let at = |look: u32| begun + Duration::from_millis(step_ms) * look;
        (0..=looks).map(|look| pulse.still(at(look), (7, false))).last().unwrap()
    }

    #[test]
    fn a_thread_that_stands_still_is_given_up_when_a_silent_device_would_be() {
        assert_eq!(still(484, 250), Duration::from_secs(121));
        assert!(is_stuck(Duration::from_secs(121), true, false));
        assert!(!is_stuck(Duration::from_secs(119), true, false));
        assert!(!is_stuck(Duration::from_secs(1000), false, false), "it verifies, perhaps");
    }

    #[test]
    fn one_that_is_told_to_end_is_given_up_earlier() {
        assert!(!is_stuck(Duration::from_secs(9), true, true));
        for replaying in [true, false] {
            assert!(is_stuck(Duration::from_secs(11), replaying, true));
        }
    }

    #[test]
    fn whatever_changes_begins_again() {
        let (begun, mut pulse) = (Instant::now(), Pulse::default());
        let mut at = |ms: u64, seen| pulse.still(begun + Duration::from_millis(ms), seen);
        assert_eq!(at(0, (1, false)), Duration::ZERO);
        assert_eq!(at(250, (1, false)), Duration::from_millis(250));
        assert_eq!(at(500, (2, false)), Duration::ZERO);
        assert_eq!(at(750, (2, true)), Duration::ZERO, "from here on it is told to end");
    }

    #[test]
    fn a_pause_of_the_whole_process_does_not_count() {
        assert_eq!(still(1, 3_600_000), Duration::from_secs(1));
    }
}
