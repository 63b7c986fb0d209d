//! A comparison for the terminal: the obstacles, the outcome, the figures.

use std::io::{self, Write};

use ioecho_stats::compare::{
    Answer, Comparison, Decision, Obstacle, Outcome, Pair, Row, SIZE_NAMES, kind_word, percent,
};
use ioecho_stats::headline::drained;
use ioecho_stats::picture::Span;
use ioecho_trace::{Bytes, Nanos};

use super::runs::Difference;
use crate::print::visible;

/// How many of the rows that became worse are shown, the worst first.
const WORST_SHOWN: usize = 10;
/// How many differing facts are shown.
const FACTS_SHOWN: usize = 12;

pub(super) fn print(
    out: &mut impl Write,
    comparison: &Comparison,
    obstacles: &[Obstacle],
    differences: &[Difference],
) -> io::Result<()> {
    for obstacle in obstacles {
        writeln!(out, "doubtful      {} ({})", visible(&obstacle.text), obstacle.name)?;
    }
    for difference in differences.iter().take(FACTS_SHOWN) {
        let values = difference.values.join(" · ");
        writeln!(out, "differs       {}: {}", visible(&difference.key), visible(&values))?;
    }
    if differences.len() > FACTS_SHOWN {
        writeln!(out, "              and {} facts more (--json)", differences.len() - FACTS_SHOWN)?;
    }
    for pair in &comparison.pairs {
        print_pair(out, comparison, pair)?;
    }
    Ok(())
}

fn print_pair(out: &mut impl Write, comparison: &Comparison, pair: &Pair) -> io::Result<()> {
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    writeln!(out, "\nbaseline      {} ({})", visible(&pair.baseline), runs(pair.runs[0]))?;
    writeln!(out, "other         {} ({})", visible(&pair.other), runs(pair.runs[1]))?;
    writeln!(out, "outcome       {}", visible(&pair.conclusion))?;
    if pair.runs == [1, 1] {
        let note = "one run each: what is proven is that these two runs differ, not that the \
                    systems do; repeat them";
        writeln!(out, "note          {note}")?;
    }
    let mut subject = String::new();
    // Lateness is never judged, so one row for all requests is enough.
    let is_shown = |row: &&Row| row.scope.span != Some(Span::Lateness) || row.scope.kind.is_none();
    for row in pair.rows.iter().filter(is_shown) {
        let span = row.scope.span.map_or("throughput", |span| span.name());
        let this = format!("{span}, {}", kind_word(row.scope.kind));
        if this != subject {
            writeln!(
                out,
                "\n{this:<24}{:>12}{:>12}{:>11}  {:<20}",
                "baseline", "other", "change", "between"
            )?;
            subject = this;
        }
        let (one, other) = (value(row, row.baseline), value(row, row.other));
        let (change, between) = (percent(row.ratio), interval(row.interval));
        let name = row.metric.name();
        let line = format!("  {name:<22}{one:>12}{other:>12}{change:>11}  {between:<20}");
        writeln!(out, "{line}  {}", word(row.decision))?;
    }
    if let Some([one, other]) = pair.drain_percent {
        let [one, other] = [one, other].map(drained);
        let name = "drain";
        writeln!(out, "\n{name:<24}{one:>12}{other:>12}{:>11}  {:<20}  not judged", "–", "–")?;
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
        Decision::TooFew => "too little to judge",
        Decision::NotJudged => "not judged",
    }
}
