//! `ioecho campaign plan`: what a file asks for, what of it is done, and what its hosts say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use ioecho_campaign::executor::{Executor, State};
use ioecho_campaign::file::Host;
use ioecho_campaign::place::{Place, Refused};
use ioecho_campaign::plan::{Cell, Plan, Step, is_simulated};
use ioecho_campaign::setup::Foreseen;
use serde::Serialize;

use super::forecast::Forecast;
use super::ground::Here;
use super::hosts::probe::{self, Probed};
use super::machine::Machine;
use super::plan::{Made, of_file_on, stale};
use super::setting_up::foreseen;
use super::store::{Held, Store};
use crate::args::PlanCampaignArgs;
use crate::exit::{self, Coded};
use crate::print::{Out, tell};

/// The version of the JSON of a plan.
const JSON_VERSION: u32 = 1;

/// How many different stacks are shown.
const STACKS_SHOWN: usize = 20;

pub(super) fn run(args: &PlanCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let made = of_file_on(&args.of, Here::that_may_lack)?;
    if let Some(key) = &args.why {
        return why(&made.plan, key, args.json, out);
    }
    let probed = args.probe.then(|| probe::probed(&made, &made.plan.cells)).transpose()?;
    show_with(&made, probed.as_deref(), args.json, out)?;
    let lacks = made.here.lacks();
    for reason in &lacks {
        tell(&format!("missing: {reason}"));
    }
    let code = probed.as_deref().map_or(exit::OK, probe::code);
    Ok(if lacks.is_empty() { code } else { exit::TRACE })
}

/// Prints a plan, and what of it is done.
pub(super) fn show(made: &Made, json: bool, out: &mut Out) -> anyhow::Result<u8> {
    show_with(made, None, json, out)?;
    Ok(exit::OK)
}

