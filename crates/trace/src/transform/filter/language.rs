//! Words become questions about a request, or a message about one of them. `crate::expression`
//! joins the questions.
//!
//! ```text
//! question   = FLAG
//!            | COLUMN ("=" | "==" | "!=" | "<" | "<=" | ">" | ">=") VALUE
//!            | COLUMN ["not"] "in" ( range | "{" [ (range | VALUE) { "," (range | VALUE) } ] "}" )
//! range      = [VALUE] ".." [VALUE]        its end is not part of it
//! ```
//!
//! The meaning of a value follows from its column: `1m` is a MiB of an offset and a minute of a
//! latency.

use std::ops::Range;

use super::evaluate::{Expression, Processes, Ranges, Test, Volumes};
use crate::batch::UNKNOWN;
use crate::expression::{self, Cursor, Fault, Word};
use crate::request::{Flags, Op};
use crate::units::{Bytes, Nanos};

const FLAGS: [(&str, Flags); 5] = [
    ("sync", Flags::SYNC),
    ("fua", Flags::FUA),
    ("preflush", Flags::PREFLUSH),
    ("meta", Flags::META),
    ("readahead", Flags::READAHEAD),
];

const KNOWN: &str = "known are op, offset, length, end, time, latency, pid, comm, cpu, volume, \
                     flags, and the flags sync, fua, preflush, meta, readahead";

/// A column that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Op,
    Flags,
    Offset,
    Length,
    End,
    Time,
    Latency,
    Pid,
    Cpu,
    Volume,
    Process,
}

impl Column {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "op" => Self::Op,
            "flags" => Self::Flags,
            "offset" => Self::Offset,
            "length" | "size" => Self::Length,
            "end" => Self::End,
            "time" => Self::Time,
            "latency" => Self::Latency,
            "pid" => Self::Pid,
            "cpu" => Self::Cpu,
            "volume" => Self::Volume,
            "comm" | "process" => Self::Process,
            _ => return None,
        })
    }

    /// The kind of its values, and an example of one.
    fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Op => ("an operation", "read, write, flush, discard, write-zeroes or zone"),
            Self::Flags => ("a flag", "sync, fua, preflush, meta or readahead"),
            Self::Offset | Self::Length | Self::End => ("a size", "a size like 512, 4k or 1.5G"),
            Self::Time | Self::Latency => ("a span of time", "a time like 250us, 10ms or 1m30s"),
            Self::Pid | Self::Cpu => ("a number", "a whole number like 17"),
            Self::Volume => ("a volume", "its name like sda, 1063 or \"8:0\", or its number"),
            Self::Process => ("a name", "a name like postgres or \"kworker/0:1\""),
        }
    }

    /// Whether the values have an order.
    fn is_ordered(self) -> bool {
        !matches!(self, Self::Op | Self::Flags | Self::Volume | Self::Process)
    }

    /// The smallest and the largest value.
    fn bounds(self) -> (i128, i128) {
        match self {
            Self::Time | Self::Latency => (i128::from(UNKNOWN) + 1, i128::from(i64::MAX)),
            Self::Pid | Self::Cpu => (0, i128::from(u32::MAX)),
            _ => (0, i128::from(u64::MAX)),
        }
    }
}

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Expression, Fault> {
    expression::parse(text, &|words| Parser(words).question())
}

/// Reads questions about a request.
struct Parser<'c, 'a>(&'c mut Cursor<'a>);

