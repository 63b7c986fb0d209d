//! The arguments of `ioecho replay`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::ArgAction;
use clap::builder::TypedValueParser;
use ioecho_linux::Backend;
use ioecho_replay::conflict::{ConflictMode, Strong};
use ioecho_replay::engine::PacingMode;
use ioecho_replay::map::RouteSpec;
use ioecho_replay::plan::{Alignment, TimingMode, Writes};
use ioecho_replay::verify::After;
use ioecho_run::flows::FlowSpec;
use ioecho_run::spec::{
    BUNDLE_MAX, DEDUP_UNITS, DEDUPS, FIFO, IN_FLIGHT, IOPS_SCALES, PERCENT, ReplaySpec, SPEEDUPS,
    START_GRACE_MAX, THREADS, is_dedup_unit,
};
use ioecho_stats::required::Requirement;
use ioecho_trace::{Bytes, JournalMode, Nanos, VerifyMode};
use jiff::Timestamp;

use super::quantity::{positive_span, span};
use super::words::words;
use super::{LiveArgs, LoadArgs, ReadArgs, WatchedArgs};
use crate::exit::{self, Coded};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// A trace in any known format, or the directory of a run
    #[arg(required_unless_present_any = ["like", "flow"])]
    pub(crate) trace: Option<PathBuf>,

    /// In place of a trace: one of several loads at once, each by its own rule, such as
    /// oltp=gen:random?size=8k;threads=32. Behind the load: threads, think and share, or cap; on,
    /// requests, data, read-data, written-data (docs/flows.md)
    #[arg(long, value_name = "FLOW", conflicts_with_all = ["trace", "map", "map_file"])]
    pub(crate) flow: Vec<FlowSpec>,

    /// A block device, a file, or a simulation (sim:size=64G,units=8,…); several take the volumes
    /// of the trace in turn
    #[arg(
        long,
        short,
        value_name = "TARGET",
        required_unless_present_any = ["map", "map_file", "like"]
    )]
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

    /// Take everything that is not typed from the command line of this run, but outputs and
    /// --destroy; where a target or a transform is typed, none of that run is taken
    #[arg(long, value_name = "RUN")]
    pub(crate) like: Option<PathBuf>,

    /// Replay so many times with the same settings, into the directories RUN/1, RUN/2 and so on,
    /// and tell the medians over the runs
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000),
        conflicts_with_all = [
            "continues", "start_at", "gate", "interval_csv", "interval_json", "interval_flatfile",
            "metrics",
        ]
    )]
    pub(crate) runs: Option<u32>,

    /// Checks of the verdict that must pass, or the exit code is 16: NAME, NAME=limited (a finding
    /// about the device will do), all (`ioecho explain` lists them)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) require: Vec<Requirement>,

    /// Tell every check with what to do, and all percentiles
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print no progress line
    #[arg(long, short)]
    pub(crate) quiet: bool,

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

    #[command(flatten)]
    pub(crate) live: LiveArgs,

    #[command(flatten)]
    pub(crate) watched: WatchedArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl ReplayArgs {
    /// The order to replay, without the outputs that only show the run.
    pub(crate) fn spec(&self) -> anyhow::Result<ReplaySpec> {
        let Self {
            trace,
            flow,
            target,
            map,
            map_file,
            output,
            load,
            timing,
            safety,
            data,
            engine,
            host,
            require,
            live: _,
            runs: _,
            like: _,
            watched,
            quiet: _,
            verbose: _,
            read,
        } = self;
        let usage = |text: String| Coded::error(exit::USAGE, text);
        let cpus = host.cpus.as_deref().map(str::parse).transpose();
        let load = load.asked();
        Ok(ReplaySpec {
            trace: trace.clone().unwrap_or_default(),
            flows: flow.clone(),
            read: read.options(),
            start: load.window.start,
            duration: load.window.duration,
            transforms: load.chain,
            targets: target.clone(),
            map: map.clone(),
            map_file: map_file.clone(),
            output: output.clone(),
            timing: timing.timing,
            speedup: timing.speedup,
            server_speed: timing.server_speed,
            iops_scale: timing.iops_scale,
            start_grace: timing.start_grace,
            start_at: timing.start_at,
            end_after: timing.end_after,
            follow_in_flight: timing.follow_in_flight,
            bundle: timing.bundle,
            writes: match (safety.read_only, safety.writes_as_reads) {
                (true, _) => Writes::LeaveOut,
                (false, true) => Writes::AsReads,
                (false, false) => Writes::Issue,
            },
            destroy: safety.destroy.clone(),
            allow_cached: safety.allow_cached,
            errors_max: safety.on_error.0,
            fill_random_percent: data.fill_random,
            dedup: data.dedup,
            dedup_unit: data.dedup_unit,
            sync_writes: data.sync_writes,
            cache_size: data.cache_size,
            verify: data.verify,
            continues: data.continues.clone(),
            journal: data.journal,
            family: data.family.clone(),
            after: data.after,
            alignment: data.align,
            conflicts: engine.conflicts,
            strong: Strong::try_from(engine.strong).map_err(|error| usage(error.to_string()))?,
            in_flight_max: engine.in_flight_max,
            backend: engine.backend,
            threads: engine.threads,
            sqpoll: engine.sqpoll,
            iopoll: engine.iopoll,
            pacing: host.pacing,
            cpus: cpus.map_err(|error| usage(format!("--cpus {error}")))?,
            fifo: host.fifo,
            lock_memory: host.lock_memory,
            dma_latency: host.dma_latency,
            require: require.clone(),
            expert: watched.expert,
            witness: watched.witness,
            scratch: false,
        })
    }
}

