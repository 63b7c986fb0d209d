//! The key of a cell: a hash of everything that decides its result.
//!
//! A cell is done if a result lies below its key. So a campaign that was stopped goes on where it
//! was, a file that gets another axis runs only what is new, and a load that was changed makes its
//! cells run anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::stack::Placed;
use crate::value::Value;

/// Grows when the same settings come to mean another run.
const ENGINE: u32 = 1;

/// The rounds of a cell: its replays are repeated until a figure is steady (`stats::steady`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeated {
    /// The most rounds.
    pub max: u32,
    /// The figure that is followed, by its full name.
    pub figure: String,
    /// The replay that it is taken from, by its number in the cell, counted from 0.
    pub part: usize,
}

/// What decides the result of a cell. Its JSON is canonical: keys stand in the order of their
/// letters, and there is no space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The key of the cell of whose rate the loads have a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The transforms of the load, in their order.
    pub chain: Vec<String>,
    /// What the device is, whatever its path.
    pub device: String,
    /// The version of the meaning of settings.
    pub engine: u32,
    /// The settings of each member that its host has, where any has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<BTreeMap<String, Value>>,
    /// The keys of the replays within the cell, in their order; none if it is one replay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The path of layers that the cell stands on, or the values of a listed run. Two leaves of an
    /// imported tree may differ in what only a person sets up, so they are two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The repeat, counted from 1.
    pub repeat: u32,
    /// The arguments of the replay.
    pub replay: BTreeMap<String, Value>,
    /// What the load is, whatever its path.
    pub requests: String,
    /// What is repeated until it is steady.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Repeated>,
    /// What sets the device up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<Placed>,
    /// How long a run goes on before it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<String>,
}

impl Identity {
    /// The identity of a cell with these settings.
    pub fn new(
        replay: BTreeMap<String, Value>,
        chain: Vec<String>,
        device: String,
        requests: String,
        repeat: u32,
    ) -> Self {
        Self {
            base: None,
            chain,
            device,
            engine: ENGINE,
            members: Vec::new(),
            parts: Vec::new(),
            path: None,
            repeat,
            replay,
            requests,
            rounds: None,
            stack: Vec::new(),
            warmup: None,
        }
    }

    /// The key: SHA-256 of the canonical JSON, in 64 hexadecimal digits.
    pub fn key(&self) -> String {
        // Texts, lists and numbers always have a form in JSON.
        let json = serde_json::to_vec(self).unwrap_or_default();
        let hash = Sha256::digest(&json);
        hash.iter().fold(String::with_capacity(64), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    }

    /// In what it differs from another, in words.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut words = Vec::new();
        let mut tell = |is_alike: bool, word: &str| {
            if !is_alike {
                words.push(word.to_owned());
            }
        };
        tell(self.requests == other.requests, "the load changed");
        tell(self.device == other.device, "the device is another");
        tell(self.chain == other.chain, "chain changed");
        tell(self.base == other.base, "the run whose rate counts changed");
        tell(self.warmup == other.warmup, "warmup changed");
        tell(self.engine == other.engine, "the meaning of settings changed");
        tell(self.members == other.members, "the settings of a host changed");
        tell(self.parts == other.parts, "a step or a round changed");
        tell(self.rounds == other.rounds, "what ends the rounds changed");
        tell(self.stack == other.stack, "the stack changed");
        let keys = self.replay.keys().chain(other.replay.keys().filter(|key| {
            // Each key once.
            !self.replay.contains_key(*key)
        }));
        for key in keys {
            tell(self.replay.get(key) == other.replay.get(key), &format!("{key} changed"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(speedup: &str) -> Identity {
        let replay = [("speedup".to_owned(), Value::One(speedup.to_owned()))].into();
        Identity::new(replay, Vec::new(), "sim".to_owned(), "sha256:0".to_owned(), 1)
    }

    #[test]
    fn a_key_is_stable_for_ever() {
        // The hash of a text that does not depend on this program, as `sha256sum` tells it.
        let text = concat!(
            r#"{"chain":[],"device":"sim","engine":1,"repeat":1,"#,
            r#""replay":{"speedup":"2"},"requests":"sha256:0"}"#
        );
        assert_eq!(serde_json::to_string(&identity("2")).unwrap(), text);
        let digits = "037cd96944c02d563c4a9df22169188ae058b9135e3de189073e2df3592899a4";
        assert_eq!(identity("2").key(), digits);
    }

    #[test]
    fn a_difference_is_named() {
        assert_ne!(identity("2").key(), identity("3").key());
        assert_eq!(identity("2").differences(&identity("3")), ["speedup changed"]);
        let other = Identity { requests: "sha256:1".to_owned(), ..identity("2") };
        assert_eq!(identity("2").differences(&other), ["the load changed"]);
    }
}
