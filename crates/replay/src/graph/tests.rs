use ioecho_trace::{Bytes, Flags, Nanos, Op, Origin, Request, VolumeId};
use proptest::prelude::*;

use super::infer::{Inference, Rules};
use super::processes::{Processes, Ties};
use super::statistics::Statistics;
use super::survey::{Survey, Surveyed, THRESHOLD_MAX};
use super::{Doubts, is_barrier, is_change};

/// A read from `us` for `latency_us`, by process `pid`.
fn read(us: i64, latency_us: i64, pid: u32) -> Request {
    let mut request = Request::new(Nanos(us * 1_000), Op::Read, Bytes(0), Bytes(512));
    request.latency = Some(Nanos(latency_us * 1_000));
    request.origin = Some(Origin { pid, cpu: 0 });
    request
}

/// The links of `requests`: for each row those of its parents.
fn parents(rules: &Rules, requests: &[Request]) -> Vec<Vec<u64>> {
    let mut inference = Inference::new(rules.clone());
    requests.iter().map(|request| inference.push(request).parents.to_vec()).collect()
}

fn rules(threshold_us: i64) -> Rules {
    Rules {
        threshold: Nanos(threshold_us * 1_000),
        window_rows: 1_000,
        processes: Processes::default(),
    }
}

/// What a slow search needs of the requests.
struct Slow<'a> {
    rules: &'a Rules,
    requests: &'a [Request],
}

impl Slow<'_> {
    fn end(&self, row: usize) -> Option<i64> {
        let latency = self.requests[row].latency?.0;
        (latency >= 0).then(|| self.requests[row].issue.0 + latency.max(1))
    }

    fn start(&self, row: usize) -> i64 {
        self.requests[row].issue.0
    }

    fn process(&self, row: usize) -> u32 {
        self.rules.processes.of(&self.requests[row])
    }

    /// Whether `row` had completed by `at`, and was in the window when that was noticed.
    fn is_seen(&self, row: usize, at: i64) -> bool {
        let Some(end) = self.end(row).filter(|end| *end <= at) else { return false };
        let notices = (row + 1..self.requests.len()).find(|later| self.start(*later) >= end);
        notices.is_some_and(|by| (by - row) as u64 <= self.rules.window_rows + 1)
    }

    /// The requests of the process of `row` before it, without a pause as long as the window.
    fn history(&self, row: usize) -> Vec<usize> {
        let mut history = Vec::new();
        let mut first = row;
        for earlier in (0..row).rev().filter(|earlier| self.process(*earlier) == self.process(row))
        {
            if (first - earlier) as u64 > self.rules.window_rows {
                break;
            }
            history.push(earlier);
            first = earlier;
        }
        history
    }

    /// Whether the process of `row` had nothing in flight that is in the window.
    fn is_idle(&self, row: usize) -> bool {
        !self.history(row).iter().any(|earlier| {
            (row - earlier) as u64 <= self.rules.window_rows
                && self.end(*earlier).is_some_and(|end| end > self.start(row))
        })
    }

    /// Whether any process may have woken that of `row`.
    fn is_woken(&self, row: usize) -> bool {
        let history = self.history(row);
        let seen = history.iter().filter(|earlier| self.is_seen(**earlier, self.start(row)));
        let last = seen.filter_map(|earlier| self.end(*earlier)).max();
        let pause = last.map(|end| self.start(row) - end);
        let processes = &self.rules.processes;
        processes.are_known()
            && !processes.is_open(self.process(row))
            && (history.is_empty()
                || self.is_idle(row)
                    && pause
                        .is_some_and(|pause| processes.is_woken_after(self.process(row), pause)))
    }

    /// Whether `before` may have woken the process of `row`, which was issued with the waking.
    fn wakes(&self, before: usize, row: usize) -> bool {
        let at = self.start(row);
        let ready = |row: usize| {
            let end = self.end(row).filter(|_| self.is_seen(row, at))?;
            Some(end + self.rules.threshold.0).filter(|ready| *ready <= at)
        };
        let Some(completed) = ready(before) else { return false };
        let is_past =
            (0..row).any(|other| ready(other).is_some() && self.start(other) >= completed);
        before < row && (row - before) as u64 <= self.rules.window_rows && !is_past
    }
}

