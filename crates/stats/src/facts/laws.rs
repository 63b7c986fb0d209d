//! The laws of merging, on facts of which every field is drawn.

use std::collections::BTreeMap;

use ioecho_trace::{LateCause, VerifyMode};
use proptest::prelude::*;

use super::*;

/// Draws values from a seed, of every field and from few values, so that many are equal.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, by splitmix64 (Steele, Lea, Flood: *Fast splittable pseudorandom
    /// number generators*, 2014).
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// A counter; one of eight is as large as there are.
    fn count(&mut self) -> u64 {
        if self.below(8) == 0 { u64::MAX } else { self.below(100) }
    }

    /// A span of time, in either direction.
    fn span(&mut self) -> i64 {
        self.below(200) as i64 - 100
    }

    fn real(&mut self) -> f64 {
        self.below(9) as f64 / 4.0
    }

    pub(crate) fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    fn word(&mut self) -> String {
        ["", "none", "bfq", "mq-deadline"][self.below(4) as usize].to_owned()
    }

    fn maybe<T>(&mut self, value: fn(&mut Self) -> T) -> Option<T> {
        self.yes().then(|| value(self))
    }

    fn some<T>(&mut self, count: u64, value: fn(&mut Self) -> T) -> Vec<T> {
        (0..count).map(|_| value(self)).collect()
    }

    /// Facts of a run of one timing and speed.
    pub(crate) fn engine(&mut self) -> EngineFacts {
        let targets = 1 + self.below(3);
        EngineFacts {
            planned: self.count(),
            left_out: self.count(),
            wrapped: self.count(),
            wraparound_factor: self.maybe(Self::real),
            issued: self.count(),
            pushed_back: self.count(),
            dropped: self.count(),
            ordered: self.count(),
            in_flight_peak: self.below(9) as u32,
            waiting_peak: self.below(9) as u32,
            abandoned: self.count(),
            input_stalls: self.count(),
            host_stalls: self.count(),
            host_stall_max_ns: self.span(),
            slow_submissions: self.count(),
            submission_max_ns: self.span(),
            results_lost: self.count(),
            demanded_duration_ns: self.span(),
            incomplete: self.word(),
            ended_after: self.maybe(Self::ended_after),
            simulated: self.yes(),
            direct: self.yes(),
            memory: self.yes(),
            files: self.yes(),
            gone: self.yes(),
            file_io: self.maybe(Self::file_io),
            speedup: 2.0,
            server_speed: 1.0,
            timing: TimingMode::Load,
            targets: targets as u32,
            rounded: self.count(),
            unmapped: self.count(),
            copies: self.count(),
            substituted: self.count(),
            device_errors: self.count(),
            verify: self.maybe(Self::verify),
            empty_share: self.maybe(Self::real),
            in_flight_max: self.below(4) as u32,
            paced_rate_max: self.maybe(Self::real),
            demanded_rate_peak: self.real(),
            host: self.host(targets),
            load: self.load(targets),
            witness: self.maybe(Self::witness),
            flows: Vec::new(),
        }
    }

    fn ended_after(&mut self) -> EndedAfter {
        EndedAfter {
            after_ns: self.span(),
            not_issued: self.count(),
            behind_ns: self.span(),
            lateness_ns: self.below(99) as i64,
            cause: LateCause::ALL[self.below(10) as usize],
        }
    }

    fn file_io(&mut self) -> FileIo {
        FileIo {
            read_bytes: self.count(),
            fetched_bytes: self.maybe(Self::count),
            written_bytes: self.count(),
            unsynced_bytes: self.maybe(Self::count),
        }
    }

    fn verify(&mut self) -> VerifyFigures {
        VerifyFigures {
            mode: VerifyMode::ALL[self.below(5) as usize].into(),
            requests: self.count(),
            sectors: self.count(),
            intact_sectors: self.count(),
            unknown_sectors: self.count(),
            prepared_sectors: self.count(),
            doubtful_sectors: self.count(),
            prereads: self.count(),
            preread_bytes: self.count(),
            preread_ns: self.count(),
            damaged: BTreeMap::from([(self.word(), self.count())]),
            damaged_sectors: self.count(),
            unreadable_sectors: self.count(),
            unverifiable_sectors: self.count(),
            findings: self.count(),
            first_findings: self.some(2, Self::word),
            names: self.count(),
            damaged_names: BTreeMap::from([(self.word(), self.count())]),
        }
    }

    fn host(&mut self, targets: u64) -> HostFacts {
        let known = if self.yes() { targets } else { 0 };
        let device = |draw: &mut Self| DeviceFacts { name: draw.word(), ..DeviceFacts::default() };
        HostFacts {
            devices: self.some(known, device),
            clock: self.maybe(|draw| ClockFacts {
                source: draw.word(),
                source_after: draw.word(),
                samples: draw.count(),
                steps: draw.count(),
                step_max_ns: draw.span(),
                suspended_ns: draw.span(),
                slew_ppm: draw.maybe(|draw| draw.span() as f64),
                is_synchronised: draw.maybe(Self::yes),
            }),
            cpu: self.maybe(|draw| CpuFacts {
                processors: draw.count(),
                total_ns: draw.span(),
                stolen_ns: draw.span(),
                others_ns: draw.span(),
                others_by_tenth: draw.some(10, Self::count),
                waited_ns: draw.maybe(Self::span),
                governor: draw.word(),
                frequency_min_khz: draw.maybe(Self::count),
                frequency_max_khz: draw.maybe(Self::count),
                throttled: draw.maybe(Self::count),
                pressure_ns: draw.maybe(Self::count),
            }),
            recorder: self.maybe(|draw| RecorderFacts {
                room: draw.below(4),
                peak: draw.below(4),
                write_max_ns: draw.span(),
            }),
        }
    }

    fn load(&mut self, targets: u64) -> LoadFacts {
        let known = if self.yes() { targets } else { 0 };
        let target = |draw: &mut Self| TargetFacts { name: draw.word(), ..TargetFacts::default() };
        LoadFacts {
            targets: self.some(known, target),
            recording: self.maybe(|draw| Recording {
                requests: draw.count(),
                replayed: draw.maybe(Self::count),
                lost_by_recorder: draw.count(),
                unreadable: draw.count(),
                instants_guessed: draw.count(),
                left_out: draw.count(),
                unseen: draw.count(),
                places_guessed: draw.count(),
                latencies_guessed: draw.count(),
                otherwise_guessed: draw.count(),
                doubled: draw.count(),
                layered: draw.count(),
                queued: draw.count(),
                merged: draw.count(),
                damage: draw.maybe(Self::word),
                transforms: ["speed 2", "reverse"].map(str::to_owned)[..draw.below(3) as usize]
                    .to_vec(),
            }),
            size: self.maybe(|draw| SizeFacts {
                recorded_bytes: draw.below(4),
                target_bytes: draw.below(4),
                unknown: draw.below(4) as u32,
            }),
            fill_random_percent: self.maybe(|draw| draw.below(101) as u8),
            dedup: self.maybe(Self::real),
            rotational: self.maybe(Self::yes),
            generated: self.maybe(Self::yes),
        }
    }

    fn witness(&mut self) -> WitnessFacts {
        WitnessFacts {
            failure: self.word(),
            asked: self.count(),
            found: self.count(),
            split: self.count(),
            merged: self.count(),
            missing: self.count(),
            not_witnessed: self.count(),
            extra: self.count(),
            lost_events: self.count(),
            absolute: self.yes(),
            shift_ns: self.maybe(Self::span),
            issue_p50_ns: self.span(),
            issue_p99_ns: self.span(),
            issue_p999_ns: self.span(),
            issue_max_ns: self.span(),
            late: self.count(),
            held_back: self.count(),
            reordered: self.count(),
            reordered_held_back: self.count(),
            reordered_apart: self.count(),
            extent_mean: self.real(),
            in_flight_mean: self.maybe(Self::real),
        }
    }
}

