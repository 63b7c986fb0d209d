//! `ioecho campaign run` and `resume`: the runs of a campaign, one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::attempt::{ATTEMPT_VERSION, Attempt, End};
use ioecho_campaign::conclusion::{Conclusion, conclude};
use ioecho_campaign::course;
use ioecho_campaign::executor::{Action, Event, Executor, Over, State};
use ioecho_campaign::ground::Fault;
use ioecho_campaign::journal::Happening;
use ioecho_campaign::plan::{Cell, Ground as _, is_simulated};
use ioecho_linux::{HostDescription, OpenDirectory};
use ioecho_run::observer::Stopping;
use ioecho_stats::verdict::Finding;
use ioecho_trace::Nanos;
use jiff::Timestamp;

use super::begun::Begun;
use super::child::Came;
use super::forecast::{self, Forecast};
use super::going::{Ended, Going};
use super::hosts::Hosts;
use super::hosts::attempt::Task;
use super::machine::Machine;
use super::plan::{Made, deadline, of_file, of_text, stale, tell_stale};
use super::replays::replays;
use super::room::Room;
use super::setting_up::{self, Host, Locks, end_of};
use super::show::show;
use super::store::{self, JournalFile, Store, StoredPlan};
use super::{baseline, child, junit, report};
use crate::args::{DoingArgs, ResumeCampaignArgs, RunCampaignArgs};
use crate::exit::{self, Coded};
use crate::outputs::{Gate, Writing};
use crate::print::{Out, tell};
use crate::run::command;
use crate::run::signals::stop_on_signals;

/// How often it is stored how far the campaign is.
const TELL_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(args: &RunCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let made = of_file(&args.of)?;
    check_destroy(&made, &args.destroy)?;
    if args.doing.dry_run {
        return show(&made, args.doing.json, out);
    }
    let wanted = StoredPlan {
        includes: made.includes.clone(),
        share: args.part.unwrap_or_default(),
        ..StoredPlan::of(&made.plan, made.here.base(), &args.of.set, &args.destroy)
    };
    begin(made, &wanted, &args.doing, out)
}

/// Stores a plan, and does what of it is not done yet.
pub(super) fn begin(
    made: Made,
    wanted: &StoredPlan,
    doing: &DoingArgs,
    out: &mut Out,
) -> anyhow::Result<u8> {
    let store = Store::make(&made.store)?;
    let _lock = store.lock()?;
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
    store.put_plan(wanted, &made.text)?;
    carry_out(made, &store, wanted, doing, out)
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
    carry_out(made, &store, &stored, &args.doing, out)
}

/// The plan that a campaign keeps.
pub(super) fn kept(store: &Store) -> anyhow::Result<(Made, StoredPlan)> {
    let stored = store.plan()?;
    let (path, text) = store.campaign()?;
    let kept = Some(&stored.includes);
    let made = of_text(&path, text, &stored.base, &stored.set, kept)?;
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
        for device in made.plan.file.devices_of(device) {
            let path = device.shown_path();
            // What a path is on other hosts their agents see.
            let is_here = device.hosts.is_empty();
            if is_here && !device.proof.is_given() && made.here.is_block(path) {
                let text = format!(
                    "--destroy {name}: {path} has no serial number in the campaign, and a path \
                     may lead to another disk tomorrow\n  = help: write serial = \"…\" (from /sys \
                     or lsblk -o serial), or wwn, uuid or backing, at {}",
                    device.place
                );
                return Err(Coded::error(exit::REFUSED, text));
            }
        }
    }
    Ok(())
}

