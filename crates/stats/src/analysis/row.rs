//! Counts as rows that any database can put together.
//!
//! Ten thousand traces of a fleet are summarised where they lie, and combining the results should
//! not need ioecho. So all counts that can be put together one by one are stored as rows of a name,
//! a subject, a time and a number. A row says itself how: rows that agree in everything but `value`
//! are added up, or the largest or the smallest of them counts. Rows of a metric never overlap, so
//! a sum over any of them counts nothing twice.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// How the values of rows that agree in everything else make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// They add up.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Max, Self::Min];

    /// The name in the column `how`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    fn join(self, one: i64, other: i64) -> i64 {
        match self {
            Self::Sum => one.saturating_add(other),
            Self::Max => one.max(other),
            Self::Min => one.min(other),
        }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// What is counted, such as `demanded.requests` or `service_ns`.
    pub metric: Cow<'static, str>,
    /// Of which volume; `None` of all.
    pub volume: Option<u32>,
    /// `read`, `write`, `other`; of histograms also `pushed-read`, `pushed-write` and operations on
    /// files. `None` where they are not told apart.
    pub op: Option<Cow<'static, str>>,
    /// The beginning of the span of time that it is counted in; `None` of the whole.
    pub time_ns: Option<i64>,
    /// The length of that span.
    pub width_ns: Option<i64>,
    /// Which bucket, process or place.
    pub key: Option<i64>,
    /// How it is put together with others.
    pub how: How,
    /// The number.
    pub value: i64,
}

impl Row {
    /// A count of the whole, which adds up.
    pub fn sum(metric: &'static str, value: u64) -> Self {
        Self {
            metric: Cow::Borrowed(metric),
            volume: None,
            op: None,
            time_ns: None,
            width_ns: None,
            key: None,
            how: How::Sum,
            value: signed(value),
        }
    }

    /// The same of an operation.
    #[must_use]
    pub fn op(mut self, op: &'static str) -> Self {
        self.op = Some(Cow::Borrowed(op));
        self
    }

    /// The same of a bucket, a process or a place.
    #[must_use]
    pub fn key(mut self, key: u64) -> Self {
        self.key = Some(signed(key));
        self
    }

    /// The same of a volume.
    #[must_use]
    pub fn volume(mut self, volume: u32) -> Self {
        self.volume = Some(volume);
        self
    }

    /// The same of a span of time.
    #[must_use]
    pub fn within(mut self, time_ns: i64, width_ns: i64) -> Self {
        (self.time_ns, self.width_ns) = (Some(time_ns), Some(width_ns));
        self
    }

    /// The same number as an extreme.
    #[must_use]
    pub fn how(mut self, how: How) -> Self {
        self.how = how;
        self
    }

    /// Whether it says anything: adding nothing changes nothing.
    pub fn counts(&self) -> bool {
        self.how != How::Sum || self.value != 0
    }
}

/// A number as a database has it.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Rows that were put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded(BTreeMap<Row, i64>);

impl Folded {
    /// Adds a row.
    pub fn add(&mut self, mut row: Row) {
        let value = std::mem::take(&mut row.value);
        let how = row.how;
        self.0.entry(row).and_modify(|mine| *mine = how.join(*mine, value)).or_insert(value);
    }

    /// The rows, each once.
    pub fn into_rows(self) -> impl Iterator<Item = Row> {
        self.0.into_iter().map(|(row, value)| Row { value, ..row })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_agree_are_put_together_as_they_say() {
        let mut folded = Folded::default();
        for value in [3, 9, 4] {
            folded.add(Row::sum("a", value));
            folded.add(Row::sum("b", value).how(How::Max));
            folded.add(Row::sum("c", value).how(How::Min));
        }
        folded.add(Row::sum("a", 1).op("read"));
        folded.add(Row::sum("a", u64::MAX).volume(1));
        folded.add(Row::sum("a", u64::MAX).volume(1));
        let found: Vec<_> = folded.into_rows().map(|row| row.value).collect();
        assert_eq!(found, [16, 1, i64::MAX, 9, 3]);
    }
}
