//! Facts of a run from the engine and its surroundings: the part of `summary.json` that is not in
//! the records.
//!
//! A record has the result of one request. Only the engine knows which requests were left out, what
//! delayed it, and which rates this host can pace, and the verdict needs both. Keys are added over
//! time: a key that an older file lacks is read as its default.

mod ended;
mod file_io;
mod flows;
mod host;
mod load;
mod merging;
mod modes;
mod witness;

use std::collections::BTreeMap;

use ioecho_trace::units::counted;
use ioecho_trace::{Nanos, TimingMode};
use serde::{Deserialize, Serialize};

pub use ended::EndedAfter;
pub use file_io::FileIo;
pub use flows::FlowFacts;
pub(crate) use flows::{clients, files_and_threads};
pub use host::{
    ClockFacts, CountedFacts, CpuFacts, DeviceFacts, HostFacts, LayerFacts, RecorderFacts,
};
pub use load::{Cache, ContentFacts, LoadFacts, Recording, SizeFacts, TargetFacts};
pub use modes::VerifyModes;
pub use witness::WitnessFacts;

/// What part of a whole something is; of nothing, nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Facts of a run from the engine and its surroundings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineFacts {
    /// Requests that were to be replayed, as far as the trace was read.
    pub planned: u64,
    /// Requests that the trace has and `--read-only` left out.
    pub left_out: u64,
    /// Requests wrapped because they lie beyond the target.
    pub wrapped: u64,
    /// The furthest end of any request, divided by the target's size; of several targets, the
    /// factor furthest from 1. Unknown of a killed run.
    pub wraparound_factor: Option<f64>,
    /// Requests issued.
    pub issued: u64,
    /// Requests that waited for one that they overlap.
    pub pushed_back: u64,
    /// Requests left out on conflict.
    pub dropped: u64,
    /// Requests that held up those behind them on conflict.
    pub ordered: u64,
    /// Most requests in flight together.
    pub in_flight_peak: u32,
    /// Most requests waiting together.
    pub waiting_peak: u32,
    /// Requests in flight at the end that the device never answered.
    pub abandoned: u64,
    /// How often requests were late because the trace was not read in time.
    pub input_stalls: u64,
    /// How often the issuing thread was kept away.
    pub host_stalls: u64,
    /// The longest time it was kept away.
    pub host_stall_max_ns: i64,
    /// How often handing over requests took long.
    pub slow_submissions: u64,
    /// The longest hand-over.
    pub submission_max_ns: i64,
    /// Results that the recorder could not keep.
    pub results_lost: u64,
    /// When the last request was due.
    pub demanded_duration_ns: i64,
    /// Why the run ended before its end; empty if it did not.
    pub incomplete: String,
    /// Whether it did because a target was gone: another run would end alike.
    #[serde(default, skip_serializing_if = "is_no")]
    pub gone: bool,
    /// What was left when the run came to the end that was asked for; `None` if it had come to the
    /// end of its load before, or is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_after: Option<EndedAfter>,
    /// Whether the device was a simulated one.
    pub simulated: bool,
    /// Whether the page cache was bypassed.
    pub direct: bool,
    /// Whether the target is a file in memory.
    pub memory: bool,
    /// Whether the load goes to trees of files.
    #[serde(default, skip_serializing_if = "is_no")]
    pub files: bool,
    /// What calls on files moved, and how much of it memory held; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_io: Option<FileIo>,
    /// Whether time was scaled, and how.
    pub speedup: f64,
    /// By how much think times between requests were divided.
    #[serde(default = "unscaled")]
    pub server_speed: f64,
    /// When requests were issued; of a run made before there was a choice, by the schedule.
    #[serde(default)]
    pub timing: TimingMode,
    /// How many targets the load was spread over.
    #[serde(default = "one")]
    pub targets: u32,
    /// Requests widened to the target's block size.
    #[serde(default)]
    pub rounded: u64,
    /// Requests of volumes that no target was named for.
    #[serde(default)]
    pub unmapped: u64,
    /// Requests that stand in no trace: copies made to reach a higher rate.
    #[serde(default)]
    pub copies: u64,
    /// Writes that were replayed as reads.
    #[serde(default)]
    pub substituted: u64,
    /// How often a device failed as a whole: a broken ring, a target that vanished.
    #[serde(default)]
    pub device_errors: u64,
    /// What verification found; `None` where nobody looked.
    #[serde(default)]
    pub verify: Option<VerifyFigures>,
    /// The share of a target that was never written or holds zeroes, of several the largest; `None`
    /// where nobody looked, or where it does not matter.
    #[serde(default)]
    pub empty_share: Option<f64>,
    /// The cap on requests in flight on a target; zero where it is not known.
    #[serde(default)]
    pub in_flight_max: u32,
    /// Requests per second that this host can pace; `None` where it was not calibrated.
    #[serde(default)]
    pub paced_rate_max: Option<f64>,
    /// Requests per second in the load's busiest 100 ms; zero where it is not known.
    #[serde(default)]
    pub demanded_rate_peak: f64,
    /// What the host and the devices did around the run.
    #[serde(default)]
    pub host: HostFacts,
    /// Facts of the load and the targets.
    #[serde(default)]
    pub load: LoadFacts,
    /// What the device saw, if a recording was made during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<WitnessFacts>,
    /// The flows of the run; empty if it replayed one trace. Of a merged run each run has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowFacts>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_no(is_so: &bool) -> bool {
    !is_so
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn one() -> u32 {
    1
}

