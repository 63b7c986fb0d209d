//! `ioecho campaign report`: the page and the table of a campaign.

use std::collections::BTreeMap;
use std::io::Write;

use ioecho_campaign::attempt::End;
use ioecho_campaign::conclusion::{Conclusion, conclude};
use ioecho_campaign::executor::{Executor, State};
use ioecho_campaign::plan::{Cell, is_simulated};
use ioecho_campaign::rows::{Row, rows};
use ioecho_campaign::search::Next;
use ioecho_report::{
    CampaignPage, CampaignRow, CampaignSquare, CampaignTable, CampaignTone, Section, campaign_html,
};
use ioecho_run::digest;
use ioecho_stats::verdict::Finding;
use ioecho_trace::Nanos;

use super::doing::kept;
use super::status::settle;
use super::store::{Clock, Held, Store};
use super::{by_host, charts, ranking, table};
use crate::args::ReportCampaignArgs;
use crate::exit;
use crate::print::{Out, tell};

/// The page, in the campaign's directory.
pub(super) const PAGE: &str = "report.html";

/// The table, in the campaign's directory.
const TABLE: &str = "runs.parquet";

/// The most lines of a kind in a list of the page.
pub(super) const NOTES_MAX: usize = 12;

/// The most runs of which the page has a map without its script.
const STILL_MAX: usize = 1_000;

/// The figure of the heat map.
pub(super) const FIGURE: &str = "p99.all.response";

pub(super) fn run(args: &ReportCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    let (is_running, seen) = (store.is_taken(), store.seen());
    let (made, _) = kept(&store)?;
    let held = store.held();
    let mut executor = Executor::new(&made.plan, &made.here, held.attempts.clone(), 0.0);
    settle(&mut executor)?;
    let conclusion = conclude(&executor);
    if !is_running {
        store.put_status(seen, conclusion.clone(), None, true);
    }
    write(&executor, &store, &held, &conclusion)?;
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
    held: &Held,
    conclusion: &Conclusion,
) -> anyhow::Result<()> {
    store.put(TABLE, &table::bytes(executor, held)?)?;
    let edited = edited(executor, store, held);
    for text in &edited {
        tell(&format!("warning: {text}"));
    }
    let ranked = [by_host::table(executor, store), ranking::table(executor, store)];
    let page = page(executor, conclusion, edited, held, ranked);
    store.put(PAGE, campaign_html(&page)?.as_bytes())
}

/// Results that are no longer those that were measured.
fn edited(executor: &Executor<'_>, store: &Store, held: &Held) -> Vec<String> {
    let mut edited = Vec::new();
    for row in rows(executor) {
        let (Some(run), Some((attempt, _))) = (row.run(), row.done) else { continue };
        let path = store.path().join(&run).join("summary.json");
        let clock = held.clocks.get(&(row.key.to_owned(), attempt));
        let name = run.rsplit('/').next().unwrap_or_default();
        let of_part = |clock: &Clock| clock.summaries_sha256.get(name).cloned();
        let stored = clock.and_then(|it| it.summary_sha256.clone().or_else(|| of_part(it)));
        if stored != digest::of_file(&path).ok() {
            edited.push(format!("{} was changed or removed after the run", path.display()));
        }
    }
    edited
}

fn page(
    executor: &Executor<'_>,
    conclusion: &Conclusion,
    edited: Vec<String>,
    held: &Held,
    ranked: [CampaignTable; 2],
) -> CampaignPage {
    let counts = conclusion.counts;
    let file = &executor.plan().file;
    let mut notes = edited;
    if file.devices.iter().any(|device| is_simulated(device.shown_path())) {
        notes.push("Simulated devices: no storage was measured there.".to_owned());
    }
    let failed = conclusion.failed.iter();
    let failed: Vec<String> =
        failed.map(|(cell, reason)| format!("{cell} has no result: {reason}")).collect();
    let broken = conclusion.broken.iter();
    let broken: Vec<String> =
        broken.map(|it| format!("{}: '{}' does not hold", it.cell, it.told())).collect();
    let invalid = conclusion.invalid.iter();
    let invalid: Vec<String> =
        invalid.map(|(cell, reason)| format!("{cell} has figures of no use: {reason}")).collect();
    for some in [&failed, &invalid, &broken] {
        notes.extend(some.iter().take(NOTES_MAX).cloned());
        if some.len() > NOTES_MAX {
            notes.push(format!("and {} more of this kind", some.len() - NOTES_MAX));
        }
    }
    if conclusion.retried > 0 {
        notes.push(format!(
            "{} attempts had faults of the measurement and were made again",
            conclusion.retried
        ));
    }
    let is_whole = [counts.failed, counts.missing, conclusion.useless(), conclusion.broken.len()]
        .iter()
        .all(|count| *count == 0);
    let (column_axis, columns, mut rows) = map(executor);
    if executor.cells().len() > STILL_MAX {
        rows.clear();
    }
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
        column_axis: column_axis.clone(),
        columns,
        rows,
        tables: before(executor, conclusion, ranked),
        more: behind(executor, conclusion, held),
        drift: charts::drift(executor, held),
        data: charts::data(executor, held, &column_axis),
        facts: facts(executor),
    }
}

