//! The kinds of mapped devices, and their tables: `Documentation/admin-guide/device-mapper` of the
//! kernel. All numbers in tables are sectors of 512 bytes, delays are milliseconds.

use std::time::Duration;

use super::super::{Given, Wrong};
use super::Part;
use crate::ground::{Fault, Result, Volume};

const SECTOR: u64 = 512;

/// The fixed part of a cache's metadata, and that of each of its blocks, in bytes (`cache.rst`).
const META_FIXED: u64 = 4 << 20;
const META_PER_BLOCK: u64 = 16;

/// The block of a cache: a multiple of 32 KiB, between 32 KiB and 1 GiB (`cache.rst`).
const BLOCK: u64 = 256 << 10;
const BLOCK_UNIT: u64 = 32 << 10;
const BLOCK_MAX: u64 = 1 << 30;

/// The key of an encrypted device. It is known to everybody: what is measured is the cost of
/// encryption, and nothing is kept secret. Its halves differ, as XTS wants.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                   202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";

/// The kinds, with the keys that belong to each.
const KINDS: [(&str, &[&str]); 7] = [
    ("linear", &["from", "size"]),
    ("delay", &["read-delay", "write-delay"]),
    ("flakey", &["up", "down", "writes"]),
    ("error", &["from", "size"]),
    ("log-writes", &[]),
    ("cache", &["mode", "block-size"]),
    ("crypt", &["cipher"]),
];

/// What a mapped device does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A part of the device below, or all of it.
    Linear { from: u64, size: Option<u64> },
    /// Requests take longer, by so many milliseconds.
    Delay { read_ms: u64, write_ms: u64 },
    /// It works for some seconds and fails for some, in turn.
    Flakey { up_s: u64, down_s: u64, writes: Writes },
    /// A stretch of it fails always.
    Error { from: u64, size: Option<u64> },
    /// All writes are also written to a second device, with their order and flushes.
    LogWrites,
    /// The second device is a cache of the first.
    Cache { mode: &'static str, block: u64 },
    /// It is encrypted.
    Crypt { cipher: String },
}

/// What fails while a flaky device is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// Everything, writes as well as reads.
    All,
    /// Writes fail.
    Error,
    /// Writes are dropped, and nobody is told.
    Drop,
}

