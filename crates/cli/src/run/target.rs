//! What a run may write to: how a target is named, looked at, and guarded.
//!
//! A typing error in a device's name costs somebody's data. So a target is looked at without being
//! opened for writing, what speaks against overwriting it is gathered, and it takes its exact name
//! a second time to go on all the same.

use std::path::{Path, PathBuf};

use ioecho_linux::{Access, Hazard, OpenOptions, TargetFacts, guard, target};
use ioecho_replay::plan::TargetLimits;
use ioecho_replay::sim::SimSpec;
use ioecho_trace::{Bytes, Op};

use crate::exit::{self, Coded};

/// Where requests go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Nowhere: a simulated device.
    Simulated { text: String, spec: Box<SimSpec> },
    /// A block device or a file.
    Real { path: PathBuf, options: OpenOptions, facts: Box<TargetFacts>, hazards: Vec<Hazard> },
}

impl Target {
    /// Resolves what was typed, and looks at what it names; changes nothing.
    pub(crate) fn look_at(
        name: &str,
        reads_only: bool,
        allow_cached: bool,
    ) -> anyhow::Result<Self> {
        if let Some(text) = name.strip_prefix("sim:").or((name == "sim").then_some("")) {
            let spec = text
                .parse()
                .map_err(|error| Coded::error(exit::USAGE, format!("--target {error}")))?;
            return Ok(Self::Simulated { text: name.to_owned(), spec: Box::new(spec) });
        }
        let path = Path::new(name);
        let access = if reads_only { Access::ReadOnly } else { Access::ReadWrite };
        let options = OpenOptions { allow_cached, ..OpenOptions::new(access) };
        // Only looking: the target is opened for writing when the guard has agreed.
        let looking = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
        let facts = target::open(path, looking)?.facts().clone();
        let hazards = if reads_only { Vec::new() } else { guard::inspect(path)? };
        Ok(Self::Real { path: path.to_owned(), options, facts: Box::new(facts), hazards })
    }

    /// As it was typed.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Simulated { text, .. } => text.clone(),
            Self::Real { path, .. } => path.display().to_string(),
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Self::Simulated { .. })
    }

    /// Whether both are the same thing.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Real { path: a, .. }, Self::Real { path: b, .. }) => same_file(a, b),
            _ => false,
        }
    }

    /// Whether this is the file at `path`.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        matches!(self, Self::Real { path: mine, .. } if same_file(mine, path))
    }

    /// The limits that the target sets, as far as they are known without opening it for writing.
    pub(crate) fn limits(&self) -> TargetLimits {
        let (capacity, block_size) = match self {
            Self::Simulated { spec, .. } => (spec.capacity, spec.block_size),
            Self::Real { facts, .. } => (facts.capacity, facts.logical_block),
        };
        let supports = Op::ALL.map(|op| op != Op::Zone);
        TargetLimits { capacity, block_size, length_max: Bytes(u64::MAX), supports }
    }

    /// Refuses a target that may hold somebody's data, unless `destroy` names it.
    pub(crate) fn guard(&self, destroy: &[PathBuf]) -> anyhow::Result<()> {
        let Self::Real { path, hazards, options, .. } = self else { return Ok(()) };
        if options.access == Access::ReadOnly {
            return Ok(());
        }
        let named = destroy.iter().any(|named| same_file(named, path));
        let against: Vec<String> = hazards
            .iter()
            .filter(|hazard| !(named && hazard.can_be_named()))
            .map(|hazard| format!("  - {hazard}"))
            .collect();
        if against.is_empty() {
            return Ok(());
        }
        let help = if hazards.iter().all(Hazard::can_be_named) {
            format!(
                "if all of that may be lost: --destroy {}; to replay the reads alone: --read-only",
                path.display()
            )
        } else {
            "what is in use cannot be overruled: give it free first; to replay the reads alone: \
             --read-only"
                .to_owned()
        };
        let text = format!(
            "{} is not overwritten; nothing was touched:\n{}\n  = help: {help}",
            path.display(),
            against.join("\n")
        );
        Err(Coded::error(exit::REFUSED, text))
    }
}

/// Refuses targets that may hold somebody's data, and a `--destroy` that names none of them.
pub(crate) fn guard_all(targets: &[Target], destroy: &[PathBuf]) -> anyhow::Result<()> {
    for named in destroy {
        if !targets.iter().any(|target| target.is_file(named)) {
            let names: Vec<String> = targets.iter().map(Target::name).collect();
            let text = format!(
                "--destroy {} does not name the target, {}\n  = help: check which device you mean",
                named.display(),
                names.join(" or ")
            );
            return Err(Coded::error(exit::USAGE, text));
        }
    }
    targets.iter().try_for_each(|target| target.guard(destroy))
}

pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
