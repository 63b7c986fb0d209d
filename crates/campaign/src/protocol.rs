//! What a campaign and its agents on other hosts say to each other: protocol 1.
//!
//! A line is a message in JSON. The campaign writes to the agent's standard input and reads its
//! standard output, through whatever command starts the agent (`docs/hosts.md`). Both are of the
//! same build, so no message has two meanings; only `hello` is read across versions.
//!
//! An agent is on another machine, which may be broken or in other hands. So nothing that it says
//! is taken as it is: lines have a longest length, texts and lists too, and a name of a file is a
//! name and not a path. What does not keep to this is [`Wrong`], and ends the conversation.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::file::{OnLoss, Proof};
use crate::ground::Volume;
use crate::name::{is_digest, is_name};
use crate::stack::Placed;

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// The longest line, in bytes.
pub const LINE_MAX: usize = 1 << 20;

/// The longest text within a message, in bytes.
const TEXT_MAX: usize = 64 << 10;

/// The most entries of a list.
const ENTRIES_MAX: usize = 1_000;

/// How often each side says that it is there, if it has nothing else to say, in seconds.
pub const ALIVE_EVERY_S: u64 = 5;

/// After so many seconds of silence the campaign gives up an agent.
pub const SILENT_AFTER_S: u64 = 15;

/// After so many seconds of silence an agent takes its campaign for lost: it stops, undoes what it
/// has set up, and ends.
pub const LEFT_AFTER_S: u64 = 60;

/// A run, as the campaign and the agent's spool name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunName {
    /// The key of the cell.
    pub key: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// The directory of the run below that of the attempt.
    pub name: String,
}

/// A device on the agent's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceThere {
    /// Its path; `None` if the stack makes it.
    pub path: Option<String>,
    /// What it must have.
    pub proof: Proof,
    /// Whether its data may be lost.
    pub may_lose: bool,
    /// Volumes that other hosts hand over, which take the place of the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed: Vec<Volume>,
}

/// A load, as an agent gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadThere {
    /// A generator's line, or another text that needs no file.
    Text(String),
    /// A file that the agent's host holds by its hash.
    Held {
        /// SHA-256 of its bytes.
        sha256: String,
        /// Its name, which may tell its format.
        name: String,
    },
}

/// What a campaign says to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// The first line.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// SHA-256 of the program.
        build: String,
        /// The campaign, by the machine and path of its directory.
        campaign: String,
        /// How the campaign calls the agent's host.
        host: String,
        /// Whether an earlier agent of the campaign that is still there is to stop: what it does is
        /// of no use.
        stops_earlier: bool,
    },
    /// Say what setting up would do; touches nothing.
    Check {
        /// The stack.
        stack: Vec<Placed>,
        /// What it stands on.
        device: DeviceThere,
    },
    /// Set up, and keep what stands for the runs to come.
    Apply {
        /// The stack.
        stack: Vec<Placed>,
        /// What it stands on.
        device: DeviceThere,
        /// The branch and the repeat of the cell.
        turn: (usize, u32),
        /// Whether other hosts build on it. Then nothing is replayed here, and when the campaign is
        /// lost they take down theirs first.
        hands_over: bool,
    },
    /// Begin a replay, and let it wait for its instant.
    Arm {
        /// The run.
        run: RunName,
        /// The arguments of the replay.
        flags: Vec<String>,
        /// Its load.
        load: LoadThere,
        /// What becomes of it when the campaign is lost.
        on_loss: OnLoss,
    },
    /// Wait for the instant as a replay does, and do what is due beside the replays of others.
    Attend,
    /// The replays of the others have ended.
    Rest,
    /// Say whether a replay of an earlier agent came to its end, and what it left.
    Look {
        /// The run.
        run: RunName,
    },
    /// Begin at this instant of the agent's own `CLOCK_MONOTONIC`, ns, unless a later one is told
    /// before it is settled.
    Start {
        /// The instant.
        at_ns: i64,
        /// From this instant on it stands.
        settled_ns: i64,
    },
    /// End what is going on.
    Stop,
    /// Say what modules keep with the results.
    Collect,
    /// Take down everything that was set up.
    Undo,
    /// Leave what is set up as it is, because others still stand on it, and end.
    Leave,
    /// The results of an attempt are fetched or not wanted: remove them.
    Drop {
        /// The key of the cell.
        key: String,
        /// The number of the attempt.
        attempt: u32,
    },
    /// Answer at once.
    Ping {
        /// A number, which the answer repeats.
        number: u32,
    },
    /// The campaign is there.
    Alive,
}

