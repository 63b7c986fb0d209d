use ioecho_trace::{Bytes, Flags, Op, VolumeId};

use super::*;
use crate::conflict::Strong;
use crate::flow::{Admission, FlowConfig, Numbering};
use crate::plan::TimingMode;

/// A small language to tell a scheduler's story in.
struct Story {
    scheduler: Scheduler,
    submissions: Vec<Io>,
    records: Vec<Record>,
    next_seq: u64,
}

/// A request that is due at the start.
fn planned(op: Op, offset: u64, length: u64) -> Planned {
    Planned {
        seq: 0,
        scheduled: Nanos::ZERO,
        issue: Nanos::ZERO,
        op,
        flags: Flags::empty(),
        trace_offset: Bytes(offset),
        offset: Bytes(offset),
        length: Bytes(length),
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
    }
}

impl Story {
    fn new(config: Config) -> Self {
        let scheduler = Scheduler::new(config);
        Self { scheduler, submissions: Vec::new(), records: Vec::new(), next_seq: 0 }
    }

    fn offer(&mut self, at_us: i64, op: Op, offset: u64, length: u64) -> &mut Self {
        self.offer_after(&[], None, at_us, op, offset, length)
    }

    /// A request that waits for those of these numbers and then thinks for so many microseconds.
    fn offer_after(
        &mut self,
        parents: &[u64],
        think_us: Option<i64>,
        at_us: i64,
        op: Op,
        offset: u64,
        length: u64,
    ) -> &mut Self {
        let planned = Planned {
            seq: self.next_seq,
            scheduled: Nanos::from_micros(at_us),
            issue: Nanos::from_micros(at_us),
            think: think_us.map(Nanos::from_micros),
            ..planned(op, offset, length)
        };
        self.next_seq += 1;
        self.scheduler.offer_after(planned, parents);
        self
    }

    /// Steps to `at_us` while the requests numbered `done` complete; answers the numbers issued.
    fn step(&mut self, at_us: i64, done: &[u64]) -> (Vec<u64>, Wake) {
        self.step_after(LateCause::Host, at_us, done)
    }

    /// The same, where that was why nothing went out since the last step.
    fn step_after(&mut self, gap: LateCause, at_us: i64, done: &[u64]) -> (Vec<u64>, Wake) {
        let now = Nanos::from_micros(at_us);
        let completions: Vec<Completion> = done
            .iter()
            .map(|seq| {
                let submitted = self.submissions.iter().find(|s| s.request == *seq).unwrap();
                Completion {
                    tag: submitted.tag,
                    submitted: submitted.scheduled,
                    completed: now,
                    outcome: Outcome::Ok,
                    integrity: Integrity::Unchecked,
                }
            })
            .collect();
        let before = self.submissions.len();
        let mut new = Vec::new();
        let wake = self.scheduler.step(now, gap, &completions, &mut new, &mut self.records);
        self.submissions.extend(new);
        (self.submissions[before..].iter().map(|s| s.request).collect(), wake)
    }

    fn record(&self, seq: u64) -> Measured {
        self.records.iter().find(|r| r.planned.seq == seq).unwrap().measured
    }
}

fn config(conflicts: ConflictMode) -> Config {
    Config { conflicts, look_ahead: 64, waiting_max: 64, ..Config::with_in_flight_max(8) }
}

const K: u64 = 1024;

#[test]
fn nothing_is_issued_before_it_is_due() {
    let mut story = Story::new(config(ConflictMode::Partial));
    story.offer(10, Op::Read, 0, K).offer(20, Op::Read, 0, K);
    assert_eq!(story.step(9, &[]), (vec![], Wake::At(Nanos::from_micros(10))));
    assert_eq!(story.step(10, &[]), (vec![0], Wake::At(Nanos::from_micros(20))));
    assert_eq!(story.step(25, &[]), (vec![1], Wake::Input));
}

#[test]
fn a_request_that_overlaps_a_write_in_flight_waits_and_others_overtake_it() {
    let mut story = Story::new(config(ConflictMode::Partial));
    story.offer(0, Op::Write, 0, 4 * K).offer(1, Op::Read, 2 * K, K).offer(2, Op::Read, 8 * K, K);
    assert_eq!(story.step(5, &[]).0, [0, 2]);
    assert_eq!(story.step(500, &[0]).0, [1]);
    story.step(600, &[1]);
    let pushed = story.record(1);
    assert!(pushed.pushed_back);
    assert_eq!(pushed.late_cause, LateCause::Conflict);
    assert!(!story.record(0).pushed_back);
}

