//! The targets of a run: how they are named, inspected, and guarded.
//!
//! A typing error in a device's name can destroy a user's data. So a target is inspected without
//! being opened for writing, all reasons against overwriting it are gathered, and to overwrite it
//! anyway the user must name it exactly a second time. The target may change before the first
//! write. So the opened target is inspected again, and its users once more right before the first
//! write.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_linux::ground::Ground;
use ioecho_linux::{
    Access, Hazard, OpenOptions, OpenedTarget, Recheck, TargetError, TargetFacts, guard, target,
};
use ioecho_replay::plan::TargetLimits;
use ioecho_replay::sim::SimSpec;
use ioecho_replay::sim::models::Learnt;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Bytes, Op};

use crate::error::{Kind, Result, RunError};
use crate::inputs::Inputs;
use crate::simulated::{self, Simulation};
use crate::tree_target::TreeTarget;

/// How long a target in use is inspected before it is refused.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same for a target that this run has opened: another run that tries to open it at the same
/// moment retries for a second.
const PATIENCE_OPENED: Duration = Duration::from_secs(3);

/// The pause between two inspections.
const PAUSE: Duration = Duration::from_millis(50);

/// The alternative for a target that must not be overwritten.
pub fn reads_alone() -> Wording {
    Wording::from("; to replay the reads alone: ").setting("read-only")
}

/// The destination of requests.
#[derive(Clone, Debug)]
pub enum Target {
    /// Nowhere: a simulated device.
    Simulated {
        /// The specification as it was typed.
        text: String,
        /// The parsed specification.
        spec: Box<SimSpec>,
        /// The run that it was learnt from, where one was named.
        learnt: Option<Arc<Learnt>>,
        /// Whether a disk turns in it; `None` if nobody knows.
        rotational: Option<bool>,
    },
    /// A block device or a file.
    Real {
        /// The path as it was typed.
        path: PathBuf,
        /// The options for opening it.
        options: OpenOptions,
        /// Its facts at the inspection.
        facts: Box<TargetFacts>,
        /// The reasons against overwriting it, at the inspection.
        hazards: Vec<Hazard>,
    },
    /// A tree of files.
    Tree(Box<TreeTarget>),
}

impl Target {
    /// Resolves a name and inspects its target; changes nothing.
    pub fn look_at(name: &str, reads_only: bool, allow_cached: bool) -> Result<Self> {
        if let Some(tree) = TreeTarget::look_at(name) {
            return tree.map(|tree| Self::Tree(Box::new(tree)));
        }
        if let Some(text) = name.strip_prefix("sim:").or((name == "sim").then_some("")) {
            let name = name.to_owned();
            let Simulation { spec, learnt, rotational } = simulated::parse(text)?;
            return Ok(Self::Simulated { text: name, spec: Box::new(spec), learnt, rotational });
        }
        let path = Path::new(name);
        let access = if reads_only { Access::ReadOnly } else { Access::ReadWrite };
        let options = OpenOptions { allow_cached, ..OpenOptions::new(access) };
        // Opened only for inspection: it is opened for writing after the guard has agreed.
        let looking = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
        let facts = target::open(path, looking)?.facts().clone();
        let hazards =
            if reads_only { Vec::new() } else { lasting(PATIENCE, || guard::inspect(path))? };
        Ok(Self::Real { path: path.to_owned(), options, facts: Box::new(facts), hazards })
    }

    /// The name as it was typed.
    pub fn name(&self) -> String {
        match self {
            Self::Simulated { text, .. } => text.clone(),
            Self::Real { path, .. } => path.display().to_string(),
            Self::Tree(tree) => match tree.anchor() {
                Some(path) => path.display().to_string(),
                None => tree.text.clone(),
            },
        }
    }

    /// The service times that a simulated device has learnt from a run, if it has.
    pub(crate) fn learnt(&self) -> Option<&Learnt> {
        match self {
            Self::Simulated { learnt, .. } => learnt.as_deref(),
            Self::Real { .. } | Self::Tree(_) => None,
        }
    }

    /// Whether it is simulated, so that no real device is read or written.
    pub fn is_simulated(&self) -> bool {
        match self {
            Self::Simulated { .. } => true,
            Self::Real { .. } => false,
            Self::Tree(tree) => tree.is_simulated(),
        }
    }

