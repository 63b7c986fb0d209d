//! Pairs of like requests where one side has more of them.
//!
//! If some program reads the device before the start, or a request is left out, the n-th of the one
//! side is not the n-th of the other, and all later pairs would be wrong. So requests are paired,
//! in order, with those nearest in time.

/// How much work one place may cost, and all of a window: beyond, the n-th belongs to the n-th.
const CELLS_MAX: usize = 1 << 22;
/// See [`CELLS_MAX`].
pub(super) const BUDGET: usize = 1 << 26;

/// What a pair costs that cannot be: more than all distances of a window together.
const IMPOSSIBLE: i128 = 1 << 96;

/// For each of `few` the number of its counterpart in `many`: in order, with the least sum of
/// distances, and as few as can be of which `is_possible` says that they cannot. Both are in the
/// order of time, and `few` is the shorter one. Takes what it costs from `budget`.
pub(super) fn nearest(
    few: &[i64],
    many: &[i64],
    is_possible: &dyn Fn(usize, usize) -> bool,
    budget: &mut usize,
) -> Vec<usize> {
    let spare = many.len().saturating_sub(few.len());
    let cells = few.len().saturating_mul(spare + 1);
    if cells > CELLS_MAX || cells > *budget {
        return (0..few.len().min(many.len())).collect();
    }
    *budget -= cells;
    // cost[s]: the least sum for the first requests when s of many were passed over so far.
    let mut cost = vec![0_i128; spare + 1];
    let mut steps: Vec<u32> = Vec::with_capacity(cells);
    for (i, want) in few.iter().enumerate() {
        let (mut best, mut passed) = (i128::MAX, 0);
        for s in 0..=spare {
            if cost[s] < best {
                (best, passed) = (cost[s], s);
            }
            steps.push(passed as u32);
            let distance = (i128::from(*want) - i128::from(many[i + s])).abs();
            cost[s] = best + distance + if is_possible(i, i + s) { 0 } else { IMPOSSIBLE };
        }
    }
    let mut s = (0..=spare).min_by_key(|s| cost[*s]).unwrap_or(0);
    let mut counterparts = vec![0; few.len()];
    for i in (0..few.len()).rev() {
        counterparts[i] = i + s;
        s = steps[i * (spare + 1) + s] as usize;
    }
    counterparts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(few: &[i64], many: &[i64]) -> Vec<usize> {
        nearest(few, many, &|_, _| true, &mut BUDGET.clone())
    }

    #[test]
    fn the_nearest_belong_together_and_stay_in_order() {
        assert_eq!(of(&[100, 200], &[0, 101, 199]), [1, 2]);
        assert_eq!(of(&[100, 200], &[101, 150, 199, 500]), [0, 2]);
        assert_eq!(of(&[100, 101], &[99, 100]), [0, 1]);
        assert_eq!(of(&[], &[1, 2]), [0_usize; 0]);
    }

    #[test]
    fn what_cannot_be_is_taken_only_where_nothing_else_is_left() {
        let of = |is_possible: &dyn Fn(usize, usize) -> bool| {
            nearest(&[100, 200], &[101, 150, 199], is_possible, &mut BUDGET.clone())
        };
        assert_eq!(of(&|i, j| (i, j) != (0, 0)), [1, 2]);
        assert_eq!(of(&|i, _| i != 0), [0, 2]);
    }

    #[test]
    fn what_would_cost_too_much_is_paired_in_turn() {
        assert_eq!(nearest(&[100, 200], &[0, 101, 199], &|_, _| true, &mut 0), [0, 1]);
    }
}