impl Kind {
    pub(super) fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let stretch = || -> std::result::Result<(u64, Option<u64>), Wrong> {
            let sectors = |key: &str| {
                let size = given.size(key)?;
                if size.is_some_and(|size| size % SECTOR != 0) {
                    let help = "write a multiple of 512 bytes";
                    return Err(Wrong::new(key, format!("{key} is no number of sectors"), help));
                }
                Ok(size)
            };
            Ok((sectors("from")?.unwrap_or(0), sectors("size")?))
        };
        Ok(match given.kind("kind", &KINDS)? {
            "linear" => {
                let (from, size) = stretch()?;
                Self::Linear { from, size }
            }
            "delay" => {
                let (read_ms, write_ms) =
                    (milliseconds(given, "read-delay")?, milliseconds(given, "write-delay")?);
                if read_ms.is_none() && write_ms.is_none() {
                    let help = "write read-delay = \"5ms\" or write-delay";
                    return Err(Wrong::new("read-delay", "nothing is delayed here", help));
                }
                Self::Delay { read_ms: read_ms.unwrap_or(0), write_ms: write_ms.unwrap_or(0) }
            }
            "flakey" => {
                let words =
                    [("all", Writes::All), ("error", Writes::Error), ("drop", Writes::Drop)];
                let (up_s, down_s) = (seconds(given, "up")?, seconds(given, "down")?);
                Self::Flakey { up_s, down_s, writes: given.word("writes", &words)? }
            }
            "error" => {
                let (from, size) = stretch()?;
                Self::Error { from, size }
            }
            "log-writes" => Self::LogWrites,
            "cache" => {
                let is_block = |size: u64| {
                    (BLOCK_UNIT..=BLOCK_MAX).contains(&size) && size.is_multiple_of(BLOCK_UNIT)
                };
                let block = given.size("block-size")?.unwrap_or(BLOCK);
                if !is_block(block) {
                    let help = "write a multiple of 32K, such as 256K";
                    return Err(Wrong::new("block-size", "this is no block of a cache", help));
                }
                let modes = [("writethrough", "writethrough"), ("writeback", "writeback")];
                Self::Cache { mode: given.word("mode", &modes)?, block }
            }
            _ => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "-:().".contains(c);
                let word = |text: &str| {
                    (!text.is_empty() && text.chars().all(is_part)).then(|| text.to_owned())
                };
                let cipher = given.parsed("cipher", word, "write aes-xts-plain64")?;
                Self::Crypt { cipher: cipher.unwrap_or_else(|| "aes-xts-plain64".to_owned()) }
            }
        })
    }

    /// Refuses another number of volumes than it is made of.
    pub(super) fn fits<'v>(&self, on: &'v [Volume]) -> Result<&'v [Volume]> {
        let (wanted, what) = match self {
            Self::LogWrites => (2, "the device, and the one for the log"),
            Self::Cache { .. } => (2, "the device, and the one that caches it"),
            _ => (1, "the device"),
        };
        if on.len() == wanted {
            return Ok(on);
        }
        let found = on.len();
        Err(Fault::Refused(format!(
            "it is made of {wanted} below it in the stack ({what}), and there are {found}\n  = \
             help: a device of several is written as {{of = [\"a\", \"b\"]}}"
        )))
    }

    /// Refuses sizes that do not go together, where they are known.
    pub(super) fn check_sizes(&self, on: &[Volume]) -> Result<()> {
        let there = on[0].size;
        if there == 0 && !on[0].is_there {
            return Ok(());
        }
        let refused = |text: String| Err(Fault::Refused(text));
        match self {
            Self::Linear { from, size } | Self::Error { from, size } => {
                let end = from.saturating_add(size.unwrap_or(SECTOR));
                if end > there {
                    let path = &on[0].path;
                    return refused(format!("{path} ends at {there} bytes, before byte {end}"));
                }
            }
            Self::Cache { block, .. }
                if on[1].size > 0 && self.metadata(on[1].size) + block > on[1].size =>
            {
                let path = &on[1].path;
                return refused(format!("{path} is too small for a cache"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The volumes whose data it loses.
    pub(super) fn lost<'v>(&self, on: &'v [Volume]) -> &'v [Volume] {
        match self {
            Self::Linear { .. } | Self::Delay { .. } => &[],
            // What is written may be lost or unreadable.
            Self::Flakey { .. } | Self::Error { .. } | Self::Crypt { .. } | Self::Cache { .. } => {
                on
            }
            Self::LogWrites => &on[1..],
        }
    }

    /// The command that takes what the last volume held, so that the kernel begins anew.
    pub(super) fn wipe(&self, on: &[Volume]) -> Option<Vec<String>> {
        let last = on.last()?;
        let is_wiped = matches!(self, Self::LogWrites | Self::Cache { .. });
        let of = format!("of={}", last.path);
        let words = ["dd", "if=/dev/zero", &of, "bs=4096", "count=1", "oflag=direct"];
        is_wiped.then(|| words.map(str::to_owned).to_vec())
    }

    /// The devices that it needs below its own.
    pub(super) fn below(&self, on: &[Volume]) -> Vec<Part> {
        let Self::Cache { block, .. } = self else { return Vec::new() };
        let (fast, metadata) = (&on[1], self.metadata(on[1].size));
        let data = fast.size.saturating_sub(metadata) / block * block;
        let part = |ending, at: u64, size: u64| {
            let table = format!("0 {} linear {} {}", size / SECTOR, fast.path, at / SECTOR);
            Part { ending, table }
        };
        vec![part("-meta", 0, metadata), part("-fast", metadata, data)]
    }

    /// The bytes of a cache's metadata on a device of this size, in whole MiB.
    fn metadata(&self, fast: u64) -> u64 {
        let Self::Cache { block, .. } = self else { return 0 };
        (META_FIXED + META_PER_BLOCK * fast.div_ceil(*block)).next_multiple_of(1 << 20)
    }

    /// The device itself. `meta` and `data` are what is [`below`](Self::below) it.
    pub(super) fn top(&self, on: &[Volume], meta: &str, data: &str) -> Part {
        let (device, sectors) = (&on[0].path, on[0].size / SECTOR);
        let table = match self {
            Self::Linear { from, size } => {
                let at = from / SECTOR;
                let length = size.map_or(sectors.saturating_sub(at), |size| size / SECTOR);
                format!("0 {length} linear {device} {at}")
            }
            Self::Delay { read_ms, write_ms } => {
                format!("0 {sectors} delay {device} 0 {read_ms} {device} 0 {write_ms}")
            }
            Self::Flakey { up_s, down_s, writes } => {
                let feature = match writes {
                    Writes::All => "",
                    Writes::Error => " 1 error_writes",
                    Writes::Drop => " 1 drop_writes",
                };
                format!("0 {sectors} flakey {device} 0 {up_s} {down_s}{feature}")
            }
            Self::Error { from, size } => with_bad_places(device, sectors, *from, *size),
            Self::LogWrites => {
                let log = on.get(1).map_or("", |volume| &volume.path);
                format!("0 {sectors} log-writes {device} {log}")
            }
            Self::Cache { mode, block } => {
                let block = block / SECTOR;
                format!("0 {sectors} cache {meta} {data} {device} {block} 1 {mode} default 0")
            }
            Self::Crypt { cipher } => format!("0 {sectors} crypt {cipher} {KEY} 0 {device} 0"),
        };
        Part { ending: "", table }
    }
}

/// A table with a stretch that fails, and the device before and behind it.
fn with_bad_places(device: &str, sectors: u64, from: u64, size: Option<u64>) -> String {
    let from = (from / SECTOR).min(sectors);
    let bad = size.map_or(sectors - from, |size| (size / SECTOR).min(sectors - from));
    let behind = from + bad;
    let mut lines = Vec::new();
    if from > 0 {
        lines.push(format!("0 {from} linear {device} 0"));
    }
    lines.push(format!("{from} {bad} error"));
    if behind < sectors {
        lines.push(format!("{behind} {} linear {device} {behind}", sectors - behind));
    }
    lines.join("\n")
}

fn milliseconds(given: &Given, key: &str) -> std::result::Result<Option<u64>, Wrong> {
    let unit = Duration::from_millis(1);
    whole(given, key, unit, "write whole milliseconds, such as 5ms")
}

fn seconds(given: &Given, key: &str) -> std::result::Result<u64, Wrong> {
    let help = "write whole seconds, such as 10s";
    let missing = || Wrong::new(key, format!("'{key}' is missing"), help);
    whole(given, key, Duration::from_secs(1), help)?.ok_or_else(missing)
}

/// A span as a whole number of units.
fn whole(
    given: &Given,
    key: &str,
    unit: Duration,
    help: &str,
) -> std::result::Result<Option<u64>, Wrong> {
    let Some(span) = given.span(key)? else { return Ok(None) };
    let units = span.as_nanos() / unit.as_nanos();
    let is_whole = span.as_nanos() % unit.as_nanos() == 0 && units <= u128::from(u32::MAX);
    let wrong = || Wrong::new(key, format!("this is not possible for {key}"), help);
    is_whole.then_some(Some(units as u64)).ok_or_else(wrong)
}
