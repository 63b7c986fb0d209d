//! `fault`: something breaks while the replay goes on, and is put right again.
//!
//! What an array does when a disk fails is known to nobody before it has happened. So it happens
//! here, at a known instant of a known load. Each kind is a change of the ledger or lies within
//! something that the ledger made, so a campaign that is killed meanwhile is put right by undo.

mod kinds;

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Fault, Ground, Result, Volume};
use crate::ledger::Ledger;
use kinds::Kind;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "fault",
    keys: Keys::AndNames(&[
        "kind",
        "at",
        "for",
        "device",
        "interface",
        "command",
        "undo",
        "set.*",
        "read-iops",
        "write-iops",
        "read-bytes",
        "write-bytes",
    ]),
    every: Every::Once,
    read: |given| Ok(Box::new(Faulty::read(given)?)),
};

struct Faulty {
    name: String,
    kind: Kind,
    /// The second of a replay at which it begins.
    at_s: f64,
    /// How long it lasts; without it until the replay ends.
    lasts_s: Option<f64>,
    now: RefCell<Now>,
}

/// How far it is in the replay that goes on.
#[derive(Default)]
struct Now {
    phase: Phase,
    /// What was done when, in lines.
    log: Vec<String>,
}

#[derive(Clone, Default, PartialEq)]
enum Phase {
    #[default]
    Before,
    /// It lasts since a second of the replay; these are its changes in the ledger.
    On {
        since_s: f64,
        marks: Range<usize>,
    },
    After,
}

impl Faulty {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let kind = Kind::read(given)?;
        let missing = || Wrong::new("at", "'at' is missing", "write at = \"10s\"");
        let seconds = |span: Duration| span.as_secs_f64();
        Ok(Self {
            name: given.name.clone(),
            kind,
            at_s: given.span("at")?.map(seconds).ok_or_else(missing)?,
            lasts_s: given.span("for")?.map(seconds),
            now: RefCell::default(),
        })
    }

    fn phase(&self) -> Phase {
        self.now.borrow().phase.clone()
    }

    /// Notes what happened at a second of the replay.
    fn goes_on(&self, phase: Phase, at_s: f64, what: &str) {
        let mut now = self.now.borrow_mut();
        now.phase = phase;
        now.log.push(format!("{at_s:.3} s: {what}"));
    }

    fn begin(&self, ledger: &mut Ledger<'_>, on: &[Volume], at_s: f64) -> Result<()> {
        let mark = ledger.mark();
        let begun = self.kind.begin(ledger, on);
        let marks = mark..ledger.mark();
        if let Err(fault) = begun {
            // Half a fault must not stand until the next replay.
            let half = Phase::On { since_s: at_s, marks: marks.clone() };
            self.goes_on(half, at_s, &format!("it failed: {fault}"));
            self.take_back(ledger, on, marks, at_s)?;
            return Err(fault);
        }
        self.goes_on(Phase::On { since_s: at_s, marks }, at_s, "it began");
        Ok(())
    }

    fn take_back(
        &self,
        ledger: &mut Ledger<'_>,
        on: &[Volume],
        marks: Range<usize>,
        at_s: f64,
    ) -> Result<()> {
        self.kind.end(ledger, on)?;
        let came = ledger.undo_of(marks)?;
        if let Some(left) = came.left.first() {
            let text = format!("it cannot be put right: {}: {}", left.what, left.why);
            self.goes_on(Phase::After, at_s, &text);
            return Err(Fault::Failed(text));
        }
        self.goes_on(Phase::After, at_s, "it was put right");
        Ok(())
    }
}

impl Module for Faulty {
    fn programs(&self) -> Vec<String> {
        self.kind.programs()
    }

    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let mut outlook = self.kind.check(ground, on)?;
        let lasts = match self.lasts_s {
            Some(lasts) => format!("{lasts} s long"),
            None => "until the replay ends".to_owned(),
        };
        for does in &mut outlook.does {
            *does = format!("{} s after a replay has begun, {lasts}: {does}", self.at_s);
        }
        Ok(outlook)
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        *self.now.borrow_mut() = Now::default();
        self.kind.prepare(ledger, on)?;
        Ok(on.to_vec())
    }

    fn launch(&self, ground: &dyn Ground, tag: &str) -> Result<Vec<String>> {
        self.kind.launch(ground, tag)
    }

    fn beside(&self, ledger: &mut Ledger<'_>, on: &[Volume], span: Range<f64>) -> Result<()> {
        if self.phase() == Phase::Before && span.end > self.at_s {
            return self.begin(ledger, on, span.end);
        }
        // A machine that is busy may begin late; the fault lasts as long as was asked for, then.
        if let Phase::On { since_s, marks } = self.phase()
            && self.lasts_s.is_some_and(|lasts| span.end >= since_s + lasts)
        {
            return self.take_back(ledger, on, marks, span.end);
        }
        Ok(())
    }

    fn ended(&self, ledger: &mut Ledger<'_>, on: &[Volume], seconds: f64) -> Result<()> {
        let came = match self.phase() {
            Phase::Before => Err(super::too_short(self.at_s, seconds)),
            Phase::On { marks, .. } => self.take_back(ledger, on, marks, seconds),
            Phase::After => Ok(()),
        };
        self.now.borrow_mut().phase = Phase::Before;
        came
    }

    fn collect(&self, _: &dyn Ground, _: &[Volume]) -> Result<Vec<(String, String)>> {
        let log = std::mem::take(&mut self.now.borrow_mut().log);
        if log.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![(format!("{}.txt", self.name), log.join("\n") + "\n")])
    }
}

#[cfg(test)]
mod tests;