#[test]
fn a_request_that_overlaps_only_in_the_recording_is_not_pushed_back() {
    // blkreplay pushes the second write back although the first has long completed.
    let mut story = Story::new(config(ConflictMode::Partial));
    story.offer(0, Op::Write, 0, K).offer(1000, Op::Write, 0, K);
    story.step(0, &[]);
    story.step(500, &[0]);
    assert_eq!(story.step(1000, &[]).0, [1]);
    assert_eq!(story.scheduler.counts().pushed_back, 0);
}

#[test]
fn overlapping_writes_keep_their_order_though_the_first_waits_for_a_third() {
    // Story of blkreplay's inversion: W1 is pushed back behind W0; W2 overlaps W1 but not W0, and
    // was let through, so the older data ended on the device.
    let mut story = Story::new(config(ConflictMode::Partial));
    story.offer(0, Op::Write, 0, 4 * K).offer(1, Op::Write, 3 * K, 4 * K).offer(
        2,
        Op::Write,
        6 * K,
        K,
    );
    assert_eq!(story.step(10, &[]).0, [0]);
    assert_eq!(story.step(20, &[0]).0, [1]);
    assert_eq!(story.step(30, &[1]).0, [2]);
}

#[test]
fn two_readers_of_one_place_wait_for_the_writer_and_then_go_together() {
    let mut story = Story::new(config(ConflictMode::Partial));
    story.offer(0, Op::Write, 0, K).offer(1, Op::Read, 0, K).offer(2, Op::Read, 0, K);
    assert_eq!(story.step(10, &[]).0, [0]);
    assert_eq!(story.step(20, &[0]).0, [1, 2]);
}

#[test]
fn a_conflicting_request_is_dropped_and_accounted_for() {
    let mut story = Story::new(config(ConflictMode::Drop));
    story.offer(0, Op::Write, 0, K).offer(1, Op::Write, 0, K);
    assert_eq!(story.step(10, &[]).0, [0]);
    assert_eq!(story.record(1).outcome, Outcome::Dropped);
    assert_eq!(story.scheduler.counts().dropped, 1);
}

#[test]
fn in_ordering_mode_nothing_overtakes_a_blocked_request() {
    let mut story = Story::new(config(ConflictMode::Ordering));
    story.offer(0, Op::Write, 0, K).offer(1, Op::Write, 0, K).offer(2, Op::Read, 8 * K, K);
    assert_eq!(story.step(10, &[]), (vec![0], Wake::Completion));
    assert_eq!(story.step(20, &[0]).0, [1, 2]);
    assert_eq!(story.scheduler.counts().ordered, 1);
}

#[test]
fn in_allow_mode_conflicts_race() {
    let mut story = Story::new(config(ConflictMode::Allow));
    story.offer(0, Op::Write, 0, K).offer(1, Op::Write, 0, K);
    assert_eq!(story.step(10, &[]).0, [0, 1]);
}

#[test]
fn beyond_the_cap_requests_wait_for_a_place_and_the_device_is_to_blame() {
    let mut story = Story::new(Config { in_flight_max: 2, ..config(ConflictMode::Partial) });
    for n in 0..3 {
        story.offer(0, Op::Read, n * K, K);
    }
    assert_eq!(story.step(0, &[]), (vec![0, 1], Wake::Completion));
    assert_eq!(story.step(900, &[0]).0, [2]);
    story.step(950, &[1, 2]);
    assert_eq!(story.record(2).late_cause, LateCause::InFlightCap);
    assert_eq!(story.record(2).in_flight, 2);
}

#[test]
fn lateness_that_nothing_explains_is_blamed_on_whatever_kept_the_engine_away() {
    let mut story = Story::new(config(ConflictMode::Partial));
    story.offer(0, Op::Read, 0, K).offer(1000, Op::Read, K, K);
    story.step(0, &[]);
    story.step(5000, &[0]);
    story.step(5100, &[1]);
    assert_eq!(story.record(0).late_cause, LateCause::None);
    assert_eq!(story.record(1).late_cause, LateCause::Host);
}

