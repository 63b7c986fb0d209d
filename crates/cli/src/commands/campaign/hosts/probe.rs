//! What hosts say before anything runs: whether they can be reached and have the program, how
//! closely their clocks are known, and whether their devices are those that are meant.
//!
//! Nothing is sent, set up or written to there.

#![expect(clippy::result_large_err, reason = "a host is asked a few times")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use ioecho_campaign::attempt::End;
use ioecho_campaign::clock::Compared;
use ioecho_campaign::conversation::{Conversation, Outcome};
use ioecho_campaign::plan::Cell;
use ioecho_campaign::protocol::{FromAgent, ToAgent};
use ioecho_campaign::stack::levels;
use ioecho_trace::Nanos;
use serde::Serialize;

use super::attempt::there;
use super::link::{end_all, now_ns};
use super::party::{Party, Unreached};
use super::{ENDS_WITHIN, Hosts};
use crate::commands::campaign::plan::Made;
use crate::exit;

/// Whether a host can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It has the program, and answers.
    Ready,
    /// It can be reached, and the program is missing or another build: `run` sends it.
    NoProgram,
    /// A process of the campaign works there.
    Busy,
    /// It cannot be used.
    Unusable,
}

/// What a host says.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Probed {
    host: String,
    state: State,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Facts of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    facts: BTreeMap<String, String>,
    /// How its clock reads against the one here.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<Compared>,
    devices: Vec<DeviceProbed>,
}

/// What a host says of a device, and of a stack on it.
#[derive(Clone, Debug, Serialize)]
struct DeviceProbed {
    device: String,
    target: String,
    /// What setting up does.
    does: Vec<String>,
    /// The volumes whose data are lost.
    loses: Vec<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// Asks every host of a campaign.
pub(in super::super) fn probed(made: &Made, cells: &[Cell]) -> anyhow::Result<Vec<Probed>> {
    let file = &made.plan.file;
    let hosts = Hosts::new(file, &made.store, true, || false)?;
    let names = file.hosts.iter().map(|host| host.name.as_str());
    let mut party = hosts.party(names, String::new()).map_err(anyhow::Error::msg)?;
    let who = party.everybody();
    let failed: BTreeMap<usize, Unreached> = party.look(&who).into_iter().collect();
    let mut all = Vec::new();
    for host in who {
        let name = party.name(host).to_owned();
        let (state, why) = match failed.get(&host) {
            None => (State::Ready, None),
            Some(Unreached::NoProgram) => (State::NoProgram, None),
            Some(Unreached::Busy(why)) => (State::Busy, Some(why.clone())),
            Some(Unreached::For(why)) => (State::Unusable, Some(why.clone())),
        };
        let facts = party.all[host].facts.clone();
        let (clock, devices) = (None, Vec::new());
        let mut probed = Probed { host: name, state, why, facts, clock, devices };
        if state == State::Ready {
            probed.ask(&mut party, host, made, cells);
        }
        all.push(probed);
    }
    let leaving: Vec<_> = party.all.iter_mut().filter_map(|there| there.link.take()).collect();
    end_all(leaving, ENDS_WITHIN);
    Ok(all)
}

impl Probed {
    fn ask(&mut self, party: &mut Party<'_>, host: usize, made: &Made, cells: &[Cell]) {
        let talk = Conversation::comparing(1, now_ns(&party.clock));
        match party.converse(&[host], talk, true) {
            Outcome::Compared(all) => self.clock = all.first().copied(),
            Outcome::Trouble(_, trouble) => {
                let why = why(&party.end_of(Some(host), &trouble));
                (self.state, self.why) = (State::Unusable, Some(why));
                return;
            }
            Outcome::Answers(_) | Outcome::Replayed(_) => {}
        }
        let mut seen = BTreeSet::new();
        for cell in cells {
            let device = made.plan.file.device(&cell.device);
            let seats = cell.levels_of_hosts();
            let parts = levels(&cell.identity.stack).into_iter().zip(seats).enumerate();
            let own = parts.filter_map(|(level, (stack, seats))| {
                let seat = seats.into_iter().find(|seat| seat.host == self.host)?;
                Some((level, stack, seat.target))
            });
            for (level, stack, target) in own.collect::<Vec<_>>() {
                if !seen.insert((target.clone(), stack)) || party.all[host].link.is_none() {
                    continue;
                }
                if level > 0 {
                    let does = vec!["takes in what the hosts below hand over".to_owned()];
                    let (device, loses, fault) = (cell.device.clone(), Vec::new(), None);
                    self.devices.push(DeviceProbed { device, target, does, loses, fault });
                    continue;
                }
                let programs = stack.iter().flat_map(|placed| placed.programs.keys());
                let programs: Vec<&str> = programs.map(String::as_str).collect();
                let asked = if programs.is_empty() { stack } else { &[] };
                let mut check = |may_lose: bool| {
                    let device = there(device, &target, may_lose);
                    let check = ToAgent::Check { stack: asked.to_vec(), device };
                    party.answers(&[host], vec![check]).map(|mut answers| answers.pop())
                };
                // What is lost is to be told, although nothing allows it yet.
                let answer = check(false).or_else(|end| check(true).map_err(|_| end));
                let (mut does, mut loses, mut fault) = (Vec::new(), Vec::new(), None);
                match answer {
                    Ok(Some(FromAgent::Outlook { does: all, loses: lost, .. })) => {
                        (does, loses) = (all, lost);
                    }
                    Ok(_) => fault = Some("it gave no answer".to_owned()),
                    Err(end) => fault = Some(why(&end)),
                }
                if !programs.is_empty() {
                    let names = programs.join(", ");
                    does.push(format!("what the stack does is known when `run` sends {names}"));
                }
                let device = cell.device.clone();
                self.devices.push(DeviceProbed { device, target, does, loses, fault });
            }
        }
    }

