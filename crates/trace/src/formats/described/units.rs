//! The meaning of a field, and its unit: `ts:us:unix`, `offset:sectors:hex`.

use super::number;
use super::words::Words;
use crate::formats::import::Epoch;
use crate::text::NumberError;
use crate::units::{Bytes, Nanos, SECTOR};

/// A field with a meaning. The number of the variant is its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Time,
    End,
    Latency,
    Op,
    Offset,
    Length,
    Volume,
    /// A further part of the volume's name, such as the disk of a host.
    VolumePart,
    Process,
    Command,
    Processor,
}

/// The number of slots.
pub(super) const SLOTS: usize = 11;

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeUnit {
    /// The size of the unit in nanoseconds.
    pub(super) ns: i64,
    pub(super) epoch: Epoch,
    /// Whether the time counts from 1601-01-01 UTC, as Windows does.
    pub(super) from_1601: bool,
}

/// 1970-01-01 UTC in ticks of 100 nanoseconds since 1601-01-01 UTC.
const UNIX_IN_TICKS: u64 = 116_444_736_000_000_000;

impl TimeUnit {
    /// The instant or span in `field`, in nanoseconds.
    #[inline]
    pub(super) fn read(self, field: &[u8]) -> Result<i64, NumberError> {
        if self.from_1601 {
            let ticks = number::integer(field)?.checked_sub(UNIX_IN_TICKS);
            return ticks
                .and_then(|ticks| i64::try_from(ticks).ok()?.checked_mul(self.ns))
                .ok_or(NumberError::TooLarge);
        }
        number::scaled(field, self.ns)
    }
}

/// The unit of a place or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeUnit {
    /// The size of the unit in bytes.
    pub(super) bytes: u64,
    /// Whether the digits are hexadecimal without `0x` before them.
    pub(super) hexadecimal: bool,
}

impl SizeUnit {
    /// The number in `field`, in bytes.
    #[inline]
    pub(super) fn read(self, field: &[u8]) -> Result<Bytes, NumberError> {
        let number = if self.hexadecimal {
            number::hexadecimal(field)
        } else {
            number::integer_or_0x(field)
        };
        number?.checked_mul(self.bytes).map(Bytes).ok_or(NumberError::TooLarge)
    }
}

/// The described meaning of a column or group.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    Ignored,
    Time(Field, TimeUnit),
    Size(Field, SizeUnit),
    Op(Option<Words>),
    Text(Field),
}

/// A fault in the description of a column: its first byte, its length, and the reason.
pub(super) type Refusal = (usize, usize, String);

const NAMES: &str =
    "ts, end, latency, op, offset, length, vol, pid, comm, cpu, and - for what is ignored";

/// Parses the description of a column: a name and its parts, each after a colon.
pub(super) fn meaning(text: &str) -> Result<Meaning, Refusal> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let behind = text.len().min(name.len() + 1);
    let parts: Vec<_> = parts(rest, behind).collect();
    match name.trim().to_ascii_lowercase().as_str() {
        "-" | "_" | "" if parts.is_empty() => Ok(Meaning::Ignored),
        "ts" | "time" => Ok(Meaning::Time(Field::Time, time_unit(&parts, text, true)?)),
        "end" => Ok(Meaning::Time(Field::End, time_unit(&parts, text, true)?)),
        "latency" => Ok(Meaning::Time(Field::Latency, time_unit(&parts, text, false)?)),
        "offset" | "lba" => Ok(Meaning::Size(Field::Offset, size_unit(&parts, text)?)),
        "length" | "size" => Ok(Meaning::Size(Field::Length, size_unit(&parts, text)?)),
        "op" if parts.is_empty() => Ok(Meaning::Op(None)),
        "op" => {
            let words = rest.parse::<Words>();
            words.map(|words| Meaning::Op(Some(words))).map_err(|why| (behind, rest.len(), why))
        }
        "vol" | "volume" | "device" => plain(Field::Volume, &parts),
        "pid" => plain(Field::Process, &parts),
        "comm" => plain(Field::Command, &parts),
        "cpu" => plain(Field::Processor, &parts),
        _ => {
            let reason = format!("there is no column '{}'; known are {NAMES}", name.trim());
            Err((0, name.len(), reason))
        }
    }
}