/// A file of a run in an agent's spool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileThere {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// Why an agent could not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It is refused, and another attempt would be too.
    Refused,
    /// Something is missing on the host.
    Lacking,
    /// It failed.
    Failed,
    /// An earlier agent of the campaign, or its replay, is still there.
    Busy,
    /// Somebody asked for the end.
    Stopped,
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromAgent {
    /// The first line.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// SHA-256 of the program.
        build: String,
        /// Facts of the host that may change between runs.
        facts: BTreeMap<String, String>,
    },
    /// The answer to a ping.
    Pong {
        /// The number of the ping.
        number: u32,
        /// What the agent's `CLOCK_MONOTONIC` read, ns.
        at_ns: i64,
    },
    /// What setting up would do.
    Outlook {
        /// In words, each with the name of its module in front.
        does: Vec<String>,
        /// The volumes whose data would be lost.
        loses: Vec<String>,
        /// The volumes that there would be.
        volumes: Vec<Volume>,
    },
    /// It is set up.
    Volumes {
        /// The targets, or what is handed over.
        volumes: Vec<Volume>,
    },
    /// The replay waits for its instant.
    Armed,
    /// The replay has heard of an instant.
    Heard {
        /// The instant.
        at_ns: i64,
        /// Whether it heard of it before it was settled. Otherwise it waits for another one.
        in_time: bool,
    },
    /// The replay goes on.
    Progress {
        /// How many seconds it has gone on.
        seconds: f64,
        /// How many requests have completed.
        completed: u64,
        /// The 99th percentile of the response times of the last interval, ns, if there is one.
        p99_ns: Option<u64>,
    },
    /// The replay has ended and has a result, which is in the spool.
    Done {
        /// How many seconds its process took.
        seconds: f64,
        /// What it printed, or the end of it.
        said: String,
        /// Its files.
        files: Vec<FileThere>,
    },
    /// What modules keep with the results.
    Kept {
        /// Names of files, and their texts.
        texts: Vec<(String, String)>,
    },
    /// What was set up is taken down.
    Undone {
        /// What could not be taken back.
        left: Vec<String>,
    },
    /// The results are removed.
    Dropped,
    /// What was asked for could not be done.
    Fault {
        /// What kind of fault it is.
        kind: FaultKind,
        /// In words.
        text: String,
    },
    /// The agent is there.
    Alive,
}

/// What a campaign wants of an agent's spool, a line on the standard input of an agent that gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The campaign.
    pub campaign: String,
    /// How it calls the agent's host.
    pub host: String,
    /// The run.
    pub run: RunName,
    /// The name of the file.
    pub file: String,
    /// How many of its bytes are there already.
    pub from: u64,
}

/// What an agent answers; behind it come that many bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// How many bytes follow.
    Bytes(u64),
    /// Why there are none.
    Nothing(String),
}

/// A load that a campaign offers, a line on the standard input of an agent that takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Its name, which may tell its format.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// What an agent answers to an offer, and again when it has all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taken {
    /// So many bytes are there already; the others are to follow.
    Have(u64),
    /// It is there, whole.
    Whole,
    /// Why it is not taken.
    Refused(String),
}

