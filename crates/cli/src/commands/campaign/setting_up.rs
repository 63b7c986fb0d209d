//! Devices of this host are set up for a campaign, and left as they were found.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use ioecho_campaign::attempt::End;
use ioecho_campaign::file::Device;
use ioecho_campaign::ground::{Fault, Ground as _, Kind, Volume};
use ioecho_campaign::ledger::{Ledger, Undone};
use ioecho_campaign::plan::{Cell, FROM_STACK, is_simulated};
use ioecho_campaign::setup::{Foreseen, Setup, outlook};
use ioecho_campaign::stack::Placed;
use jiff::Timestamp;

use super::machine::Machine;
use super::plan::Made;
use super::undo_files::UndoFiles;
use crate::exit::{self, Coded};
use crate::print::tell;

/// The locks of this host's set-up, held as long as they are kept.
pub(super) struct Locks {
    files: UndoFiles,
    _own: File,
    running: File,
}

/// Takes this host for a campaign, if it sets anything up; otherwise refuses a host that is not as
/// it was found.
pub(super) fn take(made: &Made) -> anyhow::Result<Option<Locks>> {
    // What other hosts have is set up by their agents.
    let is_here = |device: &&Device| device.hosts.is_empty();
    let here = || made.plan.file.devices.iter().filter(is_here);
    if !made.plan.file.stack.is_empty() && here().next().is_some() {
        return Locks::take().map(Some);
    }
    let paths = || here().filter_map(|device| device.path.as_deref());
    let open = UndoFiles::open_ones();
    if !open.is_empty() && paths().any(|path| !is_simulated(path)) {
        return Err(closed("another campaign"));
    }
    Ok(None)
}

fn closed(owner: &str) -> anyhow::Error {
    Coded::error(exit::REFUSED, closed_text(owner))
}

/// Why a host is closed.
pub(super) fn closed_text(owner: &str) -> String {
    format!(
        "{owner} has set up devices of this host, and has not undone it\n  = help: `ioecho \
         campaign undo` leaves the host as it was found (--dry-run tells what it would do)"
    )
}

impl Locks {
    /// Takes this host for one campaign.
    pub(super) fn take() -> anyhow::Result<Self> {
        let files = UndoFiles::make()?;
        let (own, running) = files.lock()?;
        Ok(Self { files, _own: own, running })
    }

    /// The lock that commands hold.
    pub(super) fn running(&self) -> Option<File> {
        self.running.try_clone().ok()
    }

    /// Undoes what an earlier process of this campaign left, and begins anew.
    pub(super) fn begin<'m>(
        &self,
        machine: &'m Machine<'m>,
        owner: &str,
        base: &Path,
    ) -> anyhow::Result<Setup<'m>> {
        for id in UndoFiles::open_ones() {
            let mut ledger =
                Ledger::left(machine, Box::new(self.files.book(&id)?)).map_err(unreadable)?;
            if ledger.owner() != owner {
                return Err(closed(ledger.owner()));
            }
            tell("an earlier process has set up devices, which is undone first");
            let undone = ledger.undo(0).map_err(unreadable)?;
            tell_undone(&undone);
            if !ledger.is_clear() {
                return Err(not_as_found());
            }
            ledger.close().map_err(unreadable)?;
        }
        let id = identity();
        let ledger = Ledger::open(machine, Box::new(self.files.book(&id)?), &id, owner);
        Ok(Setup::new(ledger.map_err(unreadable)?, &base.display().to_string()))
    }
}

/// What has no reader or writer any more.
#[allow(clippy::needless_pass_by_value)] // It is what `map_err` hands over.
pub(super) fn unreadable(fault: Fault) -> anyhow::Error {
    Coded::error(exit::MACHINE_CHANGED, fault.to_string())
}

fn not_as_found() -> anyhow::Error {
    let text = "the machine is not as it was found, so nothing is set up on it\n  = help: put \
                right what is told above, then `ioecho campaign undo`; with --accept it stays as \
                it is";
    Coded::error(exit::MACHINE_CHANGED, text)
}

