//! The plan: every run with its flows, in the order of the file.
//!
//! The order is that of the language: run definitions, within each the sets of storages, then the
//! loops in the order in which they stand there (the first is the outermost), then the rates, and
//! of a curve first the run as fast as possible. A plan of a million runs is walked, never kept.

use std::collections::{BTreeSet, HashMap};

use super::fault::Faults;
use super::files::OnTree;
use super::flow::{Due, Flow};
use super::model::{
    Choice, Extent, FORMAT, FileWork, Loop, Rate, Run, Seek, Sizes, Storage, Told, Value, Work,
    Workload,
};
use super::runs::is_like;
use crate::generate::random::scramble;
use crate::place::Place;
use crate::units::Nanos;

/// The most runs of a plan.
pub const RUNS_MAX: usize = 1_000_000;

/// The unit of equal data where nothing else is said, in bytes: Vdbench's.
const DEDUP_UNIT: u64 = 128 << 10;

/// The most storages of which a run each is made with the first, the first two, and so on.
const GROWING_MAX: usize = 4096;

/// More bytes per second than a host moves.
const RATE_MAX: f64 = 100e9;

/// The size of a target, if it is known: the storage, and whether it lies on this host.
pub type SizeOf<'s> = &'s dyn Fn(&Storage) -> Option<u64>;

/// What a plan is made with.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The seed from which those of all flows are made.
    pub seed: u64,
    /// The names of the runs, perhaps with asterisks, that are to be done; all if there are none.
    pub only: Vec<String>,
    /// The name of the first run that is done, perhaps with asterisks.
    pub from: Option<String>,
}

/// A plan.
pub struct Plan<'w> {
    workload: &'w Workload,
    asked: Asked,
    size_of: SizeOf<'w>,
    /// The runs that are done, each with its sets of storages and the number of its first leaf.
    runs: Vec<Planned<'w>>,
    count: usize,
    /// What is told of this plan.
    pub told: Vec<Told>,
}

struct Planned<'w> {
    run: &'w Run,
    sets: Vec<Vec<&'w Storage>>,
    combinations: usize,
    rates: usize,
    first: usize,
}

impl Planned<'_> {
    /// How many runs it makes.
    fn count(&self) -> usize {
        self.sets.len() * self.combinations * self.rates
    }
}

/// A run of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Its number, counted from 1.
    pub number: usize,
    /// The name of its definition.
    pub run: String,
    /// The values of its loops, by their names in our own form.
    pub values: Vec<(&'static str, String)>,
    /// Its rate.
    pub rate: LeafRate,
    /// Its loads on storages.
    pub flows: Vec<PlannedFlow>,
    /// Its loads on trees.
    pub files: Vec<FileFlow>,
    /// Whether it ends after its time, or when all of it is done.
    pub has_end: bool,
    /// How long it is measured.
    pub duration: Nanos,
    /// How long it runs before that.
    pub warmup: Nanos,
    /// The length of an interval of its reports.
    pub interval: Nanos,
    /// How long nothing happens before it.
    pub pause: Nanos,
    /// What is done to its trees first.
    pub format: Vec<&'static str>,
    /// It ends after so many bytes: all, read, written.
    pub data: [Option<u64>; 3],
    /// How far its data can be compressed: 2 is to the half.
    pub compress: Option<f64>,
    /// How often the same data are written: 2 is each block twice.
    pub dedup: Option<f64>,
    /// The unit of equal data, in bytes.
    pub dedup_unit: u64,
    /// Of a point of a curve: it is not done if the mean response time of one before it was longer.
    pub stop_curve: Option<Nanos>,
    /// After so many failed requests it ends.
    pub errors_max: Option<u64>,
    /// Where it is defined.
    pub place: Place,
}

impl Leaf {
    /// How long it takes with its pause and its warm-up.
    pub fn time(&self) -> Nanos {
        self.pause.saturating_add(self.warmup).saturating_add(self.duration)
    }

    /// Whether an amount of data can end it: more than any host moves in its time cannot.
    pub fn ends_by_data(&self) -> bool {
        let most = self.warmup.saturating_add(self.duration).as_secs_f64() * RATE_MAX;
        self.data.iter().flatten().any(|data| (*data as f64) < most)
    }

