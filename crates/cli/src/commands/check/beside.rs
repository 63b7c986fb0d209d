//! What has to be known beside the figures of a check.
//!
//! A check may say *faithful* of a run whose verdict has found another load on the device, and two
//! recordings may count different events of the kernel. Neither shows in the figures.

use super::Known;

/// Grades of a check that are nothing to tell.
const CALM: [&str; 2] = ["pass", "not-applicable"];

/// What the verdict of a run says of other load on its devices, if there was any.
pub(super) fn other_load(facts: &toml::Table) -> Option<String> {
    let checks = facts.get("verdict")?.get("checks")?.as_array()?;
    let text = |check: &toml::Value, key: &str| {
        check.get(key).and_then(toml::Value::as_str).map(str::to_owned)
    };
    let is_it = |check: &&toml::Value| text(check, "name").as_deref() == Some("other-load");
    let check = checks.iter().find(is_it)?;
    let grade = text(check, "grade").filter(|grade| !CALM.contains(&grade.as_str()))?;
    Some(format!("{} ({grade})", text(check, "measured")?))
}

/// That two traces count different events of the kernel as the issue, where they do.
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

    #[test]
    fn other_load_is_told_where_the_verdict_found_it() {
        let of = |grade: &str| {
            let text = format!(
                "[[verdict.checks]]\nname = 'cpu'\ngrade = 'suspect'\nmeasured = 'x'\n\
                 [[verdict.checks]]\nname = 'other-load'\ngrade = '{grade}'\nmeasured = '9 % more'"
            );
            other_load(&text.parse().unwrap())
        };
        assert_eq!(of("suspect").as_deref(), Some("9 % more (suspect)"));
        assert_eq!((of("pass"), of("not-applicable")), (None, None));
        assert_eq!(other_load(&toml::Table::new()), None);
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
