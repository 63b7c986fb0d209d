//! The specification of a replay: a description of the request, independent of the host.
//!
//! A replay can be requested in several ways: on a command line, by a demonstration, by an agent
//! that received it from another host. So a request is a value that can be written and read. Making
//! one opens nothing and inspects nothing; the plan (`plan`) does that.
//!
//! Keys are named like those of `plan` in `run.toml`, with units. A missing key has the same
//! default as on the command line; an unknown key is refused.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use ioecho_linux::Backend;
use ioecho_linux::host::{CpuList, FIFO_MAX};
use ioecho_linux::record::InterfaceChoice;
use ioecho_replay::conflict::{ConflictMode, Strong};
use ioecho_replay::engine::PacingMode;
use ioecho_replay::map::RouteSpec;
use ioecho_replay::pattern::Fill;
use ioecho_replay::plan::{Alignment, TimingMode, Writes};
use ioecho_replay::verify::After;
use ioecho_stats::judge::IN_FLIGHT_DEFAULT;
use ioecho_stats::required::Requirement;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::{Asked, Load, Window};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Bytes, JournalMode, Nanos, VerifyMode};
use serde::{Deserialize, Serialize};

pub use ioecho_replay::schedule::IN_FLIGHT;
pub use ioecho_trace::workload::model::DEDUPS;

use crate::error::{Kind, Result, RunError};
use crate::flows::{FLOWS_MAX, FlowSpec, Flows};

/// The replay's speed, relative to the recording.
pub const SPEEDUPS: RangeInclusive<f64> = 1e-6..=1e6;

/// The factor on the number of requests.
pub const IOPS_SCALES: RangeInclusive<f64> = 1e-3..=1e3;

/// The size of blocks that share their content, where nothing else is said.
pub const DEDUP_UNIT: Bytes = Bytes(4 << 10);
/// What such a size must be, in words.
pub const DEDUP_UNITS: &str = "a multiple of 4k, at most 1G";

/// The longest time from readiness to the first request.
pub const START_GRACE_MAX: Nanos = Nanos::from_secs(3600);

/// The longest bundle, because beyond it requests count as late.
pub const BUNDLE_MAX: Nanos = Nanos::from_micros(100);

/// The intervals of the engine's telemetry. Shorter ones would contain almost nothing, yet each
/// takes the room of a line.
pub const EXPERT_INTERVALS: RangeInclusive<Nanos> = Nanos::from_millis(10)..=Nanos::from_secs(3600);

/// The number of threads of the back end `threads`.
pub const THREADS: RangeInclusive<u32> = 1..=4096;

/// Real-time priorities.
pub const FIFO: RangeInclusive<u8> = 1..=FIFO_MAX;

/// The compressed size of written data, in percent of their size.
pub const PERCENT: RangeInclusive<u8> = 0..=100;