/// The same, with what the hosts said.
fn show_with(
    made: &Made,
    probed: Option<&[Probed]>,
    json: bool,
    out: &mut Out,
) -> anyhow::Result<()> {
    let stored = Store::open(&made.store).ok();
    let held = stored.as_ref().map(Store::held).unwrap_or_default();
    let before = stored.map(|store| store.plan()).transpose()?;
    let stale = stale(&made.plan, before.as_ref(), &held);
    let executor = Executor::new(&made.plan, &made.here, held.attempts.clone(), 0.0);
    if json {
        let state = |cell: &Cell, state: &State| match (state, stale.get(&cell.key)) {
            (State::Done(..), _) => "done",
            (State::Failed(_), _) => "failed",
            (_, Some(_)) => "stale",
            _ => "missing",
        };
        let cells =
            executor.cells().iter().zip(executor.states()).map(|(cell, known)| CellPrinted {
                cell,
                state: state(cell, known),
                why: stale.get(&cell.key).map_or(&[][..], Vec::as_slice),
            });
        let cells: Vec<CellPrinted<'_>> = cells.collect();
        let stacks = stacks(made, &executor);
        let name = &made.plan.file.name;
        let left_out = made.plan.left_out;
        let steps = &made.plan.steps;
        let seconds = Forecast::new(&executor, &held.clocks).seconds(&executor);
        out.json(&Printed {
            version: JSON_VERSION,
            name,
            cells,
            steps,
            left_out,
            seconds,
            stacks,
            hosts: probed,
        })?;
    } else {
        print(out, made, &executor, &stale, &held)?;
        probe::print(out, probed.unwrap_or_default(), made.plan.file.start_skew)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Printed<'a> {
    version: u32,
    name: &'a str,
    cells: Vec<CellPrinted<'a>>,
    steps: &'a [Step],
    left_out: usize,
    /// How long the missing runs take at most, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// What sets devices up: each stack on each device once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<StackPrinted>,
    /// What the hosts said, if they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<&'a [Probed]>,
}

#[derive(Serialize)]
struct StackPrinted {
    device: String,
    /// What each module does and loses.
    modules: Vec<Foreseen>,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// What the stacks of a plan would do. Nothing is touched.
fn stacks(made: &Made, executor: &Executor<'_>) -> Vec<StackPrinted> {
    let base = made.here.base();
    let machine = Machine::to_look_at(base);
    let all = foreseen(&machine, executor.cells(), base, &[]);
    let printed = all.into_iter().map(|(device, of_cell)| match of_cell {
        Ok(modules) => StackPrinted { device, modules, fault: None },
        Err(fault) => StackPrinted { device, modules: Vec::new(), fault: Some(fault.to_string()) },
    });
    // The same device may have several targets, such as simulations that differ in their seeds.
    let mut seen = BTreeSet::new();
    printed.filter(|one| serde_json::to_string(one).map_or(true, |it| seen.insert(it))).collect()
}

fn print_stacks(out: &mut Out, made: &Made, executor: &Executor<'_>) -> io::Result<()> {
    let stacks = stacks(made, executor);
    for stack in stacks.iter().take(STACKS_SHOWN) {
        writeln!(out, "stack         on {}:", stack.device)?;
        for module in &stack.modules {
            for does in &module.outlook.does {
                writeln!(out, "    {}: {does}", module.name)?;
            }
            for (program, hash) in &module.programs {
                writeln!(out, "    {}: {program} is {hash}", module.name)?;
            }
            for loses in &module.outlook.loses {
                writeln!(out, "    {}: the data of {loses} are lost", module.name)?;
            }
        }
        if let Some(fault) = &stack.fault {
            writeln!(out, "    cannot be set up: {fault}")?;
        }
    }
    if stacks.len() > STACKS_SHOWN {
        writeln!(out, "stack         {} more (--json has all)", stacks.len() - STACKS_SHOWN)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct CellPrinted<'a> {
    #[serde(flatten)]
    cell: &'a Cell,
    state: &'static str,
    /// Why an earlier result no longer counts.
    why: &'a [String],
}

fn print(
    out: &mut Out,
    made: &Made,
    executor: &Executor<'_>,
    stale: &BTreeMap<String, Vec<String>>,
    held: &Held,
) -> io::Result<()> {
    let (plan, file) = (&made.plan, &made.plan.file);
    if let Some(search) = &file.search {
        writeln!(
            out,
            "campaign      {}: searches {} between {} and {}, within {} %; votes {}, branches {}",
            file.name,
            search.axis,
            search.between[0],
            search.between[1],
            search.precision * 100.0,
            search.votes,
            plan.branches.len()
        )?;
    } else {
        writeln!(out, "campaign      {}: {} cells", file.name, plan.cells.len())?;
    }
    for axis in &file.axes {
        let values: Vec<&str> = axis.values.iter().map(|(value, _)| value.as_str()).collect();
        writeln!(out, "axis          {}: {}", axis.name, values.join(", "))?;
    }
    if file.repeats > 1 {
        writeln!(out, "repeats       {}", file.repeats)?;
    }
    if let Some(ladder) = &file.ladder {
        writeln!(out, "ladder        {} until {}", ladder.axis, ladder.stop.text())?;
    }
    if plan.left_out > 0 {
        writeln!(out, "left out      {} cells, by a rule", plan.left_out)?;
    }
    for device in &file.devices {
        let path = device.shown_path();
        let loses = if is_simulated(path) {
            "a simulation"
        } else if device.path.is_none() {
            "made and removed again"
        } else {
            "real; it is written to only where --destroy names it"
        };
        let hosts = match &device.hosts[..] {
            [] => String::new(),
            [host] => format!(" on {host}"),
            [first, .., last] => {
                format!(" on {} hosts, {first} to {last}", device.hosts.len())
            }
        };
        writeln!(out, "device        {}: {}{hosts} ({loses})", device.name, path)?;
    }
    print_stacks(out, made, executor)?;
    let count = |is: fn(&State) -> bool| executor.states().iter().filter(|it| is(it)).count();
    let done = count(|state| matches!(state, State::Done(..)));
    let failed = count(|state| matches!(state, State::Failed(_)));
    let missing = count(|state| *state == State::Missing);
    writeln!(out, "state         {done} done, {failed} failed, {missing} missing")?;
    for (key, why) in stale.iter().take(10) {
        let cell = plan.cells.iter().find(|cell| cell.key == *key);
        let name = cell.map(Cell::name).unwrap_or_default();
        writeln!(out, "stale         {name}: {}", why.join(", "))?;
    }
    if stale.len() > 10 {
        writeln!(out, "stale         {} cells more", stale.len() - 10)?;
    }
    if !file.steps.is_empty() || file.rounds.is_some() {
        let replays = executor.cells().first().map_or(0, |cell| cell.replays().len());
        let until = match &file.rounds {
            Some(rounds) => {
                format!(", up to {} times until {} is steady", rounds.max, rounds.figure)
            }
            None => String::new(),
        };
        writeln!(out, "each cell     {replays} replays with nothing in between{until}")?;
    }
    writeln!(out, "time          {}", Forecast::new(executor, &held.clocks).told(executor))
}

/// Tells where the value of a key comes from.
fn why(plan: &Plan, key: &str, json: bool, out: &mut Out) -> anyhow::Result<u8> {
    if !plan.known().has(key) {
        let place = Place::outside("--why");
        let refused = Refused::unknown(&place, "key", key, plan.known().keys());
        return Err(Coded::error(exit::USAGE, refused.to_string()));
    }
    // Values with their places, the deciding one last; and how many cells have them.
    let mut found: Vec<(Vec<(String, String)>, usize)> = Vec::new();
    let hosts = |cell: &Cell| -> Vec<Option<&Host>> {
        let hosts = cell.hosts.iter().map(|member| plan.file.host(&member.host));
        if cell.hosts.is_empty() { vec![None] } else { hosts.collect() }
    };
    let points = plan.cells.iter().map(|cell| (cell.point.clone(), cell.repeat, hosts(cell)));
    let searched = plan.branches.iter().map(|point| (point.clone(), 1, vec![None]));
    let all: Vec<_> =
        if plan.file.search.is_some() { searched.collect() } else { points.collect() };
    for (point, repeat, hosts) in all {
        let on = |host: Option<&Host>| {
            let origins = plan.origins_on(&point, repeat, host).unwrap_or_default();
            let given = origins.get(key).into_iter().flatten();
            given.map(|it| (it.value.shown(), it.place.to_string())).collect::<Vec<_>>()
        };
        // Hosts may have settings of their own.
        let all: BTreeSet<Vec<(String, String)>> = hosts.into_iter().map(on).collect();
        for given in all {
            match found.iter_mut().find(|(other, _)| *other == given) {
                Some((_, count)) => *count += 1,
                None => found.push((given, 1)),
            }
        }
    }
    if json {
        let rows = found.iter().map(|(given, cells)| Why { cells: *cells, given });
        out.json(&rows.collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }
    for (given, cells) in found {
        let Some(((value, place), before)) = given.split_last() else {
            writeln!(out, "{cells} cells: the default of `ioecho replay`")?;
            continue;
        };
        writeln!(out, "{cells} cells: {key} = {value} ({place})")?;
        for (value, place) in before.iter().rev() {
            writeln!(out, "    it overrules {value} ({place})")?;
        }
    }
    Ok(exit::OK)
}

#[derive(Serialize)]
struct Why<'a> {
    cells: usize,
    /// Value and place, the deciding one last.
    given: &'a [(String, String)],
}