/// The same by the definitions alone: all pairs are compared, and all paths are followed.
fn oracle(rules: &Rules, requests: &[Request]) -> Vec<Vec<u64>> {
    let slow = Slow { rules, requests };
    let threshold = rules.threshold.0;
    let is_linked = |before: usize, after: usize| {
        let (p, r) = (&requests[before], &requests[after]);
        let Some(completed) = slow.end(before).filter(|end| *end <= r.issue.0) else {
            return false;
        };
        if before >= after || (after - before) as u64 > rules.window_rows {
            return false;
        }
        let processes = &rules.processes;
        let (giver, taker) = (processes.of(p), processes.of(r));
        let by_process = processes.is_linked(giver, taker);
        let is_itself = processes.is_itself(giver, taker);
        let is_sync = p.op == Op::Write && p.flags.contains(Flags::SYNC);
        let overlaps = |p: &Request, byte: u64| p.offset.0 <= byte && byte < p.end().0;
        let is_last_writer = |byte: &u64| {
            is_change(p)
                && p.volume == r.volume
                && overlaps(p, *byte)
                && !(before + 1..requests.len()).any(|later| {
                    let q = &requests[later];
                    is_change(q)
                        && q.volume == r.volume
                        && overlaps(q, *byte)
                        && later < after
                        && slow.end(later).is_some_and(|end| end <= r.issue.0)
                })
        };
        let mut recent = slow.history(after).into_iter();
        let woken = Some(after).filter(|row| slow.is_woken(*row));
        let woken = woken.or_else(|| recent.find(|row| slow.is_woken(*row)));
        let is_waker = woken.is_some_and(|woken| slow.wakes(before, woken));
        by_process && completed + threshold <= r.issue.0
            || by_process && p.volume == r.volume && (is_barrier(p) || is_barrier(r))
            || by_process && processes.are_known() && slow.is_idle(after)
            || is_itself && (is_sync || is_barrier(p))
            || r.op == Op::Read && (r.offset.0..r.end().0).any(|byte| is_last_writer(&byte))
            || is_waker && !by_process
    };
    let count = requests.len();
    let mut reached = vec![vec![false; count]; count];
    let mut all = Vec::new();
    for after in 0..count {
        let linked: Vec<usize> = (0..after).filter(|before| is_linked(*before, after)).collect();
        // A request that is reached through another one is not a parent.
        let is_behind = |before: &&usize| linked.iter().any(|by| reached[*by][**before]);
        all.push(
            linked.iter().filter(|before| !is_behind(before)).map(|row| *row as u64).collect(),
        );
        for before in &linked {
            let behind = reached[*before].clone();
            reached[after].iter_mut().zip(behind).for_each(|(known, more)| *known |= more);
            reached[after][*before] = true;
        }
    }
    all
}

#[test]
fn the_example_of_the_paper_gives_its_graph() {
    // Figure 2: A and B overlap, C follows B immediately, and E waits for A through D.
    let from_a_to_e = [(0, 30), (10, 50), (65, 35), (70, 20), (120, 10)];
    let requests = from_a_to_e.map(|(us, latency_us)| read(us, latency_us, 0));
    let graph = parents(&rules(10), &requests);
    assert_eq!(graph, [vec![], vec![], vec![0], vec![0, 1], vec![2, 3]]);
    let with_b_longer = [from_a_to_e[0], (10, 58), (72, 28), (62, 20), from_a_to_e[4]];
    let mut requests = with_b_longer.map(|(us, latency_us)| read(us, latency_us, 0));
    requests[1..].sort_by_key(|request| request.issue);
    // D starts while B is in flight, and C less than the threshold after B: only E waits for B.
    assert_eq!(parents(&rules(10), &requests), [vec![], vec![], vec![0], vec![0], vec![1, 2, 3]]);
}

