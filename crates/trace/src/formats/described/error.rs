//! The refusal of a description.

/// The refusal of a description: the reason, and the place of the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}\n  | {text}\n  | {}", mark(text, *at, *length))]
pub struct DescriptionError {
    /// The description as it was typed.
    pub(super) text: String,
    /// The byte at which the fault begins.
    pub(super) at: usize,
    /// The length of the fault in bytes; 0 where something is missing.
    pub(super) length: usize,
    /// The reason, with the choices that there are.
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
