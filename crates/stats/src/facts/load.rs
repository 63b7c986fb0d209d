//! What the load asks for and what the target is, as far as the verdict compares the two.

use serde::{Deserialize, Serialize};

/// Facts of the load, of the recording and of the targets that a run was made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadFacts {}