/// `hfplayer-sampleDepTrace.csv` of hfplayer's repository: the start and the latency of its
/// requests, in microseconds.
const SAMPLE: [(i64, i64); 7] =
    [(0, 20), (50, 245), (100, 190), (150, 135), (200, 80), (250, 10), (300, 20)];

#[test]
fn the_published_sample_gives_its_graph() {
    let requests = SAMPLE.map(|(us, latency_us)| read(us, latency_us, 0));
    let graph = parents(&rules(10), &requests);
    // Five requests overlap after the first; of these, one completed 5 µs before the last was
    // issued, and another exactly the threshold before.
    let first: Vec<Vec<u64>> = vec![vec![], vec![0], vec![0], vec![0], vec![0], vec![0]];
    assert_eq!(graph[..6], first);
    assert_eq!(graph[6], [2, 3, 4, 5]);
    assert_eq!(parents(&rules(11), &requests)[6], [3, 4, 5]);
    assert_eq!(graph, oracle(&rules(10), &requests));
}

#[test]
fn think_time_begins_with_the_last_parent() {
    let requests = SAMPLE.map(|(us, latency_us)| read(us, latency_us, 0));
    let mut inference = Inference::new(rules(10));
    let thinks = requests.map(|request| inference.push(&request).think.map(|think| think.0));
    assert_eq!(thinks[0], None);
    assert_eq!((thinks[1], thinks[6]), (Some(30_000), Some(10_000)));
}

#[test]
fn processes_that_know_nothing_of_each_other_are_not_linked() {
    let requests = [read(0, 10, 1), read(5, 10, 2), read(40, 10, 1), read(45, 10, 2)];
    let mut by_process = rules(10);
    assert_eq!(parents(&by_process, &requests), [vec![], vec![], vec![0, 1], vec![0, 1]]);
    by_process.processes = Processes::with_pairs(&[]);
    assert_eq!(parents(&by_process, &requests), [vec![], vec![], vec![0], vec![1]]);
    by_process.processes = Processes::with_pairs(&[(1, 2)]);
    assert_eq!(parents(&by_process, &requests), [vec![], vec![], vec![0], vec![0, 1]]);
}

#[test]
fn barriers_hold_up_also_what_comes_at_once() {
    let mut flush = read(12, 10, 0);
    (flush.op, flush.length) = (Op::Flush, Bytes(0));
    let requests = [read(0, 10, 0), flush, read(23, 10, 0)];
    assert_eq!(parents(&rules(10), &requests), [vec![], vec![0], vec![1]]);
    let mut elsewhere = requests;
    elsewhere[1].volume = VolumeId(1);
    assert_eq!(parents(&rules(10), &elsewhere), [vec![], vec![], vec![0]]);
}

#[test]
fn a_read_waits_for_the_write_of_another_process() {
    let mut write = read(0, 10, 1);
    write.op = Op::Write;
    let mut by_process = rules(10);
    by_process.processes = Processes::with_pairs(&[]);
    let mut requests = [write, read(11, 10, 2), read(50, 10, 2)];
    // The second read waits for it through the first.
    assert_eq!(parents(&by_process, &requests), [vec![], vec![0], vec![1]]);
    requests[1].offset = Bytes(512);
    assert_eq!(parents(&by_process, &requests), [vec![], vec![], vec![0, 1]]);
}

#[test]
fn what_is_wrong_is_counted_and_nothing_is_made_up() {
    let mut backwards = read(50, 10, 0);
    backwards.latency = Some(Nanos(-1));
    let mut missing = read(100, 10, 0);
    missing.latency = None;
    let requests = [read(0, 10, 0), backwards, missing, read(90, 10, 0), read(200, 10, 0)];
    assert_eq!(parents(&rules(10), &requests), [vec![], vec![0], vec![0], vec![0], vec![3]]);
    let mut inference = Inference::new(rules(10));
    for request in &requests {
        inference.push(request);
    }
    let expected = Doubts {
        clock_inversions: 1,
        without_completion: 1,
        completed_before_issue: 1,
        ..Doubts::default()
    };
    assert_eq!(inference.doubts(), expected);
}

