//! The contents of the panels at one moment, independent of their source.

use ioecho_stats::picture::Span;
use ioecho_stats::run_summary::{ByKind, Percentiles, RunSummary};
use ioecho_stats::verdict::{Grade, Validity};
use ioecho_trace::Nanos;

use crate::print::visible;
use crate::run::live::board::{Glance, State};
use crate::run::live::view::View;

/// The names of the spans, in the order of [`Scene::now`].
pub(crate) const SPANS: [Span; 3] = [Span::Service, Span::Response, Span::Lateness];

/// The contents at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    /// The load and the targets.
    pub(crate) title: String,
    /// How far the replay has come.
    pub(crate) elapsed: Nanos,
    /// How long the replay will take, if that is known.
    pub(crate) duration: Option<Nanos>,
    /// The verdict so far, or `None` before there is one.
    pub(crate) validity: Option<Validity>,
    /// The sentence of the verdict.
    pub(crate) sentence: String,
    /// The checks that did not pass, each with the measured value.
    pub(crate) doubts: Vec<(Grade, String)>,
    /// Percentiles of the last interval and of the whole run, in the order of [`SPANS`].
    pub(crate) now: [Option<Percentiles>; 3],
    pub(crate) whole: [Option<Percentiles>; 3],
    /// Requests completed, failed and late so far.
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) late: u64,
    /// The last intervals, the newest last.
    pub(crate) recent: Vec<Glance>,
    /// Whether to use colours (no-color.org).
    pub(crate) is_colourless: bool,
}

impl Scene {
    /// The run as it stands now.
    pub(crate) fn of(view: &View, duration: Option<Nanos>) -> Self {
        let summary = view.summary();
        let state = view.board.look();
        Self::at(&state, &summary, &view.title(), duration)
    }

    /// The run with this title, with what the board has of it and its figures so far.
    pub(crate) fn at(
        state: &State,
        summary: &RunSummary,
        title: &str,
        duration: Option<Nanos>,
    ) -> Self {
        let now = SPANS.map(|span| state.last.by_kind(span).remove("all"));
        let all = |by_kind: &ByKind| by_kind.get("all").copied();
        let doubts = summary.verdict.checks.iter().filter(|check| check.is_cause());
        Self {
            title: visible(title),
            elapsed: state.whole.end,
            duration,
            validity: (state.whole.requests > 0).then_some(summary.verdict.validity),
            sentence: visible(&summary.verdict.summary),
            doubts: doubts
                .map(|check| (check.grade, visible(&format!("{} {}", check.name, check.measured))))
                .collect(),
            now,
            whole: [&summary.service_time, &summary.response_time, &summary.lateness].map(all),
            completed: state.whole.completed(),
            failed: state.whole.failed,
            late: state.whole.late(),
            recent: state.recent.iter().cloned().collect(),
            is_colourless: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        }
    }
}
