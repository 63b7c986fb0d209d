//! Sums over equal steps of time, in bounded memory.
//!
//! How long a trace lasts is not known before its end, and a clock that jumps makes it last for
//! centuries. So steps merge in pairs when there are too many. Which steps there are follows from
//! the first and the last instant alone: parts that are merged end up with those of the whole.

use serde::{Deserialize, Serialize};

use super::shape::{Quantity, Series};

/// How many steps are kept at most unless fewer are asked for: a day and a half of seconds.
pub(super) const STEPS_MAX: u64 = 1 << 17;

/// What a step holds.
pub(super) trait Cell: Clone + Default {
    /// Adds what another step holds.
    fn add(&mut self, other: &Self);
}

impl<const N: usize> Cell for [u64; N]
where
    [u64; N]: Default,
{
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.iter_mut().zip(other) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// The step that was asked for last: from and to which instant, and its place. Instants that follow
/// each other mostly lie in one step.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    from: u64,
    to: u64,
    place: usize,
}

impl PartialEq for Latest {
    /// It is no part of what was counted.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A sum for each step, at most `MAX` of them. Instants are nanoseconds and not negative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Steps<C, const MAX: u64 = STEPS_MAX> {
    base_ns: u64,
    /// A step is 2^shift times the base.
    shift: u32,
    first: u64,
    cells: Vec<C>,
    #[serde(skip)]
    latest: Latest,
}

impl<C: Cell, const MAX: u64> Steps<C, MAX> {
    /// No step yet; one lasts `base_ns` as long as there are not too many.
    pub(super) fn new(base_ns: i64) -> Self {
        Self {
            base_ns: base_ns.max(1) as u64,
            shift: 0,
            first: 0,
            cells: Vec::new(),
            latest: Latest::default(),
        }
    }

    pub(super) fn base_ns(&self) -> i64 {
        self.base_ns as i64
    }

    /// How many times the base a step is.
    pub(super) fn bases_per_step(&self) -> u64 {
        1 << self.shift
    }

    pub(super) fn step_ns(&self) -> i64 {
        i64::try_from(u128::from(self.base_ns) << self.shift).unwrap_or(i64::MAX)
    }

    pub(super) fn start_ns(&self) -> i64 {
        let start = (u128::from(self.first) * u128::from(self.base_ns)) << self.shift;
        i64::try_from(start).unwrap_or(i64::MAX)
    }

    pub(super) fn cells(&self) -> &[C] {
        &self.cells
    }

    /// The place of an instant among the cells, made where there was none. Places stay valid until
    /// this is called again.
    pub(super) fn place(&mut self, at_ns: i64) -> usize {
        let index = (at_ns.max(0) as u64 / self.base_ns) >> self.shift;
        self.place_of(index)
    }

    #[inline]
    pub(super) fn at(&mut self, at_ns: i64) -> &mut C {
        let at = at_ns.max(0) as u64;
        if at < self.latest.from || at >= self.latest.to {
            self.turn_to(at);
        }
        &mut self.cells[self.latest.place]
    }

    fn turn_to(&mut self, at: u64) {
        let place = self.place(at as i64);
        let step = u128::from(self.base_ns) << self.shift;
        let from = u128::from(at) / step * step;
        let to = u64::try_from(from + step).unwrap_or(u64::MAX);
        self.latest = Latest { from: from as u64, to, place };
    }

    #[inline]
    pub(super) fn at_place(&mut self, place: usize) -> &mut C {
        &mut self.cells[place]
    }

    fn place_of(&mut self, mut index: u64) -> usize {
        self.latest = Latest::default();
        if self.cells.is_empty() {
            self.first = index;
        }
        while self.span_with(index) > MAX {
            self.fold();
            index >>= 1;
        }
        if index < self.first {
            let missing = (self.first - index) as usize;
            self.cells.splice(0..0, std::iter::repeat_n(C::default(), missing));
            self.first = index;
        }
        let place = (index - self.first) as usize;
        if place >= self.cells.len() {
            self.cells.resize(place + 1, C::default());
        }
        place
    }

    /// How many steps there would be with one at this index.
    fn span_with(&self, index: u64) -> u64 {
        let end = (self.first + self.cells.len() as u64).max(index.saturating_add(1));
        end - self.first.min(index)
    }

    fn fold(&mut self) {
        let first = self.first >> 1;
        let count = (self.first + self.cells.len() as u64).div_ceil(2) - first;
        let mut folded = vec![C::default(); count as usize];
        for (at, cell) in self.cells.iter().enumerate() {
            let place = ((self.first + at as u64) >> 1) - first;
            folded[place as usize].add(cell);
        }
        self.cells = folded;
        self.first = first;
        self.shift += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.cells.is_empty() {
            return;
        }
        let mut theirs = other.clone();
        while theirs.shift < self.shift {
            theirs.fold();
        }
        while self.shift < theirs.shift {
            self.fold();
        }
        let shift = self.shift;
        let last = theirs.first + theirs.cells.len() as u64 - 1;
        self.place_of(theirs.first);
        self.place_of(last >> (self.shift - shift));
        while theirs.shift < self.shift {
            theirs.fold();
        }
        let place = (theirs.first - self.first) as usize;
        for (mine, cell) in self.cells[place..].iter_mut().zip(&theirs.cells) {
            mine.add(cell);
        }
    }

    /// A series of a value of each cell.
    pub(super) fn series(
        &self,
        name: &str,
        quantity: Quantity,
        value: impl FnMut(&C) -> Option<f64>,
    ) -> Series {
        Series {
            name: name.to_owned(),
            quantity,
            start_ns: self.start_ns(),
            step_ns: self.step_ns(),
            values: self.cells.iter().map(value).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(instants: &[i64]) -> Steps<[u64; 3]> {
        let mut steps = Steps::<[u64; 3]>::new(10);
        for at in instants {
            steps.at(*at)[0] += 1;
        }
        steps
    }

    /// Instants that lie close together and centuries apart.
    fn instants() -> impl Strategy<Value = Vec<i64>> {
        let instant = (0_u32..40, 0_i64..1000).prop_map(|(shift, at)| at << shift);
        proptest::collection::vec(instant, 0..30)
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole_however_far_apart(a in instants(), b in instants()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }

        #[test]
        fn nothing_is_lost_and_there_are_never_too_many(all in instants()) {
            let steps = of(&all);
            prop_assert_eq!(steps.cells.iter().map(|cell| cell[0]).sum::<u64>(), all.len() as u64);
            prop_assert!(steps.cells.len() as u64 <= STEPS_MAX);
            if let Some(least) = all.iter().min() {
                prop_assert!(steps.start_ns() <= *least);
                prop_assert!(least - steps.start_ns() < steps.step_ns());
            }
        }
    }

    #[test]
    fn the_latest_instant_there_is_has_a_step() {
        let steps = of(&[0, i64::MAX]);
        assert_eq!(steps.cells.iter().map(|cell| cell[0]).sum::<u64>(), 2);
    }
}