#[test]
fn a_flush_conflicts_with_nothing() {
    let mut story = Story::new(Config { strong: Strong::All, ..config(ConflictMode::Partial) });
    story.offer(0, Op::Write, 0, K).offer(0, Op::Flush, 0, 0).offer(0, Op::Flush, 0, 0);
    assert_eq!(story.step(0, &[]).0, [0, 1, 2]);
}

#[test]
fn under_ordering_every_request_that_holds_up_others_is_counted_once() {
    let mut story = Story::new(config(ConflictMode::Ordering));
    for _ in 0..3 {
        story.offer(0, Op::Write, 0, K);
    }
    assert_eq!(story.step(0, &[]).0, [0]);
    assert_eq!(story.step(1, &[]).0, [0; 0]);
    assert_eq!(story.step(2, &[0]).0, [1]);
    assert_eq!(story.step(3, &[1]).0, [2]);
    assert_eq!(story.scheduler.counts().ordered, 2);
}

#[test]
fn at_the_end_what_is_in_flight_is_abandoned_and_what_waits_was_never_issued() {
    let mut story = Story::new(config(ConflictMode::Partial));
    story.offer(0, Op::Write, 0, K).offer(0, Op::Write, 0, K);
    story.step(0, &[]);
    story.scheduler.abandon(&mut story.records);
    let outcomes = story.records.iter().map(|r| (r.planned.seq, r.measured.outcome));
    assert_eq!(outcomes.collect::<Vec<_>>(), [(0, Outcome::Abandoned)]);
}

/// Steps to every `at_us` with the cause of the time before it, with a request offered before the
/// last step that was due at 1 ms; answers its cause.
fn blamed(steps: &[(i64, LateCause)]) -> LateCause {
    let mut story = Story::new(config(ConflictMode::Partial));
    story.step(0, &[]);
    let (last, before) = steps.split_last().unwrap();
    for (at, cause) in before {
        story.step_after(*cause, *at, &[]);
    }
    story.offer(1000, Op::Read, 0, K);
    assert_eq!(story.step_after(last.1, last.0, &[]).0, [0]);
    story.step(last.0 + 1, &[0]);
    story.record(0).late_cause
}

#[test]
fn who_comes_late_is_laid_to_what_took_most_of_its_delay() {
    use LateCause::{Backlog, Host, Input, Submission};
    // It fell due in a stall, and the look-ahead had no room for it until later.
    assert_eq!(blamed(&[(12_000, Submission), (12_050, Host), (12_090, Host)]), Submission);
    assert_eq!(blamed(&[(12_000, Host), (13_000, Submission), (13_090, Host)]), Host);
    assert_eq!(blamed(&[(2_000, Host), (13_000, Submission), (13_090, Host)]), Submission);
    // Causes that ended before it fell due do not count.
    assert_eq!(blamed(&[(1_000, Submission), (1_500, Input), (1_600, Host)]), Input);
    assert_eq!(blamed(&[(5_000, Backlog), (5_090, Input), (5_100, Host)]), Backlog);
    assert_eq!(blamed(&[(1_000, Host), (9_000, Host)]), Host);
}

#[test]
fn who_was_there_all_the_time_and_did_not_come_to_it_was_busy() {
    let steps: Vec<_> = (1..40).map(|step| (900 + step * 50, LateCause::Host)).collect();
    assert_eq!(blamed(&steps), LateCause::Generator);
}

#[test]
fn a_generator_that_makes_up_for_a_stall_is_not_to_blame_and_one_that_falls_behind_is() {
    // A request each 100 us. The host stands still for 10 ms; from then on the trace is read in
    // turns of a millisecond, of which each brings so many requests.
    let causes = |brought: i64| {
        let config = Config { look_ahead: 64, ..Config::with_in_flight_max(4096) };
        let mut story = Story::new(config);
        let mut issued = Vec::new();
        let (mut due, mut cause) = (0, LateCause::Host);
        for turn in 0..18 {
            for _ in 0..brought {
                story.offer(due, Op::Read, due as u64 * K, K);
                due += 100;
            }
            issued.extend(story.step_after(cause, 10_000 + turn * 1000, &[]).0);
            cause = LateCause::Input;
        }
        story.step(60_000, &issued);
        let late = story.records.iter().map(|record| record.measured.late_cause);
        let count = |cause| late.clone().filter(|of| *of == cause).count();
        (count(LateCause::Host), count(LateCause::Input))
    };
    let (host, input) = causes(15);
    assert!(host > 200 && input == 0, "{host} laid to the host, {input} to the input");
    let (host, input) = causes(5);
    assert!(input > 40, "{host} laid to the host, {input} to the input");
}

