//! A comparison for the terminal: the obstacles, the outcome, the figures.
//!
//! The figures of all spans and operations take a hundred lines, and the outcome has left the
//! screen before they end. So those that users ask for first are shown, the rest on request.

use std::io::{self, Write};

use ioecho_stats::compare::{
    Answer, Comparison, Decision, Obstacle, Outcome, Pair, Row, SIZE_NAMES, kind_word, percent,
};
use ioecho_stats::headline::drained;
use ioecho_stats::picture::Span;
use ioecho_trace::units::counted;
use ioecho_trace::{Bytes, Nanos};

use super::runs::Difference;
use crate::commands::outcome::line;
use crate::print::visible;

/// How many of the rows that became worse are shown, the worst first.
const WORST_SHOWN: usize = 10;
/// How many differing facts are shown if all is asked for, and how many otherwise.
const FACTS_SHOWN: [usize; 2] = [12, 3];
/// Of how many runs the values of such a fact are shown otherwise.
const VALUES_SHOWN: usize = 2;

pub(super) fn print(
    out: &mut impl Write,
    comparison: &Comparison,
    obstacles: &[Obstacle],
    differences: &[Difference],
    verbose: bool,
) -> io::Result<()> {
    for obstacle in obstacles {
        let text = format!("{} ({})", obstacle.text, obstacle.name);
        line(out, "doubtful", &visible(&text))?;
    }
    let [all, few] = FACTS_SHOWN;
    let shown = if verbose { all } else { few };
    for difference in differences.iter().take(shown) {
        let values = values(difference, verbose);
        line(out, "differs", &visible(&format!("{}: {values}", difference.key)))?;
    }
    if differences.len() > shown {
        let more = if verbose { "--json" } else { "-v, --json" };
        line(out, "", &format!("and {} facts more ({more})", differences.len() - shown))?;
    }
    for pair in &comparison.pairs {
        print_pair(out, comparison, pair, verbose)?;
    }
    Ok(())
}

/// The values of a fact, those of many runs cut short.
fn values(difference: &Difference, verbose: bool) -> String {
    let values = &difference.values;
    if verbose || values.len() <= VALUES_SHOWN {
        return values.join(" · ");
    }
    let shown = values[..VALUES_SHOWN].join(" · ");
    format!("{shown} and {} more", values.len() - VALUES_SHOWN)
}

