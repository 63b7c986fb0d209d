//! What handing over requests took, and who is to blame for it.
//!
//! A device may serve a request where it is handed over, by the engine's own thread. Its calls may
//! take a microsecond or two, and reading the clock a fiftieth of that; so the engine reads it no
//! more often than it must there: the instants that such a device takes stand in for its own. A
//! device that has threads for its requests may be asked to serve one here, too, where all others
//! wait for that one: to wake a thread for it takes longer than most calls.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use ioecho_trace::{Nanos, Op};

use super::{Engine, Input, Spent, WORK_MARGIN};
use crate::clock::Clock;
use crate::device::Io;
use crate::schedule::LATENESS_TOLERATED;

impl<C: Clock> Engine<'_, C> {
    /// Makes the system call for everything prepared, which includes `newest`.
    pub(super) fn submit(
        &mut self,
        newest: &[Io],
        decided: Nanos,
        spent: &mut Spent,
    ) -> io::Result<()> {
        if self.audit.is_none() && (self.is_inline || self.is_alone && self.device.serves_next()) {
            return self.call(newest, decided, spent);
        }
        let before = self.clock.now();
        self.explain_preparing(newest, before, spent);
        if let Some(audit) = &mut self.audit {
            audit.commit(self.scheduler.upcoming(), before - self.start);
        }
        let (_, taken) = self.device.submit()?;
        self.unsubmitted -= taken;
        if taken > 0 {
            self.heard_at = self.now();
        }
        self.control.issued.fetch_add(taken as u64, Relaxed);
        let after = self.clock.now();
        // A device that serves in this call hands over in no time.
        let whole = if self.is_inline { Nanos::ZERO } else { after - before };
        let kept = self.device.kept().min(whole);
        let took = whole - kept;
        self.totals.submission_max = self.totals.submission_max.max(took);
        let is_slow = whole > LATENESS_TOLERATED;
        let was_host = is_slow && self.was_preempted() && self.was_host(whole);
        if was_host || is_slow && self.clock.stood_still(before, after) > Nanos(whole.0 / 2) {
            spent.put_aside += whole;
        } else {
            spent.submitting += took;
            spent.preparing += kept;
            self.totals.slow_submissions += u64::from(took > LATENESS_TOLERATED);
        }
        spent.since = after;
        if kept > LATENESS_TOLERATED {
            for io in newest {
                self.scheduler.explain_within(io.tag, spent.cause());
            }
        }
        self.gauge_hand_over(newest, decided, before - self.start, took);
        Ok(())
    }

    /// Has the device serve what was prepared, which includes `newest`. That is no hand-over that
    /// could be slow: how long it takes is how long the requests take.
    pub(super) fn call(
        &mut self,
        newest: &[Io],
        decided: Nanos,
        spent: &mut Spent,
    ) -> io::Result<()> {
        let (submitted, taken) = self.device.submit()?;
        self.unsubmitted -= taken;
        self.control.issued.fetch_add(taken as u64, Relaxed);
        self.heard_at = submitted - self.start;
        let put_aside = spent.put_aside;
        self.explain_preparing(newest, submitted, spent);
        let stalled = spent.put_aside - put_aside;
        if stalled > Nanos::ZERO {
            self.totals.host_stalls += 1;
            self.totals.host_stall_max = self.totals.host_stall_max.max(stalled);
        }
        self.gauge_hand_over(newest, decided, submitted - self.start, Nanos::ZERO);
        Ok(())
    }

    /// Takes the results of what the device has served, before the input is asked for more: what
    /// its thread does next follows from them. Answers when the last of them ended, which stands
    /// for the present; `None` if nothing was served.
    pub(super) fn settle(&mut self, input: &mut dyn Input) -> io::Result<Option<Nanos>> {
        self.device.reap(&mut self.completions)?;
        let Some(last) = self.completions.last() else { return Ok(None) };
        let now = last.completed - self.start;
        self.was_woken = false;
        if let Some(gauges) = &mut self.gauges {
            // It was seen as it ended.
            gauges.stepped(now);
        }
        self.take_completions(now, 0);
        self.scheduler.take(&self.completions, &mut self.records);
        self.pass_on(input);
        Ok(Some(now))
    }

    /// Counts the time until `before` as preparation, and says why these are late if it was long.
    pub(super) fn explain_preparing(&mut self, newest: &[Io], before: Nanos, spent: &mut Spent) {
        let prepared = before - spent.since;
        // The duration of the engine's own work is known. Time far beyond it is the host's.
        let written = newest.iter().filter(|io| io.op == Op::Write);
        let bytes: u64 = written.map(|io| io.length.0).sum();
        let work = Nanos((bytes as f64 * self.payload_cost * WORK_MARGIN) as i64);
        if prepared > work + LATENESS_TOLERATED {
            spent.put_aside += prepared;
        } else {
            spent.preparing += prepared;
        }
        if spent.total() > LATENESS_TOLERATED {
            let cause = spent.cause();
            for io in newest {
                self.scheduler.explain(io.tag, cause);
            }
        }
    }

    pub(super) fn gauge_hand_over(
        &mut self,
        newest: &[Io],
        decided: Nanos,
        handed_over: Nanos,
        took: Nanos,
    ) {
        let Some(gauges) = &mut self.gauges else { return };
        let open = &mut gauges.open;
        for io in newest {
            open.delay.add(handed_over - io.scheduled);
            open.preparation.add(handed_over - decided);
        }
        open.submission.add(took);
    }

    /// Whether the host has preempted this thread since the last query.
    pub(super) fn was_preempted(&mut self) -> bool {
        let before = std::mem::replace(&mut self.preemptions, self.clock.preemptions());
        self.preemptions > before
    }

    /// Whether the host may be to blame for most of the duration of a call during which it
    /// preempted this thread: the thread may also have slept in the call, waiting for the device,
    /// for far longer.
    pub(super) fn was_host(&mut self, took: Nanos) -> bool {
        let waited = self.clock.waited();
        let before = std::mem::replace(&mut self.waited, waited);
        match (before, waited) {
            // Part of the wait since the last query may lie before the call.
            (Some(before), Some(waited)) => waited - before >= Nanos(took.0 / 2),
            _ => true,
        }
    }
}