fn chained(conflicts: ConflictMode) -> Story {
    Story::new(Config { timing: TimingMode::Dependency, ..config(conflicts) })
}

impl Story {
    /// A read of a place of its own.
    fn read_after(&mut self, parents: &[u64], think_us: Option<i64>, at_us: i64) -> &mut Self {
        let place = self.next_seq * K;
        self.offer_after(parents, think_us, at_us, Op::Read, place, K)
    }
}

#[test]
fn a_request_waits_for_the_last_of_its_parents_and_thinks_then() {
    let mut story = chained(ConflictMode::Partial);
    story.read_after(&[], None, 0).read_after(&[], None, 5).read_after(&[0, 1], Some(30), 7);
    assert_eq!(story.step(0, &[]).0, [0]);
    assert_eq!(story.step(5, &[]).0, [1]);
    assert_eq!(story.step(40, &[1]), (vec![], Wake::Input));
    assert_eq!(story.step(90, &[0]), (vec![], Wake::At(Nanos::from_micros(120))));
    assert_eq!(story.step(120, &[]).0, [2]);
    story.step(130, &[2]);
    assert_eq!(story.record(2).scheduled, Nanos::from_micros(120));
    assert_eq!(story.record(2).late_cause, LateCause::None);
}

#[test]
fn what_waits_is_found_by_number_until_it_is_due() {
    let mut story = chained(ConflictMode::Partial);
    story.read_after(&[], None, 0).read_after(&[0], Some(10), 7).read_after(&[0], Some(30), 7);
    let held = |story: &Story, after| story.scheduler.planned_after(after).map(|held| held.seq);
    assert_eq!((held(&story, None), held(&story, Some(0))), (Some(0), Some(1)));
    assert_eq!(story.step(0, &[]).0, [0]);
    assert_eq!(held(&story, None), Some(1), "what was issued needs no draft");
    story.step(20, &[0]);
    assert_eq!(story.step(30, &[]).0, [1]);
    assert_eq!((held(&story, None), held(&story, Some(2))), (Some(2), None));
}

#[test]
fn a_parent_that_completed_before_its_child_was_read_counts_too() {
    let mut story = chained(ConflictMode::Partial);
    story.read_after(&[], None, 0);
    story.step(0, &[]);
    story.step(10, &[0]);
    story.read_after(&[0], Some(25), 7);
    assert_eq!(story.step(20, &[]).1, Wake::At(Nanos::from_micros(35)));
    assert_eq!(story.step(35, &[]).0, [1]);
}

#[test]
fn requests_fall_due_in_another_order_than_they_are_read() {
    let mut story = chained(ConflictMode::Partial);
    story.read_after(&[], None, 0).read_after(&[0], Some(50), 1).read_after(&[], None, 20);
    story.scheduler.end_input(false);
    assert_eq!(story.step(0, &[]), (vec![0], Wake::At(Nanos::from_micros(20))));
    assert_eq!(story.step(20, &[0]), (vec![2], Wake::At(Nanos::from_micros(70))));
    assert_eq!(story.step(70, &[]).0, [1]);
    assert_eq!(story.step(80, &[1, 2]).1, Wake::Finished);
}

#[test]
fn nobody_waits_for_a_request_that_cannot_be_issued() {
    let mut story = chained(ConflictMode::Drop);
    story.offer_after(&[], None, 0, Op::Write, 0, K);
    story.offer_after(&[], None, 0, Op::Write, 0, K);
    story.offer_after(&[1], Some(0), 0, Op::Read, 8 * K, K);
    assert_eq!(story.step(0, &[]).0, [0, 2]);
    assert_eq!(story.record(1).outcome, Outcome::Dropped);
}

