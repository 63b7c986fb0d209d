//! Each check of the host, on facts with one fault each.

use ioecho_trace::{
    Batch, Bytes, Columns, Flags, LateCause, Measured, Nanos, Op, Outcome, Request, VerifyMode,
};

use super::device::merged_grade;
use super::*;
use crate::facts::{
    ClockFacts, CountedFacts, CpuFacts, DeviceFacts, HostFacts, LayerFacts, RecorderFacts,
};

/// Requests as they came from a run: kind, offset, length, in flight, how it ended.
fn figures(requests: &[(Op, u64, u64, u32)]) -> RunFigures {
    figures_of(requests, |_| {})
}

fn figures_of(requests: &[(Op, u64, u64, u32)], change: impl Fn(&mut Request)) -> RunFigures {
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    for &(op, offset, length, in_flight) in requests {
        let mut request = Request::new(Nanos::ZERO, op, Bytes(offset), Bytes(length));
        request.measured = Some(Measured {
            target_offset: Some(Bytes(offset)),
            in_flight,
            ..Measured::done(Nanos::ZERO, Nanos(1), Nanos(2))
        });
        change(&mut request);
        batch.push(&request);
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    figures
}

/// A thousand writes of 4 KiB that the device got unchanged.
fn writes() -> RunFigures {
    let requests: Vec<_> = (0..1000).map(|n| (Op::Write, n * 4096, 4096, 8)).collect();
    figures(&requests)
}

fn device() -> DeviceFacts {
    DeviceFacts {
        name: "sdx".to_owned(),
        scheduler: "none".to_owned(),
        scheduler_after: "none".to_owned(),
        queue_limit: Some(32),
        request_max: Some(64 << 10),
        request_max_hardware: Some(1 << 20),
        block: 4096,
        block_of: "sdx".to_owned(),
        write_cache: "write back".to_owned(),
        write_cache_after: "write back".to_owned(),
        counted: Some(CountedFacts {
            writes: 1000,
            write_bytes: 1000 * 4096,
            span_ns: 1_000_000_000,
            ..CountedFacts::default()
        }),
        ..DeviceFacts::default()
    }
}

fn counted() -> CountedFacts {
    device().counted.unwrap()
}

fn on(device: DeviceFacts) -> EngineFacts {
    let host = HostFacts { devices: vec![device], ..HostFacts::default() };
    EngineFacts { in_flight_max: 4096, host, ..EngineFacts::default() }
}

fn judged(figures: &RunFigures, engine: &EngineFacts, name: &str) -> (Grade, String) {
    let check = all(figures, engine).into_iter().find(|check| check.name == name).unwrap();
    assert_eq!(check.advice.is_empty(), check.grade <= Grade::Pass, "{check:?}");
    (check.grade, check.measured)
}

fn grade(figures: &RunFigures, engine: &EngineFacts, name: &str) -> Grade {
    judged(figures, engine, name).0
}

#[test]
fn a_run_of_which_nothing_was_looked_at_is_not_judged() {
    let checks = all(&writes(), &EngineFacts::default());
    assert!(checks.iter().all(|check| check.grade == Grade::NotApplicable), "{checks:#?}");
    let simulated = EngineFacts { simulated: true, ..on(device()) };
    let checks = all(&writes(), &simulated);
    assert!(checks.iter().all(|check| check.grade == Grade::NotApplicable), "{checks:#?}");
    let unknown = DeviceFacts { unknown: "no device (tmpfs)".to_owned(), ..DeviceFacts::default() };
    assert_eq!(
        judged(&writes(), &on(unknown), "other-load"),
        (Grade::NotApplicable, "no device (tmpfs)".to_owned())
    );
}

#[test]
fn a_device_that_got_the_load_as_it_is_passes() {
    let engine = on(device());
    for name in ["scheduler", "queue-depth", "other-load", "alignment"] {
        assert_eq!(grade(&writes(), &engine, name), Grade::Pass, "{name}");
    }
    assert_eq!(grade(&writes(), &engine, "durability"), Grade::NotApplicable);
}

#[test]
fn merges_are_the_loads_own_where_the_recording_has_as_many() {
    let with = |queued, merged| {
        let counted = CountedFacts { writes: 700, merges: 300, ..counted() };
        let mut engine = on(DeviceFacts { counted: Some(counted), ..device() });
        let recording = crate::facts::Recording { queued, merged, ..Default::default() };
        engine.load.recording = Some(recording);
        grade(&writes(), &engine, "scheduler")
    };
    assert_eq!((with(1000, 350), with(1000, 150)), (Grade::Pass, Grade::Pass));
    // Ten points more than recorded are a finding, and beyond that it is another load.
    assert_eq!((with(1000, 201), with(1000, 100)), (Grade::Pass, Grade::Suspect));
    assert_eq!(with(0, 0), Grade::Limited, "a recording that does not tell");
    assert_eq!(merged_grade(0.04, Some(0.0)), Grade::Limited);
    assert_eq!(
        (merged_grade(0.1, Some(0.0)), merged_grade(0.11, Some(0.0))),
        (Grade::Limited, Grade::Suspect)
    );
}

#[test]
fn flushes_are_no_pieces_of_requests_that_were_cut() {
    let mut requests: Vec<(Op, u64, u64, u32)> =
        (0..800).map(|n| (Op::Write, n << 20, 4096, 1)).collect();
    requests.extend((0..200).map(|_| (Op::Flush, 0, 0, 1)));
    let with = |writes, cache: &str| {
        let device = DeviceFacts {
            counted: Some(CountedFacts { writes, ..counted() }),
            write_cache: cache.to_owned(),
            write_cache_after: cache.to_owned(),
            ..device()
        };
        judged(&figures(&requests), &on(device), "scheduler").1
    };
    for (writes, cache, told) in [
        (1000, "write back", "800 requests became 800, 0 merged, cut 0 times"),
        (1003, "write back", "800 requests became 803, 0 merged, cut 3 times"),
        // The kernel sends no flush there.
        (800, "write through", "800 requests became 800, 0 merged, cut 0 times"),
        (1000, "write through", "800 requests became 1000, 0 merged, cut 200 times"),
    ] {
        let measured = with(writes, cache);
        assert!(measured.contains(told), "{cache}: {measured}");
    }
}

#[test]
fn merges_are_a_finding_above_one_percent_and_a_scheduler_that_delays_a_doubt() {
    let scheduler = |merges, name: &str| {
        let counted = CountedFacts { writes: 1000 - merges, merges, ..counted() };
        let name = name.to_owned();
        let device = DeviceFacts {
            scheduler: name.clone(),
            scheduler_after: name,
            counted: Some(counted),
            ..device()
        };
        grade(&writes(), &on(device), "scheduler")
    };
    assert_eq!(scheduler(10, "mq-deadline"), Grade::Pass);
    assert_eq!(scheduler(11, "none"), Grade::Limited);
    assert_eq!(scheduler(900, "none"), Grade::Limited);
    assert_eq!(scheduler(0, "bfq"), Grade::Suspect);
    let changed = DeviceFacts { scheduler_after: "mq-deadline".to_owned(), ..device() };
    assert_eq!(grade(&writes(), &on(changed), "scheduler"), Grade::Suspect);
}

#[test]
fn cuts_count_only_where_the_device_would_take_the_request_whole() {
    let large: Vec<_> = (0..1000).map(|n| (Op::Write, n << 20, 1 << 20, 1)).collect();
    let counted = CountedFacts { writes: 16_000, write_bytes: 1000 << 20, ..counted() };
    let cut = DeviceFacts { counted: Some(counted), ..device() };
    assert_eq!(grade(&figures(&large), &on(cut.clone()), "scheduler"), Grade::Suspect);
    let small = DeviceFacts { request_max_hardware: cut.request_max, ..cut };
    let (cut_by_the_device, measured) = judged(&figures(&large), &on(small.clone()), "scheduler");
    assert_eq!(cut_by_the_device, Grade::Pass);
    assert!(measured.contains("cut 15000 times at 64.0 KiB or less"), "{measured}");
    assert_eq!(judged(&figures(&large), &on(small), "other-load").0, Grade::Pass);
    // A few are a finding about the system.
    let few = |long| {
        let length = |n| if n < long { 1 << 20 } else { 4096 };
        let requests: Vec<_> = (0..1000).map(|n| (Op::Write, n << 20, length(n), 1)).collect();
        let writes = 1000 + long * 15;
        let write_bytes = (0..1000).map(length).sum();
        let counted = CountedFacts { writes, write_bytes, ..CountedFacts::default() };
        let device = DeviceFacts { counted: Some(counted), ..device() };
        grade(&figures(&requests), &on(device), "scheduler")
    };
    assert_eq!((few(0), few(1), few(7)), (Grade::Pass, Grade::Limited, Grade::Suspect));
}

#[test]
fn what_a_file_system_adds_to_a_file_is_no_cut() {
    let counted = CountedFacts { writes: 1016, ..counted() };
    let device = |is_file| DeviceFacts { is_file, counted: Some(counted), ..device() };
    let measured = |is_file| judged(&writes(), &on(device(is_file)), "scheduler").1;
    assert!(measured(false).contains("cut 16 times"), "{}", measured(false));
    let told = measured(true);
    assert!(told.contains("cut 0 times, 16 more of the file system or by its extents"), "{told}");
}

#[test]
fn a_full_queue_is_a_finding_with_a_schedule_and_a_doubt_without() {
    let deep: Vec<_> = (0..1000).map(|n| (Op::Read, n * 4096, 4096, 33)).collect();
    let timed = on(device());
    assert_eq!(grade(&figures(&deep), &timed, "queue-depth"), Grade::Limited);
    let afap = EngineFacts { timing: ioecho_trace::TimingMode::Afap, ..timed };
    assert_eq!(grade(&figures(&deep), &afap, "queue-depth"), Grade::Suspect);
    let deeper = DeviceFacts { queue_limit: Some(33), ..device() };
    let afap = EngineFacts { timing: ioecho_trace::TimingMode::Afap, ..on(deeper) };
    assert_eq!(grade(&figures(&deep), &afap, "queue-depth"), Grade::Pass);
}

#[test]
fn a_cap_below_the_queue_that_holds_requests_back_is_told() {
    let held = figures_of(&[(Op::Read, 0, 4096, 4)], |request| {
        let measured = request.measured.as_mut().unwrap();
        measured.submitted = Some(Nanos::from_millis(5));
        measured.completed = Some(Nanos::from_millis(6));
        measured.late_cause = LateCause::InFlightCap;
    });
    let capped = |in_flight_max| EngineFacts { in_flight_max, ..on(device()) };
    assert_eq!(grade(&held, &capped(4), "queue-depth"), Grade::Suspect);
    assert_eq!(grade(&held, &capped(4096), "queue-depth"), Grade::Limited);
    // If the device's number of places is unknown, a cap below the default counts as reached first.
    let unknown = |in_flight_max| EngineFacts {
        in_flight_max,
        ..on(DeviceFacts { queue_limit: None, ..device() })
    };
    assert_eq!(grade(&held, &unknown(4), "queue-depth"), Grade::Suspect);
    assert_eq!(grade(&held, &unknown(4096), "queue-depth"), Grade::Limited);
    let simulated = |cap| EngineFacts { simulated: true, ..capped(cap) };
    assert_eq!(grade(&held, &simulated(4), "queue-depth"), Grade::Suspect);
    assert_eq!(grade(&held, &simulated(4096), "queue-depth"), Grade::NotApplicable);
    let slow = |queue_limit| EngineFacts {
        slow_submissions: 1000,
        ..on(DeviceFacts { queue_limit, ..device() })
    };
    assert_eq!(grade(&writes(), &slow(Some(8)), "queue-depth"), Grade::Limited);
    assert_eq!(grade(&writes(), &slow(None), "queue-depth"), Grade::Limited);
    assert_eq!(grade(&writes(), &slow(Some(9)), "queue-depth"), Grade::Pass);
}

#[test]
fn what_others_did_on_the_device_or_below_it_is_told() {
    let with = |counted: CountedFacts| {
        let engine = on(DeviceFacts { counted: Some(counted), ..device() });
        grade(&writes(), &engine, "other-load")
    };
    assert_eq!(with(CountedFacts { reads: 50, ..counted() }), Grade::Pass);
    assert_eq!(with(CountedFacts { reads: 150, ..counted() }), Grade::Suspect);
    assert_eq!(with(CountedFacts { reads: 5, read_bytes: 5 << 20, ..counted() }), Grade::Suspect);
    let below = |is_disk, bytes| {
        let counted = CountedFacts { read_bytes: bytes, ..counted() };
        let layer = LayerFacts { is_disk, counted: Some(counted), ..LayerFacts::default() };
        let engine = on(DeviceFacts { layers: vec![layer], ..device() });
        grade(&writes(), &engine, "other-load")
    };
    assert_eq!((below(true, 0), below(false, 1 << 20)), (Grade::Pass, Grade::Pass));
    assert_eq!((below(true, 5 << 20), below(false, 5 << 20)), (Grade::Suspect, Grade::Suspect));
}

#[test]
fn flushes_are_the_runs_own_also_where_the_kernel_counts_them_as_writes() {
    let mut requests: Vec<_> = (0..1000).map(|n| (Op::Write, n * 4096, 4096, 8)).collect();
    requests.extend((0..200).map(|_| (Op::Flush, 0, 0, 8)));
    let engine = on(DeviceFacts {
        counted: Some(CountedFacts { writes: 1200, flushes: 200, ..counted() }),
        ..device()
    });
    assert_eq!(grade(&figures(&requests), &engine, "other-load"), Grade::Pass);
    assert_eq!(grade(&writes(), &engine, "other-load"), Grade::Suspect);
}

#[test]
fn what_a_journal_below_writes_for_the_runs_flushes_is_the_runs_doing() {
    let mut requests: Vec<_> = (0..1000).map(|n| (Op::Write, n * 4096, 4096, 8)).collect();
    requests.extend((0..500).map(|_| (Op::Flush, 0, 0, 8)));
    let below = |write_bytes, is_below_file| {
        let counted = Some(CountedFacts { write_bytes, ..counted() });
        let layer = LayerFacts { is_below_file, counted, ..LayerFacts::default() };
        on(DeviceFacts {
            counted: Some(CountedFacts { writes: 1500, flushes: 500, ..self::counted() }),
            layers: vec![layer],
            ..device()
        })
    };
    let own = 1000 * 4096;
    let journal = 500 * (16 << 10);
    let of = |bytes| grade(&figures(&requests), &below(bytes, true), "other-load");
    assert_eq!((of(own + journal), of(own + journal + (9 << 20))), (Grade::Pass, Grade::Suspect));
    // Without flushes the file system has no reason to write its journal.
    assert_eq!(grade(&writes(), &below(own + journal, true), "other-load"), Grade::Suspect);
    // Below a stacked device there is no file system in between.
    let stacked = below(own + journal, false);
    assert_eq!(grade(&figures(&requests), &stacked, "other-load"), Grade::Suspect);
}

#[test]
fn what_checks_every_write_is_the_runs_own_and_what_was_lost_is_nobodys() {
    let reread = CountedFacts { reads: 1000, read_bytes: 1000 * 4096, ..counted() };
    let engine = on(DeviceFacts { counted: Some(reread), ..device() });
    assert_eq!(grade(&writes(), &engine, "other-load"), Grade::Suspect);
    let mode = VerifyMode::Paranoia.into();
    let verify = Some(crate::facts::VerifyFigures { mode, ..Default::default() });
    let engine = EngineFacts { verify, ..engine };
    assert_eq!(grade(&writes(), &engine, "other-load"), Grade::Pass);
    let lost = EngineFacts { results_lost: 1, ..on(device()) };
    assert_eq!(grade(&writes(), &lost, "other-load"), Grade::NotApplicable);
    assert_eq!(grade(&writes(), &lost, "scheduler"), Grade::NotApplicable);
}

#[test]
fn writes_that_are_no_whole_blocks_are_told_and_so_is_a_partition_that_begins_in_one() {
    let mut requests: Vec<_> = (0..990).map(|n| (Op::Write, n * 4096, 4096, 8)).collect();
    requests.extend((0..10).map(|n| (Op::Write, n * 4096 + 512, 4096, 8)));
    assert_eq!(grade(&figures(&requests), &on(device()), "alignment"), Grade::Pass);
    requests.push((Op::Write, 0, 512, 1));
    assert_eq!(grade(&figures(&requests), &on(device()), "alignment"), Grade::Limited);
    let fine = DeviceFacts { block: 512, ..device() };
    assert_eq!(grade(&figures(&requests), &on(fine), "alignment"), Grade::Pass);
    let shifted = DeviceFacts { partition_start: 63 * 512, ..device() };
    assert_eq!(grade(&writes(), &on(shifted), "alignment"), Grade::Suspect);
    let read = figures(&[(Op::Read, 512, 512, 1)]);
    assert_eq!(grade(&read, &on(device()), "alignment"), Grade::NotApplicable);
}

#[test]
fn a_flush_that_reaches_nothing_and_a_discard_that_cannot_be_done_are_told() {
    let flushed = figures(&[(Op::Write, 0, 4096, 1), (Op::Flush, 0, 0, 1)]);
    let with = |flushes, cache: &str, is_volatile| {
        let cache = cache.to_owned();
        grade(
            &flushed,
            &on(DeviceFacts {
                counted: Some(CountedFacts { flushes, ..counted() }),
                write_cache_after: cache.clone(),
                write_cache: cache,
                is_volatile,
                ..device()
            }),
            "durability",
        )
    };
    assert_eq!(with(1, "write back", None), Grade::Pass);
    assert_eq!(with(0, "write back", None), Grade::Suspect);
    assert_eq!(with(0, "write through", Some(false)), Grade::Pass);
    assert_eq!(with(0, "write through", Some(true)), Grade::Suspect);
    let refused = |writes: usize| {
        let mut loads = vec![(Op::Write, 0, 4096, 1); writes];
        loads.push((Op::Discard, 0, 4096, 1));
        figures_of(&loads, |request| {
            let measured = request.measured.as_mut().unwrap();
            if request.op == Op::Discard {
                (measured.submitted, measured.completed) = (None, None);
                measured.outcome = Outcome::Unsupported;
            }
        })
    };
    assert_eq!(grade(&refused(99), &on(device()), "durability"), Grade::Suspect);
    assert_eq!(grade(&refused(98), &on(device()), "durability"), Grade::Invalid);
    // It is told once.
    let issued = |engine: &EngineFacts| crate::judge::checks::issued(&refused(98), engine).grade;
    assert_eq!(issued(&on(device())), Grade::Pass);
    assert_eq!(issued(&EngineFacts { simulated: true, ..on(device()) }), Grade::Invalid);
    let forced = figures_of(&[(Op::Write, 0, 4096, 1)], |request| request.flags = Flags::FUA);
    let through_cache = DeviceFacts { fua: Some(true), ..device() };
    assert_eq!(grade(&forced, &on(through_cache), "durability"), Grade::Pass);
}

#[test]
fn a_clock_that_steps_sleeps_changes_or_runs_backwards_is_told() {
    let sound = ClockFacts {
        source: "tsc".to_owned(),
        source_after: "tsc".to_owned(),
        samples: 9,
        slew_ppm: Some(12.0),
        is_synchronised: Some(true),
        ..ClockFacts::default()
    };
    let with = |clock: ClockFacts| {
        let mut engine = on(device());
        engine.host.clock = Some(clock);
        grade(&writes(), &engine, "clock")
    };
    assert_eq!(with(sound.clone()), Grade::Pass);
    for wrong in [
        ClockFacts { steps: 1, step_max_ns: -3_600_000_000_000, ..sound.clone() },
        ClockFacts { suspended_ns: 1_000_000_000, ..sound.clone() },
        ClockFacts { source_after: "hpet".to_owned(), ..sound.clone() },
        ClockFacts {
            source: "acpi_pm".to_owned(),
            source_after: "acpi_pm".to_owned(),
            ..sound.clone()
        },
        ClockFacts { slew_ppm: Some(-1500.0), ..sound.clone() },
        ClockFacts { slew_ppm: Some(f64::NAN), ..sound },
    ] {
        assert_eq!(with(wrong.clone()), Grade::Suspect, "{wrong:?}");
    }
    let backwards = figures_of(&[(Op::Read, 0, 512, 1)], |request| {
        request.measured.as_mut().unwrap().completed = Some(Nanos::ZERO);
    });
    assert_eq!(grade(&backwards, &EngineFacts::default(), "clock"), Grade::Invalid);
}

#[test]
fn processors_that_others_take_that_get_hot_or_slow_are_told() {
    let sound = CpuFacts { processors: 2, total_ns: 1000, ..CpuFacts::default() };
    let with = |cpu: CpuFacts| {
        let mut engine = on(device());
        engine.host.cpu = Some(cpu);
        grade(&writes(), &engine, "cpu")
    };
    assert_eq!(with(sound.clone()), Grade::Pass);
    assert_eq!(with(CpuFacts { stolen_ns: 10, others_ns: 500, ..sound.clone() }), Grade::Pass);
    assert_eq!(with(CpuFacts { others_ns: -5, ..sound.clone() }), Grade::Pass);
    let frequencies = |low| CpuFacts {
        frequency_min_khz: Some(low),
        frequency_max_khz: Some(4_000_000),
        ..sound.clone()
    };
    assert_eq!(with(frequencies(3_000_000)), Grade::Pass);
    let one_look = CpuFacts { others_by_tenth: vec![99, 0, 0, 0, 1], ..sound.clone() };
    assert_eq!(with(one_look), Grade::Pass);
    for wrong in [
        CpuFacts { stolen_ns: 11, ..sound.clone() },
        CpuFacts { others_ns: 501, ..sound.clone() },
        CpuFacts { throttled: Some(1), ..sound.clone() },
        frequencies(2_900_000),
        // Quiet on average, but in use by others in two seconds of a hundred.
        CpuFacts { others_by_tenth: vec![98, 0, 0, 0, 1, 0, 0, 0, 0, 1], ..sound.clone() },
    ] {
        assert_eq!(with(wrong.clone()), Grade::Suspect, "{wrong:?}");
    }
}

#[test]
fn a_writer_that_hardly_keeps_up_is_told_and_one_that_loses_results_makes_the_run_invalid() {
    let with = |peak, results_lost| {
        let recorder = RecorderFacts { room: 100, peak, write_max_ns: 1 };
        let host = HostFacts { recorder: Some(recorder), ..HostFacts::default() };
        grade(&writes(), &EngineFacts { results_lost, host, ..EngineFacts::default() }, "recorder")
    };
    assert_eq!(with(50, 0), Grade::Pass);
    assert_eq!(with(51, 0), Grade::Suspect);
    assert_eq!(with(100, 1), Grade::Invalid);
}

#[test]
fn of_several_targets_the_worst_is_named() {
    let mut engine = on(device());
    let busy = CountedFacts { reads: 500, ..counted() };
    let other = DeviceFacts { name: "sdy".to_owned(), counted: Some(busy), ..device() };
    engine.host.devices.push(other);
    let (grade, measured) = judged(&writes(), &engine, "other-load");
    assert_eq!(grade, Grade::Suspect);
    assert!(measured.starts_with("sdy: "), "{measured}");
}