fn unscaled() -> f64 {
    1.0
}

impl Default for EngineFacts {
    /// Of a run that did nothing, on one target.
    fn default() -> Self {
        Self {
            planned: 0,
            left_out: 0,
            wrapped: 0,
            wraparound_factor: None,
            issued: 0,
            pushed_back: 0,
            dropped: 0,
            ordered: 0,
            in_flight_peak: 0,
            waiting_peak: 0,
            abandoned: 0,
            input_stalls: 0,
            host_stalls: 0,
            host_stall_max_ns: 0,
            slow_submissions: 0,
            submission_max_ns: 0,
            results_lost: 0,
            demanded_duration_ns: 0,
            incomplete: String::new(),
            gone: false,
            ended_after: None,
            simulated: false,
            direct: false,
            memory: false,
            files: false,
            file_io: None,
            speedup: 0.0,
            server_speed: unscaled(),
            timing: TimingMode::Timed,
            targets: one(),
            rounded: 0,
            unmapped: 0,
            copies: 0,
            substituted: 0,
            device_errors: 0,
            verify: None,
            empty_share: None,
            in_flight_max: 0,
            paced_rate_max: None,
            demanded_rate_peak: 0.0,
            host: HostFacts::default(),
            load: LoadFacts::default(),
            witness: None,
            flows: Vec::new(),
        }
    }
}

impl EngineFacts {
    /// Whether requests had instants at which they were due, known before the run.
    pub fn has_schedule(&self) -> bool {
        self.timing.has_schedule()
    }

    /// Whether requests had instants at which they were due. Without them nothing can be late.
    pub fn has_due_instants(&self) -> bool {
        self.timing.has_due_instants()
    }

    /// Whether both runs had the same rules of issue, as parts of one replay have.
    pub fn is_like(&self, other: &Self) -> bool {
        let is_same = |mine: f64, theirs: f64| (mine - theirs).abs() <= f64::EPSILON;
        self.timing == other.timing
            && is_same(self.speedup, other.speedup)
            && is_same(self.server_speed, other.server_speed)
    }