/// What is to be replayed, on which targets, how, and which results are kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplaySpec {
    /// A trace in any known format, or the directory of a run.
    pub trace: PathBuf,
    /// In place of a trace: loads that go on at once, each by its own rule.
    pub flows: Vec<FlowSpec>,
    /// The options for reading it.
    pub read: ReadOptions,
    /// The start of the replayed part, in the trace's own time; `None`: at its first request.
    #[serde(rename = "start_ns")]
    pub start: Option<Nanos>,
    /// The length of the replayed part, in the trace's own time; `None`: all.
    #[serde(rename = "duration_ns")]
    pub duration: Option<Nanos>,
    /// The time from the replay's zero after which nothing more is issued; `None`: the replay ends
    /// with its part of the trace.
    #[serde(rename = "end_after_ns")]
    pub end_after: Option<Nanos>,
    /// The transforms of that part, in order: lines like `repeat 3`.
    pub transforms: Vec<Asked>,

    /// Block devices, files, or simulations (`sim:…`); several take the volumes in turn.
    pub targets: Vec<String>,
    /// The routes of the trace's volumes.
    pub map: Vec<RouteSpec>,
    /// A file with more routes.
    pub map_file: Option<PathBuf>,
    /// The directory for the results; `None`: one with the date in its name.
    pub output: Option<PathBuf>,

    /// When requests are issued.
    pub timing: TimingMode,
    /// The recorded instants pass this many times as fast; with timing `dependency`, those of the
    /// requests that wait for no other.
    pub speedup: f64,
    /// With timing `dependency`: think times are divided by this.
    pub server_speed: f64,
    /// The factor on the number of requests in the same time.
    pub iops_scale: f64,
    /// The time from readiness to the first request.
    #[serde(rename = "start_grace_ns")]
    pub start_grace: Nanos,
    /// The instant of the first request by the host's clock, nanoseconds since 1970 (UTC), in place
    /// of `start_grace`; several hosts can begin together.
    #[serde(rename = "start_at_unix_ns")]
    pub start_at: Option<Nanos>,
    /// Whether requests are held back while more are in flight than in the recording.
    pub follow_in_flight: bool,
    /// Requests that fall due within this span are issued together; zero: only requests that are
    /// already due.
    #[serde(rename = "bundle_ns")]
    pub bundle: Nanos,

    /// What happens to writes.
    pub writes: Writes,
    /// Targets whose content may be destroyed.
    pub destroy: Vec<PathBuf>,
    /// Whether the page cache may be used if the file system refuses direct I/O.
    pub allow_cached: bool,
    /// The number of failed requests that ends the run; `None`: no limit.
    pub errors_max: Option<u64>,

    /// The compressed size of written data, in percent of their size.
    pub fill_random_percent: u8,
    /// How many blocks share one content on average.
    pub dedup: f64,
    /// The size of such a block.
    pub dedup_unit: Bytes,
    /// Whether every write goes through volatile caches (FUA).
    pub sync_writes: bool,
    /// The size of the storage's own cache, for each target.
    #[serde(rename = "cache_bytes")]
    pub cache_size: Option<Bytes>,
    /// The extent of verification.
    pub verify: VerifyMode,
    /// What the notes of a run that verifies must survive.
    pub journal: JournalMode,
    /// The directory of the run that this one continues.
    pub continues: Option<PathBuf>,
    /// The directory of the family that this run belongs to.
    pub family: Option<PathBuf>,
    /// What happened between the earlier run and this one; of a family, if nothing is said, what
    /// its own notes tell.
    pub after: Option<After>,
    /// What happens to requests that are not aligned.
    pub alignment: Alignment,

    /// What happens to a request that overlaps one in flight.
    pub conflicts: ConflictMode,
    /// Which overlaps count as conflicts: 0, 1 or 2.
    pub strong: Strong,
    /// The most requests in flight on a target.
    pub in_flight_max: u32,
    /// How requests reach the kernel.
    pub backend: Backend,
    /// For the back end `threads`: the number of threads.
    pub threads: Option<u32>,
    /// For `io_uring`: whether a thread of the kernel polls for requests.
    pub sqpoll: bool,
    /// For `io_uring`: whether completions are polled for.
    pub iopoll: bool,

    /// How a thread waits for the next request.
    pub pacing: PacingMode,
    /// The processors of the issuing threads.
    pub cpus: Option<CpuList>,
    /// Their real-time priority.
    pub fifo: Option<u8>,
    /// Whether the program's memory is locked.
    pub lock_memory: bool,
    /// Whether the processors are kept out of deep sleep.
    pub dma_latency: bool,

    /// Checks of the verdict that must pass.
    pub require: Vec<Requirement>,
    /// The length of the telemetry's intervals, if telemetry is wanted.
    #[serde(rename = "expert_ns")]
    pub expert: Option<Nanos>,
    /// The interface for recording the kernel's view of the run, if a witness is wanted.
    pub witness: Option<InterfaceChoice>,
    /// Whether the target was made for this load alone, so that places outside of the load may be
    /// empty.
    pub scratch: bool,
}

