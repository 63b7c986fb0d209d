//! `ioecho campaign report`: the page and the table of a campaign.

use std::io::Write;

use ioecho_campaign::conclusion::{Conclusion, conclude};
use ioecho_campaign::executor::{Executor, State};
use ioecho_campaign::plan::Cell;
use ioecho_report::{
    CampaignPage, CampaignRow, CampaignSquare, CampaignTone, Section, campaign_html,
};
use ioecho_run::digest;
use ioecho_stats::verdict::Finding;
use ioecho_trace::Nanos;

use super::child::RUN;
use super::doing::kept;
use super::ground::is_simulated;
use super::status::settle;
use super::store::{Held, Store};
use super::table;
use crate::args::ReportCampaignArgs;
use crate::exit;
use crate::print::{Out, tell};

/// The page, in the campaign's directory.
pub(super) const PAGE: &str = "report.html";

/// The table, in the campaign's directory.
const TABLE: &str = "runs.parquet";

/// The figure of the heat map.
const FIGURE: &str = "p99.all.response";

pub(super) fn run(args: &ReportCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    let (made, _) = kept(&store)?;
    let mut executor = Executor::new(&made.plan, &made.here, store.held().attempts, 0.0);
    settle(&mut executor)?;
    let conclusion = conclude(&executor);
    write(&executor, &store, &conclusion)?;
    out.tells_of_files();
    if args.json {
        out.json(&conclusion)?;
    } else {
        writeln!(out, "{}", conclusion.sentence)?;
        writeln!(out, "report        {}", store.path().join(PAGE).display())?;
    }
    Ok(exit::OK)
}

/// Writes the page and the table anew.
pub(super) fn write(
    executor: &Executor<'_>,
    store: &Store,
    conclusion: &Conclusion,
) -> anyhow::Result<()> {
    let held = store.held();
    store.put(TABLE, &table::bytes(executor, &held)?)?;
    let edited = edited(executor, store, &held);
    for text in &edited {
        tell(&format!("warning: {text}"));
    }
    let page = page(executor, conclusion, edited);
    store.put(PAGE, campaign_html(&page)?.as_bytes())
}

/// Results that are no longer those that were measured.
fn edited(executor: &Executor<'_>, store: &Store, held: &Held) -> Vec<String> {
    let mut edited = Vec::new();
    for (cell, state) in executor.cells().iter().zip(executor.states()) {
        let State::Done(attempt, _) = state else { continue };
        let path = store.path().join(run_of(cell, *attempt)).join("summary.json");
        let stored = held.clocks.get(&(cell.key.clone(), *attempt));
        let stored = stored.and_then(|clock| clock.summary_sha256.clone());
        if stored != digest::of_file(&path).ok() {
            edited.push(format!("{} was changed or removed after the run", path.display()));
        }
    }
    edited
}

/// The directory of a run, below that of the campaign.
fn run_of(cell: &Cell, attempt: u32) -> String {
    format!("cells/{}/{attempt}/{RUN}", cell.key)
}

fn page(executor: &Executor<'_>, conclusion: &Conclusion, edited: Vec<String>) -> CampaignPage {
    let counts = conclusion.counts;
    let file = &executor.plan().file;
    let mut notes = edited;
    if file.devices.iter().any(|device| is_simulated(&device.path)) {
        notes.push("Simulated devices: no storage was measured there.".to_owned());
    }
    for (cell, reason) in &conclusion.failed {
        notes.push(format!("{cell} has no result: {reason}"));
    }
    for broken in &conclusion.broken {
        notes.push(format!("{}: '{}' does not hold", broken.cell, broken.that));
    }
    if conclusion.retried > 0 {
        notes.push(format!(
            "{} attempts had faults of the measurement and were made again",
            conclusion.retried
        ));
    }
    let is_whole = counts.failed == 0 && counts.missing == 0 && conclusion.broken.is_empty();
    let (column_axis, columns, rows) = map(executor);
    CampaignPage {
        title: file.name.clone(),
        sentence: conclusion.sentence.clone(),
        is_whole,
        essentials: format!(
            "{} cells: {} with a result, {} failed, {} skipped, {} missing; {} repeats",
            counts.cells, counts.done, counts.failed, counts.skipped, counts.missing, file.repeats
        ),
        notes,
        figure: "p99 of the response time, the median of the repeats".to_owned(),
        column_axis,
        columns,
        rows,
        ranking: conclusion
            .ranking
            .iter()
            .map(|rank| {
                let highest = rank.highest.clone().unwrap_or_else(|| "–".to_owned());
                let doubt = if rank.is_complete { "" } else { "as far as it was measured" };
                let top = if rank.is_top { "the highest that was tried" } else { doubt };
                (format!("{} {}", rank.axis, rank.value), highest, top.to_owned())
            })
            .collect(),
        facts: facts(executor),
    }
}

