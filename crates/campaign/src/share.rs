//! A share of a campaign, for several machines that work on it side by side.
//!
//! A branch of a ladder cannot be divided, because a step decides whether the next one is needed.
//! So whole branches are dealt out, by a hash of their points: every machine deals alike.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Its number, counted from 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self { number: 1, of: 1 }
    }
}

impl std::str::FromStr for Share {
    type Err = String;

    /// Reads `2/4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.trim().parse().ok()?, of: of.trim().parse().ok()? })
        });
        numbers
            .filter(|it| it.number >= 1 && it.number <= it.of)
            .ok_or_else(|| format!("'{text}' is no share: write it like 2/4"))
    }
}

impl Share {
    /// Whether the repeat of a branch belongs to it.
    pub(crate) fn has(self, branch: &[(String, String)], repeat: u32) -> bool {
        if self.of == 1 {
            return true;
        }
        let mut hash = Sha256::new();
        for (axis, value) in branch {
            // Lengths keep texts apart.
            hash.update((axis.len() as u64).to_le_bytes());
            hash.update(axis);
            hash.update((value.len() as u64).to_le_bytes());
            hash.update(value);
        }
        hash.update(repeat.to_le_bytes());
        let digest = hash.finalize();
        let mut number = [0; 8];
        number.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(number) % u64::from(self.of) == u64::from(self.number - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_branch_is_in_one_share() {
        for branch in 0..200 {
            let point = [("device".to_owned(), branch.to_string())];
            let has = |number| Share { number, of: 4 }.has(&point, 1);
            assert_eq!((1..=4).filter(|number| has(*number)).count(), 1);
        }
        let first = |n: u32| Share { number: 1, of: 4 }.has(&[("a".to_owned(), n.to_string())], 1);
        assert!((20..80).contains(&(0..200).filter(|n| first(*n)).count()));
    }

    #[test]
    fn a_share_is_typed_as_a_fraction() {
        assert_eq!("2/4".parse(), Ok(Share { number: 2, of: 4 }));
        for wrong in ["0/4", "5/4", "2", "a/b", "1/0"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