    /// Adds the facts of another run that went on at the same time, with its targets behind these.
    ///
    /// Merging is associative, and which run comes first changes nothing but the order of lists.
    /// Facts that no single value can express for both runs are kept whole in
    /// [`RunSummary::merged`](crate::run_summary::RunSummary::merged).
    ///
    /// # Errors
    ///
    /// [`Unlike`] where the runs had different rules of issue; then nothing is changed.
    pub fn merge(&mut self, other: &Self) -> Result<(), Unlike> {
        let Self {
            planned,
            left_out,
            wrapped,
            wraparound_factor,
            issued,
            pushed_back,
            dropped,
            ordered,
            in_flight_peak,
            waiting_peak,
            abandoned,
            input_stalls,
            host_stalls,
            host_stall_max_ns,
            slow_submissions,
            submission_max_ns,
            results_lost,
            demanded_duration_ns,
            incomplete,
            gone,
            ended_after,
            simulated,
            direct,
            memory,
            files,
            file_io,
            // Equal in both.
            speedup: _,
            server_speed: _,
            timing: _,
            targets,
            rounded,
            unmapped,
            copies,
            substituted,
            device_errors,
            verify,
            empty_share,
            in_flight_max,
            paced_rate_max,
            demanded_rate_peak,
            host,
            load,
            witness,
            flows: _,
        } = other;
        // Lateness under different rules of issue cannot be merged: no single value would be true
        // of both runs.
        if !self.is_like(other) {
            return Err(Unlike);
        }
        // Counters: a request is in one run only.
        merging::add_each([
            (&mut self.planned, planned),
            (&mut self.left_out, left_out),
            (&mut self.wrapped, wrapped),
            (&mut self.issued, issued),
            (&mut self.pushed_back, pushed_back),
            (&mut self.dropped, dropped),
            (&mut self.ordered, ordered),
            (&mut self.abandoned, abandoned),
            (&mut self.input_stalls, input_stalls),
            (&mut self.host_stalls, host_stalls),
            (&mut self.slow_submissions, slow_submissions),
            (&mut self.results_lost, results_lost),
            (&mut self.rounded, rounded),
            (&mut self.unmapped, unmapped),
            (&mut self.copies, copies),
            (&mut self.substituted, substituted),
            (&mut self.device_errors, device_errors),
        ]);
        // Of the runs as of the targets of one: the factor furthest from 1.
        self.wraparound_factor =
            merging::furthest(self.wraparound_factor, *wraparound_factor, f64::ln);
        // That of the fullest run, because no engine has seen the sum over all runs at one moment.
        self.in_flight_peak = self.in_flight_peak.max(*in_flight_peak);
        self.waiting_peak = self.waiting_peak.max(*waiting_peak);
        // Longest spans, and the instant at which the last request of all was due.
        self.host_stall_max_ns = self.host_stall_max_ns.max(*host_stall_max_ns);
        self.submission_max_ns = self.submission_max_ns.max(*submission_max_ns);
        self.demanded_duration_ns = self.demanded_duration_ns.max(*demanded_duration_ns);
        // If a part is incomplete, so is the whole; the reasons of all parts are kept.
        merging::behind_each_other_in_words(&mut self.incomplete, incomplete);
        merging::both(&mut self.ended_after, ended_after.as_ref(), EndedAfter::merge);
        self.merge_flags((*gone, *simulated, *memory), (*direct, *files));
        // The lowest known: the tightest cap is what a request of all may have waited for.
        self.in_flight_max = merging::lowest_known(self.in_flight_max, *in_flight_max);
        self.merge_pace((*demanded_rate_peak, *paced_rate_max));
        // The emptiest target of all.
        self.empty_share = merging::furthest(self.empty_share, *empty_share, |share| share);
        self.merge_seen((verify.as_ref(), witness.as_ref(), file_io.as_ref()));
        self.merge_targets(*targets, host, load);
        // The numbers of flows mean something within one run only.
        self.flows.clear();
        Ok(())
    }

    /// Merges what is true of the whole if it is of one run, and what only if it is of all: a flag
    /// that makes the figures of one false makes those of the whole false.
    fn merge_flags(
        &mut self,
        (gone, simulated, memory): (bool, bool, bool),
        (direct, files): (bool, bool),
    ) {
        self.gone |= gone;
        self.simulated |= simulated;
        self.memory |= memory;
        (self.direct, self.files) = (self.direct & direct, self.files & files);
    }