/// When requests are issued.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Timing")]
pub(crate) struct TimingArgs {
    /// What decides when a request is issued
    #[arg(long, value_parser = timing(), default_value_t)]
    pub(crate) timing: TimingMode,

    /// Replay this many times as fast as recorded; with --timing dependency, only requests that
    /// wait for no other
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) speedup: f64,

    /// With --timing dependency: divide think times by this, as a faster server would
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) server_speed: f64,

    /// Issue this many times as many requests in the same time: below 1 some are left out evenly,
    /// above 1 they are repeated at other places
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    pub(crate) iops_scale: f64,

    /// From the moment when all is ready to the first request
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = grace)]
    pub(crate) start_grace: Nanos,

    /// Issue the first request at this instant of the host's clock, such as 2026-11-23T22:00:00Z or
    /// +30s from now, so that several hosts begin together
    #[arg(long, value_name = "INSTANT", value_parser = instant, conflicts_with = "start_grace")]
    pub(crate) start_at: Option<Nanos>,

    /// Open everything, say so on this inherited descriptor, and begin at the instant that is named
    /// there; IN,OUT where it is a pair of pipes (docs/replay.md)
    #[arg(
        long,
        value_name = "FD|IN,OUT",
        value_parser = gate,
        conflicts_with_all = ["start_grace", "start_at"]
    )]
    pub(crate) gate: Option<Descriptors>,

    /// Issue nothing more this long after the first instant of the replay, whatever the load still
    /// has, and wait for what is in flight; --duration cuts the load in its own time instead
    #[arg(long, value_name = "TIME", value_parser = positive_span)]
    pub(crate) end_after: Option<Nanos>,

    /// Hold back requests while more are in flight than in the recording at that moment, rounded
    /// up to a power of two
    #[arg(long)]
    pub(crate) follow_in_flight: bool,

    /// Issue requests that are due within this of each other (at most 100us) in one system call,
    /// when the last is due; auto: those that are due by then
    #[arg(long, value_name = "TIME", default_value = "auto", value_parser = bundle)]
    pub(crate) bundle: Nanos,
}

pub(super) fn timing() -> impl TypedValueParser<Value = TimingMode> {
    words(&TimingMode::OF_STREAMS, TimingMode::name, |mode| match mode {
        TimingMode::Timed => "The recorded time, whatever the device does",
        TimingMode::Afap => "A free place below --in-flight-max: as fast as possible",
        TimingMode::Load => {
            "As fast as possible, with no more in flight than in the recording at that point"
        }
        TimingMode::Dependency => {
            "The completion of the requests that it waits for (`ioecho depend`), plus a think time"
        }
        TimingMode::Flows => "By the rule of its flow",
    })
}

pub(super) fn verify() -> impl TypedValueParser<Value = VerifyMode> {
    words(&VerifyMode::ALL, VerifyMode::name, |mode| match mode {
        VerifyMode::Off => "Nothing; what is written can be verified later all the same",
        VerifyMode::Reads => "Every read of the load",
        VerifyMode::Final => "Every read, and at the end everything that was written",
        VerifyMode::Preread => {
            "As final, and what is known is read before it is overwritten; slows the load"
        }
        VerifyMode::Paranoia => {
            "As final, and every write is read again as soon as it has completed"
        }
    })
}

/// The event between a run and the moment when its targets are read again.
pub(super) fn after() -> impl TypedValueParser<Value = After> {
    words(&After::ALL, After::name, |after| match after {
        After::Kill => "The run ended or was killed; the host went on",
        After::PowerCut => "The power failed: only what a flush or FUA made durable must be there",
    })
}

