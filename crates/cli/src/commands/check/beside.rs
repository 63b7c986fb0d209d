//! The facts that a reader needs beside the figures of a check.
//!
//! A check may call a run *faithful* although its verdict found another load on the device. And two
//! recordings may count different events of the kernel. Neither shows in the figures.

use ioecho_stats::verdict::{Check, Grade, Verdict};

use super::Known;

/// The verdict's sentence on other load on the run's devices, if there was any.
pub(super) fn other_load(verdict: &Verdict) -> Option<String> {
    let Check { grade, measured, .. } = verdict.check("other-load")?;
    match grade {
        Grade::Pass | Grade::NotApplicable => None,
        Grade::Limited | Grade::Suspect | Grade::Invalid => {
            Some(format!("{measured} ({})", grade.name()))
        }
    }
}

/// A sentence for two traces that count different events of the kernel as the issue.
pub(super) fn unlike_events(known: &Known) -> Option<String> {
    let (asked, seen) = (known.asked_event.as_ref()?, known.event.as_ref()?);
    (!known.is_run && asked != seen).then(|| {
        format!(
            "the two traces count different events as the issue of a request: {asked} and {seen}; \
             what lies between them is in all figures, and merges and splits are none of the \
             replay's\n  = help: name recordings that were read with the same --event"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::verdict::{Finding, Validity};

    #[test]
    fn other_load_is_told_where_the_verdict_found_it() {
        let check = |name: &str, grade, measured: &str| Check {
            name: name.to_owned(),
            grade,
            measured: measured.to_owned(),
            threshold: String::new(),
            advice: String::new(),
            explained_by: None,
        };
        let of = |checks: Vec<Check>| {
            let (validity, finding) = (Validity::Valid, Finding::Faithful);
            other_load(&Verdict { validity, finding, summary: String::new(), checks })
        };
        let cpu = check("cpu", Grade::Suspect, "x");
        let graded = |grade| of(vec![cpu.clone(), check("other-load", grade, "9 % more")]);
        assert_eq!(graded(Grade::Suspect).as_deref(), Some("9 % more (suspect)"));
        assert_eq!((graded(Grade::Pass), graded(Grade::NotApplicable)), (None, None));
        assert_eq!(of(vec![cpu.clone()]), None);
    }

    #[test]
    fn different_events_are_told_of_two_traces() {
        let of = |asked: &str, seen: &str, is_run| {
            unlike_events(&Known {
                asked_event: Some(asked.to_owned()),
                event: Some(seen.to_owned()),
                is_run,
                ..Known::default()
            })
        };
        let told = of("queued (Q)", "issued (D)", false).unwrap();
        assert!(told.contains("queued (Q) and issued (D)"), "{told}");
        assert_eq!((of("queued (Q)", "queued (Q)", false), of("a", "b", true)), (None, None));
        assert_eq!(unlike_events(&Known::default()), None);
    }
}
