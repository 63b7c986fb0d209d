//! An attempt at a cell whose members are on other hosts.

#![expect(
    clippy::result_large_err,
    reason = "an attempt ends once, and a measured end is handed on"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::attempt::{ATTEMPT_VERSION, Attempt, End, Measured};
use ioecho_campaign::clock::Compared;
use ioecho_campaign::conversation::{Conversation, Outcome, Replayed, Trouble, zero};
use ioecho_campaign::course;
use ioecho_campaign::file::{Device, FROM_STACK, File, Parallel};
use ioecho_campaign::ground::Fault;
use ioecho_campaign::plan::{Cell, Ground as _, Member, is_simulated};
use ioecho_campaign::protocol::{DeviceThere, FileThere, FromAgent, LoadThere, RunName, ToAgent};
use ioecho_linux::{HostDescription, OpenDirectory};
use ioecho_run::directory::{PAGE, RunDirectory, is_file_of_run};
use ioecho_run::merge::{self, Together};
use ioecho_run::named::file_named;
use ioecho_run::place::unwritable;
use ioecho_run::{digest, page, regular, stored};
use ioecho_stats::begun::Begun;
use ioecho_stats::judge::START_SKEW;
use ioecho_stats::run_summary::{ByKind, RunSummary};
use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

use super::link::now_ns;
use super::party::{Party, Unreached};
use super::several::several;
use super::{Hosts, bulk};
use crate::commands::campaign::child::Came;
use crate::commands::campaign::flags;
use crate::commands::campaign::plan::Made;
use crate::commands::campaign::replays::replays;
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

/// How a replay was begun, as it is stored at that instant, and again when it has ended:
/// `begun.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBegun {
    version: u32,
    /// For each member the instant that it was told, and the comparison of the clocks before.
    members: Vec<(String, i64, Compared)>,
    /// The comparisons of the clocks after it, once it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    after: Vec<Compared>,
}

/// Replays that an earlier attempt has begun, and what of them is to be fetched yet.
struct Left {
    run: RunName,
    replayed: Vec<Replayed>,
    /// The directory of the attempt.
    from: PathBuf,
}

/// The name of its file.
const BEGUN: &str = "begun.json";

/// Either a value, or the end of the attempt without one.
pub(super) type Or<T> = Result<T, End>;

/// A load of a member of a cell.
#[derive(Clone, Debug)]
enum Load {
    /// A generator's line, or another text that needs no file.
    Text(String),
    /// A file of this machine, with its SHA-256.
    File(PathBuf, String),
}

/// What an attempt at a cell needs. It is on its own while others go on.
pub(in super::super) struct Task<'a> {
    pub(in super::super) file: &'a File,
    pub(in super::super) cell: Cell,
    /// The devices whose data may be lost.
    pub(super) destroy: &'a [String],
    /// The loads of each replay, for each member.
    loads: Vec<Vec<Load>>,
    /// The programs of its stack, which are sent as well.
    programs: Vec<Program>,
    pub(in super::super) place: OpenDirectory,
}

impl<'a> Task<'a> {
    /// The attempt at a cell, whose results go to `place`; the error says why there can be none.
    pub(in super::super) fn new(
        made: &'a Made,
        cell: &Cell,
        destroy: &'a [String],
        place: OpenDirectory,
    ) -> Result<Self, String> {
        let load = |member: &Member| {
            let known = made.here.load(&member.trace)?;
            let Some(sha256) = known.strip_prefix("sha256:") else {
                return Ok(Load::Text(member.trace.clone()));
            };
            let path = file_named(&made.here.base().join(&member.trace));
            if path.is_dir() {
                return Err(format!("{} is a run, and hosts are sent files", path.display()));
            }
            Ok(Load::File(path, sha256.to_owned()))
        };
        let of_part = |part: &Cell| part.hosts.iter().map(load).collect();
        let loads = cell.replays().iter().map(of_part).collect::<Result<_, _>>()?;
        let programs = programs(made, cell);
        let file = &made.plan.file;
        Ok(Self { file, cell: cell.clone(), destroy, loads, programs, place })
    }

