//! Verification of trees of files: one verifier for all threads of a tree, what a run found when it
//! began, and reading back.

use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ioecho_linux::MonotonicClock;
use ioecho_linux::tree::{Anchor, FilesReader};
use ioecho_replay::clock::Clock as _;
use ioecho_replay::tree::Geometry;
use ioecho_replay::verify::{
    FinalPass, FoundNames, MemoryTable, NameBook, PassProgress, Verifier, VerifyConfig,
};
use ioecho_trace::units::counted_in;
use ioecho_trace::wording::Wording;

use super::later::{PastTarget, Rebuilding, Since, TargetFindings};
use super::notes;
use super::rebuilt::Rebuilt;
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

/// The verifier of a tree, which all of its threads share.
pub(crate) struct TreeVerifier {
    config: VerifyConfig,
    shared: Arc<Mutex<Verifier>>,
    anchor: Anchor,
    tree: PastTree,
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
pub(super) fn begun(
    run: &RunDirectory,
    number: u64,
    target: u16,
    tree: &PastTree,
) -> Result<NameBook> {
    let path = run.names(usize::from(target));
    restore(&path, number, &tree.geometry).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            let text =
                format!("{} kept no record of what it found in its tree", run.path().display());
            let help = Wording::from("a replay does with ").setting("verify");
            return RunError::with_help(Kind::Trace, text, help);
        }
        RunError::new(Kind::Trace, format!("cannot read {}: {error}", path.display()))
    })
}

fn unreadable(anchor: &Anchor, error: &io::Error) -> RunError {
    RunError::new(Kind::Target, format!("{}: {error}", anchor.path().display()))
}

impl TreeVerifier {
    /// Begins with what is found below the anchor, which is compared with what earlier runs left
    /// there.
    pub(crate) fn begin(
        run: &RunDirectory,
        config: VerifyConfig,
        verifier: Verifier,
        (anchor, tree): (Anchor, PastTree),
        tell: &dyn Fn(&str),
    ) -> Result<Self> {
        // What is found may be in the page cache alone; a power cut must not take it.
        anchor.sync().map_err(|error| unreadable(&anchor, &error))?;
        let found = anchor.names(&tree.geometry).map_err(|error| unreadable(&anchor, &error))?;
        let mut verifier = verifier;
        if verifier.names().is_some() {
            verifier.begin_with(&found);
        } else {
            verifier.put_names(NameBook::of(tree.geometry.clone(), &found));
        }
        let findings = verifier.name_findings();
        if let Some(first) = findings.first() {
            tell(&format!(
                "warning: {}: {} not as the runs before left them, such as {first}",
                anchor.path().display(),
                counted_in(findings.len() as u64, "name is", "names are")
            ));
        }
        let target = usize::from(config.target);
        if let Some(names) = verifier.names() {
            store(run, &run.names(target), config.run, names)?;
        }
        Ok(Self { config, shared: Arc::new(Mutex::new(verifier)), anchor, tree })
    }

    /// The number of the tree among the run's targets.
    pub(crate) fn target(&self) -> usize {
        usize::from(self.config.target)
    }

    /// The verifier of this target for one of its lanes, and the lane's tag there, if it is one of
    /// these trees.
    pub(crate) fn shared(
        trees: &[Self],
        target: usize,
        lane: usize,
    ) -> Option<(Arc<Mutex<Verifier>>, u32)> {
        let its = trees.iter().find(|tree| tree.target() == target);
        its.map(|tree| (Arc::clone(&tree.shared), lane as u32))
    }

    /// The verifier, once all threads have ended; `None` if one of them has it still.
    pub(crate) fn take(&self) -> Option<Verifier> {
        let mut shared = self.shared.try_lock().ok()?;
        let nobody = Verifier::new(self.config, Box::new(MemoryTable::default()), None);
        Some(std::mem::replace(&mut *shared, nobody))
    }

    /// Compares all names with what must be there, and reads back all that was written.
    pub(crate) fn look(&self, verifier: &mut Verifier, stop: &AtomicBool) -> io::Result<FinalPass> {
        let found = self.anchor.names(&self.tree.geometry)?;
        read_back(&self.anchor, &self.tree, verifier, &found, stop, &mut |_| {})
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

/// Looks at a tree of past runs: at all names, and at everything that they wrote to its files.
pub(super) fn look(
    past: &PastTarget,
    tree: &PastTree,
    since: Since,
    table: &Path,
    rebuilt: Rebuilding<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(PassProgress),
) -> Result<TargetFindings> {
    let failed = |error: io::Error| {
        let text = format!("{} cannot be verified: {error}", past.path.display());
        let help = Wording::from("name the directory of the tree as it is called now with ");
        RunError::with_help(Kind::Target, text, help.setting("target"))
    };
    let anchor = Anchor::open(&past.path, false, false).map_err(failed)?;
    let Rebuilt { mut verifier, in_flight, mut notes, damaged } = rebuilt()?;
    let pass = if verifier.figures().table_errors > 0 {
        // The data that are read could not be judged.
        FinalPass { stopped: true, ..FinalPass::default() }
    } else {
        let found = anchor.names(&tree.geometry).map_err(failed)?;
        read_back(&anchor, tree, &mut verifier, &found, stop, progress).map_err(failed)?
    };
    notes.extend(notes::of_figures(since, &verifier, table));
    Ok(TargetFindings { in_flight, notes, ..TargetFindings::of(past, &verifier, &pass, damaged) })
}
