//! What can be typed after `ioecho replay`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, ValueEnum};
use ioecho_linux::Backend;
use ioecho_replay::conflict::{ConflictMode, Strong};
use ioecho_replay::engine::PacingMode;
use ioecho_replay::map::RouteSpec;
use ioecho_replay::plan::{Alignment, TimingMode};
use ioecho_replay::verify::{After, VerifyMode};
use ioecho_stats::required::Requirement;
use ioecho_trace::{Bytes, Nanos};

use super::{LiveArgs, LoadArgs, ReadArgs, WatchedArgs, span};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// A trace in any known format, or the directory of a run
    pub(crate) trace: PathBuf,

    /// A block device, a file, or a simulation (sim:size=64G,units=8,…); several take the volumes
    /// of the trace in turn
    #[arg(long, short, value_name = "TARGET", required_unless_present_any = ["map", "map_file"])]
    pub(crate) target: Vec<String>,

    /// Where a volume of the trace goes:
    /// VOLUME=TARGET[,from=,length=,to=,room=,scale=]; VOLUME * is every other one
    #[arg(long, value_name = "ROUTE")]
    pub(crate) map: Vec<RouteSpec>,

    /// A file with such routes, one in each line
    #[arg(long, value_name = "FILE")]
    pub(crate) map_file: Option<PathBuf>,

    /// The directory for the results; must not exist or be empty [default: ioecho-DATE-TIME]
    #[arg(long, short, value_name = "RUN")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) timing: TimingArgs,

    #[command(flatten)]
    pub(crate) safety: SafetyArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    #[command(flatten)]
    pub(crate) engine: EngineArgs,

    #[command(flatten)]
    pub(crate) host: HostArgs,

    /// Checks of the verdict that must pass, or the exit code is 16: NAME, NAME=limited (a finding
    /// about the device will do), all (`ioecho explain` lists them)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) require: Vec<Requirement>,

    #[command(flatten)]
    pub(crate) live: LiveArgs,

    #[command(flatten)]
    pub(crate) watched: WatchedArgs,

    /// Print no progress line
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// When requests are issued.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Timing")]
pub(crate) struct TimingArgs {
    /// What decides when a request is issued
    #[arg(long, value_parser = timing(), default_value_t)]
    pub(crate) timing: TimingMode,

    /// Replay this many times as fast as recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) speedup: f64,

    /// Issue this many times as many requests in the same time: below 1 some are left out evenly,
    /// above 1 they are repeated at other places
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    pub(crate) iops_scale: f64,

    /// From the moment when all is ready to the first request
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = grace)]
    pub(crate) start_grace: Nanos,

    /// Hold back requests while more are in flight than in the recording at that moment, rounded
    /// up to a power of two
    #[arg(long)]
    pub(crate) follow_in_flight: bool,

    /// Issue requests that are due within this of each other (at most 100us) in one system call,
    /// when the last is due; auto: those that are due by then
    #[arg(long, value_name = "TIME", default_value = "auto", value_parser = bundle)]
    pub(crate) bundle: Nanos,
}

/// The words for what decides when a request is issued, and what they mean.
fn timing() -> impl TypedValueParser<Value = TimingMode> {
    let value = |mode: TimingMode| {
        PossibleValue::new(mode.name()).help(match mode {
            TimingMode::Timed => "The recorded time, whatever the device does",
            TimingMode::Afap => "A free place below --in-flight-max: as fast as possible",
            TimingMode::Load => {
                "As fast as possible, with no more in flight than in the recording at that point"
            }
        })
    };
    PossibleValuesParser::new(TimingMode::ALL.map(value)).try_map(|word| word.parse::<TimingMode>())
}

/// What may be overwritten.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Safety")]
pub(crate) struct SafetyArgs {
    /// Replay the reads alone; the target is never opened for writing
    #[arg(long, conflicts_with = "writes_as_reads")]
    pub(crate) read_only: bool,

    /// Replay writes as reads of the same place; the target is never opened for writing
    #[arg(long)]
    pub(crate) writes_as_reads: bool,

    /// Confirm that what this target holds may be destroyed; must name a target
    #[arg(long, value_name = "TARGET", action = ArgAction::Append)]
    pub(crate) destroy: Vec<PathBuf>,

    /// Say what would be done and what would be overwritten, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Go through the page cache where the file system refuses direct I/O (the run is marked
    /// invalid)
    #[arg(long)]
    pub(crate) allow_cached: bool,

    /// End the run at the first request that fails (stop), after N of them, or never (continue)
    #[arg(
        long,
        value_name = "continue|stop|N",
        default_value = "continue",
        value_parser = on_error
    )]
    pub(crate) on_error: OnError,
}

