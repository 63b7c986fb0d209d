//! A run as a page that shows a person how far the run can be believed.
//!
//! A run's figures are only as good as the run, so the page begins with the verdict and its
//! reasons, then states what was run where, and only then draws. It is one file, opens without a
//! network in any browser, and shows every text of the run as text. The same panels come as SVG and
//! PNG figures for papers and tickets; their names are those of blkreplay's similar pictures.
//!
//! The way through this crate: [`Page`] → [`html()`] (`page` lays out the words, `data` packs the
//! picture, `templates/` and `assets/` draw it in the browser). Every other drawing is a [`Chart`],
//! which [`charts`] makes of a load's figures, and which is drawn on the page or by [`svg()`] →
//! [`png()`]. [`charts::pictures`] makes the pictures of all commands.
#![forbid(unsafe_code)]

mod campaign;
mod chart;
pub mod charts;
mod compare;
mod data;
mod first;
mod layers;
mod packed;
mod page;
#[cfg(feature = "png")]
mod png;
mod scale;
mod sheet;
mod svg;
mod tables;
mod targets;
mod verification;

use ioecho_stats::analysis::seconds::Extremes;
use ioecho_stats::headline::Headline;
use ioecho_stats::picture::{RunPicture, Span};
use ioecho_stats::run_summary::{TargetFigures, VerifyFigures};
use ioecho_stats::verdict::Verdict;
use ioecho_trace::TimingMode;

pub use campaign::{
    CampaignAxis, CampaignData, CampaignFigure, CampaignPage, CampaignRow, CampaignRun,
    CampaignSquare, CampaignTable, CampaignTone, campaign_html,
};
pub use chart::{Chart, Ink, Layer, Limit, Shape, Side, Spacing, Stroke};
pub use compare::{ComparePage, compare_html};
pub use page::{html, live_html, update};
#[cfg(feature = "png")]
pub use png::png;
pub use sheet::{Sheet, svg};

/// The subject of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// A run, with measured figures and a verdict.
    #[default]
    Run,
    /// A load, which only has demands and no measured figures.
    Load,
}

/// The contents of a report on a run or a load.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// A run or a load.
    pub subject: Subject,
    /// The name of the run or the load.
    pub title: String,
    /// The command that repeats it; empty if unknown.
    pub command: String,
    /// The verdict; a page without one says so.
    pub verdict: Option<Verdict>,
    /// What was run, where and with what.
    pub facts: Vec<Section>,
    /// What a reader should know before using the figures.
    pub warnings: Vec<String>,
    /// When requests were issued; `None` if unknown.
    pub timing: Option<TimingMode>,
    /// The findings of verification; `None` if the run was not verified.
    pub verification: Option<VerifyFigures>,
    /// The targets of a run with several: the name and the figures of each.
    pub targets: Vec<(String, TargetFigures)>,
    /// The names of the trace's volumes, by number; names may be missing.
    pub volumes: Vec<(u32, String)>,
    /// The result of the run in a few words and figures, at the top of the page.
    pub headline: Option<Headline>,
    /// A text across every picture, if the figures are not those of a storage.
    pub stamp: String,
    /// The picture of the run.
    pub picture: RunPicture,
    /// The quietest and the busiest seconds within the means of the picture.
    pub extremes: Extremes,
    /// The other charts: over the common axis of time, or over axes of their own.
    pub charts: Vec<Chart>,
    /// The device's view of the run, if it was recorded.
    pub witness: Option<Witness>,
    /// Charts for readers who look for a cause, folded away.
    pub expert: Vec<Chart>,
    /// The tables: the slowest requests, volumes, the hottest regions.
    pub listings: Vec<Listing>,
}

impl Page {
    /// Whether each request had an instant at which it was due, known before the run. Without such
    /// instants no rate is demanded.
    fn has_schedule(&self) -> bool {
        self.timing.is_none_or(TimingMode::has_schedule)
    }

    /// Whether each request had an instant at which it was due. Without such instants no request
    /// can be late, and the beginning of a user's wait is unknown.
    fn has_due_instants(&self) -> bool {
        self.timing.is_none_or(TimingMode::has_due_instants)
    }

    /// Whether a span has a meaning for this run.
    fn tells(&self, span: Span) -> bool {
        span == Span::Service || self.has_due_instants()
    }
}

/// A run as its device saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Witness {
    /// Its description, in a few sentences.
    pub text: Vec<String>,
    /// The figures, side by side.
    pub tables: Vec<Listing>,
    /// Its charts: over the common axis of time, or over axes of their own.
    pub charts: Vec<Chart>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// What it lists.
    pub heading: String,
    /// A note that a reader needs to understand the table; may be empty.
    pub note: String,
    /// The headings of its columns.
    pub columns: Vec<String>,
    /// Its rows, each with a cell for every column. The first cell names the row.
    pub rows: Vec<Vec<String>>,
}

/// Facts under a heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Pairs of a name and a value.
    pub rows: Vec<(String, String)>,
}

/// A report that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The page could not be filled in.
    #[error("the report page could not be filled in: {0}")]
    Template(#[from] askama::Error),
    /// The figures' numbers could not be written as JSON.
    #[error("the numbers of the report could not be written: {0}")]
    Data(#[from] serde_json::Error),
    /// A figure could not be drawn as pixels.
    #[cfg(feature = "png")]
    #[error("the figure could not be drawn as PNG: {0}")]
    Pixels(String),
}