/// What the notes of a run must survive.
pub(super) fn journal() -> impl TypedValueParser<Value = JournalMode> {
    words(&JournalMode::ALL, JournalMode::name, |mode| match mode {
        JournalMode::Kill => "The end of the process",
        JournalMode::Durable => "A power cut: each step of the engine waits for one synced write",
    })
}

fn alignment() -> impl TypedValueParser<Value = Alignment> {
    words(&Alignment::ALL, Alignment::name, |alignment| match alignment {
        Alignment::Refuse => "They are left out and counted",
        Alignment::Round => "They are widened to whole blocks and counted",
    })
}

fn conflicts() -> impl TypedValueParser<Value = ConflictMode> {
    words(&ConflictMode::ALL, ConflictMode::name, |mode| match mode {
        ConflictMode::Allow => "Both are issued and race",
        ConflictMode::Drop => "The later one is left out",
        ConflictMode::Partial => "The later one waits; others overtake it",
        ConflictMode::Ordering => "The later one and all behind it wait",
    })
}

fn backend() -> impl TypedValueParser<Value = Backend> {
    words(&Backend::ALL, Backend::name, |backend| match backend {
        Backend::Auto => "The best that the system allows: io_uring, then aio, then threads",
        Backend::Uring => "io_uring",
        Backend::Aio => "Linux AIO",
        Backend::Threads => "A thread for each request in flight, with pread and pwrite",
    })
}

fn pacing() -> impl TypedValueParser<Value = PacingMode> {
    words(&PacingMode::ALL, PacingMode::name, |mode| match mode {
        PacingMode::Hybrid => "Sleep until near, then spin; how near is measured at the start",
        PacingMode::Spin => "Spin",
        PacingMode::Sleep => "Sleep",
    })
}

/// The options that decide which data may be overwritten.
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

    /// End the run at the first request that fails (stop), after N of them, or never (continue);
    /// with --verify a place whose data are not as they must be counts like one, once
    #[arg(
        long,
        value_name = "continue|stop|N",
        default_value = "continue",
        value_parser = on_error
    )]
    pub(crate) on_error: OnError,
}

/// How many failed requests end a run. With `None`, no number of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnError(pub(crate) Option<u64>);

/// The contents of writes, and whether they are verified.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// To how much of its size the data that writes write can be compressed, in percent
    #[arg(
        long,
        value_name = "0..100",
        default_value_t = 100,
        value_parser = clap::value_parser!(u8).range(whole(PERCENT))
    )]
    pub(crate) fill_random: u8,

    /// How many blocks share one content on average
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = dedup)]
    pub(crate) dedup: f64,

    /// The size of such a block; above 4k, and where it is verified, its content follows from its
    /// place
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = dedup_unit)]
    pub(crate) dedup_unit: Bytes,

    /// Write through any volatile cache: every write with FUA
    #[arg(long)]
    pub(crate) sync_writes: bool,

    /// How much the storage's own cache holds (controller, array, drive), of each target: the
    /// verdict says when the load fits into it
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache_size: Option<Bytes>,

    /// Prove that the target holds what was written
    #[arg(long, value_parser = verify(), default_value = VerifyMode::default().name())]
    pub(crate) verify: VerifyMode,

    /// What the notes of a run that verifies must survive
    #[arg(long, value_parser = journal(), default_value = JournalMode::default().name())]
    pub(crate) journal: JournalMode,

    /// Go on from this earlier run on the same targets: what it wrote is known to this one, and so
    /// is what the runs wrote that it continued
    #[arg(long, value_name = "RUN", group = "earlier")]
    pub(crate) continues: Option<PathBuf>,

    /// Be the next run of the family in this directory, which is made if it is not there: what all
    /// its earlier runs wrote is known to this one
    #[arg(long, value_name = "DIR", group = "earlier")]
    pub(crate) family: Option<PathBuf>,

    /// What came between that run, or the last of the family, and this one [default: kill; in a
    /// family power-cut, if the host was started anew since]
    #[arg(long, value_parser = after(), requires = "earlier")]
    pub(crate) after: Option<After>,

    /// A request that is not aligned to the blocks of its target is left out and counted (refuse),
    /// or widened to whole blocks (round)
    #[arg(long, value_parser = alignment(), default_value = Alignment::default().name())]
    pub(crate) align: Alignment,
}

