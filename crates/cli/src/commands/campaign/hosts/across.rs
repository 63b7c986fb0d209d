//! Hosts are set up for a cell, those that others build on first, and taken down in the reverse
//! order. What is done when is decided by `ioecho_campaign::across`.

#![expect(clippy::result_large_err, reason = "a cell is set up once")]

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::across::{self, Down, Raising, Step, Then, Up, Wanted, downward, then};
use ioecho_campaign::attempt::End;
use ioecho_campaign::file::{File, Proof};
use ioecho_campaign::ground::Volume;
use ioecho_campaign::plan::Cell;
use ioecho_campaign::protocol::{DeviceThere, FromAgent, LEFT_AFTER_S, ToAgent};
use ioecho_campaign::stack::{Placed, levels};

use super::Hosts;
use super::attempt::{Or, Program, Task, there};
use super::party::Party;
use crate::print::tell;

/// How long an agent without its campaign may take to take down what it has set up: it notices that
/// it is alone, stops, and undoes.
const ALONE_WITHIN: Duration = Duration::from_secs(2 * LEFT_AFTER_S);

/// How long it is waited before a host is tried again.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// A level of a stack: what is done on its hosts, and what on each.
type Level = (Vec<Placed>, Vec<Wanted>);

impl Party<'_> {
    /// The numbers of the hosts that replay for a cell.
    pub(super) fn replaying(cell: &Cell) -> Vec<usize> {
        (0..cell.hosts.len()).collect()
    }

    /// Those on which others build.
    pub(super) fn below(&self, cell: &Cell) -> Vec<usize> {
        let (_, below) = cell.levels.split_last().unwrap_or((&Vec::new(), &[]));
        below.iter().flatten().filter_map(|seat| self.number(&seat.host)).collect()
    }

    /// Those that a cell cannot do without: they take part, or something stands there.
    pub(super) fn needed(&self, cell: &Cell) -> Vec<usize> {
        let mut needed = Self::replaying(cell);
        needed.extend(self.below(cell));
        let stands = |host: &usize| self.all[*host].up != Up::Nothing && !needed.contains(host);
        let more: Vec<usize> = self.everybody().into_iter().filter(stands).collect();
        needed.extend(more);
        needed
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|there| there.host.name == name)
    }

    /// The levels of a cell's stack on its hosts.
    fn levels(&self, file: &File, cell: &Cell, may_lose: bool) -> Vec<Level> {
        let device = file.device(&cell.device);
        let parts = levels(&cell.identity.stack);
        let seats = cell.levels_of_hosts();
        let last = seats.len().saturating_sub(1);
        let level = |(number, (part, seats)): (usize, (&&[Placed], &Vec<_>))| -> Level {
            let wanted = |seat: &ioecho_campaign::plan::Seat| {
                let of_device = there(device, &seat.target, may_lose);
                let device = match number {
                    0 => of_device,
                    _ => DeviceThere { path: None, proof: Proof::default(), ..of_device },
                };
                let takes_part =
                    number < last || cell.hosts.iter().any(|member| member.host == seat.host);
                Some(Wanted { host: self.number(&seat.host)?, device, takes_part })
            };
            // Where it is done each host knows.
            let placed = |it: &Placed| Placed { hosts: Vec::new(), ..it.clone() };
            (part.iter().map(placed).collect(), seats.iter().filter_map(wanted).collect())
        };
        parts.iter().zip(&seats).enumerate().map(level).collect()
    }

    /// Sets up the hosts of a cell.
    pub(super) fn raise(&mut self, task: &Task<'_>) -> Or<()> {
        let Task { file, cell, .. } = task;
        let may_lose = task.destroy.contains(&cell.device);
        let levels = self.levels(file, cell, may_lose);
        let levels: Vec<_> =
            levels.iter().map(|(part, hosts)| (&part[..], hosts.clone())).collect();
        let up = self.all.iter_mut().map(|there| std::mem::take(&mut there.up)).collect();
        let rank = |host: &usize| file.rank(self.name(*host));
        let ranks = self.everybody().iter().map(rank).collect();
        let agents = self.all.iter().map(|there| there.turns).collect();
        let turn = (cell.branch, cell.repeat);
        let mut raising = Raising::new(up, (ranks, agents), levels, turn, may_lose);
        let came = self.raise_by(&mut raising, turn);
        for (there, up) in self.all.iter_mut().zip(raising.up) {
            there.up = up;
        }
        came
    }

    fn raise_by(&mut self, raising: &mut Raising<'_>, turn: (usize, u32)) -> Or<()> {
        loop {
            let step = raising.step().map_err(End::Failed)?;
            raising.begins(&step);
            match step {
                Step::Over => return Ok(()),
                Step::Clear(hosts) => {
                    self.clear(&hosts)?;
                    raising.cleared(&hosts);
                }
                Step::Raise(hosts) => {
                    let (stack, hands_over) = raising.part();
                    let apply = |(_, device): &(usize, DeviceThere)| ToAgent::Apply {
                        stack: stack.to_vec(),
                        device: device.clone(),
                        turn,
                        hands_over,
                    };
                    let who: Vec<usize> = hosts.iter().map(|(host, _)| *host).collect();
                    let answers = self.answers(&who, hosts.iter().map(apply).collect())?;
                    let volumes = answers.into_iter().map(|answer| match answer {
                        FromAgent::Volumes { volumes } => volumes,
                        _ => Vec::new(),
                    });
                    let raised = raising.raised(hosts, volumes.collect());
                    raised.map_err(|(host, why)| self.lies(host, &why))?;
                }
            }
        }
    }

    /// Takes down everything on these hosts.
    fn clear(&mut self, who: &[usize]) -> Or<()> {
        let answers = self.answers(who, vec![ToAgent::Undo; who.len()])?;
        for (host, answer) in who.iter().zip(answers) {
            let FromAgent::Undone { left } = answer else { continue };
            if !left.is_empty() {
                let (name, left) = (self.name(*host), left.join("; "));
                let text = format!("{name} is not as it was found: {left}");
                return Err(End::Failed(text));
            }
        }
        Ok(())
    }

    fn lies(&self, host: usize, why: &str) -> End {
        End::Fault(format!("{} cannot be trusted: {why}", self.name(host)))
    }

    /// Takes down what earlier agents have left, on those that stand highest first.
    pub(super) fn clear_all(&mut self, file: &File) -> Or<()> {
        let rank = |host: &usize| file.rank(self.name(*host));
        let ranks: Vec<usize> = self.everybody().iter().map(rank).collect();
        downward(&ranks).iter().try_for_each(|group| self.clear(group))
    }

    /// Makes sure that the stack of a cell can be set up, and that it loses nothing that may not be
    /// lost. `seen` are those that were asked about.
    pub(super) fn foresee(
        &mut self,
        file: &File,
        cell: &Cell,
        programs: &[Program],
        may_lose: bool,
        seen: &mut BTreeSet<String>,
    ) -> Or<()> {
        let files: Vec<(&Path, &str)> =
            programs.iter().map(|(path, sha256)| (&**path, &**sha256)).collect();
        let levels = self.levels(file, cell, may_lose);
        let (last, mut handed) = (levels.len().saturating_sub(1), Vec::<Volume>::new());
        for (number, (part, hosts)) in levels.iter().enumerate() {
            let count = if number == 0 { 0 } else { hosts.len() };
            let shares = across::dealt(&handed, count).map_err(End::Failed)?;
            handed.clear();
            for (at, wanted) in hosts.iter().enumerate().filter(|(_, it)| it.takes_part) {
                let handed_to = shares.get(at).cloned().unwrap_or_default();
                let device = DeviceThere { handed: handed_to, ..wanted.device.clone() };
                let host = wanted.host;
                let asked = format!("{host} {:?}", (part, &device));
                if number == last && !seen.insert(asked) {
                    continue;
                }
                self.send(host, &files)?;
                let check = vec![ToAgent::Check { stack: part.clone(), device }];
                let answer = self.answers(&[host], check)?.pop();
                let Some(FromAgent::Outlook { volumes, .. }) = answer else { continue };
                if number < last {
                    let all = across::handed(part, volumes, may_lose, false);
                    handed.extend(all.map_err(|why| self.lies(host, &why))?);
                }
            }
        }
        Ok(())
    }

    /// Takes down a host, which may be gone: then it is tried until `until`.
    fn take_down(&mut self, host: usize, until: Instant, left: &mut Vec<String>) -> Down {
        let (name, mut is_told) = (self.name(host).to_owned(), false);
        loop {
            let failed = self.connect(&[host]);
            let Some((_, why)) = failed.first() else { break };
            if Instant::now() >= until {
                left.push(format!("{name}: what was set up there cannot be told: {why}"));
                return Down::Gone;
            }
            if !std::mem::replace(&mut is_told, true) {
                tell(&format!("waiting for {name}, because others stand below it: {why}"));
            }
            thread::sleep(TRY_EVERY);
        }
        let Some(FromAgent::Undone { left: what }) = self.told(host, ToAgent::Undo) else {
            left.push(format!("{name}: it was lost while it undid"));
            return Down::Left;
        };
        left.extend(what.iter().map(|what| format!("{name}: {what}")));
        if what.is_empty() { Down::Clean } else { Down::Left }
    }
}

