//! Checks that a run is required to pass.
//!
//! A verdict is for a person, who reads *suspect* and decides. A script cannot: so it names the
//! checks that its figures depend on, and the exit code says whether they hold.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::judge;
use crate::verdict::{Check, Grade, Verdict};

/// The word for every check.
const ALL: &str = "all";
/// The word behind a check whose findings about the device are accepted.
const LIMITED: &str = "limited";

/// A requirement on a check, or on all. It is stored as it is typed: `NAME`, `NAME=limited`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Requirement {
    /// The check; `None` for all that no other requirement names.
    check: Option<String>,
    /// Whether a finding about the device will do.
    limited: bool,
}

impl Requirement {
    /// Whether a check holds this.
    ///
    /// A check that is named must have been made: one that does not apply proves nothing. For
    /// `all`, checks that do not apply are left out, because some exclude each other.
    fn is_met_by(&self, check: &Check) -> bool {
        match check.grade {
            Grade::Pass => true,
            Grade::Limited => self.limited,
            Grade::NotApplicable => self.check.is_none(),
            Grade::Suspect | Grade::Invalid => false,
        }
    }
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, level) = text.split_once('=').unwrap_or((text, ""));
        let limited = match level {
            LIMITED => true,
            "" if !text.contains('=') => false,
            _ => return Err(format!("'{level}' is no grade; write NAME or NAME={LIMITED}")),
        };
        let known = judge::names();
        if name != ALL && !known.iter().any(|known| known == name) {
            return Err(format!("'{name}' is no check; known are {ALL}, {}", known.join(", ")));
        }
        Ok(Self { check: (name != ALL).then(|| name.to_owned()), limited })
    }
}

impl TryFrom<String> for Requirement {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Requirement> for String {
    fn from(requirement: Requirement) -> Self {
        requirement.to_string()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.check.as_deref().unwrap_or(ALL))?;
        if self.limited { write!(f, "={LIMITED}") } else { Ok(()) }
    }
}

/// The checks of a verdict that do not hold what is required of them.
///
/// A requirement that names a check takes precedence over one on all; of two that name it the last
/// counts. A named check that this verdict lacks, as in an older version, does not hold either.
pub fn unmet(required: &[Requirement], verdict: &Verdict) -> Vec<String> {
    let of = |name: Option<&str>| {
        required.iter().rev().find(|requirement| requirement.check.as_deref() == name)
    };
    let broken = verdict.checks.iter().filter_map(|check| {
        let requirement = of(Some(&check.name)).or_else(|| of(None))?;
        let grade = check.grade.name();
        (!requirement.is_met_by(check)).then(|| format!("{} is {grade}", check.name))
    });
    let has = |name: &str| verdict.checks.iter().any(|check| check.name == name);
    let lacking = required.iter().filter_map(|requirement| {
        let name = requirement.check.as_deref().filter(|name| !has(name))?;
        Some(format!("{name} was not checked"))
    });
    broken.chain(lacking).collect()
}

/// The line on it for a person; `None` where nothing is required.
pub fn line(required: &[Requirement], unmet: &[String]) -> Option<String> {
    if required.is_empty() {
        None
    } else if unmet.is_empty() {
        let names: Vec<String> = required.iter().map(ToString::to_string).collect();
        Some(format!("required      met: {}", names.join(", ")))
    } else {
        Some(format!("required      NOT MET: {}", unmet.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Finding, Validity};

    fn verdict(checks: &[(&str, Grade)]) -> Verdict {
        let check = |(name, grade): &(&str, Grade)| Check {
            name: (*name).to_owned(),
            grade: *grade,
            measured: String::new(),
            threshold: String::new(),
            advice: String::new(),
            explained_by: None,
        };
        Verdict {
            validity: Validity::Valid,
            finding: Finding::Faithful,
            summary: String::new(),
            checks: checks.iter().map(check).collect(),
        }
    }

    fn unmet_of(required: &str, checks: &[(&str, Grade)]) -> Vec<String> {
        let required: Vec<Requirement> =
            required.split(',').map(|text| text.parse().unwrap()).collect();
        unmet(&required, &verdict(checks))
    }

    #[test]
    fn a_required_check_must_pass_and_must_have_been_made() {
        use Grade::{Invalid, Limited, NotApplicable, Pass, Suspect};
        let lateness = |grade| unmet_of("lateness", &[("lateness", grade), ("storage", Invalid)]);
        assert_eq!(lateness(Pass), Vec::<String>::new());
        for grade in [NotApplicable, Limited, Suspect, Invalid] {
            assert_eq!(lateness(grade).len(), 1, "{grade:?}");
        }
        assert_eq!(lateness(Suspect), ["lateness is suspect"]);
        assert_eq!(unmet_of("lateness", &[]), ["lateness was not checked"]);
    }

    #[test]
    fn a_finding_about_the_device_will_do_where_it_is_said_so() {
        let checks = [("lateness", Grade::Limited), ("duration", Grade::Limited)];
        assert_eq!(unmet_of("lateness=limited", &checks), Vec::<String>::new());
        assert_eq!(unmet_of("all,lateness=limited", &checks), ["duration is limited"]);
        assert_eq!(unmet_of("all=limited", &checks), Vec::<String>::new());
    }

    #[test]
    fn of_all_checks_those_that_do_not_apply_are_left_out() {
        let checks = [("lateness", Grade::Pass), ("integrity", Grade::NotApplicable)];
        assert_eq!(unmet_of("all", &checks), Vec::<String>::new());
        assert_eq!(unmet_of("all,integrity", &checks), ["integrity is not applicable"]);
    }

    #[test]
    fn what_is_no_check_is_refused_with_the_list() {
        for wrong in ["", "latenes", "lateness=", "lateness=pass", "=limited"] {
            assert!(wrong.parse::<Requirement>().is_err(), "{wrong}");
        }
        let said = "latenes".parse::<Requirement>().unwrap_err();
        assert!(said.contains("lateness, duration") && said.contains("clock"), "{said}");
        for right in ["all", "clock", "clock=limited"] {
            assert_eq!(right.parse::<Requirement>().unwrap().to_string(), right);
        }
    }
}
