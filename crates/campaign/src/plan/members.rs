//! The members of a cell: who replays on other hosts, with which target and which load.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::{Cell, Plan, Seat, is_simulated};
use crate::file::{Device, Host, Parallel, Proof, Setting, TARGETS_MAX};
use crate::key::Identity;
use crate::place::{Place, Refused, Result};
use crate::template::filled;
use crate::value::{Origins, Value};

/// A replay on another host, beside those of the other members of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Member {
    /// The host.
    pub host: String,
    /// The target there.
    pub target: String,
    /// The load, as the campaign's machine has it.
    pub trace: String,
    /// Settings of its replay that are others than those of the cell, because its host has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
}

impl Cell {
    /// The value of a setting that the hosts of all members have.
    pub(super) fn of_all_members(&self, name: &str) -> Option<&Value> {
        let first = self.hosts.first()?.set.get(name)?;
        let have_it = self.hosts.iter().all(|member| member.set.get(name) == Some(first));
        have_it.then_some(first)
    }

    /// Whether two cells need the same host, so that one would disturb the other. Cells without
    /// hosts need this machine.
    pub fn shares_a_host(&self, other: &Self) -> bool {
        let is_there = |host: &str| other.in_hand().any(|it| it == host);
        (self.hosts.is_empty() && other.hosts.is_empty()) || self.in_hand().any(is_there)
    }
}

impl Plan {
    /// How many of these cells follow each other, if those that may go on at the same time do.
    pub fn turns<'c>(&self, cells: impl Iterator<Item = &'c Cell>) -> usize {
        self.span_of(cells.map(|cell| (cell, 1.0))).round() as usize
    }

    /// The time of these cells, each of which takes so many seconds, if those that may go on at the
    /// same time do.
    pub fn span_of<'c>(&self, cells: impl Iterator<Item = (&'c Cell, f64)>) -> f64 {
        if self.file.parallel == Parallel::One {
            return cells.map(|(_, seconds)| seconds).sum();
        }
        let mut until: HashMap<&str, f64> = HashMap::new();
        let (mut repeat, mut begun, mut last) = (0, 0.0, 0.0_f64);
        for (cell, seconds) in cells {
            // A repeat is finished before the next one begins.
            if cell.repeat != repeat {
                (repeat, begun) = (cell.repeat, last);
            }
            let hosts: Vec<&str> =
                if cell.hosts.is_empty() { vec![""] } else { cell.in_hand().collect() };
            let begins = hosts.iter().filter_map(|host| until.get(host)).copied();
            let ends = begins.fold(begun, f64::max) + seconds;
            until.extend(hosts.into_iter().map(|host| (host, ends)));
            last = last.max(ends);
        }
        last
    }

    /// The hosts of a device, each with its path there.
    pub(super) fn seats(
        &self,
        device: &Device,
        fill: &dyn Fn(&str) -> String,
    ) -> Result<Vec<Seat>> {
        let path = device.shown_path();
        self.check_names(&Value::One(path.to_owned()), &device.place, &[HOST], false)?;
        let seat = |host: &String| {
            let target = filled(&fill(path), &|name| (name == HOST).then(|| host.clone()));
            Seat { host: host.clone(), target }
        };
        Ok(device.hosts.iter().map(seat).collect())
    }

    /// Who replays on other hosts: those of the device, or of the `last` level of a stack that goes
    /// across hosts. Loads are dealt in turn.
    pub(super) fn members(
        &self,
        device: &Device,
        last: Option<&Vec<Seat>>,
        traces: &[String],
        most: Option<(String, &Place)>,
        fill: &dyn Fn(&str) -> String,
    ) -> Result<Vec<Member>> {
        let seats = last.cloned().map_or_else(|| self.seats(device, fill), Ok)?;
        let most = match most {
            None => seats.len(),
            Some((text, place)) if seats.is_empty() => {
                let reason = format!("{TARGETS_MAX} = {text} needs a device on several hosts");
                return Err(Refused::new(place, reason, "name its hosts: host = [\"n{1..10}\"]"));
            }
            Some((text, place)) => {
                let most = text.parse::<usize>().ok().filter(|most| *most > 0);
                most.ok_or_else(|| {
                    let reason = format!("'{text}' is no number of hosts");
                    Refused::new(place, reason, "write a whole number from 1 on")
                })?
            }
        };
        let member = |(number, seat): (usize, Seat)| {
            let Seat { host, target } = seat;
            let own =
                |text: &str| filled(&fill(text), &|name| (name == HOST).then(|| host.clone()));
            let trace = traces.get(number % traces.len().max(1)).map(|it| own(it));
            let trace = trace.unwrap_or_default();
            Member { host, target, trace, set: BTreeMap::new() }
        };
        Ok(seats.into_iter().take(most).enumerate().map(member).collect())
    }

    /// The members with the settings that their hosts have; `None` if a rule leaves out the cell
    /// because of them. `origins` and `cell` are without them.
    pub(super) fn with_settings(
        &self,
        mut members: Vec<Member>,
        origins: &Origins,
        cell: &Identity,
        point: &[(String, String)],
    ) -> Result<Option<Vec<Member>>> {
        for member in &mut members {
            let Some(host) = self.file.host(&member.host).filter(|it| !it.set.is_empty()) else {
                continue;
            };
            let Some(own) = self.origins_on(point, cell.repeat, Some(host)) else {
                return Ok(None);
            };
            // Conditions may ask for a host's settings, and may change anything.
            let of_cell = |(key, all): &(&String, &Vec<Setting>)| {
                let before = origins.get(*key).and_then(|all| all.last());
                self.known.flag(key).is_none() && before != all.last()
            };
            if let Some((key, all)) = own.iter().find(of_cell) {
                let place = all.last().map_or(&host.place, |setting| &setting.place);
                let reason = format!("{key} would be another on {} alone", host.name);
                let help = "ask for what all hosts of a device have in common";
                return Err(Refused::new(place, reason, help));
            }
            let typed = self.typed(&own, point, cell.repeat, Some(host), false)?.replay;
            let off = cell.replay.keys().filter(|key| !typed.contains_key(*key));
            let off = off.map(|key| (key.clone(), Value::Switch(false)));
            let others = typed.iter().filter(|(key, value)| cell.replay.get(*key) != Some(*value));
            let others = others.map(|(key, value)| (key.clone(), value.clone()));
            member.set = others.chain(off).collect();
        }
        Ok(Some(members))
    }
}

