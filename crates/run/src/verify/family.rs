//! Families: runs one after the other that share what they know of their targets (`--family`).
//!
//! A workload is many runs, and what one of them wrote is what the next one reads. So the runs of a
//! family have one directory, which names them in their order and keeps, for each target, what its
//! sectors may hold: a run begins with that, and leaves it for the next when it ends. A run that
//! was killed leaves nothing; then its journal and its ring are read, as `ioecho verify` does. Runs
//! need not have the same targets.
//!
//! A power cut may have taken what a state counts as certain, so after one everything is rebuilt
//! from the records of all runs.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ioecho_linux::HostDescription;
use ioecho_replay::tree::TreeError;
use ioecho_replay::verify::{
    After, Intents, LINE_MAX, PassProgress, Verifier, VerifyConfig, VersionTable,
};
use ioecho_trace::Bytes;
use ioecho_trace::wording::Wording;
use serde::{Deserialize, Serialize};

use super::later::{Past, PastTarget, Since, TargetFindings, look};
use super::rebuilt::{Known, Link, Part, Rebuilt, rebuilt_together};
use super::tree::PastTree;
use super::{result, table, tree};
use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{RunNumber, TargetEntry};
use crate::regular;
use crate::spec::ReplaySpec;
use crate::target::Target;
use crate::{stored, tree_target};

/// The file that makes a directory one of a family.
pub(super) const FAMILY: &str = "family.toml";

/// Its version.
const VERSION: u32 = 1;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// `family.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyFacts {
    version: u32,
    /// The targets that its runs had.
    #[serde(default)]
    targets: Vec<FamilyTarget>,
    /// Its runs, oldest first.
    #[serde(default)]
    runs: Vec<FamilyRun>,
}

/// A target of a family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyTarget {
    path: PathBuf,
    /// For a loop device: the file behind it.
    backing_file: Option<PathBuf>,
    capacity: Bytes,
    /// Whether it was opened past the page cache.
    direct: bool,
    /// The shape of a tree of files, whose directory the path is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tree: Option<String>,
    /// Whether files were copied or moved between it and others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hands_over: bool,
}

/// Makes a table without entries for a target of a family.
type OpenTable<'a> = &'a mut dyn FnMut(u16) -> Result<Box<dyn VersionTable + Send>>;

/// A run of a family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyRun {
    run: RunNumber,
    /// Its directory, from that of the family on if both lie in one.
    path: PathBuf,
    /// What came after it; of the last run that is not known yet.
    after: Option<After>,
    /// The boot of the host in which it began.
    boot: Option<String>,
    /// Of each of its targets, which of the family's it is.
    targets: Vec<u16>,
}

/// A family as it is before the next run, or before it is verified.
#[derive(Clone, Debug)]
pub struct Family {
    place: Option<RunDirectory>,
    path: PathBuf,
    facts: FamilyFacts,
    /// What came after its last run.
    after: After,
    /// Of each target of the next run, which of the family's it is.
    numbers: Vec<u16>,
    /// What is to be verified: its targets as they are called now.
    targets: Vec<PastTarget>,
    /// Held as long as nobody else may go on with it.
    _lock: Option<std::sync::Arc<File>>,
}

/// A run that belongs to a family, while it goes on.
pub(crate) struct Member {
    place: RunDirectory,
    facts: FamilyFacts,
    _lock: File,
}

/// The boot of this host.
fn boot() -> Option<String> {
    HostDescription::collect().boot_id
}

fn broken(path: &Path, error: &dyn fmt::Display) -> RunError {
    RunError::new(Kind::Trace, format!("cannot read {}: {error}", path.join(FAMILY).display()))
}

/// Takes the lock of a family.
fn lock(place: &RunDirectory) -> Result<File> {
    let lock = || -> io::Result<File> {
        let file = place.as_file()?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(file)
    };
    lock().map_err(|error| {
        let name = place.path().display();
        if error.kind() == io::ErrorKind::WouldBlock {
            let text = format!(
                "a run of the family {name} still goes on\n  = help: wait for its end, or stop it"
            );
            return RunError::new(Kind::Incomplete, text);
        }
        RunError::new(Kind::Output, format!("cannot lock {name}: {error}"))
    })
}