    /// The files that a member needs.
    fn files_of(&self, member: usize) -> Vec<(&Path, &str)> {
        let mut files: Vec<(&Path, &str)> = Vec::new();
        for loads in &self.loads {
            if let Some(Load::File(path, sha256)) = loads.get(member) {
                files.push((path, sha256));
            }
        }
        files.extend(self.programs.iter().map(|(path, sha256)| (&**path, &**sha256)));
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// A program of the campaign's directory, with its SHA-256.
pub(super) type Program = (PathBuf, String);

/// The programs of the campaign's directory that the stack of a cell runs.
fn programs(made: &Made, cell: &Cell) -> Vec<Program> {
    let all = cell.identity.stack.iter().flat_map(|placed| &placed.programs);
    let program = |(name, hash): (&String, &String)| {
        let sha256 = hash.strip_prefix("sha256:")?.to_owned();
        Some((made.here.base().join(name), sha256))
    };
    all.filter_map(program).collect()
}

impl Hosts<'_> {
    /// Makes sure that nothing is left on the hosts of these cells, and that everything can be set
    /// up there.
    pub(in super::super) fn prepare(
        &self,
        made: &Made,
        cells: &[&Cell],
        destroy: &[String],
    ) -> anyhow::Result<()> {
        let file = &made.plan.file;
        let names: BTreeSet<&str> = cells.iter().flat_map(|cell| cell.in_hand()).collect();
        let party = self.party(names, String::new());
        let mut party = party.map_err(|why| Coded::error(exit::REFUSED, why))?;
        party.reach_first()?;
        if file.parallel == Parallel::Host {
            party.tell_alike();
        }
        party.clear_all(file).map_err(|end| refused(&end))?;
        let mut seen = BTreeSet::new();
        for cell in cells {
            let (programs, may_lose) = (programs(made, cell), destroy.contains(&cell.device));
            let foreseen = party.foresee(file, cell, &programs, may_lose, &mut seen);
            foreseen.map_err(|end| refused(&end))?;
        }
        Ok(())
    }

    /// Does an attempt at a cell.
    pub(in super::super) fn attempt(
        &self,
        task: &Task<'_>,
        stored: &mut Attempt,
    ) -> anyhow::Result<End> {
        let Task { file, cell, place, .. } = task;
        let is_one_of_several = file.parallel == Parallel::Host;
        let of = if is_one_of_several { format!("{}: ", cell.name()) } else { String::new() };
        let mut party = match self.party(cell.in_hand(), of) {
            Ok(party) => party,
            Err(why) => return Ok(End::Fault(why)),
        };
        let (key, attempt) = (cell.key.clone(), stored.attempt);
        let mut end = party.attempted(task, stored)?;
        // Those that are still there.
        let is_there = |host: &usize| party.all[*host].link.is_some();
        let there: Vec<usize> = party.everybody().into_iter().filter(is_there).collect();
        let below = party.below(cell);
        let takes_part = |host: &usize| *host < cell.hosts.len() || below.contains(host);
        let parts: Vec<usize> = there.iter().copied().filter(takes_part).collect();
        if matches!(end, End::Measured(_))
            && let Err(other) = party.collect(&parts, place)?
        {
            end = other;
        }
        if party.keeps {
            return Ok(end);
        }
        let forget = vec![ToAgent::Drop { key, attempt }; there.len()];
        let talk = Conversation::asking(forget, now_ns(&party.clock));
        // What they keep is dropped another time.
        let _ = party.converse(&there, talk, false);
        Ok(end)
    }
}

impl Party<'_> {
    fn attempted(&mut self, task: &Task<'_>, stored: &mut Attempt) -> anyhow::Result<End> {
        let Task { file, cell, place, .. } = task;
        let begun = Instant::now();
        if let Err(end) = self.reach(&self.needed(cell), file.host_wait) {
            return Ok(end);
        }
        stored.environment = self.environment();
        let first = &cell.replays()[0];
        let words = ["ioecho", "replay"].map(str::to_owned).into_iter();
        stored.command = words.chain(flags::typed(first)).collect();
        let mut left = self.left(cell, place, stored.attempt);
        let loads = if left.is_some() { Ok(Vec::new()) } else { self.set_up(task) };
        let loads = match loads {
            Ok(loads) => loads,
            Err(end) => return Ok(end),
        };
        stored.seconds += begun.elapsed().as_secs_f64();
        let attempt = stored.attempt;
        replays(cell, stored, |replay| {
            let begun = Instant::now();
            let (run, replayed, earlier) = if let Some(left) = left.take() {
                tell("    the agents had finished it when the campaign ended");
                (left.run, left.replayed, Some(left.from))
            } else {
                let part = &cell.replays()[replay.part];
                let name = replay.name.to_owned();
                let run = RunName { key: cell.key.clone(), attempt, name };
                let arm = |(load, member): (&LoadThere, &Member)| ToAgent::Arm {
                    run: run.clone(),
                    flags: flags::typed_on(part, member),
                    load: load.clone(),
                    on_loss: file.on_loss,
                };
                let arms = loads[replay.part].iter().zip(&part.hosts).map(arm).collect();
                match self.together(cell, place, arms, file.start_skew) {
                    Ok(replayed) => (run, replayed, None),
                    Err(end) => return Ok(Came { end, seconds: 0.0, summary_sha256: None }),
                }
            };
            let seconds = begun.elapsed().as_secs_f64();
            let fetched = self.fetched(cell, place, &run, &replayed, earlier.as_deref());
            // What is not here yet the agents keep for the next attempt.
            self.keeps = fetched == Err(End::Stopped) && cell.parts.is_empty();
            let end = match fetched {
                Ok(()) => joined(cell, place, &run, &replayed, file.start_skew.0)?,
                Err(end) => Err(end),
            };
            let end = end.map_or_else(|end| end, End::Measured);
            let summary = place.path().join(&run.name).join("summary.json");
            Ok(Came { end, seconds, summary_sha256: digest::of_file(&summary).ok() })
        })
    }

