//! A campaign as a page: the answer first, then a map of all runs, each one click away.
//!
//! The map is a table whose squares have a colour for the figure, a sign for the finding, and a
//! link to each run. So it prints, and a reader without colours reads it too. Without a script it
//! shows one pair of axes; with it any other, curves, and the drift.

use askama::Template;
use ioecho_trace::visible::replaced;
use serde::{Serialize, Serializer, ser::SerializeSeq as _};

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
    /// What is to be read before the map, such as a ranking.
    pub tables: Vec<CampaignTable>,
    /// What is to be read behind the charts.
    pub more: Vec<CampaignTable>,
    /// How results changed while the campaign went on.
    pub drift: String,
    /// The runs, for the script.
    pub data: CampaignData,
    /// The settings.
    pub facts: Vec<Section>,
}

/// A table of three columns: a name, what is said of it, and a remark.
#[derive(Clone, Debug, Default)]
pub struct CampaignTable {
    /// Its heading.
    pub heading: String,
    /// How it is to be read.
    pub remark: String,
    /// Its rows.
    pub rows: Vec<(String, String, String)>,
}

/// The runs of a campaign, from which the script draws.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CampaignData {
    /// The name of the campaign.
    pub name: String,
    /// The axes with their values.
    pub axes: Vec<CampaignAxis>,
    /// The figures.
    pub figures: Vec<CampaignFigure>,
    /// The runs.
    pub rows: Vec<CampaignRun>,
    /// The number of the axis of the map's columns; -1 if there is none.
    pub columns: i64,
    /// The number of the figure that is shown first.
    pub figure: usize,
    /// The number of the axis that curves go over.
    pub over: i64,
    /// The number of the axis that has a curve for each value; -1 if there is none.
    pub by: i64,
}

/// An axis of a campaign.
#[derive(Clone, Debug, Serialize)]
pub struct CampaignAxis {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// A figure of runs.
#[derive(Clone, Debug, Serialize)]
pub struct CampaignFigure {
    /// Its name.
    pub name: String,
    /// Its unit: `ns`, `B/s`, `%`, or nothing.
    pub unit: &'static str,
}

/// A run.
#[derive(Clone, Debug)]
pub struct CampaignRun {
    /// The number of its value on each axis.
    pub point: Vec<usize>,
    /// The repeat.
    pub repeat: u32,
    /// What came of it.
    pub tone: CampaignTone,
    /// Its directory, if it has one.
    pub run: Option<String>,
    /// When it began, in hours after the first.
    pub hours: Option<f64>,
    /// Its figures.
    pub figures: Vec<Option<f64>>,
}

impl Serialize for CampaignRun {
    /// A run is a list, because ten thousand of them must fit into a page.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        for value in &self.point {
            list.serialize_element(value)?;
        }
        list.serialize_element(&self.repeat)?;
        list.serialize_element(&(self.tone as u8))?;
        list.serialize_element(&self.run)?;
        list.serialize_element(&self.hours.map(short))?;
        for figure in &self.figures {
            list.serialize_element(&figure.map(short))?;
        }
        list.end()
    }
}

/// A number of five significant digits, in few letters.
fn short(value: f64) -> serde_json::Value {
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        return (rounded as i64).into();
    }
    rounded.into()
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
    /// It has no result after all attempts, or one that may not be used.
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
            Self::Failed => ("✕", "no valid result"),
            Self::Damaged => ("✖", "data damaged"),
        }
    }

    /// Its class in the style.
    const fn class(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Held => "held",
            Self::Limited => "limited",
            Self::Missing => "missing",
            Self::Failed => "failed",
            Self::Damaged => "damaged",
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

/// The runs with the words of their tones, in the order of the tones' numbers.
#[derive(Serialize)]
struct Carried<'a> {
    #[serde(flatten)]
    data: &'a CampaignData,
    tones: Vec<ToneView>,
}

#[derive(Serialize)]
struct ToneView {
    sign: &'static str,
    word: &'static str,
    class: &'static str,
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
    let script = concat!("\n", include_str!("../assets/campaign.js")).to_owned();
    let mut by_number = TONES;
    by_number.sort();
    let tones = by_number.map(|tone| {
        let (sign, word) = tone.told();
        ToneView { sign, word, class: tone.class() }
    });
    let carried = Carried { data: &page.data, tones: tones.into() };
    let view = View {
        title: &page.title,
        page,
        legend: TONES.map(CampaignTone::told).to_vec(),
        rows: rows.collect(),
        script_hash: sha256(script.as_bytes()),
        style_hash: sha256(style.as_bytes()),
        style,
        script,
        data: serde_json::to_string(&carried)?.replace('<', "\\u003c"),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(replaced(&view.render()?).into_owned())
}

fn square(square: &CampaignSquare) -> SquareView<'_> {
    let (sign, word) = square.tone.told();
    SquareView { class: format!("s{} {}", square.shade, square.tone.class()), sign, word, square }
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
