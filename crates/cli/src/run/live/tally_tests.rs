use ioecho_replay::plan::Planned;
use ioecho_trace::{Bytes, Flags, Measured, Op, Outcome, VolumeId};

use super::*;

const SECOND: i64 = 1_000_000_000;

pub(crate) fn record(completed: Option<i64>) -> Record {
    let submitted = completed.map(|at| Nanos(at - 1000));
    let outcome = if completed.is_some() { Outcome::Ok } else { Outcome::Unsupported };
    let planned = Planned {
        seq: 0,
        scheduled: submitted.unwrap_or_default(),
        issue: Nanos::ZERO,
        op: Op::Read,
        flags: Flags::empty(),
        trace_offset: Bytes(0),
        offset: Bytes(0),
        length: Bytes(4096),
        volume: VolumeId(0),
        latency: None,
        recorded_in_flight: 0,
        target: 0,
        origin: None,
        refusal: None,
        think: None,
        behind: 0,
        flow: 0,
        held: None,
    };
    let measured = Measured {
        submitted,
        completed: completed.map(Nanos),
        outcome,
        ..Measured::done(planned.scheduled, planned.scheduled, planned.scheduled)
    };
    Record { planned, measured }
}

struct Fixture {
    board: Arc<Board>,
    controls: Vec<Arc<Control>>,
    demand: Arc<Mutex<Demand>>,
}

impl Fixture {
    fn new() -> (Self, Tally) {
        let fixture = Self {
            board: Arc::new(Board::new(false, true)),
            controls: vec![Arc::default(), Arc::default()],
            demand: Arc::new(Mutex::new(Demand::with_intervals(Some(Nanos(SECOND))))),
        };
        let tally = Tally::new(Nanos(SECOND), fixture.controls.clone(), Arc::clone(&fixture.board))
            .with_demand(Arc::clone(&fixture.demand));
        (fixture, tally)
    }

    /// The closed intervals: number, end, requests, and whether it is partial.
    fn lines(&self) -> Vec<(u64, i64, u64, bool)> {
        self.board.end();
        std::iter::from_fn(|| self.board.next())
            .map(|line| (line.number, line.end.0, line.requests, line.partial))
            .collect()
    }
}

#[test]
fn a_request_counts_in_the_interval_in_which_it_completed() {
    let (fixture, mut tally) = Fixture::new();
    for at in [SECOND - 1, SECOND, 2 * SECOND + 5] {
        tally.add(&record(Some(at)));
    }
    tally.close_until(2 * SECOND - 1);
    tally.close_until(2 * SECOND);
    tally.finish();
    let expected =
        vec![(1, SECOND, 1, false), (2, 2 * SECOND, 1, false), (3, 2 * SECOND + 5, 1, true)];
    assert_eq!(fixture.lines(), expected);
}

#[test]
fn an_interval_in_which_nothing_happened_has_its_line_too() {
    let (fixture, mut tally) = Fixture::new();
    tally.add(&record(Some(5)));
    tally.close_until(3 * SECOND);
    tally.finish();
    let requests: Vec<u64> = fixture.lines().iter().map(|line| line.2).collect();
    assert_eq!(requests, [1, 0, 0]);
}

#[test]
fn a_gap_of_a_century_is_one_line() {
    let (fixture, mut tally) = Fixture::new();
    tally.add(&record(Some(5)));
    tally.close_until(SECOND);
    tally.add(&record(Some(i64::MAX - 5)));
    tally.close_until(i64::MAX - 5);
    tally.finish();
    let lines = fixture.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[2].1, i64::MAX - 5);
    assert_eq!(lines.iter().map(|line| line.2).sum::<u64>(), 2);
}

#[test]
fn what_comes_too_late_or_never_completed_counts_in_the_oldest_open_interval() {
    let (fixture, mut tally) = Fixture::new();
    tally.close_until(2 * SECOND);
    tally.add(&record(Some(5)));
    tally.add(&record(None));
    tally.close_until(3 * SECOND);
    tally.finish();
    let requests: Vec<u64> = fixture.lines().iter().map(|line| line.2).collect();
    assert_eq!(requests, [0, 0, 2]);
}

#[test]
fn lanes_far_apart_do_not_keep_any_number_of_intervals_open() {
    let (fixture, mut tally) = Fixture::new();
    for second in 0..1000 {
        tally.add(&record(Some(second * SECOND)));
        assert!(tally.open.len() <= OPEN_MAX + 1);
    }
    tally.add(&record(Some(0)));
    tally.finish();
    assert_eq!(fixture.lines().iter().map(|line| line.2).sum::<u64>(), 1001);
}

#[test]
fn the_clock_is_that_of_the_lane_furthest_behind_that_still_runs() {
    let (fixture, tally) = Fixture::new();
    fixture.controls[0].now_ns.store(7, Relaxed);
    fixture.controls[1].now_ns.store(3, Relaxed);
    assert_eq!(tally.clock(&[true, true]), Some(3));
    assert_eq!(tally.clock(&[true, false]), Some(7));
    assert_eq!(tally.clock(&[false, false]), None);
}

#[test]
fn demand_counts_where_it_falls_due() {
    let (fixture, mut tally) = Fixture::new();
    for at in [0, 1, SECOND, 5 * SECOND] {
        fixture.demand.lock().unwrap().add(at);
    }
    tally.close_until(3 * SECOND);
    fixture.controls[0].now_ns.store(5 * SECOND + 10, Relaxed);
    tally.finish();
    fixture.board.end();
    let demanded: Vec<_> =
        std::iter::from_fn(|| fixture.board.next()).map(|line| line.demanded.unwrap()).collect();
    assert_eq!(demanded, [2, 1, 0, 0, 0, 1]);
}

#[test]
fn a_run_of_nothing_has_no_line() {
    let (fixture, mut tally) = Fixture::new();
    tally.finish();
    assert!(fixture.lines().is_empty());
}
