//! A line as its fields.

/// The largest number of fields of a line that are read; all needed columns are among them.
const FIELDS_MAX: usize = 24;

/// The fields of a line, without the blanks around them. A comma between quotes divides nothing.
pub(super) struct Fields<'a> {
    line: &'a [u8],
    /// The beginning and the end of each field.
    bounds: [(u32, u32); FIELDS_MAX],
    count: usize,
}

impl<'a> Fields<'a> {
    /// Takes `line` apart.
    #[inline]
    pub(super) fn of(line: &'a [u8]) -> Self {
        let mut fields = Self { line, bounds: [(0, 0); FIELDS_MAX], count: 0 };
        let mut from = 0;
        let mut is_quoted = false;
        for at in memchr::memchr2_iter(b',', b'"', line) {
            if line[at] == b'"' {
                is_quoted = !is_quoted;
            } else if !is_quoted {
                fields.push(from, at);
                from = at + 1;
            }
        }
        fields.push(from, line.len());
        fields
    }

    #[inline]
    fn push(&mut self, from: usize, to: usize) {
        if let Some(bounds) = self.bounds.get_mut(self.count) {
            *bounds = (from as u32, to as u32);
            self.count += 1;
        }
    }

    /// Joins the fields from `from` to `to`, both included, into one.
    #[cold]
    pub(super) fn join(&mut self, from: usize, to: usize) {
        if from >= to || to >= self.count {
            return;
        }
        self.bounds[from].1 = self.bounds[to].1;
        self.bounds.copy_within(to + 1..self.count, from + 1);
        self.count -= to - from;
    }

    /// The number of fields.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The field at `index`; empty where there is none.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &'a [u8] {
        if index >= self.count {
            return &[];
        }
        let (from, to) = self.bounds[index];
        self.line[from as usize..to as usize].trim_ascii()
    }

    /// The place at which the field at `index` begins, counted from 1.
    pub(super) fn column(&self, index: usize) -> usize {
        self.bounds.get(index).map_or(1, |(from, _)| *from as usize + 1)
    }
}