/// Does all runs that are not done, and tells the answer.
fn carry_out(
    mut made: Made,
    store: &Store,
    stored: &StoredPlan,
    doing: &DoingArgs,
    out: &mut Out,
) -> anyhow::Result<u8> {
    made.plan.file.budget = doing.budget.or(made.plan.file.budget);
    let (made, deadline) = (&made, deadline(&made.plan.file)?);
    baseline::kept(&made.plan.file, made.here.base())?;
    let gate = Gate::default();
    if let Some(junit) = &doing.junit {
        gate.check_flag("--junit", junit, Writing::Over)?;
    }
    let stopping = stop_on_signals()?;
    let running = store.running()?;
    let locks = setting_up::take(made)?;
    let of_commands = locks.as_ref().and_then(Locks::running);
    // A replay that outlives its campaign needs what was set up, so undo waits for it as well.
    let running = locks.as_ref().and_then(Locks::running).unwrap_or(running);
    let is_asked = || stopping.is_asked() || store.stop_asked() == Some(false);
    let machine = Machine::new(made.here.base(), of_commands, is_asked);
    let held = store.held();
    for told in &held.unreadable {
        tell(&format!("warning: left out: {told}"));
    }
    let mut journal = store.journal(&held)?;
    let ioecho = env!("CARGO_PKG_VERSION").to_owned();
    journal.add(Happening::Began { pid: std::process::id(), ioecho })?;
    store.forget_stop();
    let seconds = held.seconds();
    let executor = Executor::new(&made.plan, &made.here, held.attempts, seconds);
    let mut executor = executor.with_share(stored.share);
    let destroy = &stored.destroy;
    let (running, stopping, room) = (&running, &stopping, Room::default());
    let host = match &locks {
        Some(locks) => {
            let base = made.here.base();
            setting_up::check(&machine, executor.cells(), base, destroy)?;
            let owner = std::path::absolute(store.path())?.display().to_string();
            Some(Host::new(&machine, locks.begin(&machine, &owner, base)?))
        }
        None => None,
    };
    let hosts = hosts_of(made, store, &executor, destroy, stopping, doing.quiet)?;
    let is_quiet = doing.quiet;
    let doer = Doer { made, store, destroy, running, stopping, room, is_quiet, host, hosts };
    let mut forecast = Forecast::new(&executor, &held.clocks);
    let over = doer.runs(&mut executor, &mut journal, deadline, &mut forecast)?;
    let is_as_found = ended(doer.hosts, doer.host)?;
    journal.add(Happening::Over { why: told_over(over).to_owned() })?;
    let mut conclusion = conclude(&executor);
    baseline::compare(&executor, store, made.here.base(), &mut conclusion)?;
    out.tells_of_files();
    if doing.json {
        out.json(&conclusion)?;
    } else {
        print(out, &conclusion)?;
    }
    let code = code_of(&executor, &conclusion, if is_as_found { over } else { Over::Left });
    store.put_status(store.seen(), conclusion.clone(), None, true);
    let written = report::write(&executor, store, &store.held(), &conclusion).and_then(|()| {
        let Some(junit) = &doing.junit else { return Ok(()) };
        Ok(gate.put(junit, junit::text(&executor, &conclusion).as_bytes())?)
    });
    if written.is_ok() && !doing.json {
        writeln!(out, "report        {}", store.path().join(report::PAGE).display())?;
    }
    exit::unless_worse(code, written)
}

/// The other hosts, if the campaign has any, with the agents that cells without a result need.
fn hosts_of<'a>(
    made: &Made,
    store: &'a Store,
    executor: &Executor<'_>,
    destroy: &[String],
    stopping: &'a Stopping,
    is_quiet: bool,
) -> anyhow::Result<Option<Hosts<'a>>> {
    let missing = executor.cells().iter().zip(executor.states());
    let missing = missing.filter(|(_, state)| **state == State::Missing).map(|(cell, _)| cell);
    let far: Vec<&Cell> = missing.filter(|cell| !cell.hosts.is_empty()).collect();
    if made.plan.file.hosts.is_empty() {
        return Ok(None);
    }
    let asked = move || stopping.is_asked() || store.stop_asked() == Some(false);
    let hosts = Hosts::new(&made.plan.file, store.path(), is_quiet, asked)?;
    hosts.prepare(made, &far, destroy)?;
    Ok(Some(hosts))
}

