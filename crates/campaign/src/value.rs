//! The values of settings.
//!
//! A setting becomes an argument of a replay, so its value is text, a switch, or several texts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::de::DeValue;

use crate::place::Place;
pub use crate::place::text_of;

/// A value that was given to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

/// Settings that belong together.
pub type Layer = Vec<Setting>;

/// For each key all values that were given to it, the deciding one last.
pub type Origins = BTreeMap<String, Vec<Setting>>;

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// One value, as it would be typed.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Value {
    /// The value of a key in a file; the error is the type that it has.
    pub fn read(value: &DeValue<'_>) -> Result<Self, &'static str> {
        match value {
            DeValue::Boolean(on) => Ok(Self::Switch(*on)),
            DeValue::Array(items) => {
                let texts = items.iter().map(|item| text_of(item.get_ref()));
                texts.collect::<Result<_, _>>().map(Self::Many)
            }
            one => text_of(one).map(Self::One),
        }
    }

    /// Its texts.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::Switch(_) => &[],
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }

    /// The same with every text changed.
    #[must_use]
    pub fn map(&self, change: &dyn Fn(&str) -> String) -> Self {
        match self {
            Self::Switch(on) => Self::Switch(*on),
            Self::One(text) => Self::One(change(text)),
            Self::Many(texts) => Self::Many(texts.iter().map(|text| change(text)).collect()),
        }
    }

    /// The value in words.
    pub fn shown(&self) -> String {
        match self {
            Self::Switch(on) => on.to_string(),
            Self::One(text) => text.clone(),
            Self::Many(texts) => texts.join(", "),
        }
    }
}