impl SafetyArgs {
    /// Whether the target is only read.
    pub(crate) fn reads_only(&self) -> bool {
        self.read_only || self.writes_as_reads
    }
}

/// How many failed requests end a run; none of any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnError(pub(crate) Option<u64>);

/// What writes write, and whether it is there afterwards.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// To how much of its size the data that writes write can be compressed, in percent
    #[arg(
        long,
        value_name = "0..100",
        default_value_t = 100,
        value_parser = clap::value_parser!(u8).range(0..=100)
    )]
    pub(crate) fill_random: u8,

    /// How many blocks of 4 KiB share one content on average; above 1 they cannot be verified
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = dedup)]
    pub(crate) dedup: f64,

    /// Write through any volatile cache: every write with FUA
    #[arg(long)]
    pub(crate) sync_writes: bool,

    /// How much the storage's own cache holds (controller, array, drive), of each target: the
    /// verdict says when the load fits into it
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache_size: Option<Bytes>,

    /// Prove that the target holds what was written
    #[arg(long, value_enum, default_value_t)]
    pub(crate) verify: VerifyArg,

    /// Go on from this earlier run on the same targets: what it wrote is known to this one, and so
    /// is what the runs wrote that it continued
    #[arg(long, value_name = "RUN")]
    pub(crate) continues: Option<PathBuf>,

    /// What came between that run and this one [default: kill]
    #[arg(long, value_enum, requires = "continues")]
    pub(crate) after: Option<AfterArg>,

    /// A request that is not aligned to the blocks of its target is left out and counted (refuse),
    /// or widened to whole blocks (round)
    #[arg(long, value_enum, default_value_t)]
    pub(crate) align: AlignArg,
}

/// What is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum VerifyArg {
    /// Nothing; what is written can be verified later all the same
    #[default]
    Off,
    /// Every read of the load
    Reads,
    /// Every read, and at the end everything that was written
    Final,
    /// As final, and what is known is read before it is overwritten; slows the load
    Preread,
    /// As final, and every write is read again as soon as it has completed
    Paranoia,
}

impl VerifyArg {
    pub(crate) fn mode(self) -> VerifyMode {
        match self {
            Self::Off => VerifyMode::Off,
            Self::Reads => VerifyMode::Reads,
            Self::Final => VerifyMode::Final,
            Self::Preread => VerifyMode::Preread,
            Self::Paranoia => VerifyMode::Paranoia,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.mode().name()
    }
}

/// What came between a run and whoever looks at its targets now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AfterArg {
    /// The run ended or was killed; the host went on
    #[default]
    Kill,
    /// The power failed: only what a flush or FUA made durable must be there
    PowerCut,
}

impl AfterArg {
    pub(crate) fn after(self) -> After {
        match self {
            Self::Kill => After::Kill,
            Self::PowerCut => After::PowerCut,
        }
    }
}

/// What becomes of requests that are not aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlignArg {
    /// They are left out and counted
    #[default]
    Refuse,
    /// They are widened to whole blocks and counted
    Round,
}

impl AlignArg {
    pub(crate) fn alignment(self) -> Alignment {
        match self {
            Self::Refuse => Alignment::Refuse,
            Self::Round => Alignment::Round,
        }
    }
}

/// How requests go to the device.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// What happens to a request that overlaps one in flight
    #[arg(long, value_enum, default_value_t)]
    pub(crate) conflicts: ConflictsArg,

    /// What conflicts: 0 two writes, 1 all but two reads, 2 all
    #[arg(
        long,
        value_name = "0..2",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(0..=2)
    )]
    pub(crate) strong: u8,

    /// Most requests in flight at a time on a target; those once pushed back on conflict take no
    /// place of these and are as many more at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = ioecho_stats::judge::IN_FLIGHT_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=16384)
    )]
    pub(crate) in_flight_max: u32,

    /// How requests reach the kernel
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendArg,

    /// For the back end threads: how many [default: --in-flight-max, at most 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,

    /// For io_uring: a thread of the kernel looks for requests; it takes a whole processor
    #[arg(long)]
    pub(crate) sqpoll: bool,

    /// For io_uring: completions are polled for, where the device can
    #[arg(long, conflicts_with = "sqpoll")]
    pub(crate) iopoll: bool,
}

/// What the host does for the run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Host")]
pub(crate) struct HostArgs {
    /// How the time to the next request is spent
    #[arg(long, value_enum, default_value_t)]
    pub(crate) pacing: PacingArg,

    /// Run the issuing threads on these processors, such as 2,4-7
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,