#[test]
fn those_that_wait_for_a_request_without_an_answer_are_never_issued() {
    let mut story = chained(ConflictMode::Partial);
    story.read_after(&[], None, 0).read_after(&[0], Some(0), 0);
    story.scheduler.end_input(false);
    assert_eq!(story.step(0, &[]), (vec![0], Wake::Completion));
    assert!(story.scheduler.has_planned());
    story.scheduler.end_input(true);
    story.scheduler.abandon(&mut story.records);
    let outcomes = story.records.iter().map(|r| (r.planned.seq, r.measured.outcome));
    assert_eq!(outcomes.collect::<Vec<_>>(), [(0, Outcome::Abandoned)]);
}

#[test]
fn a_request_that_a_full_look_ahead_kept_out_is_late_for_want_of_input() {
    let timing = TimingMode::Dependency;
    let mut story = Story::new(Config { timing, look_ahead: 2, ..config(ConflictMode::Partial) });
    story.read_after(&[], None, 0);
    assert_eq!(story.step(0, &[]), (vec![0], Wake::Input));
    story.read_after(&[0], Some(10_000), 0).read_after(&[0], Some(10_000), 0);
    assert_eq!(story.scheduler.room(), 0);
    assert_eq!(story.step(1, &[0]).1, Wake::At(Nanos::from_micros(10_001)));
    assert_eq!(story.step(5_000, &[]).0, [0; 0]);
    assert_eq!(story.step(10_001, &[]).0, [1, 2]);
    story.read_after(&[0], Some(10), 0);
    assert_eq!(story.step(10_002, &[]).0, [3]);
    story.step(10_010, &[1, 2, 3]);
    assert_eq!(story.record(3).late_cause, LateCause::Input);
    assert_eq!(story.record(1).late_cause, LateCause::None);
}

#[test]
fn the_only_flow_of_a_lane_has_its_numbers_before_its_requests_are_admitted() {
    let flow = |number| {
        let admission = Admission::Closed { think: Nanos::ZERO };
        FlowConfig { number, admission, cap: 2, gate: None }
    };
    let made = |flows: Vec<FlowConfig>| {
        let numbering = Numbering { first: 1, step: 2, row: None };
        let mut scheduler = Scheduler::with_flows(Config::with_in_flight_max(4), flows, numbering);
        scheduler.look_ahead_numbered(16);
        let mut story = Story { scheduler, ..Story::new(Config::with_in_flight_max(1)) };
        for flow in 0..story.scheduler.flows() {
            while story.scheduler.flow_room(flow) > 0 {
                // Reads never wait for each other.
                story.scheduler.offer_to(flow, planned(Op::Read, 0, 4096));
            }
        }
        story
    };
    let ahead = |story: &Story| story.scheduler.upcoming().map(|one| one.seq).collect::<Vec<_>>();
    let mut one = made(vec![flow(1)]);
    assert_eq!(ahead(&one), (0..16).map(|n| 1 + 2 * n).collect::<Vec<_>>());
    assert_eq!(one.step(0, &[]).0, [1, 3]);
    assert_eq!((ahead(&one)[0], one.scheduler.flow_room(0)), (5, 2));
    // Which of two flows comes next is not known before.
    let mut two = made(vec![flow(1), flow(2)]);
    assert!(ahead(&two).is_empty());
    assert_eq!(two.step(0, &[]).0, [1, 3, 5, 7]);
}

#[test]
fn what_waited_for_others_when_a_run_was_cut_off_was_due_by_its_schedule() {
    let mut story = Story::new(Config { linked: true, ..config(ConflictMode::Allow) });
    story.offer(0, Op::Read, 0, K);
    story.offer_after(&[0], Some(0), 10, Op::Read, 0, K);
    story.offer_after(&[1], Some(0), 30, Op::Read, 0, K);
    assert_eq!(story.step(15, &[]), (vec![0], Wake::Input));
    let mut left = Vec::new();
    let (now, end) = (Nanos::from_micros(25), Nanos::from_micros(20));
    let cause = story.scheduler.cut_off(now, end, LateCause::Host, &mut |planned, was_due| {
        left.push((planned.seq, was_due));
    });
    assert_eq!((left, cause), (vec![(1, true), (2, false)], LateCause::Conflict));
    assert_eq!(story.step(40, &[0]), (vec![], Wake::Input));
}
