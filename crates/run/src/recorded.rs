//! A recorded load on files as it is asked for: its names, and what it cannot be asked for.

use std::sync::Arc;

use ioecho_replay::tree::MARKER;
use ioecho_trace::recorded::RecordedFiles;
use ioecho_trace::recording::Recording;
use ioecho_trace::transform::{Asked, Load};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Header, Source, TraceError};

use crate::chains::Chains;
use crate::error::{Kind, Result, RunError};
use crate::spec::ReplaySpec;
use crate::target::Target;
use crate::tree_target::TREE_PREFIX;

/// The most calls in flight: each has a thread of its own.
const IN_FLIGHT_MAX: u32 = 256;

/// Whether the trace links each call to what it needs, so that others may be made beside it. What
/// runs of versions before 0.2 left does not, although it has the columns.
pub(crate) fn is_linked(spec: &ReplaySpec, header: &Header) -> bool {
    let is_kept = !header.columns.measured || header.run_number.is_some();
    let is_named = header.columns.dependencies && is_kept;
    is_asked_for(spec)
        && is_named
        && spec.in_flight_max > 1
        && header.files.as_ref().is_some_and(|files| files.linked)
}

/// Whether each request of a load may wait for those that the trace names, because none of them is
/// left out. A beginning has them all.
pub(crate) fn has_its_parents(spec: &ReplaySpec, load: &Load) -> bool {
    let is_beginning = load.window.start.is_none() && load.chain.is_empty();
    load.is_whole() || is_asked_for(spec) && is_beginning
}

/// How many calls may be in flight, at most so many as are asked for: as many as there were tasks
/// at a time, which make one after the other. No call tells that a task waited for the end of
/// another one that it made, so links alone would let more go. Without links any call may need what
/// the one before it made.
pub(crate) fn in_flight_max(linked: Option<&Chains>, asked: u32) -> u32 {
    match linked {
        Some(Chains::Named { tasks }) => asked.min(*tasks).clamp(1, IN_FLIGHT_MAX),
        _ => 1,
    }
}

/// Whether a replay without flows is one of files.
pub(crate) fn is_asked_for(spec: &ReplaySpec) -> bool {
    spec.flows.is_empty() && spec.targets.iter().any(|target| target.starts_with(TREE_PREFIX))
}

/// Gives the target the names of the trace, if that is a recorded load on files.
pub(crate) fn name(spec: &ReplaySpec, source: &dyn Source, targets: &mut [Target]) -> Result<()> {
    if !is_asked_for(spec) {
        return Ok(());
    }
    refuse_what_it_has_not(spec, targets)?;
    let names = names_of(source, spec)?;
    for target in targets {
        if let Target::Tree(tree) = target {
            tree.recorded = Some(Arc::clone(&names));
        }
    }
    Ok(())
}

/// The names of a trace that is to be replayed on files, and whether its calls may overlap.
fn names_of(source: &dyn Source, spec: &ReplaySpec) -> Result<Arc<RecordedFiles>> {
    let path = &spec.trace;
    let unusable = |reason: &str, remedy: Wording| {
        let (path, reason) = (path.to_owned(), reason.to_owned());
        Err(RunError::from(TraceError::Unusable { path, reason, remedy }))
    };
    let header = source.header();
    let is_beginning =
        |line: &String| line.parse::<Asked>().is_ok_and(|asked| asked.is_beginning());
    // The beginning of a load names what the whole of it does.
    if !header.transforms.iter().all(is_beginning) {
        let reason = "this load on files was transformed, so its requests no longer say which \
                      names they are about";
        return unusable(reason, "replay what was recorded, or its beginning".into());
    }
    let Some(files) = &header.files else {
        let are_calls = header.format == ioecho_trace::formats::strace::NAME
            || header.recording.as_ref().is_some_and(Recording::is_of_calls);
        let (reason, remedy) = if are_calls {
            let remedy = Wording::default().command("convert", "IN OUT.parquet");
            ("its names are known only when it has been read to its end", remedy)
        } else {
            let remedy = "record the calls of an application, or give loads as flows";
            ("it has no names of files", remedy.into())
        };
        return unusable(reason, remedy);
    };
    if let Err(name) = files.check() {
        let reason = format!("one of its names leads out of its directory: '{name}'");
        return unusable(&reason, "take another trace".into());
    }
    // What bears that name in the directory says that its tree is ours.
    if files.has_name(MARKER) {
        let reason = format!("one of its names is that of the mark of a tree: '{MARKER}'");
        return unusable(&reason, "take another trace".into());
    }
    Ok(Arc::new(RecordedFiles { linked: is_linked(spec, header), ..files.clone() }))
}

/// Refuses what a recorded load on files cannot be asked for.
fn refuse_what_it_has_not(spec: &ReplaySpec, targets: &[Target]) -> Result<()> {
    let has_settings = |target: &Target| match target {
        Target::Tree(tree) => {
            tree.text.rsplit_once('?').is_some_and(|(_, settings)| settings != "parents=yes")
        }
        _ => true,
    };
    let rules = [
        (targets.len() > 1, "a recorded load on files goes to one directory", "name one"),
        (
            targets.iter().any(has_settings),
            "a recorded load brings its own names, so its directory has no shape",
            "name the directory alone: tree:DIRECTORY",
        ),
        (
            spec.start.is_some(),
            "a part from the middle lacks the files that were made before it",
            "replay it from its beginning",
        ),
        (
            (spec.iops_scale - 1.0).abs() > 0.0,
            "each call on names can be made once",
            "leave the scale of requests out",
        ),
        (
            spec.writes.reads_only(),
            "this load changes files",
            "let it write: it goes to a directory of its own",
        ),
    ];
    match rules.into_iter().find(|(is_broken, ..)| *is_broken) {
        Some((_, what, help)) => Err(RunError::with_help(Kind::Usage, what, help)),
        None => Ok(()),
    }
}
