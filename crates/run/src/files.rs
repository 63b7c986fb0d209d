//! Loads on trees of files: what the lanes of a run share.
//!
//! The engine knows nothing of files. A tree is a target, its threads are clients of a flow, and
//! each thread of a real tree has a lane of its own, which makes its calls itself. In simulated
//! time one lane has all threads of a tree.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ioecho_linux::MonotonicClock;
use ioecho_linux::target::Layer;
use ioecho_linux::tree::{Anchor, FilesDevice, FilesOptions, inspect, kept_by_each};
use ioecho_linux::watch::Helpers;
use ioecho_replay::tree::{Clients, FileFlow, Names, Tree};
use ioecho_trace::units::counted_in;
use ioecho_trace::{Bytes, Nanos, TraceError};

use crate::error::{Kind, Result, RunError};
use crate::facts::{SimulatedTarget, TargetEntry, TreeEntry};
use crate::flows::{Flow, FlowsInput, LanePlace, OfFiles};
use crate::lane::{Lane, Simulated};
use crate::observer::{Observer, Stopping};
use crate::plan::{ReplayPlan, direct_in_parts};
use crate::target::Target;
use crate::tree_target::{TreePlace, TreeTarget};
use crate::verify::tree::{PastTree, TreePlaces};

/// A tree of a run.
struct Place {
    target: TreeTarget,
    tree: Arc<Tree>,
    anchor: Option<Anchor>,
    names: Option<Arc<Mutex<Names>>>,
}

impl Place {
    /// Marks the tree as changed last by the run of this plan.
    fn mark(&self, plan: &ReplayPlan) -> Result<()> {
        let Some(anchor) = &self.anchor else { return Ok(()) };
        let results = plan.output.canonicalize().unwrap_or_else(|_| plan.output.clone());
        anchor.mark(&self.tree, &results).map_err(|error| {
            RunError::new(Kind::Target, format!("{}: {error}", anchor.path().display()))
        })
    }
}

/// Refuses requests in files that are opened past the page cache and are no multiples of the block
/// of their file system: each of them would fail. What makes directories alone opens no file.
fn guard_direct(plan: &ReplayPlan, number: usize, anchor: &Anchor, tree: &Tree) -> Result<()> {
    let path = anchor.path().display();
    let makes = plan.flows.list().iter().any(|flow| flow.changes_files(number));
    let block = anchor.direct_block(tree, makes).map_err(|_| {
        let text = format!("{path} lies on a file system that cannot go past the page cache");
        RunError::with_help(Kind::Target, text, "leave open=direct out, or take another one")
    })?;
    let Some(block) = block else { return Ok(()) };
    if direct_in_parts(&plan.targets, &plan.flows, block) != Some(number) {
        return Ok(());
    }
    let text = format!("{path} takes blocks of {} past the page cache", Bytes(block));
    let help = "take multiples of it as sizes of files and of requests, or leave open=direct out";
    Err(RunError::with_help(Kind::Usage, text, help))
}

/// Ends the setting up of large trees, which takes a while, when that is asked for: nothing is lost
/// before the first call.
fn go_on(stopping: &Stopping) -> Result<()> {
    if stopping.is_asked() { Err(TraceError::Stopped.into()) } else { Ok(()) }
}

/// Whether a plan changes the tree of this number.
fn changes(plan: &ReplayPlan, number: usize) -> bool {
    plan.flows.list().iter().any(|flow| flow.changes(number))
}

/// Opens the anchor of a tree, and puts into the tree what of it is there.
fn opened(
    plan: &ReplayPlan,
    (number, target, path, with_parents): (usize, &TreeTarget, &Path, bool),
    tree: &Tree,
    observer: &dyn Observer,
    stopping: &Stopping,
) -> Result<Anchor> {
    let failed =
        |error: std::io::Error| RunError::new(Kind::Target, format!("{}: {error}", path.display()));
    let changes = changes(plan, number);
    if changes {
        // It may be another one since it was looked at.
        let named = &plan.targets[number];
        let is_named = plan.spec.destroy.iter().any(|it| named.is_file(it));
        let state = inspect(path).map_err(failed)?;
        target.with_state(state).guard(is_named)?;
    }
    let anchor = Anchor::open(path, changes, with_parents).map_err(failed)?;
    let found = anchor.look(tree, stopping.asked());
    go_on(stopping)?;
    let found = found.map_err(failed)?;
    if let Some(linked) = &found.linked
        && plan.flows.list().iter().any(|flow| flow.changes_files(number))
    {
        TreeTarget::guard_linked(linked)?;
    }
    if target.open.direct {
        guard_direct(plan, number, &anchor, tree)?;
    }
    if let Some(example) = found.example {
        observer.tell(&format!(
            "note: {}: {} not of this tree and left alone, such as {}",
            path.display(),
            counted_in(found.foreign, "name is", "names are"),
            example.display()
        ));
    }
    Ok(anchor)
}

