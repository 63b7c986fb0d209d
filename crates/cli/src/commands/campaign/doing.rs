//! `ioecho campaign run` and `resume`: the runs of a campaign, one after the other.

use std::io::Write;

use ioecho_campaign::attempt::{ATTEMPT_VERSION, Attempt, End};
use ioecho_campaign::conclusion::{Conclusion, conclude};
use ioecho_campaign::executor::{Action, Event, Executor, Over, State};
use ioecho_campaign::journal::Happening;
use ioecho_campaign::plan::Cell;
use ioecho_run::observer::Stopping;
use ioecho_stats::verdict::Finding;
use ioecho_trace::Nanos;
use jiff::Timestamp;

use super::plan::{Made, of_file, of_text, show, stale, tell_stale};
use super::store::{self, JournalFile, Store, StoredPlan};
use super::{child, report};
use crate::args::{DoingArgs, ResumeCampaignArgs, RunCampaignArgs};
use crate::exit::{self, Coded};
use crate::print::{Out, tell};
use crate::run::command;
use crate::run::signals::stop_on_signals;

pub(super) fn run(args: &RunCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let made = of_file(&args.of)?;
    check_destroy(&made, &args.destroy)?;
    if args.doing.dry_run {
        return show(&made, args.doing.json, out);
    }
    let store = Store::make(&made.store)?;
    let _lock = store.lock()?;
    let wanted = StoredPlan::of(&made.plan, made.here.base(), &args.of.set, &args.destroy);
    if store.path().join("plan.json").exists() {
        let before = store.plan()?;
        if before.name != wanted.name {
            let text = format!(
                "{} holds the campaign '{}', not '{}'\n  = help: name another directory with -o",
                store.path().display(),
                before.name,
                wanted.name
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        tell_stale(&stale(&made.plan, Some(&before), &store.held()));
    }
    store.put_plan(&wanted, &made.text)?;
    carry_out(&made, &store, &wanted.destroy, &args.doing, out)
}

pub(super) fn resume(args: &ResumeCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    let (made, stored) = kept(&store)?;
    if args.doing.dry_run {
        return show(&made, args.doing.json, out);
    }
    let _lock = store.lock()?;
    tell_stale(&stale(&made.plan, Some(&stored), &store.held()));
    check_destroy(&made, &stored.destroy)?;
    carry_out(&made, &store, &stored.destroy, &args.doing, out)
}

/// The plan that a campaign keeps.
pub(super) fn kept(store: &Store) -> anyhow::Result<(Made, StoredPlan)> {
    let stored = store.plan()?;
    let (path, text) = store.campaign()?;
    let made = of_text(&path, text, &stored.base, &stored.set)?;
    Ok((Made { store: store.path().to_owned(), ..made }, stored))
}

/// Refuses to destroy what is no device of the campaign, or a disk that only its path names.
fn check_destroy(made: &Made, destroy: &[String]) -> anyhow::Result<()> {
    for name in destroy {
        let Some(device) = made.plan.file.device(name) else {
            let text = format!(
                "--destroy {name}: the campaign has no such device\n  = help: name devices as \
                 they are called below [devices]"
            );
            return Err(Coded::error(exit::USAGE, text));
        };
        if device.serial.is_none() && made.here.is_block(&device.path) {
            let text = format!(
                "--destroy {name}: {} has no serial number in the campaign, and a path may lead \
                 to another disk tomorrow\n  = help: write serial = \"…\" (from /sys or lsblk -o \
                 serial) at {}",
                device.path, device.place
            );
            return Err(Coded::error(exit::REFUSED, text));
        }
    }
    Ok(())
}

/// Does all runs that are not done, and tells the answer.
fn carry_out(
    made: &Made,
    store: &Store,
    destroy: &[String],
    doing: &DoingArgs,
    out: &mut Out,
) -> anyhow::Result<u8> {
    let stopping = stop_on_signals()?;
    let running = store.running()?;
    let held = store.held();
    for told in &held.unreadable {
        tell(&format!("warning: left out: {told}"));
    }
    let mut journal = store.journal(&held)?;
    let ioecho = env!("CARGO_PKG_VERSION").to_owned();
    journal.add(Happening::Began { pid: std::process::id(), ioecho })?;
    store.forget_stop();
    let seconds = held.seconds();
    let mut executor = Executor::new(&made.plan, &made.here, held.attempts, seconds);
    let doer = Doer { made, store, destroy, running: &running, stopping: &stopping };
    let mut event = Event::Begin;
    let over = loop {
        let actions = executor
            .step(event)
            .map_err(|refused| Coded::error(made.here.code(), refused.to_string()))?;
        if !doing.quiet {
            for action in &actions {
                tell_action(&executor, action);
            }
        }
        match actions.last() {
            Some(Action::Run(cell, attempt)) => {
                // A run that was not begun leaves nothing behind.
                if doer.is_asked(false) {
                    break Over::Stopped;
                }
                let cell = executor.cells()[*cell].clone();
                event = doer.run(&cell, *attempt, &mut journal)?;
            }
            Some(Action::Over(over)) => break *over,
            _ => break Over::Complete,
        }
    };
    journal.add(Happening::Over { why: told_over(over).to_owned() })?;
    let conclusion = conclude(&executor);
    out.tells_of_files();
    if doing.json {
        out.json(&conclusion)?;
    } else {
        print(out, &conclusion)?;
    }
    let code = code_of(&executor, &conclusion, over);
    let written = report::write(&executor, store, &conclusion);
    if written.is_ok() && !doing.json {
        writeln!(out, "report        {}", store.path().join(report::PAGE).display())?;
    }
    exit::unless_worse(code, written)
}

/// Does single runs.
struct Doer<'a> {
    made: &'a Made,
    store: &'a Store,
    destroy: &'a [String],
    running: &'a std::fs::File,
    stopping: &'a Stopping,
}

impl Doer<'_> {
    /// Whether somebody asks for the end; while a run goes on, whether it shall end as well.
    fn is_asked(&self, is_running: bool) -> bool {
        let is_waiting = |after_cell: bool| !(is_running && after_cell);
        self.stopping.is_asked() || self.store.stop_asked().is_some_and(is_waiting)
    }

    fn run(&self, cell: &Cell, attempt: u32, journal: &mut JournalFile) -> anyhow::Result<Event> {
        journal.add(Happening::Attempt { key: cell.key.clone(), attempt })?;
        let place = self.store.begin(cell, attempt)?;
        let started = Timestamp::now().to_string();
        // The run's own directory is named from the root, because the run begins elsewhere.
        let output = std::path::absolute(place.path())?.join(child::RUN);
        let words = child::words(cell, &output, self.destroy.contains(&cell.device));
        let came = if let Err(reason) = self.is_still_the_same(cell) {
            child::Came { end: End::Failed(reason), seconds: 0.0, summary_sha256: None }
        } else {
            let mut asked = || self.is_asked(true);
            child::run(&words, &place, self.made.here.base(), self.running, &mut asked)?
        };
        let child::Came { end, seconds, summary_sha256 } = came;
        let stored = Attempt {
            version: ATTEMPT_VERSION,
            key: cell.key.clone(),
            attempt,
            started,
            seconds,
            command: command::words().into_iter().take(1).chain(words).collect(),
            end,
            summary_sha256,
        };
        store::end(&place, &stored)?;
        journal.add(Happening::Ended { key: cell.key.clone(), attempt, seconds })?;
        Ok(Event::Ended(stored.end, seconds))
    }

    /// Whether the device is the one that the plan means: another one may have its path by now.
    fn is_still_the_same(&self, cell: &Cell) -> Result<(), String> {
        let device = self.made.plan.file.device(&cell.device);
        let serial = device.and_then(|device| device.serial.as_deref());
        let now = self.made.here.device_now(&cell.target, serial)?;
        if now == cell.identity.device {
            return Ok(());
        }
        Err(format!("{} is another device than when the campaign was planned", cell.target))
    }
}

