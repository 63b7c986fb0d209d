//! What can be verified later: a run, or a family of runs.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ioecho_replay::verify::{After, PassProgress};

use super::family::{FAMILY, Family};
use super::later::{Past, PastTarget, Since, TargetFindings, retargeted};
use super::result;
use crate::directory::RunDirectory;
use crate::error::Result;

/// Where a workload keeps its family, in the directory of its results.
pub const FAMILY_PLACE: &str = "family";

/// What is verified.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A run, and the ones that it continues.
    Run(Box<Past>),
    /// All runs of a family.
    Family(Box<Family>),
}

impl Subject {
    /// What lies in this directory: a run, a family, or the results of a workload with its family.
    ///
    /// # Errors
    ///
    /// If it is none of them, goes on, or cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let is_family = |path: &PathBuf| path.join(FAMILY).is_file();
        let families = [path.to_owned(), path.join(FAMILY_PLACE)];
        match families.iter().find(|path| is_family(path)) {
            Some(family) => Ok(Self::Family(Box::new(Family::open(family)?))),
            None => Ok(Self::Run(Box::new(Past::open(path)?))),
        }
    }

    /// Its targets.
    pub fn targets(&self) -> &[PastTarget] {
        match self {
            Self::Run(past) => &past.targets,
            Self::Family(family) => family.targets(),
        }
    }

    /// The number of the run, or of the last one.
    pub fn number(&self) -> u64 {
        match self {
            Self::Run(past) => past.number,
            Self::Family(family) => family.number(),
        }
    }

    /// What came after it if nothing is said: a family knows in which boot of the host its last run
    /// began.
    pub fn after(&self) -> After {
        match self {
            Self::Run(_) => After::default(),
            Self::Family(family) => family.after(),
        }
    }

    /// Replaces the paths of its targets; all of them or none.
    ///
    /// # Errors
    ///
    /// If these are not as many as it has.
    pub fn retarget(&mut self, paths: &[PathBuf]) -> Result<()> {
        match self {
            Self::Run(past) => retargeted(&mut past.targets, paths),
            Self::Family(family) => retargeted(family.targets_mut(), paths),
        }
    }

    /// Verifies a target.
    ///
    /// # Errors
    ///
    /// If the target or the records cannot be read.
    pub fn verify(
        &self,
        target: &PastTarget,
        since: Since,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(PassProgress),
    ) -> Result<TargetFindings> {
        match self {
            Self::Run(past) => past.verify(target, since, stop, progress),
            Self::Family(family) => family.verify(target, since, stop, progress),
        }
    }

    /// Stores the result where it belongs.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&self, path: &Path, after: After, found: &[TargetFindings]) -> Result<()> {
        match self {
            Self::Run(past) => match RunDirectory::at(path) {
                Some(run) => result::keep(&run, past.number, after.name(), found),
                None => Ok(()),
            },
            Self::Family(family) => family.keep(after, found),
        }
    }
}