    /// Merges what was looked at beside the run, where it was.
    fn merge_seen(
        &mut self,
        theirs: (Option<&VerifyFigures>, Option<&WitnessFacts>, Option<&FileIo>),
    ) {
        let (verify, witness, file_io) = theirs;
        merging::both(&mut self.verify, verify, VerifyFigures::merge);
        merging::both(&mut self.witness, witness, WitnessFacts::merge);
        merging::both(&mut self.file_io, file_io, FileIo::merge);
    }

    /// Merges what is told target by target.
    fn merge_targets(&mut self, targets: u32, host: &HostFacts, load: &LoadFacts) {
        let (before, added) = (self.targets.max(1), targets.max(1));
        self.host.merge(before, host, added);
        self.load.merge(before, load, added);
        // Nobody knows of two runs whether they had one target: each run's are counted.
        self.targets = before.saturating_add(added);
    }

    /// Merges the demanded rate and the rate that the host can pace. Hosts pace side by side, each
    /// its own load, and busiest moments do not coincide: neither sums nor extremes of the two show
    /// whether a host was overloaded. The pair of the run that came nearest to its host's limit
    /// does.
    fn merge_pace(&mut self, theirs: (f64, Option<f64>)) {
        let mine = (self.demanded_rate_peak, self.paced_rate_max);
        (self.demanded_rate_peak, self.paced_rate_max) =
            merging::nearest_to_its_limit(mine, theirs);
    }
}

/// Two runs that are no parts of one replay: of another timing or another speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlike;

/// Figures of verification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyFigures {
    /// Which reads were checked.
    pub mode: VerifyModes,
    /// Requests whose data were checked, reads of a final pass aside.
    pub requests: u64,
    /// Sectors of 512 bytes that were checked, in requests and passes.
    pub sectors: u64,
    /// Of those, the sectors that hold what they must.
    #[serde(default)]
    pub intact_sectors: u64,
    /// Of those, the sectors of unknown content: the run never wrote them, or discarded them.
    #[serde(default)]
    pub unknown_sectors: u64,
    /// Of those that hold what they must, sectors that prepare wrote and the run did not.
    #[serde(default)]
    pub prepared_sectors: u64,
    /// Sectors that the run never wrote, without a stamp among others that prepare wrote: lost, or
    /// zeroed, discarded or overwritten since.
    #[serde(default)]
    pub doubtful_sectors: u64,
    /// Reads made before something was overwritten (`--verify preread`), which are none of the
    /// load's.
    #[serde(default)]
    pub prereads: u64,
    /// How many bytes they read.
    #[serde(default)]
    pub preread_bytes: u64,
    /// How long they held up the load's requests, one by one, ns.
    #[serde(default)]
    pub preread_ns: u64,
    /// Damaged sectors, by the name of what is wrong (`Integrity::name`).
    #[serde(default)]
    pub damaged: BTreeMap<String, u64>,
    /// How often a sector held what it must not when it was looked at.
    pub damaged_sectors: u64,
    /// Sectors that were to be checked and could not be read.
    #[serde(default)]
    pub unreadable_sectors: u64,
    /// Sectors of which nobody can say what they must hold, such as after two writes that raced.
    pub unverifiable_sectors: u64,
    /// How many findings were kept one by one.
    pub findings: u64,
    /// The first of them, a sentence each.
    #[serde(default)]
    pub first_findings: Vec<String>,
    /// Names of trees of files that were looked at, and are there or should be: each once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub names: u64,
    /// Names that are not as they must be, by what is wrong.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub damaged_names: BTreeMap<String, u64>,
}