/// Why what an agent said is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// A message as it is sent, with the end of its line.
pub fn line<T: Serialize>(message: &T) -> Vec<u8> {
    // Messages are made of texts, numbers and lists, which always have a form in JSON.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// What an agent said in a line.
///
/// # Errors
///
/// If it is no message, or one that no agent of this build sends.
pub fn from_agent(line: &[u8]) -> Result<FromAgent, Wrong> {
    let said = serde_json::from_slice(line).map_err(|error| match other_protocol(line) {
        Some(other) => {
            Wrong(format!("it speaks protocol {other}, and this is protocol {PROTOCOL}"))
        }
        None => Wrong(format!("it said what makes no sense ({error}): {}", quoted(line))),
    })?;
    check(&said)?;
    Ok(said)
}

/// What a campaign said in a line.
///
/// # Errors
///
/// If it is no message.
pub fn to_agent(line: &[u8]) -> Result<ToAgent, Wrong> {
    serde_json::from_slice(line).map_err(|error| match other_protocol(line) {
        Some(other) => {
            Wrong(format!("the campaign speaks protocol {other}, and this is protocol {PROTOCOL}"))
        }
        None => Wrong(format!("the campaign said what makes no sense: {error}")),
    })
}

/// The protocol of a first line of another version.
fn other_protocol(line: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    value.get("hello")?.get("protocol")?.as_u64().filter(|it| *it != u64::from(PROTOCOL))
}

/// The beginning of a line that makes no sense.
fn quoted(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned()
}

/// Refuses what no agent of this build sends.
fn check(said: &FromAgent) -> Result<(), Wrong> {
    let text = |text: &str| {
        let is_short = text.len() <= TEXT_MAX;
        is_short.then_some(()).ok_or_else(|| Wrong("it sent a text without an end".to_owned()))
    };
    let few = |count: usize| {
        let are_few = count <= ENTRIES_MAX;
        are_few.then_some(()).ok_or_else(|| Wrong("it sent a list without an end".to_owned()))
    };
    let name = |name: &str| {
        let wrong = || Wrong(format!("'{}' is no name for a file", quoted(name.as_bytes())));
        is_name(name).then_some(()).ok_or_else(wrong)
    };
    let seconds = |seconds: f64| {
        let is_time = seconds.is_finite() && seconds >= 0.0;
        is_time.then_some(()).ok_or_else(|| Wrong(format!("{seconds} is no number of seconds")))
    };
    match said {
        FromAgent::Hello { build, facts, .. } => {
            few(facts.len())?;
            facts.iter().try_for_each(|(key, value)| name(key).and_then(|()| text(value)))?;
            let is_build = is_digest(build);
            is_build.then_some(()).ok_or_else(|| Wrong("its build is no SHA-256".to_owned()))
        }
        FromAgent::Outlook { does, loses, volumes } => {
            few(does.len().max(loses.len()).max(volumes.len()))?;
            does.iter().chain(loses).try_for_each(|it| text(it))?;
            volumes.iter().try_for_each(|volume| text(&volume.path))
        }
        FromAgent::Volumes { volumes } => {
            few(volumes.len())?;
            volumes.iter().try_for_each(|volume| text(&volume.path))
        }
        FromAgent::Undone { left } => {
            few(left.len())?;
            left.iter().try_for_each(|it| text(it))
        }
        FromAgent::Progress { seconds: passed, .. } => seconds(*passed),
        FromAgent::Done { seconds: passed, said, files } => {
            seconds(*passed)?;
            text(said)?;
            few(files.len())?;
            files.iter().try_for_each(|file| {
                name(&file.name)?;
                let wrong = || Wrong(format!("the hash of {} is no SHA-256", file.name));
                is_digest(&file.sha256).then_some(()).ok_or_else(wrong)
            })?;
            let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
            names.sort_unstable();
            match names.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(Wrong(format!("it has {} twice", pair[0]))),
                None => Ok(()),
            }
        }
        FromAgent::Kept { texts } => {
            few(texts.len())?;
            texts.iter().try_for_each(|(file, _)| name(file))
        }
        FromAgent::Fault { text: told, .. } => text(told),
        FromAgent::Pong { .. }
        | FromAgent::Armed
        | FromAgent::Heard { .. }
        | FromAgent::Dropped
        | FromAgent::Alive => Ok(()),
    }
}

/// Bytes that arrive in pieces, and their lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Up to here there is no end of a line.
    seen: usize,
}

