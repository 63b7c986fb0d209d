//! The keys of a campaign: the flags of `ioecho replay`, from their definitions.
//!
//! A list of our own would lack the flags of tomorrow. So the keys are read from clap's
//! definitions, and clap's parsers check the values before anything runs.

use std::collections::{BTreeMap, BTreeSet};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use ioecho_campaign::file::{Flag, Known};
use ioecho_campaign::plan::{Cell, Member, Plan};
use ioecho_campaign::value::Value;

use crate::args::{Args, like};
use crate::exit::{self, Coded};

/// The flag of the family of a replay. In a campaign it is a name in the directory of the results,
/// and all its replays are of one family.
pub(super) const FAMILY: &str = "family";

/// The keys that a replay knows.
pub(super) fn known() -> Known {
    let line = Args::line();
    let mut known = Known::default();
    let replay = line.find_subcommand("replay");
    for arg in replay.into_iter().flat_map(Command::get_arguments) {
        let Some(name) = arg.get_long() else { continue };
        if like::is_transform(arg) {
            known.transforms.push(name.to_owned());
        } else if name == FAMILY || !like::is_of_one_run(arg) && !like::is_target(arg) {
            known.flags.push(flag(name, arg));
        }
    }
    known
}

fn flag(name: &str, arg: &Arg) -> Flag {
    let takes_value = !matches!(arg.get_action(), ArgAction::SetTrue);
    let least = arg.get_num_args().map_or(1, |range| range.min_values());
    Flag {
        name: name.to_owned(),
        takes_value,
        may_lack: takes_value && least == 0,
        is_list: matches!(arg.get_action(), ArgAction::Append)
            || arg.get_value_delimiter().is_some(),
    }
}

/// The settings of a cell as they are typed.
pub(super) fn typed(cell: &Cell) -> Vec<String> {
    typed_with(cell, &BTreeMap::new())
}

/// The same on the host of a member.
pub(super) fn typed_on(cell: &Cell, member: &Member) -> Vec<String> {
    typed_with(cell, &member.set)
}

fn typed_with(cell: &Cell, set: &BTreeMap<String, Value>) -> Vec<String> {
    let of_cell = cell.identity.replay.iter().filter(|(key, _)| !set.contains_key(*key));
    let all: BTreeMap<&String, &Value> = of_cell.chain(set).collect();
    let replay = all.into_iter().flat_map(|(key, value)| words(key, value));
    let chain = cell.identity.chain.iter().map(|line| transform(line));
    replay.chain(chain).collect()
}

fn words(key: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Switch(false) => Vec::new(),
        Value::Switch(true) => vec![format!("--{key}")],
        Value::One(text) => vec![format!("--{key}={text}")],
        Value::Many(texts) => texts.iter().map(|text| format!("--{key}={text}")).collect(),
    }
}

fn transform(line: &str) -> String {
    match line.trim().split_once(char::is_whitespace) {
        Some((name, value)) => format!("--{name}={}", value.trim()),
        None => format!("--{}", line.trim()),
    }
}

/// Refuses a plan with a value that a replay would refuse.
pub(super) fn check(plan: &Plan, cells: &[Cell]) -> anyhow::Result<()> {
    let line = Args::line();
    let refusal = |words: &[String]| {
        let fixed = ["ioecho", "replay", "--target=sim"].map(str::to_owned);
        // What is typed last must not take a later word for its value.
        let has_flows = words.iter().any(|word| word.starts_with("--flow="));
        let trace = (!has_flows).then(|| "t".to_owned());
        let all = fixed.into_iter().chain(trace).chain(words.iter().cloned());
        line.clone().try_get_matches_from(all).err()
    };
    let place_of = |cell: &Cell, key: &str| {
        let origins = plan.origins(&cell.point, cell.repeat).unwrap_or_default();
        origins.get(key).and_then(|all| all.last()).map(|it| it.place.to_string())
    };
    let (mut seen, mut seen_together) = (BTreeSet::new(), BTreeSet::new());
    let mut seen_in_chain = BTreeSet::new();
    // A flag that needs another one is looked at together with it below.
    let is_wrong = |error: &clap::Error| error.kind() != ErrorKind::MissingRequiredArgument;
    for cell in cells.iter().flat_map(Cell::replays) {
        for (key, value) in &cell.identity.replay {
            if !seen.insert((key, value)) {
                continue;
            }
            let alone = refusal(&words(key, value));
            if let Some(error) = alone.filter(is_wrong) {
                return Err(told(place_of(cell, key), &error));
            }
        }
        for line in &cell.identity.chain {
            let alone = seen_in_chain.insert(line).then(|| refusal(&[transform(line)])).flatten();
            if let Some(error) = alone.filter(is_wrong) {
                return Err(told(place_of(cell, "chain"), &error));
            }
        }
        if let Some(place) = place_of(cell, FAMILY).filter(|_| !cell.hosts.is_empty()) {
            let text = format!(
                "{place}: the runs of a family are on one host\n  = help: leave out {FAMILY}, or \
                 the hosts"
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        for member in &cell.hosts {
            check_member(plan, cell, member, &refusal)?;
        }
        let keys: Vec<_> = cell.identity.replay.keys().collect();
        if seen_together.insert((keys, &cell.identity.chain))
            && let Some(error) = refusal(&typed(cell))
        {
            return Err(told(Some(cell.name()), &error));
        }
    }
    Ok(())
}

/// Refuses a value of a host that a replay would refuse.
fn check_member(
    plan: &Plan,
    cell: &Cell,
    member: &Member,
    refusal: &dyn Fn(&[String]) -> Option<clap::Error>,
) -> anyhow::Result<()> {
    if member.set.is_empty() {
        return Ok(());
    }
    let Some(error) = refusal(&typed_on(cell, member)) else { return Ok(()) };
    let place = plan.file.host(&member.host).map(|host| host.place.to_string());
    Err(told(place, &error))
}

/// clap's error, with the place of the value in front.
fn told(place: Option<String>, error: &clap::Error) -> anyhow::Error {
    let text = error.render().to_string();
    let text = text.trim_start_matches("error: ").split("\n\nUsage").next().unwrap_or_default();
    let text = text.split("\n\nFor more").next().unwrap_or_default().trim_end();
    let place = place.map_or(String::new(), |place| format!("{place}: "));
    Coded::error(exit::USAGE, format!("{place}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_the_flags_of_a_replay() {
        let known = known();
        for name in ["speedup", "timing", "in-flight-max", "verify", "start", "format"] {
            assert!(known.flag(name).is_some_and(|flag| flag.takes_value), "{name}");
        }
        assert!(known.flag("read-only").is_some_and(|flag| !flag.takes_value));
        assert!(known.flag("expert").is_some_and(|flag| flag.may_lack));
        assert!(known.flag(FAMILY).is_some());
        for name in ["output", "target", "quiet", "interval-json", "repeat"] {
            assert!(known.flag(name).is_none(), "{name}");
        }
        assert!(known.transforms.iter().any(|name| name == "repeat"));
    }

    #[test]
    fn a_line_of_a_chain_is_typed_as_a_flag() {
        assert_eq!(transform("repeat 3"), "--repeat=3");
        assert_eq!(transform("reverse"), "--reverse");
        assert_eq!(transform("filter op = read"), "--filter=op = read");
    }
}
