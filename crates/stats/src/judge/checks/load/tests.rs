//! The checks of the load, on runs with one fault each.

use ioecho_trace::{Batch, Columns, Nanos, Op, Request};

use super::*;
use crate::facts::{Cache, LoadFacts, Recording, SizeFacts, TargetFacts};
use crate::load_figures::tests::request;

/// A run of 100 writes of 4 KiB, one MiB apart.
fn figures() -> RunFigures {
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    for n in 0..100 {
        let at = Nanos::from_millis(n);
        let one: Request = request(Op::Write, at, (n as u64) << 20, 4096, Nanos::from_micros(100));
        batch.push(&one);
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    figures
}

fn engine(load: LoadFacts) -> EngineFacts {
    EngineFacts { direct: true, load, ..EngineFacts::default() }
}

fn with_target(target: TargetFacts) -> EngineFacts {
    engine(LoadFacts { targets: vec![target], ..LoadFacts::default() })
}

#[test]
fn a_run_of_which_nothing_was_gathered_is_not_judged_by_it() {
    let facts = EngineFacts::default();
    for check in all(&figures(), &facts, None).into_iter().chain([content(&figures(), &facts)]) {
        assert_eq!(check.grade, Grade::NotApplicable, "{check:?}");
        assert!(!check.measured.is_empty() && check.advice.is_empty(), "{check:?}");
    }
    let old = EngineFacts { empty_share: Some(0.5), ..EngineFacts::default() };
    assert_eq!(content(&figures(), &old).grade, Grade::Suspect);
    let empty = RunFigures::default();
    assert!(all(&empty, &facts, None).iter().all(|check| check.grade == Grade::NotApplicable));
}

#[test]
fn what_was_found_weighs_as_much_as_the_load_goes_there() {
    // The load is on the first 100 MiB, half of it on each of the first two parts.
    let content_of = |parts: &[(f64, f64)]| {
        let facts = ContentFacts {
            samples: 1000,
            never_written: Some(0.9),
            part: 50 << 20,
            parts: parts.iter().copied().map(Some).collect(),
            ..ContentFacts::default()
        };
        let target = TargetFacts { content: Some(facts), ..TargetFacts::default() };
        content(&figures(), &with_target(target))
    };
    assert_eq!(content_of(&[(0.0, 0.0), (0.0, 0.0), (1.0, 0.0)]).grade, Grade::Pass);
    let holes = content_of(&[(1.0, 0.0), (0.0, 0.0), (0.0, 1.0)]);
    assert_eq!((holes.grade, holes.advice.as_str()), (Grade::Suspect, NEVER_WRITTEN));
    assert!(holes.measured.contains("50 % was never written"), "{holes:?}");
    let zeroes = content_of(&[(0.0, 0.2), (0.0, 0.2), (1.0, 0.0)]);
    assert_eq!((zeroes.grade, zeroes.advice.as_str()), (Grade::Suspect, ZEROES));
}

#[test]
fn data_of_an_earlier_replay_are_told() {
    let told = |replayed| {
        let facts = ContentFacts { samples: 1000, replayed, ..ContentFacts::default() };
        let target = TargetFacts { content: Some(facts), ..TargetFacts::default() };
        content(&figures(), &with_target(target))
    };
    assert_eq!(told(0.3).grade, Grade::Pass);
    assert!(told(0.3).measured.ends_with("; earlier replays wrote 30 % of the target"));
    assert!(!told(0.0).measured.contains("earlier"));
}

#[test]
fn places_that_were_asked_after_decide_even_on_a_target_that_was_prepared_elsewhere() {
    let content_of = |places_never_written| {
        let facts = ContentFacts {
            samples: 1000,
            never_written: Some(0.5),
            prepared: true,
            places: 100,
            places_never_written,
            ..ContentFacts::default()
        };
        let target = TargetFacts { content: Some(facts), ..TargetFacts::default() };
        content(&figures(), &with_target(target)).grade
    };
    assert_eq!((content_of(5), content_of(6)), (Grade::Pass, Grade::Suspect));
}

#[test]
fn a_block_that_an_old_prepare_left_does_not_hide_zeroes_where_the_load_goes() {
    let content_of = |places_zeroes| {
        let facts = ContentFacts {
            samples: 1000,
            zeroes: 0.94,
            prepared: true,
            places_read: 100,
            places_zeroes,
            ..ContentFacts::default()
        };
        let target = TargetFacts { content: Some(facts), ..TargetFacts::default() };
        content(&figures(), &with_target(target))
    };
    let zeroed = content_of(94);
    assert_eq!((zeroed.grade, zeroed.advice.as_str()), (Grade::Suspect, ZEROES));
    assert!(zeroed.measured.contains("94 % holds zeroes only"), "{zeroed:?}");
    // Filled where the load goes, and nowhere else.
    assert_eq!(content_of(0).grade, Grade::Pass);
}

#[test]
fn a_cache_that_holds_what_the_load_touches_is_suspect() {
    let cached = |bytes| {
        let cache = Cache { name: "a cache".to_owned(), bytes };
        let target = TargetFacts { caches: vec![cache], ..TargetFacts::default() };
        lower_cache(&figures(), &with_target(target)).grade
    };
    assert_eq!((cached(400 << 10), cached((400 << 10) - 1)), (Grade::Suspect, Grade::Pass));
    let why = "a virtual disk".to_owned();
    let target = TargetFacts { unknown_cache: Some(why), ..TargetFacts::default() };
    let check = lower_cache(&figures(), &with_target(target));
    assert!(check.measured.contains("a virtual disk"), "{check:?}");
}

#[test]
fn a_device_twice_as_large_passes_and_a_larger_one_does_not() {
    let sized = |recorded_bytes, target_bytes| {
        let size = Some(SizeFacts { recorded_bytes, target_bytes, unknown: 0 });
        target_size(&engine(LoadFacts { size, ..LoadFacts::default() })).grade
    };
    assert_eq!((sized(100, 200), sized(100, 50)), (Grade::Pass, Grade::Pass));
    assert_eq!((sized(100, 201), sized(100, 49)), (Grade::Suspect, Grade::Suspect));
    assert_eq!(sized(0, u64::MAX), Grade::Suspect);
    assert_eq!((sized(100, 9), sized(30 << 30, 1 << 20)), (Grade::Invalid, Grade::Invalid));
    // Without a rotating disk, more room makes no path shorter.
    let without_disks = |recorded_bytes, target_bytes| {
        let size = Some(SizeFacts { recorded_bytes, target_bytes, unknown: 0 });
        let rotational = Some(false);
        target_size(&engine(LoadFacts { size, rotational, ..LoadFacts::default() })).grade
    };
    assert_eq!((without_disks(100, 900), without_disks(100, 49)), (Grade::Pass, Grade::Suspect));
    // Without a known size, the furthest request only proves a least size of the device.
    let by_extent = |factor| {
        let facts = EngineFacts { wraparound_factor: Some(factor), ..EngineFacts::default() };
        target_size(&facts).grade
    };
    assert_eq!((by_extent(1.0), by_extent(2.1)), (Grade::Pass, Grade::Suspect));
    assert_eq!((by_extent(0.1), by_extent(11.0)), (Grade::NotApplicable, Grade::Invalid));
    // A generator's load has an area, and no device that it was recorded on.
    let load = LoadFacts { generated: Some(true), ..LoadFacts::default() };
    let made = EngineFacts { wraparound_factor: Some(11.0), ..engine(load) };
    assert_eq!(target_size(&made).grade, Grade::NotApplicable);
}

#[test]
fn data_that_shrink_are_suspect_only_where_something_shrinks_them() {
    let written = |random, dedup, layer: Option<&str>| {
        let target =
            TargetFacts { compressing: layer.map(str::to_owned), ..TargetFacts::default() };
        let load = LoadFacts {
            targets: vec![target],
            fill_random_percent: Some(random),
            dedup: Some(dedup),
            ..LoadFacts::default()
        };
        compression(&figures(), &engine(load)).grade
    };
    assert_eq!(written(50, 1.0, Some("zram0")), Grade::Suspect);
    assert_eq!(written(100, 2.0, Some("zram0")), Grade::Suspect);
    assert_eq!(written(100, 1.0, Some("zram0")), Grade::Pass);
    assert_eq!(written(50, 1.0, None), Grade::Pass);
}

#[test]
fn a_recording_may_lose_hardly_anything_and_guess_little() {
    let grade_of =
        |recording: Recording| recording_of(Recording { requests: 100_000, ..recording }).grade;
    let clean = Recording::default();
    assert_eq!(grade_of(clean.clone()), Grade::Pass);
    assert_eq!(grade_of(Recording { lost_by_recorder: 100, ..clean.clone() }), Grade::Pass);
    assert_eq!(grade_of(Recording { lost_by_recorder: 200, ..clean.clone() }), Grade::Suspect);
    assert_eq!(grade_of(Recording { instants_guessed: 1000, ..clean.clone() }), Grade::Pass);
    assert_eq!(grade_of(Recording { instants_guessed: 2000, ..clean.clone() }), Grade::Suspect);
    assert_eq!(grade_of(Recording { unreadable: u64::MAX, ..clean.clone() }), Grade::Suspect);
    assert_eq!(grade_of(Recording { left_out: 1000, ..clean.clone() }), Grade::Pass);
    assert_eq!(grade_of(Recording { left_out: 2000, ..clean.clone() }), Grade::Invalid);
    assert_eq!(grade_of(Recording { doubled: 2000, ..clean.clone() }), Grade::Suspect);
    assert_eq!(grade_of(Recording { layered: 1, ..clean.clone() }), Grade::Suspect);
    assert_eq!(grade_of(Recording { unseen: 1, ..clean.clone() }), Grade::Suspect);
    assert_eq!(grade_of(Recording { damage: Some("cut".to_owned()), ..clean }), Grade::Suspect);
}

#[test]
fn what_was_guessed_is_a_share_of_the_requests_that_it_is_among() {
    let guessed = Recording { requests: 500, instants_guessed: 500, ..Recording::default() };
    assert_eq!(recording_of(guessed).measured, "500 with guessed instants (100 %)");
    let lost = Recording { requests: 500, unreadable: 500, ..Recording::default() };
    assert_eq!(recording_of(lost).measured, "500 that could not be read (50 %)");
}

/// A run of 1000 requests, one each millisecond, with latencies of 1 ms in the recording and of
/// `micros` in the replay; the first is late for this cause, if one is given.
fn of_latency(micros: i64, late: Option<LateCause>) -> RunFigures {
    let columns = Columns { measured: true, latency: true, ..Columns::default() };
    let mut batch = Batch::new(columns);
    for n in 0..1000 {
        let (at, took) = (Nanos::from_millis(n), Nanos::from_micros(micros));
        let mut one: Request = request(Op::Read, at, 0, 4096, took);
        one.latency = Some(Nanos::from_millis(1));
        if let (0, Some(cause), Some(measured)) = (n, late, one.measured.as_mut()) {
            measured.submitted = Some(at + Nanos::from_millis(2));
            measured.late_cause = cause;
        }
        batch.push(&one);
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    figures
}

#[test]
fn the_number_in_flight_is_judged_where_schedule_and_device_decided_it() {
    let facts = EngineFacts { speedup: 1.0, ..EngineFacts::default() };
    let grade =
        |figures: &RunFigures, facts: &EngineFacts, blame| in_flight(figures, facts, blame).grade;
    let slow = of_latency(5000, None);
    assert_eq!(grade(&slow, &facts, None), Grade::Limited);
    assert_eq!(grade(&slow, &facts, Some(Finding::DeviceLimited)), Grade::Limited);
    assert_eq!(grade(&slow, &facts, Some(Finding::HostStalled)), Grade::NotApplicable);
    // What piles up is another load, and a faster device is none.
    assert_eq!(grade(&of_latency(11_000, None), &facts, None), Grade::Suspect);
    assert_eq!(grade(&of_latency(20, None), &facts, None), Grade::Limited);
    let load = EngineFacts { timing: TimingMode::Load, ..facts.clone() };
    assert_eq!(grade(&slow, &load, None), Grade::NotApplicable);
    let capped = of_latency(200, Some(LateCause::InFlightCap));
    let cap = EngineFacts { in_flight_max: 1, ..facts.clone() };
    assert_eq!(grade(&capped, &cap, None), Grade::NotApplicable);
}

#[test]
fn the_number_in_flight_knows_the_speed_and_believes_the_witness() {
    let facts = |speedup, seen: Option<f64>| {
        let witness = seen.map(|mean| crate::facts::WitnessFacts {
            found: 1000,
            in_flight_mean: Some(mean),
            ..Default::default()
        });
        EngineFacts { speedup, witness, ..EngineFacts::default() }
    };
    let of = |facts: &EngineFacts| in_flight(&of_latency(1000, None), facts, None);
    assert_eq!(of(&facts(1.0, None)).grade, Grade::Pass);
    let faster = of(&facts(4.0, None));
    assert!(faster.measured.contains("4.00 in the recording at this speed"), "{faster:?}");
    assert_eq!(faster.grade, Grade::Limited);
    let seen = of(&facts(1.0, Some(0.3)));
    assert!(seen.measured.contains("0.3 in flight, as a witness saw"), "{seen:?}");
    assert_eq!(seen.grade, Grade::Limited);
}

fn recording_of(recording: Recording) -> Check {
    super::recording(&engine(LoadFacts { recording: Some(recording), ..LoadFacts::default() }))
}

#[test]
fn guessed_latencies_count_as_guessed_instants_and_no_guess_is_called_none() {
    let latencies = |latencies_guessed| {
        recording_of(Recording { requests: 1_000, latencies_guessed, ..Recording::default() })
    };
    assert_eq!((latencies(10).grade, latencies(11).grade), (Grade::Pass, Grade::Suspect));
    assert!(latencies(11).measured.starts_with("11 with guessed latencies ("));
    assert_eq!(latencies(0).measured, "no request lost or guessed");
    let assumed = Recording { requests: 1_000, otherwise_guessed: 92, ..Recording::default() };
    let told = recording_of(assumed);
    assert_eq!((told.grade, told.measured.contains("other guesses: 92")), (Grade::Pass, true));
}

#[test]
fn of_a_part_of_a_trace_it_is_said_what_was_read_and_what_was_replayed() {
    let part = recording_of(Recording {
        requests: 8193,
        replayed: Some(1008),
        instants_guessed: 8193,
        ..Recording::default()
    });
    assert_eq!(
        part.measured,
        "of 8193 requests that were read, 1008 of them replayed: 8193 with guessed instants (100 %)"
    );
}

#[test]
fn nothing_is_said_of_the_recording_of_a_generated_load_unless_something_was_guessed() {
    let made = |otherwise_guessed| {
        let recording = Some(Recording { requests: 9, otherwise_guessed, ..Recording::default() });
        let load = LoadFacts { recording, generated: Some(true), ..LoadFacts::default() };
        super::recording(&engine(load)).grade
    };
    assert_eq!((made(0), made(1)), (Grade::NotApplicable, Grade::Pass));
}
