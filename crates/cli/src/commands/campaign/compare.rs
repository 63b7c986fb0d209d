//! `ioecho campaign compare`: the values of an axis, by the comparison of `ioecho compare`.

use ioecho_campaign::executor::Executor;
use ioecho_campaign::file::STEP;
use ioecho_campaign::place::{Place, Refused};
use ioecho_campaign::rows::rows;

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
    let (rows, mut group) = (rows(&executor), Vec::<String>::new());
    let mut values: Vec<&String> = Vec::new();
    for row in &rows {
        let its = row.cell.point.iter().find(|(name, _)| *name == args.by);
        values.extend(its.map(|(_, value)| value).filter(|value| !values.contains(value)));
    }
    for value in values {
        let mut runs: Vec<String> = Vec::new();
        for row in &rows {
            let Some(run) = row.run() else { continue };
            let fits = row.cell.point.iter().all(|(name, its)| {
                if *name == args.by {
                    its == value
                } else {
                    at.contains(&(name.clone(), its.clone()))
                }
            });
            if fits {
                runs.push(store.path().join(run).display().to_string());
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
        verbose: true,
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
    // Steps and the axes of rounds are axes here.
    let mut axes: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in file.axis_names() {
        let of_axis = file.axis(name).into_iter().flat_map(|axis| &axis.values);
        let mut values: Vec<&str> = of_axis.map(|(value, _)| value.as_str()).collect();
        if name == STEP {
            values = file.steps.iter().map(|step| step.name.as_str()).collect();
        }
        axes.push((name, values));
    }
    let names = || axes.iter().map(|(name, _)| *name);
    let values = |name: &str| axes.iter().find(|(other, _)| *other == name).map(|(_, it)| it);
    let unknown = |flag: &str, name: &str| {
        let refused = Refused::unknown(&Place::outside(flag), "axis", name, names());
        Coded::error(exit::USAGE, refused.to_string())
    };
    if values(&args.by).is_none() {
        return Err(unknown("--by", &args.by));
    }
    let mut at = Vec::new();
    for text in &args.at {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Coded::error(exit::USAGE, format!("--at {text}: write AXIS=VALUE")));
        };
        let Some(known) = values(name) else { return Err(unknown("--at", name)) };
        if !known.contains(&value) {
            let known = known.iter().copied();
            let refused = Refused::unknown(&Place::outside("--at"), "value", value, known);
            return Err(Coded::error(exit::USAGE, refused.to_string()));
        }
        at.push((name.to_owned(), value.to_owned()));
    }
    for (axis, values) in axes.iter().filter(|(axis, _)| *axis != args.by) {
        if at.iter().any(|(name, _)| name == axis) {
            continue;
        }
        match &values[..] {
            [only] => at.push(((*axis).to_owned(), (*only).to_owned())),
            several => {
                let first = several.first().copied().unwrap_or_default();
                let text = format!(
                    "the axis {axis} has {} values, and runs of different ones are not alike\n  = \
                     help: choose one, such as --at {axis}={first}",
                    several.len(),
                );
                return Err(Coded::error(exit::USAGE, text));
            }
        }
    }
    Ok(at)
}