/// Takes down what is set up, on other hosts first; whether everything is as it was found.
fn ended(hosts: Option<Hosts<'_>>, host: Option<Host<'_>>) -> anyhow::Result<bool> {
    let left = hosts.map_or(Vec::new(), Hosts::end);
    for left in &left {
        tell(&format!("left as it is: {left}"));
    }
    Ok(host.map_or(Ok(Vec::new()), Host::end)?.is_empty() && left.is_empty())
}

/// What the replays of a cell run on.
struct On {
    /// What is typed in front of them.
    launch: Vec<String>,
    /// The targets, and whether their data may be lost.
    targets: Vec<(String, bool)>,
}

/// Does single runs.
struct Doer<'a> {
    made: &'a Made,
    store: &'a Store,
    destroy: &'a [String],
    running: &'a std::fs::File,
    stopping: &'a Stopping,
    room: Room,
    is_quiet: bool,
    /// The set-up of devices, if the campaign has any.
    host: Option<Host<'a>>,
    /// The other hosts, if the campaign has any.
    hosts: Option<Hosts<'a>>,
}

impl Doer<'_> {
    /// Whether somebody asks for the end; while a run goes on, whether it shall end as well.
    fn is_asked(&self, is_running: bool) -> bool {
        let is_waiting = |after_cell: bool| !(is_running && after_cell);
        self.stopping.is_asked() || self.store.stop_asked().is_some_and(is_waiting)
    }

    /// Does run after run, those on different hosts together, until nothing more is to be done.
    fn runs(
        &self,
        executor: &mut Executor<'_>,
        journal: &mut JournalFile,
        deadline: Option<Timestamp>,
        forecast: &mut Forecast,
    ) -> anyhow::Result<Over> {
        thread::scope(|scope| {
            let over =
                self.runs_among(executor, journal, deadline, forecast, &mut Going::new(scope));
            if let (Err(_), Some(hosts)) = (&over, &self.hosts) {
                // What goes on elsewhere could not be stored either.
                hosts.give_up();
            }
            over
        })
    }

    fn runs_among<'d>(
        &'d self,
        executor: &mut Executor<'_>,
        journal: &mut JournalFile,
        deadline: Option<Timestamp>,
        forecast: &mut Forecast,
        going: &mut Going<'_, 'd>,
    ) -> anyhow::Result<Over> {
        let (mut events, mut over) = (VecDeque::from([Event::Begin]), None);
        let mut told: Option<Instant> = None;
        loop {
            let event = match events.pop_front() {
                Some(event) => event,
                None => match going.next() {
                    Some(ended) => self.ended(ended?, journal)?,
                    None => break,
                },
            };
            let left = deadline.map(|end| end.duration_since(Timestamp::now()).as_secs_f64());
            executor.tell_time_left(left);
            if let Event::Ended(cell, _, seconds) = &event {
                forecast.ended(&executor.cells()[*cell], *seconds);
            }
            let actions = executor
                .step(event)
                .map_err(|refused| Coded::error(self.made.here.code(), refused.to_string()))?;
            for action in actions {
                if let Action::Run(number, attempt) = action {
                    over = over.or_else(|| self.why_not_to_begin(going.count()));
                    if over.is_some() {
                        continue;
                    }
                    self.tell(executor, &action, going.count(), forecast);
                    let is_due = told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
                    if is_due {
                        told = Some(Instant::now());
                        let (conclusion, left) = (conclude(executor), forecast.seconds(executor));
                        self.store.put_status(self.store.seen(), conclusion, left, false);
                    }
                    let cell = executor.resolved(number);
                    events.extend(self.begin(number, &cell, attempt, journal, going)?);
                    continue;
                }
                self.tell(executor, &action, going.count(), forecast);
                if let Action::Over(why) = action {
                    over = over.or(Some(why));
                }
            }
        }
        Ok(over.unwrap_or(Over::Complete))
    }

    /// Why no run may begin now; one that was not begun leaves nothing behind.
    fn why_not_to_begin(&self, going: usize) -> Option<Over> {
        if self.is_asked(false) {
            return Some(Over::Stopped);
        }
        if let Some((free, needed)) = self.room.lacking(self.store, going) {
            tell(&format!(
                "error: the results of the next run may not fit on the disk: {} has {free} free, \
                 and {needed} are kept for them\n  = help: make room there, or name another \
                 directory with -o; the same command goes on where this one ends",
                self.store.path().display()
            ));
            return Some(Over::NoRoom);
        }
        self.host.as_ref().is_some_and(Host::is_left).then_some(Over::Left)
    }

    fn tell(&self, executor: &Executor<'_>, action: &Action, going: usize, forecast: &Forecast) {
        if !self.is_quiet {
            tell_action(executor, action, going, forecast);
        }
    }

    /// Begins an attempt at a cell. Where this machine replays, it is done at once.
    fn begin<'d>(
        &'d self,
        number: usize,
        cell: &Cell,
        attempt: u32,
        journal: &mut JournalFile,
        going: &mut Going<'_, 'd>,
    ) -> anyhow::Result<Option<Event>> {
        journal.add(Happening::Attempt { key: cell.key.clone(), attempt })?;
        let place = self.store.begin(cell, attempt)?;
        let stored = Attempt {
            version: ATTEMPT_VERSION,
            key: cell.key.clone(),
            attempt,
            started: Timestamp::now().to_string(),
            seconds: 0.0,
            command: Vec::new(),
            end: End::Stopped,
            summary_sha256: None,
            summaries_sha256: BTreeMap::new(),
            environment: environment(),
        };
        let free = Room::free(self.store);
        let mut ended = Ended { cell: number, stored, place: place.clone(), free };
        let Some(hosts) = self.hosts.as_ref().filter(|_| !cell.hosts.is_empty()) else {
            ended.stored.end = self.end_of_attempt(cell, &place, &mut ended.stored)?;
            return self.ended(ended, journal).map(Some);
        };
        match Task::new(self.made, cell, self.destroy, place) {
            Ok(task) => {
                going.begin(hosts, task, ended)?;
                Ok(None)
            }
            Err(reason) => self.ended(ended.with(End::Failed(reason)), journal).map(Some),
        }
    }

    /// Stores an attempt that has ended.
    fn ended(&self, ended: Ended, journal: &mut JournalFile) -> anyhow::Result<Event> {
        let Ended { cell, stored, place, free } = ended;
        store::end(&place, &stored)?;
        let Attempt { key, attempt, seconds, end, .. } = stored;
        journal.add(Happening::Ended { key, attempt, seconds })?;
        self.room.count(self.store, free);
        Ok(Event::Ended(cell, end, seconds))
    }

    /// Sets up what a cell needs, and does its replays.
    fn end_of_attempt(
        &self,
        cell: &Cell,
        place: &OpenDirectory,
        stored: &mut Attempt,
    ) -> anyhow::Result<End> {
        if let Err(reason) = self.is_still_the_same(cell) {
            return Ok(End::Failed(reason));
        }
        let begun = Instant::now();
        let raised = self.raised(cell);
        stored.seconds += begun.elapsed().as_secs_f64();
        let mut end = match raised {
            Ok(on) => self.replays(cell, &on, place, stored)?,
            Err(fault) => end_of(&fault),
        };
        self.collect(place, &mut end)?;
        Ok(end)
    }

    /// Where the replays of a cell run.
    fn raised(&self, cell: &Cell) -> Result<On, Fault> {
        let may_destroy = self.destroy.contains(&cell.device);
        let file = &self.made.plan.file;
        let devices = file.device(&cell.device).map_or_else(Vec::new, |it| file.devices_of(it));
        let of_members = cell.members.iter().zip(&devices);
        let mut targets: Vec<(String, bool)> = of_members
            .map(|(target, device)| {
                (target.clone(), may_destroy || self.destroy.contains(&device.name))
            })
            .collect();
        if targets.is_empty() {
            targets.push((cell.target.clone(), may_destroy));
        }
        let Some(host) = &self.host else { return Ok(On { launch: Vec::new(), targets }) };
        if cell.identity.stack.is_empty() {
            // What another cell's stack set up is not this one's.
            host.clear()?;
            return Ok(On { launch: Vec::new(), targets });
        }
        let bottom = host.bottom(cell, may_destroy)?;
        let place = host.raise(&cell.identity.stack, &bottom, (cell.branch, cell.repeat))?;
        let targets = place.volumes.into_iter().map(|volume| (volume.path, volume.may_lose));
        Ok(On { launch: place.launch, targets: targets.collect() })
    }

    /// Keeps what the modules have to say with the results.
    fn collect(&self, place: &OpenDirectory, end: &mut End) -> anyhow::Result<()> {
        let Some(host) = &self.host else { return Ok(()) };
        match host.collect() {
            Ok(texts) => {
                for (name, text) in texts {
                    place.put(&name, text.as_bytes())?;
                }
            }
            Err(fault) if matches!(end, End::Measured(_)) => *end = end_of(&fault),
            Err(_) => {}
        }
        Ok(())
    }

    /// Does the replays of a cell, one after the other.
    fn replays(
        &self,
        cell: &Cell,
        on: &On,
        place: &OpenDirectory,
        stored: &mut Attempt,
    ) -> anyhow::Result<End> {
        // A run's own directory is named from the root, because the run begins elsewhere.
        let above = std::path::absolute(place.path())?;
        let store = std::path::absolute(self.store.path())?;
        let words = |part: usize, name: &str| {
            child::words(&cell.replays()[part], &on.targets, &above.join(name), &store)
        };
        let program = on.launch.iter().cloned().chain(command::words().into_iter().take(1));
        let first = words(0, &course::directory(cell, 0, 1));
        stored.command = program.chain(first).collect();
        replays(cell, stored, |replay| {
            let words = words(replay.part, replay.name);
            let simulated = on.targets.iter().any(|(path, _)| is_simulated(path));
            let mut begun = Begun::of(&above.join(replay.name), simulated);
            let (mut until, mut fault) = (0.0, None);
            let mut asked = || {
                if let Some(now) = self.host.as_ref().and_then(|_| begun.seconds()) {
                    let beside = self.host.as_ref().filter(|_| fault.is_none());
                    let span = until..now;
                    until = now;
                    fault = fault.take().or(beside.and_then(|host| host.beside(&span).err()));
                }
                fault.is_some() || self.is_asked(true)
            };
            let (base, running) = (self.made.here.base(), self.running);
            let mut came =
                child::run(&on.launch, &words, place, replay.name, base, running, &mut asked)?;
            if let Some(warmup) = cell.replays()[replay.part].warmup() {
                came.end = child::without_warmup(came.end, &above.join(replay.name), warmup);
            }
            let is_measured = matches!(came.end, End::Measured(_));
            let took = begun.seconds().unwrap_or(0.0);
            let ended = self.host.as_ref().map_or(Ok(()), |host| host.ended(took));
            // A replay that failed tells more than what could not be done beside it.
            match fault.or(ended.err().filter(|_| is_measured)) {
                Some(fault) => Ok(Came { end: end_of(&fault), seconds: 0.0, summary_sha256: None }),
                None => Ok(came),
            }
        })
    }

    /// Whether the device and the programs are those that the plan means: another device may have
    /// the path by now, and somebody may have edited a script.
    fn is_still_the_same(&self, cell: &Cell) -> Result<(), String> {
        let (here, file) = (&self.made.here, &self.made.plan.file);
        let devices = file.device(&cell.device).map_or_else(Vec::new, |it| file.devices_of(it));
        let mut now = Vec::new();
        for (number, device) in devices.iter().enumerate() {
            let target = cell.members.get(number).unwrap_or(&cell.target);
            now.push(here.device_now(target, &device.proof)?);
        }
        if now.join(" + ") != cell.identity.device {
            let target = &cell.target;
            return Err(format!("{target} is another device than when the campaign was planned"));
        }
        let mut programs = cell.identity.stack.iter().flat_map(|placed| &placed.programs);
        match programs.find(|(name, hash)| here.program(name).as_ref() != Some(hash)) {
            Some((name, _)) => Err(format!(
                "{name} is another program than when the campaign was planned; run it again"
            )),
            None => Ok(()),
        }
    }
}