impl Default for ReplaySpec {
    /// The default of everything except the trace and the target, which are empty.
    fn default() -> Self {
        Self {
            trace: PathBuf::new(),
            flows: Vec::new(),
            read: ReadOptions::default(),
            start: None,
            duration: None,
            end_after: None,
            transforms: Vec::new(),
            targets: Vec::new(),
            map: Vec::new(),
            map_file: None,
            output: None,
            timing: TimingMode::default(),
            speedup: 1.0,
            server_speed: 1.0,
            iops_scale: 1.0,
            start_grace: Nanos::from_millis(100),
            start_at: None,
            follow_in_flight: false,
            bundle: Nanos::ZERO,
            writes: Writes::default(),
            destroy: Vec::new(),
            allow_cached: false,
            errors_max: None,
            fill_random_percent: 100,
            dedup: 1.0,
            dedup_unit: DEDUP_UNIT,
            sync_writes: false,
            cache_size: None,
            verify: VerifyMode::default(),
            journal: JournalMode::default(),
            continues: None,
            family: None,
            after: None,
            alignment: Alignment::default(),
            conflicts: ConflictMode::default(),
            strong: Strong::default(),
            in_flight_max: IN_FLIGHT_DEFAULT,
            backend: Backend::default(),
            threads: None,
            sqpoll: false,
            iopoll: false,
            pacing: PacingMode::default(),
            cpus: None,
            fifo: None,
            lock_memory: false,
            dma_latency: false,
            require: Vec::new(),
            expert: None,
            witness: None,
            scratch: false,
        }
    }
}

impl ReplaySpec {
    /// The transforms of the trace before the replay.
    pub fn load(&self) -> Load {
        let window = Window { start: self.start, duration: self.duration };
        Load { window, chain: self.transforms.clone() }
    }

    /// Refuses missing settings, values out of range, and contradictions. Depends on the
    /// specification alone.
    pub fn check(&self) -> Result<()> {
        self.lacks()
            .or_else(|| self.beyond_measure())
            .or_else(|| self.contradiction())
            .map_or(Ok(()), |(what, help)| Err(RunError::with_help(Kind::Usage, what, help)))
    }

    /// A missing setting, and the remedy.
    fn lacks(&self) -> Option<(Wording, Wording)> {
        let names_target =
            !self.targets.is_empty() || !self.map.is_empty() || self.map_file.is_some();
        let names_load = !self.trace.as_os_str().is_empty() || !self.flows.is_empty();
        match (!names_load, names_target) {
            (true, _) => Some(("no trace is named".into(), "name it as `trace`".into())),
            (_, false) => Some(("no target is named".into(), "name it in `targets`".into())),
            (false, true) => None,
        }
    }

    /// A value that the command line would not accept either, and the remedy.
    fn beyond_measure(&self) -> Option<(Wording, Wording)> {
        fn within<T: PartialOrd>(range: &RangeInclusive<T>, value: Option<&T>) -> bool {
            value.is_none_or(|value| range.contains(value))
        }
        let is_positive = |span: Option<Nanos>| span.is_none_or(|span| span > Nanos::ZERO);
        let spans = Nanos::ZERO..=START_GRACE_MAX;
        let rules = [
            ("start_ns", self.start.is_none_or(|at| at >= Nanos::ZERO), "0 and more"),
            ("duration_ns", is_positive(self.duration), "more than 0"),
            ("end_after_ns", is_positive(self.end_after), "more than 0"),
            ("speedup", SPEEDUPS.contains(&self.speedup), "between 0.000001 and 1000000"),
            ("server_speed", SPEEDUPS.contains(&self.server_speed), "between 0.000001 and 1000000"),
            ("iops_scale", IOPS_SCALES.contains(&self.iops_scale), "between 0.001 and 1000"),
            ("start_grace_ns", spans.contains(&self.start_grace), "between 0 and 1 h"),
            ("bundle_ns", (Nanos::ZERO..=BUNDLE_MAX).contains(&self.bundle), "at most 100 µs"),
            ("errors_max", self.errors_max != Some(0), "above 0"),
            ("fill_random_percent", PERCENT.contains(&self.fill_random_percent), "at most 100"),
            ("dedup", DEDUPS.contains(&self.dedup), "between 1 and 1000"),
            ("dedup_unit", is_dedup_unit(self.dedup_unit), DEDUP_UNITS),
            ("in_flight_max", IN_FLIGHT.contains(&self.in_flight_max), "between 1 and 16384"),
            ("threads", within(&THREADS, self.threads.as_ref()), "between 1 and 4096"),
            ("fifo", within(&FIFO, self.fifo.as_ref()), "between 1 and 99"),
            ("expert_ns", within(&EXPERT_INTERVALS, self.expert.as_ref()), "between 10 ms and 1 h"),
        ];
        let (key, _, help) = rules.into_iter().find(|(_, holds, _)| !holds)?;
        Some((format!("{key} is out of its range").into(), help.into()))
    }