#[test]
fn a_gap_cuts_every_chain() {
    let mut inference = Inference::new(rules(10));
    inference.push(&read(0, 10, 0));
    inference.cut();
    let waits = inference.push(&read(50, 10, 0));
    assert_eq!((waits.row, waits.parents.is_empty(), waits.think), (1, true, None));
    assert_eq!((inference.doubts().gaps, inference.doubts().cut_chains), (1, 1));
    assert_eq!(inference.push(&read(90, 10, 0)).parents, [1]);
}

#[test]
fn a_window_that_is_too_small_is_told() {
    let mut small = rules(10);
    small.window_rows = 2;
    let mut requests = vec![read(0, 1_000, 0)];
    requests.extend((1..10).map(|number| read(number * 10, 5, 0)));
    let mut inference = Inference::new(small);
    let mut survey = Survey::new(false);
    for request in &requests {
        inference.push(request);
        survey.push(request);
    }
    assert_eq!(inference.doubts().beyond_window, 1);
    assert_eq!(survey.finish().window_rows, 10);
}

/// Closed loops with these think times and latencies in microseconds, one for each process, with
/// some noise, until `end_us`; sorted.
fn closed_loops(loops: &[(u32, i64, i64)], end_us: i64) -> Vec<Request> {
    let mut random = crate::pattern::SplitMix64(7);
    let mut all = Vec::new();
    for (pid, think, latency) in loops {
        let mut us = i64::from(*pid) * 17;
        while us < end_us {
            let took = latency + random.below(*latency as u64) as i64;
            all.push(read(us, took, *pid));
            us += took + think + random.below(*think as u64) as i64;
        }
    }
    all.sort_by_key(|request| request.issue);
    all
}

fn surveyed(requests: &[Request]) -> Surveyed {
    let mut survey = Survey::new(true);
    for request in requests {
        survey.push(request);
    }
    survey.finish()
}

#[test]
fn threads_of_a_benchmark_hand_no_work_to_each_other() {
    for latency in [30, 120, 500] {
        let loops = [(1, 200, latency), (2, 200, latency), (3, 200, latency), (4, 200, latency)];
        let surveyed = surveyed(&closed_loops(&loops, 2_000_000));
        assert_eq!(surveyed.processes.pairs(), [], "latency {latency}");
        assert_eq!((surveyed.process_count, surveyed.threshold), (4, THRESHOLD_MAX));
    }
}

#[test]
fn a_log_writer_is_told_from_a_bystander() {
    // Process 1 reads, then 2 writes its log, and 1 continues; 3 reads all the time.
    let mut requests = closed_loops(&[(3, 150, 80)], 1_000_000);
    let mut random = crate::pattern::SplitMix64(3);
    let mut us = 0;
    while us < 1_000_000 {
        let (took, wrote) = (60 + random.below(60) as i64, 90 + random.below(90) as i64);
        let (woken, back) = (12 + random.below(10) as i64, 12 + random.below(10) as i64);
        requests.push(read(us, took, 1));
        requests.push(read(us + took + woken, wrote, 2));
        us += took + woken + wrote + back;
    }
    requests.sort_by_key(|request| request.issue);
    assert_eq!(surveyed(&requests).processes.pairs(), [(1, 2), (2, 1)]);
}

#[test]
fn a_process_that_waits_for_nobody_is_open() {
    // Independent arrivals, with exponential times in between, beside or after a closed loop.
    let with_arrivals = |from: i64, until: i64| {
        let mut random = crate::pattern::SplitMix64(5);
        let mut requests = closed_loops(&[(1, 300, 200)], 2_000_000);
        let mut us = from;
        while us < until {
            requests.push(read(us, 100 + random.below(900) as i64, 2));
            us -= (500.0 * (1.0 - random.below(1 << 20) as f64 / f64::from(1 << 20)).ln()) as i64;
        }
        requests.sort_by_key(|request| request.issue);
        surveyed(&requests).processes.open()
    };
    assert_eq!(with_arrivals(0, 2_200_000), [2]);
    // Nothing that came before can have begun them.
    assert_eq!(with_arrivals(0, 300_000), [2]);
    // What comes once, at the end, was begun by what came before.
    assert!(with_arrivals(2_000_000, 2_200_000).is_empty());
}

