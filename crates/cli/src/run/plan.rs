//! What was typed becomes what will be done: resolved, checked, and printable before anything is
//! touched.

use std::fmt;
use std::path::{Path, PathBuf};

use ioecho_linux::{Access, Backend, Hazard, OpenOptions, TargetFacts, guard, target};
use ioecho_replay::plan::{PlanTotals, Planned, Planner, TargetLimits, Timing, Writes};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::SimSpec;
use ioecho_stats::judge;
use ioecho_trace::{Batch, Bytes, Nanos, Op, Source};

use crate::args::{ReplayArgs, WindowArgs, strong};
use crate::exit::{self, Coded};
use crate::run::open;

/// Requests that the look-ahead of the scheduler holds.
const LOOK_AHEAD: usize = 1 << 12;

/// Where requests go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Nowhere: a simulated device.
    Simulated { text: String, spec: SimSpec },
    /// A block device or a file.
    Real { path: PathBuf, options: OpenOptions, facts: Box<TargetFacts>, hazards: Vec<Hazard> },
}

/// A replay, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ReplayPlan {
    pub(crate) trace: PathBuf,
    pub(crate) window: WindowArgs,
    pub(crate) timing: Timing,
    pub(crate) target: Target,
    pub(crate) destroy: Vec<PathBuf>,
    pub(crate) scheduler: Config,
    pub(crate) strong_level: u8,
    pub(crate) backend: Backend,
    pub(crate) output: PathBuf,
    pub(crate) quiet: bool,
}

impl ReplayPlan {
    /// Resolves what was typed, and opens the trace. Looks at the target and its hazards, and
    /// changes nothing.
    pub(crate) fn new(args: &ReplayArgs) -> anyhow::Result<(Self, Box<dyn Source>)> {
        // A trace that cannot be opened is told before the target is so much as looked at.
        let source = open::trace(&args.trace, &args.read.options(), args.window)?;
        let target = match args.target.strip_prefix("sim:").or((args.target == "sim").then_some(""))
        {
            Some(text) => {
                let spec = text
                    .parse()
                    .map_err(|error| Coded::error(exit::USAGE, format!("--target {error}")))?;
                Target::Simulated { text: args.target.clone(), spec }
            }
            None => look_at(Path::new(&args.target), args)?,
        };
        let scheduler = Config {
            conflicts: args.conflicts.mode(),
            strong: strong(args.strong),
            look_ahead: LOOK_AHEAD,
            ..Config::with_in_flight_max(args.in_flight_max)
        };
        let timing = Timing {
            start: args.window.start,
            speedup: args.speedup,
            writes: if args.read_only { Writes::LeaveOut } else { Writes::Issue },
            ..Timing::default()
        };
        let plan = Self {
            trace: args.trace.clone(),
            window: args.window,
            timing,
            target,
            destroy: args.destroy.clone(),
            scheduler,
            strong_level: args.strong,
            backend: args.backend.backend(),
            output: args.output.clone().unwrap_or_else(default_output),
            quiet: args.quiet,
        };
        Ok((plan, source))
    }