    /// Whether both are the same storage, whatever their names are.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Real { facts: a, .. }, Self::Real { facts: b, .. }) => a.shares_bytes_with(b),
            (Self::Tree(a), Self::Tree(b)) => a.overlaps(b),
            _ => false,
        }
    }

    /// Whether this is the file at `path`.
    pub fn is_file(&self, path: &Path) -> bool {
        match self {
            Self::Real { path: mine, .. } => same_file(mine, path),
            Self::Tree(tree) => {
                path.as_os_str() == tree.text.as_str()
                    || tree.anchor().is_some_and(|mine| same_file(mine, path))
            }
            Self::Simulated { .. } => false,
        }
    }

    /// Refuses a target that shares bytes with an input of the command under any name, because
    /// writing to one changes the other.
    pub fn refuse_inputs(&self, inputs: &Inputs) -> Result<()> {
        let Self::Real { path, .. } = self else { return Ok(()) };
        let ground = Ground::of(path).ok();
        let Some(input) = ground.as_ref().and_then(|ground| inputs.touched_by(ground)) else {
            return Ok(());
        };
        let text = format!(
            "what is written to the target {} changes {input}, which this command needs\n  = \
             help: take another target, or move {input} to another disk",
            path.display()
        );
        Err(RunError::new(Kind::Usage, text))
    }

    /// The limits of the target, as far as they are known without opening it for writing.
    pub fn limits(&self) -> TargetLimits {
        let (capacity, block_size) = match self {
            Self::Simulated { spec, .. } => (spec.capacity, spec.block_size),
            Self::Real { facts, .. } => (facts.capacity, facts.logical_block),
            Self::Tree(tree) => return tree.limits(),
        };
        let supports = Op::ALL.map(|op| op != Op::Zone && !op.is_of_files());
        TargetLimits { capacity, block_size, length_max: Bytes(u64::MAX), supports }
    }

    /// Opens the target for this run alone, and inspects it again.
    pub fn claim(&self, destroy: &[PathBuf], otherwise: &Wording) -> Result<OpenedTarget> {
        let Self::Real { path, options, .. } = self else {
            return Err(RunError::new(Kind::Usage, "a simulated target cannot be opened"));
        };
        let opened = target::claim(path, *options)?;
        self.look_again(&opened, destroy, otherwise)?;
        Ok(opened)
    }

    /// Refuses an opened target that is not the inspected one, or that since then contains data or
    /// has users that must not be lost.
    pub fn look_again(
        &self,
        opened: &OpenedTarget,
        destroy: &[PathBuf],
        otherwise: &Wording,
    ) -> Result<()> {
        let Self::Real { path, facts, .. } = self else { return Ok(()) };
        if !opened.facts().is_same_as(facts) {
            return Err(TargetError::Changed { path: path.clone() }.into());
        }
        if opened.access() == Access::ReadOnly {
            return Ok(());
        }
        let hazards = lasting(PATIENCE_OPENED, || guard::inspect_opened(opened))?;
        self.refuse(&hazards, destroy, otherwise)
    }

    /// Refuses a target that has got a user since it was opened. This is the last step before the
    /// first write; it reads nothing of the target.
    pub fn recheck(
        &self,
        recheck: &Recheck,
        destroy: &[PathBuf],
        otherwise: &Wording,
    ) -> Result<()> {
        let hazards = lasting(PATIENCE_OPENED, || Ok(recheck.users()))?;
        self.refuse(&hazards, destroy, otherwise)
    }

    /// Refuses a target that may hold a user's data, unless `destroy` names it; returns warnings
    /// about facts that cannot be determined. `otherwise` ends the help: the alternative to
    /// overwriting.
    fn guard(&self, destroy: &[PathBuf], otherwise: &Wording) -> Result<Vec<String>> {
        let Self::Real { path, hazards, options, .. } = self else { return Ok(Vec::new()) };
        if options.access == Access::ReadOnly {
            return Ok(Vec::new());
        }
        self.refuse(hazards, destroy, otherwise)?;
        let unknown = hazards.iter().filter(|hazard| is_unknown(hazard));
        let warning = |hazard| {
            format!(
                "warning: {}: {hazard}\n  = help: it was named to be overwritten, so this \
                 goes on",
                path.display()
            )
        };
        Ok(unknown.map(warning).collect())
    }

    /// Refuses the target because of hazards, except those that `destroy` accepts.
    fn refuse(&self, hazards: &[Hazard], destroy: &[PathBuf], otherwise: &Wording) -> Result<()> {
        let Self::Real { path, .. } = self else { return Ok(()) };
        let named = destroy.iter().any(|named| same_file(named, path));
        let against: Vec<&Hazard> =
            hazards.iter().filter(|hazard| !(named && hazard.can_be_named())).collect();
        if against.is_empty() {
            return Ok(());
        }
        let name = path.display();
        let help = if !hazards.iter().all(Hazard::can_be_named) {
            Wording::from("what is in use cannot be overruled: give it free first")
        } else if against.iter().any(|hazard| is_unknown(hazard)) {
            Wording::from("if you know that nobody uses it and that what it holds may be lost: ")
                .set("destroy", name.to_string())
        } else {
            Wording::from("if all of that may be lost: ").set("destroy", name.to_string())
        };
        let against: Vec<String> =
            against.into_iter().map(|hazard| format!("  - {hazard}")).collect();
        let text =
            format!("{name} is not overwritten; nothing was touched:\n{}", against.join("\n"));
        Err(RunError::with_help(Kind::Refused, text, help.and(otherwise.clone())))
    }
}