    /// Run the issuing threads with this real-time priority (first in, first out)
    #[arg(
        long,
        value_name = "1..99",
        value_parser = clap::value_parser!(u8).range(1..=99)
    )]
    pub(crate) fifo: Option<u8>,

    /// Lock the program's memory (mlockall)
    #[arg(long)]
    pub(crate) lock_memory: bool,

    /// Keep the processors out of deep sleep
    #[arg(long)]
    pub(crate) dma_latency: bool,
}

/// How the time to the next request is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PacingArg {
    /// Sleep until near, then spin; how near is measured at the start
    #[default]
    Hybrid,
    /// Spin
    Spin,
    /// Sleep
    Sleep,
}

impl PacingArg {
    pub(crate) fn mode(self) -> PacingMode {
        match self {
            Self::Hybrid => PacingMode::Hybrid,
            Self::Spin => PacingMode::Spin,
            Self::Sleep => PacingMode::Sleep,
        }
    }
}

/// What happens on conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConflictsArg {
    /// Both are issued and race
    Allow,
    /// The later one is left out
    Drop,
    /// The later one waits; others overtake it
    #[default]
    Partial,
    /// The later one and all behind it wait
    Ordering,
}

impl ConflictsArg {
    pub(crate) fn mode(self) -> ConflictMode {
        match self {
            Self::Allow => ConflictMode::Allow,
            Self::Drop => ConflictMode::Drop,
            Self::Partial => ConflictMode::Partial,
            Self::Ordering => ConflictMode::Ordering,
        }
    }
}

/// The rule for `--strong`.
pub(crate) fn strong(level: u8) -> Strong {
    match level {
        0 => Strong::WriteWrite,
        1 => Strong::AllButReads,
        _ => Strong::All,
    }
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// The best that the system allows: io_uring, then aio, then threads
    #[default]
    Auto,
    /// io_uring
    Uring,
    /// Linux AIO
    Aio,
    /// A thread for each request in flight, with pread and pwrite
    Threads,
}

impl BackendArg {
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::Auto => Backend::Auto,
            Self::Uring => Backend::Uring,
            Self::Aio => Backend::Aio,
            Self::Threads => Backend::Threads,
        }
    }
}

fn factor(text: &str) -> Result<f64, String> {
    number(text, 1e-6..=1e6, "must lie between 0.000001 and 1000000")
}

fn scale(text: &str) -> Result<f64, String> {
    number(text, 1e-3..=1e3, "must lie between 0.001 and 1000")
}

fn dedup(text: &str) -> Result<f64, String> {
    number(text, 1.0..=1e3, "must lie between 1 and 1000")
}

pub(super) fn number(
    text: &str,
    range: std::ops::RangeInclusive<f64>,
    help: &str,
) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && range.contains(&number) => Ok(number),
        Ok(_) => Err(help.to_owned()),
        Err(_) => Err("is not a number (write it like 2 or 0.5)".to_owned()),
    }
}

fn grace(text: &str) -> Result<Nanos, String> {
    let span = span(text)?;
    if span <= Nanos::from_secs(3600) { Ok(span) } else { Err("at most 1h".to_owned()) }
}

/// The longest bundle: what is not issued within this counts as late.
const BUNDLE_MAX: Nanos = Nanos::from_micros(100);

fn bundle(text: &str) -> Result<Nanos, String> {
    if text == "auto" {
        return Ok(Nanos::ZERO);
    }
    let span = span(text)?;
    if span <= BUNDLE_MAX {
        Ok(span)
    } else {
        Err(format!("at most {BUNDLE_MAX}: what waits longer is late"))
    }
}

fn on_error(text: &str) -> Result<OnError, String> {
    match text {
        "continue" => Ok(OnError(None)),
        "stop" => Ok(OnError(Some(1))),
        number => match number.parse() {
            Ok(0) | Err(_) => Err("write continue, stop, or a number above 0".to_owned()),
            Ok(number) => Ok(OnError(Some(number))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_bears_no_failure_some_or_any_number() {
        assert_eq!(on_error("continue"), Ok(OnError(None)));
        assert_eq!(on_error("stop"), Ok(OnError(Some(1))));
        assert_eq!(on_error("7"), Ok(OnError(Some(7))));
        for wrong in ["", "0", "-1", "never"] {
            assert!(on_error(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bundle_never_makes_requests_late() {
        assert_eq!(bundle("auto"), Ok(Nanos::ZERO));
        assert_eq!(bundle("20us"), Ok(Nanos::from_micros(20)));
        assert!(bundle("1ms").is_err());
    }
}
