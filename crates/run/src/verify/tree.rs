//! Verification of trees of files: one verifier for all threads of a tree, what a run found when it
//! began, and reading back.

use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use ioecho_linux::MonotonicClock;
use ioecho_linux::tree::{Anchor, FilesReader};
use ioecho_replay::clock::Clock as _;
use ioecho_replay::tree::{AtRest, Geometry, Names};
use ioecho_replay::verify::{
    FinalPass, Following, FoundNames, MemoryTable, NameBook, PassProgress, Sharing, Verifier,
    VerifyConfig, torn_moves,
};
use ioecho_trace::Nanos;
use ioecho_trace::units::counted_in;
use ioecho_trace::wording::Wording;

use super::later::{Past, PastTarget, Since, TargetFindings};
use super::notes;
use super::rebuilt::Rebuilt;
use super::ring::{self, Ring};
use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::regular;

/// The longest read of a file, as verification makes them.
const READ_MAX: usize = 1 << 20;

/// A tree as it is read back.
#[derive(Clone, Debug)]
pub(crate) struct PastTree {
    pub(crate) geometry: Geometry,
    /// Whether its files are read past the page cache.
    pub(crate) direct: bool,
}

/// Where a tree lies whose verifier several lanes share.
#[derive(Debug)]
pub(crate) enum TreePlaces {
    /// Below this directory.
    Below(Anchor, PastTree),
    /// In memory; what is there as long as its lane works on it.
    InMemory(Arc<Mutex<Names>>),
}

impl TreePlaces {
    /// What is there before the run, which no power cut takes any more, and its shape.
    fn begins(&self) -> Result<(FoundNames, Geometry)> {
        match self {
            Self::Below(anchor, tree) => {
                // What is found may be in the page cache alone; a power cut must not take it.
                anchor.sync().map_err(|error| unreadable(anchor, &error))?;
                let found = anchor.names(&tree.geometry);
                let found = found.map_err(|error| unreadable(anchor, &error))?;
                Ok((found, tree.geometry.clone()))
            }
            Self::InMemory(names) => {
                let names = names.lock().unwrap_or_else(PoisonError::into_inner);
                Ok((FoundNames::of(&names), names.geometry().clone()))
            }
        }
    }
}

/// The verifier of a tree, which all of its threads share, with those that hand files to it.
pub(crate) struct TreeVerifier {
    config: VerifyConfig,
    shared: Arc<Mutex<Verifier>>,
    place: TreePlaces,
    /// The number of the tree that its files go to.
    to: Option<usize>,
}

/// A tree whose run begins: what its verifier knows of it, where it lies, and the number of the
/// tree that its files go to.
pub(crate) type Beginning = (VerifyConfig, Verifier, TreePlaces, Option<usize>);

/// A verifier as one of the lanes that share it has it.
pub(crate) struct SharedVerifier {
    verifier: Arc<Mutex<Verifier>>,
    /// The tag of a lane that makes one call at a time.
    tag: Option<u32>,
    /// That of the tree to which the lane copies or moves files.
    other: Option<Arc<Mutex<Verifier>>>,
}

impl SharedVerifier {
    /// What follows the requests of the lane.
    pub(crate) fn following(&self) -> Following<'_> {
        Following::Shared(Sharing::new(&self.verifier, self.tag, self.other.as_deref()))
    }
}

/// Writes names down as this run found or left them.
pub(super) fn store(place: &RunDirectory, path: &Path, run: u64, names: &NameBook) -> Result<()> {
    place.put_with(path, |file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&run.to_le_bytes())?;
        names.store(&mut out)?;
        out.flush()
    })
}

/// Reads names that were written down of this run.
pub(super) fn restore(path: &Path, run: u64, geometry: &Geometry) -> io::Result<NameBook> {
    let mut input = BufReader::with_capacity(1 << 20, regular::open(path)?);
    let mut number = [0; 8];
    input.read_exact(&mut number)?;
    if u64::from_le_bytes(number) != run {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is of another run"));
    }
    NameBook::restore(geometry.clone(), &mut input)
}

