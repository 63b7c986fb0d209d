//! Sentences about a recording as a whole.

use std::fmt::Write as _;
use std::path::Path;

use super::feed::{Feed, remedy};
use super::files::Files;
use super::merge::{Lane, Merge};
use super::record::kind;
use crate::error::TraceError;
use crate::units::counted;
use crate::wording::Wording;

/// The error for a recording without a request.
pub(super) fn no_requests<L: Lane>(path: &Path, issue: u8, merge: &Merge<L>) -> TraceError {
    let kinds = merge.kinds();
    let name = kind::name(issue);
    let held: Vec<_> = (0..kind::COUNT)
        .filter(|&kind| kinds[kind] > 0)
        .map(|kind| format!("{} {}", kinds[kind], kind::name(kind as u8)))
        .collect();
    let mut reason = if held.is_empty() {
        format!("the recording holds no event that is {name}, nor any other")
    } else if kinds[usize::from(issue)] == 0 {
        format!("the recording holds no event that is {name}; it holds {}", held.join(", "))
    } else {
        format!("no event that is {name} has a range; the recording holds {}", held.join(", "))
    };
    let passthrough = merge.passthrough();
    if passthrough > 0 {
        // Writing to a string cannot fail.
        let _ = write!(reason, ", and {passthrough} passthrough commands");
    }
    let damage = merge.feeds().iter().find_map(L::damage);
    if let Some(damage) = &damage {
        let _ = write!(reason, "; {damage}");
    }
    let others = [(kind::QUEUE, "Q"), (kind::INSERT, "I"), (kind::ISSUE, "D")];
    let other = others.iter().find(|(kind, _)| *kind != issue && kinds[usize::from(*kind)] > 0);
    let remedy = match (other, &damage) {
        (Some((_, letter)), _) => Wording::from("read it with ").set("event", *letter),
        (None, Some(_)) => remedy(),
        (None, None) => "record while something reads or writes the device (with blktrace: \
                         `-a queue -a issue -a complete`)"
            .into(),
    };
    TraceError::Binary { path: path.to_owned(), offset: 0, reason, remedy }
}

/// A description of the recording that was read.
pub(super) fn describe(path: &Path, files: &Files, merge: &Merge<Feed>) -> String {
    let layout = merge.feeds().first().map_or("", |feed| feed.layout().describe());
    if !files.per_cpu {
        return format!("blktrace recording, one merged file, {layout}");
    }
    let name =
        |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let ends = [files.paths.first(), files.paths.last()];
    let ends: Vec<_> = ends.into_iter().flatten().map(|file| name(file)).collect();
    let missing = files.missing().map_or(String::new(), |cpus| format!("; none of {cpus}"));
    format!(
        "blktrace recording named by {}, read from the files of {} ({}{missing}; {} without an \
         event), {layout}",
        name(path),
        counted(files.paths.len() as u64, "processor"),
        ends.join(" to "),
        files.paths.len() - merge.feeds().len(),
    )
}
