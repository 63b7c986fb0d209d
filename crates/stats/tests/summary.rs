//! Files of earlier versions are still read.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use ioecho_stats::run_summary::{RunSummary, SUMMARY_VERSION};
use ioecho_stats::verdict::{Finding, Validity};
use ioecho_trace::TimingMode;

const OLD: &str = include_str!("summary-of-0.1.json");

#[test]
fn a_summary_from_before_targets_and_verification_is_read_and_keeps_what_it_said() {
    let summary: RunSummary = serde_json::from_str(OLD).unwrap();
    assert_eq!(summary.version, SUMMARY_VERSION);
    assert_eq!(summary.verdict.finding, Finding::Faithful);
    assert_eq!(summary.verdict.validity, Validity::Valid);
    assert_eq!((summary.recorded, summary.engine.targets), (10_090, 1));
    assert_eq!(summary.engine.timing, TimingMode::Timed);
    assert_eq!((summary.engine.verify.as_ref(), summary.per_target.len()), (None, 0));
    let again = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<RunSummary>(&again).unwrap(), summary);
}

#[test]
fn a_key_that_nobody_knows_is_refused() {
    let odd = OLD.replacen("\"recorded\"", "\"rekorded\"", 1);
    assert!(serde_json::from_str::<RunSummary>(&odd).is_err());
}
