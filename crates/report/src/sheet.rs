//! A chart as a picture of its own, for papers, tickets and mails.
//!
//! A picture travels without its page. So it carries the name of what it shows, the verdict in its
//! corner, and across it what makes its figures none, as blkreplay does.

use ioecho_stats::verdict::Validity;

use crate::chart::{Chart, draw};
use crate::svg::{Heading, Plot, SIZE};
use crate::{Page, Subject};

/// What stands around a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// What the run or the load is called.
    pub title: String,
    /// What is said of it in the corner.
    pub verdict: Verdict,
    /// What stands in the lower left corner: the most important warning; may be empty.
    pub warning: String,
    /// What stands in the lower right corner: how the load was fitted to the target; may be empty.
    pub fit: String,
    /// What is written across the picture; empty of figures that may be used.
    pub stamp: String,
    /// Width and height in units of the drawing; of a PNG of scale 1, in pixels.
    pub size: (f64, f64),
}

/// What is said of a picture in its corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// How far the figures may be used.
    Judged(Validity),
    /// Nobody judged them.
    NotJudged,
    /// Nothing was measured: this is what will be asked for.
    Load,
}

impl Verdict {
    /// Of the subject of a page.
    pub fn of(page: &Page) -> Self {
        match (&page.verdict, page.subject) {
            (Some(verdict), _) => Self::Judged(verdict.validity),
            (None, Subject::Load) => Self::Load,
            (None, Subject::Run) => Self::NotJudged,
        }
    }

    /// The words and their colour.
    pub(crate) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Judged(Validity::Valid) => ("verdict: valid", "#146c3a"),
            Self::Judged(Validity::Suspect) => ("verdict: suspect", "#8a4b00"),
            Self::Judged(Validity::Invalid) => ("verdict: INVALID", "#a1121f"),
            Self::NotJudged => ("not judged", "#5c6670"),
            Self::Load => ("a load, not a run", "#5c6670"),
        }
    }
}

impl Sheet {
    /// The sheet for what a page is about.
    pub fn of(page: &Page) -> Self {
        let verdict = Verdict::of(page);
        Self {
            title: page.title.clone(),
            verdict,
            warning: page.warnings.first().cloned().unwrap_or_default(),
            fit: String::new(),
            stamp: page.stamp.clone(),
            size: SIZE,
        }
    }
}

/// A chart as SVG text. One that has nothing to show says so.
pub fn svg(chart: &Chart, sheet: &Sheet) -> String {
    // Below that the margins leave nothing to draw in.
    let size = (sheet.size.0.clamp(240.0, 20_000.0), sheet.size.1.clamp(200.0, 20_000.0));
    let mut plot = Plot::new(&Heading {
        what: &chart.title,
        run: &sheet.title,
        verdict: sheet.verdict.words(),
        foot: (&sheet.warning, &sheet.fit),
        size,
    });
    draw::draw(chart, &mut plot);
    plot.finish((!sheet.stamp.is_empty()).then_some(sheet.stamp.as_str()))
}
