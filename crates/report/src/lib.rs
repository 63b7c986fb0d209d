//! A run as a page that a person reads and believes, or rightly does not.
//!
//! The figures of a run are worth what the run is worth, so the page begins with the verdict and
//! its reasons, then says what was run where, and only then draws. It is one file, opens without a
//! network in any browser, and shows every text of the run as text. The same panels come as SVG and
//! PNG figures for papers and tickets; their names are those of blkreplay where it has a like one.
//!
//! The way through this crate: [`Page`] → [`html()`] (`page` lays out the words, `data` packs the
//! picture, `templates/` and `assets/` draw it in the browser). What is not drawn from the picture
//! is a [`Chart`], made of a load's figures by [`charts`], and drawn on the page or by [`svg()`] →
//! [`png()`]; all pictures, whoever asks for them, are those of [`charts::pictures`].
#![forbid(unsafe_code)]

mod chart;
pub mod charts;
mod compare;
mod data;
mod first;
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

pub use chart::{Chart, Ink, Layer, Limit, Shape, Side, Spacing, Stroke};
pub use compare::{ComparePage, compare_html};
pub use page::{html, live_html, update};
#[cfg(feature = "png")]
pub use png::png;
pub use sheet::{Sheet, svg};

/// What a report is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// A run, which was measured and is judged.
    #[default]
    Run,
    /// A load, which asks for something and has shown nothing yet.
    Load,
}

/// What a report says of a run or of a load.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Which of both it is.
    pub subject: Subject,
    /// What the run or the load is called.
    pub title: String,
    /// The command that does it again; empty where it is not known.
    pub command: String,
    /// Whether it may be believed; a page without a verdict says so in its place.
    pub verdict: Option<Verdict>,
    /// What was run, where and with what.
    pub facts: Vec<Section>,
    /// What a reader should know before using the figures.
    pub warnings: Vec<String>,
    /// When requests were issued; `None` where it is not known.
    pub timing: Option<TimingMode>,
    /// What verification found; `None` where nobody looked.
    pub verification: Option<VerifyFigures>,
    /// The targets of a run with several: what each is called and what it did.
    pub targets: Vec<(String, TargetFigures)>,
    /// What the volumes of the trace are called, by number; a name may lack.
    pub volumes: Vec<(u32, String)>,
    /// What a run comes to: the first thing that a reader sees.
    pub headline: Option<Headline>,
    /// What stands across every picture, where its figures are none of a storage.
    pub stamp: String,
    /// What is drawn.
    pub picture: RunPicture,
    /// The quietest and the busiest seconds behind the means that are drawn.
    pub extremes: Extremes,
    /// What else is drawn: over the common axis of time, or over axes of its own.
    pub charts: Vec<Chart>,
    /// What the device saw, where that was recorded beside the run.
    pub witness: Option<Witness>,
    /// What is drawn for those who look for the cause of something, folded away.
    pub expert: Vec<Chart>,
    /// What is told in rows: the slowest requests, volumes, the hottest regions.
    pub listings: Vec<Listing>,
}

impl Page {
    /// Whether requests were due at instants of their own: without that nothing can be late, and
    /// nobody knows since when a user of the device would have waited.
    fn has_schedule(&self) -> bool {
        self.timing.is_none_or(TimingMode::has_schedule)
    }

    /// Whether a span says anything of this run.
    fn tells(&self, span: Span) -> bool {
        span == Span::Service || self.has_schedule()
    }
}

/// A run as its device saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Witness {
    /// What is to be said of it, in a few sentences.
    pub text: Vec<String>,
    /// The figures, side by side.
    pub tables: Vec<Listing>,
    /// What is drawn: over the common axis of time, or over axes of its own.
    pub charts: Vec<Chart>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// What it lists.
    pub heading: String,
    /// What a reader has to know to read it rightly; may be empty.
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
