//! The description of a flow in one line, as it is typed and stored.
//!
//! `NAME=LOAD;setting=value;…`: the load is a path or a line like `gen:random?read=70`, whose own
//! settings are separated by `&`. The name may be missing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ioecho_replay::flow::Admission;
use ioecho_trace::arguments::{ArgumentError, Arguments};
use ioecho_trace::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use ioecho_replay::schedule::IN_FLIGHT;

/// The most flows of a run.
pub const FLOWS_MAX: usize = u16::MAX as usize;

/// The shares that can be told apart.
const SHARES: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// A flow as it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FlowSpec {
    /// What results call it; `None`: its number.
    pub name: Option<String>,
    /// A trace in any known format, or the line of a generated load.
    pub load: PathBuf,
    /// The clients of a closed loop; `None`: the flow is open, and its requests are due at the
    /// instants of its load.
    pub threads: Option<u32>,
    /// The time from the completion of a client's request to its next.
    pub think: Option<Nanos>,
    /// Of an open flow: its requests that may be in flight; `None`: as many as on a target.
    pub cap: Option<u32>,
    /// Its share of the requests of all flows that have one, in any unit.
    pub share: Option<f64>,
    /// The target it goes to, by name or by number from 1; `None`: the only one. Several as one
    /// volume are `1+2`, and parts of them `1,to=4096,length=1048576+2`.
    pub target: Option<String>,
    /// It ends when so much was issued.
    pub ends: FlowEnds,
    /// All flows with this count their ends as one.
    pub end_together: bool,
}

/// The ends of a flow, of which the first counts. The request with which an end is reached is its
/// last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowEnds {
    /// After so many requests.
    pub requests: Option<u64>,
    /// After so many bytes of reads and writes.
    pub data: Option<Bytes>,
    /// After so many bytes of reads.
    pub read: Option<Bytes>,
    /// After so many bytes of writes.
    pub written: Option<Bytes>,
}

/// A line that describes no flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpecError {
    line: String,
    reason: String,
}

impl fmt::Display for FlowSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, reason } = self;
        let like = "oltp=gen:random?read=70&endless=yes;threads=32";
        write!(f, "'{line}': {reason}; write it like '{like}'")
    }
}

impl std::error::Error for FlowSpecError {}

impl FlowSpec {
    /// What results call it, the flow of this number.
    pub(crate) fn name(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| number.to_string())
    }

    /// When its requests are admitted.
    pub fn admission(&self) -> Admission {
        match self.threads {
            Some(_) => Admission::Closed { think: self.think.unwrap_or(Nanos::ZERO) },
            None => Admission::Open,
        }
    }

    /// Its requests that may be in flight.
    pub fn places(&self, in_flight_max: u32) -> u32 {
        self.threads.or(self.cap).unwrap_or(in_flight_max)
    }

    fn read(line: &str) -> Result<Self, ArgumentError> {
        let (load, settings) = line.split_once(';').unwrap_or((line, ""));
        let (name, load) = match load.split_once('=') {
            Some((name, load)) if is_name(name.trim()) => (Some(name.trim().to_owned()), load),
            _ => (None, load),
        };
        if load.trim().is_empty() {
            return Err(ArgumentError::new("it names no load"));
        }
        let mut settings = Arguments::new(settings, ';')?;
        let spec = Self {
            name,
            load: PathBuf::from(load.trim()),
            threads: settings.setting("threads")?,
            think: settings.setting("think")?,
            cap: settings.setting("cap")?,
            share: settings.setting("share")?,
            target: settings.setting("on")?,
            ends: FlowEnds {
                requests: settings.setting("requests")?,
                data: settings.setting("data")?,
                read: settings.setting("read-data")?,
                written: settings.setting("written-data")?,
            },
            end_together: settings
                .choice("ends", &[("alone", false), ("together", true)])?
                .unwrap_or(false),
        };
        settings.finish()?;
        spec.check()?;
        Ok(spec)
    }

    /// Refuses what has no meaning.
    fn check(&self) -> Result<(), ArgumentError> {
        let FlowEnds { requests, data, read, written } = self.ends;
        let within = |count: Option<u32>| count.is_none_or(|count| IN_FLIGHT.contains(&count));
        let is_closed = self.threads.is_some();
        let rules = [
            (self.load == Path::new("-"), "a flow cannot come from the standard input"),
            (!within(self.threads), "threads must lie between 1 and 16384"),
            (!within(self.cap), "cap must lie between 1 and 16384"),
            (is_closed && self.cap.is_some(), "threads are a cap already"),
            (!is_closed && self.think.is_some(), "only clients (threads) think"),
            (
                !is_closed && self.share.is_some(),
                "an open flow has the rate of its load, and only closed ones (threads) have shares",
            ),
            (self.think.is_some_and(|think| think < Nanos::ZERO), "think must not be negative"),
            (
                self.share.is_some_and(|share| !SHARES.contains(&share)),
                "share must lie between 0.000001 and 1000000",
            ),
            (
                requests == Some(0) || [data, read, written].contains(&Some(Bytes::ZERO)),
                "a flow that ends after nothing is none",
            ),
            (
                self.end_together && self.ends == FlowEnds::default(),
                "flows end together after an amount that all of them name, such as data=1G",
            ),
        ];
        match rules.into_iter().find(|(is_broken, _)| *is_broken) {
            Some((_, reason)) => Err(ArgumentError::new(reason)),
            None => Ok(()),
        }
    }
}

