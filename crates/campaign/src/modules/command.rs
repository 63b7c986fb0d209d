//! `command`: programs of the user's choice, for what no module knows.
//!
//! Controllers have command lines of their own. `apply` sets up and `undo` takes back; `check` is
//! asked before any cell and `verify` after each set-up: both change nothing and end with 0 if all
//! is well. `undo` may be run where nothing was changed, and more than once. Other keys are names
//! in braces; `{volume}` is the path of the volume below.

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Fault, Ground, Result, Volume};
use crate::ledger::Ledger;
use crate::template::{filled, names};

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "command",
    keys: Keys::AndNames(&["check", "apply", "verify", "undo", "loses"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Commands::read(given)?)),
};

struct Commands {
    check: Option<Command>,
    apply: Command,
    verify: Option<Command>,
    undo: Option<Command>,
    /// Whether the data of the volume are lost.
    loses: bool,
}

impl Commands {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let missing = || {
            let help = "write apply = [\"program\", \"argument\"]";
            Wrong::new("apply", "'apply' is missing", help)
        };
        let command = |key: &str| {
            let command = given.command(key)?;
            Ok(command.map(|command| command.at(&given.base)))
        };
        Ok(Self {
            check: command("check")?,
            apply: command("apply")?.ok_or_else(missing)?,
            verify: command("verify")?,
            undo: command("undo")?,
            loses: given.switch("loses")?.unwrap_or(false),
        })
    }
}

/// The name in braces of the volume below.
const VOLUME: &str = "volume";

/// The text with the path of the volume below filled in.
pub(super) fn with_volume(text: &str, on: &[Volume]) -> Result<String> {
    let volume = on.first().map(|volume| volume.path.clone());
    if volume.is_none() && names(text).is_ok_and(|names| names.contains(&VOLUME)) {
        return Err(Fault::Refused("there is no volume below it in the stack".to_owned()));
    }
    Ok(filled(text, &|name| volume.clone().filter(|_| name == VOLUME)))
}

/// The command with the path of the volume filled in.
pub(super) fn on_volume(command: &Command, on: &[Volume]) -> Result<Command> {
    let argv = command.argv.iter().map(|word| with_volume(word, on)).collect::<Result<_>>()?;
    Ok(Command { argv, ..command.clone() })
}

impl Module for Commands {
    fn programs(&self) -> Vec<String> {
        let all =
            [self.check.as_ref(), Some(&self.apply), self.verify.as_ref(), self.undo.as_ref()];
        // A script is often an argument of its interpreter.
        let words = all.into_iter().flatten().flat_map(|command| command.argv.iter());
        words.filter(|word| word.contains('/')).cloned().collect()
    }

    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let apply = on_volume(&self.apply, on)?;
        super::tools(ground, &[apply.program()])?;
        let mut does = vec![apply.to_string()];
        match &self.undo {
            Some(undo) => {
                let undo = on_volume(undo, on)?;
                super::tools(ground, &[undo.program()])?;
                does.push(format!("undone by {undo}"));
            }
            None => does.push("not undone: it has no undo".to_owned()),
        }
        let are_there = on.iter().all(|volume| volume.is_there);
        if let Some(check) = self.check.as_ref().filter(|_| ground.may_ask() && are_there) {
            let check = on_volume(check, on)?;
            let output = ground.ask(&check)?.good(&check);
            output.map_err(|fault| Fault::Lacking(fault.to_string()))?;
        }
        let lost = on.iter().filter(|_| self.loses).map(|volume| volume.path.clone());
        Ok(Outlook { does, loses: lost.collect(), seconds: None, volumes: on.to_vec() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        if let Some(volume) = on.iter().find(|volume| self.loses && !volume.may_lose) {
            let text = format!("{}: its data would be lost, and nothing allows it", volume.path);
            return Err(Fault::Refused(text));
        }
        let undo = self.undo.as_ref().map(|undo| on_volume(undo, on)).transpose()?;
        ledger.ran(&on_volume(&self.apply, on)?, undo, serde_json::Value::Null)?;
        Ok(on.to_vec())
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        let Some(verify) = &self.verify else { return Ok(()) };
        let verify = on_volume(verify, on)?;
        ground.ask(&verify)?.good(&verify).map(|_| ())
    }
}