impl FamilyFacts {
    fn read(path: &Path) -> Result<Self> {
        let bytes = regular::read(&path.join(FAMILY)).map_err(|error| broken(path, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| broken(path, &error))?;
        stored::from_toml(&text, VERSION).map_err(|unread| broken(path, &unread))
    }

    fn write(&self, place: &RunDirectory) -> Result<()> {
        let text = toml::to_string(self)
            .map_err(|error| RunError::new(Kind::Failure, format!("{FAMILY}: {error}")))?;
        place.put(FAMILY.as_ref(), text.as_bytes())
    }

    /// The number of a target, of which these are the path, the backing file and the size. The same
    /// path may lead to another device by now; a loop device is what it has behind it.
    fn number_of(
        &self,
        path: &Path,
        backing: Option<&PathBuf>,
        capacity: Bytes,
    ) -> Result<Option<u16>, String> {
        let is_it = |target: &FamilyTarget| match (&target.backing_file, backing) {
            (Some(then), Some(now)) => then == now,
            (None, None) => target.path == path && target.tree.is_none(),
            _ => false,
        };
        let Some(at) = self.targets.iter().position(is_it) else { return Ok(None) };
        let held = self.targets[at].capacity;
        if held != capacity {
            let name = path.display();
            return Err(format!("{name} holds {capacity} and held {held} in its earlier runs"));
        }
        Ok(u16::try_from(at).ok())
    }

    /// The number of a tree of files in this directory and of this shape.
    fn number_of_tree(&self, path: &Path, shape: &str) -> Result<Option<u16>, String> {
        let is_it = |target: &FamilyTarget| target.tree.is_some() && target.path == path;
        let Some(at) = self.targets.iter().position(is_it) else { return Ok(None) };
        let then = self.targets[at].tree.as_deref().unwrap_or_default();
        if then != shape {
            let name = path.display();
            return Err(format!("the tree in {name} was '{then}' in its earlier runs"));
        }
        Ok(u16::try_from(at).ok())
    }
}

impl FamilyTarget {
    /// A target of a run.
    fn of(entry: &TargetEntry) -> Option<Self> {
        if let Some(tree) = entry.tree() {
            let (geometry, open) = tree_target::shape(&tree.tree).ok()?;
            return Some(Self {
                path: tree.canonical.clone().unwrap_or_else(|| tree.anchor.clone()),
                backing_file: None,
                capacity: geometry.extent(),
                direct: open.direct,
                tree: Some(geometry.to_string()),
                hands_over: false,
            });
        }
        let real = entry.real()?;
        Some(Self {
            path: real.canonical.clone(),
            backing_file: real.backing_file.clone(),
            capacity: real.capacity,
            direct: real.direct,
            tree: None,
            hands_over: false,
        })
    }

