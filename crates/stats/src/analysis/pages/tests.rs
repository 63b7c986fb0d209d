use std::collections::{HashMap, HashSet};

use ioecho_trace::{Bytes, Nanos, VolumeId};
use proptest::prelude::*;

use super::*;
use crate::analysis::kind::Kind;
use crate::analysis::laws::{absurd, assert_laws, load};

fn figures(requests: &[Request]) -> PageFigures {
    let mut pages = Pages::default();
    for request in requests {
        pages.observe(request);
    }
    pages.figures()
}

fn at(ms: i64, op: Op, page: u64, pages: u64) -> Request {
    Request::new(Nanos::from_millis(ms), op, Bytes(page << 12), Bytes(pages << 12))
}

/// Every page of a request, by the definition.
fn touched(request: &Request) -> Vec<(u32, u64)> {
    let (from, to) = (request.offset.0, request.end().0);
    let (first, last) = (from >> 12, to.saturating_sub(1) >> 12);
    let touches = request.length.0 > 0 && matches!(request.op, Op::Read | Op::Write);
    let pages = first..=last.max(first);
    pages.filter(|_| touches).map(|page| (request.volume.0, page)).collect()
}

fn is_of(request: &Request, kind: Kind) -> bool {
    kind == Kind::All || Kind::of(request.op) == Some(kind)
}

