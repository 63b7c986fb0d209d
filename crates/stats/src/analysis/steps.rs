//! Sums over equal steps of time, in bounded memory.
//!
//! The length of a trace is not known before its end, and a part of a recording may begin hours
//! after its zero. So steps begin with the first one in use, and merge in pairs when there are too
//! many ([`Grid`]).

use serde::{Deserialize, Serialize};

use super::shape::{Quantity, Series};
pub(super) use crate::count::grid::Cell;
use crate::count::grid::Grid;

/// How many steps are kept at most unless fewer are asked for: a day and a half of seconds.
pub(super) const STEPS_MAX: usize = 1 << 17;

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
pub(super) struct Steps<C, const MAX: usize = STEPS_MAX> {
    base_ns: u64,
    grid: Grid<C, MAX, false>,
    #[serde(skip)]
    latest: Latest,
}

impl<C: Cell, const MAX: usize> Steps<C, MAX> {
    /// No step yet; one lasts `base_ns` as long as there are not too many.
    pub(super) fn new(base_ns: i64) -> Self {
        let base_ns = base_ns.max(1) as u64;
        Self { base_ns, grid: Grid::default(), latest: Latest::default() }
    }

    pub(super) fn base_ns(&self) -> i64 {
        self.base_ns as i64
    }

    /// How many times the base a step is.
    pub(super) fn bases_per_step(&self) -> u64 {
        1 << self.grid.shift()
    }

    pub(super) fn step_ns(&self) -> i64 {
        i64::try_from(u128::from(self.base_ns) << self.grid.shift()).unwrap_or(i64::MAX)
    }

    pub(super) fn start_ns(&self) -> i64 {
        let start = u128::from(self.grid.first()) * u128::from(self.base_ns);
        i64::try_from(start << self.grid.shift()).unwrap_or(i64::MAX)
    }

    pub(super) fn cells(&self) -> &[C] {
        self.grid.cells()
    }

    /// The place of an instant among the cells, made where there was none. Places stay valid until
    /// this is called again.
    pub(super) fn place(&mut self, at_ns: i64) -> usize {
        self.latest = Latest::default();
        self.grid.place(at_ns.max(0) as u64 / self.base_ns)
    }

    #[inline]
    pub(super) fn at(&mut self, at_ns: i64) -> &mut C {
        let at = at_ns.max(0) as u64;
        if at < self.latest.from || at >= self.latest.to {
            self.turn_to(at);
        }
        self.grid.at_place(self.latest.place)
    }

    fn turn_to(&mut self, at: u64) {
        let place = self.place(at as i64);
        let step = u128::from(self.base_ns) << self.grid.shift();
        let from = u128::from(at) / step * step;
        let to = u64::try_from(from + step).unwrap_or(u64::MAX);
        self.latest = Latest { from: from as u64, to, place };
    }

    #[inline]
    pub(super) fn at_place(&mut self, place: usize) -> &mut C {
        self.grid.at_place(place)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.latest = Latest::default();
        self.grid.merge(&other.grid);
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
            values: self.cells().iter().map(value).collect(),
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
        fn steps_begin_with_the_first_instant(all in instants()) {
            let steps = of(&all);
            let counted: u64 = steps.cells().iter().map(|cell| cell[0]).sum();
            prop_assert_eq!(counted, all.len() as u64);
            if let Some(least) = all.iter().min() {
                prop_assert!(steps.start_ns() <= *least);
                prop_assert!(least - steps.start_ns() < steps.step_ns());
            }
        }
    }

    #[test]
    fn the_latest_instant_there_is_has_a_step() {
        let steps = of(&[0, i64::MAX]);
        assert_eq!(steps.cells().iter().map(|cell| cell[0]).sum::<u64>(), 2);
    }
}