fn print_pair(
    out: &mut impl Write,
    comparison: &Comparison,
    pair: &Pair,
    verbose: bool,
) -> io::Result<()> {
    let runs = |count: usize| counted(count as u64, "run");
    writeln!(out)?;
    line(out, "baseline", &format!("{} ({})", visible(&pair.baseline), runs(pair.runs[0])))?;
    line(out, "other", &format!("{} ({})", visible(&pair.other), runs(pair.runs[1])))?;
    line(out, "outcome", &visible(&pair.conclusion))?;
    if pair.runs == [1, 1] {
        let note = "one run each: what is proven is that these two runs differ, not that the \
                    systems do; repeat them";
        line(out, "note", note)?;
    }
    let is_shown = |row: &&Row| is_first(row, &pair.rows) || verbose && is_told(row);
    let mut subject = String::new();
    for row in pair.rows.iter().filter(is_shown) {
        let span = row.scope.span.map_or("throughput", |span| span.name());
        let this = format!("{span}, {}", kind_word(row.scope.kind));
        if this != subject {
            writeln!(out, "\n{this:<18}{:>11}{:>11} {:>8} between", "baseline", "other", "change")?;
            subject = this;
        }
        let (one, other) = (value(row, row.baseline), value(row, row.other));
        let (change, between) = (percent(row.ratio), interval(row.interval));
        let name = row.metric.name();
        let line = format!("  {name:<16}{one:>11}{other:>11} {change:>8} {between:<14}");
        writeln!(out, "{line}  {}", word(row.decision))?;
    }
    if let Some([one, other]) = pair.drain_percent {
        let [one, other] = [one, other].map(drained);
        let name = "drain";
        writeln!(out, "\n{name:<18}{one:>11}{other:>11} {:>8} {:<14}  not judged", "–", "–")?;
    }
    if !verbose {
        let text = "-v tells all spans and operations, where they differ most, and over time";
        writeln!(out)?;
        return line(out, "more", text);
    }
    let worse: Vec<&Row> =
        pair.worst.iter().filter(|row| row.decision == Decision::Worse).collect();
    if !worse.is_empty() {
        writeln!(out, "\nworst first (response time; quarters of the run)")?;
    }
    for row in worse.iter().take(WORST_SHOWN) {
        let phase = row.scope.phase.map_or("whole".to_owned(), |phase| format!("{}/4", phase + 1));
        let size = row.scope.size.and_then(|size| SIZE_NAMES.get(size)).unwrap_or(&"any size");
        let what = format!("{} {} {size} {phase}", row.metric.name(), kind_word(row.scope.kind));
        let (one, other) = (value(row, row.baseline), value(row, row.other));
        let (change, between) = (percent(row.ratio), interval(row.interval));
        writeln!(out, "  {what:<30}{one:>12}{other:>12}{change:>11}  {between}")?;
    }
    if !pair.over_time.tracks.iter().all(|track| track.changes.is_empty()) {
        writeln!(out)?;
    }
    for track in pair.over_time.tracks.iter().filter(|track| !track.changes.is_empty()) {
        let levels: Vec<String> = track.levels.iter().map(|level| percent(*level)).collect();
        let at: Vec<String> = track.changes.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "over time     the change of {} goes {} at block {} of {}",
            track.metric.name(),
            levels.join(" → "),
            at.join(", "),
            comparison.blocks
        )?;
    }
    Ok(())
}

/// Whether a row is told at all. Lateness is never judged, so one row for all requests is enough.
fn is_told(row: &Row) -> bool {
    row.scope.span != Some(Span::Lateness) || row.scope.kind.is_none()
}

/// Whether a row is one of those that users ask for first: how long requests took from when they
/// were due (without a schedule: on the device), and how many there were.
fn is_first(row: &Row, rows: &[Row]) -> bool {
    let is_due = rows.iter().any(|row| row.scope.span == Some(Span::Response));
    let leading = if is_due { Span::Response } else { Span::Service };
    row.scope.kind.is_none() && [None, Some(leading)].contains(&row.scope.span)
}

pub(super) fn print_criteria(out: &mut impl Write, criteria: &[Outcome]) -> io::Result<()> {
    if !criteria.is_empty() {
        writeln!(out)?;
    }
    for outcome in criteria {
        let answer = match outcome.answer {
            Answer::Met => "FAILS: it is proven",
            Answer::NotMet => "passes: the contrary is proven",
            Answer::DoubtfullyMet => "in doubt: measured so, and not proven",
            Answer::DoubtfullyNotMet => "passes: not measured so, and the contrary is not proven",
            Answer::NothingMeasured => "FAILS: the runs have no such requests",
        };
        let ratio = outcome.ratio.map_or(String::new(), |ratio| {
            format!(" ({}, between {})", percent(ratio), interval(outcome.interval))
        });
        let other = visible(&outcome.other);
        writeln!(out, "criterion     {} of {other}: {answer}{ratio}", visible(&outcome.criterion))?;
    }
    Ok(())
}

fn value(row: &Row, value: f64) -> String {
    match row.scope.span {
        Some(_) => Nanos(value as i64).to_string(),
        None if row.metric.name() == "iops" => format!("{value:.1}/s"),
        None => format!("{}/s", Bytes(value as u64)),
    }
}

fn interval(interval: Option<[f64; 2]>) -> String {
    interval.map_or("–".to_owned(), |[low, high]| format!("{} … {}", percent(low), percent(high)))
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Worse => "worse",
        Decision::Better => "better",
        Decision::NotToldApart => "not told apart",
        Decision::TooFew => "too few",
        Decision::NotJudged => "not judged",
    }
}
