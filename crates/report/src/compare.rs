//! A comparison as a page: the differences, their size, their beginning, and their certainty.
//!
//! A table of ratios convinces only readers who can see where the ratios come from. So the page
//! shows the figures with their intervals first. Then it shows the same runs as percentile curves
//! with their ratio, as a map of where one run has more requests than the other, and over time,
//! block by block. Like the report of a run it is one file, and every name is shown as text, so no
//! name can act as markup.

use askama::Template;
use ioecho_stats::compare::{
    Answer, Blocks, Comparison, Decision, DifferenceMap, Distribution, Obstacle, Outcome, Pair,
    Row, SIZE_NAMES, Word, kind_word, percent,
};
use ioecho_stats::headline::drained;
use ioecho_trace::visible::replaced;
use ioecho_trace::{Bytes, Nanos};
use serde::Serialize;

use crate::packed::sha256;
use crate::page::whole_script;
use crate::tables::grouped;
use crate::{ReportError, Section};

/// The scripts, in the order in which they build on each other.
const SCRIPTS: [&str; 2] =
    [include_str!("../assets/compare_axes.js"), include_str!("../assets/compare.js")];

/// The contents of a comparison's page.
#[derive(Clone, Debug)]
pub struct ComparePage {
    /// The title.
    pub title: String,
    /// The figures.
    pub comparison: Comparison,
    /// The reasons to doubt the figures.
    pub obstacles: Vec<Obstacle>,
    /// The user's criteria and whether they hold.
    pub criteria: Vec<Outcome>,
    /// The runs and the differences between their settings.
    pub facts: Vec<Section>,
}

#[derive(Template)]
#[template(path = "compare.html")]
struct View<'a> {
    title: &'a str,
    method: String,
    pairs: Vec<PairView<'a>>,
    obstacles: &'a [Obstacle],
    criteria: Vec<CriterionView<'a>>,
    facts: Vec<&'a Section>,
    script_hash: String,
    style_hash: String,
    style: String,
    script: String,
    data: String,
    version: &'static str,
}

struct PairView<'a> {
    class: &'static str,
    word: &'static str,
    pair: &'a Pair,
    tables: Vec<TableView>,
    worst: Vec<RowView>,
}

struct TableView {
    name: String,
    rows: Vec<RowView>,
}

struct RowView {
    name: String,
    kind: &'static str,
    size: &'static str,
    phase: String,
    baseline: String,
    other: String,
    change: String,
    between: String,
    requests: String,
    class: &'static str,
    word: &'static str,
}

struct CriterionView<'a> {
    class: &'static str,
    word: &'static str,
    outcome: &'a Outcome,
    measured: String,
}

/// The figures of a pair of runs for the browser's drawing.
#[derive(Serialize)]
struct Drawn<'a> {
    baseline: &'a str,
    other: &'a str,
    distributions: &'a [Distribution],
    heat: &'a [DifferenceMap],
    over_time: &'a Blocks,
}

