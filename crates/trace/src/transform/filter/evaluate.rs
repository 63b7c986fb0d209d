//! An expression over a batch, column by column.
//!
//! Each comparison runs over a whole column: a loop without branches, which the compiler
//! vectorises.

use rustc_hash::FxHashSet;

use crate::batch::{Batch, Columns};
use crate::expression;
use crate::header::Header;
use crate::request::{Flags, Op};

/// A checked expression.
pub(super) type Expression = expression::Expression<Test>;

/// Inclusive ranges of values.
pub(super) type Ranges<T> = Vec<(T, T)>;

/// A question about one column.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// The operation is one of these, a bit for each code.
    Op(u32),
    /// At least one of these flags is set.
    Flags(Flags),
    Offset(Ranges<u64>),
    Length(Ranges<u64>),
    End(Ranges<u64>),
    Time(Ranges<i64>),
    Latency(Ranges<i64>),
    Pid(Ranges<u32>),
    Cpu(Ranges<u32>),
    Volume(Volumes),
    Process(Processes),
}

/// Volumes by name or by a number, which may be a name too.
#[derive(Clone, Debug, Default)]
pub(super) struct Volumes {
    numbers: Vec<u32>,
    names: Vec<String>,
    /// The numbers of all these volumes, as far as they are known.
    found: Vec<u32>,
}

/// Processes by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes {
    names: Vec<String>,
    found: FxHashSet<u32>,
}

impl Volumes {
    pub(super) fn new(numbers: Vec<u32>, names: Vec<String>) -> Self {
        Self { numbers, names, found: Vec::new() }
    }
}

impl Processes {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self { names, found: FxHashSet::default() }
    }
}

/// Answers that are waiting to be joined with others; their memory is used again.
#[derive(Debug, Default)]
pub(super) struct Scratch(Vec<Vec<bool>>);

impl Expression {
    /// The column that the expression needs and the trace lacks, if any.
    pub(super) fn asks_in_vain(&self, columns: Columns) -> Option<&'static str> {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().find_map(|part| part.asks_in_vain(columns))
            }
            Self::Not(part) => part.asks_in_vain(columns),
            Self::Test(Test::Latency(_)) if !columns.latency => Some("latencies"),
            Self::Test(Test::Pid(_) | Test::Process(_)) if !columns.origin => Some("processes"),
            Self::Test(Test::Cpu(_)) if !columns.origin => Some("processors"),
            Self::Test(_) => None,
        }
    }

    /// Looks up names of volumes and processes.
    pub(super) fn resolve(&mut self, header: &Header) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.resolve(header);
                }
            }
            Self::Not(part) => part.resolve(header),
            Self::Test(Test::Volume(Volumes { numbers, names, found })) => {
                let named = header.volumes.iter().filter(|volume| names.contains(&volume.name));
                *found = named.map(|volume| volume.id.0).collect();
                for number in numbers {
                    numbered(*number, header, found);
                }
            }
            Self::Test(Test::Process(Processes { names, found })) => {
                let named = header.processes.iter().filter(|(_, name)| names.contains(name));
                *found = named.map(|(pid, _)| *pid).collect();
            }
            Self::Test(_) => {}
        }
    }

    /// Fills `keep` with the answer for each row of `batch`.
    pub(super) fn evaluate(&self, batch: &Batch, keep: &mut Vec<bool>, scratch: &mut Scratch) {
        keep.clear();
        match self {
            Self::All(parts) => join(parts, batch, keep, scratch, |one, other| one & other),
            Self::Any(parts) => join(parts, batch, keep, scratch, |one, other| one | other),
            Self::Not(part) => {
                part.evaluate(batch, keep, scratch);
                for keep in keep {
                    *keep = !*keep;
                }
            }
            Self::Test(test) => test.evaluate(batch, keep),
        }
    }
}

fn join(
    parts: &[Expression],
    batch: &Batch,
    keep: &mut Vec<bool>,
    scratch: &mut Scratch,
    join: impl Fn(bool, bool) -> bool,
) {
    let mut other = scratch.0.pop().unwrap_or_default();
    for (index, part) in parts.iter().enumerate() {
        if index == 0 {
            part.evaluate(batch, keep, scratch);
            continue;
        }
        part.evaluate(batch, &mut other, scratch);
        for (keep, other) in keep.iter_mut().zip(&other) {
            *keep = join(*keep, *other);
        }
    }
    scratch.0.push(other);
}

/// Whether each value lies in one of the ranges.
fn within<T: Copy + PartialOrd>(
    values: impl Iterator<Item = T>,
    ranges: &[(T, T)],
    keep: &mut Vec<bool>,
) {
    match ranges {
        [(low, high)] => keep.extend(values.map(|value| *low <= value && value <= *high)),
        _ => keep.extend(
            values.map(|value| ranges.iter().any(|(low, high)| *low <= value && value <= *high)),
        ),
    }
}

impl Test {
    fn evaluate(&self, batch: &Batch, keep: &mut Vec<bool>) {
        let rows = batch.len();
        match self {
            Self::Op(ops) => keep.extend(batch.op.iter().map(|op| is_in(*op, *ops))),
            Self::Flags(flags) => keep.extend(batch.flags.iter().map(|of| of.intersects(*flags))),
            Self::Offset(ranges) => within(batch.offset_bytes.iter().copied(), ranges, keep),
            Self::Length(ranges) => within(batch.length_bytes.iter().copied(), ranges, keep),
            Self::End(ranges) => {
                let ends = batch.offset_bytes.iter().zip(&batch.length_bytes);
                within(ends.map(|(offset, length)| offset.saturating_add(*length)), ranges, keep);
            }
            Self::Time(ranges) => within(batch.issue_ns.iter().copied(), ranges, keep),
            // An unknown latency is the smallest number, in which no range begins.
            Self::Latency(ranges) => match &batch.latency_ns {
                Some(latencies) => within(latencies.iter().copied(), ranges, keep),
                None => keep.resize(rows, false),
            },
            Self::Pid(ranges) => match &batch.origin {
                Some(origin) => within(origin.pid.iter().copied(), ranges, keep),
                None => keep.resize(rows, false),
            },
            Self::Cpu(ranges) => match &batch.origin {
                Some(origin) => within(origin.cpu.iter().copied(), ranges, keep),
                None => keep.resize(rows, false),
            },
            Self::Volume(Volumes { found, .. }) => {
                keep.extend(batch.volume.iter().map(|volume| found.contains(volume)));
            }
            Self::Process(Processes { found, .. }) => match &batch.origin {
                Some(origin) => keep.extend(origin.pid.iter().map(|pid| found.contains(pid))),
                None => keep.resize(rows, false),
            },
        }
    }
}

/// Adds the volumes that a bare number means to `found`: those with this name, or otherwise the one
/// with this id. A volume whose name is another number is never meant: in a trace of volumes 1063
/// and 2, `volume = 1` does not mean the second one.
fn numbered(number: u32, header: &Header, found: &mut Vec<u32>) {
    let name = number.to_string();
    let before = found.len();
    let named = header.volumes.iter().filter(|volume| volume.name == name);
    found.extend(named.map(|volume| volume.id.0));
    if found.len() > before {
        return;
    }
    let it = header.volumes.iter().find(|volume| volume.id.0 == number);
    if it.is_none_or(|volume| volume.name.parse::<u64>().is_err()) {
        found.push(number);
    }
}

fn is_in(op: Op, ops: u32) -> bool {
    ops >> op.code() & 1 == 1
}