/// Facts of the host that may change between runs.
pub(super) fn environment() -> BTreeMap<String, String> {
    let HostDescription { hostname, kernel_release, cpu_governor, clocksource, .. } =
        HostDescription::collect();
    let ioecho = Some(env!("CARGO_PKG_VERSION").to_owned());
    let facts = [
        ("host", hostname),
        ("kernel", kernel_release),
        ("governor", cpu_governor),
        ("clocksource", clocksource),
        ("ioecho", ioecho),
    ];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
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
    if over == Over::Left {
        return exit::MACHINE_CHANGED;
    }
    if conclusion.counts.failed > 0 {
        return exit::CELLS_FAILED;
    }
    match over {
        Over::Left => exit::MACHINE_CHANGED,
        Over::NoRoom => exit::OUTPUT,
        Over::Stopped | Over::Budget | Over::Deadline => exit::INCOMPLETE,
        // Whether an expectation holds of figures that may not be used says nothing.
        Over::Complete | Over::Aborted if conclusion.useless() > 0 => exit::INVALID,
        Over::Complete | Over::Aborted if !conclusion.broken.is_empty() => exit::REQUIRED,
        // A criterion that is met says that something became worse.
        Over::Complete | Over::Aborted
            if conclusion.against.iter().any(|it| !it.met.is_empty()) =>
        {
            exit::CRITERION_MET
        }
        Over::Complete | Over::Aborted => exit::OK,
    }
}