#[test]
fn a_load_is_open_though_its_time_stamps_are_in_microseconds() {
    // One request in 20 µs, 45 in flight: one in 20 begins with a time stamp of a completion.
    let mut random = crate::pattern::SplitMix64(3);
    let (mut us, mut arrivals) = (0, Vec::new());
    for _ in 0..20_000 {
        arrivals.push(read(us, 600 + random.below(600) as i64, 2));
        us += (20.0 * -(1.0 - random.below(1 << 20) as f64 / f64::from(1 << 20)).ln()) as i64;
    }
    assert_eq!(surveyed(&arrivals).processes.open(), [2]);
}

#[test]
fn a_queue_depth_is_that_many_closed_loops() {
    // 8 in flight all the time: each completion lets one request go, 12 µs later.
    let mut random = crate::pattern::SplitMix64(11);
    let mut flying: Vec<(i64, usize)> = Vec::new();
    let mut requests: Vec<Request> = Vec::new();
    let mut cause = Vec::new();
    for number in 0..2_000 {
        let (mut us, mut by) = (number as i64, None);
        if flying.len() == 8 {
            let first = flying.iter().enumerate().min_by_key(|(_, flying)| *flying).unwrap().0;
            let (end, row) = flying.swap_remove(first);
            (us, by) = (end + 12, Some(row as u64));
        }
        let took = 200 + random.below(300) as i64;
        cause.push((us, by));
        requests.push(read(us, took, 1));
        flying.push((us + took, number));
    }
    assert!(requests.is_sorted_by_key(|request| request.issue));
    // The same where the trace has no processes.
    for has_processes in [true, false] {
        let mut survey = Survey::new(has_processes);
        for request in &requests {
            survey.push(request);
        }
        let Surveyed { threshold, processes, .. } = survey.finish();
        let deep = u32::from(has_processes);
        assert_eq!((processes.deep(), processes.open()), (vec![deep], vec![]));
        let graph = parents(&Rules { threshold, processes, ..rules(0) }, &requests);
        for (row, found) in graph.iter().enumerate().skip(8) {
            assert_eq!(*found, Vec::from_iter(cause[row].1), "{row}");
        }
    }
}

#[test]
fn bursts_that_are_waited_for_together_are_not_open() {
    let mut random = crate::pattern::SplitMix64(5);
    let (mut requests, mut us) = (Vec::new(), 0);
    for _ in 0..500 {
        let took: Vec<i64> = (0..16).map(|_| 300 + random.below(200) as i64).collect();
        requests.extend(took.iter().enumerate().map(|(at, took)| read(us + at as i64, *took, 1)));
        us += took.iter().max().unwrap_or(&0) + 20 + 16;
    }
    assert!(surveyed(&requests).processes.open().is_empty());
}

/// Processes 11 to 26 read by themselves; 2 begins a group of three requests either when one of
/// them has completed or at any time, far more seldom than it continues one.
fn groups(is_woken: bool) -> Vec<Request> {
    let mut random = crate::pattern::SplitMix64(9);
    let loops: Vec<_> = (11..27).map(|pid| (pid, 8_000, 500)).collect();
    let mut requests = closed_loops(&loops, 6_000_000);
    let ends: Vec<i64> =
        requests.iter().filter_map(|one| Some((one.issue.0 + one.latency?.0) / 1_000)).collect();
    for at in (0..ends.len() - 100).step_by(80) {
        let mut us = ends[at] + 20;
        us += random.below(if is_woken { 20 } else { 40_000 }) as i64;
        for _ in 0..3 {
            requests.push(read(us, 100, 2));
            us += 100 + 30 + random.below(30) as i64;
        }
    }
    requests.sort_by_key(|request| request.issue);
    requests
}

