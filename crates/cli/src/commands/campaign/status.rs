//! `ioecho campaign status` and `stop`.

use std::io::Write;
use std::thread;
use std::time::Duration;

use ioecho_campaign::conclusion::{Conclusion, Counts, conclude};
use ioecho_campaign::executor::{Event, Executor};
use serde::Serialize;

use super::doing::{kept, print};
use super::forecast::{self, Forecast};
use super::store::{Store, StoredStatus};
use crate::args::{StatusCampaignArgs, StopCampaignArgs};
use crate::exit::{self, Coded};
use crate::print::Out;

#[derive(Serialize)]
struct Printed<'a> {
    /// Whether a process works on the campaign now.
    running: bool,
    /// How long the missing runs take at most, while a process works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<f64>,
    #[serde(flatten)]
    conclusion: &'a Conclusion,
}

/// How often `--watch` looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The width of the bar that shows how much is settled, in characters.
const BAR: usize = 30;

pub(super) fn run(args: &StatusCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    let mut last = String::new();
    loop {
        let running = store.is_taken();
        let (conclusion, left) = known(&store)?;
        let left = left.filter(|_| running);
        let printed = Printed { running, seconds_left: left, conclusion: &conclusion };
        match (args.json, args.watch) {
            (true, true) => out.json_line(&printed)?,
            (true, false) => out.json(&printed)?,
            (false, is_watched) => {
                let left = left.map(|it| format!(", {}", forecast::left(it)));
                let line = bar(conclusion.counts) + &left.unwrap_or_default();
                if !(is_watched && running) {
                    print(out, &conclusion)?;
                    let told = if running { "works on it" } else { "none" };
                    writeln!(out, "{line}\nprocess       {told}")?;
                } else if line != last {
                    writeln!(out, "{line}")?;
                    last = line;
                }
            }
        }
        out.flush()?;
        if !args.watch || !running {
            return Ok(exit::OK);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The conclusion as it is stored, or drawn anew from all results; and the time that is left.
fn known(store: &Store) -> anyhow::Result<(Conclusion, Option<f64>)> {
    if let Some(StoredStatus { conclusion, seconds_left, .. }) = store.status() {
        return Ok((conclusion, seconds_left));
    }
    let (is_running, seen) = (store.is_taken(), store.seen());
    let (made, _) = kept(store)?;
    let held = store.held();
    let mut executor = Executor::new(&made.plan, &made.here, held.attempts.clone(), 0.0);
    settle(&mut executor)?;
    let (conclusion, left) =
        (conclude(&executor), Forecast::new(&executor, &held.clocks).seconds(&executor));
    if !is_running {
        // The next one who asks need not read everything again.
        store.put_status(seen, conclusion.clone(), left, true);
    }
    Ok((conclusion, left))
}

/// How much is settled.
fn bar(counts: Counts) -> String {
    let settled = counts.done + counts.failed + counts.skipped;
    let full = (settled * BAR).checked_div(counts.cells).unwrap_or(BAR);
    let percent = (settled * 100).checked_div(counts.cells).unwrap_or(100);
    format!("settled       {}{} {percent} %", "█".repeat(full), "░".repeat(BAR - full))
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