    /// Brings the hosts of a cell its loads, and sets them up.
    fn set_up(&mut self, task: &Task<'_>) -> Or<Vec<Vec<LoadThere>>> {
        let loads = self.loads(task)?;
        self.raise(task)?;
        Ok(loads)
    }

    /// Reaches all hosts for the first time. What agents of an earlier process bring to its end is
    /// waited for, as long as it takes; nothing else is.
    fn reach_first(&mut self) -> anyhow::Result<()> {
        let (who, mut told) = (self.everybody(), BTreeSet::new());
        loop {
            let failed = self.connect(&who);
            let is_final = |(_, why): &&(usize, Unreached)| !matches!(why, Unreached::Busy(_));
            if let Some((host, why)) = failed.iter().find(is_final) {
                let text = format!("{}: there is no agent: {why}", self.name(*host));
                return Err(Coded::error(exit::TARGET, text));
            }
            let Some((host, why)) = failed.first() else { return Ok(()) };
            if self.is_asked() {
                return Err(refused(&End::Stopped));
            }
            if told.insert(*host) {
                tell(&format!("waiting for {}: {why}", self.name(*host)));
            }
            thread::sleep(TRY_EVERY);
        }
    }

    /// Reaches these hosts. Those that were lost are waited for.
    fn reach(&mut self, who: &[usize], wait: Nanos) -> Or<()> {
        let (begun, mut told) = (Instant::now(), BTreeSet::new());
        loop {
            let failed = self.connect(who);
            let Some((host, why)) = failed.first() else { return Ok(()) };
            let name = self.name(*host).to_owned();
            if self.is_asked() {
                return Err(End::Stopped);
            }
            if begun.elapsed().as_secs_f64() >= wait.as_secs_f64() {
                return Err(End::Fault(format!("host-lost: {name}: {why}")));
            }
            if told.insert(why.to_string()) {
                tell(&format!("waiting for {name}, {wait} at most: {why}"));
            }
            thread::sleep(TRY_EVERY);
        }
    }

    /// Warns of hosts that may be one machine, where cells on them go on together.
    fn tell_alike(&self) {
        let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for there in &self.all {
            let machine = there.facts.get("host").map_or("", String::as_str);
            named.entry(machine).or_default().push(&there.host.name);
        }
        for (machine, hosts) in named.into_iter().filter(|(_, hosts)| hosts.len() > 1) {
            let (first, count) = (hosts[0], hosts.len() - 1);
            tell(&format!(
                "warning: {first} and {count} more call themselves '{machine}': if they are one \
                 machine, their cells disturb each other (parallel)"
            ));
        }
    }