    /// Its loops and its rate in words.
    pub fn told(&self) -> String {
        let values = self.values.iter().map(|(key, value)| format!("{key}={value}"));
        let rate = format!("rate={}", self.rate);
        values.chain([rate]).collect::<Vec<_>>().join(" ")
    }
}

/// The rate of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum LeafRate {
    /// As fast as the places in flight allow.
    Max,
    /// So many requests per second.
    Fixed(f64),
    /// So many percent of what another run of the plan reaches.
    Share {
        /// The percentage.
        percent: f64,
        /// The number of that run.
        of: usize,
    },
    /// It changes.
    Changing,
}

impl std::fmt::Display for LeafRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Fixed(rate) => write!(f, "{rate}"),
            Self::Share { percent, of } => write!(f, "{percent}% of run {of}"),
            Self::Changing => f.write_str("changing"),
        }
    }
}

/// A load of a run on a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFlow {
    /// The load and the storage: `wd1@sd1`.
    pub name: String,
    /// Where the load is defined.
    pub place: Place,
    /// The names of its storages; several if they are one volume.
    pub storages: Vec<String>,
    /// Their paths.
    pub paths: Vec<String>,
    /// Where the part of each storage begins and how long it is, in bytes, if they are one volume
    /// of known size; otherwise none.
    pub parts: Vec<(u64, u64)>,
    /// The generator's line, or the trace that it replays. Where a size or a rate is not known yet
    /// it has words in braces.
    pub line: String,
    /// Whether the line can be used as it is.
    pub is_whole: bool,
    /// Whether requests are due when there is a place, and not by a rate.
    pub is_closed: bool,
    /// The most requests in flight.
    pub in_flight: u64,
    /// Whether it writes.
    pub writes: bool,
    /// Whether its writes are on the medium when they complete.
    pub is_sync: bool,
    /// Its share of the rate, in percent; none if it goes as fast as it is served, or at a rate of
    /// its own.
    pub share: Option<f64>,
    /// Whether it has a rate of its own, which is none of the run's.
    pub has_own_rate: bool,
}

/// A load of a run on a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct FileFlow {
    /// The load and the tree.
    pub name: String,
    /// The directory.
    pub anchor: String,
    /// How many files the tree has.
    pub files: u64,
    /// What it does, in words.
    pub does: String,
    /// How many work at once.
    pub threads: u64,
    /// Whether it changes the tree.
    pub writes: bool,
    /// Its flows in a replay.
    pub flows: Vec<PlannedFlow>,
    /// The flow that makes its tree first, if the run asks for that.
    pub makes: Option<PlannedFlow>,
}

