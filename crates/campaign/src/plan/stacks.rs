//! The stacks of cells: modules with everything filled in, and what goes across hosts.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Cell, Ground, Member, Plan};
use crate::file::{Device, FROM_STACK, OnLoss};
use crate::modules::Over;
use crate::place::{Place, Refused, Result};
use crate::stack::{PREFIX, Placed, levels};
use crate::value::Origins;

/// A host of a level of a stack that goes across hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Seat {
    /// The host.
    pub host: String,
    /// What its part of the stack stands on: the device, or what the level below hands over.
    pub target: String,
}

impl Cell {
    /// The hosts of each level of its stack, from the lowest on. Those of the last replay.
    pub fn levels_of_hosts(&self) -> Vec<Vec<Seat>> {
        if !self.levels.is_empty() {
            return self.levels.clone();
        }
        let seat = |it: &Member| Seat { host: it.host.clone(), target: it.target.clone() };
        vec![self.hosts.iter().map(seat).collect()]
    }

    /// All hosts that an attempt at it has in hand, those that replay first.
    pub fn in_hand(&self) -> impl Iterator<Item = &str> {
        let members = self.hosts.iter().map(|member| member.host.as_str());
        members.chain(self.also.iter().map(String::as_str))
    }
}

impl Plan {
    /// The modules of a cell, with everything filled in.
    pub(super) fn stack(
        &self,
        origins: &Origins,
        point: &[(String, String)],
        repeat: u32,
        device: &str,
        ground: &dyn Ground,
    ) -> Result<Vec<Placed>> {
        let axes = self.file.axis_names();
        let known: Vec<&str> = axes.into_iter().chain(["repeat", "device"]).collect();
        let fill = |name: &str| match name {
            "repeat" => Some(repeat.to_string()),
            "device" => Some(device.to_owned()),
            name => point.iter().find(|(axis, _)| axis == name).map(|(_, value)| value.clone()),
        };
        let mut stack = Vec::new();
        for entry in &self.file.stack {
            let Some(mut placed) = entry.placed(origins, &fill, &known)? else { continue };
            let programs = placed.read("").map(|module| module.programs()).unwrap_or_default();
            let hashed = |name: String| ground.program(&name).map(|hash| (name, hash));
            placed.programs = programs.into_iter().filter_map(hashed).collect();
            stack.push(placed);
        }
        Ok(stack)
    }

    /// Refuses settings of modules that are not possible.
    ///
    /// # Errors
    ///
    /// The first one, with its place.
    pub fn check_stacks(&self, cells: &[Cell]) -> Result<()> {
        let mut seen = BTreeSet::new();
        for cell in cells {
            for placed in &cell.identity.stack {
                if !seen.insert(placed) {
                    continue;
                }
                let Err(wrong) = placed.read("") else { continue };
                let key = format!("{PREFIX}{}.{}", placed.name, wrong.key);
                let origins = self.origins(&cell.point, cell.repeat).unwrap_or_default();
                let given = origins.get(&key).and_then(|all| all.last()).map(|it| &it.place);
                let entry = self.known.entry(&placed.name).map(|entry| &entry.place);
                let place = given.or(entry).unwrap_or(&self.file.place);
                return Err(Refused::new(place, wrong.reason, wrong.help));
            }
        }
        Ok(())
    }

    /// The hosts of each level of a stack, from the lowest on; none if each host of the device is
    /// set up by itself. `bottom` are those of the device.
    pub(super) fn levels(
        &self,
        device: &Device,
        stack: &[Placed],
        bottom: Vec<Seat>,
    ) -> Result<Vec<Vec<Seat>>> {
        let parts = levels(stack);
        if parts.len() < 2 {
            return Ok(Vec::new());
        }
        let mut all = vec![bottom];
        for (below, part) in parts.iter().zip(&parts[1..]) {
            let Some(first) = part.first() else { continue };
            let place = self.place_of(&first.name);
            let refuse = |reason: String, help: &str| Err(Refused::new(place, reason, help));
            if device.hosts.is_empty() {
                let reason = format!(
                    "{} is done on other hosts, and '{}' has none",
                    first.name, device.name
                );
                let help = "write host = \"NAME\" for the device; [hosts] NAME = {launch = []} is \
                            an agent on this machine";
                return refuse(reason, help);
            }
            if let Some(host) =
                first.hosts.iter().find(|host| all.iter().flatten().any(|it| it.host == **host))
            {
                let reason = format!("{host} has a part of the stack below {} already", first.name);
                return refuse(reason, "an entry without hosts is done where the one below is");
            }
            let Some(top) = below.last() else {
                let reason = format!("nothing hands {} over to other hosts", device.name);
                return refuse(reason, OVER);
            };
            self.hands_over(top, first)?;
            let seat = |host: &String| Seat { host: host.clone(), target: FROM_STACK.to_owned() };
            all.push(first.hosts.iter().map(seat).collect());
        }
        if self.file.on_loss == OnLoss::Finish {
            let reason = "hosts that hand over cannot know when the replays of others have ended";
            let help = "leave out on-controller-loss = \"finish\"";
            return Err(Refused::new(&self.file.place, reason, help));
        }
        Ok(all)
    }

    /// Refuses a module whose volumes the first one of the next level does not get.
    fn hands_over(&self, top: &Placed, first: &Placed) -> Result<()> {
        // A setting that is not possible is told elsewhere.
        let Ok(module) = top.read("") else { return Ok(()) };
        match module.hands_over() {
            Ok(Over::Paths) => Ok(()),
            Ok(Over::To(initiator)) if first.module == initiator => Ok(()),
            Ok(Over::To(initiator)) => {
                let reason = format!("{} takes in nothing of {}", first.name, top.name);
                let help = format!("put {initiator} in front, with these hosts");
                Err(Refused::new(self.place_of(&first.name), reason, help))
            }
            Ok(Over::Nowhere) => {
                let reason = format!("other hosts do not see the volumes of {}", top.name);
                Err(Refused::new(self.place_of(&first.name), reason, OVER))
            }
            Err(wrong) => {
                let place = self.place_of(&top.name);
                Err(Refused::new(place, format!("{}: {}", top.name, wrong.reason), wrong.help))
            }
        }
    }

    fn place_of(&self, entry: &str) -> &Place {
        self.known.entry(entry).map_or(&self.file.place, |entry| &entry.place)
    }

    /// The hosts that a cell has in hand beside its members: what stands on any host of the stack
    /// may stand on what this cell changes.
    pub(super) fn also(&self, members: &[Member], levels: &[Vec<Seat>]) -> Vec<String> {
        let mut also: Vec<String> = Vec::new();
        let of_levels = levels.iter().flatten().map(|seat| &seat.host);
        let of_entries = self.file.stack.iter().flat_map(|entry| &entry.hosts);
        for host in of_levels.chain(of_entries) {
            if !also.contains(host) && members.iter().all(|member| member.host != *host) {
                also.push(host.clone());
            }
        }
        also
    }
}

/// What makes volumes reach other hosts.
const OVER: &str = "put iscsi-target, nvme-target with transport = \"tcp\", or a program below it";
