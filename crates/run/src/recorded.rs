//! A recorded load on files, and the directory that it goes to.
//!
//! Calls are replayed one at a time, in the order in which they were made: so each finds the names
//! that it found in the recording. What was there before is made first, in a directory that is
//! empty or not there yet, and is no part of the load.

use std::path::Path;
use std::sync::Arc;

use ioecho_linux::MonotonicClock;
use ioecho_linux::target::Layer;
use ioecho_linux::tree::{Anchor, RecordedDevice, inspect, make_before};
use ioecho_replay::tree::Tree;
use ioecho_trace::recorded::RecordedFiles;
use ioecho_trace::units::counted;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Bytes, Source, TraceError};

use crate::error::{Kind, Result, RunError};
use crate::facts::{TargetEntry, TreeEntry};
use crate::lane::Lane;
use crate::observer::Observer;
use crate::plan::ReplayPlan;
use crate::spec::ReplaySpec;
use crate::target::Target;
use crate::tree_target::{TREE_PREFIX, TreePlace, TreeTarget};

/// Calls in flight: each may need what the one before it made.
pub(crate) const IN_FLIGHT_MAX: u32 = 1;

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
    let names = names_of(source, &spec.trace)?;
    for target in targets {
        if let Target::Tree(tree) = target {
            tree.recorded = Some(Arc::clone(&names));
        }
    }
    Ok(())
}

/// The names of a trace that is to be replayed on files.
fn names_of(source: &dyn Source, path: &Path) -> Result<Arc<RecordedFiles>> {
    let unusable = |reason: &str, remedy: Wording| {
        let (path, reason) = (path.to_owned(), reason.to_owned());
        Err(RunError::from(TraceError::Unusable { path, reason, remedy }))
    };
    let header = source.header();
    if !header.transforms.is_empty() {
        let reason = "this load on files was transformed, so its requests no longer say which \
                      names they are about";
        return unusable(reason, "replay what was recorded".into());
    }
    let Some(files) = &header.files else {
        let (reason, remedy) = if header.format == ioecho_trace::formats::strace::NAME {
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
    Ok(Arc::new(files.clone()))
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
            spec.iops_scale < 1.0 || spec.iops_scale > 1.0,
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

/// The names of the plan's load, and the tree that it goes to, if it is a recorded load on files.
fn of_plan(plan: &ReplayPlan) -> Option<(&TreeTarget, &Arc<RecordedFiles>)> {
    let Some(Target::Tree(tree)) = plan.targets.first() else { return None };
    Some((tree, tree.recorded.as_ref()?))
}

/// What opening a target comes to.
type Opened = (Vec<Lane>, Vec<TargetEntry>, Vec<Vec<Layer>>);

/// Opens the directory of a recorded load, and makes what was there before it. `None` if the plan
/// has another load.
pub(crate) fn open(
    plan: &ReplayPlan,
    clock: MonotonicClock,
    observer: &dyn Observer,
) -> Option<Result<Opened>> {
    let (tree, files) = of_plan(plan)?;
    let TreePlace::Anchor { path, with_parents, .. } = &tree.place else { return None };
    Some(opened(plan, (tree, files), (path, *with_parents), clock, observer))
}

fn opened(
    plan: &ReplayPlan,
    (tree, files): (&TreeTarget, &Arc<RecordedFiles>),
    (path, with_parents): (&Path, bool),
    clock: MonotonicClock,
    observer: &dyn Observer,
) -> Result<Opened> {
    let failed = |name: &str, error: std::io::Error| {
        RunError::new(Kind::Target, format!("{}: {error}", path.join(name).display()))
    };
    // It may be another one since it was looked at.
    let state = inspect(path).map_err(|error| failed("", error))?;
    tree.with_state(state).guard_recorded()?;
    let anchor = Anchor::open(path, true, with_parents).map_err(|error| failed("", error))?;
    let results = plan.output.canonicalize().unwrap_or_else(|_| plan.output.clone());
    let marked = anchor.mark(&Tree::new(tree.geometry.clone()), &results);
    marked.map_err(|error| failed("", error))?;
    let made = make_before(&anchor, files).map_err(|(name, error)| failed(&name, error))?;
    observer.tell(&format!(
        "note: {}: made what was there before: {} with {}, {}, {}",
        path.display(),
        counted(made.files, "file"),
        Bytes(made.bytes),
        ioecho_trace::units::counted_in(made.directories, "directory", "directories"),
        counted(made.links, "link")
    ));
    let mount = anchor.file_system();
    let entry = TargetEntry::Tree(TreeEntry {
        tree: tree.text.clone(),
        anchor: path.to_owned(),
        files: made.files,
        directories: made.directories,
        direct: false,
        file_system: mount.as_ref().map(|(kind, _)| kind.clone()),
        mount_point: mount.map(|(_, point)| point),
    });
    let device = Box::new(RecordedDevice::new(anchor, Arc::clone(files), clock));
    let lane = Lane::Real { device, clock, claim: None };
    Ok((vec![lane], vec![entry], vec![Vec::new()]))
}
