//! The engine's own state over time, for experts: blkreplay's verbosity graphics (manual, appendix
//! C.2), over time instead of over the number of the request.
//!
//! None of these is a figure of the device. They show how near the generator was to its limits.

use ioecho_stats::telemetry::{LevelOf, Of, Part, SpanOf, TelemetryFigures};

use super::span_name;
use crate::{Chart, Ink, Shape, Side, Stroke};

/// Every picture of the engine's own state, in the order of their names, including pictures without
/// figures.
pub fn all(figures: &TelemetryFigures) -> Vec<Chart> {
    vec![
        look_ahead(figures),
        waiting(figures),
        ahead(figures),
        submission(figures),
        completion(figures),
        input_stalls(figures),
        input_wait(figures),
        answer_wait(figures),
        results(figures),
        writes(figures),
    ]
}

fn chart(figures: &TelemetryFigures, name: &str, title: &str, side: Side, note: &str) -> Chart {
    let note = format!("{note}; in steps of {}", span_name(figures.step_ns()));
    Chart::new(name, title, Side::time(), side).note(&note)
}

fn requests() -> Side {
    // Linear, because the distance from zero matters most.
    Side { from: Some(0.0), ..Side::linear("requests", "requests") }
}

fn time() -> Side {
    Side::logarithmic("time", "ns")
}

/// The look-ahead: planned requests ready to be issued.
fn look_ahead(figures: &TelemetryFigures) -> Chart {
    let level = |level, of, name: &str| Shape::Series(figures.level(level, of, name));
    let note = "planned requests that are ready; at the load's end there are none left";
    chart(figures, "g50.submit_level", "Engine: look-ahead", requests(), note)
        .with(level(LevelOf::Input, Of::Mean, "ring, mean"), Ink::Pale, Stroke::Steps)
        .with(level(LevelOf::Input, Of::Min, "ring, least"), Ink::Nth(0), Stroke::Steps)
        .with(level(LevelOf::LookAhead, Of::Min, "scheduler, least"), Ink::Nth(1), Stroke::Steps)
}

/// Requests pushed back.
fn waiting(figures: &TelemetryFigures) -> Chart {
    let level = |of, name: &str| Shape::Series(figures.level(LevelOf::Waiting, of, name));
    let note = "due requests that wait for others that they overlap";
    chart(figures, "g51.pushback_level", "Engine: pushed back", requests(), note)
        .with(level(Of::Max, "most"), Ink::Pale, Stroke::Peaks)
        .with(level(Of::Mean, "mean"), Ink::PushedBack, Stroke::Steps)
}

/// The span of time that the look-ahead covers.
fn ahead(figures: &TelemetryFigures) -> Chart {
    let level = |of, name: &str| Shape::Series(figures.level(LevelOf::Ahead, of, name));
    let note = "from now to when the last request that the scheduler holds is due; nothing is \
                drawn where it is due already";
    chart(figures, "g52.submit_ahead", "Engine: reach of the look-ahead", time(), note)
        .with(level(Of::Mean, "mean"), Ink::Nth(0), Stroke::Steps)
        .with(level(Of::Min, "least"), Ink::Nth(1), Stroke::Dashed)
}

/// The time from when a request is due to its hand-over.
fn submission(figures: &TelemetryFigures) -> Chart {
    let span = |span, of, name: &str| Shape::Series(figures.span(span, of, name));
    let most = Of::Quantile(0.99);
    let note = "delay: from due to the system call, whatever held the request up; of it \
                preparation: from the decision to the call; behind it the call itself";
    chart(figures, "g53.submit_lag", "Engine: from due to handed over", time(), note)
        .with(span(SpanOf::Delay, Of::Max, "delay, longest"), Ink::Pale, Stroke::Peaks)
        .with(span(SpanOf::Delay, most, "delay, 99 %"), Ink::Nth(0), Stroke::Steps)
        .with(span(SpanOf::Preparation, most, "preparation, 99 %"), Ink::Nth(2), Stroke::Steps)
        .with(span(SpanOf::Submission, most, "system call, 99 %"), Ink::Nth(1), Stroke::Steps)
        .with(
            span(SpanOf::Submission, Of::Max, "system call, longest"),
            Ink::Nth(1),
            Stroke::Dashed,
        )
}