/// Tables that are read before the map: how far each goes, knees, and what is told apart.
fn before(
    executor: &Executor<'_>,
    conclusion: &Conclusion,
    ranked: [CampaignTable; 2],
) -> Vec<CampaignTable> {
    let file = &executor.plan().file;
    let mut tables = Vec::new();
    if let Some(ladder) = &file.ladder {
        let rows = conclusion.ranking.iter().map(|rank| {
            let highest = rank.highest.clone().unwrap_or_else(|| "–".to_owned());
            let told = match (&rank.highest, rank.is_complete) {
                _ if rank.is_top => "the highest that was tried",
                (_, true) => "",
                (Some(_), false) => "or higher: not all of it was measured",
                (None, false) => "not known: not measured",
            };
            (format!("{} {}", rank.axis, rank.value), highest, told.to_owned())
        });
        tables.push(CampaignTable {
            heading: "How far each goes".to_owned(),
            remark: format!("{}; the worst of its loads and repeats counts", ladder.axis),
            rows: rows.collect(),
        });
        let rows = conclusion.climbs.iter().take(TABLE_MAX).map(|climb| {
            let of_repeat = |it: &Option<String>| it.clone().unwrap_or_else(|| "–".to_owned());
            let highest: Vec<String> = climb.highest.iter().map(of_repeat).collect();
            let doubt = if climb.is_complete { "" } else { "not all of it was measured" };
            (words(&climb.point, &file.name), highest.join(", "), doubt.to_owned())
        });
        tables.push(CampaignTable {
            heading: "Knees".to_owned(),
            remark: format!("the highest {} of each repeat that was held", ladder.axis),
            rows: rows.collect(),
        });
    }
    if let Some(search) = &file.search {
        let rows = conclusion.searches.iter().take(TABLE_MAX).map(|searched| {
            let found = searched.found.map(|found| found_words(found, &search.axis));
            let found = found.unwrap_or_else(|| "no answer yet".to_owned());
            (words(&searched.point, &file.name), found, String::new())
        });
        tables.push(CampaignTable {
            heading: "Knees".to_owned(),
            remark: format!("where '{}' begins", search.until.text()),
            rows: rows.collect(),
        });
    }
    if !conclusion.against.is_empty() {
        let rows = conclusion
            .against
            .iter()
            .take(TABLE_MAX)
            .map(|it| (words(&it.point, &file.name), it.conclusion.clone(), it.met.join("; ")));
        tables.push(CampaignTable {
            heading: "Against the kept campaign".to_owned(),
            remark: "beyond chance; all points are one family".to_owned(),
            rows: rows.collect(),
        });
    }
    tables.extend(ranked);
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// The most rows of a table.
const TABLE_MAX: usize = 200;

fn found_words(found: Next, axis: &str) -> String {
    match found {
        Next::Between(low, high) => format!("between {axis} {low} and {high}"),
        Next::Below(low) => format!("at {axis} {low} already"),
        Next::Above(high) => format!("not up to {axis} {high}"),
        Next::Changed(value) => format!("{axis} {value} was answered differently later"),
        Next::Try(_) => "no answer yet".to_owned(),
    }
}

fn words(point: &[(String, String)], otherwise: &str) -> String {
    let values: Vec<String> = point.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    if values.is_empty() { otherwise.to_owned() } else { values.join(", ") }
}

/// Tables that are read behind the charts: expectations, differences of the host, other attempts.
fn behind(executor: &Executor<'_>, conclusion: &Conclusion, held: &Held) -> Vec<CampaignTable> {
    let file = &executor.plan().file;
    let expectations = file.expectations.iter().map(|it| {
        let that = it.that.text();
        let broken = conclusion.broken.iter().filter(|broken| broken.that == that);
        let (count, of) = (broken.count(), if it.of_point { "points" } else { "cells" });
        let told = if count == 0 { "holds".to_owned() } else { format!("broken by {count} {of}") };
        (that.to_owned(), told, String::new())
    });
    let mut facts: BTreeMap<&String, BTreeMap<&String, usize>> = BTreeMap::new();
    for clock in held.clocks.values() {
        for (name, value) in &clock.environment {
            *facts.entry(name).or_default().entry(value).or_default() += 1;
        }
    }
    let differing = facts.iter().filter(|(_, values)| values.len() > 1).map(|(name, values)| {
        let told: Vec<String> =
            values.iter().map(|(value, count)| format!("{value} ({count} attempts)")).collect();
        ((*name).clone(), told.join(" · "), String::new())
    });
    let mut again = Vec::new();
    for cell in executor.cells() {
        for (number, end) in executor.attempts(cell).into_iter().flatten() {
            let reason = match end {
                End::Fault(reason) | End::Failed(reason) => reason.clone(),
                End::Measured(measured) => match measured.fault() {
                    Some(finding) => finding.name().to_owned(),
                    None => continue,
                },
                End::Stopped => continue,
            };
            again.push((cell.name(), format!("attempt {number}"), reason));
        }
    }
    again.truncate(TABLE_MAX);
    let table = |heading: &str, remark: &str, rows| CampaignTable {
        heading: heading.to_owned(),
        remark: remark.to_owned(),
        rows,
    };
    let mut tables = vec![
        table("Expectations", "", expectations.collect()),
        table("What differed between runs", "facts of the host", differing.collect()),
        table("Attempts without a result", "faults of the measurement are tried again", again),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
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
    let devices =
        file.devices.iter().map(|device| row(&device.name, device.shown_path().to_owned()));
    vec![
        Section { heading: "Campaign".to_owned(), rows },
        Section { heading: "Devices".to_owned(), rows: devices.collect() },
    ]
}

/// The repeats of a point, with what came of them.
type Square<'c> = Vec<Row<'c>>;

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
    let mut lines: Vec<(String, Vec<Square<'_>>)> = Vec::new();
    let of_cell = |cell: &Cell| {
        let value = cell.point.iter().find(|(name, _)| *name == axis);
        value.map_or("all".to_owned(), |(_, value)| value.clone())
    };
    let all = rows(executor);
    for row in &all {
        let value = of_cell(row.cell);
        if !columns.contains(&value) {
            columns.push(value);
        }
    }
    if file.search.is_some() {
        let number = |text: &String| text.parse::<f64>().unwrap_or(0.0);
        columns.sort_by(|one, other| number(one).total_cmp(&number(other)));
    }
    let mut places = std::collections::HashMap::new();
    for run in &all {
        let cell = run.cell;
        let others = cell.point.iter().filter(|(name, _)| *name != axis);
        let name: Vec<String> = others.map(|(name, value)| format!("{name} {value}")).collect();
        let name = if name.is_empty() { file.name.clone() } else { name.join(", ") };
        let row = *places.entry(name.clone()).or_insert_with(|| {
            lines.push((name, vec![Vec::new(); columns.len()]));
            lines.len() - 1
        });
        let value = of_cell(cell);
        if let Some(column) = columns.iter().position(|other| *other == value) {
            lines[row].1[column].push(*run);
        }
    }
    let medians = lines.iter().flat_map(|(_, squares)| squares).filter_map(|it| median(it));
    let bounds = medians.fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    let rows = lines.iter().map(|(name, squares)| CampaignRow {
        name: name.clone(),
        squares: squares.iter().map(|cells| square(cells, bounds)).collect(),
    });
    (axis, columns, rows.collect())
}

/// The median of the figure over repeats.
fn median(runs: &[Row<'_>]) -> Option<f64> {
    let mut values: Vec<f64> = runs.iter().filter_map(|row| charts::figure(row, FIGURE)).collect();
    values.sort_by(f64::total_cmp);
    // Of an even number none is in the middle.
    let (below, above) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[below], values[above]))
}

/// The worst first.
pub(super) fn tone(state: &State) -> CampaignTone {
    match state {
        State::Done(_, measured) if measured.is_useless() => CampaignTone::Failed,
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

fn square(cells: &[Row<'_>], (low, high): (f64, f64)) -> CampaignSquare {
    let tone = cells.iter().map(|row| tone(row.state)).max().unwrap_or(CampaignTone::Skipped);
    let median = median(cells);
    let shade = median.map_or(0, |value| {
        let share = if high > low { (value / low).ln() / (high / low).ln() } else { 0.0 };
        (share * 8.0).round().clamp(0.0, 8.0) as u8 + 1
    });
    let runs = cells.iter().filter_map(|row| {
        Some((row.cell.repeat.to_string(), format!("{}/report.html", row.run()?)))
    });
    CampaignSquare {
        tone,
        shade,
        value: median.map_or(String::new(), |ns| Nanos(ns as i64).to_string()),
        runs: runs.collect(),
    }
}