impl Parser<'_, '_> {
    fn question(&mut self) -> Result<Expression, Fault> {
        let Some(Word::Name(name)) = self.0.peek() else {
            return Err(self.0.fault("the name of a column is expected here", KNOWN));
        };
        if let Some((_, flag)) = FLAGS.iter().find(|(known, _)| *known == name) {
            self.0.pass();
            return Ok(Expression::Test(Test::Flags(*flag)));
        }
        let Some(column) = Column::named(name) else {
            return Err(self.0.fault(&format!("'{name}' is not known"), KNOWN));
        };
        self.0.pass();
        let negated = self.0.take(&["not"]).is_some();
        if self.0.take(&["in"]).is_some() {
            let set =
                if self.0.take(&["{"]).is_some() { self.set(column)? } else { self.range(column)? };
            let test = Expression::Test(set.test(column));
            return Ok(if negated { Expression::Not(Box::new(test)) } else { test });
        }
        let place = self.0.here();
        let Some(sign) = self.0.take(&["=", "==", "!=", "<", "<=", ">", ">="]).filter(|_| !negated)
        else {
            let help = format!("write {name} = …, {name} < … or {name} in …");
            return Err(self.0.fault("a comparison is expected here", help));
        };
        let is_equality = matches!(sign, "=" | "==" | "!=");
        if !column.is_ordered() && !is_equality {
            return Err(Fault {
                at: place,
                reason: format!("{name} has no order"),
                help: format!("it can be compared by =, != and in: {}", column.kind().1),
            });
        }
        let mut set = Set::default();
        let value = self.value(column)?;
        let value = match value {
            Value::Number(value) if column.is_ordered() => value,
            value => {
                set.add(value);
                let test = Expression::Test(set.test(column));
                return Ok(if sign == "!=" { Expression::Not(Box::new(test)) } else { test });
            }
        };
        // An unknown value is false for != too, so != is two ranges and not a negation.
        let (low, high) = column.bounds();
        set.ranges = match sign {
            "<" => vec![(low, value - 1)],
            "<=" => vec![(low, value)],
            ">" => vec![(value + 1, high)],
            ">=" => vec![(value, high)],
            "!=" => vec![(low, value - 1), (value + 1, high)],
            _ => vec![(value, value)],
        };
        Ok(Expression::Test(set.test(column)))
    }

    /// Reads the set behind `{`.
    fn set(&mut self, column: Column) -> Result<Set, Fault> {
        let mut set = Set::default();
        if self.0.take(&["}"]).is_some() {
            return Ok(set);
        }
        loop {
            if column.is_ordered() {
                let place = self.0.here();
                let from = if self.is_range() { None } else { Some(self.value(column)?) };
                if self.is_range() {
                    set.ranges.push(self.range_from(column, from, place)?);
                } else if let Some(value) = from {
                    set.add(value);
                }
            } else {
                let value = self.value(column)?;
                set.add(value);
            }
            if self.0.take(&["}"]).is_some() {
                return Ok(set);
            }
            if self.0.take(&[","]).is_none() {
                return Err(self.0.fault("a ',' or a '}' is expected here", "as in {read, write}"));
            }
        }
    }

    fn is_range(&self) -> bool {
        self.0.peek() == Some(Word::Sign(".."))
    }

    /// A range alone.
    fn range(&mut self, column: Column) -> Result<Set, Fault> {
        let (kind, example) = column.kind();
        if !column.is_ordered() {
            let help = format!("as in {{a, b}}, each {kind}: {example}");
            return Err(self.0.fault("a set is expected here", help));
        }
        let place = self.0.here();
        let from = if self.is_range() { None } else { Some(self.value(column)?) };
        if !self.is_range() {
            return Err(self
                .0
                .fault("a range is expected here", "as in 1..2, or a set as in {1, 2}"));
        }
        let range = self.range_from(column, from, place)?;
        Ok(Set { ranges: vec![range], ..Set::default() })
    }

    /// The range that begins with `from`, which stands at `place`; `..` comes next.
    fn range_from(
        &mut self,
        column: Column,
        from: Option<Value>,
        place: Range<usize>,
    ) -> Result<(i128, i128), Fault> {
        self.0.pass();
        let (low, high) = column.bounds();
        let from =
            from.map_or(low, |value| if let Value::Number(from) = value { from } else { low });
        let has_end = matches!(self.0.peek(), Some(Word::Number(_)));
        let end = self.0.here();
        let to = if has_end { self.value(column)? } else { Value::Number(high + 1) };
        let Value::Number(to) = to else { return Ok((from, high)) };
        if to <= from {
            return Err(Fault {
                at: place.start..end.end,
                reason: "no value lies in this range".to_owned(),
                help: "its end is not part of it: 1..2 is 1".to_owned(),
            });
        }
        Ok((from, to - 1))
    }