/// Whether a text before `=` is a name, and not the beginning of a path or of a generator's line.
fn is_name(text: &str) -> bool {
    let is_mark = |c: char| matches!(c, '-' | '_' | '.' | ' ' | '#' | '@' | '+');
    let is_part = |c: char| c.is_alphanumeric() || is_mark(c);
    !text.is_empty() && text.len() <= 100 && text.chars().all(is_part)
}

impl FromStr for FlowSpec {
    type Err = FlowSpecError;

    fn from_str(line: &str) -> Result<Self, FlowSpecError> {
        Self::read(line)
            .map_err(|error| FlowSpecError { line: line.to_owned(), reason: error.to_string() })
    }
}

impl fmt::Display for FlowSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn put(
            f: &mut fmt::Formatter<'_>,
            name: &str,
            value: Option<impl fmt::Display>,
        ) -> fmt::Result {
            value.map_or(Ok(()), |value| write!(f, ";{name}={value}"))
        }
        let Self { name, load, threads, think, cap, share, target, ends, end_together } = self;
        if let Some(name) = name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}", load.display())?;
        put(f, "threads", *threads)?;
        put(f, "think", think.map(|think| format!("{}ns", think.0)))?;
        put(f, "cap", *cap)?;
        put(f, "share", *share)?;
        put(f, "on", target.as_ref())?;
        put(f, "requests", ends.requests)?;
        put(f, "data", ends.data.map(|data| data.0))?;
        put(f, "read-data", ends.read.map(|data| data.0))?;
        put(f, "written-data", ends.written.map(|data| data.0))?;
        put(f, "ends", end_together.then_some("together"))
    }
}

impl TryFrom<String> for FlowSpec {
    type Error = FlowSpecError;

    fn try_from(line: String) -> Result<Self, FlowSpecError> {
        line.parse()
    }
}

impl From<FlowSpec> for String {
    fn from(flow: FlowSpec) -> Self {
        flow.to_string()
    }
}

#[cfg(test)]
mod tests {
    use ioecho_replay::pattern::SplitMix64;

    use super::*;

    #[test]
    fn a_line_names_what_it_wants_and_is_written_as_it_is_read() {
        let flow: FlowSpec =
            "oltp=gen:random?read=70&endless=yes;threads=32;think=1ms;share=70;on=/dev/sdb;data=1G"
                .parse()
                .unwrap();
        assert_eq!(flow.name.as_deref(), Some("oltp"));
        assert_eq!(flow.load, Path::new("gen:random?read=70&endless=yes"));
        assert_eq!((flow.threads, flow.think), (Some(32), Some(Nanos::from_millis(1))));
        assert_eq!((flow.share, flow.ends.data), (Some(70.0), Some(Bytes(1 << 30))));
        assert_eq!(flow.target.as_deref(), Some("/dev/sdb"));
        assert_eq!(flow.admission(), Admission::Closed { think: Nanos::from_millis(1) });
        for line in [
            "gen:random?rate=5k;cap=8",
            "night.parquet",
            "night=a=b.parquet;requests=7",
            "w@sd1=gen:random?rate=5k;cap=8",
            "w.1=gen:sequential?read=0;threads=1;read-data=512;written-data=4096",
            "w=gen:sequential?read=0;threads=1;data=4096;ends=together",
            "w=gen:random?area=1M+2M;threads=1;on=1,to=4096,length=1048576+2",
        ] {
            let flow: FlowSpec = line.parse().unwrap();
            assert_eq!(flow.to_string(), line);
        }
        assert_eq!("gen:random?rate=5k".parse::<FlowSpec>().unwrap().name, None);
        assert_eq!("x/a=b.load".parse::<FlowSpec>().unwrap().name, None);
    }

    #[test]
    fn what_has_no_meaning_is_refused_with_the_reason() {
        for (line, reason) in [
            ("", "names no load"),
            ("a=", "names no load"),
            ("t;thread=3", "thread"),
            ("t;threads=0", "between 1 and 16384"),
            ("t;threads=2;cap=3", "a cap already"),
            ("t;think=1ms", "only clients"),
            ("t;share=3", "only closed ones"),
            ("t;threads=1;share=0", "share must lie"),
            ("t;threads=1;requests=0", "ends after nothing"),
            ("t;threads=1;ends=together", "an amount that all of them name"),
            ("t;threads=1;data=1G;ends=never", "ends"),
            ("-;threads=1", "standard input"),
        ] {
            let error = line.parse::<FlowSpec>().unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic_and_what_is_read_is_written_alike() {
        let pieces = [
            "a=",
            "gen:random?read=70",
            "t",
            ";",
            "threads=8",
            "think=1ms",
            "cap=3",
            "share=1.5",
            "on=2",
            "data=1G",
            "=",
            "?",
            "é",
            " ",
            "requests=0",
            "-",
            ";;",
            "\u{7f}",
        ];
        let mut random = SplitMix64(1);
        let mut read = 0;
        for _ in 0..20_000 {
            let count = random.below(8);
            let line: String =
                (0..count).map(|_| pieces[random.below(pieces.len() as u64) as usize]).collect();
            if let Ok(flow) = line.parse::<FlowSpec>() {
                read += 1;
                assert_eq!(flow.to_string().parse::<FlowSpec>().unwrap(), flow, "{line}");
            }
        }
        assert!(read > 1000, "only {read} lines were flows");
    }
}