impl<'w> Plan<'w> {
    /// Makes the plan.
    ///
    /// # Errors
    ///
    /// Everything that is impossible: too many runs, requests that do not fit.
    pub fn new(workload: &'w Workload, asked: Asked, size_of: SizeOf<'w>) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let (runs, told) = (Vec::new(), Vec::new());
        let mut plan = Self { workload, asked, size_of, runs, count: 0, told };
        let mut has_begun = plan.asked.from.is_none();
        for run in &workload.runs {
            has_begun |= plan.asked.from.as_ref().is_some_and(|name| is_like(&run.name, name));
            let only = &plan.asked.only;
            if !has_begun {
                continue;
            }
            if !only.is_empty() && !only.iter().any(|name| is_like(&run.name, name)) {
                continue;
            }
            if run.choice == Choice::Growing && workload.storages.len() > GROWING_MAX {
                let reason = format!("there are more than {GROWING_MAX} storages to grow over");
                faults.impossible(&run.place, reason, "name some of them");
                return Err(faults);
            }
            let sets = plan.sets(run);
            let product = |count: usize, next: usize| count.checked_mul(next);
            let mut of_loops = run.loops.iter().map(|it| it.values.len());
            let combinations = of_loops.try_fold(1, product);
            let rates: usize = run.rates.iter().map(steps_of).sum();
            let count = combinations
                .and_then(|count| product(count, rates)?.checked_mul(sets.len()))
                .filter(|count| plan.count.saturating_add(*count) <= RUNS_MAX);
            let (Some(combinations), Some(count)) = (combinations, count) else {
                let reason = format!("there are more than {RUNS_MAX} runs");
                faults.impossible(&run.place, reason, "take values out of its loops");
                return Err(faults);
            };
            plan.runs.push(Planned { run, sets, combinations, rates, first: plan.count });
            plan.count += count;
        }
        if let Some(name) = plan
            .asked
            .only
            .iter()
            .chain(&plan.asked.from)
            .find(|name| !workload.runs.iter().any(|run| is_like(&run.name, name)))
        {
            let names: Vec<&str> = workload.runs.iter().map(|run| run.name.as_str()).collect();
            let reason = format!("there is no run '{name}'");
            let help = format!("there are {}", names.join(", "));
            faults.impossible(&Place::outside("only"), reason, help);
            return Err(faults);
        }
        plan.check(&mut faults);
        if faults.is_empty() { Ok(plan) } else { Err(faults) }
    }

    /// Checks the first and the last run of each definition, which have the least and the most of
    /// most loops, and tells what is told of each definition.
    fn check(&mut self, faults: &mut Faults) {
        let (mut told, mut seen) = (Vec::new(), BTreeSet::new());
        for planned in &self.runs {
            let before = faults.all().len();
            super::on_trees::check(self.workload, planned.run, faults, &mut told);
            let last = planned.count().checked_sub(1).filter(|_| faults.all().len() == before);
            for at in [last.map(|_| 0), last].into_iter().flatten() {
                if let Err((place, reason)) = self.leaf_of(planned, at) {
                    faults.impossible(&place, reason, "give it more, or take smaller requests");
                    break;
                }
            }
            for at in &planned.run.works {
                let work = &self.workload.works[*at];
                let is_skewed = work.band.is_some() || work.seek == Seek::Skewed;
                if is_skewed && seen.insert(*at) {
                    let seeks = match work.seek {
                        Seek::Share(100.0) | Seek::Skewed => "",
                        _ => "; its share of seeks does not count",
                    };
                    let what = format!(
                        "the places of '{}' follow a law of our own: Zipf's, the hottest \
                         first{seeks}",
                        work.name
                    );
                    told.push(Told { place: work.place.clone(), what });
                }
            }
        }
        self.told = told;
    }

    /// How many runs there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The definitions of the runs that are done.
    pub fn runs(&self) -> impl Iterator<Item = &'w Run> + '_ {
        self.runs.iter().map(|planned| planned.run)
    }

    /// How long all of it takes at most.
    pub fn time(&self) -> Nanos {
        let all = self.runs.iter().map(|planned| {
            let Run { pause, warmup, duration, .. } = planned.run;
            let one = pause.saturating_add(*warmup).saturating_add(*duration).0;
            i64::try_from(planned.count()).unwrap_or(i64::MAX).saturating_mul(one)
        });
        Nanos(all.fold(0, i64::saturating_add))
    }

    /// The runs, one after the other.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> + '_ {
        self.runs.iter().flat_map(move |planned| {
            (0..planned.count()).filter_map(move |at| self.leaf_of(planned, at).ok())
        })
    }

    /// The sets of storages of a run, one run for each.
    fn sets(&self, run: &Run) -> Vec<Vec<&'w Storage>> {
        let storages = &self.workload.storages;
        let of_works = || -> Vec<&'w Storage> {
            let works = run.works.iter().map(|at| &self.workload.works[*at]);
            let numbers: BTreeSet<usize> =
                works.flat_map(|work| work.storages.iter().copied()).collect();
            if numbers.is_empty() {
                return storages.iter().collect();
            }
            self.numbered(numbers)
        };
        match &run.choice {
            Choice::OfWorks => vec![Vec::new()],
            Choice::These(these) => vec![self.numbered(these.iter().copied())],
            Choice::Single => of_works().into_iter().map(|storage| vec![storage]).collect(),
            Choice::Growing => {
                let all = of_works();
                (1..=all.len().min(RUNS_MAX)).map(|count| all[..count].to_vec()).collect()
            }
            Choice::Sets(count) => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                of_works().chunks(count).map(<[_]>::to_vec).collect()
            }
        }
    }

    fn leaf_of(&self, planned: &Planned<'w>, at: usize) -> Result<Leaf, (Place, String)> {
        let run = planned.run;
        let (rest, step) = (at / planned.rates, at % planned.rates);
        let (set, combination) = (rest / planned.combinations, rest % planned.combinations);
        let number = planned.first + at + 1;
        let (rate, leaf_rate) = rate_at(&run.rates, step, number);
        let mut values: Vec<(&'static str, String)> = Vec::new();
        if planned.sets.len() > 1 {
            let names: Vec<&str> = planned.sets[set].iter().map(|it| it.name.as_str()).collect();
            values.push(("storages", names.join("+")));
        }
        let chosen = chosen(&run.loops, combination);
        values.extend(chosen.iter().map(|(key, value)| (*key, value.to_string())));
        let span = run.warmup.saturating_add(run.duration);
        let due = Timing { rate: &rate, leaf: &leaf_rate, run, span };
        Ok(Leaf {
            number,
            run: run.name.clone(),
            flows: self.flows(run, &planned.sets[set], &chosen, &values, &due)?,
            files: self.files(run, &chosen, &values, &leaf_rate),
            has_end: true,
            values,
            stop_curve: run.stop_curve.filter(|_| matches!(leaf_rate, LeafRate::Share { .. })),
            rate: leaf_rate,
            duration: run.duration,
            warmup: run.warmup,
            interval: run.interval,
            pause: run.pause,
            format: run.format.clone(),
            data: self.data(run, &planned.sets[set]),
            compress: chosen
                .iter()
                .find_map(|(key, value)| match value {
                    Value::Decimal(ratio) if *key == "compress" => Some(*ratio),
                    _ => None,
                })
                .or(self.workload.general.compress),
            dedup: self.workload.general.dedup,
            dedup_unit: self.workload.general.dedup_unit.unwrap_or(DEDUP_UNIT),
            errors_max: self.workload.general.errors_max,
            place: run.place.clone(),
        })
    }

    fn flows(
        &self,
        run: &'w Run,
        set: &[&'w Storage],
        chosen: &[(&'static str, &Value)],
        values: &[(&'static str, String)],
        due: &Timing<'_>,
    ) -> Result<Vec<PlannedFlow>, (Place, String)> {
        let mut all: Vec<(&Work, Vec<&Storage>, f64)> = Vec::new();
        let shares = shares(run, &self.workload.works);
        let is_skewed = run.works.iter().any(|at| self.workload.works[*at].skew.is_some());
        for (at, share) in run.works.iter().zip(shares) {
            let work = &self.workload.works[*at];
            let on: Vec<&Storage> = match set {
                [] => self.numbered(work.storages.iter().copied()),
                set => set.to_vec(),
            };
            if self.workload.general.concatenate && on.len() > 1 {
                all.push((work, on, share));
                continue;
            }
            let share = share / on.len().max(1) as f64;
            all.extend(on.into_iter().map(|storage| (work, vec![storage], share)));
        }
        // The loads of a storage that are closed share its places as far as nothing else is said.
        let mut uses: HashMap<&str, u64> = HashMap::new();
        let shares_places = |work: &Work| work.threads.is_none() && work.rate.is_none();
        for (_, on, _) in all.iter().filter(|(work, ..)| shares_places(work)) {
            for storage in on {
                *uses.entry(&storage.name).or_default() += 1;
            }
        }
        let mut dealt: HashMap<&str, u64> = HashMap::new();
        let mut flows = Vec::with_capacity(all.len());
        for (work, storages, share) in &all {
            let number = |key: &str| chosen.iter().find(|(name, _)| *name == key).map(|it| it.1);
            let threads = match number("threads") {
                Some(Value::Number(threads)) => Some(*threads),
                _ => None,
            };
            let is_closed = work.rate.is_none() && matches!(due.leaf, LeafRate::Max);
            let of_storage = storages.iter().map(|storage| storage.threads).sum::<u64>();
            let places = threads.unwrap_or(of_storage);
            let in_flight = match (work.threads, is_closed) {
                (Some(threads), _) => threads,
                (None, true) => {
                    let name = storages.first().map_or("", |storage| storage.name.as_str());
                    let shared = uses.get(name).copied().unwrap_or(1).max(1);
                    let turn = dealt.entry(name).or_default();
                    *turn += 1;
                    // What is left over goes to the first ones.
                    (places / shared + u64::from(*turn <= places % shared)).max(1)
                }
                (None, false) => places,
            };
            let name = flow_name(work, storages);
            let seed = self.seed(run, values, &name);
            let flow = flow(work, storages.clone(), chosen, seed);
            let sizes: Option<Vec<u64>> = storages.iter().map(|it| self.size_of_one(it)).collect();
            let (line, is_whole, parts) = if let Some(from) = &work.from {
                (from.clone(), true, Vec::new())
            } else {
                let due = due.of_flow(work.rate, *share);
                let is_whole = sizes.is_some() && !matches!(due, Due::Later(..));
                let (line, parts) = flow.line(sizes.as_deref(), &due).map_err(|reason| {
                    (work.place.clone(), format!("'{name}' does not fit: {reason}"))
                })?;
                (line, is_whole, parts)
            };
            // A load whose part does not reach a storage has nothing to do with it.
            let used: Vec<&Storage> = match &parts[..] {
                [] => storages.clone(),
                parts => parts.iter().map(|part| storages[part.storage]).collect(),
            };
            flows.push(PlannedFlow {
                name: flow_name(work, &used),
                place: work.place.clone(),
                storages: used.iter().map(|it| it.name.clone()).collect(),
                paths: used.iter().map(|it| it.path().to_owned()).collect(),
                parts: parts.iter().map(|part| (part.from, part.length)).collect(),
                line,
                is_whole,
                is_closed,
                in_flight,
                writes: flow.read < 100.0 || work.from.is_some(),
                is_sync: is_sync(run, work, storages),
                share: (work.rate.is_none() && (is_skewed || !is_closed)).then_some(share * 100.0),
                has_own_rate: work.rate.is_some(),
            });
        }
        Ok(flows)
    }

    fn numbered(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<&'w Storage> {
        numbers.into_iter().map(|at| &self.workload.storages[at]).collect()
    }

    /// After how many bytes a run ends: all, read, written. Numbers below 100 are multiples of the
    /// sizes of its storages.
    fn data(&self, run: &Run, set: &[&Storage]) -> [Option<u64>; 3] {
        let of_works = || {
            let works = run.works.iter().map(|at| &self.workload.works[*at]);
            let numbers: BTreeSet<usize> =
                works.flat_map(|work| work.storages.iter().copied()).collect();
            self.numbered(numbers)
        };
        run.data.map(|data| match data {
            Some(times @ 1..100) => {
                let size = if set.is_empty() { self.size(&of_works()) } else { self.size(set) };
                size.map(|size| size.saturating_mul(times))
            }
            data => data,
        })
    }

    /// How much of these storages is used, in bytes, if it is known.
    fn size(&self, storages: &[&Storage]) -> Option<u64> {
        let mut sizes = storages.iter().map(|storage| self.size_of_one(storage));
        sizes.try_fold(0_u64, |sum, size| sum.checked_add(size?))
    }

    fn size_of_one(&self, storage: &Storage) -> Option<u64> {
        match storage.size {
            Some(Extent::Bytes(bytes)) => Some(bytes),
            Some(Extent::Percent(percent)) => {
                (self.size_of)(storage).map(|size| (size as f64 * (percent / 100.0)) as u64)
            }
            None => (self.size_of)(storage),
        }
    }

    fn seed(&self, run: &Run, values: &[(&'static str, String)], flow: &str) -> u64 {
        let mut hash = scramble(self.asked.seed);
        let mut put = |text: &str| {
            for byte in text.bytes().chain([0xFF]) {
                hash = scramble(hash ^ u64::from(byte));
            }
        };
        put(&run.name);
        for (key, value) in values {
            put(key);
            put(value);
        }
        put(flow);
        hash
    }

    fn files(
        &self,
        run: &'w Run,
        chosen: &[(&'static str, &Value)],
        values: &[(&'static str, String)],
        rate: &LeafRate,
    ) -> Vec<FileFlow> {
        let mut all: Vec<FileFlow> = Vec::new();
        let Workload { file_works, general, .. } = self.workload;
        let works: Vec<&FileWork> = run.file_works.iter().map(|at| &file_works[*at]).collect();
        let skews: Vec<_> = works.iter().map(|work| work.skew).collect();
        let format = file_works.iter().find(|work| work.name == FORMAT);
        for (work, share) in works.iter().zip(shares_of(&skews)) {
            for at in &work.trees {
                let mut tree = self.workload.trees[*at].clone();
                // Threads are dealt out to the trees, at least one each.
                let mut threads = work.threads.div_ceil(work.trees.len() as u64);
                let mut sizes = work.sizes.clone();
                let mut ops = if run.ops.is_empty() { work.ops.clone() } else { run.ops.clone() };
                let mut read = work.read;
                for (key, value) in chosen {
                    tree.set(key, value);
                    match (*key, value) {
                        ("threads", Value::Number(number)) => {
                            threads = number.div_ceil(work.trees.len() as u64);
                        }
                        ("size", Value::Size(size)) => sizes = Sizes::only(*size),
                        ("each-op", Value::Word(op)) => ops = vec![*op],
                        ("read", Value::Decimal(percent)) => read = Some(*percent),
                        _ => {}
                    }
                }
                let name = format!("{}/{}", work.name, tree.name);
                let on = OnTree {
                    work,
                    run,
                    general,
                    format,
                    seed: self.seed(run, values, &name),
                    is_skewed: skews.iter().any(Option::is_some),
                    share: share / work.trees.len() as f64,
                    sizes,
                    threads,
                    tasks: super::files::tasks(&ops, read),
                    read,
                    tree,
                };
                // A tree is made once, whichever loads it has.
                let is_made = all.iter().any(|file| {
                    file.makes.as_ref().is_some_and(|it| it.storages[0] == on.tree.name)
                });
                let flows = on.flows(rate, run.warmup.saturating_add(run.duration));
                let formats = run.format.iter().any(|word| *word != "no");
                all.push(FileFlow {
                    name,
                    anchor: on.tree.anchor.clone(),
                    files: on.tree.count(),
                    does: does(&on),
                    threads: on.threads,
                    writes: formats || flows.iter().any(|flow| flow.writes),
                    flows,
                    makes: on.making().filter(|_| !is_made),
                });
            }
        }
        all
    }
}

/// When the flows of a run are due.
struct Timing<'t> {
    rate: &'t Rate,
    leaf: &'t LeafRate,
    run: &'t Run,
    span: Nanos,
}

impl Timing<'_> {
    /// When the requests of a flow with this share of the rate are due.
    fn of_flow(&self, own: Option<f64>, share: f64) -> Due {
        let (arrival, span) = (self.run.arrival, self.span);
        let fixed = |rate: f64| Due::At(Rate::Fixed(rate.max(1e-6)), arrival, span);
        match (own, self.leaf, self.rate) {
            (Some(rate), ..) => fixed(rate),
            (None, LeafRate::Max, _) => Due::Free,
            (None, LeafRate::Fixed(rate), _) => fixed(rate * share),
            (None, LeafRate::Share { percent, of }, _) => {
                let words = format!("{percent}% of run {of}");
                let is_whole = share > 1.0 - 1e-9;
                let words = if is_whole { words } else { format!("{}% of {words}", share * 100.0) };
                Due::Later(words, arrival, span)
            }
            (None, _, Rate::Changing { pairs, jumps }) => {
                let pairs = pairs.iter().map(|(rate, span)| (rate * share, *span)).collect();
                Due::At(Rate::Changing { pairs, jumps: *jumps }, arrival, span)
            }
            (None, ..) => Due::Free,
        }
    }
}

/// How many runs a rate makes.
fn steps_of(rate: &Rate) -> usize {
    match rate {
        Rate::Curve(points) => points.len() + 1,
        _ => 1,
    }
}

/// The rate of a step, which is the run of this number.
fn rate_at(rates: &[Rate], step: usize, number: usize) -> (Rate, LeafRate) {
    let mut before = 0;
    for rate in rates {
        let steps = steps_of(rate);
        if step < before + steps {
            let leaf = match (rate, step - before) {
                (Rate::Fixed(rate), _) => LeafRate::Fixed(*rate),
                (Rate::Curve(points), point @ 1..) => {
                    LeafRate::Share { percent: points[point - 1], of: number - point }
                }
                (Rate::Changing { .. }, _) => LeafRate::Changing,
                (Rate::Max | Rate::Curve(_), _) => LeafRate::Max,
            };
            return (rate.clone(), leaf);
        }
        before += steps;
    }
    (Rate::Max, LeafRate::Max)
}

/// The values of the loops in this combination, the first loop changing last.
fn chosen(loops: &[Loop], combination: usize) -> Vec<(&'static str, &Value)> {
    let mut rest = combination;
    let mut chosen: Vec<(&'static str, &Value)> = loops
        .iter()
        .rev()
        .map(|it| {
            let value = &it.values[rest % it.values.len()];
            rest /= it.values.len();
            (it.key, value)
        })
        .collect();
    chosen.reverse();
    chosen
}

fn flow_name(work: &Work, storages: &[&Storage]) -> String {
    let names: Vec<&str> = storages.iter().map(|storage| storage.name.as_str()).collect();
    format!("{}@{}", work.name, names.join("+"))
}

/// Whether the writes of a load are on the medium when they complete.
fn is_sync(run: &Run, work: &Work, storages: &[&Storage]) -> bool {
    let of_storages = storages.iter().flat_map(|storage| &storage.open);
    let mut flags = of_storages.chain(&work.open).chain(&run.open);
    flags.any(|flag| matches!(*flag, "o_sync" | "o_dsync"))
}

fn flow<'f>(
    work: &'f Work,
    storages: Vec<&'f Storage>,
    chosen: &[(&'static str, &Value)],
    seed: u64,
) -> Flow<'f> {
    let first = storages.first();
    let mut flow = Flow {
        work,
        sizes: work.sizes.clone(),
        read: work.read,
        hits: work.hits,
        seek: work.seek,
        hit_area: first.map_or(1 << 20, |storage| storage.hit_area),
        shift: first.map_or(0, |storage| storage.shift),
        align: first.and_then(|storage| storage.align),
        seed,
        storages,
    };
    for (key, value) in chosen {
        match (*key, value) {
            ("size", Value::Size(size)) => flow.sizes = Sizes::only(*size),
            ("read", Value::Decimal(percent)) => flow.read = *percent,
            ("read-hits", Value::Decimal(percent)) => {
                flow.hits = Some((*percent, flow.hits.map_or(0.0, |hits| hits.1)));
            }
            ("write-hits", Value::Decimal(percent)) => {
                flow.hits = Some((flow.hits.map_or(0.0, |hits| hits.0), *percent));
            }
            ("seek", Value::Seek(seek)) => flow.seek = *seek,
            ("hit-area", Value::Size(size)) => flow.hit_area = *size,
            ("shift", Value::Size(size)) => flow.shift = *size,
            ("align", Value::Size(size)) => flow.align = (*size > 0).then_some(*size),
            _ => {}
        }
    }
    flow
}

/// The share of each load in the rate of a run: as its skew says, the rest evenly.
fn shares(run: &Run, works: &[Work]) -> Vec<f64> {
    let works: Vec<&Work> = run.works.iter().map(|at| &works[*at]).collect();
    let mut of_rate = shares_of(
        &works.iter().filter(|work| work.rate.is_none()).map(|work| work.skew).collect::<Vec<_>>(),
    )
    .into_iter();
    let share = |work: &&Work| match work.rate {
        Some(_) => 0.0,
        None => of_rate.next().unwrap_or(0.0),
    };
    works.iter().map(share).collect()
}

/// The shares of loads with these skews: the rest is evenly that of those without.
fn shares_of(skews: &[Option<f64>]) -> Vec<f64> {
    let given: f64 = skews.iter().flatten().sum();
    let without = skews.iter().filter(|skew| skew.is_none()).count();
    let rest = (100.0 - given).max(0.0);
    // Shares that do not come to 100 are taken as they relate to each other.
    let whole = if without == 0 && given > 0.0 { given } else { 100.0_f64.max(given) };
    let share = |skew: &Option<f64>| match skew {
        Some(skew) => skew / whole,
        None => rest / whole / without as f64,
    };
    skews.iter().map(share).collect()
}

/// What a load on a tree does, in words.
fn does(on: &OnTree<'_>) -> String {
    let OnTree { work, tasks, sizes, .. } = on;
    let what = match (&tasks[..], on.read) {
        (["mixed"], Some(percent)) => format!("reads {percent} %, writes the rest"),
        (tasks, _) => tasks.join(", "),
    };
    let access = if work.access.is_empty() { vec!["sequential"] } else { work.access.clone() };
    let select = if work.select.is_empty() { "sequential" } else { &work.select.join(" ") };
    let stop = work.stop_after.as_ref().map_or(String::new(), |it| format!(", stops after {it}"));
    let open =
        if work.open.is_empty() { String::new() } else { format!(", {}", work.open.join("+")) };
    format!("{what}; size {sizes}, {}, files {select}{stop}{open}", access.join("+"))
}