    /// The tree of files that it is, if it is one.
    fn tree(&self) -> Option<Result<PastTree, TreeError>> {
        let geometry = self.tree.as_ref()?.parse();
        Some(geometry.map(|geometry| PastTree { geometry, direct: self.direct }))
    }
}

impl Family {
    /// The family in this directory.
    ///
    /// # Errors
    ///
    /// If there is none, a run of it goes on, or its facts cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let place = RunDirectory::holding(path, FAMILY).ok_or_else(|| {
            RunError::new(Kind::Trace, format!("{} holds no family of runs", path.display()))
        })?;
        let lock = lock(&place)?;
        let facts = FamilyFacts::read(path)?;
        let target = |(number, target): (u16, &FamilyTarget)| match target.tree() {
            Some(Err(error)) => Err(broken(path, &error)),
            Some(Ok(tree)) => Ok(PastTarget::tree(number, target.path.clone(), tree)),
            None => Ok(PastTarget {
                number,
                path: target.path.clone(),
                backing_file: target.backing_file.clone(),
                capacity: target.capacity.0,
                direct: target.direct,
                tree: None,
            }),
        };
        let targets = (0..).zip(&facts.targets).map(target).collect::<Result<_>>()?;
        Ok(Self {
            after: facts.after_the_last(None),
            numbers: Vec::new(),
            targets,
            facts,
            path: path.to_owned(),
            place: Some(place),
            _lock: Some(std::sync::Arc::new(lock)),
        })
    }

    /// The family that a run is to go on with; its directory need not be there yet.
    pub(crate) fn of(spec: &ReplaySpec, targets: &[Target]) -> Result<Option<Self>> {
        let Some(path) = &spec.family else { return Ok(None) };
        let refuse = |what: String| {
            let text = format!("cannot go on with {}: {what}", path.display());
            let help = Wording::from("take another directory for ");
            RunError::with_help(Kind::Usage, text, help.setting("family"))
        };
        let place = RunDirectory::holding(path, FAMILY);
        let facts = match &place {
            Some(_) => FamilyFacts::read(path)?,
            None => FamilyFacts { version: VERSION, targets: Vec::new(), runs: Vec::new() },
        };
        if facts.runs.len() + 1 >= LINE_MAX {
            return Err(refuse(format!("it has {} runs, and no more fit", facts.runs.len())));
        }
        let (mut numbers, mut next) = (Vec::new(), facts.targets.len());
        for target in targets {
            let known = match target {
                Target::Real { facts: now, .. } => {
                    facts.number_of(&now.canonical, now.backing_file.as_ref(), now.capacity)
                }
                Target::Tree(tree) if !tree.is_simulated() => {
                    let path = tree.canonical().unwrap_or_default();
                    facts.number_of_tree(&path, &tree.geometry.to_string())
                }
                Target::Simulated { .. } | Target::Tree(_) => {
                    let text = format!("{} is simulated and keeps no data", target.name());
                    return Err(refuse(text));
                }
            };
            let number = known.map_err(refuse)?.unwrap_or_else(|| {
                next += 1;
                (next - 1) as u16
            });
            numbers.push(number);
        }
        Ok(Some(Self {
            after: facts.after_the_last(spec.after),
            numbers,
            targets: Vec::new(),
            facts,
            path: path.clone(),
            place,
            _lock: None,
        }))
    }

    /// The directory of the family.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Joins the family: from now on it has this run, whose targets these are.
    pub(crate) fn join(
        &self,
        run_number: u64,
        run: &RunDirectory,
        entries: &[TargetEntry],
    ) -> Result<Member> {
        let place = RunDirectory::open_or_make(&self.path)?;
        let lock = lock(&place)?;
        let mut facts = match RunDirectory::holding(&self.path, FAMILY) {
            Some(_) => FamilyFacts::read(&self.path)?,
            None => FamilyFacts { version: VERSION, targets: Vec::new(), runs: Vec::new() },
        };
        if facts != self.facts {
            let text = format!("another run has gone on with {} just now", self.path.display());
            return Err(RunError::with_help(Kind::Incomplete, text, "try again"));
        }
        for (number, entry) in self.numbers.iter().zip(entries) {
            let Some(target) = FamilyTarget::of(entry) else { continue };
            match facts.targets.get_mut(usize::from(*number)) {
                Some(known) => *known = FamilyTarget { hands_over: known.hands_over, ..target },
                None => facts.targets.push(target),
            }
        }
        let hands_over = self.numbers.iter().zip(entries).filter_map(|(number, entry)| {
            let to = self.numbers.get(usize::from(entry.to()?))?;
            Some([*number, *to])
        });
        for number in hands_over.flatten() {
            if let Some(target) = facts.targets.get_mut(usize::from(number)) {
                target.hands_over = true;
            }
        }
        if let Some(last) = facts.runs.last_mut() {
            last.after = Some(self.after);
        }
        facts.runs.push(FamilyRun {
            run: RunNumber(run_number),
            path: from(&self.path, run.path()),
            after: None,
            boot: boot(),
            targets: self.numbers.clone(),
        });
        facts.write(&place)?;
        Ok(Member { place, facts, _lock: lock })
    }

    /// A verifier for a target of the next run, which knows the state that the earlier runs left.
    pub(super) fn verifier(
        &self,
        config: VerifyConfig,
        mut open: impl FnMut(Option<(u16, Bytes)>) -> Result<Box<dyn VersionTable + Send>>,
        intents: Option<Box<dyn Intents + Send>>,
        tell: &dyn Fn(&str),
    ) -> Result<Verifier> {
        let number = self.numbers.get(usize::from(config.target)).copied().unwrap_or_default();
        if self.facts.runs.is_empty() {
            return Ok(Verifier::new(config, open(None)?, intents));
        }
        let never = AtomicBool::new(false);
        let since = Since { after: self.after, acknowledged: false };
        let together = self.together(number);
        let mut open = |other: u16| match self.facts.targets.get(usize::from(other)) {
            Some(its) if other != number => open(Some((other, its.capacity))),
            _ => open(None),
        };
        let mut all = self.rebuilt(&together, since, &mut open, &never)?;
        let its = together.iter().position(|it| *it == number).unwrap_or(0);
        let rebuilt = all.swap_remove(its);
        for note in &rebuilt.notes {
            tell(&format!("note: of the earlier runs: {note}"));
        }
        Ok(rebuilt.verifier.go_on(config, intents))
    }

    /// The targets that are rebuilt together with this one: the trees that may have handed files to
    /// each other, or it alone.
    fn together(&self, number: u16) -> Vec<u16> {
        let hands_over = |number: &u16| {
            self.facts.targets.get(usize::from(*number)).is_some_and(|it| it.hands_over)
        };
        if !hands_over(&number) {
            return vec![number];
        }
        (0..self.facts.targets.len() as u16).filter(hands_over).collect()
    }

    /// The states that the runs have left on these targets.
    fn rebuilt(
        &self,
        numbers: &[u16],
        since: Since,
        open: OpenTable<'_>,
        stop: &AtomicBool,
    ) -> Result<Vec<Rebuilt>> {
        let runs = &self.facts.runs;
        let is_last = |at: usize| at + 1 == runs.len();
        let after_of = |at: usize| if is_last(at) { Some(since.after) } else { runs[at].after };
        let (known, begin) = self.known(numbers, &after_of, open)?;
        let is_here = |run: &FamilyRun| run.targets.iter().any(|its| numbers.contains(its));
        let past = |run: &FamilyRun| is_here(run).then(|| self.past(run)).transpose();
        let pasts = runs[begin..].iter().map(past).collect::<Result<Vec<_>>>()?;
        let part = |(number, known): (&u16, Known)| {
            let links = (begin..).zip(&pasts).map(|(at, past)| {
                let here = runs[at].targets.iter().position(|its| its == number);
                Link {
                    run: runs[at].run.0,
                    after: after_of(at).unwrap_or_default(),
                    here: past.as_ref().zip(here.map(|here| here as u16)),
                }
            });
            Part { line: links.collect(), known }
        };
        let parts = numbers.iter().zip(known).map(part).collect();
        rebuilt_together(parts, since.acknowledged, stop)
    }

    /// What is kept of these targets, and how many runs all of that knows. What is not kept of one
    /// of them, or is not certain any more, must be rebuilt from the records of all runs.
    fn known(
        &self,
        numbers: &[u16],
        after_of: &dyn Fn(usize) -> Option<After>,
        open: OpenTable<'_>,
    ) -> Result<(Vec<Known>, usize)> {
        let runs = &self.facts.runs;
        let is_cut = |at: usize| after_of(at) == Some(After::PowerCut);
        let mut all = Vec::new();
        for number in numbers {
            all.push(match self.state(*number, open(*number)?) {
                Ok(state) => {
                    let knows = state.runs().count();
                    if (knows - 1..runs.len()).any(is_cut) {
                        drop(state);
                        (Known::Nothing(open(*number)?), 0)
                    } else {
                        (Known::State(Box::new(state)), knows)
                    }
                }
                Err(Some(table)) => (Known::Nothing(table), 0),
                Err(None) => (Known::Nothing(open(*number)?), 0),
            });
        }
        let begin = all.iter().map(|(_, knows)| *knows).max().unwrap_or(0);
        // Those of runs that did not have one of the targets leave it as it was.
        let lacks = |(number, (_, knows)): (&u16, &(Known, usize))| {
            runs[*knows..begin].iter().any(|run| run.targets.contains(number))
        };
        if numbers.iter().zip(&all).any(lacks) {
            drop(all);
            let nothing = numbers.iter().map(|number| Ok(Known::Nothing(open(*number)?)));
            return Ok((nothing.collect::<Result<_>>()?, 0));
        }
        let passed = |(known, knows): (Known, usize)| {
            runs[knows..begin].iter().fold(known, |known, run| known.passed_by(run.run.0))
        };
        Ok((all.into_iter().map(passed).collect(), begin))
    }

    /// The state that is kept of a target, in an empty table. If there is none that can be used,
    /// the table if it is still empty.
    fn state(
        &self,
        number: u16,
        table: Box<dyn VersionTable + Send>,
    ) -> Result<Verifier, Option<Box<dyn VersionTable + Send>>> {
        let capacity = self.facts.targets.get(usize::from(number)).map(|it| it.capacity.0);
        let file = regular::open(&self.path.join(state_of(number))).ok();
        let Some((file, capacity)) = file.zip(capacity) else { return Err(Some(table)) };
        let sectors = capacity.div_ceil(SECTOR);
        let mut input = BufReader::with_capacity(1 << 20, file);
        let state = Verifier::restore(table, sectors, &mut input).map_err(|_| None)?;
        let named = self.facts.runs.iter().map(|run| run.run.0);
        let is_theirs = state.runs().count() <= self.facts.runs.len()
            && state.runs().zip(named).all(|(knows, named)| knows == named);
        if !is_theirs {
            return Err(None);
        }
        let tree = self.facts.targets.get(usize::from(number)).and_then(FamilyTarget::tree);
        if let Some(tree) = tree {
            let geometry = tree.map_err(|_| None)?.geometry;
            let last = state.runs().last().unwrap_or_default();
            let names = tree::restore(&self.path.join(names_of(number)), last, &geometry);
            let mut state = state;
            state.put_names(names.map_err(|_| None)?);
            return Ok(state);
        }
        Ok(state)
    }

    /// A run of the family.
    fn past(&self, run: &FamilyRun) -> Result<Past> {
        let path = self.path.join(&run.path);
        let lost = |what: String| {
            let text = format!(
                "{} goes on from the run {} in {}: {what}\n  = help: put that run's directory back \
                 where it was",
                self.path.display(),
                run.run,
                path.display()
            );
            RunError::new(Kind::Trace, text)
        };
        let past = Past::open_alone(&path).map_err(|error| lost(error.to_string()))?;
        if past.number != run.run.0 {
            return Err(lost(format!("there is the run {} now", RunNumber(past.number))));
        }
        // These files are final now, and must survive a power cut.
        for number in 0..run.targets.len() {
            for path in [past.run.journal(), past.run.intents(number)] {
                let _ = File::open(path).and_then(|file| file.sync_all());
            }
        }
        Ok(past)
    }

    /// Its targets as they are called now.
    pub(super) fn targets(&self) -> &[PastTarget] {
        &self.targets
    }

    pub(super) fn targets_mut(&mut self) -> &mut [PastTarget] {
        &mut self.targets
    }

    /// What came after its last run, as far as it is known.
    pub(super) const fn after(&self) -> After {
        self.after
    }

    /// The number of its last run.
    pub(super) fn number(&self) -> u64 {
        self.facts.runs.last().map_or(0, |run| run.run.0)
    }

    /// Verifies a target of the family.
    pub(super) fn verify(
        &self,
        past: &PastTarget,
        since: Since,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(PassProgress),
    ) -> Result<TargetFindings> {
        let Some(run) = &self.place else { return Ok(TargetFindings::nothing(past)) };
        let path = run.versions(usize::from(past.number));
        let mut open = |number: u16| {
            let beside = (number != past.number).then_some(number);
            let its = self.facts.targets.get(usize::from(number));
            let capacity = its.map_or(Bytes(past.capacity), |its| its.capacity);
            table::open(run, &table::beside(&path, beside), capacity)
        };
        if let Some(tree) = &past.tree {
            let together = self.together(past.number);
            let is_one = |it: &&PastTarget| together.contains(&it.number);
            let all: Vec<&PastTarget> = self.targets.iter().filter(is_one).collect();
            let mut rebuilt = |_: &[&PastTarget]| self.rebuilt(&together, since, &mut open, stop);
            return tree::look((past, tree), &all, since, &path, &mut rebuilt, stop, progress);
        }
        let alone = [past.number];
        let mut rebuilt = || {
            let mut all = self.rebuilt(&alone, since, &mut open, stop)?;
            Ok(all.swap_remove(0))
        };
        look(past, since, &path, &mut rebuilt, stop, progress)
    }

    /// Stores the result with the family.
    pub(super) fn keep(&self, after: After, found: &[TargetFindings]) -> Result<()> {
        match &self.place {
            Some(place) => result::keep(place, self.number(), after.name(), found),
            None => Ok(()),
        }
    }
}

