//! The columns of a log.

use crate::text::Cursor;

/// The most columns that a line may have.
const COLUMNS_MAX: usize = 8;

/// The largest number of first lines that decide.
const LINES_MAX: usize = 500;

/// The numbers of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub(super) numbers: [u64; COLUMNS_MAX],
    /// The numbers that are hexadecimal, a bit each.
    hexadecimal: u8,
    pub(super) count: usize,
}

impl Values {
    /// The numbers of `line`; `None` unless it consists of numbers with a comma and a blank
    /// between.
    #[inline]
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(line);
        let mut values = Self { numbers: [0; COLUMNS_MAX], hexadecimal: 0, count: 0 };
        loop {
            cursor.skip_blanks();
            let place = values.numbers.get_mut(values.count)?;
            *place = cursor.integer().ok()?;
            if *place == 0 && matches!(cursor.peek(), Some(b'x' | b'X')) {
                cursor.skip(b'x');
                cursor.skip(b'X');
                *place = cursor.hexadecimal().ok()?;
                values.hexadecimal |= 1 << values.count;
            }
            values.count += 1;
            cursor.skip_blanks();
            match cursor.peek() {
                // On Windows the line ends with a carriage return.
                None | Some(b'\r') => break,
                Some(b',') => cursor.skip(b','),
                _ => return None,
            };
            // fio writes a blank; the many other tables of numbers do not.
            if cursor.peek() != Some(b' ') {
                return None;
            }
        }
        (values.count >= 4).then_some(values)
    }

    /// Whether the columns can be those of a log.
    pub(super) fn is_sample(&self) -> bool {
        (4..=7).contains(&self.count)
            && self.numbers[2] <= 2
            && self.hexadecimal.trailing_zeros() >= 4
    }

    /// Whether the number in this place can be a priority.
    fn can_be_priority(&self, place: usize) -> bool {
        self.hexadecimal >> place & 1 == 1 || self.numbers[place] <= 1
    }
}

/// The places of the columns of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) count: usize,
    pub(super) direction: usize,
    pub(super) offset: Option<usize>,
    pub(super) issue: Option<usize>,
}

impl Columns {
    /// Judges by the first lines of a log.
    pub(super) fn of(first_bytes: &[u8]) -> Self {
        let lines = first_bytes.split(|byte| *byte == b'\n');
        // The last line may be cut.
        let whole = memchr::memrchr(b'\n', first_bytes).unwrap_or(first_bytes.len());
        let mut seen = 0;
        let mut samples = Vec::new();
        for line in lines.take(LINES_MAX) {
            seen += line.len() + 1;
            if seen <= whole + 1 || samples.is_empty() {
                samples.extend(Values::of(line).filter(Values::is_sample));
            }
        }
        let count = samples.iter().map(|values| values.count).max().unwrap_or_default();
        samples.retain(|values| values.count == count);
        let priority = |place| samples.iter().all(|values| values.can_be_priority(place));
        let (offset, issue) = match count {
            5 if !priority(4) => (Some(4), None),
            6 if priority(5) => (Some(4), None),
            // Priority and instant of issue.
            6 if priority(4) => (None, Some(5)),
            6 => (Some(4), None),
            7 => (Some(4), Some(6)),
            _ => (None, None),
        };
        Self { count, direction: 2, offset, issue }
    }
}