    /// Refuses a target that may hold somebody's data, unless it was named for it.
    pub(crate) fn guard(&self) -> anyhow::Result<()> {
        let Target::Real { path, hazards, options, .. } = &self.target else { return Ok(()) };
        if options.access == Access::ReadOnly {
            return Ok(());
        }
        let named = self.destroy.iter().any(|named| same_file(named, path));
        let against: Vec<String> = hazards
            .iter()
            .filter(|hazard| !(named && hazard.can_be_named()))
            .map(|hazard| format!("  - {hazard}"))
            .collect();
        if let Some(other) = self.destroy.iter().find(|named| !same_file(named, path)) {
            let text = format!(
                "--destroy {} does not name the target, {}\n  = help: check which device you mean",
                other.display(),
                path.display()
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        if against.is_empty() {
            return Ok(());
        }
        let help = if hazards.iter().all(Hazard::can_be_named) {
            format!(
                "if all of that may be lost: --destroy {}; to replay the reads alone: --read-only",
                path.display()
            )
        } else {
            "what is in use cannot be overruled: give it free first; to replay the reads alone: \
             --read-only"
                .to_owned()
        };
        let text = format!(
            "{} is not overwritten; nothing was touched:\n{}\n  = help: {help}",
            path.display(),
            against.join("\n")
        );
        Err(Coded::error(exit::REFUSED, text))
    }

    /// The limits that the target sets, as far as they are known without opening it for writing.
    fn limits(&self) -> TargetLimits {
        let (capacity, block_size) = match &self.target {
            Target::Simulated { spec, .. } => (spec.capacity, spec.block_size),
            Target::Real { facts, .. } => (facts.capacity, facts.logical_block),
        };
        let supports = Op::ALL.map(|op| op != Op::Zone);
        TargetLimits { capacity, block_size, length_max: Bytes(u64::MAX), supports }
    }

    /// Reads the whole trace and says what a replay would do.
    pub(crate) fn forecast(&self, source: &mut dyn Source) -> anyhow::Result<Forecast> {
        let mut planner = Planner::new(self.limits(), self.timing);
        let mut batch = Batch::new(source.header().columns);
        let mut forecast = Forecast::default();
        let mut planned: Vec<Planned> = Vec::new();
        while source.next_batch(&mut batch)? {
            planned.clear();
            for request in batch.iter() {
                planner.plan(&request, &mut planned);
            }
            for planned in &planned {
                if planned.refusal.is_some() {
                    forecast.refused += 1;
                } else if planned.op.changes_data() {
                    forecast.changes += 1;
                    forecast.changed_bytes += planned.length.0;
                    let end = planned.end().0;
                    let (from, to) = forecast.changed.unwrap_or((planned.offset.0, end));
                    forecast.changed = Some((from.min(planned.offset.0), to.max(end)));
                }
            }
        }
        forecast.totals = planner.totals();
        forecast.wraparound = forecast.totals.wraparound;
        Ok(forecast)
    }
}

/// What a replay would do.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    totals: PlanTotals,
    wraparound: f64,
    refused: u64,
    changes: u64,
    changed_bytes: u64,
    changed: Option<(u64, u64)>,
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { totals, wraparound, refused, changes, .. } = self;
        writeln!(
            f,
            "would replay  {} requests in {} ({refused} do not fit, {} left out by --read-only)",
            totals.planned - refused,
            totals.last_scheduled,
            totals.left_out
        )?;
        let doubt = if judge::WRAPAROUND.contains(wraparound) {
            ""
        } else {
            "; outside 0.5 to 2, so the verdict will be suspect"
        };
        writeln!(
            f,
            "wraparound    factor {wraparound:.3}, {} requests wrapped{doubt}",
            totals.wrapped
        )?;
        match self.changed {
            None => write!(f, "overwritten   nothing"),
            Some((from, to)) => write!(
                f,
                "overwritten   what lies between bytes {from} and {to}, by {changes} requests of \
                 {} together",
                Bytes(self.changed_bytes)
            ),
        }
    }
}

impl fmt::Display for ReplayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trace         {}", self.trace.display())?;
        let from = self.window.start.map_or("its first request".to_owned(), |at| at.to_string());
        let length =
            self.window.duration.map_or("its end".to_owned(), |span| format!("{span} later"));
        writeln!(f, "part          from {from} to {length}, speed {}", self.timing.speedup)?;
        match &self.target {
            Target::Simulated { text, .. } => writeln!(f, "target        {text}: simulated")?,
            Target::Real { path, facts, hazards, options } => {
                writeln!(
                    f,
                    "target        {}: {}, blocks of {}",
                    path.display(),
                    facts.capacity,
                    facts.logical_block
                )?;
                if options.access == Access::ReadOnly {
                    writeln!(f, "access        reading only")?;
                }
                for hazard in hazards {
                    writeln!(f, "hazard        {hazard}")?;
                }
            }
        }
        let Config { conflicts, in_flight_max, .. } = self.scheduler;
        writeln!(
            f,
            "engine        conflicts {}, strong {}, at most {in_flight_max} in flight",
            format!("{conflicts:?}").to_lowercase(),
            self.strong_level
        )?;
        write!(f, "results       {}", self.output.display())
    }
}

fn look_at(path: &Path, args: &ReplayArgs) -> anyhow::Result<Target> {
    if !args.read_only && same_file(path, &args.trace) {
        let text = format!("{} is both the trace and the target", path.display());
        return Err(Coded::error(exit::USAGE, text));
    }
    let access = if args.read_only { Access::ReadOnly } else { Access::ReadWrite };
    let options = OpenOptions { allow_cached: args.allow_cached, ..OpenOptions::new(access) };
    // Only looking: the target is opened for writing when the guard has agreed.
    let looking = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
    let facts = target::open(path, looking)?.facts().clone();
    let hazards = if args.read_only { Vec::new() } else { guard::inspect(path)? };
    Ok(Target::Real { path: path.to_owned(), options, facts: Box::new(facts), hazards })
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// `ioecho-` and the instant, in the current directory.
pub(crate) fn default_output() -> PathBuf {
    dated("ioecho")
}

/// A name with the instant, to the second.
pub(crate) fn dated(prefix: &str) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let names = (1..).map(|n| match n {
        1 => PathBuf::from(format!("{prefix}-{now}")),
        n => PathBuf::from(format!("{prefix}-{now}-{n}")),
    });
    names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| PathBuf::from(prefix))
}

/// How long the replay is to take, where the plan alone tells.
pub(crate) fn known_duration(plan: &ReplayPlan) -> Option<Nanos> {
    plan.window.duration.map(|span| span.scaled_down(plan.timing.speedup))
}
