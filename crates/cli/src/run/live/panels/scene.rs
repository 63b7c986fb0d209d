//! What the panels show at a moment, without where it comes from.

use ioecho_stats::picture::Span;
use ioecho_stats::run_summary::Percentiles;
use ioecho_stats::verdict::{Grade, Validity};
use ioecho_trace::Nanos;

use crate::print::visible;
use crate::run::live::board::Glance;
use crate::run::live::view::View;

/// The names of the spans, in the order of [`Scene::now`].
pub(crate) const SPANS: [Span; 3] = [Span::Service, Span::Response, Span::Lateness];

/// A moment of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    /// What is replayed on what.
    pub(crate) title: String,
    /// How far the replay has come.
    pub(crate) elapsed: Nanos,
    /// How long it is to take, where that is known.
    pub(crate) duration: Option<Nanos>,
    /// The verdict so far; `None` before there is any.
    pub(crate) validity: Option<Validity>,
    /// Its sentence.
    pub(crate) sentence: String,
    /// The checks that did not pass: the name and what was measured.
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
    /// Whether colours are wanted (no-color.org).
    pub(crate) is_colourless: bool,
}

impl Scene {
    /// The run as it stands now.
    pub(crate) fn of(view: &View, duration: Option<Nanos>) -> Self {
        let summary = view.summary();
        let state = view.board.look();
        let now = SPANS.map(|span| state.last.by_kind(span).remove("all"));
        let all = |by_kind: &ioecho_stats::run_summary::ByKind| by_kind.get("all").copied();
        let doubts = summary.verdict.checks.iter().filter(|check| check.grade > Grade::Pass);
        Self {
            title: visible(&view.title()),
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