fn merged(one: &EngineFacts, other: &EngineFacts) -> EngineFacts {
    let mut whole = one.clone();
    whole.merge(other).unwrap();
    whole
}

/// The same facts with every list in one order.
pub(crate) fn without_order(mut facts: EngineFacts) -> EngineFacts {
    facts.host.devices.sort_by(|a, b| (&a.name, &a.unknown).cmp(&(&b.name, &b.unknown)));
    facts.load.targets.sort_by(|a, b| a.name.cmp(&b.name));
    let mut reasons: Vec<&str> = facts.incomplete.split("; ").collect();
    reasons.sort_unstable();
    facts.incomplete = reasons.join("; ");
    if let Some(verify) = &mut facts.verify {
        verify.first_findings.sort();
    }
    facts
}

proptest! {
    #[test]
    fn it_does_not_matter_in_which_steps_runs_are_merged(seed: u64) {
        let draw = &mut Draw::new(seed);
        let (a, b, c) = (draw.engine(), draw.engine(), draw.engine());
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
    }

    #[test]
    fn the_order_of_runs_changes_nothing_but_that_of_lists(seed: u64) {
        let draw = &mut Draw::new(seed);
        let (a, b) = (draw.engine(), draw.engine());
        prop_assert_eq!(without_order(merged(&a, &b)), without_order(merged(&b, &a)));
    }

    #[test]
    fn a_target_keeps_its_place_whatever_is_known_of_those_before(seed: u64) {
        let draw = &mut Draw::new(seed);
        let (a, b) = (draw.engine(), draw.engine());
        let whole = merged(&a, &b);
        for number in 0..b.targets as usize {
            let place = a.targets as usize + number;
            let name = |engine: &EngineFacts, number: usize| {
                let device = engine.host.devices.get(number).map(|device| device.name.clone());
                let target = engine.load.targets.get(number).map(|target| target.name.clone());
                (device.unwrap_or_default(), target.unwrap_or_default())
            };
            prop_assert_eq!(name(&whole, place), name(&b, number));
        }
    }
}