/// The exit code of a campaign: the worst of what was found.
fn code_of(executor: &Executor<'_>, conclusion: &Conclusion, over: Over) -> u8 {
    let is_damaged = |state: &State| match state {
        State::Done(_, measured) => measured.finding == Finding::DataDamaged,
        _ => false,
    };
    if executor.states().iter().any(is_damaged) {
        return exit::DATA_DAMAGED;
    }
    if conclusion.counts.failed > 0 {
        return exit::CELLS_FAILED;
    }
    match over {
        Over::Stopped | Over::Budget => exit::INCOMPLETE,
        Over::Complete | Over::Aborted if !conclusion.broken.is_empty() => exit::REQUIRED,
        Over::Complete | Over::Aborted => exit::OK,
    }
}

const fn told_over(over: Over) -> &'static str {
    match over {
        Over::Complete => "every cell is settled",
        Over::Stopped => "somebody asked for the end",
        Over::Budget => "the budget is used up",
        Over::Aborted => "an expectation does not hold",
    }
}

/// A line for each thing that is settled or begins.
fn tell_action(executor: &Executor<'_>, action: &Action) {
    let states = executor.states();
    match action {
        Action::Run(cell, attempt) => {
            let is_settled = |state: &&State| !matches!(state, State::Missing | State::Running);
            let number = states.iter().filter(is_settled).count() + 1;
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            tell(&format!("{number}/{}: {}{again}", states.len(), executor.cells()[*cell].name()));
        }
        Action::Settled(cell) => {
            let told = match &states[*cell] {
                State::Done(_, measured) => {
                    let p99 = measured.figures.get("p99.all.response");
                    let p99 = p99.map(|ns| format!(", p99 {}", Nanos(*ns as i64)));
                    format!("{}{}", measured.finding.name(), p99.unwrap_or_default())
                }
                State::Failed(reason) => format!("failed: {reason}"),
                State::Skipped(reason) => format!("skipped: {reason}"),
                State::Missing | State::Running => return,
            };
            tell(&format!("    {}: {told}", executor.cells()[*cell].name()));
        }
        Action::Over(over) => tell(told_over(*over)),
    }
}

/// Prints the answer.
pub(super) fn print(out: &mut Out, conclusion: &Conclusion) -> std::io::Result<()> {
    let counts = conclusion.counts;
    writeln!(out, "{}", conclusion.sentence)?;
    writeln!(
        out,
        "cells         {}: {} with a result, {} failed, {} skipped, {} missing",
        counts.cells, counts.done, counts.failed, counts.skipped, counts.missing
    )?;
    for (cell, reason) in &conclusion.failed {
        writeln!(out, "failed        {cell}: {reason}")?;
    }
    for broken in &conclusion.broken {
        writeln!(out, "broken        {}: {}", broken.cell, broken.that)?;
    }
    if conclusion.retried > 0 {
        writeln!(
            out,
            "retried       {} attempts had faults of the measurement",
            conclusion.retried
        )?;
    }
    Ok(())
}
