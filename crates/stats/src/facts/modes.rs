//! Which reads of a run were checked.
//!
//! A merged run may consist of runs that checked different reads. So this is a set. It is stored as
//! words, one for each mode, in the order of the alphabet: `final / paranoia`.

use std::collections::BTreeSet;
use std::fmt;

use ioecho_trace::VerifyMode;
use serde::{Deserialize, Serialize};

use super::merging::BETWEEN;

/// How a run verified: one mode, or all modes of the runs that were merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct VerifyModes(BTreeSet<VerifyMode>);

impl VerifyModes {
    /// Whether one of the runs verified in this mode.
    pub fn contains(&self, mode: VerifyMode) -> bool {
        self.0.contains(&mode)
    }

    /// Adds the modes of another run.
    pub(super) fn merge(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

impl From<VerifyMode> for VerifyModes {
    fn from(mode: VerifyMode) -> Self {
        Self(BTreeSet::from([mode]))
    }
}

impl fmt::Display for VerifyModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: BTreeSet<_> = self.0.iter().map(|mode| mode.name()).collect();
        f.write_str(&words.into_iter().collect::<Vec<_>>().join(BETWEEN))
    }
}

impl From<VerifyModes> for String {
    fn from(modes: VerifyModes) -> Self {
        modes.to_string()
    }
}

impl TryFrom<String> for VerifyModes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words = text.split(BETWEEN).filter(|word| !word.is_empty());
        let modes = words.map(|word| {
            let known = VerifyMode::ALL.into_iter().find(|mode| mode.name() == word);
            known.ok_or_else(|| format!("'{word}' is no way to verify"))
        });
        modes.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_by_the_words_that_are_written_and_by_no_others() {
        let mut both = VerifyModes::from(VerifyMode::Paranoia);
        both.merge(&VerifyMode::Final.into());
        for (modes, text) in [
            (VerifyModes::default(), "\"\""),
            (VerifyMode::Preread.into(), "\"preread\""),
            (both, "\"final / paranoia\""),
        ] {
            assert_eq!(serde_json::to_string(&modes).unwrap(), text);
            assert_eq!(serde_json::from_str::<VerifyModes>(text).unwrap(), modes);
        }
        assert!(serde_json::from_str::<VerifyModes>("\"Final\"").is_err());
    }
}