impl VerifyFigures {
    /// How many names are not as they must be.
    pub fn names_damaged(&self) -> u64 {
        self.damaged_names.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What is wrong with names, in words; `None` where nothing is.
    pub fn names_told(&self) -> Option<String> {
        let names = self.names_damaged();
        (names > 0).then(|| {
            let kinds = self.damaged_names.iter().map(|(kind, count)| format!("{count} {kind}"));
            let kinds: Vec<String> = kinds.collect();
            format!("{} {}", kinds.join(", "), if names == 1 { "name" } else { "names" })
        })
    }

    /// How many reads were made before something was overwritten, and what they cost, in words;
    /// `None` where there were none.
    pub fn prereads_told(&self) -> Option<String> {
        (self.prereads > 0).then(|| {
            format!(
                "{} before something was overwritten held up the load's requests by {}, added up",
                counted(self.prereads, "read"),
                Nanos(i64::try_from(self.preread_ns).unwrap_or(i64::MAX))
            )
        })
    }

    /// How many sectors look as if what prepare wrote were lost, in words; `None` where there are
    /// none.
    pub fn doubt_told(&self) -> Option<String> {
        (self.doubtful_sectors > 0).then(|| {
            format!(
                "{} without the stamp of prepare among others that bear it (lost, or zeroed, \
                 discarded or overwritten since)",
                counted(self.doubtful_sectors, "sector")
            )
        })
    }

    /// Whether anything was wrong.
    pub fn is_damaged(&self) -> bool {
        self.damaged_sectors.max(self.unreadable_sectors) > 0 || !self.damaged_names.is_empty()
    }

    /// Adds what was found in another run.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            mode,
            requests,
            sectors,
            intact_sectors,
            unknown_sectors,
            prepared_sectors,
            doubtful_sectors,
            prereads,
            preread_bytes,
            preread_ns,
            damaged,
            damaged_sectors,
            unreadable_sectors,
            unverifiable_sectors,
            findings,
            first_findings,
            names,
            damaged_names,
        } = other;
        // All modes: each run checked other reads.
        self.mode.merge(mode);
        // Every sector was looked at in one run: sums.
        merging::add_each([
            (&mut self.requests, requests),
            (&mut self.sectors, sectors),
            (&mut self.intact_sectors, intact_sectors),
            (&mut self.unknown_sectors, unknown_sectors),
            (&mut self.prepared_sectors, prepared_sectors),
            (&mut self.doubtful_sectors, doubtful_sectors),
            (&mut self.prereads, prereads),
            (&mut self.preread_bytes, preread_bytes),
            (&mut self.preread_ns, preread_ns),
            (&mut self.damaged_sectors, damaged_sectors),
            (&mut self.unreadable_sectors, unreadable_sectors),
            (&mut self.unverifiable_sectors, unverifiable_sectors),
            (&mut self.findings, findings),
            (&mut self.names, names),
        ]);
        for (mine, theirs) in
            [(&mut self.damaged, damaged), (&mut self.damaged_names, damaged_names)]
        {
            for (name, count) in theirs {
                let mine = mine.entry(name.clone()).or_default();
                *mine = mine.saturating_add(*count);
            }
        }
        // The first ones of every run: damage in one run must not hide behind that of another.
        self.first_findings.extend(first_findings.iter().cloned());
    }
}

#[cfg(test)]
pub(crate) mod laws;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_old_file_lacks_is_read_as_what_was_true_then() {
        let old = r#"{"planned":5,"left_out":0,"wrapped":0,"wraparound_factor":null,"issued":5,
            "pushed_back":0,"dropped":0,"ordered":0,"in_flight_peak":1,"waiting_peak":0,
            "abandoned":0,"input_stalls":0,"host_stalls":0,"host_stall_max_ns":0,
            "slow_submissions":0,"submission_max_ns":0,"results_lost":0,"demanded_duration_ns":9,
            "incomplete":"","simulated":false,"direct":true,"memory":false,"speedup":1.0}"#;
        let facts: EngineFacts = serde_json::from_str(old).unwrap();
        let expected = EngineFacts {
            planned: 5,
            issued: 5,
            in_flight_peak: 1,
            demanded_duration_ns: 9,
            direct: true,
            speedup: 1.0,
            ..EngineFacts::default()
        };
        assert_eq!(facts, expected);
        assert_eq!((facts.timing, facts.targets), (TimingMode::Timed, 1));
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<EngineFacts>(&text).unwrap(), facts);
        let odd = text.replace("\"planned\"", "\"plamned\"");
        assert!(serde_json::from_str::<EngineFacts>(&odd).is_err());
    }
}