    /// A contradiction, and the remedy.
    fn contradiction(&self) -> Option<(Wording, Wording)> {
        let rules = self.timing_rules().into_iter().chain(self.chain_rules());
        let rules = rules.chain(self.flow_rules());
        let rules = rules.chain(self.verification_rules());
        let mut rules = rules.chain(self.writing_rules()).chain(self.backend_rules());
        let (_, what, help) = rules.find(|(broken, ..)| *broken)?;
        Some((what, help))
    }

    fn timing_rules(&self) -> [Rule; 4] {
        let timed = self.timing.has_schedule();
        let is_faster = self.transforms.iter().any(|transform| transform.kind.name == "speed");
        [
            (
                is_faster && is_scaled(self.speedup),
                setting("speed")
                    .text(" and ")
                    .setting("speedup")
                    .text(" both scale the time of the load, and would be multiplied"),
                Wording::from("state the whole factor with ").setting("speedup"),
            ),
            (
                !self.timing.has_due_instants() && is_scaled(self.speedup),
                setting("speedup").text(" has no meaning without a schedule"),
                Wording::from("leave it out, or take ").set("timing", "timed"),
            ),
            (
                !timed && self.follow_in_flight,
                setting("follow-in-flight").text(" belongs to ").set("timing", "timed"),
                Wording::default()
                    .set("timing", "load")
                    .text(" follows the recorded in-flight number by itself"),
            ),
            (
                !timed && self.bundle > Nanos::ZERO,
                setting("bundle").text(" has no meaning without a schedule"),
                "leave it out: what can go together does".into(),
            ),
        ]
    }

    /// Rules for requests that wait for others.
    fn chain_rules(&self) -> [Rule; 3] {
        let waits = self.timing.has_parents();
        let dependency = || Wording::default().set("timing", "dependency");
        [
            (
                !waits && is_scaled(self.server_speed),
                setting("server-speed")
                    .text(" scales think times, and belongs to ")
                    .and(dependency()),
                Wording::from("leave it out, or take ").and(dependency()),
            ),
            (
                waits && is_scaled(self.iops_scale),
                setting("iops-scale")
                    .text(" leaves requests out or repeats them, which breaks what waits for them"),
                "leave it out".into(),
            ),
            (
                waits && self.verify == VerifyMode::Paranoia,
                "reading every write again would delay what waits for it".into(),
                Wording::from("take ").set("verify", "final"),
            ),
        ]
    }

    /// Rules for flows, which are no trace.
    fn flow_rules(&self) -> [Rule; 4] {
        let has_flows = !self.flows.is_empty();
        let is_part = self.start.is_some() || self.duration.is_some();
        let trace = !self.trace.as_os_str().is_empty();
        let map = !self.map.is_empty() || self.map_file.is_some();
        let mut names: Vec<&str> =
            self.flows.iter().filter_map(|flow| flow.name.as_deref()).collect();
        names.sort_unstable();
        [
            (
                has_flows && (trace || map),
                "flows stand in place of a trace and of its map".into(),
                "leave out either".into(),
            ),
            (
                has_flows && (is_part || !self.transforms.is_empty() || is_scaled(self.iops_scale)),
                "parts and transforms are those of a trace, and flows may have several".into(),
                Wording::from("change the load of a flow beforehand with ")
                    .command("convert", "IN OUT.parquet"),
            ),
            (
                has_flows
                    && (self.timing != TimingMode::Timed
                        || self.follow_in_flight
                        || self.bundle > Nanos::ZERO),
                "each flow has its own timing".into(),
                Wording::from("leave out ")
                    .setting("timing")
                    .text(", ")
                    .setting("follow-in-flight")
                    .text(" and ")
                    .setting("bundle"),
            ),
            (
                names.windows(2).any(|pair| pair[0] == pair[1]) || self.flows.len() > FLOWS_MAX,
                "flows need different names, and there can be 65535 of them".into(),
                "give each a name of its own".into(),
            ),
        ]
    }