proptest! {
    #[test]
    fn the_laws_hold(load in load(), first in 0_usize..120, second in 0_usize..120) {
        assert_laws(&Pages::default(), Pages::figures, &load, (first, second));
    }

    #[test]
    fn requests_together_say_what_they_say_one_by_one(load in load(), limit in 1_usize..200) {
        let mut together = Pages::new(&WINDOWS_NS, limit);
        together.observe_all(&load);
        let mut single = Pages::new(&WINDOWS_NS, limit);
        for request in &load {
            single.observe(request);
        }
        let (together, single) = (together.figures(), single.figures());
        prop_assert_eq!(&together.frequency, &single.frequency);
        if single.exact {
            prop_assert_eq!(together, single);
        }
    }

    #[test]
    fn nothing_absurd_makes_it_fall_over(load in absurd()) {
        let mut pages = Pages::new(&[1, i64::MAX, 0, -5], 4);
        for request in &load {
            pages.observe(request);
        }
        let mut twice = pages.clone();
        twice.merge(&pages);
        twice.figures();
    }

    #[test]
    fn working_sets_are_the_distinct_pages_of_each_window(load in load()) {
        let figures = figures(&load);
        for set in &figures.working_sets {
            for kind in [Kind::Reads, Kind::Writes, Kind::All] {
                let mut windows: HashMap<i64, HashSet<(u32, u64)>> = HashMap::new();
                for request in load.iter().filter(|request| is_of(request, kind)) {
                    let window = set.window_ns.map_or(0, |length| request.issue.0 / length);
                    windows.entry(window).or_default().extend(touched(request));
                }
                let series = set.pages.get(kind);
                let sum: f64 = series.values.iter().flatten().sum();
                let expected: usize = windows.values().map(HashSet::len).sum();
                prop_assert!((sum - expected as f64).abs() < 1e-6);
                for (place, value) in series.values.iter().enumerate() {
                    let from = series.start_ns + place as i64 * series.step_ns;
                    let window = set.window_ns.map_or(0, |length| from / length);
                    let expected = windows.get(&window).map_or(0, HashSet::len) as f64;
                    prop_assert!((value.unwrap() - expected).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn frequencies_are_those_of_a_sorted_list(load in load()) {
        let figures = figures(&load);
        for kind in [Kind::Reads, Kind::Writes, Kind::All] {
            let mut counts: HashMap<(u32, u64), u64> = HashMap::new();
            for request in load.iter().filter(|request| is_of(request, kind)) {
                for page in touched(request) {
                    *counts.entry(page).or_default() += 1;
                }
            }
            let mut counts: Vec<u64> = counts.into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let frequency = figures.frequency.get(kind);
            prop_assert_eq!(*figures.pages.get(kind), counts.len() as u64);
            prop_assert_eq!(*figures.accesses.get(kind), counts.iter().sum::<u64>());
            for (rank, accesses) in &frequency.ranks.points {
                prop_assert_eq!(counts[*rank as usize - 1], *accesses as u64);
            }
            for quantile in &frequency.quantiles {
                let total: u64 = counts.iter().sum();
                let (mut sum, mut cached) = (0, 0);
                while (sum as f64) < quantile.share * total as f64 {
                    sum += counts[cached];
                    cached += 1;
                }
                prop_assert_eq!(quantile.pages, cached as u64);
                let left = total - sum + cached as u64;
                prop_assert!((quantile.speedup - total as f64 / left as f64).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn intervals_go_from_an_access_of_a_page_to_the_next() {
    let found = figures(&[
        at(0, Op::Write, 0, 1),
        at(10, Op::Read, 0, 2),
        at(30, Op::Write, 0, 1),
        at(130, Op::Read, 1, 1),
    ]);
    let count = |bins: &Bins| bins.counts.iter().sum::<u64>();
    let intervals = &found.intervals;
    assert_eq!(count(&intervals.overwrite), 1);
    assert_eq!(count(&intervals.read_after_write), 1);
    assert_eq!(count(&intervals.write_after_read), 1);
    assert_eq!(count(&intervals.read_after_read), 1);
    assert_eq!(count(&intervals.write_after_write), 0);
    // 30 ms from write to write.
    let bin = intervals.overwrite.counts.iter().position(|count| *count == 1).unwrap();
    let edges = &intervals.overwrite.edges;
    assert!(edges[bin] <= 0.030 && 0.030 < edges[bin + 1]);
}

#[test]
fn a_discard_of_a_tebibyte_touches_no_page_and_is_told_apart() {
    let mut discard = at(0, Op::Discard, 0, 0);
    discard.length = Bytes(1 << 40);
    let figures = figures(&[discard]);
    assert_eq!((figures.pages.all, figures.apart.discards), (0, 1));
    assert_eq!(figures.apart.discarded_bytes, 1 << 40);
}

#[test]
fn of_a_read_of_a_tebibyte_the_first_64_mebibytes_are_looked_at() {
    let figures = figures(&[at(0, Op::Read, 0, 1 << 28)]);
    assert_eq!((figures.pages.all, figures.shortened_requests), (1 << 14, 1));
}

#[test]
fn a_sample_of_too_many_pages_is_right_within_its_stated_error() {
    let mut pages = Pages::new(&WINDOWS_NS, 2048);
    let mut parts = [pages.clone(), pages.clone()];
    let load: Vec<Request> = (0..400_000_u64)
        .map(|number| {
            // A hundred thousand groups, each touched four times.
            let page = crate::count::sample::mix(number % 100_000) >> 16;
            let mut request = at(number as i64 / 10, Op::Write, page, 1);
            request.volume = VolumeId(1);
            request
        })
        .collect();
    for (number, request) in load.iter().enumerate() {
        pages.observe(request);
        parts[usize::from(number >= 200_000)].observe(request);
    }
    let [mut merged, later] = parts;
    merged.merge(&later);
    for found in [pages.figures(), merged.figures()] {
        assert!(!found.exact && found.sampled_share < 0.03 && found.relative_error < 0.04);
        // Five standard errors, so that chance does not decide.
        let error = (found.pages.all as f64 / 100_000.0 - 1.0).abs();
        assert!(error < 5.0 * found.relative_error, "{} pages", found.pages.all);
        assert_eq!(found.accesses.all, 400_000);
        assert_eq!(found.frequency.all.most, 4);
    }
}

#[test]
fn the_fullest_window_is_told_though_there_are_too_many_to_keep() {
    let burst = 150_123;
    let load = |windows: std::ops::Range<i64>| {
        let mut pages = Pages::new(&[1_000_000], GROUPS_MAX);
        for window in windows {
            pages.observe(&at(window, Op::Read, window as u64 % 7, 1));
            if window == burst {
                pages.observe(&at(window, Op::Write, 100, 20));
            }
        }
        pages
    };
    let whole = load(0..300_000);
    let mut merged = load(0..burst);
    merged.merge(&load(burst..300_000));
    for figures in [whole.figures(), merged.figures()] {
        let set = &figures.working_sets[0];
        assert!(set.pages.all.step_ns > 1_000_000, "windows are joined");
        assert_eq!(set.most_pages, ByKind { reads: 1, writes: 20, all: 21 });
        assert_eq!(set.most_at_ns.all, Some(burst * 1_000_000));
        assert!(set.most_exact);
    }
}

#[test]
fn a_sample_tells_how_far_off_its_frequencies_are() {
    let load = |hot: u64| {
        let mut pages = Pages::new(&WINDOWS_NS, 2048);
        for number in 0..200_000_u64 {
            let page = crate::count::sample::mix(number % 50_000) >> 16;
            pages.observe(&at(number as i64, Op::Read, page, 1));
            if hot > 0 && number % 2 == 0 {
                pages.observe(&at(number as i64, Op::Read, hot, 1));
            }
        }
        pages.figures().frequency
    };
    let even = load(0).all;
    assert!(even.relative_error > 0.0 && even.relative_error < 0.1, "{}", even.relative_error);
    assert!(load(0).writes.relative_error.abs() < 1e-9);
    // A third of the accesses goes to a single page: in the sample it is far too much, and outside
    // of it is missing.
    for hot in [4, 40, 400, 4000, 40_000, 400_000] {
        let error = load(hot).all.relative_error;
        assert!(error > 0.25, "{error} with a hot page at {hot}");
    }
}
