//! Steps, rounds and the kept baseline of a file.

use toml::de::DeValue;

use super::{Reader, condition};
use crate::attempt::figure_name;
use crate::expression::Subjects;
use crate::file::{Baseline, Expectation, File, RoundsOf, StepOf};
use crate::key::Repeated;
use crate::place::{Refused, Result};
use crate::stack::PREFIX;
use crate::value::text_of;

/// The most rounds of a cell, as SNIA's test has them.
const ROUNDS_MAX: u32 = 25;

impl Reader<'_, '_> {
    pub(super) fn steps(&self) -> Result<Vec<StepOf>> {
        let mut steps: Vec<StepOf> = Vec::new();
        for table in self.items("step")? {
            table.only("key of a step", &["name", "set"])?;
            let value = table.needed("name")?;
            let name = table.text_at(value)?;
            if steps.iter().any(|step| step.name == name) || name.is_empty() {
                let reason = format!("a step has the name '{name}' already, or it is empty");
                return Err(table.wrong(value, &reason, "give each step a name of its own"));
            }
            let set = self.layer_at(&table, "set")?;
            if let Some(device) = set.iter().find(|setting| setting.key == "device") {
                let reason = "the steps of a cell run on one device";
                let help = "make an axis of the device";
                return Err(Refused::new(&device.place, reason, help));
            }
            if let Some(setting) = set.iter().find(|setting| setting.key.starts_with(PREFIX)) {
                let reason = "the steps of a cell have one stack, with nothing in between";
                return Err(Refused::new(&setting.place, reason, "set it for the whole cell"));
            }
            steps.push(StepOf { name, place: table.place(value), set });
        }
        Ok(steps)
    }

    pub(super) fn rounds(&self, file: &File) -> Result<Option<RoundsOf>> {
        let Some(value) = self.top.get("rounds") else { return Ok(None) };
        let table = self.table(value)?;
        table.only("key of rounds", &["axes", "max", "steady"])?;
        let few = |text: &str| {
            let max = text.parse::<u32>().ok();
            max.filter(|max| (ioecho_stats::steady::WINDOW as u32..=ROUNDS_MAX).contains(max))
        };
        let max = table.parsed("max", few, "write 5 to 25")?.unwrap_or(ROUNDS_MAX);
        let axes = match table.get("axes") {
            Some(axes) => self.axes_in(self.table(axes)?)?,
            None => Vec::new(),
        };
        if let Some(axis) = axes.iter().find(|axis| file.axis(&axis.name).is_some()) {
            let reason = format!("{} is an axis of the cells already", axis.name);
            return Err(Refused::new(&axis.place, reason, "leave it out in one place"));
        }
        let steady = table.needed("steady")?;
        let steady = self.table(steady)?;
        steady.only("key of steady", &["figure", "at"])?;
        let figure = steady.needed("figure")?;
        let typed = steady.text_at(figure)?;
        let Some((full, _)) = figure_name(&typed) else {
            let reason = format!("'{typed}' is no figure");
            return Err(steady.wrong(figure, &reason, "write one such as iops or p99.read"));
        };
        let mut at = Vec::new();
        if let Some(value) = steady.get("at") {
            for (key, value) in self.table(value)?.entries {
                let text = text_of(value.get_ref()).unwrap_or_default();
                at.push((key.get_ref().clone().into_owned(), text));
            }
        }
        let mut rounds = RoundsOf { axes, max, figure: full, at, part: 0 };
        let combinations = file.combinations(Some(&rounds));
        let fits = |point: &Vec<(String, String)>| rounds.at.iter().all(|at| point.contains(at));
        let found: Vec<usize> =
            (0..combinations.len()).filter(|at| fits(&combinations[*at])).collect();
        let [part] = found[..] else {
            let reason = format!(
                "'at' names {} of the {} replays of a round",
                found.len(),
                combinations.len().max(1)
            );
            let help = "name a value of each axis of the rounds, and the step if there are several";
            return Err(steady.wrong(steady.get("at").unwrap_or(figure), &reason, help));
        };
        rounds.part = part;
        Ok(Some(rounds))
    }

    pub(super) fn baseline(&self) -> Result<Option<Baseline>> {
        let Some(value) = self.top.get("baseline") else { return Ok(None) };
        let table = self.table(value)?;
        table.only("key of a baseline", &["campaign", "fail-if"])?;
        let campaign = table.needed("campaign")?;
        let place = table.place(campaign);
        let campaign = table.text_at(campaign)?;
        let fail_if = table.get("fail-if").map(|value| table.texts_at(value)).transpose()?;
        Ok(Some(Baseline { campaign, place, fail_if: fail_if.unwrap_or_default() }))
    }

    pub(super) fn expectations(&self, subjects: &Subjects) -> Result<Vec<Expectation>> {
        let mut expectations = Vec::new();
        for table in self.items("expect")? {
            table.only("key of an expectation", &["that", "abort", "of"])?;
            let that = condition(&table, "that", subjects)?;
            let of = |text: &str| match text {
                "run" => Some(false),
                "point" => Some(true),
                _ => None,
            };
            let of_point = table.parsed("of", of, "write run or point")?.unwrap_or(false);
            let abort = table.switch("abort")?;
            let value = table.needed("that")?;
            if of_point && !that.asks_for_figures_alone() {
                let reason = "a finding, the validity and checks are of a run, not of a point";
                return Err(table.wrong(value, reason, "ask for figures, or leave out 'of'"));
            }
            if of_point && abort {
                let reason = "a point is known at the end, when there is nothing to abort";
                return Err(table.wrong(value, reason, "leave out abort"));
            }
            expectations.push(Expectation { that, abort, of_point });
        }
        Ok(expectations)
    }

    /// The time at which a campaign ends; its clock is the user's, so the text is kept.
    pub(super) fn deadline(&self) -> Result<Option<(String, crate::place::Place)>> {
        let Some(value) = self.top.get("deadline") else { return Ok(None) };
        let text = match value.get_ref() {
            DeValue::Datetime(time) => time.to_string(),
            _ => self.top.text_at(value)?,
        };
        Ok(Some((text, self.top.place(value))))
    }
}

impl RoundsOf {
    /// What of the rounds decides a result.
    pub(crate) fn repeated(&self) -> Repeated {
        Repeated { max: self.max, figure: self.figure.clone(), part: self.part }
    }
}