#[test]
fn runs_of_another_timing_or_speed_are_no_parts_of_one_replay() {
    let run = Draw::new(1).engine();
    let mut whole = run.clone();
    let slower = EngineFacts { speedup: 1.0, ..run.clone() };
    assert_eq!(whole.merge(&slower), Err(Unlike));
    let timed = EngineFacts { timing: TimingMode::Timed, ..run.clone() };
    assert_eq!(whole.merge(&timed), Err(Unlike));
    assert_eq!(whole, run);
}

#[test]
fn what_differs_between_hosts_is_told_as_differing() {
    let on = |governor: &str, steps, room, peak| {
        let cpu = CpuFacts { governor: governor.to_owned(), ..CpuFacts::default() };
        let clock = ClockFacts { steps, ..ClockFacts::default() };
        let recorder = RecorderFacts { room, peak, write_max_ns: 1 };
        let host = HostFacts {
            clock: Some(clock),
            cpu: Some(cpu),
            recorder: Some(recorder),
            ..HostFacts::default()
        };
        EngineFacts { host, ..EngineFacts::default() }
    };
    let whole = merged(&on("powersave", 3, 1000, 100), &on("performance", 2, 10, 9)).host;
    assert_eq!(whole.cpu.unwrap().governor, "performance / powersave");
    assert_eq!(whole.clock.unwrap().steps, 3);
    assert_eq!(whole.recorder.map(|recorder| (recorder.room, recorder.peak)), Some((10, 9)));
}

#[test]
fn a_bound_on_the_delay_at_the_device_holds_for_all_requests_of_all_runs() {
    let seen = |p99, absolute, shift_ns| WitnessFacts {
        asked: 10,
        found: 10,
        absolute,
        shift_ns,
        issue_p99_ns: p99,
        ..WitnessFacts::default()
    };
    let parts = [seen(5, true, Some(40)), seen(30, false, Some(-9_000)), seen(7, true, None)];
    let mut whole = parts[0].clone();
    parts[1..].iter().for_each(|part| whole.merge(part));
    assert!(parts.iter().all(|part| part.delay_p99_ns() <= whole.delay_p99_ns()));
    assert_eq!((whole.found, whole.delay_p99_ns()), (30, 70));
}