/// The comparison as one HTML file that opens offline.
pub fn compare_html(page: &ComparePage) -> Result<String, ReportError> {
    let comparison = &page.comparison;
    let drawn: Vec<Drawn<'_>> = comparison
        .pairs
        .iter()
        .map(|pair| Drawn {
            baseline: &pair.baseline,
            other: &pair.other,
            distributions: &pair.distributions,
            heat: &pair.heat,
            over_time: &pair.over_time,
        })
        .collect();
    let script = whole_script(&SCRIPTS);
    let style = ["\n", include_str!("../assets/report.css"), include_str!("../assets/compare.css")]
        .concat();
    let view = View {
        title: &page.title,
        method: method(comparison),
        pairs: comparison.pairs.iter().map(pair_view).collect(),
        obstacles: &page.obstacles,
        criteria: page.criteria.iter().map(criterion_view).collect(),
        facts: page.facts.iter().filter(|section| !section.rows.is_empty()).collect(),
        script_hash: sha256(script.as_bytes()),
        style_hash: sha256(style.as_bytes()),
        style,
        script,
        // In JSON, '<' occurs only inside strings. Escaped, it can neither begin nor end an
        // element.
        data: serde_json::to_string(&drawn)?.replace('<', "\\u003c"),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(replaced(&view.render()?).into_owned())
}

/// How the intervals were made, in a sentence.
fn method(comparison: &Comparison) -> String {
    let paired = if comparison.paired {
        "the same blocks of both sides together"
    } else {
        "each side by itself, for they did not replay the same requests"
    };
    format!(
        "Intervals from {} redrawings of stretches of {} blocks of the run ({paired}) and \
         of repeated runs; all judged figures of a system together are told apart from themselves \
         in at most {:.1} % of comparisons. A difference counts from {:.1} % on.",
        comparison.resamples,
        comparison.blocks,
        comparison.level * 100.0,
        comparison.least_effect * 100.0
    )
}

fn pair_view(pair: &Pair) -> PairView<'_> {
    let class = match pair.word {
        Word::NotToldApart => "none",
        Word::Slower => "invalid",
        Word::Faster => "pass",
        Word::Mixed => "suspect",
    };
    let word = pair.word.name();
    let mut tables: Vec<TableView> = Vec::new();
    for row in &pair.rows {
        let span = row.scope.span.map_or("throughput", |span| span.name());
        let name = format!("{span}, {}", kind_word(row.scope.kind));
        match tables.last_mut() {
            Some(table) if table.name == name => table.rows.push(row_view(row)),
            _ => tables.push(TableView { name, rows: vec![row_view(row)] }),
        }
    }
    let drain = pair.drain_percent.map(drain_view);
    tables.extend(drain.map(|row| TableView { name: "drain".to_owned(), rows: vec![row] }));
    let worst = pair.worst.iter().filter(|row| row.decision == Decision::Worse);
    PairView { class, word, pair, tables, worst: worst.map(row_view).collect() }
}

fn row_view(row: &Row) -> RowView {
    let (class, word) = match row.decision {
        Decision::Worse => ("invalid", "▲ worse"),
        Decision::Better => ("pass", "▼ better"),
        Decision::NotToldApart => ("none", "not told apart"),
        Decision::TooFew => ("none", "too little to judge"),
        Decision::NotJudged => ("none", "not judged"),
    };
    let value = |value: f64| match row.scope.span {
        Some(_) => Nanos(value as i64).to_string(),
        None if row.metric.name() == "iops" => format!("{}/s", grouped(value as u64)),
        None => format!("{}/s", Bytes(value as u64)),
    };
    let [one, two] = row.requests.map(grouped);
    RowView {
        name: row.metric.name().to_owned(),
        kind: kind_word(row.scope.kind),
        size: row.scope.size.and_then(|size| SIZE_NAMES.get(size)).unwrap_or(&"any"),
        phase: row
            .scope
            .phase
            .map_or("whole run".to_owned(), |phase| format!("quarter {} of 4", phase + 1)),
        baseline: value(row.baseline),
        other: value(row.other),
        change: percent(row.ratio),
        between: between(row.interval),
        requests: if one == two { one } else { format!("{one} / {two}") },
        class,
        word,
    }
}

/// The drain of both sides, which is not judged.
fn drain_view(drains: [f64; 2]) -> RowView {
    let [baseline, other] = drains.map(drained);
    RowView {
        name: "drain".to_owned(),
        kind: kind_word(None),
        size: "any",
        phase: "whole run".to_owned(),
        baseline,
        other,
        change: "–".to_owned(),
        between: between(None),
        requests: "–".to_owned(),
        class: "none",
        word: "not judged",
    }
}

fn between(interval: Option<[f64; 2]>) -> String {
    interval.map_or("–".to_owned(), |[low, high]| format!("{} … {}", percent(low), percent(high)))
}

fn criterion_view(outcome: &Outcome) -> CriterionView<'_> {
    let (class, word) = match outcome.answer {
        Answer::Met => ("invalid", "✗ fails: it is proven"),
        Answer::NotMet => ("pass", "✓ passes: the contrary is proven"),
        Answer::DoubtfullyMet => ("suspect", "⚠ in doubt: measured so, not proven"),
        Answer::DoubtfullyNotMet => ("none", "passes: not measured so, nothing proven"),
        Answer::NothingMeasured => ("invalid", "✗ fails: no such requests"),
    };
    let measured = outcome.ratio.map_or(String::new(), |ratio| {
        format!("{} ({})", percent(ratio), between(outcome.interval))
    });
    CriterionView { class, word, outcome, measured }
}