#[test]
fn long_pauses_end_with_a_completion_or_at_any_time() {
    let pause_ns = 40_000_000;
    let (woken, by_itself) = (surveyed(&groups(true)), surveyed(&groups(false)));
    // No process wakes it often enough to be linked.
    assert_eq!(woken.processes.pairs(), []);
    assert!(woken.processes.is_woken_after(2, pause_ns));
    assert!(!by_itself.processes.is_woken_after(2, pause_ns));
    // Without enough pauses it is assumed.
    assert!(surveyed(&groups(false)[..600]).processes.is_woken_after(2, pause_ns));
}

#[test]
fn the_threshold_is_that_of_requests_that_certainly_waited() {
    let mut survey = Survey::new(false);
    for number in 0..1_000 {
        // 4 to 13 µs after the previous one had completed.
        survey.push(&read(number * 100 + (number * 7) % 10, 90, 0));
    }
    let surveyed = survey.finish();
    assert!(surveyed.threshold.0 <= 10_000 && surveyed.samples > 900, "{surveyed:?}");
    // There are no think times to derive it from.
    let mut survey = Survey::new(false);
    (0..1_000).for_each(|number| survey.push(&read(number, 90, 0)));
    let surveyed = survey.finish();
    assert_eq!((surveyed.threshold, surveyed.samples), (THRESHOLD_MAX, 0));
    assert_eq!(surveyed.in_flight_max, 90);
}

#[test]
fn figures_of_two_closed_loops() {
    let mut by_process = rules(10);
    by_process.processes = Processes::with_pairs(&[]);
    let mut inference = Inference::new(by_process);
    let mut statistics = Statistics::new(1_000);
    for turn in 0..10 {
        for pid in 0..2 {
            let request = read(turn * 100 + i64::from(pid), 40, pid);
            statistics.add(&request, inference.push(&request));
        }
    }
    let figures = statistics.finish();
    assert_eq!((figures.requests, figures.chains, figures.links), (20, 2, 18));
    assert_eq!((figures.length.max, figures.width_max, figures.parents_max), (10, 2, 1));
    assert_eq!(figures.think_sum_ns, 18 * 60_000);
}

prop_compose! {
    /// A request with little variation, so that many requests conflict.
    fn any_request()(
        gap in 0_i64..6,
        latency in prop_oneof![
            8 => (0_i64..14).prop_map(Some), 1 => Just(None), 1 => Just(Some(-1)),
        ],
        op in prop_oneof![4 => Just(Op::Read), 3 => Just(Op::Write), 1 => Just(Op::Flush)],
        flags in prop_oneof![
            6 => Just(Flags::empty()), 1 => Just(Flags::FUA), 1 => Just(Flags::SYNC),
        ],
        offset in 0_u64..12,
        length in 1_u64..6,
        volume in 0_u32..2,
        pid in 0_u32..4,
    ) -> Request {
        let length = if op == Op::Flush { 0 } else { length };
        let mut request = Request::new(Nanos(gap), op, Bytes(offset), Bytes(length));
        request.flags = flags;
        request.volume = VolumeId(volume);
        request.latency = latency.map(Nanos);
        request.origin = Some(Origin { pid, cpu: 0 });
        request
    }
}

prop_compose! {
    fn any_ties()(
        givers in prop::collection::btree_set(0_u32..4, 0..2),
        is_open in prop::bool::weighted(0.2),
        woken_after in prop::option::of(0_i64..20),
    ) -> Ties {
        let givers = if is_open { Vec::new() } else { givers.into_iter().collect() };
        Ties { givers, is_open, is_deep: false, woken_after: woken_after.map(Nanos) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_graph_is_that_of_a_slow_and_exact_search(
        mut requests in prop::collection::vec(any_request(), 0..40),
        threshold in 0_i64..7,
        window_rows in prop_oneof![1_u64..12, Just(1_000)],
        ties in prop::option::of(prop::collection::vec(any_ties(), 4)),
    ) {
        let mut now = 0;
        for request in &mut requests {
            now += request.issue.0;
            request.issue = Nanos(now);
        }
        let processes = ties.map_or_else(Processes::default, |ties| {
            Processes::known((0..).zip(ties))
        });
        let rules = Rules { threshold: Nanos(threshold), window_rows, processes };
        prop_assert_eq!(parents(&rules, &requests), oracle(&rules, &requests));
    }
}
