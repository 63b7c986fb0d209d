use ioecho_trace::{Bytes, Nanos, Op};
use proptest::prelude::*;

use super::*;
use crate::analysis::laws::{absurd, assert_laws, load};
use crate::count::sample::mix;

fn reuse(limit: usize, requests: &[Request]) -> Reuse {
    let mut reuse = Reuse::new(limit);
    for request in requests {
        reuse.observe(request);
    }
    reuse
}

fn page(op: Op, page: u64) -> Request {
    Request::new(Nanos(0), op, Bytes(page << 12), Bytes(4096))
}

/// A cache of so many pages, played through: hits of reads and of writes, and pages written back.
fn played(load: &[Request], pages: usize) -> ([u64; 2], u64) {
    let mut cache: Vec<((u32, u64), bool)> = Vec::new();
    let (mut hits, mut written) = ([0; 2], 0);
    let mut load: Vec<&Request> = load.iter().collect();
    load.sort_by_key(|request| (request.issue, request.volume));
    for request in load {
        let Some(kind) = read_or_write(request.op) else { continue };
        let Some((first, last, _)) = super::pages(request) else { continue };
        for page in first..=last {
            let page = (request.volume.0, page);
            let mut is_dirty = false;
            if let Some(at) = cache.iter().position(|(held, _)| *held == page) {
                is_dirty = cache.remove(at).1;
                hits[kind] += 1;
            }
            cache.push((page, is_dirty || kind == 1));
            if cache.len() > pages {
                written += u64::from(cache.remove(0).1);
            }
        }
    }
    (hits, written + cache.iter().filter(|(_, is_dirty)| *is_dirty).count() as u64)
}

proptest! {
    #[test]
    fn the_laws_hold(load in load(), first in 0_usize..120, second in 0_usize..120) {
        assert_laws(&Reuse::default(), Reuse::figures, &load, (first, second));
    }

    #[test]
    fn the_laws_hold_of_a_sample_too(
        load in load(),
        first in 0_usize..120,
        second in 0_usize..120,
    ) {
        assert_laws(&Reuse::new(30), Reuse::figures, &load, (first, second));
    }

    #[test]
    fn nothing_absurd_makes_it_fall_over(load in absurd()) {
        let mut reuse = reuse(100, &load);
        let other = reuse.clone();
        reuse.merge(&other);
        reuse.figures_for(&[0, 1, u64::MAX]);
    }

    #[test]
    fn a_cache_of_any_size_does_what_one_that_is_played_through_does(
        load in load(),
        pages in 1_usize..60,
    ) {
        let reuse = reuse(ACCESSES_MAX, &load);
        let figures = reuse.figures_for(&[(pages as u64) << 12]);
        let (hits, written) = played(&load, pages);
        let cache = figures.caches[0];
        let reads = figures.accesses.reads as f64;
        let writes = figures.accesses.writes as f64;
        prop_assert!((cache.hit_ratio.reads * reads - hits[0] as f64).abs() < 1e-6);
        prop_assert!((cache.hit_ratio.writes * writes - hits[1] as f64).abs() < 1e-6);
        prop_assert_eq!(cache.read_bytes >> 12, figures.accesses.reads - hits[0]);
        prop_assert_eq!(cache.written_bytes >> 12, written);
    }
}

#[test]
fn the_distance_is_the_number_of_other_pages_between() {
    let load = [1, 2, 3, 2, 1].map(|place| page(Op::Read, place));
    let figures = reuse(100, &load).figures();
    assert_eq!(figures.cold.all, 3);
    // Page 2 comes again after one other, page 1 after two.
    assert_eq!(figures.distances.reads.counts, [0, 1, 1]);
    assert_eq!(figures.distances.reads.edges, [0.0, 4096.0, 8192.0, 16384.0]);
    let curve = &figures.miss_ratio.reads.points;
    assert_eq!(curve.first(), Some(&(0.0, 1.0)));
    assert_eq!(curve.last(), Some(&(3.0 * 4096.0, 0.6)));
}

#[test]
fn of_nothing_there_is_no_curve() {
    let figures = Reuse::default().figures();
    assert!(figures.exact && figures.miss_ratio.all.points.is_empty());
    assert_eq!(figures.caches[0].read_bytes, 0);
}

#[test]
fn a_sample_tells_of_every_cache_what_all_accesses_tell_within_the_stated_error() {
    // Half of the accesses go to a tenth of the pages.
    let load: Vec<Request> = (0..300_000_u64)
        .map(|number| {
            let random = mix(number);
            let pages = if random.is_multiple_of(2) { 2_000 } else { 20_000 };
            page(if random.is_multiple_of(3) { Op::Write } else { Op::Read }, mix(random) % pages)
        })
        .collect();
    let sizes: Vec<u64> = (20..27).map(|power| 1 << power).collect();
    let exact = reuse(ACCESSES_MAX, &load).figures_for(&sizes);
    let sampled = reuse(60_000, &load).figures_for(&sizes);
    assert!(exact.exact && !sampled.exact && sampled.standard_error < 0.05);
    for (a, b) in exact.caches.iter().zip(&sampled.caches) {
        let bound = 3.0 * sampled.standard_error;
        assert!((a.hit_ratio.all - b.hit_ratio.all).abs() < bound, "{a:?} {b:?}");
        assert!((a.written_share - b.written_share).abs() < 2.0 * bound, "{a:?} {b:?}");
    }
}

#[test]
fn of_the_usual_caches_beyond_the_first_that_holds_everything_none_is_told() {
    let request = Request::new(Nanos::ZERO, Op::Read, Bytes(0), Bytes(200 << 20));
    let mut reuse = Reuse::default();
    // Of one request no more than 64 MiB are looked at.
    for part in 0..4_u64 {
        let offset = Bytes(part * (50 << 20));
        reuse.observe(&Request { offset, length: Bytes(50 << 20), ..request });
    }
    let asked = [&CACHES[..], &[3 << 40]].concat();
    let figures = reuse.figures_for(&asked);
    let told: Vec<u64> = figures.caches_told().map(|cache| cache.cache_bytes).collect();
    assert_eq!(told, [1 << 26, 1 << 28, 3 << 40]);
}