    /// Facts of the hosts of a cell that may change between runs.
    fn environment(&self) -> BTreeMap<String, String> {
        let mut facts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for there in &self.all {
            for (name, fact) in &there.facts {
                let known = facts.entry(name.clone()).or_default();
                if !known.contains(fact) {
                    known.push(fact.clone());
                }
            }
        }
        facts.into_iter().map(|(name, all)| (name, all.join(" · "))).collect()
    }

    /// Asks, where only answers are of use.
    pub(super) fn answers(&mut self, who: &[usize], questions: Vec<ToAgent>) -> Or<Vec<FromAgent>> {
        match self.ask(who, questions) {
            Outcome::Answers(answers) => Ok(answers),
            Outcome::Replayed(_) | Outcome::Compared(_) => {
                Err(End::Fault("it was no question".to_owned()))
            }
            Outcome::Trouble(at, trouble) => Err(self.end_of(at.map(|at| who[at]), &trouble)),
        }
    }

    fn together(
        &mut self,
        cell: &Cell,
        place: &OpenDirectory,
        mut arms: Vec<ToAgent>,
        skew_max: Nanos,
    ) -> Or<Vec<Replayed>> {
        let (mut who, below) = (Self::replaying(cell), self.below(cell));
        arms.resize(who.len() + below.len(), ToAgent::Attend);
        who.extend(below);
        let who = &who;
        let talk = Conversation::replay(arms, skew_max.0, now_ns(&self.clock));
        let mut begun = |all: Vec<(i64, Compared)>| {
            let of =
                |(member, (told_ns, before)): (&Member, _)| (member.host.clone(), told_ns, before);
            let members = cell.hosts.iter().zip(all).map(of).collect();
            StoredBegun { version: START_VERSION, members, after: Vec::new() }.put(place);
        };
        match self.converse_telling(who, talk, true, &mut begun) {
            Outcome::Replayed(all) => {
                let of = |(member, it): (&Member, &Replayed)| {
                    (member.host.clone(), it.told_ns, it.before)
                };
                let members = cell.hosts.iter().zip(&all).map(of).collect();
                let after = all.iter().filter_map(|it| it.after).collect();
                StoredBegun { version: START_VERSION, members, after }.put(place);
                Ok(all)
            }
            Outcome::Answers(_) | Outcome::Compared(_) => {
                Err(End::Fault("it was no replay".to_owned()))
            }
            Outcome::Trouble(at, trouble) => Err(self.end_of(at.map(|at| who[at]), &trouble)),
        }
    }