/// What a past run found of a tree when it began.
pub(super) fn begun(past: &Past, target: u16, tree: &PastTree) -> Result<NameBook> {
    let path = past.run.names(usize::from(target));
    restore(&path, past.number, &tree.geometry).map_err(|error| {
        let name = past.run.path().display();
        if error.kind() != io::ErrorKind::NotFound {
            return RunError::new(Kind::Trace, format!("cannot read {}: {error}", path.display()));
        }
        let ring = ring::read(&past.run.intents(usize::from(target)), past.number, target);
        let is_noted = matches!(ring, Ring::Whole { intents, .. } if !intents.is_empty());
        let (text, help) = if !past.verified {
            let help = Wording::from("a replay does with ").setting("verify");
            (format!("{name} kept no record of what it found in its tree"), help)
        } else if past.run.has_no_results() && !is_noted {
            let text = format!(
                "{name} was ended before it had looked at its tree, so it changed no file and \
                 there is nothing of it to verify"
            );
            (text, Wording::from("do that run again; verify the one before it, if there is one"))
        } else {
            let text = format!("{}, where the run noted what it found, is gone", path.display());
            (text, Wording::from("put that file back where it was"))
        };
        RunError::with_help(Kind::Trace, text, help)
    })
}

fn unreadable(anchor: &Anchor, error: &io::Error) -> RunError {
    RunError::new(Kind::Target, format!("{}: {error}", anchor.path().display()))
}

impl TreeVerifier {
    /// Begins with what is found of the trees, which is compared with what earlier runs left there.
    pub(crate) fn begin(
        run: &RunDirectory,
        verifiers: Vec<Beginning>,
        tell: &dyn Fn(&str),
    ) -> Result<Vec<Self>> {
        let mut verifiers = verifiers;
        let begins = verifiers.iter().map(|(_, _, place, _)| place.begins());
        let (found, shapes): (Vec<_>, Vec<_>) =
            begins.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let mut all: Vec<_> = verifiers.iter_mut().map(|(_, it, ..)| it).zip(&found).collect();
        torn_moves(&mut all, Nanos::ZERO);
        let begun = |((of_tree, found), shape): ((_, &FoundNames), Geometry)| {
            let (config, mut verifier, place, to): Beginning = of_tree;
            if verifier.names().is_some() {
                verifier.begin_with(found);
            } else {
                verifier.put_names(NameBook::of(shape, found));
            }
            if let TreePlaces::Below(anchor, _) = &place {
                tell_begin(anchor, &verifier, tell);
                if let Some(names) = verifier.names() {
                    store(run, &run.names(usize::from(config.target)), config.run, names)?;
                }
            }
            Ok(Self { config, shared: Arc::new(Mutex::new(verifier)), place, to })
        };
        verifiers.into_iter().zip(&found).zip(shapes).map(begun).collect()
    }

    /// The number of the tree among the run's targets.
    pub(crate) fn target(&self) -> usize {
        usize::from(self.config.target)
    }

    /// The verifier of this target for one of its lanes, if it is one of these trees.
    pub(crate) fn shared(trees: &[Self], target: usize, lane: usize) -> Option<SharedVerifier> {
        let of = |target: usize| trees.iter().find(|tree| tree.target() == target);
        let its = of(target)?;
        let has_one_call = matches!(its.place, TreePlaces::Below(..));
        Some(SharedVerifier {
            verifier: Arc::clone(&its.shared),
            tag: has_one_call.then_some(lane as u32),
            other: its.to.and_then(of).map(|other| Arc::clone(&other.shared)),
        })
    }

    /// The verifier, once all threads have ended; `None` if one of them has it still.
    pub(crate) fn take(&self) -> Option<Verifier> {
        let mut shared = self.shared.try_lock().ok()?;
        let nobody = Verifier::new(self.config, Box::new(MemoryTable::default()), None);
        Some(std::mem::replace(&mut *shared, nobody))
    }

    /// What is there when all lanes have ended, with these trees in memory by the numbers of their
    /// targets.
    pub(crate) fn found(&self, in_memory: &[Option<AtRest>]) -> io::Result<FoundNames> {
        match &self.place {
            TreePlaces::Below(anchor, tree) => anchor.names(&tree.geometry),
            TreePlaces::InMemory(_) => {
                let at_rest = in_memory.get(self.target()).and_then(Option::as_ref);
                let at_rest = at_rest.ok_or(io::ErrorKind::NotFound)?;
                Ok(FoundNames::of(&at_rest.names()))
            }
        }
    }

