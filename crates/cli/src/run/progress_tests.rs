use std::sync::Mutex;

use ioecho_replay::engine::Control;
use ioecho_run::observer::{Demand, Moments};

use super::*;

/// The line at 90 s of the replay, a minute after the one before, with this lateness since.
fn after(lateness: &[i64], completed: u64) -> String {
    told(lateness, completed, false, (60, 60))
}

/// The same; in simulated time or not, and so many seconds of the replay, and here, after the one
/// before.
fn told(
    lateness: &[i64],
    completed: u64,
    simulated: bool,
    (passed, elapsed): (i64, u64),
) -> String {
    let control = Arc::<Control>::default();
    control.now_ns.store(90_000_000_000, Relaxed);
    control.in_flight.store(3, Relaxed);
    let mut demand = Demand::with_intervals(None);
    // A hundred for each second, of which 9000 have been due.
    (0..20_000).for_each(|n| demand.add(n * 10_000_000));
    let mut moments = Moments { completed, ..Moments::default() };
    for late in lateness {
        moments.lateness.record(Nanos(*late));
    }
    let meters = Meters {
        controls: vec![control],
        demand: Arc::new(Mutex::new(demand)),
        has_schedule: true,
        moments: Arc::new(Mutex::new(moments)),
        duration: Some(Nanos::from_secs(200)),
        simulated,
    };
    let now = now(&meters);
    let watched = Watched { meters, hidden: None };
    line(&watched, now, Nanos::from_secs(passed), Duration::from_secs(elapsed))
}

#[test]
fn the_line_counts_what_was_due_and_done_since_the_last_one() {
    assert_eq!(
        after(&[1_000, 2_000, 5_000_000], 6_000),
        "90 s of 200 s | due 150/s, done 100/s | late max 5.00 ms | in flight 3 | ETA 110 s"
    );
}

#[test]
fn a_percentile_of_lateness_needs_so_many_requests_that_it_is_one() {
    let mut lateness = vec![1_000; 999];
    lateness.push(70_000_000);
    assert!(after(&lateness, 1000).contains("| late p99 1.00 µs |"));
    assert!(after(&lateness[1..], 999).contains("| late max 70.0 ms |"));
    assert!(after(&[], 0).contains("| late p99 - |"));
}

#[test]
fn rates_in_simulated_time_are_those_of_the_replay_and_what_is_left_is_left_here() {
    assert_eq!(
        told(&[1_000], 6_000, true, (60, 6)),
        "90 s of 200 s | due 150/s, done 100/s | late max 1.00 µs | in flight 3 | ETA 11 s"
    );
}
