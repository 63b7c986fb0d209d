//! An attempt at a cell whose members are on other hosts.

#![expect(
    clippy::result_large_err,
    reason = "an attempt ends once, and a measured end is handed on"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::attempt::{Attempt, End, Measured};
use ioecho_campaign::clock::Compared;
use ioecho_campaign::conversation::{Conversation, Outcome, Replayed, Trouble, zero};
use ioecho_campaign::course;
use ioecho_campaign::file::{Device, FROM_STACK};
use ioecho_campaign::ground::Fault;
use ioecho_campaign::plan::{Cell, Ground as _, Member, is_simulated};
use ioecho_campaign::protocol::{DeviceThere, FromAgent, LoadThere, RunName, ToAgent};
use ioecho_linux::{HostDescription, OpenDirectory};
use ioecho_run::directory::RunDirectory;
use ioecho_run::merge::{self, Together};
use ioecho_run::named::file_named;
use ioecho_run::place::unwritable;
use ioecho_run::{digest, regular, stored};
use ioecho_stats::begun::Begun;
use ioecho_stats::judge::START_SKEW;
use ioecho_stats::run_summary::{ByKind, RunSummary};
use ioecho_stats::verdict::Finding;
use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

use super::link::now_ns;
use super::{Hosts, bulk};
use crate::commands::campaign::flags;
use crate::commands::campaign::plan::Made;
use crate::commands::campaign::setting_up::end_of;
use crate::exit::{self, Coded};
use crate::print::tell;

/// Where the runs of hosts lie, below the directory of the attempt.
pub(in super::super) const HOSTS: &str = "hosts";

/// The version of `start.json`.
const START_VERSION: u32 = 1;

/// How long it is waited before a host is tried again.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// How a replay on several hosts began.
#[derive(Serialize)]
struct StoredStart<'a> {
    version: u32,
    /// Whose clock the instants are on.
    axis: &'a str,
    hosts: Vec<StoredZero<'a>>,
}

#[derive(Serialize)]
struct StoredZero<'a> {
    host: &'a str,
    /// The instant that it was told, on its own clock, ns.
    told_ns: i64,
    /// The same on the axis: at least and at most, ns.
    zero_ns: (i64, i64),
    /// The comparison of the clocks before, and after if there is one.
    before: Compared,
    after: Option<Compared>,
}

/// How a replay was begun, as it is stored at that instant: `begun.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBegun {
    version: u32,
    /// For each member the instant that it was told, and the comparison of the clocks before.
    members: Vec<(String, i64, Compared)>,
}

/// The name of its file.
const BEGUN: &str = "begun.json";

/// Either a value, or the end of the attempt without one.
type Or<T> = Result<T, End>;