fn is_unknown(hazard: &Hazard) -> bool {
    matches!(hazard, Hazard::CannotTell { .. })
}

/// Refuses targets that may hold a user's data, and a name in `destroy` that is not a target;
/// returns warnings about the accepted targets. `otherwise` ends the help: the alternative to
/// overwriting.
pub fn guard_all(
    targets: &[Target],
    destroy: &[PathBuf],
    otherwise: &Wording,
) -> Result<Vec<String>> {
    for named in destroy {
        if !targets.iter().any(|target| target.is_file(named)) {
            let names: Vec<String> = targets.iter().map(Target::name).collect();
            let text = Wording::default()
                .set("destroy", named.display().to_string())
                .text(format!(" does not name the target, {}", names.join(" or ")));
            let help = "check which device you mean";
            return Err(RunError::with_help(Kind::Usage, text, help));
        }
    }
    let mut warnings = Vec::new();
    for target in targets {
        warnings.extend(target.guard(destroy, otherwise)?);
    }
    Ok(warnings)
}

/// The hazards of a target. The kernel closes a killed process's files with some delay, so a target
/// that is only in use is inspected repeatedly for a while.
fn lasting(
    patience: Duration,
    look: impl Fn() -> Result<Vec<Hazard>, TargetError>,
) -> Result<Vec<Hazard>, TargetError> {
    let deadline = Instant::now() + patience;
    loop {
        let hazards = look()?;
        let mut lasting = hazards.iter().filter(|hazard| !hazard.can_be_named()).peekable();
        let may_pass = lasting.peek().is_some() && lasting.all(Hazard::may_pass);
        if !may_pass || Instant::now() >= deadline {
            return Ok(hazards);
        }
        sleep(PAUSE);
    }
}

/// Whether both names lead to the same file, also by symbolic or hard links.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino()));
    match (number(a), number(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hard_link_is_the_file_that_it_links_to() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        fs::write(&one, "x").unwrap();
        fs::hard_link(&one, &other).unwrap();
        assert!(same_file(&one, &other));
        fs::write(directory.path().join("copy"), "x").unwrap();
        assert!(!same_file(&one, &directory.path().join("copy")));
        assert!(same_file(Path::new("missing"), Path::new("missing")));
    }

    #[test]
    fn two_names_of_a_file_are_one_target() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("one"), [0; 8192]).unwrap();
        fs::write(path("copy"), [0; 8192]).unwrap();
        fs::hard_link(path("one"), path("other")).unwrap();
        let target = |name: &str| Target::look_at(&path(name), true, true).unwrap();
        assert!(target("one").is_same(&target("other")));
        assert!(!target("one").is_same(&target("copy")));
    }

    #[test]
    fn a_refusal_helps_with_what_the_command_can_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letters");
        fs::write(&path, [b'x'; 8192]).unwrap();
        let target = [Target::look_at(path.to_str().unwrap(), false, true).unwrap()];
        let said = |otherwise| guard_all(&target, &[], &otherwise).unwrap_err().to_string();
        let (both, alone) = (said(reads_alone()), said(Wording::default()));
        assert!(both.contains("destroy /") && both.contains("'read-only'"), "{both}");
        assert!(alone.contains("destroy /") && !alone.contains("read-only"), "{alone}");
    }
}
