//! The members of a cell: who replays on other hosts, with which target and which load.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Plan, is_simulated};
use crate::file::{Device, Proof, TARGETS_MAX};
use crate::place::{Place, Refused, Result};
use crate::stack::Placed;
use crate::template::filled;
use crate::value::Value;

/// A replay on another host, beside those of the other members of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// The host.
    pub host: String,
    /// The target there.
    pub target: String,
    /// The load, as the campaign's machine has it.
    pub trace: String,
}

impl Plan {
    /// Who replays on other hosts. Loads are dealt in turn.
    pub(super) fn members(
        &self,
        device: &Device,
        traces: &[String],
        most: Option<(String, &Place)>,
        fill: &dyn Fn(&str) -> String,
    ) -> Result<Vec<Member>> {
        let most = match most {
            None => device.hosts.len(),
            Some((text, place)) if device.hosts.is_empty() => {
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
        let path = device.shown_path();
        self.check_names(&Value::One(path.to_owned()), &device.place, &[HOST], false)?;
        let member = |(number, host): (usize, &String)| {
            let own =
                |text: &str| filled(&fill(text), &|name| (name == HOST).then(|| host.clone()));
            let trace = traces.get(number % traces.len().max(1)).map(|it| own(it));
            Member { host: host.clone(), target: own(path), trace: trace.unwrap_or_default() }
        };
        Ok(device.hosts.iter().take(most).enumerate().map(member).collect())
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
/// from; without, it is what is at that path of that host.
pub(super) fn there(device: &Device, members: &[Member]) -> String {
    let Proof { serial, wwn, uuid, backing } = &device.proof;
    let proofs = [serial, wwn, uuid, backing];
    let proof: Vec<&str> = proofs.into_iter().flatten().map(String::as_str).collect();
    let of_member = |member: &Member| {
        if is_simulated(&member.target) {
            return member.target.clone();
        }
        if proof.is_empty() {
            return format!("there:{}:{}", member.host, member.target);
        }
        format!("there:{}", proof.join(","))
    };
    members.iter().map(of_member).collect::<Vec<_>>().join(AND)
}

/// Refuses programs of the campaign's directory on other hosts, which have no such directory.
pub(super) fn check_there(stack: &[Placed], members: &[Member], place: &Place) -> Result<()> {
    let program = stack.iter().flat_map(|placed| placed.programs.keys()).next();
    match program.filter(|_| !members.is_empty()) {
        None => Ok(()),
        Some(program) => {
            let reason =
                format!("{program} is a program of this machine, and is not sent to hosts");
            Err(Refused::new(place, reason, "install it there, and name it without a path"))
        }
    }
}