/// How requests go to the device.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// What happens to a request that overlaps one in flight
    #[arg(long, value_parser = conflicts(), default_value = ConflictMode::default().name())]
    pub(crate) conflicts: ConflictMode,

    /// What conflicts: 0 two writes, 1 all but two reads, 2 all
    #[arg(
        long,
        value_name = "0..2",
        default_value_t = Strong::default().level(),
        value_parser = clap::value_parser!(u8).range(0..=2)
    )]
    pub(crate) strong: u8,

    /// Most requests in flight at a time on a target; those once pushed back on conflict take no
    /// place of these and are as many more at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = ioecho_stats::judge::IN_FLIGHT_DEFAULT,
        value_parser = clap::value_parser!(u32).range(whole(IN_FLIGHT))
    )]
    pub(crate) in_flight_max: u32,

    /// How requests reach the kernel
    #[arg(long, value_parser = backend(), default_value = Backend::default().name())]
    pub(crate) backend: Backend,

    /// For the back end threads: how many [default: --in-flight-max, at most 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(whole(THREADS)))]
    pub(crate) threads: Option<u32>,

    /// For io_uring: a thread of the kernel looks for requests; it takes a whole processor
    #[arg(long)]
    pub(crate) sqpoll: bool,

    /// For io_uring: completions are polled for, where the device can
    #[arg(long, conflicts_with = "sqpoll")]
    pub(crate) iopoll: bool,
}

/// The settings of the host for the run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Pacing")]
pub(crate) struct HostArgs {
    /// How the time to the next request is spent
    #[arg(long, value_parser = pacing(), default_value = PacingMode::default().name())]
    pub(crate) pacing: PacingMode,

    /// Run the issuing threads on these processors, such as 2,4-7
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,

    /// Run the issuing threads with this real-time priority (first in, first out)
    #[arg(
        long,
        value_name = "1..99",
        value_parser = clap::value_parser!(u8).range(whole(FIFO))
    )]
    pub(crate) fifo: Option<u8>,

    /// Lock the program's memory (mlockall)
    #[arg(long)]
    pub(crate) lock_memory: bool,

    /// Keep the processors out of deep sleep
    #[arg(long)]
    pub(crate) dma_latency: bool,
}

/// The range in the type that clap takes.
pub(super) fn whole<T: Copy + Into<i64>>(range: RangeInclusive<T>) -> RangeInclusive<i64> {
    (*range.start()).into()..=(*range.end()).into()
}

pub(super) fn factor(text: &str) -> Result<f64, String> {
    number(text, SPEEDUPS, "must lie between 0.000001 and 1000000")
}

fn scale(text: &str) -> Result<f64, String> {
    number(text, IOPS_SCALES, "must lie between 0.001 and 1000")
}

fn dedup(text: &str) -> Result<f64, String> {
    number(text, DEDUPS, "must lie between 1 and 1000")
}

fn dedup_unit(text: &str) -> Result<Bytes, String> {
    let unit: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if is_dedup_unit(unit) { Ok(unit) } else { Err(format!("must be {DEDUP_UNITS}")) }
}

pub(super) fn number(text: &str, range: RangeInclusive<f64>, help: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && range.contains(&number) => Ok(number),
        Ok(_) => Err(help.to_owned()),
        Err(_) => Err("is not a number (write it like 2 or 0.5)".to_owned()),
    }
}

/// The descriptors of a gate: where the run reads, and where it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub(crate) from: i32,
    pub(crate) to: i32,
}

fn gate(text: &str) -> Result<Descriptors, String> {
    let number = |text: &str| -> Result<i32, String> {
        match text.parse() {
            Ok(number) if number >= 3 => Ok(number),
            Ok(0..3) => Err("the standard streams have other uses: take 3 or more".to_owned()),
            _ => {
                Err("write the number of a descriptor, like 3, or two of them, like 3,4".to_owned())
            }
        }
    };
    let (from, to) = text.split_once(',').unwrap_or((text, text));
    Ok(Descriptors { from: number(from)?, to: number(to)? })
}

fn grace(text: &str) -> Result<Nanos, String> {
    let span = span(text)?;
    if span <= START_GRACE_MAX { Ok(span) } else { Err("at most 1h".to_owned()) }
}

