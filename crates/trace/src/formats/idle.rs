//! Options of reading that have no effect on the given format.
//!
//! A user who gives `--time-unit ms` for a format with a fixed unit is mistaken; ignoring the
//! option silently would hide the mistake.

use std::path::Path;

use super::{IssueEvent, ReadOptions, WholeSeconds};
use crate::error::TraceError;
use crate::wording::Wording;

/// Formats whose unit of time is an option.
const TIME_UNIT: &[&str] = &[
    "etw",
    "fio-lat",
    "disksim",
    "huaicheng",
    "vdbench",
    "fio",
    "btreplay",
    "smreplay",
    "msr",
    "alibaba",
];

/// Formats whose block size is an option.
const BLOCK_SIZE: &[&str] =
    &["spc", "disksim", "lcs", "oracle-general", "oracle-general-opns", "iqi", "iqibh"];

/// Formats that record several events of a request.
const EVENT: &[&str] = &["blktrace", "blkparse", "ftrace", "recording"];

/// Formats whose instants may be whole seconds.
const WHOLE_SECONDS: &[&str] = &[
    "cloudphysics-csv",
    "tencent",
    "tectonic",
    "msr",
    "described",
    "lcs",
    "oracle-general",
    "oracle-general-opns",
    "iqi",
    "iqibh",
];

/// Whether the user chose a treatment of whole seconds.
pub(super) fn is_chosen(whole_seconds: WholeSeconds) -> bool {
    !matches!(whole_seconds, WholeSeconds::Unchosen | WholeSeconds::Refuse)
}

/// Refuses options without effect on a trace of `format`, if that is asked for.
pub(super) fn refuse(options: &ReadOptions, format: &str, path: &Path) -> Result<(), TraceError> {
    if !options.all_apply {
        return Ok(());
    }
    let rules = [
        (options.time_unit_ns.is_some(), TIME_UNIT, "time-unit", "has a unit of time of its own"),
        (options.block_size.is_some(), BLOCK_SIZE, "block-size", "says itself what it counts in"),
        (options.event != IssueEvent::Auto, EVENT, "event", "records one event of a request"),
        (
            is_chosen(options.whole_seconds),
            WHOLE_SECONDS,
            "whole-seconds",
            "knows its instants better than to the second, or knows them no more",
        ),
    ];
    match rules.iter().find(|(said, formats, ..)| *said && !formats.contains(&format)) {
        None => Ok(()),
        Some((_, _, name, why)) => Err(error(path, name, &format!("{format} {why}"))),
    }
}

/// The refusal of the setting `name`.
pub(super) fn error(path: &Path, name: &'static str, why: &str) -> TraceError {
    TraceError::Asked {
        path: path.to_owned(),
        reason: Wording::default()
            .setting(name)
            .text(format!(" says nothing about this trace: {why}")),
        remedy: Wording::from("leave out ").setting(name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::FORMATS;
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn every_name_in_the_lists_is_that_of_a_format() {
        for name in [TIME_UNIT, BLOCK_SIZE, EVENT, WHOLE_SECONDS].concat() {
            let is_known = FORMATS.iter().any(|format| format.name == name);
            assert!(is_known || name == "described", "{name}");
        }
    }

    #[test]
    fn what_says_nothing_is_refused_where_that_is_asked_for() {
        let path = Path::new("x");
        let all = ReadOptions { all_apply: true, ..ReadOptions::default() };
        let cases = [
            (ReadOptions { time_unit_ns: Some(1), ..all.clone() }, "msr", "spc"),
            (ReadOptions { block_size: Some(Bytes(512)), ..all.clone() }, "spc", "native"),
            (ReadOptions { event: IssueEvent::Issued, ..all.clone() }, "blktrace", "blkreplay"),
            (ReadOptions { whole_seconds: WholeSeconds::Even, ..all }, "tencent", "native"),
        ];
        for (options, used, idle) in cases {
            assert!(refuse(&options, used, path).is_ok());
            let error = refuse(&options, idle, path).unwrap_err();
            assert!(matches!(error, TraceError::Asked { .. }), "{error}");
            let lenient = ReadOptions { all_apply: false, ..options };
            assert!(refuse(&lenient, idle, path).is_ok());
        }
    }
}
