//! The commands, one file each. Each returns an exit code.

pub(crate) mod analyze;
pub(crate) mod calibrate;
pub(crate) mod campaign;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod depend;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod info;
pub(crate) mod interrupt;
pub(crate) mod library;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod outcome;
pub(crate) mod plot;
pub(crate) mod predict;
pub(crate) mod prepare;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod vdbench;
pub(crate) mod verify;
