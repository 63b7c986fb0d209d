//! `ioecho campaign status` and `stop`.

use std::io::Write;

use ioecho_campaign::conclusion::{Conclusion, conclude};
use ioecho_campaign::executor::{Event, Executor};
use serde::Serialize;

use super::doing::{kept, print};
use super::store::Store;
use crate::args::{StatusCampaignArgs, StopCampaignArgs};
use crate::exit::{self, Coded};
use crate::print::Out;

#[derive(Serialize)]
struct Printed<'a> {
    /// Whether a process works on the campaign now.
    running: bool,
    #[serde(flatten)]
    conclusion: &'a Conclusion,
}

pub(super) fn run(args: &StatusCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    let running = store.is_taken();
    let (made, _) = kept(&store)?;
    let mut executor = Executor::new(&made.plan, &made.here, store.held().attempts, 0.0);
    settle(&mut executor)?;
    let conclusion = conclude(&executor);
    if args.json {
        out.json(&Printed { running, conclusion: &conclusion })?;
    } else {
        print(out, &conclusion)?;
        writeln!(out, "process       {}", if running { "works on it" } else { "none" })?;
    }
    Ok(exit::OK)
}

/// Lets the executor draw the conclusions from results that are there, without any run: which cells
/// are skipped, and what searches have found.
pub(super) fn settle(executor: &mut Executor<'_>) -> anyhow::Result<()> {
    let refused =
        |error: ioecho_campaign::place::Refused| Coded::error(exit::USAGE, error.to_string());
    executor.step(Event::Begin).map(drop).map_err(refused)
}

pub(super) fn stop(args: &StopCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    let running = store.is_taken();
    if running && !args.dry_run {
        store.ask_stop(args.after_cell)?;
    }
    let told = match (running, args.after_cell) {
        (false, _) => "no process works on it",
        (true, true) => "it ends after the run that is going on",
        (true, false) => "it ends now; the run that is going on counts for nothing",
    };
    if args.json {
        out.json(&serde_json::json!({ "running": running, "told": told }))?;
    } else {
        writeln!(out, "{told}")?;
    }
    Ok(exit::OK)
}