    /// The exit code that it asks for.
    fn code(&self) -> u8 {
        match self.state {
            State::Unusable => exit::TARGET,
            State::Ready | State::NoProgram | State::Busy => {
                let is_wrong = self.devices.iter().any(|device| device.fault.is_some());
                if is_wrong { exit::REFUSED } else { exit::OK }
            }
        }
    }
}

/// The exit code of a probe: a device that is not the one that is meant tells most.
pub(in super::super) fn code(all: &[Probed]) -> u8 {
    all.iter().map(Probed::code).max().unwrap_or(exit::OK)
}

/// Prints what hosts said.
pub(in super::super) fn print(out: &mut impl Write, all: &[Probed], skew: Nanos) -> io::Result<()> {
    for Probed { host, state, why, facts, clock, devices } in all {
        let why = why.as_deref().unwrap_or_default();
        match state {
            State::Ready => {
                let kernel = facts.get("kernel").map_or("?", String::as_str);
                write!(out, "host          {host}: ready, kernel {kernel}")?;
                if let Some(clock) = clock {
                    let bound = Nanos(clock.offset.bound_ns());
                    let enough = if bound > skew { ", more than start.skew" } else { "" };
                    write!(out, ", its clock is known within {bound}{enough}")?;
                }
                writeln!(out)?;
            }
            State::NoProgram => {
                writeln!(out, "host          {host}: reached; `run` sends it the program")?;
            }
            State::Busy => writeln!(out, "host          {host}: busy: {why}")?,
            State::Unusable => writeln!(out, "host          {host}: cannot be used: {why}")?,
        }
        for DeviceProbed { device, target, does, loses, fault } in devices {
            match fault {
                None => writeln!(out, "    {device}: {target} can be used")?,
                Some(fault) => writeln!(out, "    {device}: {fault}")?,
            }
            for does in does {
                writeln!(out, "    {does}")?;
            }
            for loses in loses {
                writeln!(out, "    the data of {loses} are lost")?;
            }
        }
    }
    Ok(())
}

/// Why something came to no answer.
fn why(end: &End) -> String {
    match end {
        End::Fault(text) | End::Failed(text) => text.clone(),
        End::Stopped => "it was stopped".to_owned(),
        End::Measured(_) => "it gave a result that nobody asked for".to_owned(),
    }
}