impl Hosts<'_> {
    /// Makes sure that nothing is left on the hosts of these cells, and that everything can be set
    /// up there.
    pub(in super::super) fn prepare(
        &mut self,
        made: &Made,
        cells: &[&Cell],
        destroy: &[String],
    ) -> anyhow::Result<()> {
        let who: BTreeSet<usize> = cells.iter().flat_map(|cell| self.who(cell)).collect();
        let who: Vec<usize> = who.into_iter().collect();
        if let Some((host, why)) = self.connect(&who).into_iter().next() {
            let text = format!("{}: there is no agent: {why}", self.name(host));
            return Err(Coded::error(exit::TARGET, text));
        }
        let undo = vec![ToAgent::Undo; who.len()];
        self.answers(&who, undo).map_err(|end| refused(&end))?;
        let mut seen = BTreeSet::new();
        for cell in cells {
            let device = made.plan.file.device(&cell.device);
            for (host, member) in self.who(cell).into_iter().zip(&cell.hosts) {
                if !seen.insert((host, &member.target, &cell.identity.stack)) {
                    continue;
                }
                let device = there(device, &member.target, destroy.contains(&cell.device));
                let stack = cell.identity.stack.clone();
                let check = vec![ToAgent::Check { stack, device }];
                self.answers(&[host], check).map_err(|end| refused(&end))?;
            }
        }
        Ok(())
    }

    /// The numbers of the hosts of a cell, in the order of its members.
    fn who(&self, cell: &Cell) -> Vec<usize> {
        cell.hosts.iter().filter_map(|member| self.number(&member.host)).collect()
    }

    /// Does an attempt at a cell.
    pub(in super::super) fn attempt(
        &mut self,
        made: &Made,
        cell: &Cell,
        destroy: &[String],
        place: &OpenDirectory,
        stored: &mut Attempt,
    ) -> anyhow::Result<End> {
        let who = self.who(cell);
        let (key, attempt) = (cell.key.clone(), stored.attempt);
        let mut end = match self.attempted(made, cell, destroy, place, stored, &who) {
            Ok(end) => end?,
            Err(end) => end,
        };
        // Those that are still there.
        let there: Vec<usize> =
            who.into_iter().filter(|host| self.all[*host].link.is_some()).collect();
        if matches!(end, End::Measured(_))
            && let Err(other) = self.collect(&there, place)?
        {
            end = other;
        }
        let forget = vec![ToAgent::Drop { key, attempt }; there.len()];
        let talk = Conversation::asking(forget, now_ns(&self.clock));
        // What they keep is dropped another time.
        let _ = self.converse(&there, talk, false);
        Ok(end)
    }

    fn attempted(
        &mut self,
        made: &Made,
        cell: &Cell,
        destroy: &[String],
        place: &OpenDirectory,
        stored: &mut Attempt,
        who: &[usize],
    ) -> Or<anyhow::Result<End>> {
        let begun = Instant::now();
        self.reach(who, made.plan.file.host_wait)?;
        stored.environment = self.environment(who);
        let device = made.plan.file.device(&cell.device);
        let may_lose = destroy.contains(&cell.device);
        let loads = self.loads(made, cell, who)?;
        let apply = cell.hosts.iter().map(|member| ToAgent::Apply {
            stack: cell.identity.stack.clone(),
            device: there(device, &member.target, may_lose),
            turn: (cell.branch, cell.repeat),
        });
        let has_stack = !cell.identity.stack.is_empty();
        for host in who {
            self.all[*host].is_set_up |= has_stack;
        }
        self.answers(who, apply.collect())?;
        stored.seconds += begun.elapsed().as_secs_f64();
        let mut results = Vec::new();
        if let Some((run, replayed)) = self.left(cell, place, stored.attempt, who) {
            match self.kept(cell, place, &run, &replayed, made.plan.file.start_skew.0, who)? {
                Ok(measured) => {
                    tell("    the agents had finished it when the campaign was lost");
                    let run = place.path().join(&run.name);
                    stored.summary_sha256 = digest::of_file(&run.join("summary.json")).ok();
                    results.push(measured);
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        loop {
            let (part, round) = match course::next(cell, &results) {
                course::Next::Run(part, round) => (part, round),
                course::Next::Over(measured) => return Ok(Ok(End::Measured(*measured))),
            };
            let name = course::directory(cell, part, round);
            let flags = flags::typed(&cell.replays()[part]);
            if stored.command.is_empty() {
                let words = ["ioecho", "replay"].map(str::to_owned).into_iter();
                stored.command = words.chain(flags.iter().cloned()).collect();
            }
            let run = RunName { key: cell.key.clone(), attempt: stored.attempt, name };
            let begun = Instant::now();
            let loads = loads[part].iter();
            let arm = |load: &LoadThere| ToAgent::Arm {
                run: run.clone(),
                flags: flags.clone(),
                load: load.clone(),
            };
            let skew_max = made.plan.file.start_skew;
            let arms = loads.map(arm).collect();
            let replayed = self.together(cell, place, who, arms, skew_max)?;
            stored.seconds += begun.elapsed().as_secs_f64();
            let kept = self.kept(cell, place, &run, &replayed, skew_max.0, who)?;
            let measured = match kept {
                Ok(measured) => measured,
                Err(error) => return Ok(Err(error)),
            };
            let digits = digest::of_file(&place.path().join(&run.name).join("summary.json")).ok();
            if cell.parts.is_empty() {
                stored.summary_sha256 = digits;
            } else if let Some(digits) = digits {
                stored.summaries_sha256.insert(run.name.clone(), digits);
            }
            results.push(measured);
        }
    }

    /// Reaches all hosts of a cell. Those that were lost are waited for.
    fn reach(&mut self, who: &[usize], wait: Nanos) -> Or<()> {
        let (begun, mut told) = (Instant::now(), BTreeSet::new());
        loop {
            let failed = self.connect(who);
            let Some((host, why)) = failed.first() else { return Ok(()) };
            let name = self.name(*host).to_owned();
            if (self.asked)() {
                return Err(End::Stopped);
            }
            if begun.elapsed().as_secs_f64() >= wait.as_secs_f64() {
                return Err(End::Fault(format!("host-lost: {name}: {why}")));
            }
            if told.insert(why.clone()) {
                tell(&format!("waiting for {name}, {wait} at most: {why}"));
            }
            thread::sleep(TRY_EVERY);
        }
    }

    /// Facts of the hosts of a cell that may change between runs.
    fn environment(&self, who: &[usize]) -> BTreeMap<String, String> {
        let mut facts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for host in who {
            for (name, fact) in &self.all[*host].facts {
                let known = facts.entry(name.clone()).or_default();
                if !known.contains(fact) {
                    known.push(fact.clone());
                }
            }
        }
        facts.into_iter().map(|(name, all)| (name, all.join(" · "))).collect()
    }

    /// Asks, where only answers are of use.
    fn answers(&mut self, who: &[usize], questions: Vec<ToAgent>) -> Or<Vec<FromAgent>> {
        match self.ask(who, questions) {
            Outcome::Answers(answers) => Ok(answers),
            Outcome::Replayed(_) => Err(End::Fault("it was a replay".to_owned())),
            Outcome::Trouble(at, trouble) => Err(self.end_of(at.map(|at| who[at]), &trouble)),
        }
    }

    fn together(
        &mut self,
        cell: &Cell,
        place: &OpenDirectory,
        who: &[usize],
        arms: Vec<ToAgent>,
        skew_max: Nanos,
    ) -> Or<Vec<Replayed>> {
        let talk = Conversation::replay(arms, skew_max.0, now_ns(&self.clock));
        let mut begun = |all: Vec<(i64, Compared)>| {
            let of =
                |(member, (told_ns, before)): (&Member, _)| (member.host.clone(), told_ns, before);
            let members = cell.hosts.iter().zip(all).map(of).collect();
            let begun = StoredBegun { version: START_VERSION, members };
            // Without it the results count as well, unless this process is killed.
            let _ = serde_json::to_vec(&begun).map(|bytes| place.put(BEGUN, &bytes));
        };
        match self.converse_telling(who, talk, true, &mut begun) {
            Outcome::Replayed(all) => Ok(all),
            Outcome::Answers(_) => Err(End::Fault("it was no replay".to_owned())),
            Outcome::Trouble(at, trouble) => Err(self.end_of(at.map(|at| who[at]), &trouble)),
        }
    }

    /// What agents had finished when an earlier process of the campaign was killed. Of a cell of
    /// several replays nothing is used: the others would not follow without a pause.
    fn left(
        &mut self,
        cell: &Cell,
        place: &OpenDirectory,
        attempt: u32,
        who: &[usize],
    ) -> Option<(RunName, Vec<Replayed>)> {
        let before = attempt.checked_sub(1).filter(|_| cell.parts.is_empty())?;
        let path = place.path().parent()?.join(before.to_string());
        if path.join("attempt.json").exists() {
            return None;
        }
        let bytes = regular::read(&path.join(BEGUN)).ok()?;
        let begun: StoredBegun = stored::from_json(&bytes, START_VERSION).ok()?;
        let is_same =
            |(member, (host, ..)): (&Member, &(String, i64, Compared))| member.host == *host;
        if begun.members.len() != who.len() || !cell.hosts.iter().zip(&begun.members).all(is_same) {
            return None;
        }
        let name = course::directory(cell, 0, 1);
        let run = RunName { key: cell.key.clone(), attempt: before, name };
        let looks = vec![ToAgent::Look { run: run.clone() }; who.len()];
        let answers = self.answers(who, looks).ok()?;
        let replayed = begun.members.iter().zip(answers).map(|((_, told_ns, before), answer)| {
            let FromAgent::Done { seconds, said, files } = answer else { return None };
            let (told_ns, before, after) = (*told_ns, *before, None);
            let zero_ns = zero(&before, None, told_ns).ok()?;
            Some(Replayed { told_ns, zero_ns, before, after, seconds, said, files })
        });
        Some((run, replayed.collect::<Option<_>>()?))
    }

    /// Fetches the results of a replay, and makes one of them.
    fn kept(
        &self,
        cell: &Cell,
        place: &OpenDirectory,
        run: &RunName,
        replayed: &[Replayed],
        skew_max_ns: i64,
        who: &[usize],
    ) -> Or<anyhow::Result<Measured>> {
        self.fetched(cell, place, run, replayed, who)?;
        match joined(cell, place, run, replayed, skew_max_ns) {
            Ok(joined) => joined.map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// What a trouble is to an attempt.
    fn end_of(&self, host: Option<usize>, trouble: &Trouble) -> End {
        let name = host.map_or("", |host| self.name(host));
        let by = |text: &str| format!("{name}: {text}");
        match trouble {
            Trouble::Fault(fault) => end_of(&match fault {
                Fault::Refused(text) => Fault::Refused(by(text)),
                Fault::Lacking(text) => Fault::Lacking(by(text)),
                Fault::Failed(text) => Fault::Failed(by(text)),
                Fault::Stopped => Fault::Stopped,
            }),
            Trouble::HostLost(why) => End::Fault(format!("host-lost: {name}: {why}")),
            Trouble::Wrong(why) => End::Fault(format!("{name} cannot be trusted: {why}")),
            Trouble::Stopped => End::Stopped,
        }
    }

    /// The loads of all replays of a cell on each of its hosts, which have them afterwards.
    fn loads(&self, made: &Made, cell: &Cell, who: &[usize]) -> Or<Vec<Vec<LoadThere>>> {
        let mut sent = BTreeSet::new();
        let mut all = Vec::new();
        for part in cell.replays() {
            let mut of_part = Vec::new();
            for (host, member) in who.iter().zip(&part.hosts) {
                let known = made.here.load(&member.trace).map_err(End::Failed)?;
                let Some(sha256) = known.strip_prefix("sha256:") else {
                    of_part.push(LoadThere::Text(member.trace.clone()));
                    continue;
                };
                let path = file_named(&made.here.base().join(&member.trace));
                if path.is_dir() {
                    let text = format!("{} is a run, and hosts are sent files", path.display());
                    return Err(End::Failed(text));
                }
                if sent.insert((*host, sha256.to_owned())) {
                    let there = &self.all[*host].host;
                    bulk::send(there, &self.build, &path, sha256)
                        .map_err(|why| End::Fault(format!("{}: {why}", there.name)))?;
                }
                let (sha256, name) = (sha256.to_owned(), bulk::name_of(&path));
                of_part.push(LoadThere::Held { sha256, name });
            }
            all.push(of_part);
        }
        Ok(all)
    }

    /// Fetches the results of all hosts.
    fn fetched(
        &self,
        cell: &Cell,
        place: &OpenDirectory,
        run: &RunName,
        replayed: &[Replayed],
        who: &[usize],
    ) -> Or<()> {
        for ((host, member), replayed) in who.iter().zip(&cell.hosts).zip(replayed) {
            let there = &self.all[*host].host;
            let by = |why: String| End::Fault(format!("{}: {why}", member.host));
            let into = directory(cell, place, &member.host, &run.name)
                .map_err(|error| by(error.to_string()))?;
            bulk::fetch(there, &self.build, &self.campaign, run, &replayed.files, &into)
                .map_err(by)?;
            is_that_replay(into.path(), &member.target, replayed).map_err(by)?;
        }
        Ok(())
    }

    /// Keeps what modules have to say with the results.
    fn collect(&mut self, who: &[usize], place: &OpenDirectory) -> anyhow::Result<Or<()>> {
        let answers = match self.answers(who, vec![ToAgent::Collect; who.len()]) {
            Ok(answers) => answers,
            Err(end) => return Ok(Err(end)),
        };
        for (host, answer) in who.iter().zip(answers) {
            let FromAgent::Kept { texts } = answer else { continue };
            for (name, text) in texts {
                let name = format!("{}-{name}", self.name(*host));
                let put = place.put(&name, text.as_bytes());
                put.map_err(|error| unwritable(&place.path().join(&name), &error))?;
            }
        }
        Ok(Ok(()))
    }
}

/// The 99th percentile of all requests of a run, as users waited for them where that is known.
pub(in super::super) fn p99(summary: &RunSummary) -> Option<Nanos> {
    let all = |kinds: &ByKind| kinds.get("all").and_then(|it| it.p99_ns);
    let ns = all(&summary.response_time).or_else(|| all(&summary.service_time))?;
    Some(Nanos(i64::try_from(ns).unwrap_or(i64::MAX)))
}

/// Whose clock instants of several hosts are told on.
fn axis() -> String {
    let HostDescription { hostname, boot_id, .. } = HostDescription::collect();
    let known = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
    format!("CLOCK_MONOTONIC of {}, boot {}", known(hostname), known(boot_id))
}

/// The directory of a host's run. Where it is the only one, it is the run of the attempt.
fn directory(
    cell: &Cell,
    place: &OpenDirectory,
    host: &str,
    run: &str,
) -> std::io::Result<OpenDirectory> {
    if cell.hosts.len() == 1 {
        return place.make_in(run);
    }
    let made = |above: &OpenDirectory, name: &str| match above.make_in(name) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            OpenDirectory::open(&above.path().join(name))
        }
        made => made,
    };
    made(&made(place, HOSTS)?, host)?.make_in(run)
}

/// Refuses results of another replay than the one that was asked for.
fn is_that_replay(run: &Path, target: &str, replayed: &Replayed) -> Result<(), String> {
    let unread = || "its results are no run".to_owned();
    let facts = RunDirectory::at(run).ok_or_else(unread)?.read_facts();
    let facts = facts.map_err(|error| error.to_string())?;
    if !is_simulated(target) && facts.zero_monotonic_ns != Some(replayed.told_ns) {
        return Err("its results are those of another replay: it began at another instant".into());
    }
    Ok(())
}

fn there(device: Option<&Device>, target: &str, may_lose: bool) -> DeviceThere {
    let path = (target != FROM_STACK).then(|| target.to_owned());
    let proof = device.map(|device| device.proof.clone()).unwrap_or_default();
    DeviceThere { path, proof, may_lose }
}

/// A campaign that cannot begin for this reason.
fn refused(end: &End) -> anyhow::Error {
    match end {
        End::Stopped => Coded::error(exit::INCOMPLETE, "somebody asked for the end"),
        End::Fault(text) | End::Failed(text) => Coded::error(exit::REFUSED, text.clone()),
        End::Measured(_) => Coded::error(exit::REFUSED, "it has begun already"),
    }
}

/// The results of all hosts as those of one run. The outer error is one of this machine.
fn joined(
    cell: &Cell,
    place: &OpenDirectory,
    run: &RunName,
    replayed: &[Replayed],
    skew_max_ns: i64,
) -> anyhow::Result<Or<Measured>> {
    let axis = axis();
    let hosts = cell.hosts.iter().zip(replayed).map(|(member, it)| StoredZero {
        host: &member.host,
        told_ns: it.told_ns,
        zero_ns: it.zero_ns,
        before: it.before,
        after: it.after,
    });
    let start = StoredStart { version: START_VERSION, axis: &axis, hosts: hosts.collect() };
    let name = if run.name == "run" {
        "start.json".to_owned()
    } else {
        format!("{}-start.json", run.name)
    };
    let put = place.put(&name, &serde_json::to_vec_pretty(&start)?);
    put.map_err(|error| unwritable(&place.path().join(&name), &error))?;
    let output = place.path().join(&run.name);
    if cell.hosts.len() > 1 {
        let all = cell.hosts.iter().zip(replayed).map(|(member, it)| {
            let (low, high) = it.zero_ns;
            let begun = Begun {
                axis: axis.clone(),
                zero_ns: low.midpoint(high),
                bound_ns: high.saturating_sub(low) / 2 + 1,
                first_late_ns: None,
                skew_max_ns,
            };
            let path = place.path().join(HOSTS).join(&member.host).join(&run.name);
            Together { path, name: member.host.clone(), begun }
        });
        let command = crate::run::command::words();
        // What hosts gave cannot be put together: that is their fault, not this machine's.
        if let Err(error) = merge::of_hosts(&all.collect::<Vec<_>>(), &output, command) {
            return Ok(Err(End::Fault(format!("the runs make no whole: {error}"))));
        }
    }
    let run_name = run.name.clone();
    let run = RunDirectory::at(&output);
    let summary = run.map(|run| run.read_summary());
    Ok(match summary {
        Some(Ok(summary)) => {
            tell_hosts(cell, place, &run_name, &summary);
            let measured = Measured::of(&summary);
            match measured.finding {
                Finding::Incomplete => Err(End::Fault(measured.summary)),
                _ => Ok(measured),
            }
        }
        Some(Err(error)) => Err(End::Fault(error.to_string())),
        None => Err(End::Fault("there is no run".to_owned())),
    })
}

/// Tells how far apart the hosts of a cell began, and which was the slowest.
fn tell_hosts(cell: &Cell, place: &OpenDirectory, run: &str, whole: &RunSummary) {
    let mut slow = Vec::new();
    for member in &cell.hosts {
        let path = place.path().join(HOSTS).join(&member.host).join(run);
        let summary = RunDirectory::at(&path).and_then(|run| run.read_summary().ok());
        slow.extend(summary.as_ref().and_then(p99).map(|p99| (p99, &member.host)));
    }
    slow.sort();
    let Some((p99, slowest)) = slow.last().filter(|_| slow.len() > 1) else { return };
    let middle = slow[slow.len() / 2].0;
    let skew = whole.verdict.check(START_SKEW).map_or("", |check| &check.measured);
    tell(&format!(
        "    {} hosts: {skew}; the slowest is {slowest}, p99 {p99} (median of hosts {middle})",
        cell.hosts.len()
    ));
}
