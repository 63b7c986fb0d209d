//! A chart as a separate picture, for papers, tickets and mails.
//!
//! A picture is seen without its page. So it carries its title, the verdict in its corner, and, if
//! its figures are not valid measurements, a stamp across it, like blkreplay's.

use ioecho_stats::verdict::Validity;

use crate::chart::{Chart, draw};
use crate::svg::{Heading, Plot, SIZE};
use crate::{Page, Subject};

/// The texts around a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// The name of the run or the load.
    pub title: String,
    /// The verdict in the corner.
    pub verdict: Verdict,
    /// The most important warning, in the lower left corner; may be empty.
    pub warning: String,
    /// How the load was fitted to the target, in the lower right corner; may be empty.
    pub fit: String,
    /// The stamp across the picture; empty if the figures may be used.
    pub stamp: String,
    /// Width and height in units of the drawing; of a PNG of scale 1, in pixels.
    pub size: (f64, f64),
}

/// The verdict in the corner of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// How far the figures may be used.
    Judged(Validity),
    /// The figures were not judged.
    NotJudged,
    /// There are no measured figures: the picture shows a load.
    Load,
}

impl Verdict {
    /// The verdict on the subject of a page.
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
    /// The sheet for the subject of a page.
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

/// A chart as SVG text. A chart without figures says so.
pub fn svg(chart: &Chart, sheet: &Sheet) -> String {
    // With a smaller size the margins leave no room for the drawing.
    let size = (sheet.size.0.clamp(240.0, 20_000.0), sheet.size.1.clamp(200.0, 20_000.0));
    let mut plot = Plot::new(&Heading {
        what: &chart.title,
        run: &sheet.title,
        verdict: sheet.verdict.words(),
        foot: (&sheet.warning, &sheet.fit),
        size,
        names: draw::names(chart),
    });
    draw::draw(chart, &mut plot);
    plot.finish((!sheet.stamp.is_empty()).then_some(sheet.stamp.as_str()))
}