    /// What decides when requests are issued, of a trace or of flows.
    pub fn timing(&self) -> TimingMode {
        if self.flows.is_empty() { self.timing } else { Flows::timing(&self.flows) }
    }

    /// What writes bring. What is in blocks that share their content follows from their place where
    /// it is verified, or may be by a run that goes on, and where blocks are larger than pages.
    pub(crate) fn fill(&self) -> Fill {
        let is_known = self.verify.is_on() || self.continues.is_some() || self.family.is_some();
        Fill {
            random: self.fill_random_percent,
            dedup: self.dedup,
            unit: self.dedup_unit.0,
            is_placed: self.dedup > 1.0 && (is_known || self.dedup_unit > DEDUP_UNIT),
        }
    }

    fn verification_rules(&self) -> [Rule; 6] {
        let verifies = self.verify.is_on();
        let goes_on = self.continues.is_some() || self.family.is_some();
        let without = |name| Wording::from("leave out ").setting(name);
        [
            (
                self.dedup_unit != DEDUP_UNIT && self.dedup <= 1.0,
                setting("dedup-unit").text(" says nothing where no blocks share their content"),
                Wording::from("say how many do with ").setting("dedup"),
            ),
            (
                verifies && self.writes.reads_only() && !goes_on,
                "a run that writes nothing has nothing to verify".into(),
                without("verify")
                    .text("; or name the run that wrote with ")
                    .set("continues", "RUN"),
            ),
            (
                self.family.is_some() && !verifies,
                "a run of a family that does not verify leaves nothing for the next".into(),
                Wording::from("say how, such as ").set("verify", "reads"),
            ),
            (
                self.journal.is_durable() && !verifies,
                "a run that does not verify keeps no notes".into(),
                without("journal")
                    .text(", or say what is verified, such as ")
                    .set("verify", "reads"),
            ),
            (
                self.family.is_some() && self.continues.is_some(),
                "a family has its runs in their order".into(),
                without("continues").text(" or ").setting("family"),
            ),
            (
                self.witness.is_some() && self.verify.ends_with_a_look(),
                Wording::from("what ").set("verify", "final").text(
                    ", preread and paranoia read besides the load would stand among the witnessed \
                     requests",
                ),
                without("witness").text(", or verify afterwards with ").command("verify", "RUN"),
            ),
        ]
    }

    fn writing_rules(&self) -> [Rule; 2] {
        let reads_only = self.writes.reads_only();
        [
            (
                reads_only && !self.destroy.is_empty(),
                "a run that writes nothing destroys nothing".into(),
                Wording::from("leave out ").setting("destroy"),
            ),
            (
                reads_only && self.sync_writes,
                "a run that writes nothing has no writes to be synchronous".into(),
                Wording::from("leave out ").setting("sync-writes"),
            ),
        ]
    }

    fn backend_rules(&self) -> [Rule; 3] {
        let not_uring = match self.backend {
            Backend::Auto | Backend::Uring => false,
            Backend::Aio | Backend::Threads => true,
        };
        let both = || setting("sqpoll").text(" and ").setting("iopoll");
        [
            (
                not_uring && (self.sqpoll || self.iopoll),
                both().text(" belong to io_uring"),
                Wording::from("take ").set("backend", "uring"),
            ),
            (
                self.sqpoll && self.iopoll,
                both().text(" exclude each other"),
                "leave out one of them".into(),
            ),
            (
                self.threads.is_some() && self.backend != Backend::Threads,
                setting("threads").text(" belongs to the back end threads"),
                Wording::from("take ")
                    .set("backend", "threads")
                    .text(", or cap requests in flight with ")
                    .setting("in-flight-max"),
            ),
        ]
    }
}

/// Whether blocks of this size can share their content.
pub fn is_dedup_unit(size: Bytes) -> bool {
    (DEDUP_UNIT..=Bytes(1 << 30)).contains(&size) && size.0.is_multiple_of(DEDUP_UNIT.0)
}

/// Whether a factor changes anything.
fn is_scaled(factor: f64) -> bool {
    (factor - 1.0).abs() >= f64::EPSILON
}

/// Whether a rule is broken, the error in that case, and the remedy.
type Rule = (bool, Wording, Wording);

