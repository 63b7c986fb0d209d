//! Whether runs may be compared at all.
//!
//! The commonest way to a wrong comparison is not statistics but two runs that did not do the same:
//! another part of the trace, a device so small that half of the load wrapped around, a run that
//! broke off, a generator that fell behind. Each of these is a named obstacle here. If an obstacle
//! makes the figures meaningless, the comparison is refused until the user allows it by name; if it
//! only makes them doubtful, it is reported.

use serde::Serialize;

use super::load::{LoadMark, lines};
use crate::run_summary::{EngineFacts, RunSummary};
use crate::verdict::{Grade, Validity, Verdict};
use ioecho_trace::units::counted;

/// Wraparound factors that differ by more than this mean different loads: 5 %, the difference
/// between disks of one nominal size.
const WRAPAROUND_APART: f64 = 1.05;

/// A larger share of failed requests than this makes percentiles doubtful: those that failed are in
/// none of them.
const FAILED_SHARE: f64 = 0.001;

/// The names of all obstacles that are refusals.
pub const REFUSALS: [&str; 10] = [
    "complete",
    "valid",
    "load",
    "timing",
    "speedup",
    "schedule",
    "conflicts",
    "wraparound",
    "substituted",
    "left-out",
];

/// What an obstacle does to a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// It is told.
    Doubt,
    /// Nothing is compared unless the user allows it by name.
    Refusal,
}

/// Why two runs are hard to compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// Its stable name, such as `load`.
    pub name: &'static str,
    /// What it does.
    pub weight: Weight,
    /// What differs, with both values.
    pub text: String,
}

/// What a comparison must know of a run before it looks at its figures.
#[derive(Clone, Debug)]
pub struct Replayed<'a> {
    /// What the run is called.
    pub name: &'a str,
    /// Its figures and verdict.
    pub summary: &'a RunSummary,
    /// The load that it replayed.
    pub load: LoadMark,
    /// What of its targets decides on what its lines make: shapes of trees of files, and sizes of
    /// devices that a load goes over as a whole. Empty if nothing does.
    pub room: &'a str,
    /// What its plan says of conflicts between requests: the rule and its strength, in words.
    pub conflicts: &'a str,
}

