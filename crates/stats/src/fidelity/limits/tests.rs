//! Limits, and the reasons why one is broken.

use super::*;
use crate::fidelity::figures::{ErrorFigures, SideFigures, StallFigures};

#[test]
fn limits_are_spans_or_shares_and_nothing_unknown_is_accepted() {
    let of = |text: &str| text.parse::<Limit>().map(|limit| limit.most);
    assert_eq!(of("issue-p99=1ms"), Ok(Some(1e6)));
    assert_eq!(of("missing=0.5%"), Ok(Some(0.005)));
    assert_eq!(of("missing=0.005"), Ok(Some(0.005)));
    assert_eq!(of("duration=none"), Ok(None));
    for wrong in ["issue-p98=1ms", "issue-p99", "missing=-1%", "missing=x", "="] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
    assert_eq!(of("issue-p50=0"), Ok(Some(0.0)));
    assert!(of("issue-p99=5").unwrap_err().contains("'5' has no unit"));
    assert!(of("speed=1").unwrap_err().contains("issue-p50, issue-p99"));
}

#[test]
fn every_quantity_has_a_name_of_its_own_and_stands_at_its_place() {
    for (place, quantity) in Quantity::ALL.into_iter().enumerate() {
        assert_eq!(quantity as usize, place);
        let alike = Quantity::ALL.iter().filter(|other| other.name() == quantity.name());
        assert_eq!(alike.count(), 1);
    }
}

/// A replay of 1000 requests of which this was found.
fn judged(figures: FidelityFigures) -> Vec<Reason> {
    let asked =
        SideFigures { requests: 1000, span_ns: Some(10_000_000_000), ..SideFigures::default() };
    let found = 1000 - figures.missing;
    let figures = FidelityFigures {
        asked,
        found,
        due_span_ns: Some(10_000_000_000),
        late: Some(figures.late.clone().unwrap_or_default()),
        ..figures
    };
    assess(&figures, &Limits::default(), true).reasons
}

#[test]
fn requests_of_others_have_a_limit_of_their_own() {
    let with = |extra| judged(FidelityFigures { extra, ..FidelityFigures::default() });
    assert_eq!(with(10), []);
    assert_eq!(with(400), [Reason::ExtraRequests]);
    let outside = FidelityFigures { extra: 400, extra_outside: 400, ..Default::default() };
    assert_eq!(judged(outside), []);
}

#[test]
fn of_few_requests_a_single_one_breaks_no_share() {
    let of = |found, figures: FidelityFigures, limits: &Limits| {
        let asked = SideFigures { requests: found, ..SideFigures::default() };
        assess(&FidelityFigures { asked, found, ..figures }, limits, true).reasons
    };
    let judged = |figures| of(31, figures, &Limits::default());
    let order = |reordered, held_back| {
        let order = OrderFigures {
            reordered,
            held_back,
            apart: reordered - held_back,
            ratio: reordered as f64 / 571.0,
            ..OrderFigures::default()
        };
        FidelityFigures { order: Some(order), ..FidelityFigures::default() }
    };
    let reasons = |order, limits: &Limits| of(571, order, limits);
    let usual = Limits::default();
    assert_eq!((reasons(order(10, 0), &usual), reasons(order(15, 5), &usual)), (vec![], vec![]));
    assert_eq!(reasons(order(11, 0), &usual), [Reason::Reordered]);
    let none = Limits::with(&["reordered=0".parse().unwrap()]);
    assert_eq!(reasons(order(1, 0), &none), [Reason::Reordered]);
    let extra = |extra| FidelityFigures { extra, ..FidelityFigures::default() };
    assert_eq!(judged(extra(1)), []);
    assert_eq!(judged(extra(2)), [Reason::ExtraRequests]);
    let late = |requests, earliest_ns: i64, latest_ns: i64| {
        let p99_ns = latest_ns.max(-earliest_ns);
        let errors =
            ErrorFigures { p99_ns, max_ns: p99_ns, earliest_ns, latest_ns, ..Default::default() };
        let late = LateFigures { requests, idle: requests, ..LateFigures::default() };
        FidelityFigures { issue: Some(errors), late: Some(late), ..FidelityFigures::default() }
    };
    assert_eq!(judged(late(1, 0, 1_010_000)), []);
    assert_eq!(judged(late(2, 0, 1_010_000)), [Reason::IssuedLate]);
    assert_eq!(judged(late(1, 0, 11_000_000)), [Reason::IssuedLate]);
    assert_eq!(judged(late(0, -1_010_000, 0)), [Reason::Inexact]);
}

#[test]
fn a_recording_that_was_cut_off_lasting_stalls_and_drifts_are_called_so() {
    let span_ns = Some(5_000_000_000);
    let cut = FidelityFigures {
        missing: 500,
        seen: SideFigures { span_ns, ..SideFigures::default() },
        duration_error: Some(-0.5),
        ..FidelityFigures::default()
    };
    assert_eq!(judged(cut), [Reason::MissingRequests]);
    let errors = |p50_ns, latest_ns| ErrorFigures {
        p50_ns,
        p99_ns: latest_ns,
        latest_ns,
        ..ErrorFigures::default()
    };
    // It stood still for a second near the end of the first half and never made up for it: by
    // the median of all, the others were early.
    let stalls = StallFigures { stalls: 1, total_ns: 1_000_000_000, ..Default::default() };
    let issue = ErrorFigures { earliest_ns: -1_000_000_000, ..errors(400_000, 1_000_000_000) };
    let issue = ErrorFigures { latest_ns: 0, ..issue };
    let stalled =
        FidelityFigures { issue: Some(issue), stalls: Some(stalls), ..FidelityFigures::default() };
    assert_eq!(judged(stalled), [Reason::Stalled]);
    let drifted = FidelityFigures {
        issue: Some(errors(300_000, 2_000_000)),
        detrended: Some(errors(1000, 5000)),
        drift_ppm: Some(400.0),
        late: Some(LateFigures { requests: 300, idle: 300, ..LateFigures::default() }),
        ..FidelityFigures::default()
    };
    assert_eq!(judged(drifted), [Reason::Drifted]);
}

#[test]
fn nothing_found_is_not_faithful() {
    let assessment = assess(&FidelityFigures::default(), &Limits::default(), true);
    assert!(!assessment.faithful && assessment.broken.is_empty());
}
