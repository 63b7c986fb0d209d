//! A recorded load on files, and the directory that it goes to.
//!
//! Calls are replayed beside each other as far as none has to wait for another, so each finds the
//! names that it found in the recording. What was there before is made first, in a directory that
//! is empty or not there yet, and is no part of the load.

use std::path::Path;
use std::sync::Arc;

use ioecho_linux::MonotonicClock;
use ioecho_linux::target::Layer;
use ioecho_linux::tree::{
    Anchor, OverlappingDevice, RecordedDevice, inspect, knows_no_replace, make_before,
    needed_before,
};
use ioecho_linux::watch::Helpers;
use ioecho_replay::Device;
use ioecho_replay::tree::Tree;
use ioecho_trace::Bytes;
use ioecho_trace::recorded::{OpenWord, RecordedFiles};
use ioecho_trace::units::{counted, counted_in};
use rustix::fs::statvfs;

use crate::error::{Kind, Result, RunError};
use crate::facts::{TargetEntry, TreeEntry};
use crate::lane::Lane;
use crate::observer::{Observer, Stopping};
use crate::plan::ReplayPlan;
use crate::target::Target;
use crate::tree_target::{TreePlace, TreeTarget};

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
    (observer, stopping): (&dyn Observer, &Stopping),
) -> Option<Result<Opened>> {
    let (tree, files) = of_plan(plan)?;
    let TreePlace::Anchor { path, with_parents, .. } = &tree.place else { return None };
    Some(opened(plan, (tree, files), (path, *with_parents), clock, (observer, stopping)))
}

fn opened(
    plan: &ReplayPlan,
    (tree, files): (&TreeTarget, &Arc<RecordedFiles>),
    (path, with_parents): (&Path, bool),
    clock: MonotonicClock,
    (observer, stopping): (&dyn Observer, &Stopping),
) -> Result<Opened> {
    let failed = |name: &str, error: std::io::Error| {
        RunError::new(Kind::Target, format!("{}: {error}", path.join(name).display()))
    };
    // It may be another one since it was looked at.
    let state = inspect(path).map_err(|error| failed("", error))?;
    tree.with_state(state).guard_recorded()?;
    refuse_without_room(path, files)?;
    let anchor = Anchor::open(path, true, with_parents).map_err(|error| failed("", error))?;
    let results = plan.output.canonicalize().unwrap_or_else(|_| plan.output.clone());
    let marked = anchor.mark(&Tree::new(tree.geometry.clone()), &results);
    marked.map_err(|error| failed("", error))?;
    let renames = files.places.iter().any(|place| place.open.contains(&OpenWord::NoReplace));
    if renames && !knows_no_replace(&anchor).map_err(|error| failed("", error))? {
        observer.tell(&format!(
            "note: {}: its file system knows no rename that replaces nothing: such renames are \
             made as mv makes them there, which looks for the other name first",
            path.display()
        ));
    }
    let made = make_before(&anchor, files, stopping.asked()).map_err(|(name, error)| {
        let left = format!("{}: what was made so far is left there; remove it", path.display());
        if stopping.is_asked() {
            return RunError::with_help(Kind::Incomplete, "stopped before the first call", left);
        }
        let name = path.join(name);
        RunError::with_help(Kind::Target, format!("{}: {error}", name.display()), left)
    })?;
    observer.tell(&format!(
        "note: {}: made what was there before: {} with {}, {}, {}",
        path.display(),
        counted(made.files, "file"),
        Bytes(made.bytes),
        counted_in(made.directories, "directory", "directories"),
        counted(made.links, "link")
    ));
    if plan.spec.in_flight_max > 1 && !files.linked {
        observer.tell(&format!(
            "note: {}: calls are made one at a time, in the order in which they began, because \
             this load does not say what each of them needs; no more may be in flight",
            path.display()
        ));
    }
    let mount = anchor.file_system();
    let entry = TargetEntry::Tree(TreeEntry {
        tree: tree.text.clone(),
        anchor: path.to_owned(),
        canonical: tree.canonical(),
        files: made.files,
        directories: made.directories,
        direct: false,
        file_system: mount.as_ref().map(|(kind, _)| kind.clone()),
        mount_point: mount.map(|(_, point)| point),
        to: None,
    });
    let in_flight_max = plan.scheduler.in_flight_max;
    let (device, helpers) = device(anchor, Arc::clone(files), in_flight_max, clock)
        .map_err(|error| RunError::new(Kind::Failure, error.to_string()))?;
    let helpers = Some(helpers);
    let lane = Lane::Real { device, clock, claims: Vec::new(), helpers };
    Ok((vec![lane], vec![entry], vec![Vec::new()]))
}

/// Refuses a directory whose file system has no room for what was there before: it would be full,
/// and nothing replayed.
fn refuse_without_room(path: &Path, files: &RecordedFiles) -> Result<()> {
    // What is not there yet is made in what is.
    let is_there = path.ancestors().find(|above| above.is_dir());
    let of = is_there.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Some file systems do not say how large they are.
    let Some(all) = statvfs(of).ok().filter(|all| all.f_blocks > 0) else { return Ok(()) };
    let (needed, free) = (needed_before(files), all.f_bavail.saturating_mul(all.f_frsize));
    if needed <= free {
        return Ok(());
    }
    let text = format!(
        "{}: what was there before the load needs {}, and {} are free there",
        path.display(),
        Bytes(needed),
        Bytes(free)
    );
    Err(RunError::with_help(Kind::Target, text, "name a directory on a larger file system"))
}

/// The device of calls below an anchor, and the threads that it has for them.
fn device(
    anchor: Anchor,
    files: Arc<RecordedFiles>,
    in_flight_max: u32,
    clock: MonotonicClock,
) -> std::io::Result<(Box<dyn Device + Send>, Helpers)> {
    if in_flight_max == 1 {
        let device = RecordedDevice::new(anchor, files, clock);
        return Ok((Box::new(device), Helpers::default()));
    }
    let device = OverlappingDevice::new(anchor, files, in_flight_max, clock)?;
    let helpers = device.helpers();
    Ok((Box::new(device), helpers))
}
