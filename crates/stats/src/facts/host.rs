//! What the host and the devices did around a run, beside the requests themselves.

use serde::{Deserialize, Serialize};

/// Facts that were read from the host and the kernel before, during and after a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostFacts {}
