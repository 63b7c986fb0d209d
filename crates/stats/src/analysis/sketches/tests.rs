use std::collections::BTreeSet;

use ioecho_trace::{Bytes, Nanos, Op, Request, VolumeId};
use proptest::prelude::*;

use super::*;
use crate::analysis::laws::{absurd, load};

fn of(requests: &[Request]) -> Sketches {
    let mut sketches = Sketches::new("a", Some(0.25));
    sketches.observe_all(requests);
    sketches
}

fn merged(parts: &[&Sketches]) -> Sketches {
    let mut whole = Sketches::new("a", Some(0.25));
    for part in parts {
        whole.merge(part);
    }
    whole
}

/// What can be known of sketches: an estimate depends on nothing but the set of pages.
fn told(sketches: &Sketches) -> Vec<(u32, bool, i64, i64, u64)> {
    let pages = sketches.distinct().pages();
    pages
        .map(|of| (of.volume, of.is_write, of.time_ns, of.width_ns, of.estimate().to_bits()))
        .collect()
}

fn reading(pages: impl Iterator<Item = u64>) -> Vec<Request> {
    let read = |page| Request::new(Nanos(0), Op::Read, Bytes(page << 12), Bytes(4096));
    pages.map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_tell_what_the_whole_tells_however_they_are_put_together(
        load in load(), first in 0_usize..120, second in 0_usize..120,
    ) {
        let (first, second) = (first.min(load.len()), second.min(load.len()));
        let (first, second) = (first.min(second), first.max(second));
        let whole = of(&load);
        let [a, b, c] = [&load[..first], &load[first..second], &load[second..]].map(of);
        let in_order = merged(&[&a, &b, &c]);
        prop_assert_eq!(in_order.drawn(), whole.drawn());
        prop_assert_eq!(told(&in_order), told(&whole));
        prop_assert_eq!(told(&merged(&[&c, &a, &b])), told(&whole));
        prop_assert_eq!(told(&merged(&[&a, &merged(&[&c, &b])])), told(&whole));
        prop_assert_eq!(told(&merged(&[&a, &a, &c, &b, &c])), told(&whole), "no page counts twice");
        let mut read = Distinct::default();
        for of in merged(&[&a, &c, &b]).distinct().pages() {
            let span = (of.time_ns, of.width_ns);
            prop_assert!(read.add((of.volume, of.is_write), span, &of.sketch()));
        }
        prop_assert_eq!(told(&Sketches::new("a", None).with(read)), told(&whole));
    }

    #[test]
    fn nothing_absurd_makes_it_fall_over(load in absurd()) {
        let sketches = of(&load);
        told(&merged(&[&sketches, &sketches]));
    }

    #[test]
    fn few_pages_are_counted_exactly(
        pages in proptest::collection::btree_set(0_u64..9000, 0..200),
    ) {
        let found = of(&reading(pages.iter().copied()));
        let found: u64 = found.distinct().pages().map(|of| of.estimate().round() as u64).sum();
        prop_assert_eq!(found, pages.len() as u64);
    }

    #[test]
    fn what_is_no_sketch_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        prop_assert!(!Distinct::default().add((0, false), (0, SPAN_NS), &bytes));
    }
}

/// The standard error of 4,096 registers is 1.04 / 64 = 1.6 % (Flajolet and others, 2007).
#[test]
fn the_error_of_many_pages_is_within_the_known_bound() {
    for pages in [5_000_u64, 40_000, 300_000] {
        let errors: Vec<f64> = (0..16)
            .map(|seed| {
                let begin = seed << 30;
                // Two parts that share a third of the pages.
                let third = pages / 3;
                let early = of(&reading(begin..begin + 2 * third));
                let late = of(&reading(begin + third..begin + pages));
                let whole = merged(&[&late, &early]);
                let found: f64 = whole.distinct().pages().map(|of| of.estimate()).sum();
                found / pages as f64 - 1.0
            })
            .collect();
        let mean_square = errors.iter().map(|error| error * error).sum::<f64>() / 16.0;
        assert!(mean_square.sqrt() < 1.5 * 0.0163, "{pages}: {errors:?}");
        assert!(mean_square > 0.0, "an estimate that is always right is none");
        assert!(errors.iter().all(|error| error.abs() < 4.0 * 0.0163), "{pages}: {errors:?}");
    }
}

#[test]
fn volumes_and_traces_share_no_page() {
    let mut requests = reading(0..50);
    let mut others = reading(0..50);
    for request in &mut others {
        request.volume = VolumeId(1);
    }
    requests.extend(others);
    let mut all = Distinct::default();
    for trace in ["a", "b"] {
        let mut sketches = Sketches::new(trace, None);
        sketches.observe_all(&requests);
        for of in sketches.distinct().pages() {
            // As a query over all of them would.
            all.add((0, false), (0, of.width_ns), &of.sketch());
        }
    }
    assert_eq!(all.pages().map(|of| of.estimate().round() as u64).collect::<Vec<_>>(), [200]);
}

#[test]
fn spans_grow_where_there_would_be_too_many() {
    let at = |span: i64| {
        let mut request = Request::new(Nanos(span * SPAN_NS), Op::Read, Bytes(0), Bytes(4096));
        request.volume = VolumeId((span % 3) as u32);
        request
    };
    let load: Vec<_> = (0..9000).map(at).collect();
    let whole = of(&load);
    let widths: BTreeSet<i64> = whole.distinct().pages().map(|of| of.width_ns).collect();
    assert_eq!(widths.into_iter().collect::<Vec<_>>(), [8 * SPAN_NS]);
    assert_eq!(told(&merged(&[&of(&load[4000..]), &of(&load[..4000])])), told(&whole));
}

#[test]
fn a_share_of_pages_is_drawn_with_all_their_accesses() {
    let twice: Vec<_> = reading((0..40_000).chain(0..40_000));
    let drawn = of(&twice);
    let drawn = drawn.drawn().unwrap();
    let pages: BTreeSet<u64> = drawn.accesses().iter().map(|access| access.page).collect();
    assert_eq!(drawn.accesses().len(), 2 * pages.len());
    let estimate = pages.len() as f64 / drawn.share();
    assert!((estimate / 40_000.0 - 1.0).abs() < 0.05, "{estimate}");
    let all = |share| {
        let mut sketches = Sketches::new("a", Some(share));
        sketches.observe_all(&twice[..100]);
        sketches.drawn().unwrap().accesses().len()
    };
    assert_eq!((all(1.0), all(0.0)), (100, 0));
}
