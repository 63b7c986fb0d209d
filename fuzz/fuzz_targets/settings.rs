//! What is typed behind flags: sizes, spans, limits, criteria, routes, simulated devices.
#![no_main]

use std::fmt::Display;
use std::str::FromStr;

use ioecho_replay::map::RouteSpec;
use ioecho_replay::sim::SimSpec;
use ioecho_stats::compare::Criterion;
use ioecho_stats::fidelity::Limit;
use ioecho_trace::transform::Asked;
use ioecho_trace::{Bytes, Nanos};
use libfuzzer_sys::fuzz_target;

/// Parses it; whoever is refused is told why.
fn parse<T: FromStr<Err: Display>>(text: &str) -> Option<T> {
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fuzz_target!(|text: &str| {
    parse::<Bytes>(text);
    parse::<Nanos>(text);
    parse::<RouteSpec>(text);
    parse::<SimSpec>(text);
    parse::<Criterion>(text);
    // What is shown of these can be typed.
    if let Some(limit) = parse::<Limit>(text) {
        assert!(parse::<Limit>(&limit.to_string()).is_some(), "{limit}");
    }
    if let Some(asked) = parse::<Asked>(text) {
        assert!(parse::<Asked>(&asked.to_string()).is_some(), "{asked}");
    }
});
