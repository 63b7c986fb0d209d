//! `ioecho campaign undo`: this host as it was found.

use std::io::Write as _;
use std::path::Path;

use ioecho_campaign::ledger::{Ledger, Left};
use serde::Serialize;

use super::machine::Machine;
use super::setting_up::unreadable;
use super::undo_files::UndoFiles;
use crate::args::UndoCampaignArgs;
use crate::exit;
use crate::print::Out;

/// The version of the JSON.
const JSON_VERSION: u32 = 1;

#[derive(Serialize)]
struct Printed {
    version: u32,
    ledgers: Vec<OfLedger>,
}

#[derive(Serialize)]
struct OfLedger {
    /// The campaign that it was opened for.
    owner: String,
    /// What was undone, or would be.
    back: Vec<String>,
    /// What is not as it was found.
    left: Vec<OfLeft>,
    /// Whether the host is open for other campaigns, as far as this ledger is concerned.
    closed: bool,
}

#[derive(Serialize)]
struct OfLeft {
    what: String,
    why: String,
}

pub(super) fn run(args: &UndoCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let open = UndoFiles::open_ones();
    let mut printed = Printed { version: JSON_VERSION, ledgers: Vec::new() };
    if !open.is_empty() {
        let files = UndoFiles::make()?;
        // What would be undone may be asked while the campaign goes on.
        let locks = if args.dry_run { None } else { Some(files.lock()?) };
        let running = locks.as_ref().and_then(|(_, running)| running.try_clone().ok());
        let machine = Machine::new(Path::new("/"), running, || false);
        for id in open {
            let ledger = Ledger::left(&machine, Box::new(files.book(&id)?)).map_err(unreadable)?;
            printed.ledgers.push(undone(ledger, args)?);
        }
    }
    let is_left = printed.ledgers.iter().any(|ledger| !ledger.left.is_empty());
    if args.json {
        out.json(&printed)?;
    } else {
        print(out, &printed, args)?;
    }
    let is_accepted = args.accept && !args.dry_run;
    Ok(if is_left && !is_accepted { exit::MACHINE_CHANGED } else { exit::OK })
}

fn undone(mut ledger: Ledger<'_>, args: &UndoCampaignArgs) -> anyhow::Result<OfLedger> {
    let owner = ledger.owner().to_owned();
    let came =
        if args.dry_run { ledger.would_undo() } else { ledger.undo(0).map_err(unreadable)? };
    let closed = !args.dry_run && (ledger.is_clear() || args.accept);
    if closed {
        ledger.close().map_err(unreadable)?;
    }
    let left = came.left.into_iter().map(|Left { what, why }| OfLeft { what, why }).collect();
    Ok(OfLedger { owner, back: came.back, left, closed })
}

fn print(out: &mut Out, printed: &Printed, args: &UndoCampaignArgs) -> std::io::Result<()> {
    if printed.ledgers.is_empty() {
        return writeln!(out, "no campaign has left anything set up on this host");
    }
    for ledger in &printed.ledgers {
        writeln!(out, "campaign      {}", ledger.owner)?;
        let verb = if args.dry_run { "would undo" } else { "undone" };
        for back in &ledger.back {
            writeln!(out, "{verb:<13} {back}")?;
        }
        for left in &ledger.left {
            writeln!(out, "left as it is {}: {}", left.what, left.why)?;
        }
        if ledger.left.is_empty() && !args.dry_run {
            writeln!(out, "state         as it was found")?;
        } else if ledger.closed {
            writeln!(out, "state         accepted as it is")?;
        } else if !ledger.left.is_empty() {
            writeln!(
                out,
                "state         not as it was found; put it right and undo again, or --accept it"
            )?;
        }
    }
    Ok(())
}
