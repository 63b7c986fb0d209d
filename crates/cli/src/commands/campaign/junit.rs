//! The results of a campaign for a CI system, as `JUnit` XML, which all of them read.
//!
//! A cell is a test case: without a result it is an error, with a broken expectation a failure.
//! Each point that is compared with a kept campaign is one as well.

use std::fmt::Write as _;

use ioecho_campaign::conclusion::{Broken, Conclusion};
use ioecho_campaign::executor::{Executor, State};

/// The text of the file.
pub(super) fn text(executor: &Executor<'_>, conclusion: &Conclusion) -> String {
    let mut cases = String::new();
    let (mut count, mut failures, mut errors, mut skipped) = (0, 0, 0, 0);
    let mut case = |name: &str, inner: &str| {
        count += 1;
        let end = if inner.is_empty() { "/>".to_owned() } else { format!(">{inner}</testcase>") };
        let (class, name) = (escaped(&conclusion.name), escaped(name));
        let _ = writeln!(cases, "  <testcase classname=\"{class}\" name=\"{name}\"{end}");
    };
    for (cell, state) in executor.cells().iter().zip(executor.states()) {
        let name = cell.name();
        let broken: Vec<String> =
            conclusion.broken.iter().filter(|it| it.cell == name).map(Broken::told).collect();
        let inner = match state {
            State::Done(..) if broken.is_empty() => String::new(),
            State::Done(..) => {
                failures += 1;
                element("failure", &format!("does not hold: {}", broken.join("; ")))
            }
            State::Failed(reason) => {
                errors += 1;
                element("error", reason)
            }
            State::Skipped(reason) => {
                skipped += 1;
                element("skipped", reason)
            }
            State::Missing | State::Running => {
                skipped += 1;
                element("skipped", "not run yet")
            }
        };
        case(&name, &inner);
    }
    let is_of_point = |name: &str| executor.cells().iter().all(|cell| cell.name() != name);
    for broken in conclusion.broken.iter().filter(|it| is_of_point(&it.cell)) {
        failures += 1;
        case(&broken.cell, &element("failure", &format!("does not hold: {}", broken.told())));
    }
    for against in &conclusion.against {
        let inner = if against.met.is_empty() {
            String::new()
        } else {
            failures += 1;
            element("failure", &against.met.join("; "))
        };
        case(&format!("against the kept campaign: {}", against.conclusion), &inner);
    }
    let name = escaped(&conclusion.name);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{name}\" tests=\"{count}\" \
         failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">\n{cases}</testsuite>\n"
    )
}

fn element(name: &str, message: &str) -> String {
    format!("<{name} message=\"{}\"/>", escaped(message))
}

/// A text in an attribute; XML has no control characters.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_no_markup() {
        assert_eq!(escaped("p99 < 5 & \"x\"\n"), "p99 &lt; 5 &amp; &quot;x&quot; ");
    }
}