    /// What agents had finished when an earlier process of the campaign was killed, or ended before
    /// it had fetched everything. Of a cell of several replays nothing is used: the others would
    /// not follow without a pause.
    fn left(&mut self, cell: &Cell, place: &OpenDirectory, attempt: u32) -> Option<Left> {
        let who = &Self::replaying(cell);
        let before = attempt.checked_sub(1).filter(|_| cell.parts.is_empty())?;
        let path = place.path().parent()?.join(before.to_string());
        if let Ok(bytes) = regular::read(&path.join("attempt.json")) {
            let ended: Attempt = stored::from_json(&bytes, ATTEMPT_VERSION).ok()?;
            if ended.end != End::Stopped {
                return None;
            }
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
        let members = begun.members.iter().zip(answers).enumerate();
        let replayed = members.map(|(number, ((_, told_ns, before), answer))| {
            let FromAgent::Done { seconds, said, files } = answer else { return None };
            let (told_ns, before, after) = (*told_ns, *before, begun.after.get(number).copied());
            let zero_ns = zero(&before, after.as_ref(), told_ns).ok()?;
            Some(Replayed { told_ns, zero_ns, before, after, seconds, said, files })
        });
        Some(Left { run, replayed: replayed.collect::<Option<_>>()?, from: path })
    }

    /// What a trouble is to an attempt.
    pub(super) fn end_of(&self, host: Option<usize>, trouble: &Trouble) -> End {
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

    /// The loads of all replays of a cell on each of its hosts, which have them and the programs
    /// afterwards.
    fn loads(&self, task: &Task<'_>) -> Or<Vec<Vec<LoadThere>>> {
        let parts = Self::replaying(&task.cell).into_iter().chain(self.below(&task.cell));
        let to = |host: usize| (&self.all[host].host, task.files_of(host));
        let parts: Vec<_> = parts.map(to).filter(|(_, files)| !files.is_empty()).collect();
        let hosts = self.hosts;
        several(&parts, &|| hosts.is_asked(), |(host, files), ends| {
            let sent = bulk::send(host, &hosts.build, files, ends);
            sent.map_err(|why| why.end(&host.name))
        })?;
        let held = |load: &Load| match load {
            Load::Text(text) => LoadThere::Text(text.clone()),
            Load::File(path, sha256) => {
                LoadThere::Held { sha256: sha256.clone(), name: bulk::name_of(path) }
            }
        };
        Ok(task.loads.iter().map(|part| part.iter().map(held).collect()).collect())
    }

    /// Brings files to a host.
    pub(super) fn send(&self, host: usize, files: &[(&Path, &str)]) -> Or<()> {
        let there = &self.all[host].host;
        let sent = bulk::send(there, &self.hosts.build, files, &|| self.is_asked());
        sent.map_err(|why| why.end(&there.name))
    }

    /// Fetches the results of all hosts, of some at a time.
    fn fetched(
        &self,
        cell: &Cell,
        place: &OpenDirectory,
        run: &RunName,
        replayed: &[Replayed],
        earlier: Option<&Path>,
    ) -> Or<()> {
        let Hosts { build, campaign, .. } = self.hosts;
        let all: Vec<_> = self.all.iter().zip(&cell.hosts).zip(replayed).collect();
        let hosts = self.hosts;
        several(&all, &|| hosts.is_asked(), |((there, member), replayed), ends| {
            let by = |why: String| End::Fault(format!("{}: {why}", member.host));
            let into = directory(cell, place, &member.host, &run.name)
                .map_err(|error| by(error.to_string()))?;
            // A page of another machine would be opened with whatever it holds.
            let is_page = |file: &&FileThere| file.name == PAGE;
            let (_, files): (Vec<&FileThere>, Vec<&FileThere>) =
                replayed.files.iter().partition(is_page);
            if let Some(odd) = files.iter().find(|file| !is_file_of_run(&file.name)) {
                return Err(by(format!("{} is no file of a run", odd.name)));
            }
            let earlier = earlier.map(|from| from.join(run_of(cell, &member.host, &run.name)));
            let (files, into, earlier) = (&*files, &into, earlier.as_deref());
            let fetching = bulk::Fetching { campaign, run, files, into, earlier };
            let fetched = bulk::fetch(&there.host, build, &fetching, ends);
            fetched.map_err(|why| why.end(&member.host))?;
            is_that_replay(into.path(), &member.target, replayed).map_err(by)
        })
        .map(drop)
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

/// The same, below that of an attempt.
fn run_of(cell: &Cell, host: &str, run: &str) -> PathBuf {
    if cell.hosts.len() == 1 { run.into() } else { Path::new(HOSTS).join(host).join(run) }
}

impl StoredBegun {
    fn put(&self, place: &OpenDirectory) {
        // Without it the results count as well, unless this process ends before they are here.
        let _ = serde_json::to_vec(self).map(|bytes| place.put(BEGUN, &bytes));
    }
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

pub(super) fn there(device: Option<&Device>, target: &str, may_lose: bool) -> DeviceThere {
    let path = (target != FROM_STACK).then(|| target.to_owned());
    let proof = device.map(|device| device.proof.clone()).unwrap_or_default();
    DeviceThere { path, proof, may_lose, handed: Vec::new() }
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
    let summary = run.as_ref().map(RunDirectory::read_summary);
    if let (Some(run), Some(Ok(summary)), 1) = (&run, &summary, cell.hosts.len()) {
        // What cannot be drawn is no run, whatever its host says.
        let drawn = page::of_run(run, summary).and_then(|drawn| page::write(run, &drawn));
        if let Err(error) = drawn {
            return Ok(Err(End::Fault(format!("its results cannot be drawn: {error}"))));
        }
    }
    Ok(match summary {
        Some(Ok(summary)) => {
            tell_hosts(cell, place, &run_name, &summary);
            match End::of_run(&summary) {
                End::Measured(measured) => Ok(measured),
                end => Err(end),
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
