//! The beginning of a run: its lanes become ready, each in its own time, and begin together.
//!
//! A lane that begins before another is ready measures another load than the one that was asked
//! for, and one that begins although another cannot run leaves half a run. So all lanes meet before
//! the first request, the first one fixes the time zero for all, and any of them can call it off.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ioecho_linux::MonotonicClock;
use ioecho_replay::Clock;
use ioecho_replay::calibrate::NearDistance;
use ioecho_trace::Nanos;

use crate::error::{Kind, Result, RunError};
use crate::observer::Observer;
use crate::plan::ReplayPlan;

/// So long before the beginning the host is measured once more; it takes some 30 ms where nothing
/// disturbs it.
const MEASURES_WITHIN: Nanos = Nanos::from_millis(500);

/// The agreement of a run's lanes before the first request.
pub(crate) struct Start {
    lanes: usize,
    meeting: Mutex<Meeting>,
    moved: Condvar,
    agreed: OnceLock<Agreed>,
}

#[derive(Debug, Default)]
struct Meeting {
    arrived: usize,
    /// A lane cannot run, so none may.
    shut: bool,
}

/// The values that the first lane measured and fixed for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// The replay's time zero on the clock.
    pub(crate) start_at: Nanos,
    /// How long before a deadline a thread stops sleeping.
    pub(crate) spin: Nanos,
    /// How late the host wakes threads, if it was measured.
    pub(crate) near: Option<NearDistance>,
    /// The least time that a request takes the issuing thread; zero if it was not measured.
    pub(crate) request_cost: Nanos,
    /// Whether somebody else named the time zero, for which the lanes have waited.
    pub(crate) is_told: bool,
}

impl Start {
    pub(crate) fn new(lanes: usize) -> Self {
        let (meeting, moved) = (Mutex::default(), Condvar::new());
        Self { lanes, meeting, moved, agreed: OnceLock::new() }
    }

    /// The agreed values, once the run has begun.
    pub(crate) fn agreed(&self) -> Option<Agreed> {
        self.agreed.get().copied()
    }

    /// The agreed values as soon as there are any; waits for them no longer than until a lane moves
    /// on.
    pub(crate) fn look(&self, longest: Duration) -> Option<Agreed> {
        let meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.agreed().is_none() && !meeting.shut {
            drop(self.moved.wait_timeout(meeting, longest));
        }
        self.agreed()
    }

    /// Meets the other lanes, now that this one is ready. The first lane, which has `measured` the
    /// host, fixes the time zero when all are; if somebody else names it, there is time to
    /// `measure` it again. Returns what is agreed, or `None` if a lane cannot run; an error is this
    /// lane's own.
    pub(crate) fn meet(
        &self,
        plan: &ReplayPlan,
        clock: &MonotonicClock,
        observer: &dyn Observer,
        measured: Option<Agreed>,
        measure: &mut dyn FnMut() -> Agreed,
    ) -> Result<Option<Agreed>> {
        let all_can = self.wait(2);
        let begun = match measured {
            Some(measured) if all_can => self.begin(plan, clock, observer, measured, measure),
            _ => Ok(()),
        };
        let all_can = self.wait(3);
        begun.map(|()| self.agreed().filter(|_| all_can))
    }

    /// Fixes the time zero. An error means that none may run.
    fn begin(
        &self,
        plan: &ReplayPlan,
        clock: &MonotonicClock,
        observer: &dyn Observer,
        mut measured: Agreed,
        measure: &mut dyn FnMut() -> Agreed,
    ) -> Result<()> {
        let told = observer.armed().inspect_err(|_| self.give_up())?;
        if told.is_none() {
            too_late(plan).map_or(Ok(()), Err).inspect_err(|_| self.give_up())?;
            if let Some(remaining) = remaining(plan) {
                observer.tell(&format!("all is ready; the run begins in {remaining}"));
            }
        }
        let start_at = told.map_or_else(
            || clock.now() + remaining(plan).unwrap_or(plan.spec.start_grace),
            |told| told - clock.origin(),
        );
        // Those that begin together also became ready together, and disturbed each other. What was
        // measured then would have each of them spin for longer than it must.
        if told.is_some() && start_at - clock.now() > MEASURES_WITHIN {
            measured = measure();
        }
        let agreed = Agreed { start_at, is_told: told.is_some(), ..measured };
        self.agreed.get_or_init(|| agreed);
        Ok(())
    }

    /// The same of a simulation, whose time begins at that instant.
    pub(crate) fn wait_at_the_gate(
        &self,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<()> {
        let Some(told) = observer.armed().inspect_err(|_| self.give_up())? else { return Ok(()) };
        let clock = MonotonicClock::new();
        let begin = told - clock.origin();
        while clock.now() < begin && !stop.load(Relaxed) {
            clock.sleep_until(begin.min(clock.now() + Nanos::from_millis(100)));
        }
        Ok(())
    }

    /// Tells the others that this lane cannot run.
    pub(crate) fn give_up(&self) {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner).shut = true;
        self.moved.notify_all();
    }

    /// Waits until every lane has called this for the n-th time, counted from 1; returns whether
    /// all can run.
    pub(crate) fn wait(&self, time: usize) -> bool {
        let mut meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        meeting.arrived += 1;
        self.moved.notify_all();
        while meeting.arrived < self.lanes * time && !meeting.shut {
            meeting = self.moved.wait(meeting).unwrap_or_else(PoisonError::into_inner);
        }
        !meeting.shut
    }
}

/// The time until the instant at which the run is to begin, if one was asked for; less than zero
/// once it is over.
fn remaining(plan: &ReplayPlan) -> Option<Nanos> {
    let start_at = plan.spec.start_at?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    Some(Nanos(start_at.0.saturating_sub(now)))
}

/// The refusal of a start that is over.
fn too_late(plan: &ReplayPlan) -> Option<RunError> {
    let late = remaining(plan).filter(|remaining| *remaining <= Nanos::ZERO)?;
    let text = format!(
        "the instant at which the run was to begin passed {} before all was ready; nothing was \
         replayed",
        Nanos(late.0.saturating_neg())
    );
    Some(RunError::with_help(Kind::Usage, text, "name a later instant: reading takes a while"))
}
