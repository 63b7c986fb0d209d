//! The check on the beginning of runs on several hosts.

use super::check;
use crate::begun::{Begun, skew};
use crate::verdict::{Check, Grade};

/// The name of the check on the beginning of runs on several hosts.
pub const START_SKEW: &str = "start-skew";

/// Of a single run there is nothing to say.
pub(in crate::judge) fn of_one() -> Check {
    let measured = "one run has no other to begin with".to_owned();
    check(START_SKEW, Grade::NotApplicable, measured, "", "")
}

/// Whether runs began together, each with its name and its beginning, as far as their clocks were
/// compared.
pub(crate) fn start_skew(are_simulated: bool, runs: &[(&str, Option<&Begun>)]) -> Check {
    let nothing = |why: &str| check(START_SKEW, Grade::NotApplicable, why.to_owned(), "", "");
    if are_simulated {
        return nothing("simulated runs begin at the zero of a time of their own");
    }
    let begun: Option<Vec<_>> = runs.iter().map(|(name, begun)| Some((*name, (*begun)?))).collect();
    let Some(skew) = begun.and_then(|begun| skew(&begun)) else {
        return nothing("nobody compared the clocks of these runs");
    };
    let furthest = skew.first_issues.unwrap_or(skew.zeros).max(skew.zeros);
    let is_within = furthest.saturating_add(skew.bound) <= skew.max;
    let issues = match skew.first_issues {
        Some(issues) => format!("first requests issued within {issues}, {} last", skew.last),
        None => "not all of them issued a request".to_owned(),
    };
    check(
        START_SKEW,
        if is_within { Grade::Pass } else { Grade::Suspect },
        format!("time zeros within {}, {issues}; both ± {}", skew.zeros, skew.bound),
        &format!("all begin within {}, the bound included", skew.max),
        "The hosts did not load the storage together from the beginning, or it cannot be told: \
         look for the host that was late in its own run, or for a network that answers slowly; \
         start.skew in the campaign says what is allowed.",
    )
}