fn setting(name: &'static str) -> Wording {
    Wording::default().setting(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> ReplaySpec {
        ReplaySpec { trace: "t".into(), targets: vec!["sim".to_owned()], ..ReplaySpec::default() }
    }

    fn refused(spec: &ReplaySpec) -> String {
        spec.check().unwrap_err().to_string()
    }

    #[test]
    fn time_is_scaled_in_one_place() {
        let spec = |scaled: &str| -> ReplaySpec {
            let text = format!(r#"{{"trace": "t", "targets": ["sim"], {scaled}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        spec(r#""transforms": ["speed 2"]"#).check().unwrap();
        spec(r#""speedup": 2"#).check().unwrap();
        let both = refused(&spec(r#""transforms": ["repeat 2", "speed 2"], "speedup": 2"#));
        assert!(both.contains("both scale the time"), "{both}");
    }

    #[test]
    fn a_trace_and_a_target_are_enough() {
        let text = r#"{"trace": "t", "targets": ["sim"]}"#;
        let spec: ReplaySpec = serde_json::from_str(text).unwrap();
        spec.check().unwrap();
        assert_eq!(format!("{spec:?}"), format!("{:?}", asked()));
        for lacking in ["{}", r#"{"trace": "t"}"#, r#"{"targets": ["sim"]}"#] {
            let spec: ReplaySpec = serde_json::from_str(lacking).unwrap();
            assert!(refused(&spec).contains("is named"), "{lacking}");
        }
    }

    #[test]
    fn what_nobody_knows_is_refused_by_its_name() {
        for (wrong, named) in [
            (r#"{"speedupp": 2}"#, "speedupp"),
            (r#"{"read": {"formt": "csv"}}"#, "formt"),
            (r#"{"timing": "sometimes"}"#, "sometimes"),
            (r#"{"conflicts": "alow"}"#, "alow"),
            (r#"{"strong": 3}"#, "3"),
            (r#"{"map": ["sda"]}"#, "sda"),
            (r#"{"transforms": ["shrink 2"]}"#, "shrink"),
            (r#"{"cpus": "8-7"}"#, "8-7"),
            (r#"{"require": ["latenes"]}"#, "latenes"),
        ] {
            let error = serde_json::from_str::<ReplaySpec>(wrong).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        assert!(toml::from_str::<ReplaySpec>("trace = 't'\nspeed = 2").is_err());
    }

    #[test]
    fn what_no_command_line_takes_is_refused_of_a_spec_too() {
        let refused = |spec: ReplaySpec| refused(&spec);
        let odd = [
            refused(ReplaySpec { speedup: f64::NAN, ..asked() }),
            refused(ReplaySpec { in_flight_max: 0, ..asked() }),
            refused(ReplaySpec { bundle: Nanos::from_secs(1), ..asked() }),
            refused(ReplaySpec { start_grace: Nanos(-1), ..asked() }),
            refused(ReplaySpec { fifo: Some(100), ..asked() }),
            refused(ReplaySpec { errors_max: Some(0), ..asked() }),
            refused(ReplaySpec { end_after: Some(Nanos::ZERO), ..asked() }),
        ];
        for (text, key) in odd.iter().zip([
            "speedup",
            "in_flight_max",
            "bundle_ns",
            "start_grace_ns",
            "fifo",
            "errors_max",
            "end_after_ns",
        ]) {
            assert!(text.starts_with(&format!("{key} is out of its range")), "{text}");
        }
    }

    #[test]
    fn every_choice_is_stored_by_the_word_that_is_typed() {
        fn words<T: Copy + Serialize>(all: &[T], name: fn(T) -> &'static str) {
            for one in all {
                assert_eq!(serde_json::to_value(one).unwrap(), name(*one));
            }
        }
        words(&TimingMode::ALL, TimingMode::name);
        words(&ConflictMode::ALL, ConflictMode::name);
        words(&Alignment::ALL, Alignment::name);
        words(&VerifyMode::ALL, VerifyMode::name);
        words(&JournalMode::ALL, JournalMode::name);
        words(&After::ALL, After::name);
        words(&PacingMode::ALL, PacingMode::name);
        words(&Backend::ALL, Backend::name);
    }
}