/// An identity that no other ledger of this host has.
fn identity() -> String {
    let now = Timestamp::now().as_nanosecond() as u64;
    // Digits that change fast come first, and the process tells apart what begins together.
    let mixed = (now ^ (u64::from(std::process::id()) << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("{:08x}", mixed >> 32)
}

/// Tells what undoing came to.
pub(super) fn tell_undone(undone: &Undone) {
    for back in &undone.back {
        tell(&format!("undone: {back}"));
    }
    for left in &undone.left {
        tell(&format!("left as it is: {}: {}", left.what, left.why));
    }
}

/// What the stack of a cell builds on.
pub(super) fn bottom(
    machine: &Machine<'_>,
    cell: &Cell,
    may_lose: bool,
) -> Result<Vec<Volume>, Fault> {
    let target = &*cell.target;
    if target == FROM_STACK {
        return Ok(Vec::new());
    }
    if is_simulated(target) {
        let (path, kind) = (target.to_owned(), Kind::Simulated);
        return Ok(vec![Volume { path, kind, size: 0, may_lose, is_there: true }]);
    }
    let targets = if cell.members.is_empty() {
        std::slice::from_ref(&cell.target)
    } else {
        cell.members.as_slice()
    };
    let volume = |target: &String| Ok(Volume { may_lose, ..machine.volume(target)? });
    targets.iter().map(volume).collect()
}

/// What the stacks of these cells would do: each stack on each device once, by a name.
pub(super) fn foreseen(
    machine: &Machine<'_>,
    cells: &[Cell],
    base: &Path,
    destroy: &[String],
) -> Vec<(String, Result<Vec<Foreseen>, Fault>)> {
    let (mut seen, mut all) = (BTreeSet::new(), Vec::new());
    let is_here = |cell: &&Cell| cell.hosts.is_empty() && !cell.identity.stack.is_empty();
    for cell in cells.iter().filter(is_here) {
        if !seen.insert((&cell.target, &cell.identity.stack)) {
            continue;
        }
        let of_cell = bottom(machine, cell, destroy.contains(&cell.device)).and_then(|bottom| {
            outlook(machine, &cell.identity.stack, &bottom, &base.display().to_string())
        });
        all.push((cell.device.clone(), of_cell));
    }
    all
}

/// Refuses stacks that cannot be set up, and those that lose data that may not be lost.
pub(super) fn check(
    machine: &Machine<'_>,
    cells: &[Cell],
    base: &Path,
    destroy: &[String],
) -> anyhow::Result<()> {
    for (device, of_cell) in foreseen(machine, cells, base, destroy) {
        let modules = of_cell.map_err(|fault| {
            let code = match fault {
                Fault::Lacking(_) => exit::TARGET,
                _ => exit::REFUSED,
            };
            Coded::error(code, fault.to_string())
        })?;
        for module in modules {
            if let Some(volume) = module.forbidden() {
                let text = format!(
                    "{}: the data of {} would be lost\n  = help: name the device with --destroy \
                     {device}, if that is meant",
                    module.name, volume.path
                );
                return Err(Coded::error(exit::REFUSED, text));
            }
            // What an earlier process left set up is in use until it is undone.
            if UndoFiles::open_ones().is_empty() {
                for volume in module.lost().filter(|volume| volume.is_there) {
                    let unused = machine.unused(&volume.path);
                    unused.map_err(|fault| Coded::error(exit::REFUSED, fault.to_string()))?;
                }
            }
        }
    }
    Ok(())
}

/// The set-up of this host while a campaign goes on.
pub(super) struct Host<'m> {
    machine: &'m Machine<'m>,
    setup: RefCell<Setup<'m>>,
}

/// Where the replays of a cell run.
pub(super) struct Place {
    /// What is typed in front of a replay.
    pub(super) launch: Vec<String>,
    pub(super) volumes: Vec<Volume>,
}

impl<'m> Host<'m> {
    pub(super) fn new(machine: &'m Machine<'m>, setup: Setup<'m>) -> Self {
        Self { machine, setup: RefCell::new(setup) }
    }

    /// Sets up what other hosts build on.
    pub(super) fn raise_for_others(
        &self,
        stack: &[Placed],
        bottom: &[Volume],
        turn: (usize, u32),
    ) -> Result<Vec<Volume>, Fault> {
        let volumes = self.setup.borrow_mut().raise(stack, bottom, turn)?;
        if volumes.is_empty() {
            let text = "the stack makes no volume to replay against";
            return Err(Fault::Refused(text.to_owned()));
        }
        Ok(volumes)
    }

    /// Sets up what a cell needs.
    pub(super) fn raise(
        &self,
        stack: &[Placed],
        bottom: &[Volume],
        turn: (usize, u32),
    ) -> Result<Place, Fault> {
        let volumes = self.raise_for_others(stack, bottom, turn)?;
        if let Some(volume) = volumes.iter().find(|volume| volume.kind == Kind::Exported) {
            return Err(Fault::Refused(format!(
                "the stack ends with {}, which is no device of this host\n  = help: add an \
                 initiator to it",
                volume.path
            )));
        }
        let launch = self.setup.borrow().launch()?;
        Ok(Place { launch, volumes })
    }

    /// What a stack builds on here.
    pub(super) fn bottom(&self, cell: &Cell, may_lose: bool) -> Result<Vec<Volume>, Fault> {
        bottom(self.machine, cell, may_lose)
    }

    /// Takes down what stands, for a cell that needs nothing.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        self.setup.borrow_mut().raise(&[], &[], (0, 0)).map(|_| ())
    }

    /// Does what is due while the replay goes on.
    pub(super) fn beside(&self, span: &Range<f64>) -> Result<(), Fault> {
        self.setup.borrow_mut().beside(span)
    }

    /// A replay has ended after so many seconds.
    pub(super) fn ended(&self, seconds: f64) -> Result<(), Fault> {
        self.setup.borrow_mut().ended(seconds)
    }

    /// What the modules keep with the results.
    pub(super) fn collect(&self) -> Result<Vec<(String, String)>, Fault> {
        self.setup.borrow_mut().collect()
    }

    /// Whether the machine could not be left as it was found.
    pub(super) fn is_left(&self) -> bool {
        self.setup.borrow().is_left()
    }

    /// Takes everything down; what could not be left as it was found.
    pub(super) fn end(self) -> anyhow::Result<Vec<String>> {
        let undone = self.setup.into_inner().end().map_err(unreadable)?;
        let left = undone.left.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
        if !undone.left.is_empty() {
            tell_undone(&Undone { back: Vec::new(), ..undone });
            tell("the machine is not as it was found: `ioecho campaign undo` tries again");
        }
        Ok(left)
    }
}

/// What a fault of a module is to an attempt.
pub(super) fn end_of(fault: &Fault) -> End {
    match fault {
        Fault::Stopped => End::Stopped,
        // Another attempt would be refused alike.
        Fault::Refused(text) | Fault::Lacking(text) => End::Failed(text.clone()),
        Fault::Failed(text) => End::Fault(text.clone()),
    }
}
