//! What shows a run to whoever has started it from a terminal.
//!
//! Words, a line of progress, and whatever else was asked for: panels, a served page, lines for
//! programs.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioecho_report::Page;
use ioecho_run::error::Result;
use ioecho_run::facts::RunFacts;
use ioecho_run::observer::{Counter, Meters, Observer, Stopping};
use ioecho_run::plan::ReplayPlan;
use ioecho_trace::Nanos;

use crate::print::tell;
use crate::run::live::{Live, LivePlan};
use crate::run::progress::{Progress, Watched};

/// The screen of one run.
pub(crate) struct Screen {
    plan: LivePlan,
    /// Whether there is no line that a person watches.
    quiet: bool,
    /// Whether somebody asked the program to end.
    asked: Arc<AtomicBool>,
    shown: Mutex<Shown>,
}

/// What is shown at the moment. The line goes first: panels may have hidden it.
#[derive(Default)]
struct Shown {
    progress: Option<Progress>,
    live: Option<Live>,
}

impl Screen {
    /// The screen of a run that ends when `stopping` says so.
    pub(crate) fn new(plan: LivePlan, quiet: bool, stopping: &Stopping) -> Self {
        let asked = Arc::clone(stopping.asked());
        Self { plan, quiet, asked, shown: Mutex::default() }
    }

    /// Waits until everything is told and the page, the run's own report, was shown.
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