impl Host {
    /// What these names in braces stand for on it.
    pub(super) fn named(&self, name: &str) -> Option<String> {
        match name {
            HOST => Some(self.name.clone()),
            "" => Some(self.number.clone()),
            _ => None,
        }
    }
}

/// What the load of a cell is: that of each member, where they differ.
pub(super) fn requests(
    trace: &str,
    members: &[Member],
    load: &dyn Fn(&str) -> Result<String>,
) -> Result<String> {
    let loads: BTreeSet<&str> = members.iter().map(|member| member.trace.as_str()).collect();
    if loads.len() < 2 {
        return load(trace);
    }
    let all = members.iter().map(|member| load(&member.trace)).collect::<Result<Vec<_>>>()?;
    Ok(all.join(AND))
}

/// The name in braces that is a member's host.
pub(super) const HOST: &str = "host";

/// What stands between the identities of several members.
const AND: &str = " + ";

/// What a device on other hosts is. What it must have tells it from others wherever it is reached
/// from; without, it is what is at that path of that host. `below` are the hosts that it is on,
/// where others replay.
pub(super) fn there(device: &Device, below: Option<&Vec<Seat>>, members: &[Member]) -> String {
    let Proof { serial, wwn, uuid, backing } = &device.proof;
    let proofs = [serial, wwn, uuid, backing];
    let proof: Vec<&str> = proofs.into_iter().flatten().map(String::as_str).collect();
    let of_host = |host: &str, target: &str| {
        if is_simulated(target) {
            return target.to_owned();
        }
        if proof.is_empty() {
            return format!("there:{host}:{target}");
        }
        format!("there:{}", proof.join(","))
    };
    let Some(below) = below else {
        let all = members.iter().map(|member| of_host(&member.host, &member.target));
        return all.collect::<Vec<_>>().join(AND);
    };
    let all: Vec<String> = below.iter().map(|seat| of_host(&seat.host, &seat.target)).collect();
    // A load on one of its hosts is another than on ten.
    format!("{} by {}", all.join(AND), members.len())
}
