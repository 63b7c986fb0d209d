//! The figures on the panels, held against a recount of the requests that they are made of.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use ioecho_replay::Record;
use ioecho_replay::engine::Control;
use ioecho_run::observer::{Counter, Demand};
use ioecho_stats::facts::EngineFacts;
use ioecho_stats::run_summary::RunFigures;
use ioecho_trace::{LateCause, Outcome};

use super::tests::drawn;
use super::*;
use crate::run::live::board::Board;
use crate::run::live::tally::tests::record;
use crate::run::live::tally::{Portrait, Tally};

const SECOND: i64 = 1_000_000_000;

/// Six thousand requests in four seconds. Some fail, some are not issued, and some are late. The
/// last of four seconds has twice as many as the others.
fn requests() -> Vec<Record> {
    let mut number = 12_345_u64;
    let mut random = |below: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((number >> 33) % below) as i64
    };
    let due =
        (0..6000_i64).map(|n| if n < 3000 { n * 1_000_000 } else { n * 333_000 + 2 * SECOND });
    due.enumerate()
        .map(|(n, due)| {
            let late = if n % 50 == 0 { 3_000_000 + random(5_000_000) } else { random(20_000) };
            let submitted = due + late;
            let mut record = record(Some(submitted + 30_000 + random(900_000)));
            (record.planned.seq, record.planned.scheduled) = (n as u64, Nanos(due));
            let measured = &mut record.measured;
            (measured.scheduled, measured.submitted) = (Nanos(due), Some(Nanos(submitted)));
            measured.in_flight = 1 + random(30) as u32;
            if n % 50 == 0 {
                measured.late_cause = LateCause::Conflict;
            }
            if n % 400 == 7 {
                measured.outcome = Outcome::Error(5);
            }
            record
        })
        .collect()
}

/// The panels after these requests, in the first four seconds.
fn panels(requests: &[Record]) -> String {
    let board = Arc::new(Board::new(false, false));
    let control = Arc::<Control>::default();
    control.in_flight.store(7, Relaxed);
    let figures = Arc::<Mutex<RunFigures>>::default();
    let demand = Arc::new(Mutex::new(Demand::with_intervals(Some(Nanos(SECOND)))));
    for request in requests {
        demand.lock().unwrap().add(request.planned.scheduled.0);
    }
    let mut tally = Tally::new(Nanos(SECOND), vec![control], Arc::clone(&board))
        .with_demand(demand)
        .with_portrait(Portrait::new(Arc::clone(&figures)));
    for request in requests {
        tally.add(request);
    }
    tally.close_until(4 * SECOND);
    let engine = EngineFacts { speedup: 1.0, ..EngineFacts::default() };
    let summary = figures.lock().unwrap().clone().summary(engine);
    drawn(&Scene::at(&board.look(), &summary, "load → device", None), 100, 32)
}

/// The percentiles in the row of this name: of the last interval, then of all.
fn row(text: &str, name: &str) -> Vec<String> {
    let row = text.lines().rfind(|line| line.starts_with(name)).unwrap();
    let cells: Vec<char> = row.chars().skip(14).collect();
    cells.chunks(9).map(|cell| cell.iter().collect::<String>().trim().to_owned()).collect()
}

fn nanoseconds(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap();
    let scale = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    number.parse::<f64>().unwrap() * scale.iter().find(|(known, _)| *known == unit).unwrap().1
}

/// Median, 99th and 99.9th percentile, where ten lie beyond, and the maximum.
fn counted(mut spans: Vec<i64>) -> [Option<f64>; 4] {
    spans.sort_unstable();
    let at = |share: f64| {
        let rank = (spans.len() as f64 * share).ceil() as usize;
        let is_known = spans.len() as f64 * (1.0 - share) >= 9.999 || share < 0.6;
        is_known.then(|| spans[rank - 1] as f64)
    };
    [at(0.5), at(0.99), at(0.999), spans.last().map(|most| *most as f64)]
}

fn hold(place: &str, told: &[String], spans: Vec<i64>) {
    for (told, true_ns) in told.iter().zip(counted(spans)) {
        match true_ns {
            None => assert_eq!(told, "-", "{place}"),
            Some(ns) => {
                let off = nanoseconds(told) / ns - 1.0;
                assert!((-0.006..0.007).contains(&off), "{place}: {told} for {ns} ns");
            }
        }
    }
}

#[test]
fn what_the_panels_say_is_what_a_recount_of_the_requests_says() {
    let requests = requests();
    let text = panels(&requests);
    let completed = |request: &&Record| request.measured.completed.unwrap().0;
    let known: Vec<&Record> = requests.iter().filter(|it| completed(it) < 4 * SECOND).collect();
    let last: Vec<&Record> =
        known.iter().copied().filter(|it| completed(it) >= 3 * SECOND).collect();
    let is_done = |request: &&&Record| request.measured.outcome == Outcome::Ok;
    let done = |of: &[&Record]| of.iter().filter(is_done).count();
    let lateness = |it: &Record| it.measured.submitted.unwrap().0 - it.measured.scheduled.0;
    let late = known.iter().filter(|it| lateness(it) > 1_000_000).count();
    let head =
        format!("4 s · {} done, {} failed, {late} late", done(&known), known.len() - done(&known));
    assert!(text.contains(&head), "{head}: {text}");
    let due =
        requests.iter().filter(|it| (3 * SECOND..4 * SECOND).contains(&it.planned.scheduled.0));
    let rates = format!("due {}/s, done {}/s", due.count(), done(&last));
    assert!(text.contains(&rates), "{rates}: {text}");
    let most = known.iter().map(|it| it.measured.in_flight).max().unwrap();
    assert!(text.contains(&format!("in flight 7 · most {most}")), "{most}: {text}");
    let latest = known.iter().map(|it| lateness(it)).max().unwrap();
    let told = format!("lateness · most {}", Nanos(latest));
    assert!(text.contains(&told), "{told}: {text}");
    let service = |it: &Record| it.measured.completed.unwrap().0 - it.measured.submitted.unwrap().0;
    let response = |it: &Record| it.measured.completed.unwrap().0 - it.measured.scheduled.0;
    let of = |of: &[&Record], span: &dyn Fn(&Record) -> i64| {
        of.iter().filter(is_done).map(|it| span(it)).collect::<Vec<_>>()
    };
    let all = |of: &[&Record]| of.iter().map(|it| lateness(it)).collect::<Vec<_>>();
    let [services, responses, latenesses] =
        ["service time", "response time", "lateness"].map(|name| row(&text, name));
    hold("service, last", &services[..4], of(&last, &service));
    hold("service, all", &services[4..], of(&known, &service));
    hold("response, last", &responses[..4], of(&last, &response));
    hold("response, all", &responses[4..], of(&known, &response));
    hold("lateness, last", &latenesses[..4], all(&last));
    hold("lateness, all", &latenesses[4..], all(&known));
}
