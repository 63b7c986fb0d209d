//! Trees of blkreplay's test suite.
//!
//! A tree is directories and `NAME.conf` files, which bash sources: each leaf is a run, whose
//! variables come from the files named like the parts of its path, later ones above earlier ones.
//! Most of these files are assignments, which are read here. What is more than that is refused by
//! its line, or left to bash by somebody who trusts the tree. `mapped` says what each variable is
//! here, `written` makes a file of the leaves.

mod conf;
mod mapped;
mod written;

use std::collections::BTreeMap;

pub use conf::{Conf, Strange};
pub use mapped::{Mapped, mapped};
pub use written::written;

/// Variables of bash with their values.
pub type Variables = BTreeMap<String, String>;

/// The modules of the test suite, in the order in which their files `default-NAME.conf` are
/// sourced.
pub const MODULES: [&str; 21] = [
    "main",
    "recreate_lvm",
    "smartctl",
    "create_lv",
    "input_reverse",
    "pipe_select",
    "pipe_repeat",
    "pipe_slip",
    "pipe_subst",
    "pipe_spread",
    "pipe_resize",
    "pipe_cmd",
    "cachecade",
    "iscsi_target_iet",
    "iscsi_initiator",
    "scheduler",
    "wipe",
    "slurp",
    "bbu_megaraid",
    "graph",
    "user_modules",
];

/// A leaf of a tree.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its path below the tree, with `/`.
    pub path: String,
    /// Its settings as keys of a campaign, as they are written in TOML.
    pub settings: BTreeMap<String, String>,
}