/// How long completions waited until the engine saw them.
fn completion(figures: &TelemetryFigures) -> Chart {
    let span = |of, name: &str| Shape::Series(figures.span(SpanOf::Unseen, of, name));
    let note = "no longer than this did completions lie unseen while the engine was busy; those \
                that woke it are not in it, for it cannot tell";
    chart(figures, "g54.answer_lag", "Engine: completions unseen", time(), note)
        .with(span(Of::Max, "longest"), Ink::Pale, Stroke::Peaks)
        .with(span(Of::Quantile(0.99), "99 %"), Ink::Nth(1), Stroke::Steps)
        .with(span(Of::Quantile(0.5), "median"), Ink::Nth(0), Stroke::Steps)
}

/// Waiting for input.
fn input_wait(figures: &TelemetryFigures) -> Chart {
    let side = Side { from: Some(0.0), to: Some(1.0), ..Side::linear("share of time", "%") };
    let note = "of the issuing threads' time: that in which there was no input";
    chart(figures, "g55.input_wait", "Engine: waiting for input", side, note).with(
        Shape::Series(figures.share(Part::Starved, "no input")),
        Ink::Nth(1),
        Stroke::Peaks,
    )
}

/// Requests that the engine received after they were due.
fn input_stalls(figures: &TelemetryFigures) -> Chart {
    let side = Side { from: Some(0.0), to: Some(1.0), ..Side::linear("stalls", "stalls") };
    let note = "requests that were due already when they were read";
    chart(figures, "g55.input_stalls", "Engine: input stalls", side, note).with(
        Shape::Series(figures.input_stalls("stalls")),
        Ink::Nth(3),
        Stroke::Peaks,
    )
}

/// Waiting for completions, and work.
fn answer_wait(figures: &TelemetryFigures) -> Chart {
    let share = |part, name: &str| Shape::Series(figures.share(part, name));
    let side = Side { from: Some(0.0), to: Some(100.0), ..Side::linear("share of time", "%") };
    let note = "of the issuing threads' time; blocked: everything due waited for a completion";
    chart(figures, "g56.answer_wait", "Engine: where its time went", side, note)
        .with(share(Part::Awaiting, "nothing due"), Ink::Pale, Stroke::Steps)
        .with(share(Part::Blocked, "blocked"), Ink::Nth(3), Stroke::Steps)
        .with(share(Part::Issuing, "issuing"), Ink::Nth(0), Stroke::Steps)
}

/// The ring of results.
fn results(figures: &TelemetryFigures) -> Chart {
    let level = |of, name: &str| Shape::Series(figures.level(LevelOf::Results, of, name));
    let note = "results that the writer's thread has not taken yet; what has no room is lost";
    chart(figures, "g57.result_level", "Engine: results waiting", requests(), note)
        .with(level(Of::Max, "most"), Ink::Pale, Stroke::Peaks)
        .with(level(Of::Mean, "mean"), Ink::Nth(0), Stroke::Steps)
}

/// The writer's stalls.
fn writes(figures: &TelemetryFigures) -> Chart {
    let note = "the longest that handing results to the system took the writer's thread";
    chart(figures, "g58.result_wait", "Writer: stalls", time(), note).with(
        Shape::Series(figures.write_max("longest")),
        Ink::Nth(0),
        Stroke::Peaks,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::telemetry::{Level, Line, Spans, Spent, VERSION};

    #[test]
    fn every_series_that_was_told_is_drawn_with_its_unit() {
        let level = Some(Level { min: 1, mean: 2.0, max: 3 });
        let spans = Spans { count: 1, sum_ns: 9, max_ns: 9, bins: vec![(8, 1)] };
        let mut figures = TelemetryFigures::default();
        figures.observe(&Line {
            version: VERSION,
            end_ns: 1_000,
            spent: Spent { issuing_ns: 1_000, ..Spent::default() },
            look_ahead: level,
            input: level,
            results: level,
            waiting: level,
            in_flight: level,
            ahead_ns: level,
            delay: spans.clone(),
            preparation: spans.clone(),
            submission: spans.clone(),
            unseen: spans,
            write_max_ns: Some(5),
            ..Line::default()
        });
        let charts = all(&figures);
        assert!(charts.iter().all(|chart| !chart.is_empty() && !chart.y.quantity.unit.is_empty()));
        assert!(charts.is_sorted_by(|a, b| a.name < b.name));
        assert!(all(&TelemetryFigures::default()).iter().all(Chart::is_empty));
    }
}