/// The trees of a run.
pub(crate) struct Forest {
    places: Vec<Place>,
    /// The loads, in the order of the run's flows.
    flows: Vec<Arc<FileFlow>>,
}

impl Forest {
    /// Opens the trees of a plan, and looks at what of them is there.
    pub(crate) fn open(
        plan: &ReplayPlan,
        observer: &dyn Observer,
        stopping: &Stopping,
    ) -> Result<Self> {
        let (mut places, mut changed) = (Vec::new(), Vec::new());
        for (number, target) in plan.targets.iter().enumerate() {
            let Target::Tree(target) = target else { continue };
            let tree = Arc::new(Tree::new(target.geometry.clone()));
            go_on(stopping)?;
            let place = match &target.place {
                TreePlace::Anchor { path, with_parents, .. } => {
                    let at = (number, &**target, path.as_path(), *with_parents);
                    let anchor = opened(plan, at, &tree, observer, stopping)?;
                    Place { target: (**target).clone(), tree, anchor: Some(anchor), names: None }
                }
                TreePlace::Memory { found, capacity, names_max, .. } => {
                    tree.suppose_until(*found, stopping.asked());
                    go_on(stopping)?;
                    let names = Names::of(&tree, *capacity, *names_max);
                    let names = Some(Arc::new(Mutex::new(names)));
                    Place { target: (**target).clone(), tree, anchor: None, names }
                }
            };
            go_on(stopping)?;
            if changes(plan, number) {
                changed.push(places.len());
            }
            places.push(place);
        }
        // Now that no tree is refused.
        for place in changed.into_iter().map(|at| &places[at]) {
            place.mark(plan)?;
        }
        let flow = |flow: &Flow| -> std::result::Result<Arc<FileFlow>, TraceError> {
            let Some(OfFiles { load, to, .. }) = flow.of_files() else {
                return Err(TraceError::Stopped);
            };
            let to = to.map(|to| Arc::clone(&places[to].tree));
            let tree = Arc::clone(&places[flow.target()].tree);
            Ok(Arc::new(FileFlow::new(load.clone(), tree, to)?))
        };
        let flows = plan.flows.list().iter().map(flow).collect::<std::result::Result<_, _>>()?;
        Ok(Self { places, flows })
    }

    /// The lanes, the trees as the facts of a run have them, and the layers below, which nobody
    /// knows.
    pub(crate) fn opened(
        &self,
        plan: &ReplayPlan,
        places: &[LanePlace],
        clock: MonotonicClock,
    ) -> (Vec<Lane>, Vec<TargetEntry>, Vec<Vec<Layer>>) {
        let entries = self.entries(plan);
        let below = entries.iter().map(|_| Vec::new()).collect();
        (self.lanes(plan, places, clock), entries, below)
    }

    /// The trees whose verifiers are shared by several lanes, in the order of their numbers: those
    /// below directories, and those in memory that hand files to each other.
    pub(crate) fn to_verify(&self, plan: &ReplayPlan) -> impl Iterator<Item = (usize, TreePlaces)> {
        let hand_over = plan.flows.hand_over();
        self.places.iter().enumerate().filter_map(move |(number, place)| {
            let geometry = place.target.geometry.clone();
            let tree = PastTree { geometry, direct: place.target.open.direct };
            let place = match (&place.anchor, &place.names) {
                (Some(anchor), _) => TreePlaces::Below(anchor.clone(), tree),
                (None, Some(names)) if hand_over => TreePlaces::InMemory(Arc::clone(names)),
                _ => return None,
            };
            Some((number, place))
        })
    }