fn plain(field: Field, parts: &[(usize, &str)]) -> Result<Meaning, Refusal> {
    match parts.first() {
        None => Ok(Meaning::Text(field)),
        Some((at, part)) => Err((*at, part.len(), "this column has no unit".to_owned())),
    }
}

/// The parts between colons, each with its place.
fn parts(rest: &str, behind: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut at = behind;
    rest.split(':').filter(move |_| !rest.is_empty()).map(move |part| {
        let place = at;
        at += part.len() + 1;
        (place, part)
    })
}

fn time_unit(parts: &[(usize, &str)], text: &str, is_instant: bool) -> Result<TimeUnit, Refusal> {
    let mut unit = None;
    let mut epoch = Epoch::Start;
    let mut from_1601 = false;
    let mut counted = None;
    for (at, part) in parts {
        let refuse = |reason: String| Err((*at, part.len(), reason));
        let ns = match *part {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "ticks100ns" => 100,
            "filetime" if is_instant => {
                (epoch, from_1601) = (Epoch::Unix, true);
                100
            }
            "unix" | "boot" | "start" if is_instant => {
                if counted.replace(*part).is_some() {
                    return refuse("what it counts from is said twice".to_owned());
                }
                match *part {
                    "unix" => epoch = Epoch::Unix,
                    "boot" => epoch = Epoch::Unknown,
                    _ => {}
                }
                continue;
            }
            _ => {
                let instants = "; for instants also filetime, and whether they count from unix, \
                                boot or start";
                let more = if is_instant { instants } else { "" };
                let known = "ns, us, ms, s and ticks100ns";
                return refuse(format!("'{part}' is no unit of time; known are {known}{more}"));
            }
        };
        if unit.replace(ns).is_some() {
            return refuse("the unit is said twice".to_owned());
        }
    }
    let Some(ns) = unit else {
        let example = if is_instant { "ts:us" } else { "latency:us" };
        let reason = format!("a time needs its unit, ns, us, ms or s, as in {example}");
        return Err((0, text.len(), reason));
    };
    Ok(TimeUnit { ns, epoch, from_1601 })
}

fn size_unit(parts: &[(usize, &str)], text: &str) -> Result<SizeUnit, Refusal> {
    let mut unit = None;
    let mut hexadecimal = false;
    let mut parts = parts.iter();
    while let Some((at, part)) = parts.next() {
        let refuse = |reason: String| Err((*at, part.len(), reason));
        let bytes = match *part {
            "hex" => {
                hexadecimal = true;
                continue;
            }
            "bytes" | "byte" => 1,
            "sectors" | "sector" => SECTOR,
            "blocks" => match parts.next().map(|(_, size)| size.parse::<Bytes>()) {
                Some(Ok(size)) => size.0,
                _ => return refuse("the size of a block follows, as in blocks:4k".to_owned()),
            },
            size => {
                let Ok(size) = size.parse::<Bytes>() else {
                    let known = "bytes, sectors, a size such as 512 or 4k, and hex";
                    return refuse(format!("'{part}' is no unit of sizes; known are {known}"));
                };
                size.0
            }
        };
        if bytes == 0 {
            return refuse("a block of no bytes".to_owned());
        }
        if unit.replace(bytes).is_some() {
            return refuse("the unit is said twice".to_owned());
        }
    }
    let Some(bytes) = unit else {
        let reason = "a place or a size needs its unit, bytes or sectors, as in offset:sectors";
        return Err((0, text.len(), reason.to_owned()));
    };
    Ok(SizeUnit { bytes, hexadecimal })
}

/// Nanoseconds as a span; `None` if they are negative, which stands for an unknown span.
pub(super) fn span(ns: i64) -> Option<Nanos> {
    (ns >= 0).then_some(Nanos(ns))
}