impl FamilyFacts {
    /// What came after the last run: what is said, or a power cut if the host was started anew
    /// since, which nobody can tell from one.
    fn after_the_last(&self, said: Option<After>) -> After {
        let since = self.runs.last().and_then(|run| run.boot.clone());
        let is_another = since.is_some_and(|since| boot().is_some_and(|now| now != since));
        said.unwrap_or(if is_another { After::PowerCut } else { After::Kill })
    }
}

impl Member {
    /// The run has issued nothing, and goes away.
    pub(crate) fn leave(&self) {
        let mut facts = self.facts.clone();
        facts.runs.pop();
        // The next run finds a run without records otherwise, which is as right.
        let _ = facts.write(&self.place);
    }

    /// Keeps what a target of the run holds now, for the next run; nothing may be in flight.
    pub(crate) fn keep(&self, target: usize, verifier: &mut Verifier) -> Result<()> {
        let number = self.facts.runs.last().and_then(|run| run.targets.get(target));
        let Some(number) = number.filter(|_| verifier.figures().table_errors == 0) else {
            return Ok(());
        };
        let write = |file: File| -> io::Result<()> {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            verifier.store(&mut out)?;
            out.flush()
        };
        self.place.put_with(&self.place.path().join(state_of(*number)), write)?;
        match verifier.names() {
            None => Ok(()),
            Some(names) => {
                let run = verifier.runs().last().unwrap_or_default();
                tree::store(&self.place, &self.place.path().join(names_of(*number)), run, names)
            }
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = ioecho_trace::units::counted(self.facts.runs.len() as u64, "run");
        write!(f, "{}: {runs} before this one", self.path.display())?;
        if self.after == After::PowerCut {
            write!(f, ", after a power cut")?;
        }
        Ok(())
    }
}

/// The file of the state of a target.
fn state_of(number: u16) -> String {
    format!("versions-{number}.state")
}

/// The file of the names of a target.
fn names_of(number: u16) -> String {
    format!("names-{number}.state")
}

/// The path of a run, from the directory of the family on if the run lies beside that or below.
fn from(family: &Path, run: &Path) -> PathBuf {
    let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (family, run) = (whole(family), whole(run));
    let beside = family.parent().and_then(|above| run.strip_prefix(above).ok());
    beside.map_or_else(|| run.clone(), |rest| Path::new("..").join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_beside_its_family_is_named_from_there() {
        let home = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let family = make("out/family");
        assert_eq!(from(&family, &make("out/cells/a/1/run")), Path::new("../cells/a/1/run"));
        let other = make("other");
        assert_eq!(from(&family, &other), fs::canonicalize(&other).unwrap());
    }

    #[test]
    fn a_target_is_known_by_what_is_behind_it() {
        let target = |path: &str, backing: Option<&str>| FamilyTarget {
            path: path.into(),
            backing_file: backing.map(PathBuf::from),
            capacity: Bytes(4096),
            direct: true,
            tree: None,
            hands_over: false,
        };
        let facts = FamilyFacts {
            version: VERSION,
            targets: vec![target("/dev/loop0", Some("/a")), target("/dev/sdb", None)],
            runs: Vec::new(),
        };
        let number = |path: &str, backing: Option<&str>, size| {
            facts.number_of(Path::new(path), backing.map(PathBuf::from).as_ref(), Bytes(size))
        };
        assert_eq!(number("/dev/loop5", Some("/a"), 4096), Ok(Some(0)));
        assert_eq!(number("/dev/loop0", Some("/b"), 4096), Ok(None));
        assert_eq!(number("/dev/sdb", None, 4096), Ok(Some(1)));
        assert!(number("/dev/sdb", None, 8192).is_err());
        let text = toml::to_string(&facts).unwrap();
        assert_eq!(stored::from_toml::<FamilyFacts>(&text, VERSION).unwrap(), facts);
    }
}