    /// The trees in the facts of a run.
    fn entries(&self, plan: &ReplayPlan) -> Vec<TargetEntry> {
        let entry = |(number, place): (usize, &Place)| {
            let text = place.target.text.clone();
            let Some(anchor) = &place.anchor else {
                return TargetEntry::Simulated(SimulatedTarget { simulated: text });
            };
            let mount = anchor.file_system();
            TargetEntry::Tree(TreeEntry {
                tree: text,
                anchor: anchor.path().to_owned(),
                canonical: place.target.canonical(),
                files: place.tree.geometry.files(),
                directories: place.tree.geometry.directories(),
                direct: place.target.open.direct,
                file_system: mount.as_ref().map(|(kind, _)| kind.clone()),
                mount_point: mount.map(|(_, point)| point),
                to: plan.flows.to(number).map(|to| to as u16),
            })
        };
        self.places.iter().enumerate().map(entry).collect()
    }

    /// The lanes.
    fn lanes(&self, plan: &ReplayPlan, places: &[LanePlace], clock: MonotonicClock) -> Vec<Lane> {
        let kept_max = kept_by_each(places.len());
        let lane = |at: &LanePlace| {
            let place = &self.places[at.target];
            match (&place.target.place, &place.anchor, at.client) {
                (_, Some(anchor), Some((flow, _))) => {
                    let here = (anchor.clone(), Arc::clone(&place.tree));
                    let load = &self.flows[flow].load;
                    let to = plan.flows.list()[flow].of_files().and_then(|files| files.to);
                    let there = to.and_then(|to| {
                        let place = &self.places[to];
                        Some((place.anchor.clone()?, Arc::clone(&place.tree)))
                    });
                    let open = place.target.open;
                    let options = FilesOptions {
                        direct: open.direct,
                        sync: open.sync,
                        fsync_at_close: open.fsync,
                        writes: load.changes(),
                        length_max: load.sizes.largest(),
                        kept_max,
                    };
                    let device = Box::new(FilesDevice::new(here, there, options, clock));
                    Lane::Real {
                        device,
                        clock,
                        claims: Vec::new(),
                        helpers: Some(Helpers::default()),
                    }
                }
                (TreePlace::Memory { calls, .. }, ..) => {
                    let other = plan.flows.to(at.target);
                    let other = other.and_then(|other| self.places[other].names.clone());
                    let names = place.names.clone();
                    let device = Simulated { spec: calls.clone(), learnt: None };
                    Lane::Simulated {
                        devices: vec![device],
                        names: names.map(|names| (names, other)),
                    }
                }
                // A place of a tree below an anchor always has its thread.
                (TreePlace::Anchor { .. }, ..) => unreachable!("a real tree has threads"),
            }
        };
        places.iter().map(lane).collect()
    }

    /// The input of each lane.
    pub(crate) fn inputs(
        &self,
        plan: &ReplayPlan,
        places: &[LanePlace],
        stop: &Arc<AtomicBool>,
    ) -> Vec<FlowsInput> {
        let until = plan.spec.end_after.unwrap_or(Nanos::MAX);
        let input = |at: &LanePlace| {
            let flows = plan.flows.list().iter().enumerate();
            let clients = flows.filter_map(|(number, flow)| {
                let (first, count) = match at.client {
                    Some((of, client)) if of == number => (client, 1),
                    None if flow.target() == at.target => (0, flow.places()),
                    _ => return None,
                };
                let clients = Clients::new(Arc::clone(&self.flows[number]), first, count);
                Some((flow.clone(), number as u16 + 1, clients))
            });
            FlowsInput::of_files(clients.collect(), until, stop)
        };
        places.iter().map(input).collect()
    }

    /// Why threads ended before the run did.
    pub(crate) fn notes(&self, plan: &ReplayPlan) -> Vec<String> {
        let flows = plan.flows.list().iter().zip(&self.flows).enumerate();
        let notes = flows.filter_map(|(number, (flow, shared))| {
            let why = shared.why_ended()?;
            Some(format!("{}: {why}; threads of it ended", flow.name(number + 1)))
        });
        notes.collect()
    }
}