const fn told_over(over: Over) -> &'static str {
    match over {
        Over::Complete => "every cell is settled",
        Over::Stopped => "somebody asked for the end, or a replay could not store its results",
        Over::Budget => "the budget is used up",
        Over::Deadline => "the next runs would end after the deadline",
        Over::NoRoom => "the results of the next run may not fit on the disk",
        Over::Aborted => "an expectation does not hold",
        Over::Left => "the machine is not as it was found",
    }
}

/// A line for each thing that is settled or begins.
fn tell_action(executor: &Executor<'_>, action: &Action, going: usize, forecast: &Forecast) {
    let states = executor.states();
    match action {
        Action::Run(cell, attempt) => {
            let is_settled = |state: &&State| !matches!(state, State::Missing | State::Running);
            let number = states.iter().filter(is_settled).count() + going + 1;
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            let left = forecast.seconds(executor).map(forecast::left);
            let left = left.map(|it| format!(" ({it})")).unwrap_or_default();
            let name = executor.cells()[*cell].name();
            tell(&format!("{number}/{}: {name}{again}{left}", states.len()));
        }
        Action::Settled(cell) => {
            let told = match &states[*cell] {
                State::Done(_, measured) => {
                    let p99 = measured.figures.get("p99.all.response");
                    let p99 = p99.filter(|_| !measured.is_useless());
                    let p99 = p99.map(|ns| format!(", p99 {}", Nanos(*ns as i64)));
                    format!("{}{}", measured.word(), p99.unwrap_or_default())
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
    for (cell, reason) in conclusion.invalid.iter().take(report::NOTES_MAX) {
        writeln!(out, "invalid       {cell}: {reason}")?;
    }
    if conclusion.invalid.len() > report::NOTES_MAX {
        let more = conclusion.invalid.len() - report::NOTES_MAX;
        writeln!(out, "invalid       {more} cells more")?;
    }
    for broken in &conclusion.broken {
        writeln!(out, "broken        {}: {}", broken.cell, broken.told())?;
    }
    for against in &conclusion.against {
        let met = against.met.iter().map(|it| format!("; {it}"));
        writeln!(out, "baseline      {}{}", against.conclusion, met.collect::<String>())?;
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