    fn value(&mut self, column: Column) -> Result<Value, Fault> {
        let (kind, example) = column.kind();
        let wrong = |parser: &Self, text: &str| {
            let name = kind_of(text);
            let reason = match name {
                Some(name) if name == kind => format!("'{text}' is too large"),
                Some(name) => format!("'{text}' is {name}, and {kind} is expected here"),
                None => format!("'{text}' is not {kind}"),
            };
            parser.0.fault(&reason, format!("write {example}"))
        };
        let Some(word) = self.0.peek() else { return Err(wrong(self, "")) };
        let text = word.text();
        let value = match (column, word) {
            (Column::Op, Word::Name(name)) => {
                Op::ALL.into_iter().find(|op| op.name() == name).map(Value::Op)
            }
            (Column::Flags, Word::Name(name)) => {
                FLAGS.iter().find(|(known, _)| *known == name).map(|(_, flag)| Value::Flag(*flag))
            }
            (Column::Offset | Column::Length | Column::End, Word::Number(number)) => {
                let bytes: Option<Bytes> = number.parse().ok();
                bytes.map(|bytes| Value::Number(i128::from(bytes.0)))
            }
            (Column::Time | Column::Latency, Word::Number(number)) => {
                let span: Option<Nanos> = number.parse().ok();
                span.map(|span| Value::Number(i128::from(span.0)))
            }
            (Column::Pid | Column::Cpu | Column::Volume, Word::Number(number)) => {
                let number: Option<u32> = number.parse().ok();
                number.map(|number| Value::Number(i128::from(number)))
            }
            (Column::Volume | Column::Process, Word::Name(name) | Word::Quoted(name)) => {
                Some(Value::Text(name.to_owned()))
            }
            // Names of processes may begin with a digit.
            (Column::Process, Word::Number(name)) => Some(Value::Text(name.to_owned())),
            _ => None,
        };
        let value = value.ok_or_else(|| wrong(self, text))?;
        self.0.pass();
        Ok(value)
    }
}

/// The kind of the quantity `text`, if its unit shows the kind.
fn kind_of(text: &str) -> Option<&'static str> {
    if text.parse::<u64>().is_ok() {
        return Some("a number");
    }
    match (text.parse::<Bytes>().is_ok(), text.parse::<Nanos>().is_ok()) {
        (true, false) => Some("a size"),
        (false, true) => Some("a span of time"),
        _ => None,
    }
}

enum Value {
    Number(i128),
    Op(Op),
    Flag(Flags),
    Text(String),
}

/// Values of a column.
#[derive(Default)]
struct Set {
    /// Inclusive ranges of numbers.
    ranges: Vec<(i128, i128)>,
    ops: u32,
    flags: Flags,
    names: Vec<String>,
}

impl Set {
    fn add(&mut self, value: Value) {
        match value {
            Value::Number(number) => self.ranges.push((number, number)),
            Value::Op(op) => self.ops |= 1 << op.code(),
            Value::Flag(flag) => self.flags |= flag,
            Value::Text(name) => self.names.push(name),
        }
    }

    /// The test whether the value of `column` is in the set.
    fn test(self, column: Column) -> Test {
        /// The ranges, cut to the numbers that the column can hold, without empty ranges.
        fn cut<T: TryFrom<i128>>(ranges: &[(i128, i128)], column: Column) -> Ranges<T> {
            let (low, high) = column.bounds();
            let cut = |(from, to): &(i128, i128)| ((*from).max(low), (*to).min(high));
            let held = ranges.iter().map(cut).filter(|(from, to)| from <= to);
            held.filter_map(|(from, to)| Some((from.try_into().ok()?, to.try_into().ok()?)))
                .collect()
        }
        let ranges = &self.ranges;
        match column {
            Column::Op => Test::Op(self.ops),
            Column::Flags => Test::Flags(self.flags),
            Column::Offset => Test::Offset(cut(ranges, column)),
            Column::Length => Test::Length(cut(ranges, column)),
            Column::End => Test::End(cut(ranges, column)),
            Column::Time => Test::Time(cut(ranges, column)),
            Column::Latency => Test::Latency(cut(ranges, column)),
            Column::Pid => Test::Pid(cut(ranges, column)),
            Column::Cpu => Test::Cpu(cut(ranges, column)),
            Column::Volume => {
                let numbers = ranges.iter().filter_map(|(number, _)| u32::try_from(*number).ok());
                Test::Volume(Volumes::new(numbers.collect(), self.names))
            }
            Column::Process => Test::Process(Processes::new(self.names)),
        }
    }
}
