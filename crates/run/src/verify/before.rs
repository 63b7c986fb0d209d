//! What a run goes on from: an earlier run (`--continues`), or a family of them (`--family`).

use std::fmt;
use std::path::Path;

use ioecho_replay::verify::{Intents, Verifier, VerifyConfig, VersionTable};
use ioecho_trace::Bytes;

use super::family::{Family, Member};
use super::line::Continues;
use crate::directory::RunDirectory;
use crate::error::Result;
use crate::facts::{Continued, TargetEntry};
use crate::spec::ReplaySpec;
use crate::target::Target;

/// What a run goes on from.
#[derive(Clone, Debug)]
pub(crate) enum Before {
    /// A run, and the ones that it continues.
    Run(Box<Continues>),
    /// All runs of a family.
    Family(Box<Family>),
}

impl Before {
    /// What is asked for, if anything is. Refuses targets that do not go with it.
    pub(crate) fn new(spec: &ReplaySpec, targets: &[Target]) -> Result<Option<Self>> {
        if let Some(family) = Family::of(spec, targets)? {
            return Ok(Some(Self::Family(Box::new(family))));
        }
        Ok(Continues::new(spec, targets)?.map(Box::new).map(Self::Run))
    }

    /// The directory of the family, if it is one.
    pub(crate) fn family(&self) -> Option<&Path> {
        match self {
            Self::Run(_) => None,
            Self::Family(family) => Some(family.path()),
        }
    }

    /// Its entry in `run.toml`.
    pub(crate) fn entry(&self) -> Option<Continued> {
        match self {
            Self::Run(continues) => Some(continues.entry()),
            // The family's own file has its runs in their order.
            Self::Family(_) => None,
        }
    }

    /// Joins the family, if it is one.
    pub(crate) fn join(
        &self,
        run_number: u64,
        run: &RunDirectory,
        entries: &[TargetEntry],
    ) -> Result<Option<Member>> {
        match self {
            Self::Run(_) => Ok(None),
            Self::Family(family) => family.join(run_number, run, entries).map(Some),
        }
    }

    /// A verifier for a target of the run, which knows the state that the earlier runs left.
    /// `open` makes a table without entries, for this target or for another of so many bytes.
    pub(super) fn verifier(
        &self,
        config: VerifyConfig,
        mut open: impl FnMut(Option<(u16, Bytes)>) -> Result<Box<dyn VersionTable + Send>>,
        intents: Option<Box<dyn Intents + Send>>,
        tell: &dyn Fn(&str),
    ) -> Result<Verifier> {
        match self {
            Self::Run(continues) => continues.verifier(config, open(None)?, intents, tell),
            Self::Family(family) => family.verifier(config, open, intents, tell),
        }
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(continues) => write!(f, "continues     {continues}"),
            Self::Family(family) => write!(f, "family        {family}"),
        }
    }
}
