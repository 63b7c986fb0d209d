//! Shows a run to the user who started it.
//!
//! It prints messages and a progress line, and starts the outputs that the user chose: panels, a
//! served page, lines for programs.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioecho_report::Page;
use ioecho_run::error::Result;
use ioecho_run::facts::RunFacts;
use ioecho_run::gate::Gate;
use ioecho_run::observer::{Counter, Meters, Observer, Stopping};
use ioecho_run::plan::ReplayPlan;
use ioecho_trace::Nanos;

use crate::print::tell;
use crate::run::live::{Live, LivePlan};
use crate::run::progress::{Progress, Watched};

/// The screen of one run.
pub(crate) struct Screen {
    plan: LivePlan,
    /// Whether to show no progress line.
    quiet: bool,
    /// Whether somebody asked the program to end.
    asked: Arc<AtomicBool>,
    /// Where the run waits for the instant of its beginning, if others name it.
    gate: Mutex<Option<Gate>>,
    shown: Mutex<Shown>,
}

/// The parts that are shown now. The progress line is removed first, because panels may have hidden
/// it.
#[derive(Default)]
struct Shown {
    progress: Option<Progress>,
    live: Option<Live>,
}

impl Screen {
    /// The screen of a run that `stopping` ends.
    pub(crate) fn new(plan: LivePlan, quiet: bool, stopping: &Stopping) -> Self {
        let asked = Arc::clone(stopping.asked());
        Self { plan, quiet, asked, gate: Mutex::default(), shown: Mutex::default() }
    }

    /// The same, and the run begins when this gate says so.
    pub(crate) fn at_gate(self, gate: Option<Gate>) -> Self {
        Self { gate: Mutex::new(gate), ..self }
    }

    /// Waits until all outputs are written and the page, which is the run's own report, was shown.
    pub(crate) fn finish(&self, page: Option<Page>) {
        let live = self.shown().live.take();
        if let Some(live) = live {
            live.finish(page);
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Screen {
    fn tell(&self, text: &str) {
        tell(text);
    }

    fn interval(&self) -> Option<Nanos> {
        self.plan.is_asked().then_some(self.plan.interval)
    }

    fn begins(&self, plan: &ReplayPlan, facts: &RunFacts) -> Result<()> {
        let live = Live::start(plan, &self.plan, facts, &self.asked)?;
        self.shown().live = live;
        Ok(())
    }

    fn starts(&self, meters: Meters) -> Result<Option<Box<dyn Counter>>> {
        let mut shown = self.shown();
        let tally = shown.live.as_ref().map(|live| live.tally(&meters));
        if !self.quiet {
            let hidden = shown.live.as_ref().and_then(Live::has_terminal);
            shown.progress = Some(Progress::start(Watched { meters, hidden })?);
        }
        Ok(tally.map(|tally| Box::new(tally) as Box<dyn Counter>))
    }

    fn armed(&self) -> Result<Option<Nanos>> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.as_mut().map(|gate| gate.pass(&self.asked)).transpose()
    }

    fn ends(&self) {
        let mut shown = self.shown();
        if let Some(progress) = shown.progress.take() {
            progress.finish();
        }
        if let Some(live) = &shown.live {
            live.run_ended();
        }
    }
}