    /// Compares all names, of which this was found, with what must be there, and reads back all
    /// that was written.
    pub(crate) fn look(
        &self,
        verifier: &mut Verifier,
        found: &FoundNames,
        in_memory: &mut [Option<AtRest>],
        stop: &AtomicBool,
    ) -> io::Result<FinalPass> {
        match &self.place {
            TreePlaces::Below(anchor, tree) => {
                read_back(anchor, tree, verifier, found, stop, &mut |_| {})
            }
            TreePlaces::InMemory(_) => {
                let at_rest = in_memory.get_mut(self.target()).and_then(Option::as_mut);
                let at_rest = at_rest.ok_or(io::ErrorKind::NotFound)?;
                verifier.look_at_tree(found, at_rest, &|| Nanos::ZERO, stop, &mut |_| {})
            }
        }
    }
}

/// Tells of names that are not as earlier runs left them.
fn tell_begin(anchor: &Anchor, verifier: &Verifier, tell: &dyn Fn(&str)) {
    let findings = verifier.name_findings();
    if let Some(first) = findings.first() {
        tell(&format!(
            "warning: {}: {} not as the runs before left them, such as {first}",
            anchor.path().display(),
            counted_in(findings.len() as u64, "name is", "names are")
        ));
    }
}

fn read_back(
    anchor: &Anchor,
    tree: &PastTree,
    verifier: &mut Verifier,
    found: &FoundNames,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(PassProgress),
) -> io::Result<FinalPass> {
    let PastTree { geometry, direct } = tree;
    let mut files = FilesReader::new(anchor.clone(), geometry.clone(), *direct, READ_MAX);
    let clock = MonotonicClock::new();
    verifier.look_at_tree(found, &mut files, &|| clock.now(), stop, progress)
}

/// How the legal content of trees is found, of which files may have gone from one to the other.
pub(super) type RebuildingTrees<'a> = &'a mut dyn FnMut(&[&PastTarget]) -> Result<Vec<Rebuilt>>;

/// Looks at a tree of past runs: at all names, and at everything that they wrote to its files.
/// `all` are the trees that may have handed files to each other, this one among them: their names
/// are looked at, too.
pub(super) fn look(
    (past, tree): (&PastTarget, &PastTree),
    all: &[&PastTarget],
    since: Since,
    table: &Path,
    rebuilt: RebuildingTrees<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(PassProgress),
) -> Result<TargetFindings> {
    let failed = |path: &Path, error: &io::Error| {
        let text = format!("{} cannot be verified: {error}", path.display());
        let help = Wording::from("name the directory of the tree as it is called now with ");
        RunError::with_help(Kind::Target, text, help.setting("target"))
    };
    let names = |it: &PastTarget| -> Result<(Anchor, FoundNames)> {
        let its = it.tree.as_ref().unwrap_or(tree);
        let failed = |error: io::Error| failed(&it.path, &error);
        let anchor = Anchor::open(&it.path, false, false).map_err(failed)?;
        let found = anchor.names(&its.geometry).map_err(failed)?;
        Ok((anchor, found))
    };
    let its = all.iter().position(|it| it.number == past.number).unwrap_or(0);
    let mut theirs = rebuilt(all)?;
    let pass = if theirs[its].verifier.figures().table_errors > 0 {
        // The data that are read could not be judged.
        FinalPass { stopped: true, ..FinalPass::default() }
    } else {
        let found = all.iter().map(|it| names(it)).collect::<Result<Vec<_>>>()?;
        let mut trees: Vec<_> = theirs
            .iter_mut()
            .zip(&found)
            .map(|(it, (_, found))| (&mut it.verifier, found))
            .collect();
        torn_moves(&mut trees, Nanos::ZERO);
        let ((anchor, found), verifier) = (&found[its], &mut theirs[its].verifier);
        let pass = read_back(anchor, tree, verifier, found, stop, progress);
        pass.map_err(|error| failed(&past.path, &error))?
    };
    let Rebuilt { verifier, in_flight, mut notes, damaged } = theirs.swap_remove(its);
    notes.extend(notes::of_figures(since, &verifier, table));
    Ok(TargetFindings { in_flight, notes, ..TargetFindings::of(past, &verifier, &pass, damaged) })
}
