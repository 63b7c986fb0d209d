//! A stack across hosts: some make volumes, and others build on them.
//!
//! A target that goes away below a mounted file system leaves an initiator that hangs. So what
//! stands above is taken down before anything below it changes, on whatever host it is, and the
//! next level is set up when the one below stands. Which host does what, and in which order, is
//! decided here, as a pure state machine: steps come out, and what came of them goes in.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::ground::{Kind, Volume};
use crate::modules::Over;
use crate::protocol::DeviceThere;
use crate::stack::{Placed, Standing, staying};

/// The longest path of a volume that is handed over.
const PATH_MAX: usize = 4096;

/// What a host has set up, as far as its campaign knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Up {
    /// Nothing.
    #[default]
    Nothing,
    /// What its agent was told to set up, and it could.
    Stands(Box<Stands>),
    /// Something may stand: an agent was lost, or a step failed.
    Unknown,
}

/// What stands on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Stands {
    /// Which of the host's agents did it.
    pub agent: u32,
    /// Its modules.
    pub stack: Vec<Placed>,
    /// What they stand on.
    pub on: DeviceThere,
    /// The branch and the repeat of the cell that it was made for.
    pub turn: (usize, u32),
}

/// What a host of a level is to set up.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The number of the host.
    pub host: usize,
    /// What it stands on, unless the level below hands it over.
    pub device: DeviceThere,
    /// Whether it is set up. A host that does not take part has its share of the volumes all the
    /// same, so that the share of each host is always the same one.
    pub takes_part: bool,
}

/// What is to be done next, on several hosts at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Take down everything on these hosts.
    Clear(Vec<usize>),
    /// Set up these hosts, each on this.
    Raise(Vec<(usize, DeviceThere)>),
    /// Everything stands.
    Over,
}

/// The way of several hosts to a stack that goes across them.
#[derive(Debug)]
pub struct Raising<'p> {
    /// What each host has set up; it is handed back at the end.
    pub up: Vec<Up>,
    /// How high each host stands: what one takes in comes from lower ones.
    ranks: Vec<usize>,
    /// Which agent each host has now.
    agents: Vec<u32>,
    levels: Vec<(&'p [Placed], Vec<Wanted>)>,
    turn: (usize, u32),
    may_lose: bool,
    /// The level that comes next.
    next: usize,
    /// What the level below hands over.
    handed: Vec<Volume>,
}