fn facts(executor: &Executor<'_>) -> Vec<Section> {
    let file = &executor.plan().file;
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows =
        vec![row("seed", file.seed.to_string()), row("retries", file.retries.to_string())];
    if let Some(ladder) = &file.ladder {
        rows.push(row("ladder", format!("{} until {}", ladder.axis, ladder.stop.text())));
    }
    if let Some(search) = &file.search {
        rows.push(row("search", format!("{} until {}", search.axis, search.until.text())));
    }
    let expectations = file.expectations.iter();
    rows.extend(expectations.map(|it| row("expectation", it.that.text().to_owned())));
    let devices = file.devices.iter().map(|device| row(&device.name, device.path.clone()));
    vec![
        Section { heading: "Campaign".to_owned(), rows },
        Section { heading: "Devices".to_owned(), rows: devices.collect() },
    ]
}

/// The repeats of a point, with what came of them.
type Square<'c> = Vec<(&'c Cell, &'c State)>;

/// The heat map: the axis of its columns, their values, and its rows. Every combination of the
/// other axes is a row, so nothing is averaged but repeats.
fn map(executor: &Executor<'_>) -> (String, Vec<String>, Vec<CampaignRow>) {
    let file = &executor.plan().file;
    let climbed = file.ladder.as_ref().map(|ladder| ladder.axis.clone());
    let searched = || file.search.as_ref().map(|search| search.axis.clone());
    let several = || {
        let mut several = file.axes.iter().rev().filter(|axis| axis.values.len() > 1);
        several.next().map(|axis| axis.name.clone())
    };
    let axis = climbed.or_else(searched).or_else(several).unwrap_or_default();
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<(String, Vec<Square<'_>>)> = Vec::new();
    let of_cell = |cell: &Cell| {
        let value = cell.point.iter().find(|(name, _)| *name == axis);
        value.map_or("all".to_owned(), |(_, value)| value.clone())
    };
    for cell in executor.cells() {
        let value = of_cell(cell);
        if !columns.contains(&value) {
            columns.push(value);
        }
    }
    if file.search.is_some() {
        let number = |text: &String| text.parse::<f64>().unwrap_or(0.0);
        columns.sort_by(|one, other| number(one).total_cmp(&number(other)));
    }
    let mut places = std::collections::HashMap::new();
    for (cell, state) in executor.cells().iter().zip(executor.states()) {
        let others = cell.point.iter().filter(|(name, _)| *name != axis);
        let name: Vec<String> = others.map(|(name, value)| format!("{name} {value}")).collect();
        let name = if name.is_empty() { file.name.clone() } else { name.join(", ") };
        let row = *places.entry(name.clone()).or_insert_with(|| {
            rows.push((name, vec![Vec::new(); columns.len()]));
            rows.len() - 1
        });
        let value = of_cell(cell);
        if let Some(column) = columns.iter().position(|other| *other == value) {
            rows[row].1[column].push((cell, state));
        }
    }
    let medians = rows.iter().flat_map(|(_, squares)| squares).filter_map(|it| median(it));
    let bounds = medians.fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    let rows = rows.iter().map(|(name, squares)| CampaignRow {
        name: name.clone(),
        squares: squares.iter().map(|cells| square(cells, bounds)).collect(),
    });
    (axis, columns, rows.collect())
}

/// The median of the figure over repeats.
fn median(cells: &[(&Cell, &State)]) -> Option<f64> {
    let mut values: Vec<f64> = cells
        .iter()
        .filter_map(|(_, state)| match state {
            State::Done(_, measured) => measured.figures.get(FIGURE).copied(),
            _ => None,
        })
        .collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The worst first.
fn tone(state: &State) -> CampaignTone {
    match state {
        State::Done(_, measured) => match measured.finding {
            Finding::DataDamaged => CampaignTone::Damaged,
            Finding::DeviceLimited => CampaignTone::Limited,
            _ => CampaignTone::Held,
        },
        State::Failed(_) => CampaignTone::Failed,
        State::Skipped(_) => CampaignTone::Skipped,
        State::Missing | State::Running => CampaignTone::Missing,
    }
}

fn square(cells: &[(&Cell, &State)], (low, high): (f64, f64)) -> CampaignSquare {
    let tone = cells.iter().map(|(_, state)| tone(state)).max().unwrap_or(CampaignTone::Skipped);
    let median = median(cells);
    let shade = median.map_or(0, |value| {
        let share = if high > low { (value / low).ln() / (high / low).ln() } else { 0.0 };
        (share * 8.0).round().clamp(0.0, 8.0) as u8 + 1
    });
    let runs = cells.iter().filter_map(|(cell, state)| match state {
        State::Done(attempt, _) => {
            let page = format!("{}/report.html", run_of(cell, *attempt));
            Some((cell.repeat.to_string(), page))
        }
        _ => None,
    });
    CampaignSquare {
        tone,
        shade,
        value: median.map_or(String::new(), |ns| Nanos(ns as i64).to_string()),
        runs: runs.collect(),
    }
}