impl Hosts<'_> {
    /// Ends all agents. What was set up is taken down, first what stands on others. What is
    /// returned could not be taken back.
    pub(in super::super) fn end(self) -> Vec<String> {
        let everybody = self.names.iter().map(String::as_str);
        let Ok(mut party) = self.party(everybody, String::new()) else {
            return vec!["a host is still in use".to_owned()];
        };
        let (mut left, mut above) = (Vec::new(), Vec::new());
        for group in downward(&self.ranks) {
            let lower = |(host, there): (usize, &super::There)| {
                self.ranks[host] < self.ranks[group[0]] && there.up != Up::Nothing
            };
            let is_last = !party.all.iter().enumerate().any(lower);
            let until = Instant::now() + if is_last { Duration::ZERO } else { ALONE_WITHIN };
            let mut downs = Vec::new();
            for host in group {
                let is_up = party.all[host].up != Up::Nothing;
                if party.all[host].link.is_none() && !is_up {
                    continue;
                }
                // One that was lost has undone by itself, or does it now.
                match then(&above) {
                    Then::Undo => downs.push(party.take_down(host, until, &mut left)),
                    Then::Leave if !is_up => {}
                    Then::Leave => {
                        let name = party.name(host).to_owned();
                        left.push(format!("{name}: it stays, because others still stand on it"));
                        let _ = party.told(host, ToAgent::Leave);
                        downs.push(Down::Left);
                    }
                }
            }
            above.extend(downs);
        }
        let leaving: Vec<_> = party.all.iter_mut().filter_map(|there| there.link.take()).collect();
        super::link::end_all(leaving, super::ENDS_WITHIN);
        left
    }
}