impl<'p> Raising<'p> {
    /// The way from what is `up` on hosts of these ranks and with these agents to these levels.
    /// `may_lose` tells whether the data of the device may be lost.
    pub fn new(
        up: Vec<Up>,
        (ranks, agents): (Vec<usize>, Vec<u32>),
        levels: Vec<(&'p [Placed], Vec<Wanted>)>,
        turn: (usize, u32),
        may_lose: bool,
    ) -> Self {
        Self { up, ranks, agents, levels, turn, may_lose, next: 0, handed: Vec::new() }
    }

    /// What is to be done next.
    ///
    /// # Errors
    ///
    /// In words, if what is handed over does not go round.
    pub fn step(&self) -> Result<Step, String> {
        let Some((stack, hosts)) = self.levels.get(self.next) else { return Ok(Step::Over) };
        let mut raise = Vec::new();
        let shares = if self.next == 0 { Vec::new() } else { dealt(&self.handed, hosts.len())? };
        for (number, wanted) in hosts.iter().enumerate().filter(|(_, it)| it.takes_part) {
            let handed = shares.get(number).cloned().unwrap_or_default();
            raise.push((wanted.host, DeviceThere { handed, ..wanted.device.clone() }));
        }
        let changes = raise.iter().filter(|(host, on)| !self.stays(*host, stack, on));
        let lowest = changes.map(|(host, _)| self.ranks[*host]).min();
        let above = (0..self.up.len())
            .filter(|host| self.up[*host] != Up::Nothing)
            .filter(|host| lowest.is_some_and(|lowest| self.ranks[*host] > lowest));
        let above: Vec<usize> = above.collect();
        // The highest first: the others may be what it stands on.
        Ok(match above.iter().map(|host| self.ranks[*host]).max() {
            Some(highest) => {
                Step::Clear(above.into_iter().filter(|it| self.ranks[*it] == highest).collect())
            }
            None => Step::Raise(raise),
        })
    }

    /// Whether all of a host's part stands already, and stays.
    fn stays(&self, host: usize, stack: &[Placed], on: &DeviceThere) -> bool {
        let Up::Stands(stands) = &self.up[host] else { return false };
        let standing = |placed: &Placed| Standing { placed: placed.clone(), turn: stands.turn };
        let standing: Vec<Standing> = stands.stack.iter().map(standing).collect();
        stands.agent == self.agents[host]
            && stands.on == *on
            && standing.len() == stack.len()
            && staying(&standing, stack, self.turn) == stack.len()
    }

    /// The modules of the level that comes next, and whether others build on it.
    pub fn part(&self) -> (&'p [Placed], bool) {
        let stack = self.levels.get(self.next).map_or(&[][..], |(stack, _)| stack);
        (stack, self.next + 1 < self.levels.len())
    }

    /// A step begins: until it has ended, nobody knows what stands there.
    pub fn begins(&mut self, step: &Step) {
        match step {
            Step::Clear(hosts) => hosts.iter().for_each(|host| self.up[*host] = Up::Unknown),
            Step::Raise(hosts) => hosts.iter().for_each(|(host, _)| self.up[*host] = Up::Unknown),
            Step::Over => {}
        }
    }

    /// These hosts have taken down everything.
    pub fn cleared(&mut self, hosts: &[usize]) {
        for host in hosts {
            self.up[*host] = Up::Nothing;
        }
    }

    /// Hosts are set up, and these are their volumes.
    ///
    /// # Errors
    ///
    /// In words, with the number of the host, if it hands over what it does not have.
    pub fn raised(
        &mut self,
        hosts: Vec<(usize, DeviceThere)>,
        volumes: Vec<Vec<Volume>>,
    ) -> Result<(), (usize, String)> {
        let (stack, turn) = (self.levels[self.next].0, self.turn);
        let mut all = Vec::new();
        self.next += 1;
        let is_last = self.next == self.levels.len();
        for ((host, on), volumes) in hosts.into_iter().zip(volumes) {
            let agent = self.agents[host];
            let stands = Stands { agent, stack: stack.to_vec(), on, turn };
            let is_empty = stack.is_empty();
            self.up[host] = if is_empty { Up::Nothing } else { Up::Stands(Box::new(stands)) };
            if !is_last {
                let handed = handed(stack, volumes, self.may_lose, true);
                all.extend(handed.map_err(|why| (host, why))?);
            }
        }
        self.handed = all;
        Ok(())
    }
}

/// What other hosts get of the volumes after a part of a stack. A host might say anything: whose
/// data may be lost is not for it to say, nor where it exports. `is_made` is false of what is only
/// foreseen.
///
/// # Errors
///
/// In words, if it hands over what it does not have.
pub fn handed(
    stack: &[Placed],
    volumes: Vec<Volume>,
    may_lose: bool,
    is_made: bool,
) -> Result<Vec<Volume>, String> {
    let top = stack.last().and_then(|top| top.read("").ok());
    let over = top.as_ref().and_then(|top| top.hands_over().ok()).unwrap_or(Over::Nowhere);
    let of_one = |volume: Volume| {
        let Volume { path, kind, size, .. } = volume;
        let is_exported = match over {
            Over::Nowhere => return Err("it hands over nothing".to_owned()),
            Over::Paths => false,
            Over::To(_) => true,
        };
        let is_text = path.len() <= PATH_MAX && !path.chars().any(char::is_control);
        let is_kind = match kind {
            Kind::Exported => is_exported,
            Kind::Block | Kind::File => !is_exported && path.starts_with('/'),
            Kind::Simulated => false,
        };
        // A path may be that of any disk there, so nothing is written over by it.
        let may_lose = may_lose && is_exported;
        let volume = Volume { path, kind, size, may_lose, is_there: is_made };
        let is_its_own = |top: &dyn crate::modules::Module| top.exports(&volume);
        let is_named = !is_made || !is_exported || top.as_deref().is_some_and(is_its_own);
        if is_text && is_kind && is_named {
            return Ok(volume);
        }
        Err(format!("it hands over '{}', which it does not have", volume.path.escape_debug()))
    };
    volumes.into_iter().map(of_one).collect()
}

/// Volumes dealt to so many hosts in turn. None gets one that another one has: two file systems on
/// one volume would destroy each other.
///
/// # Errors
///
/// In words, if there are too few.
pub fn dealt(volumes: &[Volume], hosts: usize) -> Result<Vec<Vec<Volume>>, String> {
    if volumes.len() < hosts {
        return Err(format!(
            "{hosts} hosts take in {} volumes, and none is for two\n  = help: make one for each \
             host, such as by lvm with count = {hosts}",
            volumes.len()
        ));
    }
    let of_host = |host| volumes.iter().skip(host).step_by(hosts.max(1)).cloned().collect();
    Ok((0..hosts).map(of_host).collect())
}

/// Hosts of these ranks in the order in which they are taken down: the highest first, and within a
/// rank the last first.
pub fn downward(ranks: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (host, rank) in ranks.iter().enumerate().rev() {
        groups.entry(*rank).or_default().push(host);
    }
    groups.into_values().rev().collect()
}

/// What came of taking a host down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    /// It is as it was found.
    Clean,
    /// Something stands there still.
    Left,
    /// Its agent could not be reached for as long as an agent that is alone needs to take down what
    /// it has set up.
    Gone,
}

/// What becomes of the hosts of a lower rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// They are taken down.
    Undo,
    /// They stay as they are, because something may stand on them.
    Leave,
}

/// What is done with a rank, after what came of those above it. What stands on a host that is gone
/// would hang without its target, or has been taken down by its own agent; nothing waits for it
/// for ever.
pub fn then(above: &[Down]) -> Then {
    if above.contains(&Down::Left) { Then::Leave } else { Then::Undo }
}