/// Everything that is in the way of comparing runs with the first of them.
pub fn obstacles(runs: &[Replayed<'_>]) -> Vec<Obstacle> {
    let mut found = Vec::new();
    for run in runs {
        of_one(run, &mut found);
    }
    let Some((first, others)) = runs.split_first() else { return found };
    for other in others {
        of_two(first, other, &mut found);
    }
    found
}

fn of_one(run: &Replayed<'_>, found: &mut Vec<Obstacle>) {
    let Replayed { name, summary, .. } = run;
    let mut add = |obstacle, weight, text| found.push(Obstacle { name: obstacle, weight, text });
    if !summary.engine.incomplete.is_empty() {
        let why = &summary.engine.incomplete;
        add("complete", Weight::Refusal, format!("{name} is incomplete: {why}"));
    }
    let verdict = &summary.verdict;
    match verdict.validity {
        Validity::Invalid => {
            let text = format!("{name} is invalid: {}", why(verdict, Grade::Invalid));
            add("valid", Weight::Refusal, text);
        }
        Validity::Suspect => {
            let text = format!("{name} is suspect: {}", why(verdict, Grade::Suspect));
            add("suspect", Weight::Doubt, text);
        }
        Validity::Valid => {}
    }
    let share = summary.failed as f64 / summary.engine.issued.max(1) as f64;
    if share > FAILED_SHARE {
        let text = format!(
            "{} of {name} failed ({:.2} %), without a place in the percentiles",
            counted(summary.failed, "request"),
            share * 100.0
        );
        add("failures", Weight::Doubt, text);
    }
}

/// The checks that make a run what it is; the verdict's own words where its finding does.
fn why(verdict: &Verdict, grade: Grade) -> String {
    let causes = verdict.checks.iter().filter(|check| check.grade == grade && check.is_cause());
    let causes: Vec<String> =
        causes.map(|check| format!("{}: {}", check.name, check.measured)).collect();
    if causes.is_empty() { verdict.summary.clone() } else { causes.join("; ") }
}

fn of_two(first: &Replayed<'_>, other: &Replayed<'_>, found: &mut Vec<Obstacle>) {
    use Weight::{Doubt, Refusal};
    let (a, b) = (&first.summary.engine, &other.summary.engine);
    let mut differ = |name, weight, what: &str, one: String, two: String| {
        if one != two {
            let text = format!("{what}: {} {one}, {} {two}", first.name, other.name);
            found.push(Obstacle { name, weight, text });
        }
    };
    let (one, two) = (first.load, other.load);
    if one.requests == two.requests {
        let told = |load: LoadMark| format!("{:016x}", load.content);
        differ("load", Refusal, "other requests (mark of the load)", told(one), told(two));
    } else {
        differ("load", Refusal, "another load", requests(first), requests(other));
    }
    differ("load", Refusal, "other clients", clients(a), clients(b));
    differ("load", Refusal, "other places", first.room.to_owned(), other.room.to_owned());
    differ("timing", Refusal, "another timing", a.timing.to_string(), b.timing.to_string());
    let speed = |factor: f64| format!("{factor}");
    differ("speedup", Refusal, "another speed", speed(a.speedup), speed(b.speedup));
    let (one_server, other_server) = (speed(a.server_speed), speed(b.server_speed));
    differ("speedup", Refusal, "another speed of the server", one_server, other_server);
    if a.has_schedule() && b.has_schedule() && one.content == two.content {
        let told = |load: LoadMark| format!("{:016x}", load.schedule);
        let (one, two) = (told(one), told(two));
        if (a.speedup - b.speedup).abs() < f64::EPSILON {
            differ("schedule", Refusal, "requests due at other instants (mark)", one, two);
        }
    }
    let (one, two) = (first.conflicts.to_owned(), other.conflicts.to_owned());
    differ("conflicts", Refusal, "another conflict rule", one, two);
    match (a.wraparound_factor, b.wraparound_factor) {
        (Some(one), Some(two)) => {
            let apart = (one / two).max(two / one);
            if apart > WRAPAROUND_APART || apart.is_nan() || (a.wrapped == 0) != (b.wrapped == 0) {
                let told = |factor: f64, wrapped: u64| format!("{factor:.3} ({wrapped} wrapped)");
                let (one, two) = (told(one, a.wrapped), told(two, b.wrapped));
                differ("wraparound", Refusal, "another wraparound factor", one, two);
            }
        }
        (one, two) => {
            let known = |factor: Option<f64>| factor.map_or("unknown", |_| "known").to_owned();
            differ("wraparound", Doubt, "the wraparound factor", known(one), known(two));
        }
    }
    let count = |number: u64| number.to_string();
    let (one, two) = (count(a.substituted), count(b.substituted));
    differ("substituted", Refusal, "writes replayed as reads", one, two);
    let (one, two) = (count(a.left_out), count(b.left_out));
    differ("left-out", Refusal, "requests left out", one, two);
    let cap = |cap: u32| if cap == 0 { "unknown".to_owned() } else { cap.to_string() };
    let (one, two) = (cap(a.in_flight_max), cap(b.in_flight_max));
    differ("in-flight", Doubt, "another cap on requests in flight", one, two);
    let word = |yes: bool, word: &str, other: &str| if yes { word } else { other }.to_owned();
    let storage = |simulated| word(simulated, "simulated", "real");
    differ("storage", Doubt, "storage", storage(a.simulated), storage(b.simulated));
    let cache = |direct| word(direct, "bypassed", "in between");
    differ("page-cache", Doubt, "page cache", cache(a.direct), cache(b.direct));
    let (one, two) = (a.targets.to_string(), b.targets.to_string());
    differ("targets", Doubt, "targets", one, two);
}

/// How many requests a load has. Those of clients are results, and count for no mark.
fn requests(run: &Replayed<'_>) -> String {
    if lines(&run.summary.engine.flows).is_empty() {
        format!("{} requests", run.load.requests)
    } else {
        format!("{} requests of clients", run.summary.recorded)
    }
}

fn clients(engine: &EngineFacts) -> String {
    let lines = lines(&engine.flows);
    if lines.is_empty() { "none".to_owned() } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::TimingMode;

    use crate::facts::FlowFacts;
    use crate::run_summary::{EngineFacts, RunFigures};
    use crate::verdict::{Check, Finding};

    fn summary(change: impl Fn(&mut RunSummary)) -> RunSummary {
        let facts = EngineFacts { wraparound_factor: Some(1.0), ..EngineFacts::default() };
        let mut summary = RunFigures::default().summary(facts);
        summary.verdict = Verdict {
            validity: Validity::Valid,
            finding: Finding::Faithful,
            summary: String::new(),
            checks: Vec::new(),
        };
        change(&mut summary);
        summary
    }

    fn found(change: impl Fn(&mut RunSummary), load: LoadMark) -> Vec<(&'static str, Weight)> {
        let (one, two) = (summary(|_| ()), summary(change));
        let of =
            |name, summary, load| Replayed { name, summary, load, room: "", conflicts: "push 2" };
        let all = obstacles(&[of("a", &one, LoadMark::default()), of("b", &two, load)]);
        all.into_iter().map(|obstacle| (obstacle.name, obstacle.weight)).collect()
    }

    #[test]
    fn runs_of_the_same_load_under_the_same_rules_have_nothing_in_the_way() {
        assert!(found(|_| (), LoadMark::default()).is_empty());
        let close = |summary: &mut RunSummary| summary.engine.wraparound_factor = Some(1.04);
        assert!(found(close, LoadMark::default()).is_empty());
        assert!(obstacles(&[]).is_empty());
    }

    #[test]
    fn a_run_that_may_not_be_used_is_told_by_its_checks_and_not_by_its_praise() {
        let held = summary(|summary| {
            "Faithful: 99 % of all".clone_into(&mut summary.verdict.summary);
            summary.verdict.validity = Validity::Invalid;
            summary.verdict.checks.push(Check {
                name: "failures".to_owned(),
                grade: Grade::Invalid,
                measured: "9 requests failed".to_owned(),
                threshold: String::new(),
                advice: String::new(),
                explained_by: None,
            });
        });
        let load = LoadMark::default();
        let conflicts = "push 2";
        let all = obstacles(&[Replayed { name: "a", summary: &held, load, room: "", conflicts }]);
        assert_eq!(all[0].text, "a is invalid: failures: 9 requests failed");
    }

    #[test]
    fn each_difference_that_makes_another_load_is_refused_by_its_name() {
        use Weight::{Doubt, Refusal};
        type Change = fn(&mut RunSummary);
        let other = LoadMark { content: 1, ..LoadMark::default() };
        assert_eq!(found(|_| (), other), [("load", Refusal)]);
        let longer = LoadMark { requests: 1, ..LoadMark::default() };
        assert_eq!(found(|_| (), longer), [("load", Refusal)]);
        let later = LoadMark { schedule: 1, ..LoadMark::default() };
        assert_eq!(found(|_| (), later), [("schedule", Refusal)]);
        let clients: Change = |summary| {
            let load = "gen:random?read=70".to_owned();
            let flow = FlowFacts { flow: 1, load, threads: Some(4), ..FlowFacts::default() };
            summary.engine.flows = vec![flow];
        };
        assert_eq!(found(clients, LoadMark::default()), [("load", Refusal)]);
        // How many requests clients make is a result, and no "0 requests".
        let (mut of_clients, of_trace) = (summary(clients), summary(|_| ()));
        of_clients.recorded = 3604;
        let replayed = |name, summary, requests| {
            let load = LoadMark { requests, ..LoadMark::default() };
            Replayed { name, summary, load, room: "", conflicts: "" }
        };
        let all = obstacles(&[replayed("a", &of_clients, 0), replayed("b", &of_trace, 3604)]);
        assert_eq!(all[0].text, "another load: a 3604 requests of clients, b 3604 requests");
        assert!(all[1].text.ends_with(", b none"), "{}", all[1].text);
        let cases: [(Change, (&str, Weight)); 9] = [
            (|s| s.engine.timing = TimingMode::Afap, ("timing", Refusal)),
            (|s| s.engine.speedup = 2.0, ("speedup", Refusal)),
            (|s| s.engine.wraparound_factor = Some(1.2), ("wraparound", Refusal)),
            (|s| s.engine.wrapped = 5, ("wraparound", Refusal)),
            (|s| s.engine.incomplete = "killed".to_owned(), ("complete", Refusal)),
            (|s| s.verdict.validity = Validity::Invalid, ("valid", Refusal)),
            (|s| s.verdict.validity = Validity::Suspect, ("suspect", Doubt)),
            (|s| s.engine.simulated = true, ("storage", Doubt)),
            (|s| s.engine.in_flight_max = 8, ("in-flight", Doubt)),
        ];
        for (change, expected) in cases {
            assert_eq!(found(change, LoadMark::default()), [expected]);
        }
    }
}
