//! The run so far, as the page and the panels show it. It is judged like a whole run.

use std::sync::{Arc, Mutex, PoisonError};

use ioecho_report::Page;
use ioecho_run::facts::RunFacts;
use ioecho_run::page;
use ioecho_stats::facts::EngineFacts;
use ioecho_stats::run_summary::{RunFigures, RunSummary};

use crate::run::live::board::Board;

/// The view of the run.
pub(crate) struct View {
    pub(crate) board: Arc<Board>,
    pub(crate) figures: Arc<Mutex<RunFigures>>,
    /// The facts on the engine and its targets that are known before the run.
    pub(crate) engine: EngineFacts,
    /// `run.toml` before the run.
    pub(crate) facts: RunFacts,
    /// The page of the finished run.
    pub(crate) last: Mutex<Option<Page>>,
}

impl View {
    /// The figures so far. The writer waits some milliseconds while they are copied.
    fn figures(&self) -> RunFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The summary as if the run had ended now.
    #[cfg(feature = "live")]
    pub(crate) fn summary(&self) -> RunSummary {
        self.summary_of(&self.figures())
    }

    fn summary_of(&self, figures: &RunFigures) -> RunSummary {
        let so_far = figures.engine_facts();
        let mut summary = figures.summary(EngineFacts {
            planned: so_far.planned,
            issued: so_far.issued,
            pushed_back: so_far.pushed_back,
            dropped: so_far.dropped,
            in_flight_peak: so_far.in_flight_peak,
            demanded_duration_ns: so_far.demanded_duration_ns,
            ..self.engine.clone()
        });
        // It is not known yet whether the run will be complete.
        summary.verdict.checks.retain(|check| check.name != "complete");
        summary
    }

    /// The page of the run so far, or of the finished run.
    pub(crate) fn page(&self) -> Page {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = last.as_ref() {
            return page.clone();
        }
        drop(last);
        let figures = self.figures();
        let mut summary = self.summary_of(&figures);
        summary.verdict.summary = format!("The run goes on. So far: {}", summary.verdict.summary);
        page::so_far(&self.facts, &summary, figures.into_picture())
    }

    /// The load and the targets in words.
    #[cfg(feature = "live")]
    pub(crate) fn title(&self) -> String {
        page::title(&self.facts)
    }

    /// Stores the page of the finished run.
    pub(crate) fn finish(&self, page: Page) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
    }

    /// The number of intervals so far, and whether the page is the last one. The page has changed
    /// when this changes.
    pub(crate) fn state(&self) -> (u64, bool) {
        let is_last = self.last.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        (self.board.look().last.number, is_last)
    }
}
