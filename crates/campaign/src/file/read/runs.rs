//! Runs that are listed one by one.

use super::{Reader, condition};
use crate::expression::Subjects;
use crate::file::{Axis, FLOW, NO_VALUE, RunOf, STEP};
use crate::place::{Refused, Result};
use crate::rate::Part;
use crate::stack::PREFIX;
use crate::template::names;
use crate::value::text_of;

/// The most listed runs.
const RUNS_MAX: usize = 10_000;

/// What goes on its own way from a value to the next, and not along a list.
const NOT_WITH: [&str; 7] = ["axes", "paths", "zip", "ladder", "search", "step", "rounds"];

/// The key that says when a run is skipped.
const UNLESS: &str = "unless";

impl Reader<'_, '_> {
    /// The runs of the file. Each gets a value of every axis that any of them names.
    pub(super) fn runs(&self) -> Result<Vec<RunOf>> {
        let mut runs: Vec<RunOf> = Vec::new();
        let mut names_of_axes: Vec<String> = Vec::new();
        for table in self.items("run")? {
            table.only("key of a run", &["at", "set", UNLESS])?;
            let value = table.needed("at")?;
            let place = table.place(value);
            let mut at = Vec::new();
            for (key, value) in self.table(value)?.entries {
                let name = key.get_ref().clone().into_owned();
                if name == STEP || name == "repeat" {
                    let reason = format!("'{name}' is the name of something else");
                    return Err(Refused::new(&place, reason, "give this value another name"));
                }
                let text = text_of(value.get_ref()).map_err(|found| {
                    table.wrong(value, &format!("a value cannot be {found}"), "write a text")
                })?;
                if !names_of_axes.contains(&name) {
                    names_of_axes.push(name.clone());
                }
                at.push((name, text));
            }
            let set = self.layer_at(&table, "set")?;
            if let Some(setting) = set.iter().find(|setting| setting.key.starts_with(PREFIX)) {
                let reason = "listed runs have one stack";
                return Err(Refused::new(&setting.place, reason, "set it in [[stack]]"));
            }
            runs.push(RunOf { at, place, set, base: None, unless: None });
        }
        if let (false, Some(key)) =
            (runs.is_empty(), NOT_WITH.iter().find(|key| self.top.get(key).is_some()))
        {
            let place = self.top.place(self.top.needed(key)?);
            let reason = format!("{key} and listed runs do not go together");
            return Err(Refused::new(&place, reason, "leave one of them out"));
        }
        if let Some(run) = runs.get(RUNS_MAX) {
            let reason = format!("there are more than {RUNS_MAX} runs");
            return Err(Refused::new(&run.place, reason, "make two campaigns"));
        }
        let mut seen = std::collections::HashSet::new();
        for (number, run) in runs.iter_mut().enumerate() {
            run.base = base(run, number)?;
            let value = |name: &String| {
                let found = run.at.iter().find(|(other, _)| other == name);
                found.map_or_else(|| NO_VALUE.to_owned(), |(_, value)| value.clone())
            };
            run.at = names_of_axes.iter().map(|name| (name.clone(), value(name))).collect();
            if !seen.insert(run.at.clone()) {
                let reason = "there is a run with these values already";
                return Err(Refused::new(&run.place, reason, "repeats = N measures it N times"));
            }
        }
        Ok(runs)
    }

    /// When runs are skipped. Conditions may ask for any axis, so the axes are known by now.
    pub(super) fn skipped(&self, runs: &mut [RunOf], subjects: &Subjects) -> Result<()> {
        for (table, run) in self.items("run")?.iter().zip(runs) {
            let Some(value) = table.get(UNLESS) else { continue };
            if run.base.is_none() {
                let reason = "this run has no part of another's rate, so none is before it";
                return Err(table.wrong(value, reason, "leave it out"));
            }
            run.unless = Some(condition(table, UNLESS, subjects)?);
        }
        Ok(())
    }
}

/// The run of whose rate the loads of a run have a part.
fn base(run: &RunOf, number: usize) -> Result<Option<usize>> {
    let mut found = None;
    for setting in run.set.iter().filter(|setting| setting.key == FLOW) {
        for text in setting.value.texts() {
            let named = names(text).unwrap_or_default();
            for part in named.into_iter().filter_map(Part::read) {
                let base = part.run - 1;
                if base >= number || found.is_some_and(|other| other != base) {
                    let reason = format!(
                        "the rate of run {} is not known when this run begins, or it has parts of \
                         two",
                        part.run
                    );
                    let help = "name one run that stands before it, by its number from 1";
                    return Err(Refused::new(&setting.place, reason, help));
                }
                found = Some(base);
            }
        }
    }
    Ok(found)
}

/// The axes of listed runs, with the values in the order in which they come.
pub(super) fn axes(runs: &[RunOf]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for run in runs {
        for (number, (name, value)) in run.at.iter().enumerate() {
            if axes.len() == number {
                let (name, place) = (name.clone(), run.place.clone());
                axes.push(Axis { name, values: Vec::new(), place });
            }
            if seen.insert((number, value.clone())) {
                axes[number].values.push((value.clone(), run.place.clone()));
            }
        }
    }
    axes
}
