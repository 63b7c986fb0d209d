//! Why a description is refused.

/// A description that cannot be used: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}\n  | {text}\n  | {}", mark(text, *at, *length))]
pub struct DescriptionError {
    /// The description as it was typed.
    pub(super) text: String,
    /// The byte where the fault begins.
    pub(super) at: usize,
    /// How many bytes it is long; 0 for something that is missing there.
    pub(super) length: usize,
    /// What is wrong, with what there is instead.
    pub(super) reason: String,
}

/// A line with `^` under the fault.
fn mark(text: &str, at: usize, length: usize) -> String {
    let characters = |from: usize, to: usize| text.get(from..to).map_or(0, |t| t.chars().count());
    let at = at.min(text.len());
    let blanks = characters(0, at);
    let width = characters(at, (at + length).min(text.len())).max(1);
    format!("{}{}", " ".repeat(blanks), "^".repeat(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_under_the_fault_whatever_letters_are_before_it() {
        let error = DescriptionError {
            text: "ä,time,op".to_owned(),
            at: 3,
            length: 4,
            reason: "no unit".to_owned(),
        };
        assert_eq!(error.to_string(), "no unit\n  | ä,time,op\n  |   ^^^^");
        assert_eq!(mark("ab", 2, 0), "  ^");
        assert_eq!(mark("ä", 1, 9), "^");
    }
}