impl Lines {
    /// Adds a piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// The next line, without its end, once it is whole.
    ///
    /// # Errors
    ///
    /// If it is longer than [`LINE_MAX`]. It is not kept in memory any further.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, Wrong> {
        let end = self.bytes[self.seen..].iter().position(|byte| *byte == b'\n');
        let length = end.map_or(self.bytes.len(), |end| self.seen + end);
        if length > LINE_MAX {
            return Err(Wrong(format!("a line is longer than {LINE_MAX} bytes")));
        }
        let Some(end) = end else {
            self.seen = self.bytes.len();
            return Ok(None);
        };
        let rest = self.bytes.split_off(self.seen + end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        self.seen = 0;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        from_agent(line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let run = RunName { key: "k".to_owned(), attempt: 1, name: "run".to_owned() };
        let load = LoadThere::Held { sha256: "0".repeat(64), name: "oltp.parquet".to_owned() };
        let flags = vec!["--speedup=2".to_owned()];
        for message in [
            ToAgent::Arm { run, flags, load, on_loss: OnLoss::Finish },
            ToAgent::Stop,
            ToAgent::Ping { number: 7 },
        ] {
            let sent = line(&message);
            assert_eq!(to_agent(&sent[..sent.len() - 1]).unwrap(), message);
        }
        let pong = FromAgent::Pong { number: 7, at_ns: 12 };
        assert_eq!(line(&pong), b"{\"pong\":{\"number\":7,\"at_ns\":12}}\n");
        assert_eq!(from_agent(b"\"alive\"").unwrap(), FromAgent::Alive);
    }

    #[test]
    fn another_version_is_told_as_one() {
        let told = refused(r#"{"hello":{"protocol":2,"new":true}}"#);
        assert_eq!(told, "it speaks protocol 2, and this is protocol 1");
        let told = to_agent(br#"{"hello":{"protocol":3}}"#).unwrap_err().to_string();
        assert!(told.contains("protocol 3"), "{told}");
    }

    #[test]
    fn what_an_agent_may_not_say_is_refused() {
        let file = |name: &str, hash: &str| {
            let hash = if hash.is_empty() { "a".repeat(64) } else { hash.to_owned() };
            let file = format!(r#"{{"name":"{name}","bytes":1,"sha256":"{hash}"}}"#);
            format!(r#"{{"done":{{"seconds":1.0,"said":"","files":[{file}]}}}}"#)
        };
        assert!(from_agent(file("run.toml", "").as_bytes()).is_ok());
        for name in ["../run.toml", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "-rf", "a b"] {
            assert!(refused(&file(name, "")).contains("is no name"), "{name}");
        }
        assert!(refused(&file(&"x".repeat(101), "")).contains("is no name"));
        assert!(refused(&file("a", "../../x")).contains("no SHA-256"));
        let twice = r#"{"done":{"seconds":1.0,"said":"","files":[X,X]}}"#
            .replace('X', &format!(r#"{{"name":"a","bytes":1,"sha256":"{}"}}"#, "a".repeat(64)));
        assert!(refused(&twice).contains("twice"));
        assert!(refused(r#"{"kept":{"texts":[["../x","y"]]}}"#).contains("is no name"));
        let long = "x".repeat(TEXT_MAX + 1);
        let told = refused(&format!(r#"{{"undone":{{"left":["{long}"]}}}}"#));
        assert!(told.contains("without an end"), "{told}");
        assert!(refused("now").contains("makes no sense"));
        assert!(refused(r#"{"pong":{"number":1,"at_ns":1,"more":1}}"#).contains("makes no sense"));
        let nested = "[".repeat(100_000);
        assert!(refused(&nested).contains("makes no sense"));
    }

    #[test]
    fn lines_come_whole_from_pieces_and_a_line_without_an_end_is_given_up() {
        let text = b"one\ntwo\n\nthree";
        for size in 1..text.len() {
            let (mut lines, mut whole) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.add(piece);
                while let Some(line) = lines.next_line().unwrap() {
                    whole.push(line);
                }
            }
            assert_eq!(whole, [&b"one"[..], b"two", b""]);
        }
        let mut lines = Lines::default();
        lines.add(&vec![b'x'; LINE_MAX]);
        assert_eq!(lines.next_line(), Ok(None));
        lines.add(b"x");
        assert!(lines.next_line().is_err());
    }

    #[test]
    fn arbitrary_bytes_do_no_harm() {
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let mut bytes = line(&FromAgent::Pong { number: 1, at_ns: 1 });
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % bytes.len();
                bytes[at] = (seed >> 20) as u8;
            }
            let _ = from_agent(&bytes);
        }
    }
}
