//! When runs on several hosts began, on one axis of time.
//!
//! Replays that shall be one load of a storage must begin together. Whether they did can be told if
//! somebody compared the hosts' clocks: then each run has its time zero on one axis, and a bound of
//! how far off that may be.

use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

/// When a run began, on an axis that it shares with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begun {
    /// The axis: a clock and who compared others with it. Two runs can be held against each other
    /// if theirs are the same.
    pub axis: String,
    /// Its time zero on the axis.
    pub zero_ns: i64,
    /// How far off that is at most.
    pub bound_ns: i64,
    /// How long after its time its first request was issued; missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_late_ns: Option<i64>,
    /// How far apart the runs may begin.
    pub skew_max_ns: i64,
}

/// How far apart runs began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skew<'r> {
    /// Between the first time zero and the last.
    pub zeros: Nanos,
    /// The same of their first requests, each less the time at which it was due.
    pub first_issues: Option<Nanos>,
    /// How far off both are at most.
    pub bound: Nanos,
    /// How far apart they may be.
    pub max: Nanos,
    /// The run whose first request was the last.
    pub last: &'r str,
}

/// How far apart these runs began, each with its name; `None` where that is not known of all of
/// them, or is known on different axes.
pub fn skew<'r>(runs: &[(&'r str, &Begun)]) -> Option<Skew<'r>> {
    let (_, first) = runs.first()?;
    if runs.len() < 2 || runs.iter().any(|(_, begun)| begun.axis != first.axis) {
        return None;
    }
    let issued = |begun: &Begun| Some(begun.zero_ns.saturating_add(begun.first_late_ns?));
    let apart = |all: &mut dyn Iterator<Item = i64>| {
        let (low, high) =
            all.fold((i64::MAX, i64::MIN), |(low, high), it| (low.min(it), high.max(it)));
        Nanos(high.saturating_sub(low).max(0))
    };
    let all_issued: Option<Vec<i64>> = runs.iter().map(|(_, begun)| issued(begun)).collect();
    // Of two runs each may be off, to different sides.
    let mut bounds: Vec<i64> = runs.iter().map(|(_, begun)| begun.bound_ns).collect();
    bounds.sort_unstable();
    let bound = bounds.iter().rev().take(2).fold(0_i64, |sum, it| sum.saturating_add(*it));
    // Of several that began last the first by name, whatever their order.
    let last = runs.iter().max_by(|(one, a), (other, b)| {
        let of = |begun: &Begun| issued(begun).unwrap_or(begun.zero_ns);
        of(a).cmp(&of(b)).then(other.cmp(one))
    });
    Some(Skew {
        zeros: apart(&mut runs.iter().map(|(_, begun)| begun.zero_ns)),
        first_issues: all_issued.map(|all| apart(&mut all.into_iter())),
        bound: Nanos(bound),
        max: Nanos(runs.iter().map(|(_, begun)| begun.skew_max_ns).min().unwrap_or(0)),
        last: last.map_or("", |(name, _)| *name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(zero_ns: i64, bound_ns: i64, late: i64) -> Begun {
        let (axis, first_late_ns) = ("a".to_owned(), Some(late));
        Begun { axis, zero_ns, bound_ns, first_late_ns, skew_max_ns: 1_000_000 }
    }

    #[test]
    fn runs_began_as_far_apart_as_the_first_and_the_last() {
        let (a, b, c) = (begun(1_000, 5, 30), begun(1_400, 9, 10), begun(900, 2, 700));
        let skew = skew(&[("a", &a), ("b", &b), ("c", &c)]).unwrap();
        assert_eq!((skew.zeros, skew.first_issues), (Nanos(500), Some(Nanos(570))));
        assert_eq!((skew.bound, skew.last), (Nanos(14), "c"));
    }

    #[test]
    fn without_a_common_axis_nothing_is_said() {
        let a = begun(0, 1, 1);
        let b = Begun { axis: "another".to_owned(), ..a.clone() };
        assert_eq!(skew(&[("a", &a), ("b", &b)]), None);
        assert_eq!(skew(&[("a", &a)]), None);
        let silent = Begun { first_late_ns: None, ..a.clone() };
        assert_eq!(skew(&[("a", &a), ("b", &silent)]).unwrap().first_issues, None);
    }
}
