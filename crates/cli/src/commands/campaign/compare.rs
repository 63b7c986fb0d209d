//! `ioecho campaign compare`: the values of an axis, by the comparison of `ioecho compare`.

use ioecho_campaign::executor::{Executor, State};
use ioecho_campaign::place::{Place, Refused};

use super::child::RUN;
use super::doing::kept;
use super::status::settle;
use super::store::Store;
use crate::args::{CompareArgs, CompareCampaignArgs};
use crate::commands::compare;
use crate::exit::{self, Coded};
use crate::print::Out;

pub(super) fn run(args: &CompareCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    let (made, _) = kept(&store)?;
    let mut executor = Executor::new(&made.plan, &made.here, store.held().attempts, 0.0);
    settle(&mut executor)?;
    let at = fixed(args, &executor)?;
    let mut group: Vec<String> = Vec::new();
    let axis = made.plan.file.axis(&args.by);
    for (value, _) in axis.map_or(&[][..], |axis| &axis.values) {
        let mut runs: Vec<String> = Vec::new();
        for (cell, state) in executor.cells().iter().zip(executor.states()) {
            let State::Done(attempt, _) = state else { continue };
            let fits = cell.point.iter().all(|(name, its)| {
                if *name == args.by {
                    its == value
                } else {
                    at.contains(&(name.clone(), its.clone()))
                }
            });
            if fits {
                let run =
                    store.path().join("cells").join(&cell.key).join(attempt.to_string()).join(RUN);
                runs.push(run.display().to_string());
            }
        }
        if !runs.is_empty() {
            group.push(format!("{value}={}", runs.join(",")));
        }
    }
    if group.len() < 2 {
        let text = format!(
            "fewer than two values of {} have results there\n  = help: `ioecho campaign status` \
             tells what is done",
            args.by
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    let compared = CompareArgs {
        runs: Vec::new(),
        group,
        fail_if: args.fail_if.clone(),
        fail_on_doubt: false,
        allow: Vec::new(),
        least: 1.0,
        resamples: 1000,
        seed: 1,
        json: args.json,
        output: args.output.clone(),
    };
    compare::run(&compared, out)
}

/// The values of the other axes: those that were typed, and the only value of an axis that has one.
fn fixed(
    args: &CompareCampaignArgs,
    executor: &Executor<'_>,
) -> anyhow::Result<Vec<(String, String)>> {
    let file = &executor.plan().file;
    let names = || file.axes.iter().map(|axis| axis.name.as_str());
    let unknown = |flag: &str, name: &str| {
        let refused = Refused::unknown(&Place::outside(flag), "axis", name, names());
        Coded::error(exit::USAGE, refused.to_string())
    };
    if file.axis(&args.by).is_none() {
        return Err(unknown("--by", &args.by));
    }
    let mut at = Vec::new();
    for text in &args.at {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Coded::error(exit::USAGE, format!("--at {text}: write AXIS=VALUE")));
        };
        let Some(axis) = file.axis(name) else { return Err(unknown("--at", name)) };
        if !axis.values.iter().any(|(known, _)| known == value) {
            let known = axis.values.iter().map(|(value, _)| value.as_str());
            let refused = Refused::unknown(&Place::outside("--at"), "value", value, known);
            return Err(Coded::error(exit::USAGE, refused.to_string()));
        }
        at.push((name.to_owned(), value.to_owned()));
    }
    for axis in file.axes.iter().filter(|axis| axis.name != args.by) {
        if at.iter().any(|(name, _)| *name == axis.name) {
            continue;
        }
        match &axis.values[..] {
            [(only, _)] => at.push((axis.name.clone(), only.clone())),
            several => {
                let first = several.first().map_or("", |(value, _)| value.as_str());
                let text = format!(
                    "the axis {} has {} values, and runs of different ones are not alike\n  = \
                     help: choose one, such as --at {}={first}",
                    axis.name,
                    several.len(),
                    axis.name
                );
                return Err(Coded::error(exit::USAGE, text));
            }
        }
    }
    Ok(at)
}
