//! Workloads that are described: what is to be run, on what, in which order.
//!
//! Half of those who measure storage do not replay, they describe. The language that most of them
//! share is that of Vdbench's parameter files; the same can be said in a form of our own, with the
//! words of the generators. Both become one model, and the model becomes a plan of runs, each of
//! which is a set of generated loads.
//!
//! The way of a description: `gather` (files, includes, variables) → `tokens` → `definitions`
//! (which `toml` makes of our own form) → `typed` and `runs` ([`model`]) → [`plan`], where `flow`
//! writes the lines of generators. `able` says what cannot be run yet. `keys` is the list of all
//! keywords; what is wrong is gathered by `fault` and told at once.
//!
//! Behaviour of Vdbench: facts from its user guide 5.04.07 and from experiments with that version.

mod able;
mod changes;
mod definitions;
mod fault;
pub mod files;
mod flow;
mod gather;
mod keys;
pub mod levels;
pub mod model;
mod on_trees;
pub mod plan;
mod runs;
#[cfg(test)]
mod tests;
mod tokens;
mod toml;
mod typed;
mod values;
mod verified;

use std::sync::Arc;

use self::definitions::{Definition, definitions};
use self::model::{Told, Workload};
use self::plan::{Plan, SizeOf};

pub use self::fault::{Fault, FaultKind, Faults};
pub use self::gather::{Input, Open, Reading};
pub use self::verified::Recover;

/// How much of a file is looked at to recognise it.
const LOOKED_AT: usize = 64 << 10;

/// The forms of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A parameter file of Vdbench.
    Vdbench,
    /// Our own.
    Toml,
}

/// A description that was read.
#[derive(Clone, Debug)]
pub struct Description {
    /// What it means.
    pub workload: Workload,
    definitions: Vec<Definition>,
    /// Each file with its lines.
    files: Vec<(Arc<str>, Vec<String>)>,
}

impl Description {
    /// The description in our own form.
    pub fn to_toml(&self) -> String {
        toml::written(&self.definitions)
    }

    /// What is told when the runs of its plan are done. `is_local` says that this host does what
    /// the other hosts of the file would do.
    ///
    /// # Errors
    ///
    /// Everything that cannot be run yet, at its place.
    pub fn check_runs(
        &self,
        plan: &Plan<'_>,
        size_of: SizeOf<'_>,
        is_local: bool,
    ) -> Result<Vec<Told>, Faults> {
        able::check(self, plan, size_of, is_local)
    }

    /// What is told of the loads on trees in its plan: settings that change nothing.
    pub fn idle(&self, plan: &Plan<'_>) -> Vec<Told> {
        let mut told = Vec::new();
        on_trees::tell_idle(self, plan, &mut told);
        told
    }

    /// Faults of its plan, with the lines that they stand in.
    #[must_use]
    pub fn with_lines(&self, faults: Faults) -> Faults {
        faults.with_lines(&self.files)
    }
}

/// The form of a file with these first bytes, if they describe a workload.
pub fn recognised(bytes: &[u8]) -> Option<Form> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LOOKED_AT)]);
    if text.contains('\0') {
        return None;
    }
    if toml::is_like(&text) {
        return Some(Form::Toml);
    }
    gather::is_like(&text).then_some(Form::Vdbench)
}

/// Reads a description: one file, or several of Vdbench's one behind the other. A file that is not
/// of our own form is taken for one of Vdbench's.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn read(
    inputs: &[Input],
    reading: &Reading,
    open: Open<'_>,
) -> Result<Description, Box<Faults>> {
    let mut faults = Faults::default();
    let mut told = Vec::new();
    let is_toml = |input: &Input| recognised(&input.bytes) == Some(Form::Toml);
    let (definitions, files) = match inputs {
        [input] if is_toml(input) => {
            let text = String::from_utf8_lossy(&input.bytes).into_owned();
            let definitions = toml::definitions(&input.name, &text, reading, &mut faults);
            let lines = text.lines().map(str::to_owned).collect();
            (definitions, vec![(Arc::from(input.name.as_str()), lines)])
        }
        inputs => {
            let gathered = gather::gather(inputs, reading, open, &mut faults);
            told = gathered.told;
            let tokens = tokens::tokens(&gathered.lines, &mut faults);
            (definitions(tokens, &mut told, &mut faults), gathered.files)
        }
    };
    let mut workload = typed::read(&definitions, &mut faults);
    runs::read(&definitions, &mut workload, &mut faults);
    if !faults.is_empty() {
        return Err(Box::new(faults.with_lines(&files)));
    }
    told.append(&mut workload.told);
    workload.told = told;
    Ok(Description { workload, definitions, files })
}
