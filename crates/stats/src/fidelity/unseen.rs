//! Requests that were asked for and have no counterpart: never issued, missing, or not witnessed.
//!
//! The gaps of a recording are known only at its end, and requests leave the window before. So for
//! each unmatched request the instant is kept at which it should have been seen.

use std::collections::BTreeMap;

use ioecho_trace::Op;

use super::blind::Blind;
use super::event::Event;
use super::figures::Example;
use super::sample::Sample;

/// How many requests of a kind are told as examples.
pub(super) const EXAMPLES_MAX: usize = 5;

/// From how many examples those are taken that are not excused in the end.
const CANDIDATES_MAX: usize = 1 << 16;

/// Requests by number, and flushes among them.
#[derive(Clone, Copy, Default)]
struct Count {
    all: u64,
    flushes: u64,
}

impl Count {
    fn add(&mut self, op: Op, count: u64) {
        self.all = self.all.saturating_add(count);
        self.flushes = self.flushes.saturating_add(if op == Op::Flush { count } else { 0 });
    }
}

/// What is counted of them.
#[derive(Default)]
pub(super) struct Unseen {
    not_issued: BTreeMap<String, u64>,
    /// Issued, before the end of what was seen.
    before: Count,
    /// Issued, behind the end of what was seen or a little before.
    behind: Count,
    /// When each of both ought to have been seen, and whether that is behind the end.
    at: Sample<(i64, bool, Op)>,
    /// Examples: when it ought to have been seen, and whether that is behind the end.
    first: Vec<(i64, bool, Example)>,
    first_not_issued: Vec<Example>,
}

/// Their classification.
#[derive(Default)]
pub(super) struct UnseenFigures {
    /// Missing, those that were not issued included.
    pub(super) missing: u64,
    pub(super) not_issued: BTreeMap<String, u64>,
    /// Of the missing ones flushes that were issued.
    pub(super) flushes: u64,
    pub(super) not_witnessed: u64,
    pub(super) first: Vec<Example>,
}

impl Unseen {
    /// Counts one that nobody could have seen.
    pub(super) fn not_issued(&mut self, event: &Event, outcome: &str) {
        *self.not_issued.entry(outcome.to_owned()).or_default() += 1;
        if self.first_not_issued.len() < EXAMPLES_MAX {
            self.first_not_issued.push(Example::of(event));
        }
    }

    /// Counts one that ought to have been seen at `at`, which may lie behind the end of what was.
    pub(super) fn missing(&mut self, event: &Event, at: i64, is_behind: bool) {
        if is_behind {
            self.behind.add(event.op, 1);
        } else {
            self.before.add(event.op, 1);
        }
        self.at.push((at, is_behind, event.op));
        if self.first.len() < CANDIDATES_MAX {
            self.first.push((at, is_behind, Example::of(event)));
        }
    }

    /// What they are, by what is known of the recording at its end.
    pub(super) fn figures(&self, blind: &Blind, slack_ns: i64) -> UnseenFigures {
        let (mut missing, mut hidden) = (self.before, Count::default());
        if !blind.ends_early {
            missing.all = missing.all.saturating_add(self.behind.all);
            missing.flushes = missing.flushes.saturating_add(self.behind.flushes);
        }
        let mut outside = Count::default();
        // A recording that went on to its end may also have gaps there.
        for (at, is_behind, op) in self.at.rows() {
            if *is_behind && blind.ends_early {
                continue;
            }
            if blind.is_outside(*at, slack_ns) {
                outside.add(*op, self.at.every());
            } else if blind.hides(*at, slack_ns) {
                hidden.add(*op, self.at.every());
            }
        }
        outside.flushes = outside.flushes.min(missing.flushes);
        outside.all = outside.all.min(missing.all);
        missing.all -= outside.all;
        missing.flushes = (missing.flushes - outside.flushes).min(missing.all);
        hidden.flushes = hidden.flushes.min(missing.flushes);
        hidden.all = hidden.all.min(missing.all);
        // A gap is long beside what was lost in it.
        let is_more = blind.most.is_some_and(|most| hidden.all > most);
        if let Some(most) = blind.most.filter(|_| is_more) {
            let others = hidden.all.saturating_sub(hidden.flushes);
            // Nobody knows the kind. Flushes are excused otherwise too.
            hidden = Count { all: most, flushes: most.saturating_sub(others) };
        }
        missing.all -= hidden.all;
        missing.flushes = (missing.flushes - hidden.flushes).min(missing.all);
        hidden.all = hidden.all.saturating_add(outside.all);
        if blind.ends_early {
            hidden.all = hidden.all.saturating_add(self.behind.all);
        }
        // Of what was lost somewhere nobody knows the kind. Flushes are excused otherwise too.
        let anywhere = blind.anywhere.min(missing.all);
        missing.all -= anywhere;
        missing.flushes = missing.flushes.min(missing.all);
        let not_issued: u64 = self.not_issued.values().sum();
        let is_outside = |(at, is_behind, _): &&(i64, bool, Example)| {
            *is_behind && blind.ends_early || blind.is_outside(*at, slack_ns)
        };
        let is_excused =
            |one: &&(i64, bool, Example)| is_outside(one) || blind.hides(one.0, slack_ns);
        let told = if missing.all > 0 { &self.first[..] } else { &[] };
        let sure = told.iter().filter(|one| !is_excused(one)).map(|one| one.2.clone());
        let mut first: Vec<Example> = self.first_not_issued.iter().cloned().chain(sure).collect();
        first.sort_by_key(|place| place.at_ns);
        first.truncate(EXAMPLES_MAX);
        if is_more {
            let in_gaps = told.iter().filter(|one| !is_outside(one) && is_excused(one));
            let rest = EXAMPLES_MAX - first.len();
            first.extend(in_gaps.take(rest).map(|one| one.2.clone()));
            first.sort_by_key(|place| place.at_ns);
        }
        UnseenFigures {
            missing: missing.all.saturating_add(not_issued),
            not_issued: self.not_issued.clone(),
            flushes: missing.flushes,
            not_witnessed: hidden.all.saturating_add(anywhere),
            first,
        }
    }
}
