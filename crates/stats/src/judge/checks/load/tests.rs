//! The checks of the load on runs that are sound but for one thing.

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
    for check in all(&figures(), &facts).into_iter().chain([content(&figures(), &facts)]) {
        assert_eq!(check.grade, Grade::NotApplicable, "{check:?}");
        assert!(!check.measured.is_empty() && check.advice.is_empty(), "{check:?}");
    }
    let old = EngineFacts { empty_share: Some(0.5), ..EngineFacts::default() };
    assert_eq!(content(&figures(), &old).grade, Grade::Suspect);
    let empty = RunFigures::default();
    assert!(all(&empty, &facts).iter().all(|check| check.grade == Grade::NotApplicable));
}

#[test]
fn what_was_found_weighs_as_much_as_the_load_goes_there() {
    // The load goes to the first 100 MiB, half of them to each of the first two parts.
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
    // Without a size the furthest request tells that a device was no smaller, and no more.
    let by_extent = |factor| {
        let facts = EngineFacts { wraparound_factor: Some(factor), ..EngineFacts::default() };
        target_size(&facts).grade
    };
    assert_eq!((by_extent(1.0), by_extent(2.1)), (Grade::Pass, Grade::Suspect));
    assert_eq!(by_extent(0.1), Grade::NotApplicable);
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
    assert_eq!(grade_of(Recording { damage: Some("cut".to_owned()), ..clean }), Grade::Suspect);
}

fn recording_of(recording: Recording) -> Check {
    super::recording(&engine(LoadFacts { recording: Some(recording), ..LoadFacts::default() }))
}