/// An instant to come, in nanoseconds since 1970 (UTC).
fn instant(text: &str) -> Result<Nanos, String> {
    let now = Timestamp::now().as_nanosecond();
    let at = if let Some(from_now) = text.strip_prefix('+') {
        now + i128::from(span(from_now)?.0)
    } else {
        let unclear = "is no instant (write it like 2026-11-23T22:00:00Z or +30s)";
        text.parse::<Timestamp>().map_err(|_| unclear.to_owned())?.as_nanosecond()
    };
    if at <= now {
        return Err("is over".to_owned());
    }
    i64::try_from(at).map(Nanos).map_err(|_| "is too far off".to_owned())
}

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
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn asked(line: &str) -> ReplaySpec {
        let words = ["ioecho", "replay"].into_iter().chain(line.split_ascii_whitespace());
        match Args::try_parse_from(words).unwrap().command {
            Command::Replay(replay) => replay.spec().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// A text in which every field of the order stands. Two orders are the same if their texts are.
    fn told(spec: &ReplaySpec) -> String {
        format!("{spec:#?}")
    }

    #[test]
    fn an_instant_to_come_is_an_instant_or_a_span_from_now() {
        assert_eq!(instant("2200-01-01T00:00:00Z"), Ok(Nanos(7_258_118_400_000_000_000)));
        let now = Timestamp::now().as_nanosecond();
        let soon = i128::from(instant("+1h").unwrap().0);
        assert!(soon >= now + 3_600_000_000_000, "{now} {soon}");
        assert_eq!(instant("2001-01-01T00:00:00Z").unwrap_err(), "is over");
        for unclear in ["22:00", "tomorrow", "2200-01-01", "+", ""] {
            assert!(instant(unclear).is_err(), "{unclear}");
        }
    }

    #[test]
    fn what_is_typed_is_stored_and_read_as_it_was_typed() {
        let sizes = "--block-size 512 --cache-size 8G --start 90s --duration 1.5m";
        let lines = [
            "t -t sim",
            "t -t sim -t sim:size=1G,units=3 -o out --speedup 2.5 --iops-scale 0.1 --bundle 20us \
             --start-grace 1s --follow-in-flight --on-error 7 --fill-random 30 --dedup 1.5 \
             --dedup-unit 128k",
            "t -t a --timing load --align round --conflicts ordering --strong 2 --in-flight-max 7 \
             --verify paranoia --continues before --after power-cut --destroy a --sync-writes",
            "t -t a --timing dependency --server-speed 2.5",
            "t -t a --read-only --backend threads --threads 9 --pacing spin --cpus 2,4-7 --fifo 3",
            "t -t a --writes-as-reads --sqpoll --lock-memory --dma-latency --allow-cached",
            "t -t a --start-at 2199-11-23T22:00:00+01:00",
            "gen:random?endless=yes -t a --timing afap --end-after 1m",
            "--flow a=gen:random?endless=yes;threads=8;think=1ms --flow t;cap=3;on=2 -t a -t b",
            "t --map sda=sim:size=1G,units=2,from=4k,length=1G,to=8k,room=2G,scale=0.5 --map *=b",
            "t --map-file routes --timing afap --iopoll --expert=20ms --witness=tracefs",
            "t -t sim --require all,lateness=limited --expert --repeat 3 --busiest 5m,by=bytes \
             --anonymise secret,extent=4k --reverse",
            "t -t sim --strict --event D --format blkreplay --whole-seconds poisson --time-unit us",
            "t -t sim --sort-whole --columns ts:us,op,offset:sectors,length:bytes --separator ; \
             --ops 0=read/1=write",
        ];
        for line in lines.into_iter().chain([format!("t -t sim {sizes}").as_str()]) {
            let spec = asked(line);
            let json = serde_json::to_string(&spec).unwrap();
            // `all_apply` belongs to the reader of an order, and is not stored.
            let unread = |mut spec: ReplaySpec| {
                spec.read.all_apply = false;
                told(&spec)
            };
            let read: ReplaySpec = serde_json::from_str(&json).unwrap();
            assert_eq!(unread(read), unread(spec.clone()), "{line}");
            let read: ReplaySpec = toml::from_str(&toml::to_string(&spec).unwrap()).unwrap();
            assert_eq!(unread(read), unread(spec), "{line}");
        }
    }

    #[test]
    fn what_is_not_typed_is_what_a_spec_says_of_itself() {
        let mut typed = asked("t -t sim");
        typed.read.all_apply = false;
        let said = ReplaySpec {
            trace: "t".into(),
            targets: vec!["sim".to_owned()],
            ..ReplaySpec::default()
        };
        assert_eq!(told(&typed), told(&said));
    }

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
    fn a_gate_is_one_descriptor_or_two_and_no_standard_stream() {
        assert_eq!(gate("7"), Ok(Descriptors { from: 7, to: 7 }));
        assert_eq!(gate("3,4"), Ok(Descriptors { from: 3, to: 4 }));
        for wrong in ["", "2", "3,1", "-3", "3,", "3,4,5", "in"] {
            assert!(gate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bundle_never_makes_requests_late() {
        assert_eq!(bundle("auto"), Ok(Nanos::ZERO));
        assert_eq!(bundle("20us"), Ok(Nanos::from_micros(20)));
        assert!(bundle("1ms").is_err());
    }
}
