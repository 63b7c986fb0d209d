//! A campaign as a page: the answer first, then a map of all runs, each one click away.
//!
//! The map needs no script: it is a table whose squares have a colour for the figure, a sign for
//! the finding, and a link to each run. So it prints, and a reader without colours reads it too.

use askama::Template;
use ioecho_trace::visible::replaced;

use crate::packed::sha256;
use crate::{ReportError, Section};

/// The contents of a campaign's page.
#[derive(Clone, Debug, Default)]
pub struct CampaignPage {
    /// The name of the campaign.
    pub title: String,
    /// The answer.
    pub sentence: String,
    /// Whether nothing failed, is missing or does not hold.
    pub is_whole: bool,
    /// How many cells there are, in which states.
    pub essentials: String,
    /// What a reader should know before using the figures.
    pub notes: Vec<String>,
    /// The figure of the map, in words.
    pub figure: String,
    /// The axis of the columns.
    pub column_axis: String,
    /// The values of the columns.
    pub columns: Vec<String>,
    /// The rows of the map.
    pub rows: Vec<CampaignRow>,
    /// The values of the ranked axis: each with how far it goes, and a remark.
    pub ranking: Vec<(String, String, String)>,
    /// The settings.
    pub facts: Vec<Section>,
}

/// A row of the map.
#[derive(Clone, Debug)]
pub struct CampaignRow {
    /// The values of the other axes.
    pub name: String,
    /// A square for each column.
    pub squares: Vec<CampaignSquare>,
}

/// A square of the map: the repeats of a point.
#[derive(Clone, Debug)]
pub struct CampaignSquare {
    /// The worst of its runs.
    pub tone: CampaignTone,
    /// The darkness of the figure, 1 to 9; 0 without a figure.
    pub shade: u8,
    /// The figure in words.
    pub value: String,
    /// The repeats with a result, each with the path of its page.
    pub runs: Vec<(String, String)>,
}

/// What came of a point, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CampaignTone {
    /// It was not run, because a lower one met the condition.
    Skipped,
    /// The load was held.
    Held,
    /// The device could not take the load.
    Limited,
    /// It was not run yet.
    Missing,
    /// It has no result after all attempts.
    Failed,
    /// The device lost or altered data.
    Damaged,
}

impl CampaignTone {
    /// Its sign and its word.
    const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Skipped => ("–", "not run"),
            Self::Held => ("●", "held"),
            Self::Limited => ("▲", "device-limited"),
            Self::Missing => ("·", "missing"),
            Self::Failed => ("✕", "no result"),
            Self::Damaged => ("✖", "data damaged"),
        }
    }
}

const TONES: [CampaignTone; 6] = [
    CampaignTone::Held,
    CampaignTone::Limited,
    CampaignTone::Skipped,
    CampaignTone::Missing,
    CampaignTone::Failed,
    CampaignTone::Damaged,
];

#[derive(Template)]
#[template(path = "campaign.html")]
struct View<'a> {
    title: &'a str,
    page: &'a CampaignPage,
    legend: Vec<(&'static str, &'static str)>,
    rows: Vec<RowView<'a>>,
    script_hash: String,
    style_hash: String,
    style: String,
    script: String,
    data: String,
    version: &'static str,
}

struct RowView<'a> {
    name: &'a str,
    squares: Vec<SquareView<'a>>,
}

struct SquareView<'a> {
    class: String,
    sign: &'static str,
    word: &'static str,
    square: &'a CampaignSquare,
}

/// The campaign as one HTML file that opens offline.
pub fn campaign_html(page: &CampaignPage) -> Result<String, ReportError> {
    let style =
        ["\n", include_str!("../assets/report.css"), include_str!("../assets/campaign.css")]
            .concat();
    let rows = page
        .rows
        .iter()
        .map(|row| RowView { name: &row.name, squares: row.squares.iter().map(square).collect() });
    let view = View {
        title: &page.title,
        page,
        legend: TONES.map(CampaignTone::told).to_vec(),
        rows: rows.collect(),
        script_hash: sha256(b""),
        style_hash: sha256(style.as_bytes()),
        style,
        script: String::new(),
        data: "{}".to_owned(),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(replaced(&view.render()?).into_owned())
}

fn square(square: &CampaignSquare) -> SquareView<'_> {
    let (sign, word) = square.tone.told();
    SquareView { class: format!("s{}", square.shade), sign, word, square }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_runs_are_links() {
        let square = CampaignSquare {
            tone: CampaignTone::Limited,
            shade: 3,
            value: "5 ms".to_owned(),
            runs: vec![("1".to_owned(), "cells/k/1/run/report.html".to_owned())],
        };
        let page = CampaignPage {
            title: "<i>".to_owned(),
            sentence: "a goes up to 4.".to_owned(),
            column_axis: "speedup".to_owned(),
            columns: vec!["8".to_owned()],
            rows: vec![CampaignRow { name: "device <i>".to_owned(), squares: vec![square] }],
            ..CampaignPage::default()
        };
        let html = campaign_html(&page).unwrap();
        assert!(!html.contains("<i>"), "{html}");
        assert!(html.contains("href=\"cells/k/1/run/report.html\"") && html.contains('▲'));
        assert!(html.find("a goes up to 4.").unwrap() < html.find("class=\"map\"").unwrap());
    }
}
